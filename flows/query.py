"""Reading what was published: the mart by SQL, the runs by list."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator

import duckdb

from flows.console import in_columns, is_terminal
from flows.errors import NightfoldError
from flows.lance_sql import load_lance
from flows.mart import NoMart, mart_path, shown_run
from flows.settings import Settings
from flows.warehouse import Warehouse

_PROMPT, _GOES_ON = "nightfold> ", "      ...> "
_LEAVE = {"exit", "quit", ".exit", ".quit"}
_SHOWN_ROWS = 200
# Off the terminal a table is as wide as it needs to be; a hash is 64 characters, a longer text is cut.
_ANY_WIDTH, _CELL_WIDTH = 100_000, 80
_CSV_BATCH_ROWS = 10_000


@contextlib.contextmanager
def _mart(settings: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    path = mart_path(Warehouse(settings.warehouse.path))
    if not path.exists():
        raise NoMart(f"{path}: there is no mart yet; `nightfold run` makes it, or name another with --warehouse")
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.Error as error:
        raise NightfoldError(f"{path}: cannot be opened: {_told(error)}") from None
    with contextlib.closing(connection):
        yield connection


def query_mart(settings: Settings, query: str, *, as_csv: bool) -> None:
    """Prints the result of each statement, or the reason it has none."""
    statements, rest = split_statements(query)
    with _mart(settings) as connection:
        for statement in [*statements, rest]:
            try:
                _print(connection, statement, as_csv=as_csv)
            except duckdb.Error as error:
                raise NightfoldError(f"sql: {_told(error)}") from None


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that a `;` ends, and what comes after the last. A `;` in a string or a comment ends nothing."""
    written = text.encode()  # tokens are placed by bytes
    ends = [
        at for at, kind in duckdb.tokenize(text) if kind == duckdb.token_type.operator and written[at : at + 1] == b";"
    ]
    starts = [0, *(end + 1 for end in ends)]
    statements = [written[start:end].decode().strip() for start, end in zip(starts, ends, strict=False)]
    return [statement for statement in statements if statement], written[starts[-1] :].decode().strip()


def _print(connection: duckdb.DuckDBPyConnection, statement: str, *, as_csv: bool) -> None:
    try:
        load_lance(connection, statement)
        result = connection.sql(statement)
        if result is None:
            return
        if as_csv:
            _print_csv(result)
        else:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _ANY_WIDTH
            result.show(max_rows=_SHOWN_ROWS, max_width=width, max_col_width=_CELL_WIDTH)
    except RuntimeError as error:
        # DuckDB's word for Ctrl-C. Its threads go on with the query until they are told, and the next one would wait.
        if isinstance(error.__context__, KeyboardInterrupt):
            connection.interrupt()
            raise KeyboardInterrupt from None
        raise


def _print_csv(result: duckdb.DuckDBPyRelation) -> None:
    """The result as CSV in the way DuckDB writes and reads it: NULL is nothing, an empty text is `""`."""
    print(",".join(map(_csv_cell, result.columns)))
    as_text = result.project("columns(*)::varchar").execute()
    while rows := as_text.fetchmany(_CSV_BATCH_ROWS):
        sys.stdout.writelines(",".join(map(_csv_cell, row)) + "\n" for row in rows)


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    if text and text == text.strip() and not any(special in text for special in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _told(error: duckdb.Error) -> str:
    """DuckDB's words in one line; where it points into the query, the place under it."""
    words, line, place = str(error).partition("\n\nLINE ")
    return " ".join(words.split()) + (f"\nLINE {place}" if line else "")


def prompt(settings: Settings, *, as_csv: bool) -> bool:
    """Reads statements up to their `;` and prints each result; returns whether all went well.

    An error leaves the prompt open, and Ctrl-C drops what was typed or runs; `exit` or Ctrl-D leaves.
    """
    typed = is_terminal()
    pending, all_well = "", True
    with _mart(settings) as connection:
        if typed:
            _welcome(settings)
        while True:
            try:
                line = _next_line((_GOES_ON if pending else _PROMPT) if typed else "")
                if line is None or (not pending and line.strip(" ;").lower() in _LEAVE):
                    return _run(connection, [pending], as_csv=as_csv) and all_well
                statements, pending = split_statements(f"{pending}\n{line}")
                all_well &= _run(connection, statements, as_csv=as_csv)
            except KeyboardInterrupt:
                if not typed:
                    raise
                print()
                pending = ""


def _welcome(settings: Settings) -> None:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415  (line editing and history for input())
    print(f"{mart_path(Warehouse(settings.warehouse.path))}, read-only. A query ends with ;  Ctrl-D or exit leaves.")
    print("Try: show tables;   from duplicate_rate_by_source;   describe chunks;")


def _next_line(shown: str) -> str | None:
    """The next line; None where there are no more."""
    try:
        return input(shown)
    except EOFError:
        if shown:
            print()  # the shell's own prompt begins on a line of its own
        return None


def _run(connection: duckdb.DuckDBPyConnection, statements: list[str], *, as_csv: bool) -> bool:
    all_well = True
    for statement in statements:
        try:
            _print(connection, statement, as_csv=as_csv)
        except duckdb.Error as error:
            sys.stdout.flush()
            print(f"sql: {_told(error)}", file=sys.stderr)
            all_well = False
    return all_well


def show_runs(settings: Settings) -> None:
    """A line a run, newest first; the first line of its note is cut only by the edge of a terminal."""
    warehouse = Warehouse(settings.warehouse.path)
    runs, published = warehouse.runs(), warehouse.published()
    if not runs:
        raise NightfoldError(f"{settings.warehouse.path}: no run yet; `nightfold run` makes the first")
    heads = ("", "run", "status", "rows in", "rejected", "chunks added", "seconds", "note")
    rows = [
        (
            "*" if published and run.run_id == published.run_id else "",
            run.run_id,
            run.status,
            f"{run.rows_in:,}",
            f"{run.rows_rejected:,}",
            f"{run.chunks_new:,}",
            f"{sum(run.stage_seconds.values()):.1f}",
            (run.note or "").partition("\n")[0],
        )
        for run in reversed(runs)
    ]
    for line in in_columns([heads, *rows], right=[3, 4, 5, 6]):
        print(_to_the_edge(line))
    print("* what readers see")
    shown = shown_run(mart_path(warehouse))
    if published and shown != published.run_id:
        print(f"the mart still shows {shown or 'nothing'}; the next run brings it up to date")


def _to_the_edge(line: str) -> str:
    edge = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line)
    return line if len(line) <= edge else line[: edge - 1] + "…"


def show_run(settings: Settings, run_id: str) -> None:
    """Everything on record of one run, as JSON."""
    run = Warehouse(settings.warehouse.path).run(run_id)
    print(json.dumps(vars(run), indent=2, default=str, ensure_ascii=False))
