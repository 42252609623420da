"""The warehouse: Lance tables, and the `runs` row that makes a run's versions of them the published ones.

A run writes its tables, each in its own commits, then appends one row to `runs` that names the version of every
table. Readers open the tables at the versions of the latest such row. Versions that no run names are of a crashed
run: the next writer goes back to the published ones first.

Tables outlive the program that made them: a column the contract has gained is null in older versions, and a column
or table that only a newer program knows stays as it is.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

# Updates join by key in memory; Lance's default pool (300 MB) is too small for slices of the size used here.
os.environ.setdefault("LANCE_MEM_POOL_SIZE", str(1 << 30))

import lance
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from flows.errors import NightfoldError
from schemas.contract import Contract, ContractBroken
from schemas.tables import CANONICALS, CHUNKS, OCCURRENCES, OF_A_VERSION, PUBLISHED_TABLES, REJECTS, RUNS
from schemas.terms import COMPLETE, PUBLISHED, ROLLED_BACK

_CONTRACTS = {contract.name: contract for contract in (*PUBLISHED_TABLES, RUNS)}
_JSON = ("actions", "stage_seconds", "table_versions", "settings", "neighbours", "sources", "stage_peak_mib")
# What each night looks up by key.
_INDEXED = (CHUNKS, OCCURRENCES, CANONICALS, REJECTS)
_UPDATE_SLICE_ROWS = 100_000
_DELETE_SLICE_ROWS = 5_000
# Up to so many rows are found and read through the index. Ids are random, so more of them touch every page of it, and
# reading the key column through is as cheap.
_LOOKUP_FEW = 100
# Up to this share of a table's rows are fetched one by one; above, the table is read through.
_TAKE_SHARE = 0.1
_SCAN_ROWS = 262_144
_INDEX_FROM_ROWS = 10_000
# Rows outside an index are read through on each lookup: cheap while they are few.
_UNINDEXED_SHARE = 0.05
_COMPACT_FROM_FRAGMENTS = 40
# Decisions come quickly one after the other: a reader that opened the run before the last is let finish.
_STILL_READ = 3


class NoSuchRun(NightfoldError):
    """A run that does not exist, or more than one that could be meant."""


class NotWritten(NightfoldError):
    """The disk is full, or a folder may not be written to."""


class TableDamaged(NightfoldError):
    """A table that is there and cannot be read, or has lost a version that was published."""


def _why(error: Exception) -> str:
    """Lance's own words in one line, without the place in its source."""
    return str(error).splitlines()[0].split(", /")[0]


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotWritten(
            f"warehouse: cannot be written: {_why(error)}; what was published before still stands. Make room, or see "
            "to who owns the folder, and run again"
        ) from error


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
    neighbours: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, dict[str, int]] = field(default_factory=dict)
    stage_peak_mib: dict[str, float] = field(default_factory=dict)
    decisions: int | None = None
    backfill: str | None = None

    @property
    def vector_tables(self) -> list[str]:
        """The tables of vectors that it names, those for retrieval included."""
        return sorted(name for name in self.table_versions if name.startswith(OF_A_VERSION))

    @property
    def is_readable(self) -> bool:
        return self.status in (PUBLISHED, ROLLED_BACK)

    @property
    def is_night(self) -> bool:
        """Whether it went through the stages: what a reviewer or a rollback publishes does not."""
        return bool(self.stage_seconds)


@dataclass(frozen=True)
class Change:
    """What a run does to one table: rows to append, columns to change and rows to delete by key; or all rows it has
    from now on. Paths to parquet files."""

    table: str
    appends: Path | None = None
    updates: tuple[Path, ...] = ()
    deletes: Path | None = None
    replaces: Path | None = None


class Warehouse:
    """The tables under one location. Only the lock, the staging and the mart need it to be a folder.

    With `keeps_open` a published table stays open, and its indexes in memory, until another version of it is asked for:
    for who asks a little, many times.
    """

    def __init__(self, location: str, *, keeps_open: bool = False) -> None:
        if "://" in location:
            raise NightfoldError(f"[warehouse] path = {location!r}: object stores are not supported yet; name a folder")
        if not location.strip():
            raise NightfoldError(f"[warehouse] path = {location!r}: names no folder")
        self.location = str(Path(location).expanduser())
        self._opened: dict[str, lance.LanceDataset] | None = {} if keeps_open else None

    @property
    def folder(self) -> Path:
        """The local folder of lock, staging and mart."""
        return Path(self.location)

    def _uri(self, table: str) -> str:
        return f"{self.location}/{table}.lance"

    def find_table(self, table: str, version: int | None = None) -> lance.LanceDataset | None:
        """The table, None where there is none yet. One that is there but damaged is not one that is missing: to take
        it so would be to start from nothing over it."""
        try:
            return lance.dataset(self._uri(table), version=version)
        except (ValueError, OSError) as error:
            if "was not found" in str(error):
                return None
            raise TableDamaged(
                f"{self._uri(table)}: cannot be read: {_why(error)}; restore the warehouse folder from a backup"
            ) from None

    # ---- runs

    def runs(self) -> list[Run]:
        """Every run on record, in the order of their commits, which no clock set back can change."""
        dataset = self.find_table(RUNS.name)
        runs: dict[str, Run] = {}
        for row in dataset.to_table().to_pylist() if dataset is not None else []:
            values = {each.name: row.get(each.name) for each in fields(Run)}
            run = Run(**{**values, **{name: json.loads(row.get(name) or "{}") for name in _JSON}})
            # On record twice: it failed, and was then taken up again. What was published stays published.
            if run.is_readable or run.run_id not in runs:
                runs.pop(run.run_id, None)
                runs[run.run_id] = run
        return list(runs.values())

    def published(self) -> Run | None:
        """The run whose versions readers open; None before the first."""
        return next((run for run in reversed(self.runs()) if run.is_readable), None)

    def standing(self) -> set[str]:
        """The runs whose rows are in the published one: those that no rollback has gone back behind."""
        runs = [run for run in self.runs() if run.is_readable]
        places = {run.run_id: place for place, run in enumerate(runs)}
        found, place = set(), len(runs) - 1
        while place >= 0:
            run = runs[place]
            found.add(run.run_id)
            place = places[run.restores] if run.restores in places else place - 1
        return found

    def run(self, run_id: str) -> Run:
        """The run of that id, or the only one whose id begins so."""
        found = [run for run in self.runs() if run.run_id.startswith(run_id)]
        exact = [run for run in found if run.run_id == run_id]
        if len(exact or found) != 1:
            what = "no such run" if not found else f"{len(found)} runs begin so"
            raise NoSuchRun(f"{run_id}: {what}; `nightfold runs list` shows them")
        return (exact or found)[0]

    @_writing()
    def commit(self, run: Run) -> None:
        """Append the run to `runs`: the one commit that publishes it."""
        row = {**asdict(run), **{name: json.dumps(getattr(run, name), sort_keys=True, default=str) for name in _JSON}}
        rows = RUNS.check(pl.DataFrame([row], schema=RUNS.dtypes)).to_arrow().cast(RUNS.shape)
        # Lance leaves its files to the page cache: a run must not be on record before what it names is on disk.
        os.sync()
        dataset = self.find_table(RUNS.name)
        if dataset is None:
            lance.write_dataset(rows, self._uri(RUNS.name), mode="create")
        else:
            _grow(dataset, RUNS)
            lance.write_dataset(rows, self._uri(RUNS.name), mode="append")
        os.sync()

    # ---- reading

    def open(self, table: str, run: Run | None = None) -> lance.LanceDataset | None:
        """The table as the run published it, the latest published one where none is given; None before there is one."""
        run = run or self.published()
        version = None if run is None else run.table_versions.get(table)
        if run is None or version is None:
            return None
        if self._opened is not None and table in self._opened and self._opened[table].version == version:
            return self._opened[table]
        dataset = self.find_table(table, version)
        if dataset is None:
            raise TableDamaged(
                f"{self._uri(table)}: version {version}, which run {run.run_id} published, is gone; go back to a run "
                "that is still whole (`nightfold runs rollback`), or restore the warehouse folder from a backup"
            )
        if self._opened is not None:
            self._opened[table] = dataset
        return dataset

    def head(self, table: str) -> lance.LanceDataset:
        """The table as it stands for the writer, unpublished changes included."""
        dataset = self.find_table(table)
        if dataset is None:
            raise TableDamaged(f"{self._uri(table)}: no such table; restore the warehouse folder from a backup")
        return dataset

    def find(self, table: str, keys: pl.Series, *, run: Run | None) -> "Found":
        """Where the run has the rows whose key is one of `keys`. Costs by the keys where they are few."""
        dataset = self.open(table, run) if run else None
        return _found(dataset, _CONTRACTS[table], keys.unique().rename(_CONTRACTS[table].key[0]))

    def lookup(self, table: str, keys: pl.Series, columns: list[str], *, run: Run | None) -> pl.DataFrame:
        """The run's rows whose key is one of `keys`, in the table's order."""
        return self.find(table, keys, run=run).rows(columns)

    def lookup_head(self, table: str, keys: pl.Series, columns: list[str]) -> pl.DataFrame:
        """As `lookup`, of the table as it stands for the writer."""
        contract = _CONTRACTS[table]
        return _found(self.head(table), contract, keys.unique().rename(contract.key[0])).rows(columns)

    # ---- writing; the caller holds the lock

    @_writing()
    def begin(self) -> Run | None:
        """Makes every table stand at its published version, whatever a crashed run left; returns that run."""
        if self.find_table(RUNS.name) is None:
            # First of all: a table that is there without `runs` is somebody else's, or all that is left of a warehouse.
            strangers = [contract.name for contract in PUBLISHED_TABLES if self.find_table(contract.name) is not None]
            if strangers:
                raise TableDamaged(
                    f"{self.location}: holds {strangers[0]}.lance and no runs.lance, so that it is not a warehouse, or "
                    "has lost its record of runs; name another folder, or restore runs.lance from a backup"
                )
            lance.write_dataset(RUNS.shape.empty_table(), self._uri(RUNS.name), mode="create")
        run = self.published()
        for contract in PUBLISHED_TABLES:
            published = self.open(contract.name, run) if run else None
            if published is None:
                mode = "create" if self.find_table(contract.name) is None else "overwrite"
                lance.write_dataset(contract.shape.empty_table(), self._uri(contract.name), mode=mode)
            elif self.head(contract.name).version != published.version:
                published.restore()
            _grow(self.head(contract.name), contract)
        for table in run.vector_tables if run else ():
            published = self.open(table, run)
            if published is not None and self.head(table).version != published.version:
                published.restore()
        return run

    @_writing()
    def write(self, batches: pa.RecordBatchReader, uri: str, *, mode: str) -> None:
        """Writes rows into a table that is not one of `PUBLISHED_TABLES`."""
        lance.write_dataset(batches, uri, mode=mode)

    @_writing()
    def apply(self, change: Change) -> None:
        """Appends and updates one table. Nobody sees it before the run is committed."""
        contract, uri = _CONTRACTS[change.table], self._uri(change.table)
        if change.replaces is not None:
            _replace(self.head(change.table), pl.read_parquet(change.replaces, glob=False), contract, uri)
        # Updates first: while every row is in the key's index, they cost by the rows they change.
        for updates in change.updates:
            for rows in _slices(updates, _UPDATE_SLICE_ROWS) if _row_count(updates) else ():
                # A whole row takes the place of the old one, and the plan for that is quicker by a scan of the keys.
                is_whole = set(contract.columns) <= set(rows.columns)
                builder = self.head(change.table).merge_insert(list(contract.key)).use_index(not is_whole)
                builder.when_matched_update_all().execute(_typed(rows, contract))
        if change.deletes is not None:
            for rows in _slices(change.deletes, _DELETE_SLICE_ROWS) if _row_count(change.deletes) else ():
                self.head(change.table).delete(_listed(rows[contract.key[0]]))
        if change.appends is not None and _row_count(change.appends):
            _append(change.appends, contract, uri)

    @_writing()
    def tend(self) -> None:
        """Keeps the tables quick to read: small fragments joined, keys indexed, new rows in the index."""
        for contract in PUBLISHED_TABLES:
            _compact(self.head(contract.name))
        for contract in _INDEXED:
            dataset, key = self.head(contract.name), contract.key[0]
            rows = dataset.count_rows()
            index = next((index.name for index in dataset.describe_indices() if key in index.field_names), None)
            if index is None:
                if rows >= _INDEX_FROM_ROWS:
                    dataset.create_scalar_index(key, "BTREE")
            elif dataset.stats.index_stats(index)["num_unindexed_rows"] > rows * _UNINDEXED_SHARE:
                dataset.optimize.optimize_indices()

    def versions(self, *vector_tables: str) -> dict[str, int]:
        """The version of each table as it stands for the writer; of tables that only a newer program knows, the
        published one, so that a night of this program does not lose them."""
        published = self.published()
        names = [*(contract.name for contract in PUBLISHED_TABLES), *vector_tables]
        ours = {name: self.head(name).version for name in names}
        carried = dict(published.table_versions) if published else {}
        if vector_tables:
            # Vectors of a former model: kept while a run that is kept names them, and not carried on.
            carried = {name: number for name, number in carried.items() if not name.startswith(OF_A_VERSION)}
        return {**carried, **ours}

    def rows(self) -> dict[str, int]:
        """Rows by table as they stand for the writer."""
        return {contract.name: self.head(contract.name).count_rows() for contract in PUBLISHED_TABLES}

    def scan(self, table: str, columns: list[str]) -> Iterator[pl.DataFrame]:
        """The table's rows as they stand for the writer, some columns, batch by batch."""
        return map(_frame, self.head(table).to_batches(columns=columns, batch_size=_SCAN_ROWS))

    def claimed(self) -> dict[str, int]:
        """How many occurrences the chunks say they have, and the canonicals, as they stand for the writer."""
        claimed = {}
        for table in (CHUNKS.name, CANONICALS.name):
            batches = self.head(table).to_batches(columns=["occurrences"], batch_size=_SCAN_ROWS)
            claimed[f"occurrences of {table}"] = sum(int(_frame(batch)["occurrences"].sum()) for batch in batches)
        return claimed

    def completed(self, embedding_version: str) -> tuple[int, int]:
        """Chunks with a text that are complete, and how many of them in another embedding version than this."""
        head, with_text = self.head(CHUNKS.name), f"completion_status = '{COMPLETE}' and text is not null"
        other = f"{with_text} and (embedding_version is null or embedding_version != '{embedding_version}')"
        return head.count_rows(with_text), head.count_rows(other)

    @_writing()
    def prune(self, *, keep_runs: int) -> int:
        """Drops table versions that none of the last `keep_runs` readable runs names; returns how many.

        Runs of decisions do not count, and the slices of one backfill count as one, by the last. Of what does not count
        the last run before one that does is kept, beside the latest few, which somebody may be reading still. `runs`
        keeps every row and only its latest version.
        """
        kept = [run.table_versions for run in _kept([run for run in self.runs() if run.is_readable], keep_runs)]
        _compact(self.head(RUNS.name))
        dropped = 0
        vectors = {name for versions in kept for name in versions if name.startswith(OF_A_VERSION)}
        for table in (*(contract.name for contract in PUBLISHED_TABLES), RUNS.name, *sorted(vectors)):
            named = {versions[table] for versions in kept if table in versions}
            dropped += _drop_versions(self.head(table), keep=named)
        for stale in self.folder.glob("*.lance"):
            if stale.stem.startswith(OF_A_VERSION) and stale.stem not in vectors:
                shutil.rmtree(stale)
        return dropped

    def can_restore(self, run: Run) -> bool:
        """True while every version the run names is still there."""
        return run.is_readable and all(
            self.find_table(table, version) is not None for table, version in run.table_versions.items()
        )


def _kept(runs: list[Run], keep_runs: int) -> list[Run]:
    """The runs whose versions stay: the last that count, of the others between two of them the last, and the latest
    few of any kind."""
    counts = _counting(runs)
    nights = [place for place, counting in enumerate(counts) if counting]
    first = nights[-keep_runs] if len(nights) >= keep_runs else 0
    pairs = zip_longest(counts[first:], counts[first + 1 :], fillvalue=True)
    kept = {first + place for place, (counting, next_counts) in enumerate(pairs) if counting or next_counts}
    kept |= {place for place in range(len(runs))[-_STILL_READ:] if not counts[place]}
    return [runs[place] for place in sorted(kept)]


def _counting(runs: list[Run]) -> list[bool]:
    """Which of the runs count as nights. What a backfill brought in before a rollback is not in what it brought in
    after it, and counts by itself."""
    counting: list[bool] = []
    later: set[str] = set()
    for run in reversed(runs):
        if run.status == ROLLED_BACK:
            later.clear()
        counting.append(run.decisions is None and run.backfill not in later)
        if run.backfill is not None:
            later.add(run.backfill)
    return counting[::-1]


def _grow(dataset: lance.LanceDataset, contract: Contract) -> None:
    """Gives the table the columns that its contract has gained since it was made, null in every row."""
    gained = [field for field in contract.shape if field.name not in dataset.schema.names]
    if gained:
        dataset.add_columns(pa.schema(gained))


def _compact(dataset: lance.LanceDataset) -> None:
    if len(dataset.get_fragments()) >= _COMPACT_FROM_FRAGMENTS:
        dataset.optimize.compact_files()


def _drop_versions(dataset: lance.LanceDataset, *, keep: set[int]) -> int:
    keep = {*keep, dataset.version}
    stale = [each["version"] for each in dataset.versions() if each["version"] not in keep]
    if stale:
        # Also the files of writes that never became a version: under the lock, no write is under way.
        dataset.cleanup_old_versions(versions=stale, delete_unverified=True)
    return len(stale)


@dataclass(frozen=True)
class Found:
    """Rows of a table by their keys, and the `place` of each in it; what they say is read when it is asked for."""

    dataset: lance.LanceDataset | None
    contract: Contract
    places: pl.DataFrame

    def among(self, keys: pl.Series) -> "Found":
        """Those of the rows whose key is one of `keys`."""
        key = self.contract.key[0]
        wanted = pl.DataFrame({key: keys.unique()})
        return replace(self, places=self.places.join(wanted, on=key, how="semi", maintain_order="left"))

    def rows(self, columns: list[str]) -> pl.DataFrame:
        """What the rows say in these columns, in the table's order, by the way that reads least. A column that the
        table has not gained yet is null."""
        if self.dataset is None or not self.places.height:
            return self.contract.empty().select(columns)
        key = self.contract.key[0]
        if columns == [key]:
            return self.places.select(key)
        there = [name for name in columns if name in self.dataset.schema.names]
        if self.places.height <= _LOOKUP_FEW:
            rows = _by_index(self.dataset, there, self.places[key])
        elif self.places.height <= self.dataset.count_rows() * _TAKE_SHARE:
            # Not `take`, by number: among deleted rows that costs seconds. Row ids have no public name for it.
            rows = _frame(self.dataset._take_rows(self.places["place"].to_arrow(), columns=there))  # noqa: SLF001
        else:
            rows = _matching(self.dataset, [*there, *({key} - set(there))], self.places.select(key))
        gained = [pl.lit(None, dtype=self.contract.dtypes[name]).alias(name) for name in columns if name not in there]
        return rows.with_columns(gained).select(columns)


def _found(dataset: lance.LanceDataset | None, contract: Contract, keys: pl.Series) -> Found:
    key = contract.key[0]
    nothing = contract.empty().select(key).with_row_index("place")
    if dataset is None or not keys.len() or not dataset.count_rows():
        return Found(dataset, contract, nothing)
    if keys.len() <= _LOOKUP_FEW:
        # Few enough to be read through the index too, so that nobody asks for their places.
        return Found(dataset, contract, _by_index(dataset, [key], keys).with_row_index("place"))
    return Found(dataset, contract, _matching(dataset, [key], pl.DataFrame({key: keys})))


def _by_index(dataset: lance.LanceDataset, columns: list[str], keys: pl.Series) -> pl.DataFrame:
    return _frame(dataset.to_table(columns=columns, filter=_listed(keys)))


def _listed(keys: pl.Series) -> str:
    """The filter for rows of these keys: derived ids, hex and nothing else."""
    listed = ",".join(f"'{value}'" for value in keys)
    return f"{keys.name} in ({listed})"


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)  # tables and batches never come back as a Series
    return frame


def _matching(dataset: lance.LanceDataset, columns: list[str], wanted: pl.DataFrame) -> pl.DataFrame:
    """The rows whose key is one of `wanted`, in the table's order, with the `place` of each, by which Lance finds it.
    Read batch by batch."""
    batches = dataset.to_batches(columns=columns, batch_size=_SCAN_ROWS, with_row_id=True)
    found = [rows.join(wanted, on=wanted.columns, how="semi") for rows in map(_frame, batches)]
    return pl.concat(found).rename({"_rowid": "place"})


def _row_count(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def _replace(dataset: lance.LanceDataset, rows: pl.DataFrame, contract: Contract, uri: str) -> None:
    """These rows and no others, in the order of their keys; what is the same makes no new version."""
    rows = contract.check(contract.shaped(rows)).sort(contract.key)
    if not rows.equals(contract.shaped(_frame(dataset.to_table()))):
        lance.write_dataset(rows.to_arrow().cast(contract.shape), uri, mode="overwrite")


def _append(path: Path, contract: Contract, uri: str) -> None:
    """Appends the rows of a staged file, each slice checked on the way; all of them, or none and ContractBroken."""
    broken: list[ContractBroken] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for rows in _slices(path, _UPDATE_SLICE_ROWS):
            try:
                checked = contract.check(rows)
            except ContractBroken as error:
                broken.append(error)
                raise
            yield from checked.select(contract.columns).to_arrow().cast(contract.shape).to_batches()

    try:
        lance.write_dataset(pa.RecordBatchReader.from_batches(contract.shape, batches()), uri, mode="append")
    except OSError:
        # What goes wrong in the batches comes back as an error of Lance's, with our traceback for its text.
        if broken:
            raise broken[0] from None
        raise


def _slices(path: Path, rows: int) -> Iterator[pl.DataFrame]:
    with pq.ParquetFile(path) as staged:
        for batch in staged.iter_batches(rows):
            yield _frame(batch)


def _typed(rows: pl.DataFrame, contract: Contract) -> pa.Table:
    """Some columns of a table, in the table's types."""
    return rows.to_arrow().cast(pa.schema([contract.shape.field(name) for name in rows.columns]))
