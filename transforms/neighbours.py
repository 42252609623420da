"""Which rows of a scope lie near each other: a self-join on vectors, block by block, exact or through IVF partitions.

Similarities are whole numbers until the end: vectors are snapped to a grid on which every dot product is exact in
float32. So a pair has one similarity, whatever block, thread or night it is computed in, and ties are broken by the
order of the rows, not by noise. Rows are given in the order of their ids.

Most pairs are far apart, and eight bits a number tell so: where there are products of such codes, they sieve out what
cannot reach the threshold, and only the rest is multiplied on the grid. What is found is the same with and without.
"""

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from transforms.grid import Floats, Grid, Places, Tell, blocks, in_threads, scale, snapped
from transforms.sieve import Coarse, Codes, Passing, Products, row_and_column

# A key holds a dot product and, below it, the place of the other row: float64 has room for 24 + 28 bits.
_PLACES = 2.0**28
_BLOCK_ROWS = 2048
# How many pairs are checked at once for a second sight.
_CHECK_ROWS = 2048
# Pairs that are held before they are folded into the best of each row.
_HELD = 2_000_000
# A block with more hits than this share is multiplied as a whole, and only the best of each row are held.
_DENSE = 1 / 16

Number = TypeVar("Number", np.int8, np.int16)
SecondSight = Callable[[Places, Places], NDArray[np.bool_]]


@dataclass(frozen=True)
class Sieve:
    """What spares most pairs the grid: the codes of the same rows, and products of them."""

    coarse: Coarse
    products: Products

    def at(self, rows: Places) -> "Sieve":
        """The sieve of some of the rows."""
        return Sieve(self.coarse.at(rows), self.products)

    def passing(self, dot: float) -> Passing:
        """What lets pairs of codes through that may have this product on the grid, or a higher one."""
        return Passing(self.products, self.coarse.least(dot))


@dataclass(frozen=True)
class Pairs:
    """Places of two rows, left below right, and their cosine; by left, then right. `found` counts every pair at or
    above the threshold, also those beyond the best of both rows."""

    left: Places
    right: Places
    similarity: Floats
    found: int


class Nearest:
    """The `most` best candidates of each row so far. Threads may offer at the same time."""

    def __init__(self, grid: Grid, *, most: int, threshold: float, sieve: Sieve | None = None) -> None:
        self.grid = grid
        self.most = most
        # The dot product that counts as 1: a whole number, so that no two others become one similarity.
        self.square = _square(grid.shape[1])
        self.at_least = np.float32(math.ceil(threshold * self.square))
        self.found = 0
        self._sieve = sieve
        self._passing = None if sieve is None else sieve.passing(float(self.at_least))
        self._best = np.full((len(grid), most), -np.inf)
        self._held: list[tuple[Places, NDArray[np.float64]]] = []
        self._held_keys = 0
        self._lock = threading.Lock()
        self._scratch = threading.local()

    @property
    def keys(self) -> NDArray[np.float64]:
        """The keys of the best candidates of each row, the best last; -inf where there are fewer."""
        with self._lock:
            self._fold()
        return self._best

    def offer(self, queries: Places, members: Places, *, is_second_sight: SecondSight) -> None:
        """Every query against every member. A pair counts once: not as the same row twice, nor at second sight."""
        if not queries.size or not members.size:
            return
        row, column, dots = self._near(queries, members)
        if dots is None or len(row) > _DENSE * len(queries) * len(members):
            self._offer_dense(queries, members, is_second_sight)
            return
        # What rounding has lengthened beyond 1 is a tie, here as in the similarity that later nights go by.
        dots = np.minimum(dots, np.float32(self.square))
        left, right = queries[row], members[column]
        kept = (dots >= self.at_least) & (left != right)
        left, right, dots = left[kept], right[kept], dots[kept]
        kept = ~_in_parts(is_second_sight, left, right)
        left, right, dots = left[kept], right[kept], dots[kept]
        self._hold(len(left), (left, _keys(dots, right)), (right, _keys(dots, left)))

    def _near(self, queries: Places, members: Places) -> tuple[Places, Places, Floats | None]:
        """The pairs that may reach the threshold, and their dot products; none where they are too many."""
        if self._sieve is None or self._passing is None:
            dots = self._floats(queries, "queries") @ self._floats(members, "members").T
            at = np.flatnonzero(dots >= self.at_least)
            return *row_and_column(at, len(members)), dots.ravel()[at]
        codes, of_pairs = self._sieve.coarse.codes, self._sieve.products.of_pairs
        row, column = self._passing(_rows_of(codes, queries), _rows_of(codes, members))
        if len(row) > _DENSE * len(queries) * len(members):
            return row, column, None
        return row, column, of_pairs(self._floats(queries, "queries"), self._floats(members, "members"), row, column)

    def _floats(self, rows: Places, name: str) -> Floats:
        """The rows in float32, which a thread that asks for the same again has."""
        asked, floats = getattr(self._scratch, name, (None, None))
        if asked is not rows or floats is None:
            floats = _rows_of(self.grid, rows).astype(np.float32)
            setattr(self._scratch, name, (rows, floats))
        return floats

    def _offer_dense(self, queries: Places, members: Places, is_second_sight: SecondSight) -> None:
        dots = self._floats(queries, "queries") @ self._floats(members, "members").T
        np.minimum(dots, np.float32(self.square), out=dots)
        hits = (dots >= self.at_least) & (queries[:, None] != members[None, :])
        row, column = np.nonzero(hits)
        again = _in_parts(is_second_sight, queries[row], members[column])
        hits[row[again], column[again]] = False
        of_left = _best(np.where(hits, _keys(dots, members[None, :]), -np.inf), self.most)
        of_right = _best(np.ascontiguousarray(np.where(hits, _keys(dots, queries[:, None]), -np.inf).T), self.most)
        self._hold(int(np.count_nonzero(hits)), _flat(queries, of_left), _flat(members, of_right))

    def _hold(self, found: int, *keys: tuple[Places, NDArray[np.float64]]) -> None:
        with self._lock:
            self.found += found
            self._held += keys
            self._held_keys += sum(len(rows) for rows, _ in keys)
            if self._held_keys > _HELD:
                self._fold()

    def _fold(self) -> None:
        if not self._held:
            return
        self._held.append(_flat(np.arange(len(self.grid)), self._best))
        rows, keys = (np.concatenate([held[part] for held in self._held]) for part in (0, 1))
        self._held.clear()
        self._held_keys = 0
        for place in reversed(range(self.most)):
            best = np.full(len(self.grid), -np.inf)
            np.maximum.at(best, rows, keys)
            self._best[:, place] = best
            below = keys < best[rows]
            rows, keys = rows[below], keys[below]

    def pairs(self) -> Pairs:
        """Every pair in which one row is among the best of the other."""
        row, keys = _flat(np.arange(len(self.grid)), self.keys)
        dots, other = _parts(keys)
        left, right = np.minimum(row, other), np.maximum(row, other)
        order = np.lexsort((right, left))
        left, right, dots = left[order], right[order], dots[order]
        first = np.ones(len(left), dtype=bool)
        first[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
        return Pairs(left[first], right[first], (dots[first] / self.square).astype(np.float32), self.found)


def _square(dimensions: int) -> int:
    return math.floor(scale(dimensions) ** 2)


def _rows_of(rows: NDArray[Number], at: Places) -> NDArray[Number]:
    """Some of the rows, in rising order; not copied where they stand together."""
    first, last = int(at[0]), int(at[-1])
    return rows[first : last + 1] if last - first + 1 == len(at) else rows[at]


def _flat(rows: Places, keys: NDArray[np.float64]) -> tuple[Places, NDArray[np.float64]]:
    """The row and the key of each candidate that there is."""
    there = keys > -np.inf
    return np.repeat(rows, np.count_nonzero(there, axis=1)), keys[there]


def _in_parts(is_second_sight: SecondSight, left: Places, right: Places) -> NDArray[np.bool_]:
    parts = [
        is_second_sight(some, others)
        for some, others in zip(blocks(left, _CHECK_ROWS), blocks(right, _CHECK_ROWS), strict=True)
    ]
    return np.concatenate([np.empty(0, dtype=bool), *parts])


def _keys(dots: Floats, places: Places) -> NDArray[np.float64]:
    """Higher for the nearer row, and of rows as near for the lower one."""
    return dots * _PLACES + (_PLACES - 1 - places)


def _parts(keys: NDArray[np.float64]) -> tuple[NDArray[np.float64], Places]:
    """The dot product and the place that a key is made of."""
    dots = np.floor(keys / _PLACES)
    return dots, (_PLACES - 1 - (keys - dots * _PLACES)).astype(np.int64)


def _best(keys: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """The highest keys of each row, padded with none. `keys` is used up."""
    best, rows = np.full((keys.shape[0], most), -np.inf), np.arange(keys.shape[0])
    for n in range(min(most, keys.shape[1])):
        at = keys.argmax(axis=1)
        best[:, n] = keys[rows, at]
        keys[rows, at] = -np.inf
    return best


def join_exactly(
    grid: Grid,
    is_new: NDArray[np.bool_],
    *,
    most: int,
    threshold: float,
    sieve: Sieve | None = None,
    threads: int = 1,
    tell: Tell = lambda _: None,
) -> Nearest:
    """Every new row against every row, each pair multiplied once."""
    nearest = Nearest(grid, most=most, threshold=threshold, sieve=sieve)
    new = [*blocks(np.flatnonzero(is_new), _BLOCK_ROWS)]
    others = [*new, *blocks(np.flatnonzero(~is_new), _BLOCK_ROWS)]
    below = lambda left, right: left > right  # noqa: E731
    never = lambda left, right: np.zeros(len(left), dtype=bool)  # noqa: E731

    def work(number: int) -> None:
        nearest.offer(new[number], new[number], is_second_sight=below)
        for members in others[number + 1 :]:
            nearest.offer(new[number], members, is_second_sight=never)

    with ThreadPoolExecutor(threads) as pool:
        for block, _ in zip(new, pool.map(work, range(len(new))), strict=True):
            tell(len(block))
    return nearest


@dataclass(frozen=True)
class Partitions:
    """Rows by IVF partition: the centroids and the one that each row belongs to."""

    centroids: Floats
    of_row: NDArray[np.int32]

    @cached_property
    def _directions(self) -> Floats:
        """The centroids on the grid, the longest as a unit vector: scores are exact too, whatever the block."""
        return _on_grid(self.centroids)

    def _scores(self, grid: Grid, rows: Places) -> Floats:
        """How near each partition is to these rows. None is nearer than a row's own."""
        scores = grid[rows].astype(np.float32) @ self._directions.T
        scores[np.arange(len(rows)), self.of_row[rows]] = np.inf
        return scores

    def probed(self, grid: Grid, rows: Places, count: int) -> NDArray[np.int32]:
        """The partitions that these rows ask: their own and the nearest others, `count` in all, in any order."""
        first = max(0, len(self.centroids) - count)
        return np.argpartition(self._scores(grid, rows), first, axis=1)[:, first:].astype(np.int32)

    def probes_to(self, grid: Grid, rows: Places, others: Places) -> NDArray[np.int64]:
        """How many probes each row needs to meet the other one, be they unlucky among partitions as near."""
        scores = self._scores(grid, rows)
        there = scores[np.arange(len(rows)), self.of_row[others], None]
        needed: NDArray[np.int64] = np.count_nonzero(scores >= there, axis=1)
        return needed


def _on_grid(centroids: Floats) -> Floats:
    longest = float(np.linalg.norm(centroids, axis=1).max(initial=0))
    return snapped(centroids / np.float32(longest or 1)).astype(np.float32)


def assigned(grid: Grid, centroids: Floats) -> NDArray[np.int32]:
    """The nearest partition of each row."""
    directions = _on_grid(centroids)
    parts = [
        np.argmax(grid[rows].astype(np.float32) @ directions.T, axis=1)
        for rows in blocks(np.arange(len(grid)), _BLOCK_ROWS * 8)
    ]
    return np.concatenate(parts).astype(np.int32) if parts else np.empty(0, dtype=np.int32)


def join_by_partitions(
    grid: Grid,
    is_new: NDArray[np.bool_],
    partitions: Partitions,
    *,
    probes: int,
    most: int,
    threshold: float,
    sieve: Sieve | None = None,
    threads: int = 1,
    tell: Tell = lambda _: None,
) -> Nearest:
    """Every new row against the rows of the `probes` partitions nearest to it, its own always among them."""
    nearest = Nearest(grid, most=most, threshold=threshold, sieve=sieve)
    new = np.flatnonzero(is_new)
    count, own = len(partitions.centroids), partitions.of_row
    probed = np.full((len(grid), min(probes, count)), -1, dtype=np.int32)

    def find(rows: Places) -> None:
        probed[rows] = partitions.probed(grid, rows, probes)

    in_threads(find, [*blocks(new, _BLOCK_ROWS * 2)], threads)
    flat = probed[new].ravel()
    order = np.argsort(flat, kind="stable")
    queries = new[order // probed.shape[1]]
    borders = np.searchsorted(flat[order], np.arange(count + 1))
    members = np.argsort(own, kind="stable")
    member_borders = np.searchsorted(own[members], np.arange(count + 1))

    def seen(left: Places, right: Places) -> NDArray[np.bool_]:
        asks_back: NDArray[np.bool_] = (probed[right] == own[left, None]).any(axis=1)
        return (left > right) & asks_back

    def work(numbers: Places) -> None:
        for number in numbers:
            here = np.sort(members[member_borders[number] : member_borders[number + 1]])
            asking = np.sort(queries[borders[number] : borders[number + 1]])
            for some in blocks(asking, _BLOCK_ROWS):
                for others in blocks(here, _BLOCK_ROWS):
                    nearest.offer(some, others, is_second_sight=seen)

    in_threads(work, [*blocks(np.arange(count), 1)], threads, tell)
    return nearest


def trained(grid: Grid, count: int, *, rounds: int = 10) -> Floats:
    """The centroids of `count` partitions of these rows, of unit length: k-means from rows at even distances.

    The same rows give the same centroids, so that a night run again ends the same.
    """
    rows = grid.astype(np.float32)
    centroids = rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]
    for _ in range(rounds):
        centroids = _unit(centroids)
        own = assigned(grid, centroids)
        order = np.argsort(own, kind="stable")
        sizes = np.bincount(own, minlength=count)
        starts = np.cumsum(sizes) - sizes
        there = sizes > 0
        # A partition that nobody belongs to keeps its centroid.
        centroids[there] = np.add.reduceat(rows[order], starts[there], axis=0)
    return _unit(centroids)


def _unit(vectors: Floats) -> Floats:
    lengths: Floats = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    return vectors / lengths


@dataclass(frozen=True)
class Truth:
    """The best candidates of some rows, searched exactly: the row and the key of each."""

    rows: Places
    keys: NDArray[np.float64]

    def others(self) -> Places:
        """The candidate of each row."""
        return _parts(self.keys)[1]

    def recall(self, nearest: Nearest) -> float:
        """The share of these candidates that a join has found; 1 where there are none."""
        if not self.rows.size:
            return 1.0
        return float((nearest.keys[self.rows] == self.keys[:, None]).any(axis=1).mean())

    def probes_for(self, target: float, grid: Grid, is_new: NDArray[np.bool_], partitions: Partitions) -> int:
        """The fewest probes with which a join finds that share of these candidates. The rows are new ones."""
        if not self.rows.size:
            return 1
        _, others = _parts(self.keys)
        needed = partitions.probes_to(grid, self.rows, others)
        # A pair is found from either side, if both sides ask.
        back = partitions.probes_to(grid, others, self.rows)
        needed = np.where(is_new[others], np.minimum(needed, back), needed)
        return int(np.sort(needed)[math.ceil(target * len(needed)) - 1])


def search_exactly(
    grid: Grid, rows: Places, *, most: int, threshold: float, sieve: Sieve | None = None, threads: int = 1
) -> Truth:
    """The best candidates of these rows among all rows."""
    nearest = Nearest(grid, most=most, threshold=threshold, sieve=sieve)
    never = lambda left, right: np.zeros(len(left), dtype=bool)  # noqa: E731

    def work(members: Places) -> None:
        for queries in blocks(np.sort(rows), _BLOCK_ROWS):
            nearest.offer(queries, members, is_second_sight=never)

    in_threads(work, [*blocks(np.arange(len(grid)), _BLOCK_ROWS)], threads)
    place = np.repeat(np.sort(rows), most).reshape(-1, most)
    keys = nearest.keys[np.sort(rows)]
    return Truth(place[keys > -np.inf], keys[keys > -np.inf])


def near_any(queries: Grid, of_queries: Codes, members: Grid, sieve: Sieve, *, threshold: float) -> NDArray[np.bool_]:
    """Which members are at or above the threshold with any query. The sieve is of the members, its codes of the same
    axes as those of the queries, and what it says of their lengths holds for both."""
    at_least = np.float32(math.ceil(threshold * _square(queries.shape[1])))
    passing, is_near = sieve.passing(float(at_least)), np.zeros(len(members), dtype=bool)
    for some in blocks(np.arange(len(queries)), _BLOCK_ROWS):
        left = queries[some].astype(np.float32)
        for others in blocks(np.arange(len(members)), _BLOCK_ROWS):
            here = slice(int(others[0]), int(others[-1]) + 1)
            row, column = passing(_rows_of(of_queries, some), sieve.coarse.codes[here])
            right = members[here].astype(np.float32)
            if len(row) > _DENSE * len(some) * len(others):
                is_near[here] |= (left @ right.T >= at_least).any(axis=0)
            else:
                is_near[others[column[sieve.products.of_pairs(left, right, row, column) >= at_least]]] = True
    return is_near


def search_among(queries: Grid, members: Grid, *, most: int, threshold: float) -> tuple[Places, Places, Floats]:
    """Of each query its best members: places of query and member and their cosine, by query, the best first; of members
    as near, the lower place."""
    nearest = Nearest(np.concatenate([queries, members]), most=most, threshold=threshold)
    never = lambda left, right: np.zeros(len(left), dtype=bool)  # noqa: E731
    for some in blocks(np.arange(len(queries)), _BLOCK_ROWS):
        for others in blocks(np.arange(len(queries), len(queries) + len(members)), _BLOCK_ROWS):
            nearest.offer(some, others, is_second_sight=never)
    row, keys = _flat(np.arange(len(queries)), nearest.keys[: len(queries), ::-1])
    dots, place = _parts(keys)
    return row, place - len(queries), (dots / nearest.square).astype(np.float32)
