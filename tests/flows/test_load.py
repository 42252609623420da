"""The load stage: what keeps the input contract becomes rows, what does not becomes rejects, and nothing gets lost."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows import load as load_module
from flows.errors import UnreadableSource
from flows.load import load_sources
from flows.sources import find_sources
from schemas.rows import ROWS
from schemas.tables import REJECTS
from tests import oracle
from tests.nights import settings_of

Save = Callable[[str, bytes | str], str]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a file of that name and gives its path."""

    def write(name: str, content: bytes | str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


class Loaded:
    """What the stage left: its result, its rows in order, its rejects."""

    def __init__(self, folder: Path, *inputs: dict[str, Any], **sections: Any) -> None:
        out = folder / "staging" / str(len(list(folder.glob("staging/*"))))
        out.mkdir(parents=True)
        settings = settings_of(folder / "w", *inputs, **sections)
        self.result = load_sources(find_sources(settings), settings, out, tell_rows=lambda _: None)
        self.rows = pl.read_parquet(out / "rows-*.parquet")
        self.rejects = pl.read_parquet(out / "rejects.parquet")
        self.parts = [pl.read_parquet(part) for part in sorted(out.glob("rows-*.parquet"))]
        assert self.result["rows_in"] == self.rows.height + self.rejects.height
        assert self.rows["row"].to_list() == list(range(self.rows.height))
        assert (self.rows.drop("row").schema, self.rejects.schema) == (ROWS.dtypes, REJECTS.dtypes)

    @property
    def refused(self) -> list[tuple[Any, ...]]:
        return self.rejects.select("locator", "reason").rows()

    def metadata(self) -> list[dict[str, Any]]:
        return [json.loads(value) if value else {} for value in self.rows["metadata"]]


def lines(*values: dict[str, Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


# --- rows and rejects -------------------------------------------------------------------------------------------------


def test_rows_that_break_the_contract_go_to_rejects_with_rule_and_place(tmp_path: Path, save: Save) -> None:
    path = save(
        "faq.jsonl",
        lines(
            {"id": "a", "workspace_id": "acme", "text": "good"},
            {"id": "b", "workspace_id": None, "text": "no scope"},
            {"id": "c", "workspace_id": "acme", "text": None},
            {"id": "d", "workspace_id": "acme", "text": " \u00a0\x1f\n"},
            {"id": "", "workspace_id": "acme", "text": "no id"},
        )
        + "not JSON\n",
    )
    loaded = Loaded(tmp_path, {"path": path})
    assert loaded.rows["source_row_id"].to_list() == ["a"]
    assert loaded.rejects.sort("locator").select("source", "source_row_id", "locator", "reason").rows() == [
        ("faq.jsonl", "b", "faq.jsonl:2", "scope_is_present"),
        ("faq.jsonl", "c", "faq.jsonl:3", "text_is_present"),
        ("faq.jsonl", "d", "faq.jsonl:4", "text_is_not_empty"),
        ("faq.jsonl", "", "faq.jsonl:5", "source_row_id_is_present"),
        ("faq.jsonl", None, "faq.jsonl:6", "line_parses"),
    ]
    assert loaded.rejects.filter(reason="line_parses")["detail"].to_list() == ["expected ident at column 2"]
    assert loaded.rejects["reject_id"].n_unique() == 5


def test_a_row_without_an_id_goes_by_its_place(tmp_path: Path, save: Save) -> None:
    loaded = Loaded(tmp_path, {"path": save("a.csv", "id,text\n,x\n7,y\n")})
    assert loaded.rows["source_row_id"].to_list() == ["a.csv:2", "7"]


def test_ids_that_begin_anew_in_each_file_lose_no_rows(tmp_path: Path, save: Save) -> None:
    save("ids/x.csv", "id,text\n1,a\n2,b\n,c\n")
    given = {"path": str(tmp_path / "ids")}
    alone = Loaded(tmp_path, given).rows["source_row_id"].to_list()
    save("ids/y.csv", "id,text\n1,d\n2,e\n4,f\n")
    both = Loaded(tmp_path, given).rows["source_row_id"].to_list()
    assert alone == ["x.csv#1", "x.csv#2", "x.csv:4"]
    assert both == [*alone, "y.csv#1", "y.csv#2", "y.csv#4"]
    assert Loaded(tmp_path, {"path": str(tmp_path / "ids" / "*.csv")}).rows["source_row_id"].to_list() == both


def test_ids_of_a_single_file_and_of_a_column_that_is_named_stay_as_they_are(tmp_path: Path, save: Save) -> None:
    path = save("ids/x.csv", "id,text\n1,a\n")
    for given in ({"path": path}, {"path": [path]}, {"path": str(tmp_path / "ids"), "id_column": "id"}):
        assert Loaded(tmp_path, given).rows["source_row_id"].to_list() == ["1"]


def test_a_spec_row_keeps_its_parsed_id_in_a_folder_of_many_files(tmp_path: Path, save: Save) -> None:
    save("specs/a.csv", "parsed_spec_id,value\np1,x\n")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "specs"), "kind": "spec_row"})
    assert loaded.rows.select("source_row_id", "parsed_spec_id").rows() == [("a.csv#p1", "p1")]


def test_ten_megabytes_of_text_come_in_and_one_byte_over_the_limit_does_not(tmp_path: Path, save: Save) -> None:
    fits, over = "é" * 5_000_000, "é" * 5_000_000 + "x"
    path = save("a.jsonl", lines({"id": 1, "text": fits}, {"id": 2, "text": over}))
    loaded = Loaded(tmp_path, {"path": path}, load={"max_text_bytes": 10_000_000})
    assert loaded.rows["text"].to_list() == [fits]
    assert loaded.refused == [("a.jsonl:2", "text_fits_max_text_bytes")]


def test_the_number_of_rows_told_on_the_way_is_that_of_the_rows_so_far(tmp_path: Path, save: Save) -> None:
    settings = settings_of(tmp_path / "w", {"path": save("a.csv", 'text\nx\n" "\ny\n')}, load={"batch_rows": 1})
    told: list[int] = []
    (tmp_path / "out").mkdir()
    load_sources(find_sources(settings), settings, tmp_path / "out", tell_rows=told.append)
    assert told == [1, 1, 2, 2]


def test_an_input_without_rows_leaves_tables_without_rows(tmp_path: Path, save: Save) -> None:
    loaded = Loaded(tmp_path, {"path": save("a.csv", "id,text\n")})
    assert loaded.result == {"rows_in": 0, "rows": 0, "kinds": ["text"], "skipped": []}
    assert (loaded.rows.height, loaded.rejects.height) == (0, 0)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "no text column (tried text, content, body); name one with --text-column or text_column"),
        ({"text_column": "words"}, "no column 'words' for text; there are note"),
        ({"text_column": "note", "id_column": "key"}, "no column 'key' for row id; there are note"),
        ({"text_column": "note", "scope_by": ["tenant"]}, "no scope column 'tenant'; name one with --scope-column"),
    ],
)
def test_a_file_without_a_column_that_is_needed_is_refused(
    tmp_path: Path, save: Save, said: dict[str, Any], why: str
) -> None:
    path = save("a.csv", "note\nx\n")
    with pytest.raises(UnreadableSource) as refused:
        Loaded(tmp_path, {"path": path, **said})
    assert str(refused.value).startswith(f"{path}: {why}")


# --- many files -------------------------------------------------------------------------------------------------------


def test_many_files_of_many_kinds_are_one_source(tmp_path: Path, save: Save) -> None:
    save("in/a.csv", "id,text\n1,x\n")
    save("in/b.jsonl", lines({"id": 2, "text": "y", "extra": [1]}))
    save("in/c/d.md", "z")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in")})
    assert loaded.rows.select("source", "source_row_id", "locator", "text").rows() == [
        ("in", "a.csv#1", "a.csv:2", "x"),
        ("in", "b.jsonl#2", "b.jsonl:1", "y"),
        ("in", "c/d.md", "c/d.md#0", "z"),
    ]


def test_files_share_parts_and_parts_are_bounded(tmp_path: Path, save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        save(f"in/{number}.csv", "text\n" + "x\n" * 3)
    given = {"path": str(tmp_path / "in")}
    assert [part.height for part in Loaded(tmp_path, given).parts] == [30]
    monkeypatch.setattr(load_module, "_PART_ROWS", 10)
    assert [part.height for part in Loaded(tmp_path, given).parts] == [9, 3, 9, 3, 6]
    monkeypatch.setattr(load_module, "_PART_ROWS", 1000)
    monkeypatch.setattr(load_module, "_PART_BATCHES", 5)
    assert [part.height for part in Loaded(tmp_path, given).parts] == [12, 3, 12, 3]
    monkeypatch.setattr(load_module, "_PART_BATCHES", 1000)
    monkeypatch.setattr(load_module, "_PART_BYTES", 1)
    assert [part.height for part in Loaded(tmp_path, given).parts] == [3] * 10


# --- files that cannot be read ----------------------------------------------------------------------------------------

HALF = "id,text\n" + "".join(f"b{n},x\n" for n in range(5)) + "short\n" + 'b9,"never closed\n'


@pytest.mark.parametrize("part_rows", [2, 5, 1000])
def test_a_file_that_is_skipped_leaves_nothing_behind_and_is_told(
    tmp_path: Path, save: Save, monkeypatch: pytest.MonkeyPatch, part_rows: int
) -> None:
    monkeypatch.setattr(load_module, "_PART_ROWS", part_rows)
    save("in/a.csv", "id,text\na0,x\na1,y\na2,\n")
    save("in/b.csv", HALF)
    save("in/c.csv", "id,text\nc0,z\n")
    load = {"on_unreadable": "skip", "batch_rows": 1}
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in")}, load=load)
    assert loaded.rows["source_row_id"].to_list() == ["a.csv#a0", "a.csv#a1", "c.csv#c0"]
    assert loaded.refused == [("a.csv:4", "text_is_present")]
    assert loaded.result["rows_in"] == 4
    (line,) = loaded.result["skipped"]
    assert line.startswith(f"{tmp_path}/in/b.csv: line 8: a quote is opened and never closed")


def test_without_skip_the_first_file_that_cannot_be_read_ends_the_load(tmp_path: Path, save: Save) -> None:
    save("in/a.csv", "id,text\n1,x\n")
    save("in/b.csv", HALF)
    with pytest.raises(UnreadableSource, match=r"in/b\.csv: line 8: a quote is opened"):
        Loaded(tmp_path, {"path": str(tmp_path / "in")})


def test_every_file_may_be_skipped(tmp_path: Path, save: Save) -> None:
    save("in/a.csv", "")
    save("in/b.csv", HALF)
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in")}, load={"on_unreadable": "skip"})
    assert (loaded.result["rows_in"], len(loaded.result["skipped"])) == (0, 2)


def test_a_file_that_is_deleted_before_it_is_read_is_refused(tmp_path: Path, save: Save) -> None:
    path = save("a.csv", "text\nx\n")
    settings = settings_of(tmp_path / "w", {"path": path})
    sources = find_sources(settings)
    Path(path).unlink()
    with pytest.raises(UnreadableSource) as refused:
        load_sources(sources, settings, tmp_path, tell_rows=lambda _: None)
    assert str(refused.value) == f"{path}: cannot be read as csv: No such file or directory"


def test_what_a_folder_leaves_out_is_told(tmp_path: Path, save: Save) -> None:
    save("in/a.csv", "text\nx\n")
    save("in/b.xlsx", "PK")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in")})
    assert loaded.result["skipped"] == [f"{tmp_path}/in: 1 file of no known kind (.xlsx)"]


# --- windows ----------------------------------------------------------------------------------------------------------

SMALL = {"tokens": 3, "overlap": 1}


def test_a_document_comes_in_windows_with_their_index(tmp_path: Path, save: Save) -> None:
    save("docs/acme/guide.txt", "one two three four five six")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "docs"), "scope_by": ["folder"]}, chunking=SMALL)
    assert loaded.rows.select("scope", "source_doc_id", "source_row_id", "chunk_index", "locator", "text").rows() == [
        ("acme", "acme/guide.txt", "acme/guide.txt", 0, "acme/guide.txt#0", "one two three"),
        ("acme", "acme/guide.txt", "acme/guide.txt", 1, "acme/guide.txt#1", "three four five"),
        ("acme", "acme/guide.txt", "acme/guide.txt", 2, "acme/guide.txt#2", "five six"),
    ]
    assert loaded.metadata()[0] == {"name": "guide.txt", "path": "acme/guide.txt", "size_bytes": 27}


def test_an_empty_document_is_a_reject_and_not_a_loss(tmp_path: Path, save: Save) -> None:
    save("docs/a.txt", "")
    save("docs/b.md", " \n")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "docs")})
    assert loaded.refused == [("a.txt#0", "text_is_not_empty"), ("b.md#0", "text_is_not_empty")]


def test_documents_stay_whole_where_that_is_asked_for(tmp_path: Path, save: Save) -> None:
    path = save("a.txt", "one two three four")
    loaded = Loaded(tmp_path, {"path": path, "chunk": False}, chunking=SMALL)
    assert loaded.rows.select("locator", "chunk_index", "text").rows() == [("a.txt", None, "one two three four")]


@pytest.mark.parametrize("number_like", ["\x1fnumber", "content#", "n#"])
def test_rows_of_a_table_are_cut_where_that_is_asked_for(tmp_path: Path, save: Save, number_like: str) -> None:
    given = lines({"id": 1, "content": "one two three four", number_like: 7}, {"id": 2, "content": None})
    loaded = Loaded(tmp_path, {"path": save("a.jsonl", given), "chunk": True}, chunking=SMALL)
    assert loaded.rows.select("source_row_id", "chunk_index", "locator", "text").rows() == [
        ("1", 0, "a.jsonl:1#0", "one two three"),
        ("1", 1, "a.jsonl:1#1", "three four"),
    ]
    assert loaded.metadata() == [{number_like: 7}] * 2
    assert loaded.refused == [("a.jsonl:2#0", "text_is_present")]


def test_refused_lines_of_a_table_that_is_cut_are_rejects_too(tmp_path: Path, save: Save) -> None:
    loaded = Loaded(tmp_path, {"path": save("a.csv", "id,text\n1,x\n2\n"), "chunk": True})
    assert loaded.refused == [("a.csv:3", "line_parses")]


def test_a_text_over_the_limit_can_come_in_windows(tmp_path: Path, save: Save) -> None:
    given = {"path": save("a.jsonl", lines({"text": "word " * 100})), "chunk": True}
    assert Loaded(tmp_path, given, chunking=SMALL, load={"max_text_bytes": 20}).refused == []
    assert Loaded(tmp_path, given, load={"max_text_bytes": 20}).refused == [("a.jsonl:1#0", "text_fits_max_text_bytes")]


def test_texts_that_are_windows_already_keep_their_index(tmp_path: Path, save: Save) -> None:
    path = save("a.csv", "id,chunk_index,text\nd,0,x\nd,1,y\nd,two,z\n")
    loaded = Loaded(tmp_path, {"path": path})
    assert loaded.rows.select("source_row_id", "chunk_index", "locator").rows() == [
        ("d", 0, "a.csv:2#0"),
        ("d", 1, "a.csv:3#1"),
    ]
    assert loaded.refused == [("a.csv:4", "chunk_index_is_a_whole_number")]


def test_texts_that_are_windows_already_are_not_cut_again(tmp_path: Path, save: Save) -> None:
    path = save("a.csv", "id,chunk_index,text\nd,0,x\n")
    with pytest.raises(UnreadableSource) as refused:
        Loaded(tmp_path, {"path": path, "chunk": True})
    assert str(refused.value) == (
        f"{path}: has a column chunk_index, so its texts are windows already; leave out chunk = true"
    )


def test_what_is_no_text_is_not_cut(tmp_path: Path, save: Save) -> None:
    path = save("a.jsonl", lines({"text": [1, 2]}))
    with pytest.raises(UnreadableSource) as refused:
        Loaded(tmp_path, {"path": path, "chunk": True})
    assert str(refused.value) == f"{path}: chunk = true cuts text, and 'text' is lists or objects"
    pl.DataFrame({"text": [[1]]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(UnreadableSource, match=r"a\.parquet: chunk = true cuts text, and 'text' is List\(Int64\)$"):
        Loaded(tmp_path, {"path": str(tmp_path / "a.parquet"), "chunk": True})


def test_a_column_of_nulls_is_not_cut_but_refused_row_by_row(tmp_path: Path) -> None:
    pl.DataFrame({"text": [None, None]}).write_parquet(tmp_path / "a.parquet")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "a.parquet"), "chunk": True})
    assert loaded.refused == [("a.parquet:1#0", "text_is_present"), ("a.parquet:2#0", "text_is_present")]


# --- files by their bytes ---------------------------------------------------------------------------------------------


def test_a_file_is_hashed_by_its_bytes(tmp_path: Path, save: Save) -> None:
    big = b"\xff\x00\r\n" * 600_000
    save("up/acme/logo.bin", big)
    save("up/acme/empty", b"")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "up"), "kind": "file", "scope_by": ["folder"]})
    assert loaded.result["kinds"] == ["file"]
    assert loaded.rows.select("scope", "source_row_id", "locator", "text", "content_hash").rows() == [
        ("acme", "acme/empty", "acme/empty", None, oracle.file_hash("acme", b"")),
        ("acme", "acme/logo.bin", "acme/logo.bin", None, oracle.file_hash("acme", big)),
    ]
    assert loaded.metadata()[1] == {"name": "logo.bin", "path": "acme/logo.bin", "size_bytes": len(big)}


def test_a_file_without_a_scope_is_a_reject(tmp_path: Path, save: Save) -> None:
    save("up/logo.bin", b"x")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "up"), "kind": "file", "scope_by": ["folder"]})
    assert loaded.refused == [("logo.bin", "scope_is_present")]


def test_bytes_in_a_column_are_files_too(tmp_path: Path) -> None:
    contents = [b"\xff\x00", b"", None, b"x"]
    rows = pl.DataFrame({"id": ["a", "b", "c", "d"], "bytes": contents, "workspace_id": ["w", "w", "w", None]})
    rows.write_parquet(tmp_path / "a.parquet")
    given = {"path": str(tmp_path / "a.parquet"), "kind": "file", "format": "parquet"}
    loaded = Loaded(tmp_path, given)
    assert loaded.rows.select("source_row_id", "content_hash").rows() == [
        ("a", oracle.file_hash("w", b"\xff\x00")),
        ("b", oracle.file_hash("w", b"")),
    ]
    assert loaded.refused == [("a.parquet:3", "file_has_bytes"), ("a.parquet:4", "scope_is_present")]
    assert loaded.metadata() == [{}, {}]


def test_text_in_the_column_of_bytes_is_its_utf_8(tmp_path: Path, save: Save) -> None:
    given = {"path": save("a.csv", "content\n é \n"), "kind": "file", "format": "csv", "scope": "w"}
    assert Loaded(tmp_path, given).rows["content_hash"].to_list() == [oracle.file_hash("w", " é ".encode())]


def test_a_table_of_files_without_a_column_of_bytes_is_refused(tmp_path: Path, save: Save) -> None:
    path = save("a.csv", "id\n1\n")
    with pytest.raises(UnreadableSource) as refused:
        Loaded(tmp_path, {"path": path, "kind": "file", "format": "csv"})
    assert str(refused.value) == f"{path}: no column with the bytes; name one with text_column"


@pytest.mark.parametrize("values", [[1], [[1]], [{"a": 1}], [True]], ids=str)
def test_a_column_that_holds_no_bytes_is_refused(tmp_path: Path, values: list[Any]) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"bytes": values}).write_parquet(path)
    with pytest.raises(
        UnreadableSource, match=r'a\.parquet: kind = "file" takes bytes, and \'bytes\' is .*; name another'
    ):
        Loaded(tmp_path, {"path": str(path), "kind": "file", "format": "parquet"})


def test_a_column_of_lists_or_objects_holds_no_bytes(tmp_path: Path, save: Save) -> None:
    path = save("a.jsonl", lines({"bytes": [1]}, {"bytes": "x"}))
    with pytest.raises(UnreadableSource, match=r"takes bytes, and 'bytes' is lists or objects; name another column$"):
        Loaded(tmp_path, {"path": path, "kind": "file", "format": "jsonl"})


def test_bytes_that_cannot_be_read_are_refused_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / "memory.bin"
    path.symlink_to("/proc/self/mem")  # a regular file that nobody, not even root, can read from its beginning
    given = {"path": str(path), "kind": "file"}
    with pytest.raises(UnreadableSource) as refused:
        Loaded(tmp_path, given)
    assert str(refused.value) == f"{path}: its bytes cannot be read: {os.strerror(5)}"
    assert Loaded(tmp_path, given, load={"on_unreadable": "skip"}).result["skipped"] == [str(refused.value)]


# --- spec rows and memories -------------------------------------------------------------------------------------------


def test_spec_rows_by_mapped_names_keep_their_raw_columns(tmp_path: Path, save: Save) -> None:
    path = save("specs.csv", "Ref,Group,Item,Reading,Unit\nr1,Engine,Power, 110 ,kW\nr2,,,,\n")
    spec = {"parent_category": "Group", "specification": "Item", "value": "Reading", "additional": ["Unit", "Ref"]}
    given = {"path": path, "kind": "spec_row", "scope": "w", "id_column": "Ref", "spec_columns": spec}
    loaded = Loaded(tmp_path, {**given, "spec_columns": spec | {"additional": ["Unit"]}})
    assert loaded.rows["text"].to_list() == [oracle.spec_text(("Engine", "", "Power", "110", "kW"))]
    (metadata,) = loaded.metadata()
    raw = {key: value for key, value in metadata.items() if key.startswith("table_column_")}
    assert raw == {
        "table_column_1": "r1",
        "table_column_2": "Engine",
        "table_column_3": "Power",
        "table_column_4": " 110 ",
        "table_column_5": "kW",
    }
    assert loaded.refused == [("specs.csv:3", "spec_row_is_not_empty")]
    several = Loaded(tmp_path, given)
    assert several.rows["text"][0] == oracle.spec_text(("Engine", "", "Power", "110", "Unit: kW; Ref: r1"))


def test_spec_rows_have_their_parsed_id(tmp_path: Path, save: Save) -> None:
    path = save("specs.csv", "parsed_spec_id,category,spec,value\np1,Engine,Power,110\n")
    loaded = Loaded(tmp_path, {"path": path, "kind": "spec_row"})
    assert loaded.rows.select("source_row_id", "parsed_spec_id", "kind").rows() == [("p1", "p1", "spec_row")]


def test_a_spec_table_without_any_of_the_five_is_refused(tmp_path: Path, save: Save) -> None:
    with pytest.raises(UnreadableSource, match=r"a\.csv: none of the five spec columns .* map them with spec_columns"):
        Loaded(tmp_path, {"path": save("a.csv", "a,b\n1,2\n"), "kind": "spec_row"})


def test_memories_were_seen_at_their_timestamp(tmp_path: Path, save: Save) -> None:
    path = save(
        "m.jsonl",
        lines(
            {"owner": "ana", "content": "likes tea", "timestamp": "2024-03-01T10:00:00+02:00"},
            {"owner": "ana", "content": "likes tea", "timestamp": None},
            {"owner": "ana", "content": "likes tea", "timestamp": "yesterday"},
        ),
    )
    loaded = Loaded(tmp_path, {"path": path, "kind": "memory", "scope_by": ["owner"]})
    moment = datetime(2024, 3, 1, 8, tzinfo=UTC)
    assert loaded.rows.select("kind", "scope", "seen_at").rows() == [("memory", "ana", moment), ("memory", "ana", None)]
    assert loaded.refused == [("m.jsonl:3", "seen_at_is_a_timestamp")]


def test_force_and_seen_at_come_from_their_columns(tmp_path: Path, save: Save) -> None:
    path = save("a.csv", "text,keep,at\nx,yes,2024-03-01\ny,,\n")
    loaded = Loaded(tmp_path, {"path": path, "force_column": "keep", "seen_at_column": "at"})
    assert loaded.rows.select("force", "seen_at").rows() == [(True, datetime(2024, 3, 1, tzinfo=UTC)), (False, None)]


# --- scopes -----------------------------------------------------------------------------------------------------------


def test_the_default_scope_is_for_inputs_that_have_none_of_the_columns(tmp_path: Path, save: Save) -> None:
    path = save("a.csv", "text\nx\n")
    assert Loaded(tmp_path, {"path": path}).rows["scope"].to_list() == ["default"]
    assert Loaded(tmp_path, {"path": path}, scope={"default": "home"}).rows["scope"].to_list() == ["home"]
    with pytest.raises(UnreadableSource, match=r"a\.csv: no scope column 'workspace_id'; name one with --scope-column"):
        Loaded(tmp_path, {"path": path}, scope={"required": True})


def test_kinds_are_those_of_the_inputs(tmp_path: Path, save: Save) -> None:
    inputs = [{"path": save("a.csv", "text\nx\n")}, {"path": save("b.csv", "value\nx\n"), "kind": "spec_row"}]
    assert Loaded(tmp_path, *inputs).result["kinds"] == ["spec_row", "text"]


def test_the_scope_can_stand_in_the_names_of_folders(tmp_path: Path) -> None:
    rows = pl.DataFrame({"workspace_id": ["acme", "boreal"], "id": ["1", "1"], "text": ["x", "x"]})
    rows.lazy().sink_parquet(pl.PartitionBy(tmp_path / "in", key="workspace_id", include_key=False), mkdir=True)
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in")})
    assert loaded.rows.select("scope", "text").rows() == [("acme", "x"), ("boreal", "x")]


def test_what_folders_say_is_metadata_and_no_id(tmp_path: Path, save: Save) -> None:
    save("in/workspace_id=acme/id=9/force=true/a.csv", "text\nx\ny\n")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in")})
    place = "workspace_id=acme/id=9/force=true/a.csv"
    assert loaded.rows.select("scope", "source_row_id", "force").rows() == [
        ("acme", f"{place}:2", False),
        ("acme", f"{place}:3", False),
    ]
    assert loaded.metadata() == [{"id": "9", "force": "true"}] * 2


def test_a_folder_that_names_no_scope_is_not_the_default_scope(tmp_path: Path, save: Save) -> None:
    save("in/workspace_id=acme/a.csv", "text\nx\n")
    save("in/workspace_id=/a.csv", "text\ny\n")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in")})
    assert loaded.rows.select("scope", "text").rows() == [("acme", "x")]
    assert loaded.refused == [("workspace_id=/a.csv:2", "scope_is_present")]


def save_as(path: Path, rows: pl.DataFrame) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".csv":
            rows.write_csv(path)
        case ".jsonl":
            rows.write_ndjson(path)
        case _:
            rows.write_parquet(path)


SCOPED = pl.DataFrame({"id": [1, 2], "text": ["x", "y"], "workspace_id": ["acme", "acme"]})


@pytest.mark.parametrize("part_rows", [1, 1000])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("lacking", [{"a"}, {"b"}, {"c"}, {"a", "c"}], ids=lambda names: "".join(sorted(names)))
def test_an_input_goes_to_the_default_scope_with_all_its_files_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: set[str], suffix: str, part_rows: int
) -> None:
    monkeypatch.setattr(load_module, "_PART_ROWS", part_rows)
    names = ["a", "b", "c"]
    for name in names:
        save_as(tmp_path / "in" / f"{name}{suffix}", SCOPED.drop("workspace_id") if name in lacking else SCOPED)
    save_as(tmp_path / "before.csv", SCOPED)
    given = {"path": str(tmp_path / "in")}, {"path": str(tmp_path / "before.csv")}
    scoped = next(name for name in names if name not in lacking)
    told = [
        f"{tmp_path}/in/{name}{suffix}: no column workspace_id, which {scoped}{suffix} of this input has; "
        "add what is missing, or make the file an input of its own with a scope"
        for name in sorted(lacking)
    ]
    with pytest.raises(UnreadableSource) as refused:
        Loaded(tmp_path, *reversed(given))
    assert str(refused.value) == told[0]
    for inputs in (given, given[::-1]):
        loaded = Loaded(tmp_path, *inputs, load={"on_unreadable": "skip", "batch_rows": 1})
        assert loaded.result["skipped"] == told
        assert loaded.rows["scope"].unique().to_list() == ["acme"]
        assert loaded.rows.height == 2 * (4 - len(lacking))


def test_files_that_all_lack_the_scope_are_in_the_default_scope_beside_an_input_that_has_it(
    tmp_path: Path, save: Save
) -> None:
    save("in/a.csv", "text\nx\n")
    save("in/b.md", "y")
    scoped = save("c.csv", "text,workspace_id\nz,acme\n")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in")}, {"path": scoped})
    assert loaded.rows["scope"].to_list() == ["default", "default", "acme"]


def test_two_files_of_an_input_with_one_scope_for_all_need_no_column(tmp_path: Path, save: Save) -> None:
    save("in/a.csv", "text\nx\n")
    save("in/b.csv", "text,workspace_id\ny,acme\n")
    loaded = Loaded(tmp_path, {"path": str(tmp_path / "in"), "scope": "home"})
    assert loaded.rows["scope"].to_list() == ["home", "home"]


def test_a_file_is_told_by_all_the_scope_columns_that_it_lacks(tmp_path: Path, save: Save) -> None:
    save("in/a.csv", "text,tenant,team\nx,acme,red\n")
    save("in/b.csv", "text\ny\n")
    with pytest.raises(UnreadableSource, match=r"b\.csv: no column tenant or team, which a\.csv of this input has;"):
        Loaded(tmp_path, {"path": str(tmp_path / "in")}, scope={"by": ["tenant", "team"]})


def test_a_scope_with_the_separator_of_several_columns_is_a_reject(tmp_path: Path, save: Save) -> None:
    loaded = Loaded(tmp_path, {"path": save("a.csv", "text,workspace_id\nx,a␟b\ny,a/b\n")})
    assert loaded.refused == [("a.csv:2", "scope_has_no_separator")]
    assert loaded.rows["scope"].to_list() == ["a/b"]


def test_lists_and_objects_read_the_same_alone_and_beside_others(tmp_path: Path, save: Save) -> None:
    one = {"id": 1, "messages": [{"role": "u", "content": "hi"}], "tags": {"b": [1], "a": None}}
    other = {"id": 2, "messages": [{"role": "u", "content": "hi", "name": "x"}], "tags": {"c": 1.5}}
    texts, metadata = [], []
    for rows in ([one], [one, other], [other, one]):
        loaded = Loaded(tmp_path, {"path": save("a.jsonl", lines(*rows)), "text_column": "messages"})
        row = loaded.rows.with_columns(read=pl.Series(loaded.metadata(), dtype=pl.Object)).filter(source_row_id="1")
        texts.append(row["text"].item())
        metadata.append(row["read"].item())
    assert texts == ['[{"content":"hi","role":"u"}]'] * 3
    assert metadata == [{"tags": {"a": None, "b": [1]}}] * 3
