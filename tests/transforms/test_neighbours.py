"""The self-join on vectors: one similarity a pair, and the same pairs as a plain loop, whatever the blocks."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from transforms import neighbours
from transforms.grid import Floats, Grid, Places, snapped
from transforms.neighbours import (
    Nearest,
    Pairs,
    Partitions,
    Sieve,
    assigned,
    join_by_partitions,
    join_exactly,
    near_any,
    search_exactly,
    trained,
)
from transforms.sieve import Codes, Products, axes_of, coarse

DIMENSIONS = st.sampled_from([1, 2, 3, 8, 33])
THRESHOLDS = st.sampled_from([1e-9, 0.5, 0.85, 0.99, 0.9999])
MOST = st.integers(1, 4)
BLOCKS = st.sampled_from([1, 2, 7, 2048])
SEEDS = st.integers(0, 2**32 - 1)


def unit(vectors: NDArray[np.floating]) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def square_of(dimensions: int) -> int:
    """The dot product that counts as a cosine of 1."""
    return math.floor((4095 - math.sqrt(dimensions) / 2) ** 2)


@dataclass(frozen=True)
class World:
    """Rows in a few tight clusters, many of them alike, some zero; new ones among them; partitions of any kind."""

    grid: Grid
    is_new: NDArray[np.bool_]
    partitions: Partitions


@st.composite
def worlds(draw: st.DrawFn, *, min_rows: int = 0) -> World:
    dimensions = draw(DIMENSIONS)
    row = st.tuples(st.integers(-1, 2), st.integers(0, 5), st.integers(0, 3), st.booleans())
    rows = draw(st.lists(row, min_size=min_rows, max_size=25))
    cluster, nudge, partition, is_new = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    random = np.random.default_rng(draw(SEEDS))
    centres, nudges = random.normal(size=(3, dimensions)), random.normal(size=(6, dimensions))
    nearness = draw(st.sampled_from([0.3, 0.03, 0.0003]))
    vectors = unit(centres)[cluster] + nearness * unit(nudges)[nudge]
    vectors[cluster < 0] = 0
    grid = snapped(unit(vectors))
    # Partitions 0 to 3 are of any shape, 4 is empty unless it is the nearest, and 5 is 0 once more.
    centroids = random.normal(size=(6, dimensions)).astype(np.float32)
    centroids[5] = centroids[0]
    of_row = assigned(grid, centroids) if draw(st.booleans()) else partition.astype(np.int32)
    return World(grid, is_new.astype(bool), Partitions(centroids, of_row))


@contextmanager
def blocks_of(rows: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "_BLOCK_ROWS", rows)
        patch.setattr(neighbours, "_CHECK_ROWS", rows)
        yield


def similarities(grid: Grid, *, threshold: float) -> dict[tuple[int, int], float]:
    """Every pair of rows at or above the threshold, left below right, by whole numbers."""
    dots, square = grid.astype(np.int64) @ grid.astype(np.int64).T, square_of(grid.shape[1])
    return {
        (left, right): min(int(dots[left, right]) / square, 1.0)
        for left in range(len(grid))
        for right in range(left + 1, len(grid))
        if dots[left, right] / square >= threshold
    }


def best_of_either(found: dict[tuple[int, int], float], *, most: int) -> dict[tuple[int, int], float]:
    """The pairs in which one row is among the `most` best of the other: the nearer first, then the lower place."""
    best: dict[int, list[tuple[float, int]]] = {}
    for (left, right), similarity in found.items():
        best.setdefault(left, []).append((-similarity, right))
        best.setdefault(right, []).append((-similarity, left))
    nearest = {row: {other for _, other in sorted(others)[:most]} for row, others in best.items()}
    return {
        (left, right): similarity
        for (left, right), similarity in found.items()
        if right in nearest[left] or left in nearest[right]
    }


def as_dict(pairs: Pairs) -> dict[tuple[int, int], float]:
    places = [(int(left), int(right)) for left, right in zip(pairs.left, pairs.right, strict=True)]
    assert places == sorted(set(places)), "each pair once, by left and right"
    assert all(left < right for left, right in places)
    return dict(zip(places, pairs.similarity.tolist(), strict=True))


def agrees(nearest: Nearest, found: dict[tuple[int, int], float], *, most: int) -> None:
    pairs = nearest.pairs()
    expected = best_of_either(found, most=most)
    assert as_dict(pairs) == {pair: float(np.float32(similarity)) for pair, similarity in expected.items()}
    assert pairs.found == len(found)


def same(some: Nearest, other: Nearest) -> bool:
    return bool(np.array_equal(some.keys, other.keys)) and some.found == other.found


# --- the grid


@settings(max_examples=60, deadline=None)
@given(dimensions=st.integers(1, 2048), seed=SEEDS)
@example(dimensions=1, seed=0)
@example(dimensions=2048, seed=0)
def test_dot_products_on_the_grid_are_exact_in_any_order_of_summation(dimensions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    few = np.zeros((2, dimensions))
    few[:, : random.integers(1, dimensions + 1)] = 1
    vectors = np.concatenate([random.normal(size=(4, dimensions)), random.choice([-1, 1], size=(2, dimensions)), few])
    grid = snapped(unit(vectors))
    exact = grid.astype(np.int64) @ grid.astype(np.int64).T
    assert exact.diagonal().max() <= 2**24
    floats = grid.astype(np.float32)
    assert np.array_equal(floats @ floats.T, exact)
    order = random.permutation(dimensions)
    one_by_one = np.add.accumulate(floats[:, None, order] * floats[None, :, order], axis=2, dtype=np.float32)
    assert np.array_equal(one_by_one[:, :, -1], exact)
    cut = int(random.integers(0, dimensions + 1))
    assert np.array_equal(floats[:, :cut] @ floats[:, :cut].T + floats[:, cut:] @ floats[:, cut:].T, exact)


@settings(max_examples=60, deadline=None)
@given(dimensions=st.integers(1, 2048), seed=SEEDS)
def test_a_similarity_is_never_further_from_the_cosine_than_half_a_step_a_dimension(dimensions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = unit(np.concatenate([random.normal(size=(4, dimensions)), random.choice([-1, 1], size=(2, dimensions))]))
    grid, length = snapped(vectors).astype(np.int64), math.sqrt(square_of(dimensions))
    off = np.abs(grid @ grid.T / length**2 - vectors.astype(np.float64) @ vectors.T.astype(np.float64))
    assert off.max() <= math.sqrt(dimensions) / length + dimensions / (4 * length**2) + 1e-6


@pytest.mark.parametrize("dimensions", [2, 8, 64, 384, 768, 2048])
def test_roundings_cancel_so_that_similarities_are_as_a_rule_within_3e_4_of_the_cosine(dimensions: int) -> None:
    vectors = unit(np.random.default_rng(dimensions).normal(size=(300, dimensions)))
    grid = snapped(vectors).astype(np.float64)
    off = grid @ grid.T / square_of(dimensions) - vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    assert np.quantile(np.abs(off), 0.99) < 3e-4
    assert np.abs(off).max() < 8e-4


def test_zero_vectors_stay_zero_and_never_pair() -> None:
    vectors = unit(np.array([[0, 0], [1, 0], [0, 0], [1, 0.1]]))
    grid = snapped(vectors)
    assert not grid[[0, 2]].any()
    nearest = join_exactly(grid, np.ones(4, dtype=bool), most=5, threshold=1e-9)
    assert as_dict(nearest.pairs()).keys() == {(1, 3)}


@settings(max_examples=60, deadline=None)
@given(dimensions=st.integers(1, 2048), seed=SEEDS)
def test_duplicates_of_a_vector_pair_with_a_similarity_near_one_and_never_above(dimensions: int, seed: int) -> None:
    vector = unit(np.random.default_rng(seed).normal(size=(1, dimensions)))
    grid = snapped(np.repeat(vector, 3, axis=0))
    pairs = join_exactly(grid, np.ones(3, dtype=bool), most=5, threshold=0.85).pairs()
    similarity = as_dict(pairs)
    assert similarity.keys() == {(0, 1), (0, 2), (1, 2)}
    assert len(set(similarity.values())) == 1
    # The length of a snapped vector strays by 1.4e-4 (standard deviation), so that a duplicate may count 0.9995.
    assert all(0.999 < one <= 1 for one in similarity.values())


# --- the exact join


@settings(max_examples=100, deadline=None)
@given(world=worlds(), most=MOST, threshold=THRESHOLDS, rows=BLOCKS, threads=st.integers(1, 3))
def test_the_exact_join_agrees_with_a_plain_loop_whatever_the_blocks_and_threads(
    world: World, most: int, threshold: float, rows: int, threads: int
) -> None:
    with blocks_of(rows):
        nearest = join_exactly(world.grid, world.is_new, most=most, threshold=threshold, threads=threads)
    found = similarities(world.grid, threshold=threshold)
    is_new = world.is_new
    agrees(nearest, {(a, b): one for (a, b), one in found.items() if is_new[a] or is_new[b]}, most=most)


def test_rows_nearer_than_the_grid_can_tell_are_told_apart_by_their_place() -> None:
    # Snapped, the rows are a little longer than 1, by a different amount each.
    tilts = np.linspace(0.30, 0.31, 12)
    grid = snapped(unit(np.stack([np.cos(tilts), np.sin(tilts)], axis=1)))
    nearest = join_exactly(grid, np.ones(12, dtype=bool), most=2, threshold=0.9)
    agrees(nearest, similarities(grid, threshold=0.9), most=2)


@pytest.mark.parametrize("rows", [0, 1])
def test_no_row_and_a_row_alone_have_no_pairs(rows: int) -> None:
    grid, everyone = snapped(np.ones((rows, 1), dtype=np.float32)), np.ones(rows, dtype=bool)
    partitions = Partitions(np.ones((2, 1), dtype=np.float32), assigned(grid, np.ones((2, 1), dtype=np.float32)))
    for nearest in (
        join_exactly(grid, everyone, most=5, threshold=0.85),
        join_by_partitions(grid, everyone, partitions, probes=1, most=5, threshold=0.85),
    ):
        pairs = nearest.pairs()
        assert as_dict(pairs) == {}
        assert pairs.found == 0
        assert [column.dtype.name for column in (pairs.left, pairs.right, pairs.similarity)] == [
            "int64",
            "int64",
            "float32",
        ]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_rows_about_a_block_of_the_usual_size_join_as_in_one_block(beyond: int) -> None:
    random = np.random.default_rng(beyond + 1)
    clusters = np.repeat(unit(random.normal(size=(700, 16))), 3, axis=0)[: neighbours._BLOCK_ROWS + beyond]
    grid = snapped(unit(clusters + random.normal(size=clusters.shape) / 40))[random.permutation(len(clusters))]
    is_new = np.ones(len(grid), dtype=bool)
    usual = join_exactly(grid, is_new, most=5, threshold=0.9, threads=2)
    with blocks_of(3000):
        assert same(usual, join_exactly(grid, is_new, most=5, threshold=0.9))
    dots = grid.astype(np.int64) @ grid.astype(np.int64).T
    assert usual.found == np.count_nonzero(np.triu(dots / square_of(16) >= 0.9, k=1)) > 2000


def test_a_night_without_new_rows_finds_nothing() -> None:
    grid = snapped(np.ones((3, 1), dtype=np.float32))
    assert join_exactly(grid, np.zeros(3, dtype=bool), most=5, threshold=0.85).pairs().found == 0


@settings(max_examples=50, deadline=None)
@given(world=worlds(min_rows=1), rows=BLOCKS, threads=st.integers(1, 3))
def test_what_is_told_adds_up_to_the_new_rows_and_to_the_partitions(world: World, rows: int, threads: int) -> None:
    joined: list[int] = []
    probed: list[int] = []
    with blocks_of(rows):
        join_exactly(world.grid, world.is_new, most=2, threshold=0.85, threads=threads, tell=joined.append)
        join_by_partitions(
            world.grid,
            world.is_new,
            world.partitions,
            probes=2,
            most=2,
            threshold=0.85,
            threads=threads,
            tell=probed.append,
        )
    assert sum(joined) == np.count_nonzero(world.is_new)
    assert sum(probed) == len(world.partitions.centroids)


# --- the sieve


def products_of_all(left: Codes, right: Codes, into: NDArray[np.int32]) -> None:
    np.matmul(left.astype(np.int32), right.astype(np.int32).T, out=into)


def products_of_pairs(left: Floats, right: Floats, row: Places, column: Places) -> Floats:
    dots: Floats = np.einsum("ij,ij->i", left[row], right[column])
    return dots


def sieve_of(grid: Grid, *, threshold: float, threads: int = 1) -> Sieve:
    axes = axes_of(grid, threshold=threshold)
    return Sieve(coarse(grid, axes, threads=threads), Products(products_of_all, products_of_pairs))


@settings(max_examples=100, deadline=None)
@given(world=worlds(), most=MOST, threshold=THRESHOLDS, rows=BLOCKS, threads=st.integers(1, 3))
def test_a_sieve_changes_nothing_that_is_found(
    world: World, most: int, threshold: float, rows: int, threads: int
) -> None:
    grid, is_new = world.grid, world.is_new
    with blocks_of(rows):
        sieve = sieve_of(grid, threshold=threshold, threads=threads)
        exact = join_exactly(grid, is_new, most=most, threshold=threshold, sieve=sieve, threads=threads)
        through = [
            join_by_partitions(
                grid, is_new, world.partitions, probes=2, most=most, threshold=threshold, sieve=one, threads=threads
            )
            for one in (sieve, None)
        ]
        truths = [
            search_exactly(grid, np.flatnonzero(is_new), most=most, threshold=threshold, sieve=one)
            for one in (sieve, None)
        ]
    assert same(exact, join_exactly(grid, is_new, most=most, threshold=threshold))
    assert same(*through)
    assert np.array_equal(truths[0].keys, truths[1].keys)


@settings(max_examples=60, deadline=None)
@given(world=worlds(min_rows=1), threshold=THRESHOLDS, rows=BLOCKS)
def test_rows_near_any_of_some_are_those_that_a_plain_loop_finds(world: World, threshold: float, rows: int) -> None:
    queries, members = np.flatnonzero(world.is_new), np.flatnonzero(~world.is_new)
    sieve = sieve_of(world.grid, threshold=threshold)
    with blocks_of(rows):
        is_near = near_any(
            world.grid[queries],
            sieve.coarse.codes[queries],
            world.grid[members],
            sieve.at(members),
            threshold=threshold,
        )
    found = similarities(world.grid, threshold=threshold)
    new = set(queries.tolist())
    wanted = {other for pair in found for other in pair if other not in new and new & set(pair)}
    assert set(members[is_near].tolist()) == wanted


@pytest.mark.parametrize("share", [0.01, 0.2])
def test_many_pairs_are_folded_as_they_come_into_the_best_of_each_row(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    random = np.random.default_rng(1)
    kinds = unit(random.normal(size=(round(1 / share), 16)))
    grid = snapped(unit(kinds[random.integers(0, len(kinds), size=300)] + random.normal(size=(300, 16)) / 40))
    is_new = random.random(300) < 0.7
    usual = join_exactly(grid, is_new, most=3, threshold=0.9)
    assert usual.found > 300
    monkeypatch.setattr(neighbours, "_HELD", 50)
    with blocks_of(40):
        assert same(usual, join_exactly(grid, is_new, most=3, threshold=0.9, threads=2))


# --- the join through partitions


@settings(max_examples=100, deadline=None)
@given(world=worlds(), most=MOST, threshold=THRESHOLDS, rows=BLOCKS, threads=st.integers(1, 3))
def test_probing_all_partitions_is_the_exact_join(
    world: World, most: int, threshold: float, rows: int, threads: int
) -> None:
    exact = join_exactly(world.grid, world.is_new, most=most, threshold=threshold)
    for probes in (6, 100):
        with blocks_of(rows):
            nearest = join_by_partitions(
                world.grid,
                world.is_new,
                world.partitions,
                probes=probes,
                most=most,
                threshold=threshold,
                threads=threads,
            )
        assert same(nearest, exact)


def probed_by(world: World, probes: int) -> list[set[int]]:
    """The partitions each row asks: its own and the nearest of the others."""
    return [set(row.tolist()) for row in world.partitions.probed(world.grid, np.arange(len(world.grid)), probes)]


@settings(max_examples=100, deadline=None)
@given(world=worlds(min_rows=1), probes=st.integers(1, 7))
def test_a_row_probes_its_own_partition_and_the_nearest_of_the_others(world: World, probes: int) -> None:
    count = len(world.partitions.centroids)
    scores = world.grid.astype(np.float64) @ world.partitions.centroids.T.astype(np.float64)
    longest = np.linalg.norm(world.partitions.centroids, axis=1).max()
    for row, probed in enumerate(probed_by(world, probes)):
        own = int(world.partitions.of_row[row])
        assert own in probed
        assert len(probed) == min(probes, count)
        others, left_out = probed - {own}, set(range(count)) - probed
        # Centroids are snapped as the rows are: partitions as near as that count as equally near.
        close = 1.1 * longest * math.sqrt(world.grid.shape[1])
        assert all(scores[row, one] > scores[row, other] - close for one in others for other in left_out)


@settings(max_examples=100, deadline=None)
@given(world=worlds(), probes=st.integers(1, 5), most=MOST, threshold=THRESHOLDS, rows=BLOCKS)
def test_the_join_finds_the_pairs_of_the_probed_partitions_each_once(
    world: World, probes: int, most: int, threshold: float, rows: int
) -> None:
    with blocks_of(rows):
        nearest = join_by_partitions(
            world.grid, world.is_new, world.partitions, probes=probes, most=most, threshold=threshold, threads=2
        )
    probed, own, is_new = probed_by(world, probes), world.partitions.of_row, world.is_new
    found = {
        (a, b): similarity
        for (a, b), similarity in similarities(world.grid, threshold=threshold).items()
        if (is_new[a] and own[b] in probed[a]) or (is_new[b] and own[a] in probed[b])
    }
    agrees(nearest, found, most=most)


def test_with_one_probe_only_rows_of_one_partition_meet_though_another_be_nearer() -> None:
    grid = snapped(unit(np.array([[1, 0], [1, 0], [1, 0], [0, 1]])))
    of_row = np.array([0, 1, 0, 1], dtype=np.int32)
    partitions = Partitions(np.eye(2, dtype=np.float32), of_row)
    nearest = join_by_partitions(grid, np.ones(4, dtype=bool), partitions, probes=1, most=5, threshold=0.85)
    assert as_dict(nearest.pairs()).keys() == {(0, 2)}
    nearest = join_by_partitions(grid, np.ones(4, dtype=bool), partitions, probes=2, most=5, threshold=0.85)
    assert as_dict(nearest.pairs()).keys() == {(0, 1), (0, 2), (1, 2)}


def test_one_partition_is_the_exact_join() -> None:
    grid = snapped(unit(np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]])))
    is_new = np.array([True, False, True, True])
    partitions = Partitions(np.zeros((1, 2), dtype=np.float32), np.zeros(4, dtype=np.int32))
    nearest = join_by_partitions(grid, is_new, partitions, probes=1, most=5, threshold=0.85)
    assert same(nearest, join_exactly(grid, is_new, most=5, threshold=0.85))


def test_partitions_of_more_rows_than_a_block_join_as_in_one_block() -> None:
    random = np.random.default_rng(0)
    clusters = np.repeat(unit(random.normal(size=(70, 8))), 4, axis=0)
    grid = snapped(unit(clusters + random.normal(size=clusters.shape) / 30))
    is_new = random.random(len(grid)) < 0.5
    centroids = unit(random.normal(size=(5, 8)))
    partitions = Partitions(centroids, assigned(grid, centroids))
    usual = join_by_partitions(grid, is_new, partitions, probes=2, most=5, threshold=0.9)
    assert usual.found > 100
    for rows in (1, 16, 50):
        with blocks_of(rows):
            assert same(usual, join_by_partitions(grid, is_new, partitions, probes=2, most=5, threshold=0.9, threads=3))


@pytest.mark.parametrize("rows", [0, 1, 9])
def test_rows_are_assigned_to_the_partition_nearest_to_them_in_blocks_as_at_once(rows: int) -> None:
    random = np.random.default_rng(rows)
    grid, centroids = snapped(unit(random.normal(size=(rows, 4)))), unit(random.normal(size=(3, 4)))
    nearest = np.argmax(grid @ centroids.T.astype(np.float64), axis=1) if rows else []
    with blocks_of(1):
        of_row = assigned(grid, centroids)
    assert of_row.tolist() == list(nearest)
    assert of_row.dtype == np.int32


def test_the_same_rows_train_the_same_centroids_of_unit_length_whatever_the_blocks() -> None:
    random = np.random.default_rng(0)
    grid = snapped(unit(np.repeat(random.normal(size=(4, 6)), 10, axis=0) + random.normal(size=(40, 6)) / 9))
    centroids = trained(grid, 4)
    assert np.allclose(np.linalg.norm(centroids, axis=1), 1)
    assert np.bincount(assigned(grid, centroids)).tolist() == [10, 10, 10, 10]
    with blocks_of(1):
        assert np.array_equal(trained(grid, 4), centroids)


def test_centroids_are_trained_on_fewer_rows_than_partitions_and_on_zero_vectors_too() -> None:
    grid = snapped(unit(np.array([[0, 0], [1, 0], [0, 1]])))
    centroids = trained(grid, 5)
    assert centroids.shape == (5, 2)
    assert np.isfinite(centroids).all()
    assert assigned(grid, centroids)[1] != assigned(grid, centroids)[2]


# --- recall


def some_of(rows: Places, world: World) -> Places:
    return rows[:: 1 + len(world.grid) % 3]


@settings(max_examples=100, deadline=None)
@given(world=worlds(), most=MOST, threshold=THRESHOLDS, rows=BLOCKS)
def test_the_truth_about_some_rows_is_their_best_candidates_and_an_exact_join_finds_them_all(
    world: World, most: int, threshold: float, rows: int
) -> None:
    sample = some_of(np.flatnonzero(world.is_new), world)
    with blocks_of(rows):
        truth = search_exactly(world.grid, sample[::-1], most=most, threshold=threshold)
    exact = join_exactly(world.grid, world.is_new, most=most, threshold=threshold)
    for row in sample:
        expected = exact.keys[row][exact.keys[row] > -np.inf]
        assert np.array_equal(np.sort(truth.keys[truth.rows == row]), expected)
    assert set(truth.rows.tolist()) <= set(sample.tolist())
    assert truth.recall(exact) == 1


@settings(max_examples=120, deadline=None)
@given(world=worlds(), most=MOST, threshold=THRESHOLDS, target=st.sampled_from([0.01, 0.5, 0.9, 1.0]))
def test_as_many_probes_as_the_truth_asks_for_reach_the_target(
    world: World, most: int, threshold: float, target: float
) -> None:
    sample = some_of(np.flatnonzero(world.is_new), world)
    truth = search_exactly(world.grid, sample, most=most, threshold=threshold)
    probes = truth.probes_for(target, world.grid, world.is_new, world.partitions)
    assert 1 <= probes <= len(world.partitions.centroids)
    nearest = join_by_partitions(
        world.grid, world.is_new, world.partitions, probes=probes, most=most, threshold=threshold
    )
    assert truth.recall(nearest) >= target


@pytest.mark.parametrize("seed", range(8))
def test_fewer_probes_than_the_truth_asks_for_miss_the_target(seed: int) -> None:
    random = np.random.default_rng(seed)
    grid, centroids = snapped(unit(random.normal(size=(60, 4)))), unit(random.normal(size=(6, 4)))
    partitions, is_new = Partitions(centroids, assigned(grid, centroids)), np.arange(60) % 3 > 0
    truth = search_exactly(grid, np.flatnonzero(is_new), most=3, threshold=0.5)
    probes = truth.probes_for(0.95, grid, is_new, partitions)
    assert probes > 1
    fewer = join_by_partitions(grid, is_new, partitions, probes=probes - 1, most=3, threshold=0.5)
    assert truth.recall(fewer) < 0.95


def test_only_new_rows_are_reckoned_to_ask_back() -> None:
    # Row 0 has the partition of row 1 last but one; row 1 has that of row 0 next to its own.
    grid = snapped(unit(np.array([[1, 0], [1, 0.2]])))
    centroids = unit(np.array([[1, 0.1], [1, -0.1], [0, 1], [-1, 0]]))
    partitions = Partitions(centroids, np.array([0, 2], dtype=np.int32))
    truth = search_exactly(grid, np.array([0]), most=1, threshold=0.85)
    for is_new, probes in (([True, False], 3), ([True, True], 2)):
        assert truth.probes_for(1.0, grid, np.array(is_new), partitions) == probes
        found = [
            join_by_partitions(grid, np.array(is_new), partitions, probes=count, most=1, threshold=0.85).found
            for count in (probes - 1, probes)
        ]
        assert found == [0, 1]


def test_the_share_of_true_candidates_that_a_join_has_found_is_its_recall() -> None:
    grid = snapped(unit(np.array([[1, 0], [1, 0.1], [1, 0.2]])))
    is_new = np.ones(3, dtype=bool)
    truth = search_exactly(grid, np.arange(3), most=5, threshold=0.85)
    apart = Partitions(np.eye(2, dtype=np.float32), np.array([0, 0, 1], dtype=np.int32))
    nearest = join_by_partitions(grid, is_new, apart, probes=1, most=5, threshold=0.85)
    assert truth.recall(nearest) == pytest.approx(2 / 6)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_where_there_are_no_pairs_nothing_is_missed_and_one_probe_will_do(rows: int) -> None:
    grid, is_new = snapped(np.eye(3, dtype=np.float32)), np.ones(3, dtype=bool)
    partitions = Partitions(np.eye(3, dtype=np.float32), np.arange(3, dtype=np.int32))
    truth = search_exactly(grid, np.arange(rows), most=5, threshold=0.85)
    assert truth.rows.size == truth.keys.size == 0
    assert truth.probes_for(1.0, grid, is_new, partitions) == 1
    assert truth.recall(join_exactly(grid, is_new, most=5, threshold=0.85)) == 1


def test_an_exact_search_among_more_rows_than_a_block_sees_them_all() -> None:
    rows = 4 * neighbours._BLOCK_ROWS + 1
    grid = snapped(unit(np.random.default_rng(0).normal(size=(rows, 3))))
    sample = np.array([0, 1, rows - 1])
    truth = search_exactly(grid, sample, most=5, threshold=0.5)
    assert truth.rows.tolist() == [0] * 5 + [1] * 5 + [rows - 1] * 5
    with blocks_of(rows):
        assert np.array_equal(search_exactly(grid, sample, most=5, threshold=0.5).keys, truth.keys)
