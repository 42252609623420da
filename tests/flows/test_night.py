"""Whole nights, from files to published tables: what a chunk is does not hang on how its rows came."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from flows import mart, stages
from flows import night as night_module
from flows import night_stages as stages_module
from flows.console import Progress
from flows.errors import NightfoldError, UnreadableSource
from flows.load import load_sources
from flows.mart import MartNotWritten
from flows.night import night, rollback
from flows.run_rows import NothingPublished
from flows.sources import Source, find_sources
from flows.staging import NotStaged
from flows.warehouse import Warehouse
from schemas.contract import ContractBroken
from tests import oracle
from tests.nights import published, run_night, settings_of
from transforms.hashing import with_ids
from transforms.reconcile import DoesNotAddUp

MOMENT = datetime(2026, 1, 31, 2, tzinfo=UTC)
COLUMNS = pl.Schema(
    {
        "id": pl.String(),
        "workspace_id": pl.String(),
        "text": pl.String(),
        "force": pl.Boolean(),
        "at": pl.Datetime("us", "UTC"),
    }
)
# Texts that normalize to a few contents, so that Hypothesis finds duplicates of every sort.
TEXTS = ["a b", " a  b", "a\u00a0b", "A b", "\u00e9", "e\u0301", "a\u200bb"]


def rows_of(*rows: tuple[str, str]) -> pl.DataFrame:
    """Rows of (workspace, text) with ids from 0 and a time each."""
    full = [(str(n), scope, text, False, MOMENT + timedelta(hours=n)) for n, (scope, text) in enumerate(rows)]
    return pl.DataFrame(full, schema=COLUMNS, orient="row")


def given_as(folder: Path, *parts: pl.DataFrame) -> dict[str, Any]:
    """An input of one source over as many files as there are parts."""
    folder.mkdir(parents=True)
    for number, part in enumerate(parts):
        part.write_parquet(folder / f"part-{number}.parquet")
    return {"path": f"{folder}/*.parquet", "name": "corpus", "id_column": "id", "seen_at_column": "at"}


def state(warehouse: Path) -> dict[str, pl.DataFrame]:
    """What must not hang on how the rows came: everything but which run saw them."""
    tables = {name: published(warehouse, name) for name in ("chunks", "occurrences", "canonicals", "rejects")}
    return {
        name: rows.select(pl.exclude("run_id", "last_run_id")).sort(rows.columns[0]) for name, rows in tables.items()
    }


def assert_same(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    for name, rows in one.items():
        assert_frame_equal(rows, other[name])


def test_one_text_in_two_workspaces_is_two_chunks_and_twice_in_one_is_one(tmp_path: Path) -> None:
    rows = rows_of(("acme", "The door closes."), ("boreal", "The door closes."), ("acme", "The  door\ncloses. "))
    outcome = run_night(tmp_path / "w", given_as(tmp_path / "in", rows))
    chunks = published(tmp_path / "w", "chunks").sort("scope")
    assert chunks.select("scope", "occurrences").rows() == [("acme", 2), ("boreal", 1)]
    hashes = [oracle.text_hash(scope, "The door closes.") for scope in ("acme", "boreal")]
    assert chunks["content_hash"].to_list() == hashes
    assert outcome.run.rows_in == 3
    assert published(tmp_path / "w", "occurrences").height == 3


def test_every_chunk_has_one_canonical_of_its_own_scope(tmp_path: Path) -> None:
    run_night(tmp_path / "w", given_as(tmp_path / "in", rows_of(("acme", "x"), ("boreal", "x"), ("acme", "y"))))
    chunks, canonicals = published(tmp_path / "w", "chunks"), published(tmp_path / "w", "canonicals")
    both = chunks.join(canonicals, on="canonical_id", how="full", suffix="_of_canonical")
    assert both.null_count().select("chunk_id", "chunk_id_of_canonical").row(0) == (0, 0)
    assert both["scope"].to_list() == both["scope_of_canonical"].to_list()


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["acme", "boreal"]), st.sampled_from(TEXTS)), min_size=1, max_size=8),
    st.integers(0, 2**32),
)
def test_shuffled_split_and_given_over_nights_rows_end_the_same(rows: list[tuple[str, str]], seed: int) -> None:
    whole = rows_of(*rows)
    whole = whole.with_columns(force=pl.int_range(pl.len()) % 5 == 4)
    mixed = whole.sample(fraction=1, shuffle=True, seed=seed)
    cuts = sorted(random.Random(seed).choices(range(whole.height + 1), k=2))
    parts = [mixed[: cuts[0]], mixed[cuts[0] : cuts[1]], mixed[cuts[1] :]]
    with TemporaryDirectory() as folder:
        base = Path(folder)
        run_night(base / "one", given_as(base / "whole", whole))
        run_night(base / "shuffled", given_as(base / "mixed", mixed))
        run_night(base / "split", given_as(base / "parts", *parts))
        for number, part in enumerate(parts):
            run_night(base / "nights", given_as(base / f"night-{number}", part))
        for way in ("shuffled", "split", "nights"):
            got, wanted = state(base / way), state(base / "one")
            assert_same(wanted, got)


def test_a_second_night_with_the_same_rows_adds_nothing(tmp_path: Path) -> None:
    given_rows = given_as(tmp_path / "in", rows_of(("acme", "x"), ("acme", " x"), ("acme", "y")))
    run_night(tmp_path / "w", given_rows)
    before = state(tmp_path / "w")
    again = run_night(tmp_path / "w", given_rows).run
    assert (again.chunks_new, again.occurrences_new, again.occurrences_known) == (0, 0, 3)
    assert_same(before, state(tmp_path / "w"))


def test_a_row_without_a_time_was_last_seen_when_the_run_started(tmp_path: Path) -> None:
    given_rows = given_as(tmp_path / "in", rows_of(("acme", "x"))) | {"seen_at_column": None}
    first = run_night(tmp_path / "w", given_rows).run
    second = run_night(tmp_path / "w", given_rows).run
    chunk = published(tmp_path / "w", "chunks").row(0, named=True)
    assert (chunk["first_seen_at"], chunk["last_seen_at"]) == (first.started_at, second.started_at)
    assert chunk["occurrences"] == 1


def test_a_row_that_says_force_stays_a_chunk_of_its_own(tmp_path: Path) -> None:
    rows = rows_of(("acme", "x"), ("acme", "x"), ("acme", "x")).with_columns(force=pl.Series([False, True, False]))
    run_night(tmp_path / "w", given_as(tmp_path / "in", rows))
    chunks = published(tmp_path / "w", "chunks").sort("occurrences")
    assert chunks.select("occurrences", "keep_apart").rows() == [(1, True), (2, False)]
    assert chunks["content_hash"].n_unique() == 1


def test_a_scope_with_dedup_off_keeps_every_row(tmp_path: Path) -> None:
    rows = rows_of(("acme", "x"), ("acme", "x"), ("boreal", "x"), ("boreal", "x"))
    run_night(tmp_path / "w", given_as(tmp_path / "in", rows), scopes={"acme": {"dedup": False}})
    counts = published(tmp_path / "w", "chunks").group_by("scope").len().sort("scope")
    assert counts.rows() == [("acme", 2), ("boreal", 1)]


def test_the_parsed_specs_of_a_chunk_are_those_of_its_occurrences(tmp_path: Path) -> None:
    (tmp_path / "specs.csv").write_text(
        "parsed_spec_id,workspace_id,parent_category,sub_category,specification,value,additional\n"
        "p3,acme,Battery,Pack,Capacity,60 kWh,\np1,acme,Battery,Pack,Capacity,60  kWh,\n"
        "p2,acme,Battery,Pack,Mass,400 kg,\n"
    )
    run_night(tmp_path / "w", {"path": str(tmp_path / "specs.csv"), "kind": "spec_row"})
    chunks = published(tmp_path / "w", "chunks").sort("occurrences", descending=True)
    assert chunks["parsed_spec_ids"].to_list() == [["p1", "p3"], ["p2"]]
    fields = ("Battery", "Pack", "Capacity", "60 kWh", "")
    assert chunks["content_hash"][0] == oracle.spec_row_hash(fields)


def test_a_row_that_changes_its_text_is_a_second_occurrence(tmp_path: Path) -> None:
    run_night(tmp_path / "w", given_as(tmp_path / "a", rows_of(("acme", "opens at 8"))))
    run_night(tmp_path / "w", given_as(tmp_path / "b", rows_of(("acme", "opens at 9"))))
    assert published(tmp_path / "w", "occurrences")["source_row_id"].to_list() == ["0", "0"]
    assert published(tmp_path / "w", "chunks").height == 2


def test_rows_that_do_not_add_up_publish_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_night(tmp_path / "w", given_as(tmp_path / "a", rows_of(("acme", "x"))))
    before = state(tmp_path / "w")

    def loses_a_row(*args: Any, **options: Any) -> dict[str, Any]:
        result = load_sources(*args, **options)
        return result | {"rows_in": result["rows_in"] + 1}

    monkeypatch.setattr(stages_module, "load_sources", loses_a_row)
    with pytest.raises(NothingPublished, match=r"^rows in 2 but 0 new occurrences \+ 1 known .* nothing was published"):
        run_night(tmp_path / "w", given_as(tmp_path / "b", rows_of(("acme", "x"))))
    assert_same(before, state(tmp_path / "w"))
    assert [run.status for run in Warehouse(str(tmp_path / "w")).runs()] == ["published", "failed"]
    monkeypatch.undo()
    run_night(tmp_path / "w", given_as(tmp_path / "c", rows_of(("acme", "x"), ("acme", "y"))))
    assert published(tmp_path / "w", "chunks").height == 2


@pytest.mark.parametrize("fault", [ContractBroken("chunks: 1 of 1 rows break"), DoesNotAddUp("chunks: expected 1")])
def test_tables_that_break_their_contract_publish_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fails(*args: Any, **options: Any) -> dict[str, int]:
        raise fault

    monkeypatch.setattr(stages_module, "write_tables", fails)
    with pytest.raises(NothingPublished, match=str(fault)):
        run_night(tmp_path / "w", given_as(tmp_path / "a", rows_of(("acme", "x"))))
    warehouse = Warehouse(str(tmp_path / "w"))
    assert warehouse.published() is None
    assert [(run.status, run.note) for run in warehouse.runs()] == [("failed", str(fault))]


def test_too_many_rejects_publish_nothing(tmp_path: Path) -> None:
    rows = rows_of(("acme", " "), ("acme", "\u00a0"), ("acme", "x"))
    with pytest.raises(
        NothingPublished, match=r"^2 of 3 rows were rejected \(2 text_is_not_empty\), more than \[guard\]"
    ):
        run_night(tmp_path / "w", given_as(tmp_path / "a", rows))
    run_night(tmp_path / "w", given_as(tmp_path / "b", rows), guard={"max_reject_share": 1.0})
    assert published(tmp_path / "w", "rejects")["reason"].to_list() == ["text_is_not_empty"] * 2


def test_a_reject_of_an_earlier_night_is_counted_but_not_kept_twice(tmp_path: Path) -> None:
    given_rows = given_as(tmp_path / "a", rows_of(("acme", " "), ("acme", "x")))
    run_night(tmp_path / "w", given_rows)
    again = run_night(tmp_path / "w", given_rows).run
    assert again.rows_rejected == 1
    assert published(tmp_path / "w", "rejects").height == 1


def test_a_night_taken_up_after_a_crash_ends_as_one_that_was_not_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_rows = given_as(tmp_path / "a", rows_of(("acme", "x"), ("acme", " x"), ("boreal", "x")))
    run_night(tmp_path / "calm", given_rows)

    class Crash(BaseException):
        pass

    def crashes(*args: Any, **options: Any) -> dict[str, Any]:
        raise Crash

    for stage in ("hash_rows", "fold_exact", "write_tables"):
        with monkeypatch.context() as patched:
            patched.setattr(stages_module, stage, crashes)
            with pytest.raises(Crash):
                run_night(tmp_path / "stormy", given_rows)
    lines: list[str] = []

    class Told(Progress):
        def tell(self, line: str) -> None:
            lines.append(line)

    night(settings_of(tmp_path / "stormy", given_rows), progress=Told())
    assert [line.split()[0] for line in lines if "taken up" in line] == ["load", "hash", "exact"]
    assert_same(state(tmp_path / "calm"), state(tmp_path / "stormy"))
    assert not list((tmp_path / "stormy" / "staging").iterdir())


def test_what_was_staged_of_other_files_is_not_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_rows = given_as(tmp_path / "a", rows_of(("acme", "x")))
    with monkeypatch.context() as patched:
        patched.setattr(stages_module, "fold_exact", lambda *a, **o: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_night(tmp_path / "w", given_rows)
    rows_of(("acme", "y"), ("acme", "z")).write_parquet(tmp_path / "a" / "part-0.parquet")
    run_night(tmp_path / "w", given_rows)
    assert sorted(published(tmp_path / "w", "chunks")["text"]) == ["y", "z"]


def test_a_dry_run_says_what_would_happen_and_writes_nothing(tmp_path: Path) -> None:
    settings_of_night = settings_of(tmp_path / "w", given_as(tmp_path / "a", rows_of(("acme", "x"), ("acme", " x"))))
    outcome = night(settings_of_night, progress=Progress(quiet=True), dry_run=True)
    assert (outcome.run.rows_in, outcome.run.chunks_new, outcome.mart) == (2, 1, None)
    assert not (tmp_path / "w").exists()


def test_a_rollback_shows_the_older_run_again_and_the_next_night_goes_on_from_it(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    first = run_night(warehouse, given_as(tmp_path / "a", rows_of(("acme", "x")))).run
    second = given_as(tmp_path / "b", rows_of(("acme", "x"), ("acme", "y")))
    run_night(warehouse, second)
    back = rollback(settings_of(warehouse), first.run_id, progress=Progress(quiet=True))
    assert back.restores == first.run_id
    assert published(warehouse, "chunks")["text"].to_list() == ["x"]
    run_night(warehouse, second)
    assert sorted(published(warehouse, "chunks")["text"]) == ["x", "y"]
    statuses = [run.status for run in Warehouse(str(warehouse)).runs()]
    assert statuses == ["published", "published", "rollback", "published"]


def test_a_night_whose_input_is_not_there_is_on_record_as_failed(tmp_path: Path) -> None:
    with pytest.raises(NightfoldError, match="no such file"):
        run_night(tmp_path / "w", {"path": str(tmp_path / "missing.csv")})
    (run,) = Warehouse(str(tmp_path / "w")).runs()
    assert (run.status, run.note) == ("failed", f"{tmp_path}/missing.csv: no such file, folder or glob with a match")


def test_no_rollback_to_a_run_that_failed(tmp_path: Path) -> None:
    run_night(tmp_path / "w", given_as(tmp_path / "a", rows_of(("acme", " "), ("acme", "x"))))
    with pytest.raises(NothingPublished):
        run_night(tmp_path / "w", given_as(tmp_path / "b", rows_of(("acme", " "), ("acme", "\t"))))
    failed = Warehouse(str(tmp_path / "w")).runs()[-1]
    with pytest.raises(NightfoldError, match=f"^{failed.run_id}: cannot go back to this run: it was never published"):
        rollback(settings_of(tmp_path / "w"), failed.run_id, progress=Progress(quiet=True))


def test_no_rollback_to_a_run_whose_versions_are_pruned(tmp_path: Path) -> None:
    runs = [
        run_night(
            tmp_path / "w",
            given_as(tmp_path / str(n), rows_of(("acme", f"text {n}"))),
            warehouse={"keep_runs": 1},
        ).run
        for n in range(3)
    ]
    with pytest.raises(NightfoldError, match="its versions have been pruned"):
        rollback(settings_of(tmp_path / "w"), runs[0].run_id, progress=Progress(quiet=True))


@given(
    st.lists(st.tuples(st.sampled_from(["a", "a:b", "b"]), st.sampled_from(["x", "b:x", "a:b:x", ":x"])), max_size=8)
)
def test_no_scope_can_imitate_another(rows: list[tuple[str, str]]) -> None:
    """`a` with the text `b:x` and `a:b` with `x` have one content hash by the contract; the wall stands in the id."""
    frame = pl.DataFrame(
        [(scope, oracle.text_hash(scope, text), text) for scope, text in rows],
        schema={"scope": pl.String, "content_hash": pl.String, "text": pl.String},
        orient="row",
    ).with_columns(
        force=pl.lit(value=False),
        source=pl.lit("s"),
        source_row_id=pl.int_range(pl.len()).cast(pl.String),
        chunk_index=pl.lit(None, dtype=pl.Int32),
        corpus_id=pl.lit(None, dtype=pl.String),
    )
    ids = frame.lazy().pipe(with_ids, unchecked_scopes=[]).collect()
    assert ids.select("scope", "chunk_id").unique().height == ids["chunk_id"].n_unique()


def test_a_mart_that_cannot_be_written_leaves_the_run_published_and_the_next_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(str(tmp_path / "w"))
    first = given_as(tmp_path / "a", rows_of(("acme", "x")))

    def fails(*args: Any, **options: Any) -> str:
        raise MartNotWritten("mart.duckdb: cannot be written")

    with monkeypatch.context() as patched:
        patched.setattr(mart, "refresh", fails)
        with pytest.raises(MartNotWritten):
            run_night(tmp_path / "w", first)
    assert [run.status for run in warehouse.runs()] == ["published"]
    run_night(tmp_path / "w", first)
    last = warehouse.published()
    assert last is not None
    assert mart.shown_run(tmp_path / "w" / "mart.duckdb") == last.run_id


def test_whoever_opens_a_table_by_its_name_sees_what_is_published_after_a_failure_and_a_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(str(tmp_path / "w"))
    first = run_night(tmp_path / "w", given_as(tmp_path / "a", rows_of(("acme", "x")))).run
    second = given_as(tmp_path / "b", rows_of(("acme", "x"), ("acme", "y")))

    def does_not_add_up(*args: Any, **options: Any) -> None:
        raise DoesNotAddUp("chunks: expected 1")

    with monkeypatch.context() as patched:
        patched.setattr(stages, "check_tables", does_not_add_up)
        with pytest.raises(NothingPublished):
            run_night(tmp_path / "w", second)
    assert warehouse.head("chunks").count_rows() == 1
    run_night(tmp_path / "w", second)
    rollback(settings_of(tmp_path / "w"), first.run_id, progress=Progress(quiet=True))
    assert warehouse.head("chunks").count_rows() == 1


def test_a_file_that_is_gone_after_the_folder_was_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_rows = given_as(tmp_path / "a", rows_of(("acme", "x")))

    def then_deleted(settings: Any) -> list[Source]:
        sources = find_sources(settings)
        sources[0].files[0].path.unlink()
        return sources

    monkeypatch.setattr(night_module, "find_sources", then_deleted)
    with pytest.raises(UnreadableSource, match=r"part-0.parquet: gone since the folder was listed"):
        run_night(tmp_path / "w", given_rows)


def test_folders_whose_names_look_like_patterns_are_folders(tmp_path: Path) -> None:
    given_rows = given_as(tmp_path / "in", rows_of(("acme", "x"), ("acme", "x")))
    for _ in range(2):
        run_night(tmp_path / "b[1]*{x}", given_rows)
    assert published(tmp_path / "b[1]*{x}", "chunks")["text"].to_list() == ["x"]


def test_a_dry_run_refuses_what_the_run_would(tmp_path: Path) -> None:
    refused = settings_of(tmp_path / "w", given_as(tmp_path / "a", rows_of(("acme", " "))))
    with pytest.raises(NothingPublished, match=r"^1 of 1 rows were rejected"):
        night(refused, progress=Progress(quiet=True), dry_run=True)


def test_a_rollback_in_a_folder_without_runs_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NightfoldError, match="no such run"):
        rollback(settings_of(tmp_path / "w"), "2026", progress=Progress(quiet=True))
    assert not (tmp_path / "w").exists()


def test_a_configured_staging_folder_keeps_what_others_have_there(tmp_path: Path) -> None:
    precious = tmp_path / "shared" / "precious" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    given_rows = given_as(tmp_path / "a", rows_of(("acme", "x")))
    run_night(tmp_path / "w", given_rows, warehouse={"staging": str(tmp_path / "shared")})
    assert precious.read_text() == "years of work"


def test_a_staged_file_that_is_damaged_fails_one_run_and_not_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_rows = given_as(tmp_path / "a", rows_of(("acme", "x")))
    with monkeypatch.context() as patched:
        patched.setattr(stages_module, "fold_exact", lambda *a, **o: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_night(tmp_path / "w", given_rows)
    (keys,) = (tmp_path / "w" / "staging").glob("*/hash/keys.parquet")
    keys.write_bytes(keys.read_bytes()[:20])
    with pytest.raises(NotStaged, match="stage exact could not be kept"):
        run_night(tmp_path / "w", given_rows)
    run_night(tmp_path / "w", given_rows)
    assert [run.status for run in Warehouse(str(tmp_path / "w")).runs()] == ["failed", "published"]


def test_another_bad_row_in_the_same_place_is_another_reject_and_a_mended_one_is_not_of_tonight(tmp_path: Path) -> None:
    csv = tmp_path / "e.csv"
    given_rows = {"path": str(csv), "name": "e"}
    for line in ("A,acme,", "B,acme,", "B,acme,said"):
        csv.write_text(f"id,workspace_id,text\nC,acme,fine\n{line}\n")
        last = run_night(tmp_path / "w", given_rows).run
    rejects = published(tmp_path / "w", "rejects").sort("run_id")
    assert rejects["source_row_id"].to_list() == ["A", "B"]
    assert rejects["run_id"].to_list() == rejects["last_run_id"].to_list()
    with duckdb.connect(str(tmp_path / "w" / "mart.duckdb"), read_only=True) as opened:
        assert opened.sql("select tonight, ever from rejects_by_rule").fetchall() == [(0, 2)]
    assert last.rows_rejected == 0


def test_a_reject_that_comes_again_is_of_tonight(tmp_path: Path) -> None:
    given_rows = given_as(tmp_path / "a", rows_of(("acme", " "), ("acme", "x")))
    first = run_night(tmp_path / "w", given_rows).run
    second = run_night(tmp_path / "w", given_rows).run
    reject = published(tmp_path / "w", "rejects").row(0, named=True)
    assert (reject["run_id"], reject["last_run_id"]) == (first.run_id, second.run_id)


def test_settings_that_give_rows_other_chunks_are_told_of(tmp_path: Path) -> None:
    before = run_night(tmp_path / "w", given_as(tmp_path / "a", rows_of(("acme", "x")))).run
    changed = settings_of(tmp_path / "w", scopes={"acme": {"dedup": False}}, scope={"by": ["tenant"]})
    assert night_module.moved_walls(changed, before) == [
        "[scopes.'acme'] dedup has changed: its rows are stored a second time where they come again",
        "[scope] by has changed: rows whose scope is another now are stored a second time",
    ]
    assert night_module.moved_walls(settings_of(tmp_path / "w"), before) == []
    assert night_module.moved_walls(changed, None) == []
