"""Which rows a night of few new chunks has to look at: the new ones, and those that lie near one of them.

A join over these finds what one over all rows of their scopes would, at the cost of a look at the codes of the others.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.kept_rows import KeptRows, Part
from transforms.grid import Grid
from transforms.neighbours import Sieve, near_any
from transforms.sieve import Codes, Products

Flags = NDArray[np.bool_]


def of_scopes(kept: KeptRows, new: pl.DataFrame) -> list[Flags]:
    """The rows of each part that are of the scopes of the new chunks."""
    scopes = new["scope"].unique().implode()
    return [part.scopes.is_in(scopes).to_numpy() for part in kept.parts]


def narrowed(
    kept: KeptRows, mine: list[Flags], new: pl.DataFrame, *, products: Products, threshold: float, threads: int
) -> list[Flags]:
    """Of these rows of each part, whole scopes, the new ones and those at or above the threshold with one of them."""
    ids = new["chunk_id"].implode()
    is_new = [part.chunk_ids.is_in(ids).to_numpy() for part in kept.parts]
    queries = _by_scope(kept.parts, is_new)

    def look(number: int) -> Flags:
        part, here = kept.parts[number], mine[number] & ~is_new[number]
        flags = is_new[number].copy()
        for scope, at in _places_by_scope(part.scopes, here):
            grid, codes = queries[scope]
            whole = len(at) == len(part.grid)
            members, of_members = (part.grid, part.codes) if whole else (part.grid[at], part.codes[at])
            sieve = Sieve(kept.coarse_of(of_members), products)
            flags[at] = near_any(grid, codes, members, sieve, threshold=threshold)
        return flags

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(look, range(len(kept.parts))))


def _places_by_scope(scopes: pl.Series, flags: Flags) -> list[tuple[str, NDArray[np.int64]]]:
    at = np.flatnonzero(flags)
    by_scope = pl.DataFrame({"scope": scopes.gather(at), "at": at}).group_by("scope").agg("at")
    return [(str(scope), places.to_numpy()) for scope, places in zip(*by_scope, strict=True)]


def _by_scope(parts: list[Part], flags: list[Flags]) -> dict[str, tuple[Grid, Codes]]:
    """The grid rows and codes of the flagged rows."""
    gathered: dict[str, list[tuple[Grid, Codes]]] = {}
    for part, here in zip(parts, flags, strict=True):
        for scope, at in _places_by_scope(part.scopes, here):
            gathered.setdefault(scope, []).append((part.grid[at], part.codes[at]))
    return {
        scope: (np.concatenate([grid for grid, _ in some]), np.concatenate([codes for _, codes in some]))
        for scope, some in gathered.items()
    }
