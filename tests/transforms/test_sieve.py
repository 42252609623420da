"""The sieve: no pair falls through it, whatever the rows and the axes; and little else passes."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from transforms import sieve
from transforms.grid import LENGTH, Floats, Grid, snapped
from transforms.sieve import Axes, Coarse, axes_of, coarse

SEEDS = st.integers(0, 2**32 - 1)


def unit(vectors: NDArray[np.floating]) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def rows_of(dimensions: int, seed: int, *, share: float = 1.0, fall: float = 0.0, rows: int = 16) -> Grid:
    """Rows with some numbers zero, and others the smaller the further back they stand; a few twice."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(rows, dimensions)) * (random.random(size=(rows, dimensions)) <= share)
    vectors *= np.exp(-fall * np.arange(dimensions))
    vectors[1:3] = vectors[0]
    return snapped(unit(vectors @ np.linalg.qr(random.normal(size=(dimensions, dimensions)))[0]))


def square_of(dimensions: int) -> int:
    return math.floor((4095 - math.sqrt(dimensions) / 2) ** 2)


def nothing_falls_through(grid: Grid, some: Coarse) -> None:
    dots = grid.astype(np.int64) @ grid.astype(np.int64).T
    products = some.codes.astype(np.int64) @ some.codes.astype(np.int64).T
    assert all(product >= some.least(float(dot)) for dot, product in zip(dots.flat, products.flat, strict=True))


@settings(max_examples=40, deadline=None)
@given(
    dimensions=st.integers(1, 200),
    seed=SEEDS,
    share=st.floats(0.01, 1),
    fall=st.sampled_from([0, 0.01, 0.05, 0.5]),
    looked_at=st.sampled_from([2, 16_384]),
)
@example(dimensions=256, seed=0, share=1, fall=0.05, looked_at=16_384)
def test_no_pair_falls_through_also_where_rows_stick_out_of_the_step(
    dimensions: int, seed: int, share: float, fall: float, looked_at: int
) -> None:
    grid = rows_of(dimensions, seed, share=share, fall=fall)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sieve, "_STEP_ROWS", looked_at)
        axes = axes_of(grid, threshold=0.85)
    nothing_falls_through(grid, coarse(grid, axes))


@settings(max_examples=25, deadline=None)
@given(dimensions=st.integers(96, 160), seeds=st.tuples(SEEDS, SEEDS), fall=st.sampled_from([0.02, 0.1]))
def test_no_pair_falls_through_axes_that_were_chosen_for_quite_other_rows(
    dimensions: int, seeds: tuple[int, int], fall: float
) -> None:
    axes = axes_of(rows_of(dimensions, seeds[0], fall=fall), threshold=0.85)
    grid = rows_of(dimensions, seeds[1], fall=fall)
    nothing_falls_through(grid, coarse(grid, axes))


@settings(max_examples=25, deadline=None)
@given(dimensions=st.integers(2, 300), seed=SEEDS, kept=st.floats(0, 1))
def test_what_is_left_out_of_a_row_fits_into_its_code_however_long_it_is(
    dimensions: int, seed: int, kept: float
) -> None:
    grid = rows_of(dimensions, seed)
    grid[3] = 0
    turn = np.eye(dimensions, max(1, int(kept * (dimensions - 1))), dtype=np.float32)
    step = (LENGTH + 2) / (127 * math.sqrt(5))
    nothing_falls_through(grid, coarse(grid, Axes(turn, step, rests=5)))


def test_the_same_rows_have_the_same_codes_whatever_the_threads() -> None:
    grid = rows_of(96, 1, fall=0.05, rows=9_000)
    axes = axes_of(grid, threshold=0.85)
    one, two = (coarse(grid, axes, threads=threads) for threads in (1, 2))
    assert np.array_equal(one.codes, two.codes)
    assert (one.off, one.reach) == (two.off, two.reach)


def test_a_tenth_of_the_numbers_is_kept_where_these_tell_and_all_of_a_few() -> None:
    steep = axes_of(rows_of(256, 2, fall=0.2, rows=3000), threshold=0.85)
    assert steep.width == 32
    few = axes_of(rows_of(24, 2, rows=3000), threshold=0.85)
    assert (few.width, few.rests) == (24, 0)


@pytest.mark.parametrize("fall", [0.0, 0.03])
def test_the_sieve_lets_little_through_that_is_not_near(fall: float) -> None:
    grid = rows_of(256, 3, fall=fall, rows=2000)
    some = coarse(grid, axes_of(grid, threshold=0.85))
    products = some.codes.astype(np.int32) @ some.codes.astype(np.int32).T
    passed = np.count_nonzero(products >= some.least(0.85 * square_of(256))) - len(grid)
    assert passed / products.size < 0.002


def test_no_rows_have_no_codes() -> None:
    grid = np.empty((0, 8), dtype=np.int16)
    assert coarse(grid, axes_of(rows_of(8, 0), threshold=0.85)).codes.shape == (0, 8)
