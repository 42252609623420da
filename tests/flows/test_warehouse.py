"""The tables, and the row of `runs` that publishes them: what readers see, and what a crash leaves."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import lance
import lancedb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from flows import warehouse as module
from flows.console import Progress
from flows.errors import NightfoldError
from flows.night import night, rollback
from flows.run_rows import NothingPublished
from flows.warehouse import Change, NoSuchRun, NotWritten, Run, TableDamaged, Warehouse
from schemas.contract import Contract, ContractBroken
from schemas.tables import CANONICALS, PUBLISHED_TABLES, REJECTS, RUNS
from tests.nights import published, run_night, settings_of

NOW = datetime(2026, 1, 31, 2, tzinfo=UTC)


def run_of(run_id: str, *, status: str = "published", versions: dict[str, int] | None = None) -> Run:
    return Run(
        run_id=run_id,
        started_at=NOW,
        published_at=None if status == "failed" else NOW,
        status=status,
        restores=None,
        rows_in=0,
        rows_rejected=0,
        occurrences_new=0,
        occurrences_known=0,
        chunks_new=0,
        chunks_touched=0,
        actions={},
        stage_seconds={"load": 0.5},
        recall_measured=None,
        table_versions=versions or {},
        settings={"inputs": []},
        note=None,
    )


def canonical_id(number: int) -> str:
    return f"{number:032x}"


def groups(*numbers: int, occurrences: int = 1) -> pl.DataFrame:
    """Rows of `canonicals`, the table that is the least to write down."""
    ids = [canonical_id(number) for number in numbers]
    return CANONICALS.shaped(
        pl.DataFrame({"canonical_id": ids, "chunk_id": ids}, schema={"canonical_id": pl.String, "chunk_id": pl.String})
        .with_columns(scope=pl.lit("acme"), variants=0, occurrences=occurrences, first_seen_at=pl.lit(NOW))
        .with_columns(last_seen_at="first_seen_at")
    )


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "w"))


def append(warehouse: Warehouse, rows: pl.DataFrame) -> None:
    with TemporaryDirectory() as folder:
        rows.write_parquet(Path(folder) / "rows.parquet")
        warehouse.apply(Change("canonicals", appends=Path(folder) / "rows.parquet"))


def update(warehouse: Warehouse, *updates: pl.DataFrame) -> None:
    with TemporaryDirectory() as folder:
        paths = tuple(Path(folder) / f"{number}.parquet" for number in range(len(updates)))
        for rows, path in zip(updates, paths, strict=True):
            rows.write_parquet(path)
        warehouse.apply(Change("canonicals", updates=paths))


def publish(warehouse: Warehouse, run_id: str, *numbers: int) -> Run:
    """A run that appends these groups."""
    warehouse.begin()
    append(warehouse, groups(*numbers))
    run = run_of(run_id, versions=warehouse.versions())
    warehouse.commit(run)
    return run


def seen(dataset: lance.LanceDataset | None) -> dict[int, int]:
    """Occurrences by the number of the group."""
    assert dataset is not None
    rows = dataset.to_table(columns=["canonical_id", "occurrences"]).to_pylist()
    found = {int(row["canonical_id"], 16): row["occurrences"] for row in rows}
    assert len(found) == len(rows)
    return found


# ---- where it is


@pytest.mark.parametrize("location", ["s3://bucket/nightfold", "file:///somewhere", "gs://bucket"])
def test_an_object_store_is_refused_by_name_in_one_line(location: str) -> None:
    with pytest.raises(NightfoldError) as refused:
        Warehouse(location)
    assert str(refused.value) == (
        f"[warehouse] path = {location!r}: object stores are not supported yet; name a folder"
    )


def test_a_path_that_names_nothing_is_refused() -> None:
    with pytest.raises(NightfoldError, match="names no folder"):
        Warehouse(" ")


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Warehouse("~/w/").folder == tmp_path / "w"


# ---- runs


def test_a_run_on_record_reads_as_it_was_committed(warehouse: Warehouse) -> None:
    run = replace(
        run_of("r1", versions={"chunks": 3}),
        actions={"stored_as_new": 2},
        recall_measured=0.5,
        note="skipped a.pdf",
        restores="r0",
    )
    warehouse.commit(run)
    assert warehouse.runs() == [run]


def test_before_the_first_run_nothing_is_published(warehouse: Warehouse) -> None:
    assert warehouse.runs() == []
    assert warehouse.published() is None
    assert warehouse.open("chunks") is None
    warehouse.begin()
    assert warehouse.open("chunks") is None


def test_readers_see_a_run_from_its_commit_on_and_not_before(warehouse: Warehouse) -> None:
    first = publish(warehouse, "r1", 1)
    warehouse.begin()
    append(warehouse, groups(2))
    update(warehouse, groups(1).select("canonical_id", occurrences=pl.lit(7, dtype=pl.Int64)))
    assert seen(warehouse.open("canonicals")) == {1: 1}
    assert seen(warehouse.head("canonicals")) == {1: 7, 2: 1}
    warehouse.commit(run_of("r2", versions=warehouse.versions()))
    assert seen(warehouse.open("canonicals")) == {1: 7, 2: 1}
    assert seen(warehouse.open("canonicals", first)) == {1: 1}


def test_a_failed_run_is_on_record_and_readers_see_the_one_before(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1)
    append(warehouse, groups(2))
    warehouse.commit(run_of("r2", status="failed"))
    assert [run.run_id for run in warehouse.runs()] == ["r1", "r2"]
    assert warehouse.published() == warehouse.run("r1")
    assert seen(warehouse.open("canonicals")) == {1: 1}


def test_the_latest_run_is_the_last_committed_even_if_the_clock_was_set_back(warehouse: Warehouse) -> None:
    publish(warehouse, "20260201", 1)
    publish(warehouse, "20260131", 2)
    assert [run.run_id for run in warehouse.runs()] == ["20260201", "20260131"]
    assert seen(warehouse.open("canonicals")) == {1: 1, 2: 1}


@pytest.mark.parametrize("order", [("failed", "published"), ("published", "failed")])
def test_a_run_that_failed_and_was_published_counts_as_published(warehouse: Warehouse, order: tuple[str, str]) -> None:
    for status in order:
        warehouse.commit(run_of("r1", status=status))
    assert [run.status for run in warehouse.runs()] == ["published"]
    assert warehouse.run("r1").status == "published"


def test_a_run_is_found_by_its_id_or_by_how_only_its_id_begins(warehouse: Warehouse) -> None:
    for run_id in ("2026", "20260131", "20260201"):
        warehouse.commit(run_of(run_id))
    assert warehouse.run("2026").run_id == "2026"
    assert warehouse.run("202602").run_id == "20260201"


@pytest.mark.parametrize(("asked", "what"), [("1999", "no such run"), ("20260", "2 runs begin so")])
def test_a_run_that_is_not_there_or_not_the_only_one_is_refused(warehouse: Warehouse, asked: str, what: str) -> None:
    for run_id in ("20260131", "20260201"):
        warehouse.commit(run_of(run_id))
    with pytest.raises(NoSuchRun) as refused:
        warehouse.run(asked)
    assert str(refused.value) == f"{asked}: {what}; `nightfold runs list` shows them"


# ---- crashes


def half_written(warehouse: Warehouse) -> None:
    """What a run that was killed leaves: newer versions of some tables, named by no run."""
    append(warehouse, groups(90, 91))
    update(warehouse, groups(90).select("canonical_id", occurrences=pl.lit(9, dtype=pl.Int64)))
    rejects = pl.DataFrame({"reject_id": [canonical_id(1)], "source": ["s"], "locator": ["s:1"], "reason": ["r"]})
    lance.write_dataset(
        REJECTS.shaped(rejects).to_arrow().cast(REJECTS.shape), warehouse._uri("rejects"), mode="append"
    )


def rows_of_all(warehouse: Warehouse) -> dict[str, int]:
    return {contract.name: warehouse.head(contract.name).count_rows() for contract in PUBLISHED_TABLES}


def test_a_crash_before_the_first_run_was_published_leaves_empty_tables(warehouse: Warehouse) -> None:
    warehouse.begin()
    half_written(warehouse)
    assert warehouse.begin() is None
    assert set(rows_of_all(warehouse).values()) == {0}


def test_a_crash_in_the_middle_of_making_the_tables_is_mended(warehouse: Warehouse) -> None:
    # The runs and two tables made, of a third only its folder.
    for contract in (RUNS, *PUBLISHED_TABLES[:2]):
        lance.write_dataset(contract.shape.empty_table(), warehouse._uri(contract.name))
    (warehouse.folder / f"{PUBLISHED_TABLES[2].name}.lance" / "data").mkdir(parents=True)
    warehouse.begin()
    assert set(rows_of_all(warehouse).values()) == {0}


def test_tables_without_a_record_of_runs_are_left_alone(warehouse: Warehouse) -> None:
    # Somebody's own tables, or a warehouse that was restored without its `runs`: neither is ours to start over.
    lance.write_dataset(pa.table({"vector_id": [1, 2, 3]}), warehouse._uri("chunks"))
    with pytest.raises(TableDamaged, match=r"holds chunks.lance and no runs.lance, .* name another folder, or restore"):
        warehouse.begin()
    assert lance.dataset(warehouse._uri("chunks")).count_rows() == 3


def test_after_a_crash_the_next_writer_begins_at_the_published_versions(warehouse: Warehouse) -> None:
    run = publish(warehouse, "r1", 1, 2)
    half_written(warehouse)
    assert warehouse.begin() == run
    assert seen(warehouse.head("canonicals")) == {1: 1, 2: 1}
    assert rows_of_all(warehouse)["rejects"] == 0
    publish(warehouse, "r2", 3)
    assert seen(warehouse.open("canonicals")) == {1: 1, 2: 1, 3: 1}


def test_a_crash_between_two_crashes_changes_nothing(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1)
    for _ in range(3):
        half_written(warehouse)
        warehouse.begin()
    assert seen(warehouse.head("canonicals")) == {1: 1}


def test_a_writer_that_begins_where_all_is_well_makes_no_versions(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1)
    versions = warehouse.versions()
    warehouse.begin()
    assert warehouse.versions() == versions


@pytest.mark.parametrize("garbage", [b"", b"garbage" * 50])
def test_a_damaged_record_of_runs_is_not_taken_for_a_new_warehouse(warehouse: Warehouse, garbage: bytes) -> None:
    publish(warehouse, "r1", 1)
    for manifest in (warehouse.folder / "runs.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(garbage)
    with pytest.raises(TableDamaged) as refused:
        warehouse.begin()
    assert str(refused.value).startswith(f"{warehouse.folder}/runs.lance: cannot be read: ")
    assert str(refused.value).endswith("; restore the warehouse folder from a backup")
    assert "\n" not in str(refused.value)
    assert seen(warehouse.head("canonicals")) == {1: 1}


def test_a_published_version_that_is_gone_is_told_with_its_run(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1)
    warehouse.commit(run_of("r2", versions={"canonicals": 99}))
    for read in (warehouse.begin, lambda: warehouse.open("canonicals")):
        with pytest.raises(TableDamaged, match=r"version 99, which run r2 published, is gone; go back to a run"):
            read()


def test_a_table_that_is_gone_is_told(warehouse: Warehouse) -> None:
    with pytest.raises(TableDamaged, match=r"chunks\.lance: no such table; restore"):
        warehouse.head("chunks")


# ---- lookup


LOOKUP_COLUMNS = ["occurrences", "canonical_id", "last_seen_at"]


def plainly(warehouse: Warehouse, numbers: list[int], columns: list[str]) -> pl.DataFrame:
    dataset = warehouse.open("canonicals")
    assert dataset is not None
    rows = pl.from_arrow(dataset.to_table())
    assert isinstance(rows, pl.DataFrame)
    return rows.filter(pl.col("canonical_id").is_in([canonical_id(number) for number in numbers])).select(columns)


def assert_lookup_is_a_plain_filter(warehouse: Warehouse, numbers: list[int], columns: list[str]) -> None:
    keys = pl.Series([canonical_id(number) for number in numbers], dtype=pl.String)
    found = warehouse.lookup("canonicals", keys, columns, run=warehouse.published())
    assert_frame_equal(found, plainly(warehouse, numbers, columns), check_row_order=False)


@pytest.fixture(params=["by the index", "one by one", "read through"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The three ways of a lookup, whatever the number of keys."""
    monkeypatch.setattr(module, "_LOOKUP_FEW", 1_000 if request.param == "by the index" else 0)
    monkeypatch.setattr(module, "_TAKE_SHARE", 1.0 if request.param == "one by one" else 0.0)
    monkeypatch.setattr(module, "_SCAN_ROWS", 2)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("numbers", [[], [1], [1, 1, 3, 3], [7, 8], [0, 1, 2, 3, 4, 5, 6, 7]])
def test_a_lookup_is_a_plain_filter(warehouse: Warehouse, numbers: list[int]) -> None:
    publish(warehouse, "r1", *range(5))
    for columns in (LOOKUP_COLUMNS, ["canonical_id"], CANONICALS.columns):
        assert_lookup_is_a_plain_filter(warehouse, numbers, columns)


@pytest.mark.usefixtures("way")
def test_a_lookup_in_an_empty_table_or_before_the_first_run_has_the_same_shape(warehouse: Warehouse) -> None:
    keys = pl.Series([canonical_id(1)])
    before = warehouse.lookup("canonicals", keys, LOOKUP_COLUMNS, run=None)
    publish(warehouse, "r1")
    empty = warehouse.lookup("canonicals", keys, LOOKUP_COLUMNS, run=warehouse.published())
    assert before.schema == empty.schema == groups(1).select(LOOKUP_COLUMNS).schema
    assert before.height == empty.height == 0


@pytest.mark.usefixtures("way")
def test_a_lookup_reads_the_run_it_is_given_whatever_was_written_since(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1, 2)
    half_written(warehouse)
    assert_lookup_is_a_plain_filter(warehouse, [1, 90], LOOKUP_COLUMNS)


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["append", "update", "replace", "delete", "compact", "index"]), st.sets(st.integers(0, 15))
        ),
        max_size=6,
    ),
    wanted=st.sets(st.integers(0, 17)),
)
def test_a_lookup_is_a_plain_filter_after_any_changes(steps: list[tuple[str, set[int]]], wanted: set[int]) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SCAN_ROWS", 3)
        patch.setattr(module, "_UPDATE_SLICE_ROWS", 2)
        warehouse = Warehouse(folder)
        warehouse.begin()
        append(warehouse, groups(0, 1, 2, 3))
        for number, (what, about) in enumerate(steps):
            dataset = warehouse.head("canonicals")
            if what == "append":
                append(warehouse, groups(*sorted(about - set(seen(dataset)))))
            elif what == "update":
                update(warehouse, groups(*sorted(about), occurrences=number + 2).select("canonical_id", "occurrences"))
            elif what == "replace":
                update(warehouse, groups(*sorted(about), occurrences=number + 3))
            elif what == "delete" and about:
                dataset.delete(f"canonical_id in ({','.join(repr(canonical_id(each)) for each in sorted(about))})")
            elif what == "compact":
                dataset.optimize.compact_files()
            elif what == "index" and dataset.count_rows():
                dataset.create_scalar_index("canonical_id", "BTREE", replace=True)
        warehouse.commit(run_of("r1", versions=warehouse.versions()))
        for few, share in ((1_000, 0.0), (0, 1.0), (0, 0.0)):
            patch.setattr(module, "_LOOKUP_FEW", few)
            patch.setattr(module, "_TAKE_SHARE", share)
            assert_lookup_is_a_plain_filter(warehouse, sorted(wanted), LOOKUP_COLUMNS)


def test_a_lookup_of_many_keys_among_many_rows_is_a_plain_filter(warehouse: Warehouse) -> None:
    warehouse.begin()
    append(warehouse, groups(*range(20_000)))
    warehouse.tend()
    update(warehouse, groups(*range(0, 20_000, 7), occurrences=5).select("canonical_id", "occurrences"))
    warehouse.commit(run_of("r1", versions=warehouse.versions()))
    for numbers in (range(990, 1_010), range(0, 6_000, 5), range(3, 40_000, 2)):
        assert_lookup_is_a_plain_filter(warehouse, list(numbers), LOOKUP_COLUMNS)


# ---- writing


def test_updates_change_only_their_columns_of_only_their_rows(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UPDATE_SLICE_ROWS", 2)
    publish(warehouse, "r1", *range(6))
    later = NOW + timedelta(days=1)
    update(
        warehouse,
        groups(0, 2, 4, 5, 77, occurrences=8).select("canonical_id", "occurrences"),
        groups(4).select("canonical_id", last_seen_at=pl.lit(later)),
    )
    assert seen(warehouse.head("canonicals")) == {0: 8, 1: 1, 2: 8, 3: 1, 4: 8, 5: 8}
    rows = {row["canonical_id"]: row for row in warehouse.head("canonicals").to_table().to_pylist()}
    assert rows[canonical_id(4)]["last_seen_at"] == later
    assert rows[canonical_id(5)]["last_seen_at"] == NOW
    assert {row["scope"] for row in rows.values()} == {"acme"}


def test_a_change_without_rows_makes_no_version(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1)
    versions = warehouse.versions()
    append(warehouse, groups())
    update(warehouse, groups().select("canonical_id", "occurrences"))
    warehouse.apply(Change("canonicals"))
    assert warehouse.versions() == versions


def test_appended_rows_are_checked_in_every_slice(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_UPDATE_SLICE_ROWS", 2)
    warehouse.begin()
    broken = pl.concat([groups(1, 2), groups(3, occurrences=0)])
    with pytest.raises(
        ContractBroken, match=r"^canonicals: 1 of 1 rows break the rule more_occurrences_than_variants$"
    ):
        append(warehouse, broken)
    assert seen(warehouse.head("canonicals")) == {}


def test_a_table_that_cannot_be_written_is_told_in_one_line(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1)
    shutil.rmtree(warehouse.folder / "rejects.lance" / "data", ignore_errors=True)
    (warehouse.folder / "rejects.lance" / "data").write_text("in the way")
    reject = pl.DataFrame({"reject_id": [canonical_id(1)], "source": ["s"], "locator": ["s:1"], "reason": ["r"]})
    REJECTS.shaped(reject).write_parquet(warehouse.folder / "rows.parquet")
    with pytest.raises(NotWritten) as refused:
        warehouse.apply(Change("rejects", appends=warehouse.folder / "rows.parquet"))
    assert str(refused.value).startswith("warehouse: cannot be written: ")
    assert "\n" not in str(refused.value)
    assert seen(warehouse.open("canonicals")) == {1: 1}


def test_the_counts_are_of_the_tables_as_they_stand_for_the_writer(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1, 2)
    append(warehouse, groups(3, occurrences=5))
    counts = {**warehouse.rows(), **warehouse.claimed()}
    assert (counts["canonicals"], counts["occurrences of canonicals"], counts["occurrences of chunks"]) == (3, 7, 0)


def indexed(warehouse: Warehouse) -> tuple[int, int] | None:
    """Rows in and outside the index of the key; None where there is none."""
    dataset = warehouse.head("canonicals")
    names = [index.name for index in dataset.describe_indices()]
    stats = dataset.stats.index_stats(names[0]) if names else None
    return None if stats is None else (stats["num_indexed_rows"], stats["num_unindexed_rows"])


def test_a_key_is_indexed_from_ten_thousand_rows_on_and_the_index_kept_current(warehouse: Warehouse) -> None:
    warehouse.begin()
    append(warehouse, groups(*range(9_999)))
    warehouse.tend()
    assert indexed(warehouse) is None
    append(warehouse, groups(9_999))
    warehouse.tend()
    assert indexed(warehouse) == (10_000, 0)
    append(warehouse, groups(*range(10_000, 10_500)))
    warehouse.tend()
    assert indexed(warehouse) == (10_000, 500)
    append(warehouse, groups(*range(10_500, 11_500)))
    warehouse.tend()
    assert indexed(warehouse) == (11_500, 0)


def test_small_fragments_of_every_table_are_joined_and_no_row_is_lost(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COMPACT_FROM_FRAGMENTS", 4)
    monkeypatch.setattr(module, "_INDEX_FROM_ROWS", 3)
    warehouse.begin()
    for number in range(9):
        append(warehouse, groups(number))
        warehouse.tend()
        assert len(warehouse.head("canonicals").get_fragments()) < 4
    update(warehouse, groups(3, 4, occurrences=2).select("canonical_id", "occurrences"))
    warehouse.tend()
    assert seen(warehouse.head("canonicals")) == {**dict.fromkeys(range(9), 1), 3: 2, 4: 2}
    reject = pl.DataFrame({"reject_id": [canonical_id(1)], "source": ["s"], "locator": ["s:1"], "reason": ["r"]})
    for _ in range(4):
        rows = REJECTS.shaped(reject).to_arrow().cast(REJECTS.shape)
        lance.write_dataset(rows, warehouse._uri("rejects"), mode="append")
    warehouse.tend()
    assert len(warehouse.head("rejects").get_fragments()) == 1


# ---- old versions


def test_pruning_keeps_every_version_that_a_kept_run_names(warehouse: Warehouse) -> None:
    runs = [publish(warehouse, f"r{number}", number) for number in range(5)]
    warehouse.commit(run_of("r5", status="failed"))
    assert warehouse.prune(keep_runs=2) > 0
    assert [warehouse.can_restore(run) for run in runs] == [False, False, False, True, True]
    assert seen(warehouse.open("canonicals", runs[3])) == dict.fromkeys(range(4), 1)
    assert seen(warehouse.open("canonicals", runs[4])) == dict.fromkeys(range(5), 1)
    assert warehouse.prune(keep_runs=2) == 0
    assert [run.run_id for run in warehouse.runs()] == ["r0", "r1", "r2", "r3", "r4", "r5"]


def test_the_slices_of_a_backfill_count_as_one_run(warehouse: Warehouse) -> None:
    def slice_of(backfill: str, number: int) -> Run:
        warehouse.begin()
        append(warehouse, groups(number))
        run = replace(run_of(f"r{number}", versions=warehouse.versions()), backfill=backfill)
        warehouse.commit(run)
        warehouse.prune(keep_runs=2)
        return run

    nights = [publish(warehouse, f"r{number}", number) for number in range(2)]
    slices = [slice_of("one", number) for number in range(2, 8)]
    assert [warehouse.can_restore(run) for run in nights] == [False, True]
    assert [warehouse.can_restore(run) for run in slices] == [False, False, False, True, True, True]
    others = [slice_of("other", number) for number in range(8, 10)]
    assert not warehouse.can_restore(nights[1])
    assert all(warehouse.can_restore(run) for run in (slices[-1], *others))
    # After a rollback the same backfill is another run of it.
    warehouse.commit(replace(slices[-1], run_id="r10", status="rollback", restores="r7", backfill=None))
    again = slice_of("other", 11)
    assert warehouse.can_restore(again)
    assert warehouse.standing() == {"r0", "r1", *(f"r{number}" for number in range(2, 8)), "r10", "r11"}


def test_pruning_after_going_back_keeps_what_the_older_run_named(warehouse: Warehouse) -> None:
    first, second = publish(warehouse, "r1", 1), publish(warehouse, "r2", 2)
    warehouse.commit(replace(first, run_id="r3", status="rollback", restores="r1"))
    warehouse.prune(keep_runs=1)
    assert warehouse.can_restore(first)
    assert not warehouse.can_restore(second) or seen(warehouse.open("canonicals", second)) == {1: 1, 2: 1}
    publish(warehouse, "r4", 4)
    warehouse.prune(keep_runs=1)
    assert not warehouse.can_restore(first)
    assert seen(warehouse.open("canonicals")) == {1: 1, 4: 1}


@settings(max_examples=10, deadline=None)
@given(
    steps=st.lists(st.sampled_from(["publish", "fail", "crash", "back", "prune"]), max_size=8),
    keep=st.integers(1, 3),
)
def test_kept_runs_read_the_same_for_ever(steps: list[str], keep: int) -> None:
    with TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        expected: list[tuple[Run, dict[int, int]]] = []
        for number, step in enumerate(["publish", *steps, "prune"]):
            run_id = f"r{number:02}"
            if step == "publish":
                run = publish(warehouse, run_id, number)
                expected.append((run, seen(warehouse.head("canonicals"))))
            elif step == "fail":
                warehouse.begin()
                append(warehouse, groups(1_000 + number))
                warehouse.commit(run_of(run_id, status="failed"))
            elif step == "crash":
                warehouse.begin()
                append(warehouse, groups(1_000 + number))
            elif step == "back":
                target, rows = expected[-min(keep, len(expected))]
                run = replace(target, run_id=run_id, status="rollback", restores=target.run_id)
                warehouse.commit(run)
                expected.append((run, rows))
            else:
                warehouse.prune(keep_runs=keep)
            for run, rows in expected[-keep:]:
                assert warehouse.can_restore(run)
                assert seen(warehouse.open("canonicals", run)) == rows


def test_the_record_of_runs_keeps_every_run_and_stays_small(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COMPACT_FROM_FRAGMENTS", 5)
    warehouse.begin()
    for number in range(12):
        warehouse.commit(run_of(f"r{number:02}", versions=warehouse.versions()))
        warehouse.prune(keep_runs=2)
    record = warehouse.head("runs")
    assert len(record.versions()) == 1
    assert len(record.get_fragments()) < 5
    assert [run.run_id for run in warehouse.runs()] == [f"r{number:02}" for number in range(12)]


def test_files_of_a_write_that_never_became_a_version_are_removed(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1)
    orphan = warehouse.folder / "canonicals.lance" / "data" / "half.lance"
    orphan.write_bytes(b"half")
    publish(warehouse, "r2", 2)
    warehouse.prune(keep_runs=1)
    assert not orphan.exists()
    assert seen(warehouse.open("canonicals")) == {1: 1, 2: 1}


def test_a_failed_run_cannot_be_restored(warehouse: Warehouse) -> None:
    publish(warehouse, "r1", 1)
    warehouse.commit(run_of("r2", status="failed"))
    assert not warehouse.can_restore(warehouse.run("r2"))


# ---- programs of two ages


def with_column(contract: Contract, name: str) -> Contract:
    return replace(contract, shape=contract.shape.append(pa.field(name, pa.large_string(), metadata={"about": "New"})))


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, the program is one whose `canonicals` and `runs` have gained a column."""

    def upgrade() -> None:
        gained = {contract.name: with_column(contract, "gained") for contract in (CANONICALS, RUNS)}
        tables = tuple(gained.get(contract.name, contract) for contract in PUBLISHED_TABLES)
        monkeypatch.setattr(module, "PUBLISHED_TABLES", tables)
        monkeypatch.setattr(module, "RUNS", gained["runs"])
        monkeypatch.setattr(module, "_CONTRACTS", {contract.name: contract for contract in (*tables, gained["runs"])})

    return upgrade


def test_a_table_gains_a_column_that_is_null_in_what_was_there(warehouse: Warehouse, newer: Callable[[], None]) -> None:
    publish(warehouse, "r1", 1)
    newer()
    before = warehouse.begin()
    columns = ["canonical_id", "gained"]
    known = warehouse.lookup("canonicals", pl.Series([canonical_id(1)]), columns, run=before)
    assert known.rows() == [(canonical_id(1), None)]
    append(warehouse, groups(2).with_columns(gained=pl.lit("yes")))
    update(warehouse, groups(1).select("canonical_id", gained=pl.lit("now")))
    warehouse.commit(run_of("r2", versions=warehouse.versions()))
    rows = published(warehouse.folder, "canonicals").sort("canonical_id").select(columns)
    assert rows["gained"].to_list() == ["now", "yes"]
    assert [run.run_id for run in warehouse.runs()] == ["r1", "r2"]
    assert "gained" in warehouse.head("runs").schema.names


def test_an_older_program_goes_on_with_the_tables_of_a_newer_one(
    warehouse: Warehouse, newer: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context():
        newer()
        warehouse.begin()
        append(warehouse, groups(1).with_columns(gained=pl.lit("yes")))
        lance.write_dataset(pa.table({"a": [1]}), warehouse._uri("unheard_of"))
        warehouse.commit(run_of("r1", versions={**warehouse.versions(), "unheard_of": 1}))
    monkeypatch.undo()
    run = publish(warehouse, "r2", 2)
    rows = published(warehouse.folder, "canonicals").sort("canonical_id")
    assert rows["gained"].to_list() == ["yes", None]
    assert [run.run_id for run in warehouse.runs()] == ["r1", "r2"]
    # What it does not know it passes on, so that the newer program finds it again.
    assert run.table_versions["unheard_of"] == 1


# ---- whole nights


def corpus(folder: Path, *texts: str) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{abs(hash(texts))}.parquet"
    pl.DataFrame({"id": list(texts), "text": list(texts)}).write_parquet(path)
    return {"path": str(path), "name": "corpus", "scope": "acme"}


def test_an_application_opens_the_published_tables_with_lancedb(tmp_path: Path) -> None:
    outcome = run_night(tmp_path / "w", corpus(tmp_path, "a", "b"))
    chunks = lancedb.connect(tmp_path / "w").open_table("chunks")
    assert sorted(chunks.to_arrow()["text"].to_pylist()) == ["a", "b"]
    run_night(tmp_path / "w", corpus(tmp_path, "c"))
    chunks = lancedb.connect(tmp_path / "w").open_table("chunks")
    assert chunks.count_rows() == 3
    chunks.checkout(outcome.run.table_versions["chunks"])
    assert sorted(chunks.to_arrow()["text"].to_pylist()) == ["a", "b"]


def test_a_night_that_fails_is_on_record_with_its_reason(tmp_path: Path) -> None:
    first = run_night(tmp_path / "w", corpus(tmp_path, "a")).run
    with pytest.raises(NothingPublished):
        run_night(tmp_path / "w", corpus(tmp_path, " "), guard={"max_reject_share": 0})
    warehouse = Warehouse(str(tmp_path / "w"))
    assert warehouse.published() == first
    last = warehouse.runs()[-1]
    assert (last.status, last.table_versions) == ("failed", {})
    assert "max_reject_share" in str(last.note)


def test_going_back_and_on_again_reads_as_the_run_gone_back_to(tmp_path: Path) -> None:
    first = run_night(tmp_path / "w", corpus(tmp_path, "a")).run
    run_night(tmp_path / "w", corpus(tmp_path, "b"))
    back = rollback(settings_of(tmp_path / "w"), first.run_id, progress=Progress(quiet=True))
    warehouse = Warehouse(str(tmp_path / "w"))
    assert warehouse.published() == warehouse.run(back.run_id)
    assert warehouse.run(back.run_id).restores == first.run_id
    assert published(tmp_path / "w", "chunks")["text"].to_list() == ["a"]
    run_night(tmp_path / "w", corpus(tmp_path, "c"))
    assert sorted(published(tmp_path / "w", "chunks")["text"]) == ["a", "c"]


def test_a_night_prunes_by_the_setting(tmp_path: Path) -> None:
    given = [corpus(tmp_path, text) for text in "abc"]
    runs = [run_night(tmp_path / "w", each, warehouse={"keep_runs": 2}).run for each in given]
    warehouse = Warehouse(str(tmp_path / "w"))
    assert [warehouse.can_restore(run) for run in runs] == [False, True, True]


def test_a_night_on_an_object_store_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    given = settings_of(Path("w"), corpus(tmp_path / "in", "a"), warehouse={"path": "s3://bucket/w"})
    for dry_run in (False, True):
        with pytest.raises(NightfoldError, match=r"^\[warehouse\] path = 's3://bucket/w': object stores"):
            night(given, progress=Progress(quiet=True), dry_run=dry_run)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
