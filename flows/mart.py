"""The mart: one DuckDB file an analyst opens, following the changes of each run.

It is written beside the old one and renamed over it: a reader keeps the file it opened, and the next one to open gets
the new night, never half of it.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
from blake3 import blake3
from pyarrow import dataset as arrow_files

from flows.errors import NightfoldError
from flows.warehouse import Change, Run, Warehouse
from schemas.contract import Contract
from schemas.tables import PUBLISHED_TABLES, RUNS, about_column

FILE_NAME = "mart.duckdb"
_VIEWS = [Path(__file__).with_name(name) for name in ("mart_views.sql", "mart_visibility.sql")]
_FOLLOW_UP_TO_ROWS = 100_000
# DuckDB would take most of the machine to keep what it writes at hand. It needs far less, and spills beside the file.
_MEMORY = "1GB"
_MART_RUN = "The run this file shows, and a digest of the tables and views it was made with."
_TABLES = {contract.name: contract for contract in (*PUBLISHED_TABLES, RUNS)}


class NoMart(NightfoldError):
    """There is no mart to query yet."""


class MartNotWritten(NightfoldError):
    """The run is published and the mart does not show it yet."""


def mart_path(warehouse: Warehouse) -> Path:
    return warehouse.folder / FILE_NAME


def shown_run(path: Path) -> str | None:
    """The run the mart shows; None where there is no mart, or none that can be read."""
    if not path.exists():
        return None
    try:
        with contextlib.closing(duckdb.connect(str(path), read_only=True)) as mart:
            row = mart.execute("select run_id from mart_run").fetchone()
    except duckdb.Error:
        return None
    return None if row is None else str(row[0])


def refresh(warehouse: Warehouse, run: Run, *, before: Run | None, changes: list[Change]) -> str:
    """Brings the mart to `run`: by its changes where the mart shows the run before it, else from the tables.

    Returns `changed` or `rebuilt`, or raises MartNotWritten with the old mart in place.
    """
    path = mart_path(warehouse)
    try:
        if before is not None and _moves_little(run) and _shows(path, before):
            # A file that opens may still be damaged further in, or have been changed by someone: then it is made anew.
            with contextlib.suppress(duckdb.Error), _beside(path, copy=True) as mart:
                for change in changes:
                    _apply(mart, change)
                _finish(mart, warehouse, run)
                return "changed"
        with _beside(path, copy=False) as mart:
            for contract in (*PUBLISHED_TABLES, RUNS):
                _create(mart, contract)
            for contract in PUBLISHED_TABLES:
                _fill(mart, contract, warehouse, run)
            _finish(mart, warehouse, run)
    except (duckdb.Error, OSError) as error:
        raise MartNotWritten(
            f"{path}: cannot be written: {str(error).splitlines()[0]}; run {run.run_id} is published, and the next "
            "run brings the mart up to date"
        ) from error
    return "rebuilt"


def shows(warehouse: Warehouse, run: Run) -> bool:
    """Whether the mart of the warehouse shows the run, as this program would make it."""
    return _shows(mart_path(warehouse), run)


def _shows(path: Path, run: Run) -> bool:
    """Whether the mart shows the run, in the tables and views of this program."""
    try:
        with contextlib.closing(duckdb.connect(str(path), read_only=True)) as mart:
            return mart.execute("select run_id, made_with from mart_run").fetchall() == [(run.run_id, _made_with())]
    except duckdb.Error:
        return False


def _made_with() -> str:
    """A digest of all that decides what the mart looks like, comments included."""
    shapes = [
        [
            contract.name,
            contract.about,
            *((field.name, str(field.type), about_column(contract, field.name)) for field in contract.shape),
        ]
        for contract in _TABLES.values()
    ]
    return blake3(json.dumps([shapes, _MART_RUN, _views()]).encode()).hexdigest()[:16]


def _views() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in _VIEWS)


def _finish(mart: duckdb.DuckDBPyConnection, warehouse: Warehouse, run: Run) -> None:
    # DuckDB 1.5.5 finds nothing of a table by a join in the transaction that has just filled it with more than a row
    # group. The file is still beside the one that readers open, so a commit in between shows nobody half a run.
    mart.execute("commit")
    mart.execute("begin")
    mart.execute("delete from runs")
    _fill_runs(mart, warehouse)
    mart.execute("create or replace table mart_run as select $1 as run_id, $2 as made_with", [run.run_id, _made_with()])
    mart.execute(f"comment on table mart_run is {_quoted(_MART_RUN)}")
    mart.execute("comment on column mart_run.run_id is 'The run, as in runs.run_id'")
    mart.execute("comment on column mart_run.made_with is 'Digest of columns, comments and views'")
    mart.execute(_views())


def _moves_little(run: Run) -> bool:
    """Whether following the changes is worth it: an update of most rows costs more than writing them anew."""
    return run.chunks_touched <= _FOLLOW_UP_TO_ROWS


@contextlib.contextmanager
def _beside(path: Path, *, copy: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """A transaction on a new file beside the old one (a copy of it, or empty), renamed over it when all went well."""
    new = path.with_name(f"{path.name}.new")
    try:
        _remove(new)
        if copy:
            shutil.copyfile(path, new)
        with contextlib.closing(duckdb.connect(str(new), config={"memory_limit": _MEMORY})) as mart:
            mart.execute("begin")
            yield mart
            mart.execute("commit")
            mart.execute("checkpoint")
        with new.open("rb") as written:
            os.fsync(written.fileno())
        # The log of someone who wrote into the old file: DuckDB would replay it into the new one.
        _wal(path).unlink(missing_ok=True)
        new.replace(path)
    finally:
        _remove(new)


def _remove(new: Path) -> None:
    """What a run that ended early left, its log and what it spilled included."""
    new.unlink(missing_ok=True)
    _wal(new).unlink(missing_ok=True)
    shutil.rmtree(new.with_name(f"{new.name}.tmp"), ignore_errors=True)


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def _create(mart: duckdb.DuckDBPyConnection, contract: Contract) -> None:
    empty = contract.shape.empty_table()
    mart.register("shape", empty)
    mart.execute(f"create table {contract.name} as from shape")
    mart.unregister("shape")
    mart.execute(f"comment on table {contract.name} is {_quoted(contract.about)}")
    for column in contract.columns:
        mart.execute(f"comment on column {contract.name}.{column} is {_quoted(about_column(contract, column))}")


def _fill(mart: duckdb.DuckDBPyConnection, contract: Contract, warehouse: Warehouse, run: Run) -> None:
    dataset = warehouse.open(contract.name, run)
    if dataset is not None:
        # A version from before the contract gained a column has none to give.
        columns = [name for name in contract.columns if name in dataset.schema.names]
        mart.register("published", dataset.scanner(columns=columns).to_reader())
        mart.execute(f"insert into {contract.name} by name from published")
        mart.unregister("published")


def _fill_runs(mart: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> None:
    rows = warehouse.head(RUNS.name).to_table()
    mart.register("all_runs", rows.select([name for name in RUNS.columns if name in rows.column_names]))
    # A run that failed and was then taken up again is on record twice; it counts as what it became.
    mart.execute(
        "insert into runs by name from all_runs "
        "qualify row_number() over (partition by run_id order by status = 'failed') = 1 order by run_id"
    )
    mart.unregister("all_runs")


def _apply(mart: duckdb.DuckDBPyConnection, change: Change) -> None:
    contract, table = _TABLES[change.table], change.table
    if change.replaces is not None:
        mart.execute(f"delete from {table}")
        with _staged(mart, change.replaces) as columns:
            if columns:
                mart.execute(f"insert into {table} by name from staged")
    same_key = " and ".join(f"{table}.{key} = staged.{key}" for key in contract.key)
    for updates in change.updates:
        with _staged(mart, updates) as columns:
            if set(contract.columns) <= set(columns):
                mart.execute(f"delete from {table} using staged where {same_key}")
                mart.execute(f"insert into {table} by name from staged")
            elif columns:
                moved = ", ".join(f"{name} = staged.{name}" for name in columns if name not in contract.key)
                mart.execute(f"update {table} set {moved} from staged where {same_key}")
    if change.deletes is not None:
        with _staged(mart, change.deletes) as columns:
            if columns:
                mart.execute(f"delete from {table} using staged where {same_key}")
    if change.appends is not None:
        with _staged(mart, change.appends) as columns:
            if columns:
                mart.execute(f"insert into {table} by name from staged")


@contextlib.contextmanager
def _staged(mart: duckdb.DuckDBPyConnection, path: Path) -> Iterator[list[str]]:
    """A staged file as the table `staged`, with its columns, none where it has no rows. Not by `read_parquet`: to it, a
    path is a pattern."""
    rows = arrow_files.dataset(path, format="parquet")
    mart.register("staged", rows)
    yield rows.schema.names if rows.count_rows() else []
    mart.unregister("staged")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
