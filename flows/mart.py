"""The mart: one DuckDB file an analyst opens, following the changes of each run.

It is written beside the old one and renamed over it: a reader keeps the file it opened, and the next one to open gets
the new night, never half of it.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb

from flows.errors import NightfoldError
from flows.warehouse import Change, Run, Warehouse
from schemas.contract import Contract
from schemas.tables import PUBLISHED_TABLES, RUNS, about_column

FILE_NAME = "mart.duckdb"
_VIEWS = Path(__file__).with_name("mart_views.sql")
_FOLLOW_UP_TO_ROWS = 100_000
_TABLES = {contract.name: contract for contract in (*PUBLISHED_TABLES, RUNS)}


class NoMart(NightfoldError):
    """There is no mart to query yet."""


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

    Returns `changed` or `rebuilt`.
    """
    path = mart_path(warehouse)
    follows = before is not None and _moves_little(run) and shown_run(path) == before.run_id
    with _beside(path, copy=follows) as new, contextlib.closing(duckdb.connect(str(new))) as mart:
        mart.execute("begin")
        if follows:
            for change in changes:
                _apply(mart, change)
        else:
            for contract in PUBLISHED_TABLES:
                _create(mart, contract)
                _fill(mart, contract, warehouse, run)
            _create(mart, RUNS)
        mart.execute("delete from runs")
        _fill_runs(mart, warehouse)
        mart.execute("create or replace table mart_run as select $1 as run_id", [run.run_id])
        mart.execute(_VIEWS.read_text(encoding="utf-8"))
        mart.execute("commit")
        mart.execute("checkpoint")
    return "changed" if follows else "rebuilt"


def _moves_little(run: Run) -> bool:
    """Whether following the changes is worth it: an update of most rows costs more than writing them anew."""
    return run.chunks_touched <= _FOLLOW_UP_TO_ROWS


@contextlib.contextmanager
def _beside(path: Path, *, copy: bool) -> Iterator[Path]:
    """A new file beside the old one (a copy of it, or none yet), renamed over it when all went well."""
    new = path.with_name(f"{path.name}.new")
    for leftover in (new, new.with_name(f"{new.name}.wal")):
        leftover.unlink(missing_ok=True)
    if copy:
        shutil.copyfile(path, new)
    yield new
    descriptor = os.open(new, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    new.replace(path)


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
        mart.register("published", dataset.scanner(columns=contract.columns).to_reader())
        mart.execute(f"insert into {contract.name} by name from published")
        mart.unregister("published")


def _fill_runs(mart: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> None:
    mart.register("all_runs", warehouse.head(RUNS.name).to_table())
    mart.execute("insert into runs by name from all_runs order by run_id")
    mart.unregister("all_runs")


def _apply(mart: duckdb.DuckDBPyConnection, change: Change) -> None:
    contract = _TABLES[change.table]
    if change.appends is not None:
        mart.execute(f"insert into {change.table} by name from read_parquet($1)", [str(change.appends)])
    for updates in change.updates:
        names = [
            str(name)
            for name, *_ in mart.execute("describe from read_parquet($1)", [str(updates)]).fetchall()
            if name not in contract.key
        ]
        same_key = " and ".join(f"{change.table}.{key} = changed.{key}" for key in contract.key)
        moved = ", ".join(f"{name} = changed.{name}" for name in names)
        mart.execute(
            f"update {change.table} set {moved} from read_parquet($1) as changed where {same_key}", [str(updates)]
        )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
