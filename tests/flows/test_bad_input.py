"""Bad input at the level of a whole night: a file that cannot be read ends it in one line that names the file, with
nothing published; a row that cannot be read is a reject with its rule and place. Either way the next night is good."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.console import Progress
from flows.errors import NightfoldError, UnreadableSource
from flows.night import night
from flows.plan import Plan, Stage, StageReport
from flows.run_rows import NothingPublished
from flows.settings import SettingsRefused
from flows.warehouse import Warehouse
from tests.nights import published, run_night, settings_of

Save = Callable[[str, bytes | str], str]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a file of that name and gives its path."""

    def write(name: str, content: bytes | str) -> str:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


class House:
    """A warehouse with a good night behind it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = "bad"

    def good_night(self, text: str) -> None:
        """A night over one good row, which must be published."""
        good = self.folder.with_name("good.csv")
        good.write_text(f"id,text\n{text},{text}\n")
        run = run_night(self.folder, {"path": str(good)}).run
        assert (run.status, run.rows_in, run.chunks_new) == ("published", 1, 1)

    def refuses(self, *inputs: dict[str, Any], error: type[NightfoldError] = UnreadableSource, **sections: Any) -> str:
        """The one line the night ends in; readers see what they saw before, and the failure is on record."""
        warehouse = Warehouse(str(self.folder))
        before, tables = warehouse.published(), self._tables()
        with pytest.raises(error) as refused:
            run_night(self.folder, *inputs, **sections)
        line = str(refused.value)
        assert "\n" not in line
        assert warehouse.published() == before
        assert self._tables() == tables
        last = warehouse.runs()[-1]
        assert (last.status, last.note) == ("failed", line)
        return line

    def rejects(self, given: dict[str, Any], **sections: Any) -> list[tuple[str, str]]:
        """Place and rule of what a night refuses that is published all the same, with every row accounted for."""
        run = run_night(self.folder, {"name": self.source, **given}, **sections).run
        assert run.rows_in == run.rows_rejected + run.occurrences_new + run.occurrences_known
        refused = published(self.folder, "rejects").filter(run_id=run.run_id)
        assert refused.height == run.rows_rejected
        return refused.sort("locator").select("locator", "reason").rows()

    def chunks(self) -> pl.DataFrame:
        return published(self.folder, "chunks").filter(source=self.source).sort("source_row_id")

    def texts(self) -> list[str]:
        return self.chunks()["text"].to_list()

    def _tables(self) -> dict[str, list[dict[str, Any]]]:
        return {name: published(self.folder, name).to_dicts() for name in ("chunks", "occurrences", "rejects")}


@pytest.fixture(scope="module")
def model_house(tmp_path_factory: pytest.TempPathFactory) -> House:
    house = House(tmp_path_factory.mktemp("model") / "warehouse")
    house.good_night("the night before")
    return house


@pytest.fixture
def house(model_house: House, tmp_path: Path) -> Iterator[House]:
    """Whatever a test does to it, the night after is a good one."""
    house = House(Path(shutil.copytree(model_house.folder, tmp_path / "warehouse")))
    yield house
    house.good_night("the night after")


def lines(*values: dict[str, Any]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


# --- files that are not there, or not what they should be -------------------------------------------------------------


def test_no_such_file(house: House, tmp_path: Path) -> None:
    line = f"{tmp_path}/missing.csv: no such file, folder or glob with a match"
    assert house.refuses({"path": f"{tmp_path}/missing.csv"}) == line


def test_no_such_file_among_good_ones(house: House, save: Save, tmp_path: Path) -> None:
    good = {"path": save("a.csv", "text\nx\n")}
    assert house.refuses(good, {"path": f"{tmp_path}/missing.csv"}).startswith(f"{tmp_path}/missing.csv: no such file")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.arrow", "a.duckdb"])
def test_an_empty_file(house: House, save: Save, name: str) -> None:
    path = save(name, b"")
    assert house.refuses({"path": path}) == f"{path}: the file is empty (0 bytes)"


def test_a_folder_with_nothing_that_can_be_read(house: House, save: Save, tmp_path: Path) -> None:
    save("a.xlsx", "PK")
    save(".hidden.csv", "text\nx\n")
    assert house.refuses({"path": f"{tmp_path}/in"}) == (
        f"{tmp_path}/in: no file in it can be read as text; it has 1 file of no known kind (.xlsx)"
    )


def test_a_truncated_parquet(house: House, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": [f"text {n}" for n in range(500)]}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-200])
    assert house.refuses({"path": str(path)}).startswith(
        f"{path}: cannot be read as parquet: Parquet magic bytes not found"
    )


def test_a_parquet_with_a_broken_page(house: House, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"text {n}" for n in range(500)]})
    pq.write_table(table, path, row_group_size=100, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 - 200 : len(content) // 2] = b"\xff" * 200
    path.write_bytes(content)
    line = house.refuses({"path": str(path)})
    assert line.startswith(f"{path}: cannot be read as parquet: ")


def test_a_directory_in_place_of_a_file_is_taken_for_its_parts(house: House, tmp_path: Path) -> None:
    folder = tmp_path / "corpus.parquet"
    folder.mkdir()
    assert house.refuses({"path": str(folder)}) == (
        f"{folder}: no file in it can be read as text; it has nothing of it"
    )
    pl.DataFrame({"text": ["x"]}).write_parquet(folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()
    assert house.rejects({"path": str(folder)}) == []
    assert house.texts() == ["x"]


def test_a_loop_of_links_reads_each_file_once(house: House, save: Save, tmp_path: Path) -> None:
    save("a.csv", "text\nx\n")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    run = run_night(house.folder, {"path": f"{tmp_path}/in/**/*.csv", "name": house.source}).run
    assert (run.rows_in, run.occurrences_new) == (1, 1)


def test_a_link_to_itself(house: House, tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("a.csv")
    line = f"{tmp_path}/a.csv: a link that leads to no file; mend it, or remove it"
    assert house.refuses({"path": f"{tmp_path}/a.csv"}) == line


def test_a_file_that_may_not_be_read(house: House, save: Save) -> None:
    path = save("a.csv", "text\nx\n")
    Path(path).chmod(0)
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root")
    assert house.refuses({"path": path}) == f"{path}: cannot be read as csv: Permission denied"


@pytest.mark.parametrize("kind", ["text", "file"])
def test_a_file_that_cannot_be_read_by_anyone(house: House, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "memory.txt"
    path.symlink_to("/proc/self/mem")
    line = house.refuses({"path": str(path), "kind": kind})
    assert line.startswith(f"{path}: ")
    assert os.strerror(5) in line


def test_a_pipe_does_not_hang_the_night(house: House, tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    assert house.refuses({"path": str(path)}).startswith(f"{path}: not a regular file")


@pytest.mark.parametrize("pattern", ["a.csv", "*.csv"])
def test_a_file_that_is_deleted_between_planning_and_reading(
    house: House, save: Save, tmp_path: Path, pattern: str
) -> None:
    path = Path(save("a.csv", "text\nx\n"))

    def delete_first(name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport:
        path.unlink(missing_ok=True)
        return stage(plan, progress)

    before = Warehouse(str(house.folder)).published()
    settings = settings_of(house.folder, {"path": f"{tmp_path}/in/{pattern}"})
    with pytest.raises(UnreadableSource, match=r"in/(a|\*)\.csv: no such file, folder or glob with a match$"):
        night(settings, progress=Progress(quiet=True), run_stage=delete_first)
    assert Warehouse(str(house.folder)).published() == before


# --- columns ----------------------------------------------------------------------------------------------------------


def test_a_missing_text_column(house: House, save: Save) -> None:
    path = save("a.csv", "id,words\n1,x\n")
    assert house.refuses({"path": path}) == (
        f"{path}: no text column (tried text, content, body); name one with --text-column or text_column; "
        "there are id, words"
    )
    assert house.rejects({"path": path, "text_column": "words"}) == []


def test_a_missing_scope_column_that_was_asked_for(house: House, save: Save) -> None:
    path = save("a.csv", "id,text\n1,x\n")
    line = house.refuses({"path": path, "scope_by": ["tenant"]})
    assert line.startswith(f"{path}: no scope column 'tenant'; name one with --scope-column or scope_by")


def test_a_header_that_names_a_column_twice(house: House, save: Save) -> None:
    path = save("a.csv", "id,text,text\n1,x,y\n")
    assert house.refuses({"path": path}) == f"{path}: the header names 'text' more than once; rename one of them"


def test_a_text_column_of_nested_values_is_their_json(house: House, tmp_path: Path) -> None:
    pl.DataFrame({"id": ["1", "2"], "text": [["a", "é"], None]}).write_parquet(tmp_path / "a.parquet")
    assert house.rejects({"path": f"{tmp_path}/a.parquet"}) == [("a.parquet:2", "text_is_present")]
    assert house.texts() == ['["a","é"]']


def test_a_text_column_of_bytes_is_read_as_utf_8(house: House, tmp_path: Path) -> None:
    pl.DataFrame({"text": ["é".encode(), b"caf\xe9", b"x"]}).write_parquet(tmp_path / "a.parquet")
    assert house.rejects({"path": f"{tmp_path}/a.parquet"}) == [("a.parquet:2", "text_is_present")]
    assert house.texts() == ["é", "x"]


def test_a_text_column_with_nan(house: House, tmp_path: Path) -> None:
    pl.DataFrame({"text": [1.5, float("nan"), 2.0]}).write_parquet(tmp_path / "a.parquet")
    assert house.rejects({"path": f"{tmp_path}/a.parquet"}) == [("a.parquet:2", "text_is_present")]
    assert house.texts() == ["1.5", "2"]


def test_a_text_column_of_nothing_but_nan_publishes_nothing(house: House, tmp_path: Path) -> None:
    pl.DataFrame({"text": [float("nan")] * 3}).write_parquet(tmp_path / "a.parquet")
    line = house.refuses({"path": f"{tmp_path}/a.parquet"}, error=NothingPublished)
    assert line.startswith("3 of 3 rows were rejected (3 text_is_present), more than [guard] max_reject_share = 0.5; ")


# --- encodings and lines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_wrong_encoding(house: House, save: Save, name: str) -> None:
    rows = "text\nx\nGröße\n" if name == "a.csv" else '{"text":"x"}\n\n{"text":"Größe"}\n'
    path = save(name, rows.encode("latin-1"))
    assert house.refuses({"path": path}) == (
        f'{path}: line 3 is not utf-8; set encoding = "latin-1" or "cp1252" or "utf-16" for this input, '
        "or save the file as UTF-8"
    )
    assert house.rejects({"path": path, "encoding": "latin-1"}) == []
    assert house.texts() == ["x", "Größe"]


def test_a_document_in_a_wrong_encoding(house: House, save: Save) -> None:
    path = save("a.txt", b"caf\xe9")
    assert house.refuses({"path": path}) == f"{path}: byte 3 (0xe9) is not UTF-8; save the file as UTF-8"


def test_a_byte_order_mark_and_the_line_ends_of_windows(house: House, save: Save) -> None:
    path = save("a.csv", 'id,text\r\n1,x\r\n2,"y\r\nz"\r\n'.encode("utf-8-sig"))
    assert house.rejects({"path": path}) == []
    assert house.chunks().select("source_row_id", "text").rows() == [("1", "x"), ("2", "y\r\nz")]


def test_a_mark_of_another_encoding(house: House, save: Save) -> None:
    path = save("a.csv", "id,text\n1,x\n".encode("utf-8-sig"))
    line = f'{path}: begins with the byte order mark of utf-8, not cp1252; set encoding = "utf-8" for this input'
    assert house.refuses({"path": path, "encoding": "cp1252"}) == line


def test_a_csv_with_a_broken_quote(house: House, save: Save) -> None:
    path = save("a.csv", 'id,text\n1,x\n2,"never closed\n3,swallowed\n')
    assert house.refuses({"path": path}) == (
        f"{path}: line 3: a quote is opened and never closed, or text follows a closed one; "
        'put the whole value in quotes, and write a quote inside it twice ("")'
    )


def test_a_csv_with_a_broken_quote_is_skipped_whole_and_told(house: House, save: Save, tmp_path: Path) -> None:
    save("a.csv", "id,text\n1,x\n")
    path = save("b.csv", 'id,text\n2,y\n3,"never closed\n')
    outcome = run_night(
        house.folder, {"path": f"{tmp_path}/in", "name": house.source}, load={"on_unreadable": "skip", "batch_rows": 1}
    )
    assert house.texts() == ["x"]
    assert outcome.run.rows_in == 1
    (line,) = outcome.skipped
    assert line.startswith(f"{path}: line 3: a quote is opened")
    assert outcome.run.note == f"skipped {line}"


def test_a_line_with_too_few_values(house: House, save: Save) -> None:
    assert house.rejects({"path": save("a.csv", "id,text\n1,x\n2\n3,y\n")}) == [("a.csv:3", "line_parses")]
    assert house.texts() == ["x", "y"]


def test_a_jsonl_with_broken_lines_and_lone_surrogates(house: House, save: Save) -> None:
    broken = ['{"text": "cut', '{"text": "\\ud800"}', '{"text": "\\udc00 x"}']
    path = save("a.jsonl", lines({"text": "a"}, {"text": "b"}, {"text": "\U0001f600"}) + "\n".join(broken))
    assert house.rejects({"path": path}) == [(f"a.jsonl:{n}", "line_parses") for n in (4, 5, 6)]
    assert house.texts() == ["a", "b", "\U0001f600"]


def test_a_jsonl_with_mixed_types(house: House, save: Save) -> None:
    values: list[Any] = [5, "five", 5.5, True, ["a"], {"b": 1}]
    path = save("a.jsonl", lines(*({"id": n, "text": value} for n, value in enumerate(values))))
    assert house.rejects({"path": path}, load={"batch_rows": 1}) == []
    assert house.texts() == ["5", "five", "5.5", "true", '["a"]', '{"b":1}']


def test_a_json_array_instead_of_lines_publishes_nothing(house: House, save: Save) -> None:
    path = save("a.jsonl", json.dumps([{"text": "a"}, {"text": "b"}], indent=1))
    assert "rows were rejected" in house.refuses({"path": path}, error=NothingPublished)


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_null_text_and_a_blank_one(house: House, save: Save) -> None:
    path = save("a.jsonl", lines({"text": "a"}, {"text": None}, {"text": "b"}, {"text": " \t\u3000"}))
    assert house.rejects({"path": path}) == [("a.jsonl:2", "text_is_present"), ("a.jsonl:4", "text_is_not_empty")]


def test_a_null_scope(house: House, save: Save) -> None:
    path = save("a.csv", "id,workspace_id,text\n1,acme,x\n2,,x\n")
    assert house.rejects({"path": path}) == [("a.csv:3", "scope_is_present")]
    assert house.chunks()["scope"].to_list() == ["acme"]


def test_a_scope_column_in_some_files_of_an_input(house: House, save: Save, tmp_path: Path) -> None:
    path = save("p2.jsonl", lines({"text": "of another tenant"}))
    save("p1.jsonl", lines({"workspace_id": "acme", "text": "x"}))
    assert house.refuses({"path": f"{tmp_path}/in"}) == (
        f"{path}: no column workspace_id, which p1.jsonl of this input has; "
        "add what is missing, or make the file an input of its own with a scope"
    )


def test_ids_that_begin_anew_in_each_file(house: House, save: Save, tmp_path: Path) -> None:
    save("x.csv", "id,text\n1,a\n2,b\n")
    save("y.csv", "id,text\n1,c\n2,d\n")
    assert house.rejects({"path": f"{tmp_path}/in"}) == []
    assert house.texts() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", ["text", "file"])
def test_a_warehouse_inside_the_input_is_not_eaten(tmp_path: Path, save: Save, kind: str) -> None:
    save("a.md", "x")
    for new in (1, 0):
        run = run_night(tmp_path / "in" / "out", {"path": f"{tmp_path}/in", "kind": kind}).run
        assert (run.rows_in, run.chunks_new) == (1, new)


def test_a_scope_column_of_blanks_publishes_nothing(house: House, save: Save) -> None:
    path = save("a.csv", "id,workspace_id,text\n1, ,x\n2,\u00a0,y\n")
    line = house.refuses({"path": path}, error=NothingPublished)
    assert line.startswith("2 of 2 rows were rejected")
    with_more = save("a.csv", Path(path).read_text() + "3,acme,z\n4,acme,w\n")
    assert house.rejects({"path": with_more}) == [("a.csv:2", "scope_is_present"), ("a.csv:3", "scope_is_present")]


def test_a_duplicate_source_row_id(house: House, save: Save) -> None:
    path = save("a.csv", "id,workspace_id,text\n1,acme,x\n1,acme,y\n1,boreal,z\n")
    ((place, rule),) = house.rejects({"path": path})
    assert (place in ("a.csv:2", "a.csv:3"), rule) == (True, "source_row_id_is_unique")
    kept = published(house.folder, "occurrences").filter(source=house.source)
    assert sorted(kept["scope"]) == ["acme", "boreal"]


def test_a_text_of_ten_megabytes(house: House, save: Save) -> None:
    text = "word " * 2_000_000
    path = save("a.jsonl", lines({"id": 1, "text": text}, {"id": 2, "text": "short"}))
    assert house.rejects({"path": path}) == []
    assert house.texts() == [text.strip(), "short"]


def test_a_text_over_the_limit(house: House, save: Save) -> None:
    path = save("a.csv", f"id,text\n1,{'x' * 2000}\n2,short\n")
    assert house.rejects({"path": path}, load={"max_text_bytes": 1000}) == [("a.csv:2", "text_fits_max_text_bytes")]
    assert house.texts() == ["short"]


def test_a_nul_in_a_text_is_a_character_like_others(house: House, save: Save) -> None:
    path = save("a.jsonl", lines({"id": 1, "text": "a\0b"}, {"id": 2, "text": "ab"}))
    assert house.rejects({"path": path}) == []
    assert house.texts() == ["a\0b", "ab"]


def test_a_file_that_changed_since_last_night_is_read_again(house: House, save: Save) -> None:
    assert house.rejects({"path": save("a.csv", "id,text\n1,x\n2,\n")}) == [("a.csv:3", "text_is_present")]
    assert house.rejects({"path": save("a.csv", "id,text\n1,x\n2,y\n")}) == []
    assert house.texts() == ["x", "y"]


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "sections", "key"),
    [
        ({"txt_column": "text"}, {}, "txt_column"),
        ({}, {"load": {"on_unreadible": "skip"}}, "on_unreadible"),
        ({}, {"loads": {}}, "loads"),
    ],
)
def test_an_unknown_setting_is_refused_by_name(
    house: House, save: Save, inputs: dict[str, Any], sections: dict[str, Any], key: str
) -> None:
    runs = Warehouse(str(house.folder)).runs()
    with pytest.raises(SettingsRefused, match=f"{key}: no such setting"):
        run_night(house.folder, {"path": save("a.csv", "text\nx\n"), **inputs}, **sections)
    assert Warehouse(str(house.folder)).runs() == runs
