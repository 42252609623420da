"""Reading what was published: the mart by SQL, the runs by list."""

import contextlib
import csv
import json
import sys

import duckdb
from rich.console import Console
from rich.table import Table

from flows.console import is_terminal
from flows.errors import NightfoldError
from flows.mart import NoMart, mart_path, shown_run
from flows.settings import Settings
from flows.warehouse import Warehouse

_PROMPT, _GOES_ON = "nightfold> ", "      ...> "


def _open(settings: Settings) -> duckdb.DuckDBPyConnection:
    path = mart_path(Warehouse(settings.warehouse.path))
    if not path.exists():
        raise NoMart(f"{path}: there is no mart yet; `nightfold run` makes it, or name another with --warehouse")
    try:
        return duckdb.connect(str(path), read_only=True)
    except duckdb.Error as error:
        raise NightfoldError(f"{path}: cannot be opened: {error}") from None


def query_mart(settings: Settings, query: str, *, as_csv: bool) -> None:
    """Prints the result of one query, or the reason it has none, in one line."""
    with contextlib.closing(_open(settings)) as connection:
        try:
            _print(connection, query, as_csv=as_csv)
        except duckdb.Error as error:
            raise NightfoldError(f"sql: {error}") from None


def _print(connection: duckdb.DuckDBPyConnection, query: str, *, as_csv: bool) -> None:
    result = connection.sql(query)
    if result is None:
        return
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(result.columns)
        while rows := result.fetchmany(10_000):
            writer.writerows(rows)
    else:
        result.show(max_rows=200)


def prompt(settings: Settings) -> None:
    """Reads queries up to their `;` and prints each result; an error leaves the prompt open."""
    if is_terminal():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401, PLC0415  (line editing and history for input())
        print(f"{mart_path(Warehouse(settings.warehouse.path))}, read-only. A query ends with ;  Ctrl-D leaves.")
    pending = ""
    with contextlib.closing(_open(settings)) as connection:
        while True:
            try:
                line = input((_GOES_ON if pending else _PROMPT) if is_terminal() else "")
            except EOFError:
                line = None
            pending = f"{pending}\n{line or ''}".strip()
            if pending.endswith(";") or (line is None and pending):
                try:
                    _print(connection, pending, as_csv=False)
                except duckdb.Error as error:
                    print(f"sql: {error}", file=sys.stderr)
                pending = ""
            if line is None:
                return


def show_runs(settings: Settings) -> None:
    """A line a run, newest first."""
    warehouse = Warehouse(settings.warehouse.path)
    runs, published = warehouse.runs(), warehouse.published()
    if not runs:
        raise NightfoldError(f"{settings.warehouse.path}: no run yet; `nightfold run` makes the first")
    table = Table(box=None, pad_edge=False)
    for name in ("", "run", "status", "rows in", "rejected", "chunks added", "seconds", "note"):
        table.add_column(
            name, justify="right" if name in ("rows in", "rejected", "chunks added", "seconds") else "left"
        )
    for run in reversed(runs):
        table.add_row(
            "*" if published and run.run_id == published.run_id else "",
            run.run_id,
            run.status,
            f"{run.rows_in:,}",
            f"{run.rows_rejected:,}",
            f"{run.chunks_new:,}",
            f"{sum(run.stage_seconds.values()):.1f}",
            (run.note or "").splitlines()[0] if run.note else "",
        )
    Console(soft_wrap=True, highlight=False, width=None).print(table)
    print("* what readers see")
    shown = shown_run(mart_path(warehouse))
    if published and shown != published.run_id:
        print(f"the mart still shows {shown or 'nothing'}; the next run brings it up to date")


def show_run(settings: Settings, run_id: str) -> None:
    """Everything on record of one run, as JSON."""
    run = Warehouse(settings.warehouse.path).run(run_id)
    print(json.dumps(vars(run), indent=2, default=str, ensure_ascii=False))
