"""Vectors as whole numbers, on a grid on which every dot product is exact in float32."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

# Partial sums of a dot product stay below its bound, the product of the lengths; up to 2**24, float32 is exact.
LENGTH = 4095

Floats = NDArray[np.float32]
Grid = NDArray[np.int16]
Places = NDArray[np.int64]
Tell = Callable[[int], None]


def scale(dimensions: int) -> float:
    """The length of a snapped unit vector before rounding, which can lengthen it by half a step a dimension."""
    return LENGTH - math.sqrt(dimensions) / 2


def snapped(vectors: Floats) -> Grid:
    """Unit (or zero) vectors on the grid: their dot products in float32 are exact in any order of summation."""
    steps: Floats = np.rint(vectors * np.float32(scale(vectors.shape[1])))
    return steps.astype(np.int16)


def blocks(rows: Places, most: int) -> Iterator[Places]:
    """The rows in runs of so many."""
    for start in range(0, len(rows), most):
        yield rows[start : start + most]


def in_threads(work: Callable[[Places], None], parts: list[Places], threads: int, tell: Tell = lambda _: None) -> None:
    """Works on the parts in threads, and tells the size of each, one after the other, in the caller's."""
    with ThreadPoolExecutor(threads) as pool:
        for part, _ in zip(parts, pool.map(work, parts), strict=True):
            tell(len(part))
