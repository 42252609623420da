"""The published mart, read by a process that lives longer than a night: opened anew when the file has changed."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from flows.errors import NightfoldError
from flows.mart import NoMart, mart_path
from flows.warehouse import Warehouse

Stamp = tuple[int, int, int]
# What a table or a column that the mart has not got is to DuckDB.
_OLDER = (duckdb.CatalogException, duckdb.BinderException)


class MartReader:
    """Queries the mart as it stands at each question. Threads share one reader."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.path: Path = mart_path(warehouse)
        self._lock = threading.Lock()
        self._open: tuple[Stamp, duckdb.DuckDBPyConnection] | None = None

    def stamp(self) -> Stamp:
        """What tells one mart file from the next that was renamed over it."""
        try:
            stat = self.path.stat()
        except OSError:
            raise NoMart(
                f"{self.path}: there is no mart yet; `nightfold run` makes it, or name another with --warehouse"
            ) from None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._lock:
            stamp = self.stamp()
            if self._open is None or self._open[0] != stamp:
                # Attached, not connected to: DuckDB keeps one instance a path in a process, also when another file has
                # taken the path. Whoever still reads the old one keeps it by a cursor of theirs.
                mart = duckdb.connect()
                try:
                    quoted = str(self.path).replace("'", "''")
                    mart.execute(f"attach '{quoted}' as mart (read_only)")
                except duckdb.Error as error:
                    mart.close()
                    raise NightfoldError(f"{self.path}: cannot be opened: {str(error).splitlines()[0]}") from None
                self._open = (stamp, mart)
            cursor = self._open[1].cursor()
        with contextlib.closing(cursor):
            yield cursor

    def _is_older(self) -> NightfoldError:
        return NightfoldError(
            f"{self.path}: was made by an older program and has no list of questions; the next `nightfold run` brings "
            "it up to date"
        )

    def rows(self, query: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query over the tables of `mart`."""
        with self._cursor() as cursor:
            try:
                return cursor.execute(query, list(given)).fetchall()
            except _OLDER:
                raise self._is_older() from None

    def dicts(self, query: str, given: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The same, by the names of the columns."""
        with self._cursor() as cursor:
            try:
                result = cursor.execute(query, list(given))
            except _OLDER:
                raise self._is_older() from None
            names = [column[0] for column in result.description or []]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open[1].close()
                self._open = None
