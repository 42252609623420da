"""What the legacy system is told of its rows: SQL and CSV, written as they are read."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import duckdb

from flows.errors import NightfoldError
from flows.mart import mart_path
from flows.staging import keep
from flows.warehouse import Warehouse
from schemas.rows import SCOPE_SEPARATOR

SQL_FILE, CSV_FILE, REJECTS_FILE = "updates.sql", "updates.csv", "rejects.csv"
_SET = ("content_hash", "completion_status", "canonical_id", "chunk_id", "is_duplicate")
_CSV = ("id", *_SET, "scope", "chunk_index")
_PER_TRANSACTION = 1_000
_ROWS_AT_ONCE = 10_000
_MEMORY = "1GB"

# A document of several windows has no one chunk: its windows are in the view.
_UPDATES = """
select old_id, any_value(content_hash) as content_hash,
       case when bool_and(completion_status = 'complete') then 'complete'
            when bool_or(completion_status = 'incomplete') then 'incomplete' else 'retry-needed' end,
       case when count(*) = 1 then any_value(canonical_id) end, case when count(*) = 1 then any_value(chunk_id) end,
       bool_and(is_duplicate), scope, case when shape <> 'documents' then chunk_index end as place
from legacy_ids
where source = $1 and rejected_by is null
group by old_id, scope, shape, place
order by old_id, scope, place
"""
_REJECTS = "select source_row_id, locator, reason, detail from rejects where source = $1 order by locator, reason"


@dataclass(frozen=True)
class Target:
    """The legacy table that the updates are for. `scope_columns` are empty where the scope is no column of it."""

    table: str
    id_column: str
    scope_columns: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Emitted:
    """How many rows were written, and how many have no id, or a scope, that an update could name."""

    updates: int
    without_id: int
    rejects: int


def check_folder(folder: Path) -> None:
    """Makes the folder, or says at once why the updates could not be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{SQL_FILE}.partial"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise NightfoldError(
            f"{folder}: the updates cannot be written there ({error.strerror}); name another folder with --emit-updates"
        ) from error


def emit_updates(folder: Path, *, warehouse: Warehouse, source: str, target: Target) -> Emitted:
    """Writes an update for each row of the source that is in, and the rejects: each file whole or not at all."""
    own_place = re.compile(rf"(?:{'|'.join(map(re.escape, target.files))}):\d+")
    counts = {"updates": 0, "without_id": 0, "rejects": 0}
    with closing(_opened(warehouse, folder)) as mart:
        with _whole(folder / SQL_FILE) as sql, _whole(folder / CSV_FILE) as table:
            lines = csv.writer(_Lines(table))
            lines.writerow(_CSV)
            statements = _Statements(sql, target)
            for row in _rows(mart, _UPDATES, source):
                if own_place.fullmatch(row[0]) or "\0" in row[0] or not _names_scope(row[6], target):
                    counts["without_id"] += 1
                    continue
                counts["updates"] += 1
                statements.write(row)
                lines.writerow([*row[:5], "true" if row[5] else "false", *row[6:]])
            statements.close()
        with _whole(folder / REJECTS_FILE) as table:
            lines = csv.writer(_Lines(table))
            lines.writerow(("id", "locator", "reason", "detail"))
            for row in _rows(mart, _REJECTS, source):
                counts["rejects"] += 1
                lines.writerow(row)
    return Emitted(**counts)


def _opened(warehouse: Warehouse, folder: Path) -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _MEMORY,
        "temp_directory": str(folder / ".spilled"),
    }
    return duckdb.connect(str(mart_path(warehouse)), read_only=True, config=config)


def _rows(mart: duckdb.DuckDBPyConnection, query: str, source: str) -> Iterator[tuple[Any, ...]]:
    answer = mart.execute(query, [source])
    while rows := answer.fetchmany(_ROWS_AT_ONCE):
        yield from rows


@contextmanager
def _whole(path: Path) -> Iterator[TextIO]:
    """A file that has its name only when all of it is there."""
    unfinished = path.with_name(f".{path.name}.partial")
    with unfinished.open("w", encoding="utf-8", newline="") as opened:
        yield opened
    keep(unfinished, path)


class _Lines:
    """Rows of CSV with a plain end. The writer quotes what its own end of a row holds: with this one a carriage return
    in a value, which would end the row for who reads it."""

    def __init__(self, table: TextIO) -> None:
        self._table = table

    def write(self, row: str) -> int:
        return self._table.write(row.removesuffix("\r\n") + "\n")


class _Statements:
    """Updates in transactions of a bounded number of rows."""

    def __init__(self, sql: TextIO, target: Target) -> None:
        self._sql, self._target, self._open = sql, target, 0
        sql.write(f"-- For {' '.join(target.table.split())}, which needs the columns {', '.join(_SET)}.\n")

    def write(self, row: tuple[Any, ...]) -> None:
        if not self._open:
            self._sql.write("BEGIN;\n")
        self._sql.write(update(row, self._target))
        self._open += 1
        if self._open == _PER_TRANSACTION:
            self.close()

    def close(self) -> None:
        if self._open:
            self._sql.write("COMMIT;\n")
        self._open = 0


def quoted(value: object) -> str:
    """A value as PostgreSQL, SQLite and DuckDB all read it: a quote is doubled, nothing else means anything."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return "'" + str(value).replace("'", "''") + "'"


def named(parts: Sequence[str]) -> str:
    """A name of one or more parts, quoted as all three take it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _names_scope(scope: str, target: Target) -> bool:
    """Whether the columns tell this scope from every other: an update by some of them would meet rows of others."""
    return not target.scope_columns or scope.count(SCOPE_SEPARATOR) + 1 == len(target.scope_columns)


def update(row: tuple[Any, ...], target: Target) -> str:
    """The statement for one row."""
    old_id, *values, scope, place = row
    sets = ", ".join(f"{named([name])} = {quoted(value)}" for name, value in zip(_SET, values, strict=True))
    where = [
        (target.id_column, old_id),
        *zip(target.scope_columns, scope.split(SCOPE_SEPARATOR), strict=bool(target.scope_columns)),
    ]
    where += [("chunk_index", place)] if place is not None else []
    told = " AND ".join(f"{named([name])} = {quoted(value)}" for name, value in where)
    return f"UPDATE {named(target.table.split('.'))} SET {sets} WHERE {told};\n"
