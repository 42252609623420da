"""What a search of corpora asks: each chunk once for every corpus it is in, with its vector, one table an embedding
version."""

from collections.abc import Iterator
from typing import Literal

import polars as pl
import pyarrow as pa

from flows.vectors import Vectors
from flows.warehouse import Warehouse
from schemas.contract import Contract
from schemas.tables import OCCURRENCES, VECTORS_PREFIX, retrieval_of

_KEY = ["corpus_id", "chunk_id"]
_SLICE_ROWS = 65_536
# Up to so many rows a search reads them all; from there on the index keeps them in memory, partition by partition.
_INDEX_FROM_ROWS = 10_000
_INDICES: dict[str, Literal["BITMAP", "BTREE"]] = {"corpus_id": "BITMAP", "scope": "BTREE"}


class Retrieval(Vectors):
    """The table beside these vectors. Writing is for whoever holds the lock."""

    def __init__(self, warehouse: Warehouse, vectors: Vectors) -> None:
        super().__init__(warehouse, vectors.table.removeprefix(VECTORS_PREFIX), vectors.dimensions)
        self.vectors = vectors
        self.contract: Contract = retrieval_of(vectors.table.removeprefix(VECTORS_PREFIX), vectors.dimensions)

    def follow(self) -> list[str]:
        """Brings the table to what the occurrences say: a row for each chunk with a vector and each corpus it is in.
        Returns its name where there is one to publish."""
        known = self._known()
        missing = self._wanted().join(known, on=_KEY, how="anti").sort(_KEY)
        if missing.is_empty() and known.is_empty():
            return []
        self._append(missing, is_new=known.is_empty())
        self._tend()
        return [self.table]

    def _known(self) -> pl.DataFrame:
        """What the table has. One that no run names is left by a night that did not end, and counts for nothing."""
        empty = self.contract.empty().select(_KEY)
        dataset = self.published(self.warehouse.published())
        if dataset is None:
            return empty
        rows = pl.from_arrow(dataset.to_table(columns=_KEY))
        assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
        return rows

    def _wanted(self) -> pl.DataFrame:
        columns = [*_KEY, "scope"]
        batches = self.warehouse.head(OCCURRENCES.name).to_batches(columns=columns, filter="corpus_id is not null")
        frames = [pl.from_arrow(batch) for batch in batches]
        named = [rows.unique() for rows in frames if isinstance(rows, pl.DataFrame)]
        return pl.concat([self.contract.empty().select(columns), *named]).unique()

    def _append(self, missing: pl.DataFrame, *, is_new: bool) -> None:
        """Rows of chunks that have no vector yet wait for it."""
        source = self.warehouse.head(self.vectors.table)
        ids = pl.from_arrow(source.to_table(columns=["chunk_id"]))
        assert isinstance(ids, pl.DataFrame)  # a table never comes back as a Series
        placed = ids.with_row_index("place").join(missing, on="chunk_id", how="inner").sort("place", "corpus_id")
        if placed.is_empty() and not is_new:
            return

        def batches() -> Iterator[pa.RecordBatch]:
            for rows in placed.iter_slices(_SLICE_ROWS):
                places = rows["place"].unique().sort()
                taken = pl.from_arrow(source.take(places.to_arrow(), columns=["chunk_id", "vector"]))
                assert isinstance(taken, pl.DataFrame)  # a table never comes back as a Series
                both = rows.join(taken, on="chunk_id", how="left", maintain_order="left")
                checked = self.contract.check(self.contract.shaped(both))
                yield from checked.to_arrow().cast(self.contract.shape).to_batches()

        mode = "append"
        if is_new:
            mode = "create" if self.warehouse.find_table(self.table) is None else "overwrite"
        self.warehouse.write(pa.RecordBatchReader.from_batches(self.contract.shape, batches()), self._uri, mode=mode)

    def _tend(self) -> None:
        """Keeps the table quick to filter and to search."""
        dataset = self.warehouse.head(self.table)
        if dataset.count_rows() < _INDEX_FROM_ROWS:
            return
        there = {column for index in dataset.describe_indices() for column in index.field_names}
        for column, kind in _INDICES.items():
            if column not in there:
                dataset.create_scalar_index(column, kind)
        if self.tend_index(from_rows=_INDEX_FROM_ROWS) == "nothing" and set(_INDICES) <= there:
            self._extend_filters()

    def _extend_filters(self) -> None:
        dataset = self.warehouse.head(self.table)
        names = [index.name for index in dataset.describe_indices() if set(index.field_names) <= set(_INDICES)]
        behind = [name for name in names if dataset.stats.index_stats(name)["num_unindexed_rows"]]
        if behind:
            dataset.optimize.optimize_indices(index_names=behind)
