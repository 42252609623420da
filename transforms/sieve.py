"""A sieve for pairs: most are far apart, and few numbers of eight bits tell so.

Rows are turned so that their first numbers hold most of what they are (their principal axes), and only those are kept,
in eight bits. What is left out of a row has a length, and the product of two rows' rests is at most that of their
lengths: as numbers of the code, the lengths make the product of two codes a bound from above. What rounding takes away
is known from the codes themselves. So no pair at the threshold falls through, whatever axes were chosen; good ones let
less through that is not near.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transforms.grid import LENGTH, Floats, Grid, Places, blocks, in_threads, scale

_BLOCK_ROWS = 4096
# Rows that are sieved at once: their products stay near the processor.
_SIEVED_ROWS = 512
# Rows that the axes are chosen by, and how far others may stick out of the step between codes.
_STEP_ROWS = 16_384
_STEP_ROOM = 1.1
# Rows that the width is chosen by. A pair that passes the sieve costs as much as so many numbers more in every code.
_WIDTH_ROWS = 1024
_PASSED = 27_000
_WIDTHS = 32
# For float32, in which rows are turned and measured: as a share of the square of a row.
_ROUNDING = 1e-5

Codes = NDArray[np.int8]


@dataclass(frozen=True)
class Products:
    """Dot products as the processor does them best."""

    of_all: Callable[[Codes, Codes, NDArray[np.int32]], None]
    """Fills the third array with the products of all rows of the first with all rows of the second."""
    of_pairs: Callable[[Floats, Floats, Places, Places], Floats]
    """The product of each pair: a row of the first, in their order, with a row of the second."""


@dataclass(frozen=True)
class Axes:
    """How rows become codes: turned and cut, the step between codes, and how many numbers hold the length of the rest.

    Good for as long as anybody likes: rows that look otherwise are let through the more.
    """

    turn: Floats
    step: float
    rests: int

    @property
    def width(self) -> int:
        """Numbers in a code."""
        return int(self.turn.shape[1]) + self.rests


@dataclass(frozen=True)
class Coarse:
    """The codes of rows, and how far a product of two of them may fall short."""

    codes: Codes
    axes: Axes
    off: float
    """The most that the kept part of a row lies away from its code."""
    reach: float
    """The most that the kept part of a row is long."""

    def at(self, rows: Places) -> "Coarse":
        """The codes of some of the rows."""
        return Coarse(self.codes[rows], self.axes, self.off, self.reach)

    def least(self, dot: float) -> int:
        """No two rows with this product on the grid, or a higher one, have codes with a lower product than this."""
        # Once for rows that are turned in float32, once for axes that are at right angles only so far.
        slack = self.off * (2 * self.reach + self.off) + 2 * _ROUNDING * LENGTH**2
        return math.floor((dot - slack) / self.axes.step**2)


class Passing:
    """Lets pairs of codes through that have at least this product. Threads may ask at the same time."""

    def __init__(self, products: Products, least: int) -> None:
        self._products = products
        self._least = np.int32(least)
        self._scratch = threading.local()

    def __call__(self, left: Codes, right: Codes) -> tuple[Places, Places]:
        """The pairs: rows of the first, in their order, and rows of the second."""
        size = len(left) * len(right)
        passes = self._room("passes", size, np.dtype(np.bool_))
        passes[size:] = False
        for start in range(0, len(left), _SIEVED_ROWS):
            some = left[start : start + _SIEVED_ROWS]
            count = len(some) * len(right)
            products = self._room("products", count, np.dtype(np.int32))[:count]
            self._products.of_all(some, right, products.reshape(len(some), len(right)))
            first = start * len(right)
            np.greater_equal(products, self._least, out=passes[first : first + count])
        return row_and_column(_true_in(passes), len(right))

    def _room(self, name: str, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Room, to the next eight, that this thread has used before: new memory costs more than the products."""
        size += -size % 8
        room: NDArray[Any] | None = getattr(self._scratch, name, None)
        if room is None or len(room) < size:
            room = np.empty(size, dtype=dtype)
            setattr(self._scratch, name, room)
        return room[:size]


def _true_in(flags: NDArray[np.bool_]) -> Places:
    """Where flags are set, of which few are: eight are passed over at once."""
    words = np.flatnonzero(flags.view(np.uint64) != 0)
    at = np.flatnonzero(flags.reshape(-1, 8)[words])
    places: Places = words[at >> 3] * 8 + (at & 7)
    return places


def row_and_column(at: Places, columns: int) -> tuple[Places, Places]:
    """The place in rows of so many columns."""
    row = at // columns
    return row, at - row * columns


def axes_of(grid: Grid, *, threshold: float) -> Axes:
    """The axes for rows like these, of which some are looked at."""
    rows = grid[:: max(1, len(grid) // _STEP_ROWS)].astype(np.float32)
    dimensions = grid.shape[1]
    main = np.linalg.eigh((rows.T @ rows).astype(np.float64))[1][:, ::-1]
    width = _width(rows @ main.astype(np.float32), threshold=threshold)
    if width < dimensions:
        _, step = _turned_alike(rows, main[:, :width])
        rests = _rests(step)
        if rests < width:
            turn, step = _turned_alike(rows, main[:, : width - rests])
            return Axes(turn, max(step, (LENGTH + 2) / (127 * math.sqrt(rests))), rests)
    return Axes(*_turned_alike(rows, main), rests=0)


def _width(turned: Floats, *, threshold: float) -> int:
    """How many numbers are worth their price: each is multiplied for all pairs, and spares some a second look."""
    dimensions, at_least = int(turned.shape[1]), np.float32(threshold * scale(turned.shape[1]) ** 2 - 0.025 * LENGTH**2)
    some, others = (turned[start :: max(2, len(turned) // _WIDTH_ROWS)][:_WIDTH_ROWS] for start in (0, 1))
    best, price = dimensions, math.inf
    for width in (*range(_WIDTHS, dimensions, _WIDTHS), dimensions):
        bounds = some[:, :width] @ others[:, :width].T
        bounds += np.linalg.norm(some[:, width:], axis=1)[:, None] * np.linalg.norm(others[:, width:], axis=1)
        costs = width + _PASSED * np.count_nonzero(bounds >= at_least) / max(1, bounds.size)
        if costs < price:
            best, price = width, costs
    return best


def _turned_alike(rows: Floats, axes: NDArray[np.float64]) -> tuple[Floats, float]:
    """The axes turned among themselves, at random but always alike, so that no number of a row stands out and eight
    bits hold it well; and the step that does it."""
    count = axes.shape[1]
    turn = (axes @ np.linalg.qr(np.random.default_rng(0).standard_normal((count, count)))[0]).astype(np.float32)
    return turn, max(1.0, _STEP_ROOM * float(np.abs(rows @ turn).max(initial=0)) / 127)


def _rests(step: float) -> int:
    """How many numbers of up to 127 steps hold the length of the longest rest there can be."""
    return math.ceil(((LENGTH + 2) / (127 * step)) ** 2)


def coarse(grid: Grid, axes: Axes, *, threads: int = 1) -> Coarse:
    """The codes of all rows."""
    codes = np.empty((len(grid), axes.width), dtype=np.int8)
    kept, offs, reaches = axes.turn.shape[1], [0.0], [0.0]

    def work(rows: Places) -> None:
        some = slice(int(rows[0]), int(rows[-1]) + 1)
        floats = grid[some].astype(np.float32)
        turned = floats @ axes.turn
        squares = np.einsum("ij,ij->i", turned, turned)
        reaches.append(float(np.sqrt(squares.max())))
        if axes.rests:
            rest = np.einsum("ij,ij->i", floats, floats) - squares
            rest = np.sqrt(np.maximum(rest, 0) + np.float32(_ROUNDING * LENGTH**2))
            codes[some, kept:] = np.ceil(rest / np.float32(axes.step * math.sqrt(axes.rests)))[:, None]
        rounded = np.rint(turned / np.float32(axes.step))
        np.clip(rounded, -127, 127, out=rounded)
        codes[some, :kept] = rounded
        rounded *= np.float32(axes.step)
        turned -= rounded
        offs.append(float(np.sqrt(np.einsum("ij,ij->i", turned, turned).max())))

    in_threads(work, [*blocks(np.arange(len(grid)), _BLOCK_ROWS)], threads)
    return Coarse(codes, axes, max(offs), max(reaches))
