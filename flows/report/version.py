"""A run's tables as the report reads them: aggregates by SQL over batches, and the beginnings of a few texts. Where it
is of one scope, nothing of another is read."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl

from flows.warehouse import Run, Warehouse
from schemas.contract import Contract
from schemas.tables import CHUNKS, PUBLISHED_TABLES

_CONTRACTS = {contract.name: contract for contract in PUBLISHED_TABLES}
_MEMORY = "512MB"
_BATCH_ROWS = 65_536
_TEXT_BATCH_ROWS = 1_024
_IDS_AT_ONCE = 500
_NAMES = ("scope", "source", "action")
_IDS = ("chunk_id", "canonical_id", "superseded_by", "review_id", "pair_id")
_DIGEST_DIGITS = 16
_OF_A_CHUNK = ("chunk_id", "scope", "kind", "source", "source_row_id", "action")


@dataclass(frozen=True)
class Version:
    """The tables as one run published them, all scopes or one."""

    warehouse: Warehouse
    run: Run
    scope: str | None = None

    def rows(self, table: str, columns: list[str], where: str | None = None) -> pl.DataFrame:
        """Some columns of a table; one that the version has not gained yet is null. Ids are digests and names are
        categories: of every row of a large table, the texts of both would be most of what is held."""
        contract = _CONTRACTS[table]
        frames = [nothing_of(contract, columns)]
        for rows in self._batches(contract, columns, where):
            gained = [pl.lit(None, contract.dtypes[name]).alias(name) for name in columns if name not in rows.columns]
            frames.append(_compact(rows.with_columns(gained).select(columns)))
        return pl.concat(frames)

    def chunk_ids(self, digests: Iterable[int | None]) -> dict[int, str]:
        """The ids of the chunks with these digests, by digest."""
        wanted = pl.Series([each for each in set(digests) if each is not None], dtype=pl.UInt64)
        found: dict[int, str] = {}
        for rows in self._batches(CHUNKS, ["chunk_id"], None) if wanted.len() else ():
            mine = rows.select(_digest("chunk_id").alias("digest"), "chunk_id")
            found |= dict(mine.filter(pl.col("digest").is_in(wanted.implode())).iter_rows())
        return found

    def sql(self, query: str, table: str, columns: list[str], *, where: str | None = None) -> list[dict[str, Any]]:
        """The result of a query over these columns of the table, which it calls by its name. Memory is bounded."""
        contract = _CONTRACTS[table]
        dataset = self.warehouse.open(table, self.run)
        there = [] if dataset is None else [name for name in columns if name in dataset.schema.names]
        with contextlib.closing(duckdb.connect(config={"memory_limit": _MEMORY})) as connection:
            empty = contract.empty().select(columns).to_arrow()
            connection.register("shape", empty)
            if dataset is None or self._lacks_scope(contract):
                connection.register("rows_there", empty)
            else:
                reader = dataset.scanner(
                    columns=there, filter=self._filter(contract, where), batch_size=_BATCH_ROWS
                ).to_reader()
                connection.register("rows_there", reader)
            connection.execute(f"create temp view {table} as from shape union all by name from rows_there")
            return connection.execute(query).pl().to_dicts()

    def said(self, chunk_ids: Iterable[str | None], *, chars: int) -> dict[str, dict[str, Any]]:
        """These chunks by their ids, each with the beginning of its text."""
        wanted = sorted({each for each in chunk_ids if each is not None})
        dataset = self.warehouse.open(CHUNKS.name, self.run)
        found: dict[str, dict[str, Any]] = {}
        if dataset is None:
            return found
        for start in range(0, len(wanted), _IDS_AT_ONCE):
            listed = ",".join(f"'{chunk_id}'" for chunk_id in wanted[start : start + _IDS_AT_ONCE])
            rows = dataset.scanner(
                columns={**{name: name for name in _OF_A_CHUNK}, "text": f"left(text, {chars + 1})"},
                filter=self._filter(CHUNKS, f"chunk_id in ({listed})"),
                batch_size=_TEXT_BATCH_ROWS,
            )
            found |= {row["chunk_id"]: row for batch in rows.to_batches() for row in batch.to_pylist()}
        return found

    def count(self, table: str, where: str | None = None) -> int:
        """How many rows there are."""
        dataset = self.warehouse.open(table, self.run)
        contract = _CONTRACTS[table]
        if dataset is None or self._lacks_scope(contract):
            return 0
        return int(dataset.count_rows(self._filter(contract, where)))

    def _batches(self, contract: Contract, columns: list[str], where: str | None) -> Iterator[pl.DataFrame]:
        dataset = self.warehouse.open(contract.name, self.run)
        if dataset is None or self._lacks_scope(contract):
            return
        there = [name for name in columns if name in dataset.schema.names]
        for batch in dataset.to_batches(columns=there, filter=self._filter(contract, where), batch_size=_BATCH_ROWS):
            rows = pl.from_arrow(batch)
            assert isinstance(rows, pl.DataFrame)  # a batch never comes back as a Series
            yield rows

    def _lacks_scope(self, contract: Contract) -> bool:
        """A table that does not know the scope of its rows says nothing in the report of one."""
        return self.scope is not None and "scope" not in contract.columns

    def _filter(self, contract: Contract, where: str | None) -> str | None:
        mine = None
        if self.scope is not None:
            quoted = self.scope.replace("'", "''")
            mine = f"scope = '{quoted}'"
        both = [f"({each})" for each in (mine, where) if each is not None]
        return " and ".join(both) or None


def nothing_of(contract: Contract, columns: list[str]) -> pl.DataFrame:
    """No row, in the columns and types of `Version.rows`."""
    return _compact(contract.empty().select(columns))


def _compact(rows: pl.DataFrame) -> pl.DataFrame:
    ids = [_digest(name) for name in rows.columns if name in _IDS]
    return rows.with_columns(ids).with_columns(pl.col(name).cast(pl.Categorical) for name in _NAMES if name in rows)


def _digest(column: str) -> pl.Expr:
    """The first 64 bits of an id, which is a digest itself: in the same order, and shown as its beginning."""
    beginning = pl.col(column).str.slice(0, _DIGEST_DIGITS)
    return beginning.str.decode("hex").bin.reinterpret(dtype=pl.UInt64, endianness="big")


def beginning_of(digest: int) -> str:
    """How the id of this digest begins."""
    return f"{digest:0{_DIGEST_DIGITS}x}"
