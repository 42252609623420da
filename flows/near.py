"""The near stage: the self-join inside each scope, and the candidate pairs it adds and takes back."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from flows.narrow import narrowed, of_scopes
from flows.products import one_thread_each, products
from flows.settings import NeighbourSettings
from flows.vectors import Loaded, Vectors, loaded_of
from flows.warehouse import Run, Warehouse
from schemas.tables import PAIRS
from schemas.terms import MERGED, UNKNOWN
from transforms.candidates import chunks_in, folded, pairs_of, with_pair_id
from transforms.neighbours import (
    Nearest,
    Pairs,
    Partitions,
    Sieve,
    Truth,
    join_by_partitions,
    join_exactly,
    search_exactly,
)
from transforms.sieve import axes_of, coarse

_FEWEST_PROBES = 4
# Scopes of fewer rows are joined side by side, a thread each; larger ones one after the other, by all threads.
_ROWS_A_THREAD = 8192
# Fewer rows are multiplied on the grid at once.
_SIEVED_FROM_ROWS = 2048
# So many times as many rows as new ones are first narrowed to those that lie near a new one.
_NARROWED_FROM = 10
_NO_PAIRS = Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32), found=0)
_COLUMNS = ["pair_id", "left_id", "right_id", "scope", "similarity"]


@dataclass
class Measured:
    """What the join of a night came to."""

    found: int = 0
    probes: dict[str, int] = field(default_factory=dict)
    recalls: dict[str, float] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)

    @property
    def recall(self) -> float | None:
        """Over all large scopes, by the true pairs in their samples; None where every scope was joined exactly."""
        total = sum(self.weights.values())
        return sum(self.recalls[scope] * weight for scope, weight in self.weights.items()) / total if total else None


def find_pairs(
    blocks: list[Path],
    folder: Path,
    *,
    vectors: Vectors,
    warehouse: Warehouse,
    run: Run | None,
    run_id: str,
    anew: bool,
    unchecked_scopes: list[str],
    settings: NeighbourSettings,
    tell_rows: Callable[[int], None],
) -> dict[str, Any]:
    """Joins the chunks that got a vector tonight with all of their scopes, and writes the pairs to add and to drop.

    `anew`: every chunk got one, in a new embedding version, and no earlier pair stands.
    """
    new = pl.concat([_no_chunks(), *(_with_vector(path) for path in blocks)])
    new = new.filter(~pl.col("scope").is_in(unchecked_scopes))
    probes = {} if anew or run is None else (run.neighbours.get("probes") or {})
    found, measured = join_scopes(
        vectors,
        new,
        settings=settings,
        probes_before=probes,
        threads=settings.threads or os.cpu_count() or 1,
        tell_rows=tell_rows,
    )
    known = _no_pairs() if anew else known_pairs(warehouse, found, run=run)
    merges = merging_pairs(warehouse, run=run)
    if anew:
        found = found.join(merges, on="pair_id", how="anti", maintain_order="left")
    counts = write_pairs(found, known, folder, merges=merges, most=settings.max_candidates, run_id=run_id)
    if anew:
        given_up = _all_pairs(warehouse, run).join(merges, on="pair_id", how="anti")
        given_up.write_parquet(folder / "pairs-cut.parquet")
    return {
        **counts,
        "found": measured.found,
        "cut": measured.found - counts["added"],
        "recall": measured.recall,
        "probes": measured.probes,
    }


def _no_chunks() -> pl.DataFrame:
    return pl.DataFrame(schema={"chunk_id": pl.String, "scope": pl.String})


def _with_vector(block: Path) -> pl.DataFrame:
    rows = pl.read_parquet(block, columns=["chunk_id", "scope", "has_vector"], glob=False)
    return rows.filter("has_vector").drop("has_vector")


def _all_pairs(warehouse: Warehouse, run: Run | None) -> pl.DataFrame:
    dataset = warehouse.open(PAIRS.name, run) if run else None
    ids = PAIRS.empty().select("pair_id")
    return ids if dataset is None else _frame(dataset.to_table(columns=["pair_id"])).cast(ids.schema)


def join_scopes(
    vectors: Vectors,
    new: pl.DataFrame,
    *,
    settings: NeighbourSettings,
    probes_before: dict[str, int],
    threads: int,
    tell_rows: Callable[[int], None],
) -> tuple[pl.DataFrame, Measured]:
    """The pairs of the new chunks (chunk_id, scope) with all chunks of their scopes, and what was measured.

    Where few products are asked for, also because few chunks of a large scope are new, the join is exact.
    """
    measured, found, progress = Measured(), [_NO_PAIRS], _Progress(tell_rows)
    with one_thread_each():
        loaded, sieve = _load(vectors, new, settings=settings, threads=threads)
        is_new = loaded.chunk_ids.is_in(new["chunk_id"].implode()).to_numpy()
        scopes = [_Scope(name, at, loaded, is_new, sieve) for name, at in _places_by_scope(loaded)]
        few = [scope for scope in scopes if scope.is_exact(settings) and scope.rows < _ROWS_A_THREAD]
        many = [scope for scope in scopes if scope.is_exact(settings) and scope.rows >= _ROWS_A_THREAD]
        large = [scope for scope in scopes if not scope.is_exact(settings)]
        with ThreadPoolExecutor(threads) as pool:
            for scope, pairs in zip(few, pool.map(lambda scope: scope.exact_pairs(settings), few), strict=True):
                found.append(pairs)
                progress.done(scope.rows)
        found += [scope.exact_pairs(settings, threads=threads, progress=progress) for scope in many]
        partitions = vectors.partitions(loaded) if large else None
        for scope in large:
            assert partitions is not None  # read where there is a large scope
            probes = probes_before.get(scope.name)
            join = _LargeJoin(scope, scope.of(partitions), settings, threads, progress)
            found.append(scope.placed(join.run(probes, measured).pairs()))
    measured.found = sum(pairs.found for pairs in found)
    return _named(found, loaded), measured


@dataclass
class _Progress:
    """Rows joined so far, over all scopes."""

    tell_rows: Callable[[int], None]
    rows: float = 0

    def done(self, rows: float) -> None:
        self.rows += rows
        self.tell_rows(int(self.rows))


def _load(
    vectors: Vectors, new: pl.DataFrame, *, settings: NeighbourSettings, threads: int
) -> tuple[Loaded, Sieve | None]:
    """The rows that the new chunks are joined with, and the sieve for them; of scopes that get few new ones only those
    rows that lie near one of these."""
    by_processor = products() if new.height and vectors.rows() >= _SIEVED_FROM_ROWS else None
    if by_processor is None:
        return vectors.load(sorted(new["scope"].unique())), None
    kept = vectors.kept(threshold=settings.threshold, threads=threads)
    if kept is None:
        loaded = vectors.load(sorted(new["scope"].unique()))
        axes = axes_of(loaded.grid, threshold=settings.threshold)
        return loaded, Sieve(coarse(loaded.grid, axes, threads=threads), by_processor)
    mine = of_scopes(kept, new)
    rows = sum(int(np.count_nonzero(here)) for here in mine)
    if new.height * _NARROWED_FROM <= rows and new.height * rows <= settings.exact_up_to_rows**2 / 2:
        threshold = settings.threshold
        mine = narrowed(kept, mine, new, products=by_processor, threshold=threshold, threads=threads)
    loaded = loaded_of(kept, mine)
    assert loaded.coarse is not None  # what is kept has codes
    return loaded, Sieve(loaded.coarse, by_processor)


def _places_by_scope(loaded: Loaded) -> list[tuple[str, NDArray[np.int64]]]:
    grouped = pl.DataFrame({"scope": loaded.scopes}).with_row_index("place")
    by_scope = grouped.group_by("scope").agg("place").sort("scope")
    return [(scope, places.to_numpy().astype(np.int64)) for scope, places in zip(*by_scope, strict=True)]


class _Scope:
    """The rows of one scope among those that were loaded, in the order of their ids."""

    def __init__(
        self, name: str, at: NDArray[np.int64], loaded: Loaded, is_new: NDArray[np.bool_], sieve: Sieve | None
    ) -> None:
        self.name, self.at, self.rows = name, at, len(at)
        is_all = len(at) == len(loaded.grid)  # not copied
        self.grid = loaded.grid if is_all else loaded.grid[at]
        self.is_new = is_new[at]
        self.sieve = sieve if is_all or sieve is None else sieve.at(at)

    def is_exact(self, settings: NeighbourSettings) -> bool:
        """Whether its new rows against all are no more products than the largest scope that is joined exactly has."""
        new = int(np.count_nonzero(self.is_new))
        return new * self.rows - new**2 / 2 <= settings.exact_up_to_rows**2 / 2

    def exact_pairs(self, settings: NeighbourSettings, *, threads: int = 1, progress: _Progress | None = None) -> Pairs:
        """All of its pairs that are not among the old rows."""
        share = self.rows / max(1, int(np.count_nonzero(self.is_new)))
        tell = (lambda new: progress.done(new * share)) if progress else (lambda _: None)
        most, threshold = settings.max_candidates, settings.threshold
        join = join_exactly(
            self.grid, self.is_new, most=most, threshold=threshold, sieve=self.sieve, threads=threads, tell=tell
        )
        return self.placed(join.pairs())

    def placed(self, pairs: Pairs) -> Pairs:
        """Its pairs by their places among all loaded rows."""
        return Pairs(self.at[pairs.left], self.at[pairs.right], pairs.similarity, pairs.found)

    def of(self, partitions: Partitions) -> Partitions:
        """The partitions of its rows."""
        return Partitions(partitions.centroids, partitions.of_row[self.at])


@dataclass
class _LargeJoin:
    """The join of a scope through partitions, with as many probes as a first sample needs, measured on a second."""

    scope: _Scope
    partitions: Partitions
    settings: NeighbourSettings
    threads: int
    progress: _Progress

    def run(self, probes_before: int | None, measured: Measured) -> Nearest:
        scope, settings, everything = self.scope, self.settings, len(self.partitions.centroids)
        first, second = (_sample(np.flatnonzero(scope.is_new), settings.recall_sample, offset=n) for n in (0, 1))
        truth, check = self._truth(first), self._truth(second)
        probes = truth.probes_for(settings.recall_aim, scope.grid, scope.is_new, self.partitions)
        # A sample has its luck: what an earlier night needed is not undone by it.
        probes = min(everything, max(_FEWEST_PROBES, probes, probes_before or 0))
        nearest = self._join(probes)
        while (recall := check.recall(nearest)) < settings.recall_min and probes < everything:
            probes = min(everything, probes * 2)
            nearest = self._join(probes)
        self.progress.done(scope.rows)
        measured.probes[scope.name] = probes
        measured.recalls[scope.name] = recall
        measured.weights[scope.name] = len(check.rows)
        return nearest

    def _truth(self, rows: NDArray[np.int64]) -> Truth:
        settings, scope = self.settings, self.scope
        return search_exactly(
            scope.grid,
            rows,
            most=settings.max_candidates,
            threshold=settings.threshold,
            sieve=scope.sieve,
            threads=self.threads,
        )

    def _join(self, probes: int) -> Nearest:
        settings, scope = self.settings, self.scope
        started, share = self.progress.rows, scope.rows / len(self.partitions.centroids)
        nearest = join_by_partitions(
            scope.grid,
            scope.is_new,
            self.partitions,
            probes=probes,
            most=settings.max_candidates,
            threshold=settings.threshold,
            sieve=scope.sieve,
            threads=self.threads,
            tell=lambda count: self.progress.done(count * share),
        )
        self.progress.rows = started
        return nearest


def _sample(rows: NDArray[np.int64], size: int, *, offset: int) -> NDArray[np.int64]:
    """Rows at even distances: ids are hashes, so that this is as good as chance, and the same every time."""
    step = max(2, len(rows) // max(1, size))
    return rows[min(offset, len(rows) - 1) :: step][:size]


def _named(found: list[Pairs], loaded: Loaded) -> pl.DataFrame:
    left, right, similarity = (
        np.concatenate([getattr(pairs, part) for pairs in found]) for part in ("left", "right", "similarity")
    )
    named = pl.DataFrame(
        {
            "left_id": loaded.chunk_ids.gather(left),
            "right_id": loaded.chunk_ids.gather(right),
            "scope": loaded.scopes.gather(left),
            "similarity": similarity,
        }
    )
    return with_pair_id(named).select(_COLUMNS).cast(_no_pairs().schema)


def _no_pairs() -> pl.DataFrame:
    return PAIRS.empty().select(_COLUMNS)


def known_pairs(warehouse: Warehouse, found: pl.DataFrame, *, run: Run | None) -> pl.DataFrame:
    """The run's pairs of the chunks in these pairs, and those of the chunks that they are paired with."""
    dataset = warehouse.open(PAIRS.name, run) if run else None
    if dataset is None or not dataset.count_rows() or found.is_empty():
        return _no_pairs()
    known = _frame(dataset.to_table(columns=_COLUMNS)).cast(_no_pairs().schema)
    paired = pairs_of(chunks_in(found), known)
    return pairs_of(chunks_in(pl.concat([found, paired])), known)


def _frame(batch: pa.RecordBatch | pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)  # a batch never comes back as a Series
    return frame


def merging_pairs(warehouse: Warehouse, *, run: Run | None) -> pl.DataFrame:
    """The pairs on which a merge stands: they are kept, whatever comes nearer."""
    dataset = warehouse.open(PAIRS.name, run) if run else None
    ids = PAIRS.empty().select("pair_id")
    if dataset is None or "action" not in dataset.schema.names:
        return ids
    return _frame(dataset.to_table(columns=["pair_id"], filter=f"action = '{MERGED}'")).cast(ids.schema)


def write_pairs(
    found: pl.DataFrame, known: pl.DataFrame, folder: Path, *, merges: pl.DataFrame, most: int, run_id: str
) -> dict[str, Any]:
    """Writes `pairs.parquet`, the pairs to add, and `pairs-cut.parquet`, those that give way to nearer ones."""
    added, dropped = folded(known, found, most=most)
    dropped = dropped.join(merges, on="pair_id", how="anti", maintain_order="left")
    rows = added.with_columns(relation=pl.lit(UNKNOWN), confidence=pl.lit(0.0, dtype=pl.Float32), run_id=pl.lit(run_id))
    PAIRS.shaped(rows).write_parquet(folder / "pairs.parquet")
    dropped.select("pair_id").write_parquet(folder / "pairs-cut.parquet")
    return {"added": added.height, "dropped": dropped.height}
