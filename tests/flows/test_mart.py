"""The mart an analyst opens: what its views say, and that it is always one whole run."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import lance
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import mart
from flows.console import Progress
from flows.mart import MartNotWritten, mart_path, refresh, shown_run
from flows.night import Outcome, rollback
from flows.warehouse import Run, Warehouse
from schemas.contract import Contract
from schemas.tables import PUBLISHED_TABLES, RUNS
from tests.nights import run_night, settings_of

NOW = datetime(2026, 1, 31, 2, tzinfo=UTC)
SPEC = ("parent_category", "sub_category", "specification", "value", "additional")
VIEWS = {
    "legacy_ids",
    "candidate_pairs",
    "canonical_chunks",
    "document_status",
    "duplicates",
    "duplicate_rate_by_source",
    "merged",
    "open_contradictions",
    "rejects_by_rule",
    "review_log",
    "review_queue",
    "run_history",
    "spec_rows",
    "spec_rows_by_category",
    "superseded",
    "vector_tables",
}


class Killed(BaseException):
    """As the process ends, whatever handles errors."""


def corpus(folder: Path, name: str, *rows: tuple[str, str | None], scope: str = "acme") -> dict[str, Any]:
    """An input of (id, text) rows."""
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(list(rows), schema={"id": pl.String, "text": pl.String}, orient="row").write_parquet(
        folder / f"{name}.parquet"
    )
    return {"path": str(folder / f"{name}.parquet"), "name": name, "scope": scope}


def night_of(tmp_path: Path, *texts: str, name: str = "corpus") -> Outcome:
    """A night over rows that say these texts, each its own id."""
    return run_night(tmp_path / "w", corpus(tmp_path / "in", name, *((text, text) for text in texts)))


@pytest.fixture(scope="session")
def one_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse after a first night that said `a`, to be copied."""
    folder = tmp_path_factory.mktemp("one night")
    night_of(folder, "a")
    return folder / "w"


@pytest.fixture
def after_a(one_night: Path, tmp_path: Path) -> Path:
    """The test's own copy of it, as its warehouse `w`."""
    shutil.copytree(one_night, tmp_path / "w")
    return tmp_path / "w"


def ask(folder: Path, query: str) -> list[Any]:
    with contextlib.closing(duckdb.connect(str(folder / "mart.duckdb"), read_only=True)) as connection:
        return connection.execute(query).fetchall()


def texts_in(folder: Path) -> list[str]:
    return [text for (text,) in ask(folder, "select text from canonical_chunks order by text")]


def beside(folder: Path) -> list[str]:
    """The files that are there for the mart."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("mart"))


# ---- what it says of itself


def test_every_table_and_column_and_view_has_its_comment(tmp_path: Path) -> None:
    night_of(tmp_path, "a")
    tables = dict(ask(tmp_path / "w", "select table_name, comment from duckdb_tables()"))
    assert set(tables) == {contract.name for contract in (*PUBLISHED_TABLES, RUNS)} | {"mart_run", "review_items"}
    assert all(tables.values())
    assert not ask(
        tmp_path / "w",
        "select table_name, column_name from duckdb_columns() join duckdb_tables() using (table_name) "
        "where duckdb_columns.comment is null",
    )
    views = dict(ask(tmp_path / "w", "select view_name, comment from duckdb_views() where not internal"))
    assert set(views) == VIEWS
    assert all(views.values())


def test_a_comment_with_a_quote_in_it_stays_as_it_is(tmp_path: Path) -> None:
    night_of(tmp_path, "a")
    comments = ask(
        tmp_path / "w",
        "select comment from duckdb_columns() where table_name = 'occurrences' and column_name = 'metadata'",
    )
    assert comments == [("JSON: the row's other columns",)]


# ---- the views, on nights


def test_duplicates_say_which_row_each_was_a_duplicate_of(tmp_path: Path) -> None:
    run_night(
        tmp_path / "w",
        corpus(tmp_path, "a_manual", ("1", "Close the door."), ("2", "Open the door.")),
        corpus(tmp_path, "b_manual", ("7", "Close  the door."), ("8", "Close the door.")),
        corpus(tmp_path, "elsewhere", ("1", "Close the door."), scope="boreal"),
    )
    assert ask(
        tmp_path / "w",
        "select scope, duplicate_kind, source, source_row_id, duplicate_of_source, duplicate_of_row, reason "
        "from duplicates order by source_row_id",
    ) == [
        ("acme", "exact", "b_manual", "7", "a_manual", "1", "same content hash"),
        ("acme", "exact", "b_manual", "8", "a_manual", "1", "same content hash"),
    ]
    assert ask(tmp_path / "w", "from duplicate_rate_by_source") == [
        ("acme", "b_manual", 2, 1, 2, 1.0),
        ("acme", "a_manual", 2, 2, 0, 0.0),
        ("boreal", "elsewhere", 1, 1, 0, 0.0),
    ]


def test_rejects_are_counted_by_rule_with_a_place_to_look(tmp_path: Path) -> None:
    rows = [("1", "said"), ("2", " "), ("3", ""), ("4", None)]
    run_night(tmp_path / "w", corpus(tmp_path, "faq", *rows), guard={"max_reject_share": 1})
    rules = ask(tmp_path / "w", "select rule, source, tonight, ever from rejects_by_rule")
    assert rules == [("text_is_not_empty", "faq", 2, 2), ("text_is_present", "faq", 1, 1)]
    examples = ask(tmp_path / "w", "select example from rejects_by_rule")
    assert all("faq.parquet:" in example for (example,) in examples)


def test_the_history_of_runs_is_newest_first_with_failures_and_ways_back(tmp_path: Path) -> None:
    first = night_of(tmp_path, "a").run
    night_of(tmp_path, "b")
    with contextlib.suppress(Exception):
        run_night(tmp_path / "w", {"path": str(tmp_path / "nowhere.csv")})
    back = rollback(settings_of(tmp_path / "w"), first.run_id, progress=Progress(quiet=True))
    history = ask(tmp_path / "w", "select status, restores, chunks_new, seconds is null from run_history")
    assert history == [
        ("rollback", first.run_id, 0, True),
        ("failed", None, 0, True),
        ("published", None, 1, False),
        ("published", None, 1, False),
    ]
    assert shown_run(tmp_path / "w" / "mart.duckdb") == back.run_id
    assert texts_in(tmp_path / "w") == ["a"]


def test_spec_rows_have_their_fields_and_are_grouped_by_category(tmp_path: Path) -> None:
    rows = [
        ("s1", "Engine", "Block", "Cylinders", "6", ""),
        ("s2", "Engine", "Block", "Bore", "90 mm", "nominal"),
        ("s3", "Engine", "Block", "Cylinders", "6", ""),
        ("s4", "Body", "Doors", "Count", "4", ""),
    ]
    path = tmp_path / "specs.csv"
    pl.DataFrame(rows, schema=["id", *SPEC], orient="row").write_csv(path)
    given_specs = {"path": str(path), "kind": "spec_row", "scope": "acme", "parsed_spec_id_column": "id"}
    run_night(tmp_path / "w", given_specs)
    columns = ", ".join(SPEC)
    found = ask(tmp_path / "w", f"select {columns}, occurrences, parsed_spec_ids from spec_rows order by all")
    assert [row[:4] for row in found] == [
        ("Body", "Doors", "Count", "4"),
        ("Engine", "Block", "Bore", "90 mm"),
        ("Engine", "Block", "Cylinders", "6"),
    ]
    assert found[1][4] == "nominal"
    assert found[2][5:] == (2, ["s1", "s3"])
    assert ask(tmp_path / "w", "from spec_rows_by_category") == [
        ("acme", "Body", "Doors", 1, 1, [{"specification": "Count", "value": "4"}]),
        (
            "acme",
            "Engine",
            "Block",
            2,
            3,
            [{"specification": "Bore", "value": "90 mm"}, {"specification": "Cylinders", "value": "6"}],
        ),
    ]


# ---- the views, on tables of a later stage


def id_of(letter: str) -> str:
    return letter * 32


def hand_made(folder: Path, **tables: list[dict[str, Any]]) -> Warehouse:
    """A published run of just these rows, and its mart."""
    warehouse = Warehouse(str(folder))
    warehouse.begin()
    for contract in PUBLISHED_TABLES:
        if rows := tables.get(contract.name):
            frame = contract.check(contract.shaped(pl.DataFrame(rows, infer_schema_length=None)))
            uri = f"{folder}/{contract.name}.lance"
            lance.write_dataset(frame.to_arrow().cast(contract.shape), uri, mode="append")
    run = Run(
        run_id="r1",
        started_at=NOW,
        published_at=NOW,
        status="published",
        restores=None,
        rows_in=0,
        rows_rejected=0,
        occurrences_new=0,
        occurrences_known=0,
        chunks_new=0,
        chunks_touched=0,
        actions={},
        stage_seconds={"load": 1.25, "hash": 0.5},
        recall_measured=None,
        table_versions=warehouse.versions(),
        settings={},
        note=None,
    )
    warehouse.commit(run)
    refresh(warehouse, run, before=None, changes=[])
    return warehouse


def chunk(letter: str, *, canonical: str, row: str, superseded_by: str | None = None) -> dict[str, Any]:
    return {
        "chunk_id": id_of(letter),
        "scope": "acme",
        "kind": "text",
        "content_hash": letter * 64,
        "text": letter,
        "source": "corpus",
        "source_row_id": row,
        "canonical_id": id_of(canonical),
        "action": "stored_as_new",
        "completion_status": "complete",
        "occurrences": 1,
        "first_seen_at": NOW,
        "last_seen_at": NOW,
        "superseded_by": None if superseded_by is None else id_of(superseded_by),
    }


def occurrence(number: int, letter: str, row: str) -> dict[str, Any]:
    return {
        "occurrence_id": f"{number:032x}",
        "chunk_id": id_of(letter),
        "scope": "acme",
        "source": "corpus",
        "source_row_id": row,
        "run_id": "r1",
        "seen_at": NOW,
    }


def group(letter: str, *, stands: str, variants: int = 0, occurrences: int = 1) -> dict[str, Any]:
    return {
        "canonical_id": id_of(letter),
        "scope": "acme",
        "chunk_id": id_of(stands),
        "variants": variants,
        "occurrences": occurrences,
        "first_seen_at": NOW,
        "last_seen_at": NOW,
    }


def variant(letter: str, canonical: str) -> dict[str, Any]:
    return {
        "chunk_id": id_of(letter),
        "canonical_id": id_of(canonical),
        "relation": "equivalent",
        "similarity": 0.5,
        "confidence": 0.9,
        "decided_by": "rule",
        "reason": "same words, other order",
        "run_id": "r1",
    }


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """The group `a` of three contents, said by four rows, for which `b` stands; `d` alone, superseded by `e`."""
    hand_made(
        tmp_path / "w",
        chunks=[
            chunk("a", canonical="a", row="1"),
            chunk("b", canonical="a", row="2"),
            chunk("c", canonical="a", row="3"),
            chunk("d", canonical="d", row="5", superseded_by="e"),
            chunk("e", canonical="e", row="6"),
        ],
        occurrences=[
            occurrence(number, letter, str(number))
            for number, letter in enumerate(["a", "b", "c", "c", "d", "e"], start=1)
        ],
        canonicals=[
            group("a", stands="b", variants=2, occurrences=4),
            group("d", stands="d"),
            group("e", stands="e"),
        ],
        variants=[variant("a", "a"), variant("c", "a")],
    )
    return tmp_path / "w"


def test_merged_contents_say_the_row_that_stands_for_them_and_why(merged: Path) -> None:
    assert ask(
        merged,
        "select source_row_id, duplicate_kind, duplicate_of_row, canonical_id, similarity, reason "
        "from duplicates order by source_row_id",
    ) == [
        ("1", "merged", "2", id_of("a"), 0.5, "same words, other order"),
        ("3", "merged", "2", id_of("a"), 0.5, "same words, other order"),
        ("4", "exact", "3", id_of("a"), 1.0, "same content hash"),
    ]


def test_no_row_is_a_duplicate_twice(merged: Path) -> None:
    assert ask(merged, "select count(*) - count(distinct occurrence_id) from duplicates") == [(0,)]
    assert ask(merged, "from duplicate_rate_by_source") == [("acme", "corpus", 6, 5, 3, 0.5)]


def test_canonical_chunks_are_those_that_stand_and_still_hold(merged: Path) -> None:
    rows = ask(merged, "select text, canonical_id, variants, occurrences from canonical_chunks order by text")
    assert rows == [("b", id_of("a"), 2, 4), ("e", id_of("e"), 0, 1)]


def test_the_seconds_of_a_run_are_those_of_its_stages(merged: Path) -> None:
    assert ask(merged, "select seconds from run_history") == [(1.75,)]


def test_a_mart_of_no_rows_answers_every_view(tmp_path: Path) -> None:
    hand_made(tmp_path / "w")
    for view in VIEWS - {"run_history"}:
        assert ask(tmp_path / "w", f"from {view}") == []


# ---- following the changes


def contents(folder: Path) -> dict[str, list[str]]:
    """Every row of every table and view of the mart, in an order that does not hang on how it was made."""
    with contextlib.closing(duckdb.connect(str(folder / "mart.duckdb"), read_only=True)) as connection:
        names = [name for (name, *_) in connection.execute("show tables").fetchall()]
        return {name: sorted(map(repr, connection.execute(f"from {name}").fetchall())) for name in names}


@contextlib.contextmanager
def no_rebuild() -> Iterator[None]:
    def refuse(*_: object) -> None:
        raise AssertionError("the mart was made anew")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mart, "_fill", refuse)
        yield


NIGHTS = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two"]),
            st.integers(0, 4),
            st.sampled_from(["a b", " a  b", "A b", "c", "", "d", None]),
        ),
        max_size=5,
    ),
    min_size=2,
    max_size=3,
)


@settings(max_examples=6, deadline=None)
@given(NIGHTS)
def test_following_the_changes_ends_as_a_rebuild_row_for_row(nights: list[list[tuple[str, int, str | None]]]) -> None:
    with TemporaryDirectory() as name:
        folder, warehouse = Path(name), Warehouse(f"{name}/w")
        for number, rows in enumerate(nights):
            given_rows = [
                corpus(folder / str(number), source, *((str(n), text) for of, n, text in rows if of == source))
                for source in ("one", "two")
            ]
            with no_rebuild() if number else contextlib.nullcontext():
                run_night(folder / "w", *given_rows, guard={"max_reject_share": 1})
            followed = contents(folder / "w")
            shutil.copyfile(folder / "w" / "mart.duckdb", folder / "followed")
            published = warehouse.published()
            assert published is not None
            assert refresh(warehouse, published, before=None, changes=[]) == "rebuilt"
            assert contents(folder / "w") == followed
            shutil.copyfile(folder / "followed", folder / "w" / "mart.duckdb")


def test_a_night_that_moves_most_rows_makes_the_mart_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mart, "_FOLLOW_UP_TO_ROWS", 0)
    night_of(tmp_path, "a")
    with pytest.raises(AssertionError, match="made anew"), no_rebuild():
        night_of(tmp_path, "a")


# ---- a mart that cannot be followed


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def no_database(path: Path) -> None:
    path.write_bytes(b"not a database" * 1_000)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20_000])


def damaged_within(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3 : 2 * len(whole) // 3] = bytes(len(whole) // 3)
    path.write_bytes(whole)


def sql(statement: str) -> Any:
    def change(path: Path) -> None:
        with contextlib.closing(duckdb.connect(str(path))) as connection:
            connection.execute(statement)

    return change


DAMAGES = {
    "missing": missing,
    "empty": empty,
    "no database": no_database,
    "cut short": cut_short,
    "damaged within": damaged_within,
    "of an older run": sql("update mart_run set run_id = 'older'"),
    "of no run": sql("delete from mart_run"),
    "of another program": sql("update mart_run set made_with = 'older'"),
    "of a program that did not say": sql("alter table mart_run drop column made_with"),
    "with a column dropped by hand": sql("alter table chunks drop column action"),
    "with a table dropped by hand": sql("drop table occurrences cascade"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_mart_that_cannot_be_followed_is_made_anew(tmp_path: Path, after_a: Path, damage: str) -> None:
    DAMAGES[damage](after_a / "mart.duckdb")
    run = night_of(tmp_path, "a", "b").run
    assert ask(tmp_path / "w", "select run_id from mart_run") == [(run.run_id,)]
    assert texts_in(tmp_path / "w") == ["a", "b"]
    assert ask(tmp_path / "w", "select distinct action from chunks") == [("stored_as_new",)]
    assert ask(tmp_path / "w", "select count(*) from occurrences") == [(2,)]


@contextlib.contextmanager
def killed_at(step: str) -> Iterator[None]:
    """Ends the work inside at the first call of this function."""

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, killed)
        with pytest.raises(Killed):
            yield


@pytest.mark.parametrize("again", [("a", "b"), ("a", "b", "c")], ids=["nothing new", "something new"])
def test_a_crash_between_commit_and_mart_is_mended_by_the_next_run(
    tmp_path: Path, after_a: Path, again: tuple[str, ...]
) -> None:
    first = shown_run(after_a / "mart.duckdb")
    with killed_at("flows.mart.refresh"):
        night_of(tmp_path, "a", "b")
    assert shown_run(after_a / "mart.duckdb") == first
    assert texts_in(after_a) == ["a"]
    last = night_of(tmp_path, *again).run
    assert shown_run(tmp_path / "w" / "mart.duckdb") == last.run_id
    assert texts_in(tmp_path / "w") == list(again)


@pytest.mark.parametrize("step", ["shutil.copyfile", "flows.mart._apply", "flows.mart._fill_runs", "os.fsync"])
def test_a_crash_while_the_mart_is_written_leaves_the_old_one(tmp_path: Path, after_a: Path, step: str) -> None:
    before = (after_a / "mart.duckdb").read_bytes()
    with killed_at(step):
        night_of(tmp_path, "a", "b")
    assert (after_a / "mart.duckdb").read_bytes() == before
    night_of(tmp_path, "a", "b")
    assert texts_in(tmp_path / "w") == ["a", "b"]
    assert beside(tmp_path / "w") == ["mart.duckdb"]


def test_what_a_killed_run_left_beside_the_mart_is_removed(tmp_path: Path, after_a: Path) -> None:
    assert beside(after_a) == ["mart.duckdb"]
    for leftover in ("mart.duckdb.new", "mart.duckdb.new.wal"):
        (tmp_path / "w" / leftover).write_bytes(b"half")
    (tmp_path / "w" / "mart.duckdb.new.tmp").mkdir()
    (tmp_path / "w" / "mart.duckdb.new.tmp" / "spilled").write_bytes(b"half")
    night_of(tmp_path, "a", "b")
    assert beside(tmp_path / "w") == ["mart.duckdb"]
    assert texts_in(tmp_path / "w") == ["a", "b"]


def test_a_mart_that_cannot_be_written_is_told_in_one_line_and_the_run_stands(tmp_path: Path, after_a: Path) -> None:
    first = shown_run(after_a / "mart.duckdb")
    warehouse = Warehouse(str(after_a))
    mart_path(warehouse).unlink()
    (mart_path(warehouse) / "in the way").mkdir(parents=True)
    with pytest.raises(MartNotWritten) as refused:
        night_of(tmp_path, "b")
    published = warehouse.published()
    assert published is not None
    assert published.run_id != first
    assert str(refused.value).startswith(f"{mart_path(warehouse)}: cannot be written: ")
    assert f"run {published.run_id} is published" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert beside(tmp_path / "w") == ["mart.duckdb"]
    shutil.rmtree(mart_path(warehouse))
    night_of(tmp_path, "b")
    assert texts_in(tmp_path / "w") == ["a", "b"]


def test_no_mart_shows_no_run(tmp_path: Path) -> None:
    assert shown_run(tmp_path / "mart.duckdb") is None
    (tmp_path / "mart.duckdb").write_bytes(b"not a database" * 1_000)
    assert shown_run(tmp_path / "mart.duckdb") is None


def test_a_run_on_record_twice_is_in_the_mart_once(tmp_path: Path) -> None:
    run = night_of(tmp_path, "a").run
    warehouse = Warehouse(str(tmp_path / "w"))
    warehouse.commit(replace(run, status="failed", published_at=None))
    night_of(tmp_path, "b")
    assert ask(tmp_path / "w", "select status from runs") == [("published",), ("published",)]


def test_a_run_from_before_a_column_was_gained_can_still_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = night_of(tmp_path, "a").run

    def gained(contract: Contract) -> Contract:
        return replace(
            contract, shape=contract.shape.append(pa.field("gained", pa.large_string(), metadata={"about": "New"}))
        )

    monkeypatch.setattr(mart, "PUBLISHED_TABLES", tuple(gained(contract) for contract in PUBLISHED_TABLES))
    monkeypatch.setattr(mart, "RUNS", gained(RUNS))
    assert refresh(Warehouse(str(tmp_path / "w")), run, before=None, changes=[]) == "rebuilt"
    assert ask(tmp_path / "w", "select text, gained from chunks") == [("a", None)]
    assert ask(tmp_path / "w", "select run_id, gained from runs") == [(run.run_id, None)]


def test_the_mart_is_written_within_a_bound_of_memory(tmp_path: Path) -> None:
    with mart._beside(tmp_path / "mart.duckdb", copy=False) as connection:
        assert connection.execute("select current_setting('memory_limit')").fetchall() == [("953.6 MiB",)]


# ---- readers


READER = """
import contextlib, os, sys
import duckdb

path, stop = sys.argv[1], sys.argv[2]
print("reading", flush=True)
answers = set()
while True:
    last = os.path.exists(stop)
    with contextlib.closing(duckdb.connect(path, read_only=True)) as mart:
        ask = lambda query: mart.execute(query).fetchall()[0][0]
        answers.add((
            ask("select string_agg(run_id) from mart_run"),
            ask("select max(run_id) from runs"),
            ask("select count(*) from occurrences"),
            ask("select sum(occurrences) from chunks"),
            ask("select sum(occurrences) from canonicals"),
            ask("select sum(occurrences_new) from runs"),
        ))
    if last:
        break
for answer in sorted(answers):
    print(*answer)
"""


def test_a_reader_in_a_loop_sees_only_whole_runs_while_runs_are_published(tmp_path: Path) -> None:
    runs = [night_of(tmp_path, "a").run]
    command = [sys.executable, "-c", READER, str(tmp_path / "w" / "mart.duckdb"), str(tmp_path / "stop")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        for number in range(6):
            # Rows that repeat what others said, so that updates and appends are both in play.
            rows = [(f"{number}-{n}", f"text {n % (number + 2)}") for n in range(10)]
            runs.append(run_night(tmp_path / "w", corpus(tmp_path / "in", f"night {number}", *rows)).run)
        (tmp_path / "stop").touch()
        answers, errors = reader.communicate(timeout=60)
    assert (reader.returncode, errors) == (0, "")
    whole = {run.run_id: str(1 + 10 * number) for number, run in enumerate(runs)}
    lines = [line.split() for line in answers.splitlines()]
    for run_id, latest, *counts in lines:
        assert run_id == latest
        assert set(counts) == {whole[run_id]}
    assert lines[-1][0] == runs[-1].run_id


HOLDER = """
import sys
import duckdb

mart = duckdb.connect(sys.argv[1], read_only=True)
print("open", flush=True)
sys.stdin.readline()
print(mart.execute("select text from chunks").fetchall())
"""


def test_a_reader_keeps_the_run_it_opened(tmp_path: Path, after_a: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(after_a / "mart.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as early:
        assert early.stdout is not None
        assert early.stdout.readline() == "open\n"
        night_of(tmp_path, "b")
        assert texts_in(after_a) == ["a", "b"]
        assert early.communicate("\n", timeout=60)[0] == "[('a',)]\n"


SCRIBBLER = """
import sys
import duckdb

mart = duckdb.connect(sys.argv[1])
mart.execute("create table scribble as select 1 as n")
mart.execute("delete from chunks")
print("written", flush=True)
sys.stdin.readline()
"""


def test_what_someone_writes_into_the_mart_never_gets_into_the_next(tmp_path: Path, after_a: Path) -> None:
    command = [sys.executable, "-c", SCRIBBLER, str(after_a / "mart.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        assert beside(tmp_path / "w") == ["mart.duckdb", "mart.duckdb.wal"]
        night_of(tmp_path, "a", "b")
        writer.kill()
    assert beside(tmp_path / "w") == ["mart.duckdb"]
    assert texts_in(tmp_path / "w") == ["a", "b"]
    assert ("scribble",) not in ask(tmp_path / "w", "show tables")
