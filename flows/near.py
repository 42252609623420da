"""The near stage: the self-join inside each scope, and the candidate pairs it adds and takes back."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from flows.settings import NeighbourSettings
from flows.vectors import Loaded, Vectors
from flows.warehouse import Run, Warehouse
from schemas.tables import PAIRS
from schemas.terms import MERGED, UNKNOWN
from transforms.candidates import chunks_in, folded, pairs_of, with_pair_id
from transforms.neighbours import Grid, Nearest, Pairs, Partitions, join_by_partitions, join_exactly, search_exactly

_FEWEST_PROBES = 4
# From this share of new rows on, pairs are found from both sides.
_MOSTLY_NEW = 0.5
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
    return pl.read_parquet(block, glob=False).drop_nulls("vector").select("chunk_id", "scope")


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
    """The pairs of the new chunks (chunk_id, scope) with all chunks of their scopes, and what was measured."""
    loaded = vectors.load(sorted(new["scope"].unique()))
    is_new = loaded.chunk_ids.is_in(new["chunk_id"].implode()).to_numpy()
    places = _places_by_scope(loaded)
    small = {scope: at for scope, at in places.items() if len(at) <= settings.exact_up_to_rows}
    large = {scope: at for scope, at in places.items() if scope not in small}
    measured = Measured()
    frames = [_no_pairs()]
    joined = 0

    def one_small(scope: str) -> tuple[str, Pairs]:
        at = small[scope]
        join = join_exactly(loaded.grid[at], is_new[at], most=settings.max_candidates, threshold=settings.threshold)
        return scope, join.pairs()

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        for scope, pairs in pool.map(one_small, sorted(small)):
            measured.found += pairs.found
            frames.append(_named(pairs, loaded, small[scope], scope))
            joined += len(small[scope])
            tell_rows(joined)
    partitions = vectors.partitions(loaded) if large else None
    for scope in sorted(large):
        assert partitions is not None  # read where there is a large scope
        at = large[scope]
        nearest = _join_large(
            scope,
            loaded.grid[at],
            is_new[at],
            Partitions(partitions.centroids, partitions.of_row[at]),
            settings=settings,
            probes=probes_before.get(scope) if is_new[at].mean() < _MOSTLY_NEW else None,
            threads=threads,
            measured=measured,
            tell_rows=partial(_tell_more, tell_rows, joined),
        )
        pairs = nearest.pairs()
        measured.found += pairs.found
        frames.append(_named(pairs, loaded, at, scope))
        joined += len(at)
        tell_rows(joined)
    return pl.concat(frames), measured


def _tell_more(tell_rows: Callable[[int], None], before: int, rows: int) -> None:
    tell_rows(before + rows)


def _places_by_scope(loaded: Loaded) -> dict[str, NDArray[np.int64]]:
    grouped = pl.DataFrame({"scope": loaded.scopes}).with_row_index("place")
    by_scope = grouped.group_by("scope", maintain_order=True).agg("place")
    return {scope: np.array(places, dtype=np.int64) for scope, places in by_scope.iter_rows()}


def _join_large(
    scope: str,
    grid: Grid,
    is_new: NDArray[np.bool_],
    partitions: Partitions,
    *,
    settings: NeighbourSettings,
    probes: int | None,
    threads: int,
    measured: Measured,
    tell_rows: Callable[[int], None],
) -> Nearest:
    """The join through partitions, with as many probes as a first sample needs, measured on a second one."""
    most, threshold = settings.max_candidates, settings.threshold
    new = np.flatnonzero(is_new)
    # Exact search costs by the whole scope: a night of few rows takes a sample of few.
    size = min(settings.recall_sample, max(20, len(new) // 40))
    first, second = _sample(new, size, offset=0), _sample(new, size, offset=1)
    later = probes
    with threadpool_limits(threads):
        if probes is None:
            truth = search_exactly(grid, first, most=most, threshold=threshold)
            probes = truth.probes_for(settings.recall_aim, grid, is_new, partitions)
            # On a later night only the new rows ask, so that a pair is found from one side alone.
            later = truth.probes_for(settings.recall_aim, grid, np.zeros_like(is_new), partitions)
        check = search_exactly(grid, second, most=most, threshold=threshold)
    probes = min(len(partitions.centroids), max(_FEWEST_PROBES, probes))
    done = np.zeros(1, dtype=np.int64)

    def tell(count: int) -> None:
        done[0] += count
        tell_rows(int(len(grid) * done[0] / len(partitions.centroids)))

    def join(probes: int) -> Nearest:
        done[0] = 0
        with threadpool_limits(1):
            return join_by_partitions(
                grid, is_new, partitions, probes=probes, most=most, threshold=threshold, threads=threads, tell=tell
            )

    nearest = join(probes)
    recall = check.recall(nearest)
    while recall < settings.recall_min and probes < len(partitions.centroids):
        probes = min(len(partitions.centroids), probes * 2)
        nearest = join(probes)
        recall = check.recall(nearest)
    measured.probes[scope] = max(probes if later is None else later, _FEWEST_PROBES)
    if later is not None and is_new.mean() < _MOSTLY_NEW:
        measured.probes[scope] = max(probes, later)
    measured.recalls[scope] = recall
    measured.weights[scope] = len(check.rows)
    return nearest


def _sample(rows: NDArray[np.int64], size: int, *, offset: int) -> NDArray[np.int64]:
    """Rows at even distances: ids are hashes, so that this is as good as chance, and the same every time."""
    step = max(2, len(rows) // max(1, size))
    return rows[min(offset, len(rows) - 1) :: step][:size]


def _named(pairs: Pairs, loaded: Loaded, at: NDArray[np.int64], scope: str) -> pl.DataFrame:
    ids = loaded.chunk_ids
    named = pl.DataFrame(
        {
            "left_id": ids[at[pairs.left]] if len(pairs.left) else ids.clear(),
            "right_id": ids[at[pairs.right]] if len(pairs.right) else ids.clear(),
            "similarity": pairs.similarity,
        },
        schema_overrides={"similarity": pl.Float32},
    ).with_columns(scope=pl.lit(scope, dtype=pl.String))
    return with_pair_id(named).select(_COLUMNS)


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
