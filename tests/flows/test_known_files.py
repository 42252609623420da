"""Documents known by their bytes: not parsed again, and the tables end as if they had been."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from flows import readers
from flows.documents import document_text, parser_of
from tests import oracle
from tests.nights import published, run_night, said_by_night

LONG = " ".join(f"w{n}" for n in range(30))
PAGE = "<html><head><title>T</title></head><body><p>A page.</p><p>Of two.</p></body></html>"
CUT: dict[str, Any] = {"chunking": {"tokens": 12, "overlap": 2}}
Parsed = Callable[[], list[str]]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Parsed:
    """The names of the files that were parsed since it was asked last."""
    names: list[str] = []

    def counted(path: Path, content: bytes) -> str:
        names.append(path.name)
        return document_text(path, content)

    monkeypatch.setattr(readers, "document_text", counted)

    def since() -> list[str]:
        told = sorted(names)
        names.clear()
        return told

    return since


def write(folder: Path, files: dict[str, str]) -> dict[str, Any]:
    """An input of a folder of documents, whose scope is the folder of each."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {"path": str(folder), "name": folder.name, "scope_by": ["folder"]}


def state(warehouse: Path) -> dict[str, pl.DataFrame]:
    moments = pl.selectors.exclude("run_id", "last_run_id", "first_seen_at", "last_seen_at", "seen_at")
    tables = ("chunks", "occurrences", "canonicals", "rejects")
    return {name: published(warehouse, name).sort(pl.first()).select(moments) for name in tables}


def same(one: Path, other: Path) -> None:
    for (name, mine), theirs in zip(state(one).items(), state(other).values(), strict=True):
        assert mine.columns == theirs.columns, name
        assert_frame_equal(mine, theirs)


def test_the_same_bytes_under_another_name_are_not_parsed_and_come_in_all_the_same(
    tmp_path: Path, parsed: Parsed
) -> None:
    given = write(tmp_path / "docs", {"acme/a.md": LONG, "acme/b.html": PAGE})
    run_night(tmp_path / "w", given, **CUT)
    assert parsed() == ["a.md", "b.html"]
    write(tmp_path / "docs", {"acme/copy.md": LONG, "acme/c.txt": "New."})
    said = said_by_night(tmp_path / "w", given, **CUT)
    assert "3 files known by their bytes: not parsed" in said
    assert parsed() == ["c.txt"]
    occurrences = published(tmp_path / "w", "occurrences").filter(pl.col("source_row_id") == "acme/copy.md")
    assert sorted(occurrences["chunk_index"]) == [0, 1, 2]
    run_night(tmp_path / "plain", given, load={"known_files": False}, **CUT)
    same(tmp_path / "w", tmp_path / "plain")
    assert published(tmp_path / "plain", "parsed_files").is_empty()
    record = published(tmp_path / "w", "parsed_files")
    assert oracle.file_hash("acme", LONG.encode()) in record["file_hash"].to_list()
    assert record["texts"].explode().null_count() == 5


def test_the_same_bytes_twice_in_one_night_are_parsed_once(tmp_path: Path, parsed: Parsed) -> None:
    given = write(tmp_path / "docs", {"acme/a.md": LONG, "acme/b.md": LONG, "acme/c.md": LONG[::-1]})
    write(tmp_path / "more", {"acme/d.md": LONG})
    more = {"path": str(tmp_path / "more"), "name": "more", "scope_by": ["folder"]}
    assert "2 files known by their bytes" in said_by_night(tmp_path / "w", given, more, **CUT)
    assert parsed() == ["a.md", "c.md"]
    run_night(tmp_path / "plain", given, more, load={"known_files": False}, **CUT)
    same(tmp_path / "w", tmp_path / "plain")


def test_another_scope_parser_or_chunking_knows_nothing_of_it(tmp_path: Path, parsed: Parsed) -> None:
    given = write(tmp_path / "docs", {"acme/a.md": LONG})
    run_night(tmp_path / "w", given, **CUT)
    write(tmp_path / "docs", {"boreal/a.md": LONG, "acme/a.html": LONG})
    parsed()
    assert "1 file known by its" not in said_by_night(tmp_path / "w", given, **CUT)
    assert parsed() == ["a.html", "a.md"]
    run_night(tmp_path / "w", given, chunking={"tokens": 9, "overlap": 0})
    assert parsed() == ["a.html", "a.md", "a.md"]
    run_night(tmp_path / "w", {**given, "chunk": False}, **CUT)
    assert parsed() == ["a.html", "a.md", "a.md"]
    run_night(tmp_path / "w", {**given, "chunk": False}, **CUT)
    assert parsed() == []


def test_a_new_version_of_a_parser_parses_anew(tmp_path: Path, parsed: Parsed, monkeypatch: pytest.MonkeyPatch) -> None:
    given = write(tmp_path / "docs", {"acme/a.html": PAGE, "acme/a.md": LONG})
    run_night(tmp_path / "w", given)
    parsed()
    monkeypatch.setattr("flows.documents.version", lambda library: "1000.0")
    run_night(tmp_path / "w", given)
    assert parsed() == ["a.html"]
    assert parser_of(Path("a.html")) != parser_of(Path("a.md")) == parser_of(Path("b.TXT"))


def test_a_layout_that_its_chunk_no_longer_shows_is_parsed_once_more_and_kept(tmp_path: Path, parsed: Parsed) -> None:
    one, other = "Two  words.", "Two words."
    given = write(tmp_path / "docs", {"acme/a.txt": one})
    first = write(tmp_path / "also", {"acme/b.txt": other})
    run_night(tmp_path / "w", given)
    run_night(tmp_path / "w", given, first)  # `also` comes before `docs`: the chunk shows its layout from here on
    parsed()
    run_night(tmp_path / "w", given, first)
    assert parsed() == ["a.txt"]
    run_night(tmp_path / "w", given, first)
    assert parsed() == []
    assert one in published(tmp_path / "w", "parsed_files")["texts"].explode().to_list()
    run_night(tmp_path / "plain", given, load={"known_files": False})
    run_night(tmp_path / "plain", given, first, load={"known_files": False})
    same(tmp_path / "w", tmp_path / "plain")


def test_a_document_that_is_refused_or_whose_text_is_more_than_its_text_is_parsed_each_time(
    tmp_path: Path, parsed: Parsed
) -> None:
    given = write(tmp_path / "docs", {"acme/blank.md": " \n", "acme/a.md": "Said."})
    for _ in range(2):
        run_night(tmp_path / "w", given, guard={"max_reject_share": 1})
        assert published(tmp_path / "w", "rejects")["source_row_id"].to_list() == ["acme/blank.md"]
    assert parsed() == ["a.md", "blank.md", "blank.md"]
    odd = {**given, "name": "odd", "id_column": "text"}
    run_night(tmp_path / "w", odd, guard={"max_reject_share": 1})
    assert parsed() == ["a.md", "blank.md"]


def test_a_file_that_did_not_come_in_is_never_known_by_the_text_of_the_next(tmp_path: Path, parsed: Parsed) -> None:
    blank = write(tmp_path / "one", {"acme/blank.md": "   "})
    # Its text is more than its text, so that its bytes say nothing.
    secret = {**write(tmp_path / "two", {"boreal/secret.md": "Of boreal alone."}), "metadata_columns": ["text"]}
    allow: dict[str, Any] = {"guard": {"max_reject_share": 1}}
    run_night(tmp_path / "w", blank, secret, **allow)
    assert published(tmp_path / "w", "parsed_files").is_empty()
    run_night(tmp_path / "w", blank, **allow)
    assert parsed() == ["blank.md", "blank.md", "secret.md"]
    assert published(tmp_path / "w", "chunks")["scope"].to_list() == ["boreal"]


FILES = st.dictionaries(
    st.tuples(st.sampled_from(["acme", "boreal"]), st.sampled_from(["a.md", "b.txt", "c.html", "d.md"])),
    st.sampled_from(["Said.", "Said.  Twice.", "Said. Twice.", LONG, LONG.replace(" ", "\n"), PAGE, " "]),
    min_size=1,
    max_size=6,
)


@settings(max_examples=6)
@given(nights=st.lists(FILES, min_size=1, max_size=3))
def test_the_tables_end_as_if_every_file_had_been_parsed(
    tmp_path_factory: pytest.TempPathFactory, nights: list[dict[tuple[str, str], str]]
) -> None:
    folder = tmp_path_factory.mktemp("law")
    for night in nights:
        shutil.rmtree(folder / "docs", ignore_errors=True)
        docs = write(folder / "docs", {"/".join(name): text for name, text in night.items()})
        for warehouse, is_on in (("known", True), ("plain", False)):
            outcome = run_night(
                folder / warehouse, docs, load={"known_files": is_on}, guard={"max_reject_share": 1}, **CUT
            )
            run = outcome.run
            assert run.rows_in == run.occurrences_new + run.occurrences_known + run.rows_rejected
    same(folder / "known", folder / "plain")
