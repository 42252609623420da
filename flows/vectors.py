"""The vectors of one embedding version: an append-only Lance table, with an IVF index once it is large."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# The join reads the centroids from the index's statistics.
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "true")

import lance
import numpy as np
import polars as pl
import pyarrow as pa
from lance.dataset import VectorIndexReader
from numpy.typing import NDArray

from flows.kept_rows import KeptRows, drop_orphans, kept_rows
from flows.warehouse import Run, Warehouse
from schemas.contract import Contract
from schemas.tables import vectors_of
from transforms.grid import Grid, snapped
from transforms.neighbours import Partitions, assigned, trained
from transforms.sieve import Coarse

_INDEX = "vector_idx"
_COLUMN = "vector"
_SCAN_ROWS = 65_536
# From here on the rows are kept as the join reads them as well, in a folder of the warehouse.
_KEPT, _KEPT_FROM_ROWS = "kept", 20_000
# Vectors a partition that the centroids are trained on.
_TRAINED_ON = 40
# Rows outside the index are given to their partitions by the join itself: cheap while they are few.
_UNINDEXED_SHARE = 0.05
# The index is built anew when the table has grown so far beyond it, or when one partition has swallowed the others.
_GROWN = 2.0
_SWOLLEN = 20.0


@dataclass(frozen=True)
class Loaded:
    """The vectors of some scopes, snapped to the grid, in the order of their chunk ids."""

    chunk_ids: pl.Series
    scopes: pl.Series
    grid: Grid
    row_ids: NDArray[np.uint64]
    coarse: Coarse | None = None
    """Their codes, where these are kept."""


class Vectors:
    """The table of one version in a warehouse. Writing is for whoever holds the lock."""

    def __init__(self, warehouse: Warehouse, version: str, dimensions: int) -> None:
        self.warehouse = warehouse
        self.contract: Contract = vectors_of(version, dimensions)
        self.dimensions = dimensions

    @property
    def table(self) -> str:
        return self.contract.name

    @property
    def _uri(self) -> str:
        return f"{self.warehouse.location}/{self.table}.lance"

    def published(self, run: Run | None) -> lance.LanceDataset | None:
        """The table as the run has it; None where the run has no vectors of this version."""
        return self.warehouse.open(self.table, run) if run is not None and self.table in run.table_versions else None

    def known(self, text_keys: pl.Series, *, run: Run | None) -> pl.DataFrame:
        """Text keys and vectors that the run has already, one row a key."""
        dataset = self.published(run)
        wanted = pl.DataFrame({"text_key": text_keys.unique()})
        found = [pl.DataFrame(schema={"text_key": pl.String, "vector": self.contract.dtypes["vector"]})]
        if dataset is None or not wanted.height:
            return found[0]
        places, place = [pl.DataFrame(schema={"place": pl.UInt32, "text_key": pl.String})], 0
        for rows in _frames(dataset, ["text_key"]):
            places.append(rows.with_row_index("place", offset=place).join(wanted, on="text_key", how="semi"))
            place += rows.height
        hits = pl.concat(places).unique("text_key", keep="first", maintain_order=True)
        for some in hits.iter_slices(_SCAN_ROWS):
            taken = dataset.take(some["place"].to_arrow(), columns=["text_key", "vector"])
            found.append(_frame(taken).cast({"text_key": pl.String}))
        return pl.concat(found)

    def replace_unpublished(self, staged: list[Path], *, run: Run | None) -> None:
        """The table as the run has it, and the rows of the staged files after that, but for chunks that it has."""
        mode, dataset = "append", self.published(run)
        if dataset is None:
            mode = "create" if self.warehouse.find_table(self.table) is None else "overwrite"
        known = pl.concat([_no_ids(), *(_frames(dataset, ["chunk_id"]) if dataset is not None and staged else ())])
        batches = pa.RecordBatchReader.from_batches(self.contract.shape, self._batches(staged, known))
        self.warehouse.write(batches, self._uri, mode=mode)

    def _batches(self, staged: list[Path], known: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        for path in staged:
            rows = pl.read_parquet(path, glob=False).drop_nulls("vector")
            rows = rows.join(known, on="chunk_id", how="anti", maintain_order="left")
            if rows.height:
                checked = self.contract.check(self.contract.shaped(rows))
                yield from checked.to_arrow().cast(self.contract.shape).to_batches()

    def rows(self) -> int:
        """Vectors as they stand for the writer."""
        return int(self.warehouse.head(self.table).count_rows())

    def tend_index(self, *, from_rows: int) -> str:
        """Keeps the index current; says what it did: nothing, made, extended or remade."""
        dataset = self.warehouse.head(self.table)
        rows = dataset.count_rows()
        if rows < from_rows:
            return "nothing"
        if not any(index.name == _INDEX for index in dataset.describe_indices()):
            self._make_index(dataset, rows)
            return "made"
        stats = dataset.stats.index_stats(_INDEX)
        sizes = [part["size"] for part in stats["indices"][0]["partitions"]]
        is_behind = stats["num_unindexed_rows"] > _UNINDEXED_SHARE * rows
        # Many rows of one vector fill one partition however often the index is built: not every night for that.
        is_swollen = is_behind and max(sizes) > _SWOLLEN * rows / len(sizes)
        if rows > _GROWN * len(sizes) ** 2 or is_swollen:
            self._make_index(dataset, rows)
            return "remade"
        if is_behind:
            dataset.optimize.optimize_indices()
            return "extended"
        return "nothing"

    def _make_index(self, dataset: lance.LanceDataset, rows: int) -> None:
        partitions = max(1, round(rows**0.5))
        step = max(1, rows // (partitions * _TRAINED_ON))
        # Rows in the order of their ids, which are hashes: as good as chance, and the same every time.
        ids = _frame(dataset.to_table(columns=["chunk_id"]))["chunk_id"]
        sample = np.sort(ids.arg_sort().to_numpy()[::step])
        vectors = _frame(dataset.take(sample, columns=["chunk_id", _COLUMN])).sort("chunk_id")[_COLUMN]
        grid = snapped(vectors.to_numpy().reshape(len(sample), self.dimensions))
        dataset.create_index(
            _COLUMN,
            "IVF_FLAT",
            name=_INDEX,
            metric="dot",
            ivf_centroids=trained(grid, partitions),
            replace=True,
            num_partitions=partitions,
        )

    def load(self, scopes: list[str]) -> Loaded:
        """All vectors of these scopes, unpublished ones included."""
        dataset = self.warehouse.head(self.table)
        wanted = pl.DataFrame({"scope": scopes}, schema={"scope": pl.String})
        named = _frame(dataset.to_table(columns=["chunk_id", "scope"], with_row_id=True)).with_row_index("at")
        mine = named.join(wanted, on="scope", how="semi", maintain_order="left").sort("chunk_id")
        # Where each row of the table goes: to its place in the order of ids, or nowhere.
        place = np.full(named.height, -1, dtype=np.int64)
        place[mine["at"].to_numpy()] = np.arange(mine.height)
        grid = np.empty((mine.height, self.dimensions), dtype=np.int16)

        def snap(numbered: tuple[int, pl.DataFrame]) -> None:
            start, rows = numbered
            to = place[start : start + rows.height]
            vectors = rows["vector"].to_numpy().reshape(rows.height, self.dimensions)
            grid[to[to >= 0]] = snapped(vectors[to >= 0] if (to < 0).any() else vectors)

        with ThreadPoolExecutor(2) as pool:
            for _ in pool.map(snap, _numbered(_frames(dataset, ["vector"])) if mine.height else ()):
                pass
        return Loaded(mine["chunk_id"], mine["scope"], grid, mine["_rowid"].to_numpy())

    def kept(self, *, threshold: float, threads: int) -> KeptRows | None:
        """All rows as the join reads them, unpublished ones included; None where they are few."""
        root = self.warehouse.folder / _KEPT
        drop_orphans(root, self.warehouse.folder)
        dataset = self.warehouse.head(self.table)
        if dataset.count_rows() < _KEPT_FROM_ROWS:
            return None
        return kept_rows(dataset, root / self.table, threshold=threshold, threads=threads)

    def of_scope(self, scope: str, *, run: Run) -> tuple[pl.Series, Grid]:
        """The chunk ids of a scope in their order, and their vectors on the grid, as the run published them."""
        dataset = self.published(run)
        if dataset is None:
            return _no_ids()["chunk_id"], np.empty((0, self.dimensions), dtype=np.int16)
        rows = _frame(dataset.to_table(columns=["chunk_id", _COLUMN], filter=is_scope(scope))).sort("chunk_id")
        return rows["chunk_id"], snapped(rows[_COLUMN].to_numpy().reshape(rows.height, self.dimensions))

    def size_of_scope(self, scope: str, *, run: Run) -> int:
        """How many vectors of a scope the run published."""
        dataset = self.published(run)
        return 0 if dataset is None else int(dataset.count_rows(is_scope(scope)))

    def size(self, *, run: Run) -> int:
        """How many vectors the run published."""
        dataset = self.published(run)
        return 0 if dataset is None else int(dataset.count_rows())

    def nearest_in_index(
        self, query: NDArray[np.float32], scope: str | None, *, run: Run, most: int, probes: int
    ) -> tuple[pl.Series, Grid]:
        """The chunks of a scope, of all scopes where it is None, that the index finds nearest, in the order of their
        ids, and their vectors on the grid."""
        dataset = self.published(run)
        assert dataset is not None  # only a table with rows has an index to ask
        asked = {"column": _COLUMN, "q": query, "k": most, "metric": "dot", "nprobes": probes}
        found = dataset.to_table(
            columns=["chunk_id", _COLUMN],
            nearest=asked,
            filter=None if scope is None else is_scope(scope),
            prefilter=scope is not None,
            disable_scoring_autoprojection=True,
        )
        rows = _frame(found).sort("chunk_id")
        return rows["chunk_id"], snapped(rows[_COLUMN].to_numpy().reshape(rows.height, self.dimensions))

    def partitions(self, loaded: Loaded) -> Partitions:
        """The partition of each loaded row: the index's own, or the nearest one where a row is not in the index yet."""
        reader = VectorIndexReader(self.warehouse.head(self.table), _INDEX)
        centroids = np.array(reader.stats["indices"][0]["centroids"], dtype=np.float32)
        of_row = np.full(len(loaded.row_ids), -1, dtype=np.int32)
        order = np.argsort(loaded.row_ids)
        row_ids = loaded.row_ids[order]
        for number in range(reader.num_partitions()):
            here = reader.read_partition(number)["_rowid"].to_numpy()
            at = np.minimum(np.searchsorted(row_ids, here), max(0, len(row_ids) - 1))
            if len(row_ids):
                of_row[order[at[row_ids[at] == here]]] = number
        outside = np.flatnonzero(of_row < 0)
        of_row[outside] = assigned(loaded.grid[outside], centroids)
        return Partitions(centroids, of_row)


def loaded_of(kept: KeptRows, wanted: list[NDArray[np.bool_]]) -> Loaded:
    """The rows of each part that are wanted."""
    parts = [(part, np.flatnonzero(here)) for part, here in zip(kept.parts, wanted, strict=True)]
    rows = pl.concat(
        pl.DataFrame({"chunk_id": part.chunk_ids, "scope": part.scopes, "row_id": part.row_ids})[at]
        for part, at in parts
    )
    order = rows["chunk_id"].arg_sort()
    place, start = np.empty(rows.height, dtype=np.int64), 0
    place[order.to_numpy()] = np.arange(rows.height)
    grid = np.empty((rows.height, len(kept.axes.turn)), dtype=np.int16)
    codes = np.empty((rows.height, kept.axes.width), dtype=np.int8)
    for part, at in parts:
        to = place[start : start + len(at)]
        is_all = len(at) == len(part.grid)
        grid[to] = part.grid if is_all else part.grid[at]
        codes[to] = part.codes if is_all else part.codes[at]
        start += len(at)
    rows = rows[order]
    return Loaded(rows["chunk_id"], rows["scope"], grid, rows["row_id"].to_numpy(), kept.coarse_of(codes))


def is_scope(scope: str) -> str:
    """The filter for rows of a scope, whatever it is called."""
    return f"scope = {quoted(scope)}"


def quoted(name: str) -> str:
    """A name as a filter takes it."""
    return "'" + name.replace("'", "''") + "'"


def _no_ids() -> pl.DataFrame:
    return pl.DataFrame(schema={"chunk_id": pl.String})


def _frames(dataset: lance.LanceDataset, columns: list[str]) -> Iterator[pl.DataFrame]:
    yield from map(_frame, dataset.to_batches(columns=columns, batch_size=_SCAN_ROWS))


def _numbered(frames: Iterator[pl.DataFrame]) -> Iterator[tuple[int, pl.DataFrame]]:
    """Each frame with the place of its first row."""
    start = 0
    for rows in frames:
        yield start, rows
        start += rows.height


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)  # tables and batches never come back as a Series
    return frame
