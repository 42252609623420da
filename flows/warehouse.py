"""The warehouse: Lance tables, and the `runs` row that makes a run's versions of them the published ones.

A run writes its tables, each in its own commits, then appends one row to `runs` that names the version of every
table. Readers open the tables at the versions of the latest such row. Versions that no run names are of a crashed
run: the next writer goes back to the published ones first.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

# Updates join by key in memory; Lance's default pool (300 MB) is too small for slices of the size used here.
os.environ.setdefault("LANCE_MEM_POOL_SIZE", str(1 << 30))

import lance
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from flows.errors import NightfoldError
from schemas.contract import Contract
from schemas.tables import CANONICALS, CHUNKS, PUBLISHED_TABLES, RUNS
from schemas.terms import PUBLISHED, ROLLED_BACK

_CONTRACTS = {contract.name: contract for contract in (*PUBLISHED_TABLES, RUNS)}
_INDEXED = {"chunks": "chunk_id", "occurrences": "occurrence_id", "canonicals": "canonical_id"}
_UPDATE_SLICE_ROWS = 100_000
# Up to so many keys are looked up through the index. Ids are random, so more of them touch every page of it, and
# reading the key column through is as cheap.
_LOOKUP_FEW = 1_000
# Up to this share of a table's rows are fetched one by one; above, the table is read through.
_TAKE_SHARE = 0.1
_SCAN_ROWS = 262_144
_INDEX_FROM_ROWS = 10_000
# Rows outside an index are read through on each lookup: cheap while they are few.
_UNINDEXED_SHARE = 0.05
_COMPACT_FROM_FRAGMENTS = 40


class NoSuchRun(NightfoldError):
    """A run that does not exist, or that cannot be gone back to."""


@dataclass(frozen=True)
class Run:
    """A row of `runs`, as far as readers and writers of the warehouse need it."""

    run_id: str
    started_at: datetime
    published_at: datetime | None
    status: str
    restores: str | None
    rows_in: int
    rows_rejected: int
    occurrences_new: int
    occurrences_known: int
    chunks_new: int
    chunks_touched: int
    actions: dict[str, int]
    stage_seconds: dict[str, float]
    recall_measured: float | None
    table_versions: dict[str, int]
    settings: dict[str, Any]
    note: str | None

    @property
    def is_readable(self) -> bool:
        return self.status in (PUBLISHED, ROLLED_BACK)


@dataclass(frozen=True)
class Change:
    """What a run does to one table: rows to append, and columns to change by key. Paths to parquet files."""

    table: str
    appends: Path | None = None
    updates: tuple[Path, ...] = ()


class Warehouse:
    """The tables under one location: a folder, or the URI of an object store."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")

    @property
    def folder(self) -> Path:
        """The local folder of lock, staging and mart."""
        if "://" in self.location:
            raise NightfoldError(
                f"[warehouse] path = {self.location!r}: object stores are not supported yet; name a folder"
            )
        return Path(self.location)

    def _uri(self, table: str) -> str:
        return f"{self.location}/{table}.lance"

    def _exists(self, table: str) -> bool:
        try:
            lance.dataset(self._uri(table))
        except (ValueError, FileNotFoundError):
            return False
        return True

    # ---- runs

    def runs(self) -> list[Run]:
        """Every run on record, oldest first."""
        if not self._exists(RUNS.name):
            return []
        rows = lance.dataset(self._uri(RUNS.name)).to_table().to_pylist()
        for row in rows:
            for name in ("actions", "stage_seconds", "table_versions", "settings"):
                row[name] = json.loads(row[name])
        return sorted((Run(**row) for row in rows), key=lambda run: run.run_id)

    def published(self) -> Run | None:
        """The run whose versions readers open; None before the first."""
        return next((run for run in reversed(self.runs()) if run.is_readable), None)

    def run(self, run_id: str) -> Run:
        """The run of that id, or the only one whose id begins so."""
        found = [run for run in self.runs() if run.run_id.startswith(run_id)]
        exact = [run for run in found if run.run_id == run_id]
        if len(exact or found) != 1:
            what = "no such run" if not found else f"{len(found)} runs begin so"
            raise NoSuchRun(f"{run_id}: {what}; `nightfold runs list` shows them")
        return (exact or found)[0]

    def commit(self, run: Run) -> None:
        """Append the run to `runs`: the one commit that publishes it."""
        row = asdict(run)
        for name in ("actions", "stage_seconds", "table_versions", "settings"):
            row[name] = json.dumps(row[name], sort_keys=True, default=str)
        rows = RUNS.check(pl.DataFrame([row], schema=RUNS.dtypes))
        mode = "append" if self._exists(RUNS.name) else "create"
        lance.write_dataset(rows.to_arrow().cast(RUNS.shape), self._uri(RUNS.name), mode=mode)

    # ---- reading

    def open(self, table: str, run: Run | None = None) -> lance.LanceDataset | None:
        """The table as the run published it, the latest published one where none is given; None before there is one."""
        run = run or self.published()
        version = None if run is None else run.table_versions.get(table)
        return None if version is None else lance.dataset(self._uri(table), version=version)

    def head(self, table: str) -> lance.LanceDataset:
        """The table as it stands for the writer, unpublished changes included."""
        return lance.dataset(self._uri(table))

    def lookup(self, table: str, keys: pl.Series, columns: list[str], *, run: Run | None) -> pl.DataFrame:
        """The run's rows whose key is one of `keys`. Costs by the keys where they are few, in bounded memory."""
        contract = _CONTRACTS[table]
        key = contract.key[0]
        dataset = self.open(table, run) if run else None
        if dataset is None or not keys.len() or not dataset.count_rows():
            return contract.empty().select(columns)
        wanted = pl.DataFrame({key: keys.unique()})
        if wanted.height <= _LOOKUP_FEW:
            listed = ",".join(f"'{value}'" for value in wanted[key])  # derived ids: hex and nothing else
            return _frame(dataset.to_table(columns=columns, filter=f"{key} in ({listed})")).select(columns)
        matched = _matching(dataset, [key], wanted)
        if columns == [key]:
            return matched.select(key)
        if matched.height <= dataset.count_rows() * _TAKE_SHARE:
            return _frame(dataset.take(matched["place"].to_arrow(), columns=columns)).select(columns)
        return _matching(dataset, columns, wanted).select(columns)

    # ---- writing; the caller holds the lock

    def begin(self) -> Run | None:
        """Makes every table stand at its published version, whatever a crashed run left; returns that run."""
        run = self.published()
        for contract in PUBLISHED_TABLES:
            version = run.table_versions.get(contract.name) if run else None
            if version is None:
                mode = "overwrite" if self._exists(contract.name) else "create"
                lance.write_dataset(contract.shape.empty_table(), self._uri(contract.name), mode=mode)
            elif self.head(contract.name).version != version:
                lance.dataset(self._uri(contract.name), version=version).restore()
        return run

    def apply(self, change: Change) -> None:
        """Appends and updates one table. Nobody sees it before the run is committed."""
        contract, uri = _CONTRACTS[change.table], self._uri(change.table)
        # Updates first: while every row is in the key's index, they cost by the rows they change.
        for updates in change.updates:
            for rows in _slices(updates, _UPDATE_SLICE_ROWS):
                builder = self.head(change.table).merge_insert(list(contract.key))
                builder.when_matched_update_all().execute(_typed(rows, contract))
        if change.appends is not None and _row_count(change.appends):
            reader = pa.RecordBatchReader.from_batches(contract.shape, _batches(change.appends, contract))
            lance.write_dataset(reader, uri, mode="append")

    def tend(self) -> None:
        """Keeps the tables quick to read: keys indexed, new rows in the index, small fragments joined."""
        for table, key in _INDEXED.items():
            dataset = self.head(table)
            if len(dataset.get_fragments()) >= _COMPACT_FROM_FRAGMENTS:
                dataset.optimize.compact_files()
                dataset = self.head(table)
            rows = dataset.count_rows()
            index = next((index.name for index in dataset.describe_indices() if key in index.field_names), None)
            if index is None:
                if rows >= _INDEX_FROM_ROWS:
                    dataset.create_scalar_index(key, "BTREE")
            elif dataset.stats.index_stats(index)["num_unindexed_rows"] > rows * _UNINDEXED_SHARE:
                dataset.optimize.optimize_indices()

    def versions(self) -> dict[str, int]:
        """The version of each table as it stands for the writer."""
        return {contract.name: self.head(contract.name).version for contract in PUBLISHED_TABLES}

    def counts(self) -> dict[str, int]:
        """Rows by table as they stand for the writer, and the occurrences that chunks and canonicals claim."""
        counts = {contract.name: self.head(contract.name).count_rows() for contract in PUBLISHED_TABLES}
        for table in (CHUNKS.name, CANONICALS.name):
            claimed = 0
            for batch in self.head(table).to_batches(columns=["occurrences"]):
                claimed += int(_frame(batch)["occurrences"].sum())
            counts[f"occurrences of {table}"] = claimed
        return counts

    def prune(self, *, keep_runs: int) -> int:
        """Drops table versions that none of the last `keep_runs` readable runs names; returns how many."""
        kept = [run for run in self.runs() if run.is_readable][-keep_runs:]
        dropped = 0
        for contract in PUBLISHED_TABLES:
            named = {run.table_versions.get(contract.name) for run in kept}
            dataset = self.head(contract.name)
            stale = [
                v["version"]
                for v in dataset.versions()
                if v["version"] not in named and v["version"] != dataset.version
            ]
            if stale:
                dataset.cleanup_old_versions(versions=stale)
                dropped += len(stale)
        return dropped

    def can_restore(self, run: Run) -> bool:
        """True while every version the run names is still there."""
        return run.is_readable and all(
            version in {v["version"] for v in self.head(table).versions()}
            for table, version in run.table_versions.items()
        )


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)  # tables and batches never come back as a Series
    return frame


def _matching(dataset: lance.LanceDataset, columns: list[str], wanted: pl.DataFrame) -> pl.DataFrame:
    """The rows whose key is one of `wanted`, in the table's order, with the `place` of each. Read batch by batch."""
    batches = dataset.to_batches(columns=columns, batch_size=_SCAN_ROWS)
    found, place = [], 0
    for rows in map(_frame, batches):
        found.append(rows.with_row_index("place", offset=place).join(wanted, on=wanted.columns, how="semi"))
        place += rows.height
    return pl.concat(found)


def _row_count(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def _batches(path: Path, contract: Contract) -> Iterator[pa.RecordBatch]:
    """The rows of a staged file in the table's shape, each batch checked on the way."""
    for rows in _slices(path, _UPDATE_SLICE_ROWS):
        yield from contract.check(rows).to_arrow().cast(contract.shape).to_batches()


def _slices(path: Path, rows: int) -> Iterator[pl.DataFrame]:
    with pq.ParquetFile(path) as staged:
        for batch in staged.iter_batches(rows):
            yield _frame(batch)


def _typed(rows: pl.DataFrame, contract: Contract) -> pa.Table:
    """Some columns of a table, in the table's types."""
    return rows.to_arrow().cast(pa.schema([contract.shape.field(name) for name in rows.columns]))
