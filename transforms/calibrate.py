"""What a judge is worth on labelled pairs: precision and recall by threshold, reliability, and a proposal."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt

import numpy as np
import polars as pl
from numpy.typing import NDArray

from schemas.terms import EQUIVALENT, MERGED, QUEUED

# The action of labelled pairs under a merge_confidence and a merge_similarity.
Action = Callable[[float, float], pl.Expr]

_Z = 1.959964  # 95 %
BUCKETS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_CONFIDENCES = tuple(round(0.5 + 0.005 * step, 3) for step in range(100))
_SIMILARITIES = tuple(round(0.5 + 0.01 * step, 2) for step in range(50))


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Between which shares the true one lies, with 95 % confidence, when so many hits were seen."""
    if not of:
        return 0.0, 1.0
    share, z2 = hits / of, _Z * _Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z * sqrt(share * (1 - share) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class Outcome:
    """What would become of the labelled pairs under one pair of thresholds."""

    merge_confidence: float
    merge_similarity: float
    merged: int
    right: int
    """Of the merged, those that are mergeable."""
    found: int
    """Mergeable pairs that are merged or put before a person."""
    queued_in_vain: int
    """Pairs that are not mergeable and yet put before a person."""
    mergeable: int
    others: int

    @property
    def precision(self) -> float | None:
        """Share of the merged that is mergeable; None where nothing is merged."""
        return self.right / self.merged if self.merged else None

    @property
    def precision_at_least(self) -> float | None:
        """The lower end of where the true precision lies."""
        return wilson(self.right, self.merged)[0] if self.merged else None

    @property
    def recall(self) -> float | None:
        """Share of the mergeable that is merged."""
        return self.right / self.mergeable if self.mergeable else None

    @property
    def found_share(self) -> float | None:
        """Share of the mergeable that is merged or put before a person."""
        return self.found / self.mergeable if self.mergeable else None

    @property
    def review_share(self) -> float | None:
        """Share of the pairs that are not mergeable that is put before a person."""
        return self.queued_in_vain / self.others if self.others else None


def outcome(labelled: pl.DataFrame, merge_confidence: float, merge_similarity: float, *, action: Action) -> Outcome:
    """What becomes of pairs with a boolean `mergeable` under these thresholds."""
    became = labelled.select("mergeable", action=action(merge_confidence, merge_similarity))
    mergeable, merged, queued = pl.col("mergeable"), pl.col("action") == MERGED, pl.col("action") == QUEUED
    counts = became.select(
        merged=merged.sum(),
        right=(merged & mergeable).sum(),
        found=((merged | queued) & mergeable).sum(),
        queued_in_vain=(queued & ~mergeable).sum(),
        mergeable=mergeable.sum(),
        others=(~mergeable).sum(),
    ).row(0, named=True)
    return Outcome(merge_confidence, merge_similarity, **counts)


def outcomes(labelled: pl.DataFrame, thresholds: Iterable[tuple[float, float]], *, action: Action) -> list[Outcome]:
    """What becomes of the pairs under each pair of thresholds."""
    return [outcome(labelled, confidence, similarity, action=action) for confidence, similarity in thresholds]


@dataclass(frozen=True)
class Bucket:
    """Pairs called equivalent with a confidence from `low` up to the next bucket."""

    low: float
    high: float
    pairs: int
    mean_confidence: float
    mergeable: int

    @property
    def observed(self) -> float:
        """Share of them that is mergeable."""
        return self.mergeable / self.pairs


def reliability(labelled: pl.DataFrame) -> list[Bucket]:
    """For the pairs called equivalent, how often each confidence was right; buckets without a pair are left out."""
    equivalent = labelled.filter(pl.col("relation") == EQUIVALENT, pl.col("confidence").is_not_null())
    at = equivalent["confidence"].to_numpy()
    places = np.searchsorted(np.array(BUCKETS, dtype=at.dtype), at, side="right") - 1
    highs = (*BUCKETS[1:], 1.0)
    found = []
    for place, (low, high) in enumerate(zip(BUCKETS, highs, strict=True)):
        inside = places == place
        if inside.any():
            mergeable = int(equivalent["mergeable"].to_numpy()[inside].sum())
            found.append(Bucket(low, high, int(inside.sum()), float(at[inside].mean()), mergeable))
    return found


@dataclass(frozen=True)
class Proposal:
    """Thresholds, and the precision that was asked for."""

    merge_confidence: float
    merge_similarity: float
    is_reached: bool


def proposed(
    labelled: pl.DataFrame, *, precision: float, may_merge: pl.Expr, now: tuple[float, float]
) -> Proposal | None:
    """The thresholds with the most right merges among those that reach the precision; where none does, those with the
    highest precision. Of equals, the nearest to `now`, then the stricter. None where no pair can be merged at any.

    `may_merge` holds where the judge calls a pair equivalent and nothing but the thresholds stands against a merge.
    """
    near = pl.max_horizontal("similarity", "reading")
    candidates = labelled.filter(may_merge.fill_null(value=False)).select("confidence", "mergeable", near=near)
    candidates = candidates.drop_nulls()
    confidences, similarities = (
        np.unique([*grid, at]) for grid, at in zip((_CONFIDENCES, _SIMILARITIES), now, strict=True)
    )
    merged = _at_or_above(candidates, confidences, similarities)
    right = _at_or_above(candidates.filter("mergeable"), confidences, similarities)
    if not merged.any():
        return None
    shares = np.divide(right, merged, out=np.full(merged.shape, -1.0), where=merged > 0)
    reaches = shares >= precision
    first, second = (right, shares) if reaches.any() else (shares, right)
    allowed = reaches if reaches.any() else merged > 0
    far = np.abs(confidences - now[0])[:, None] + np.abs(similarities - now[1])[None, :]
    rows, columns = np.indices(merged.shape)
    # The last key counts first.
    best = np.lexsort([key.ravel() for key in (columns, rows, -far.round(6), second, first, allowed)])[-1]
    row, column = np.unravel_index(best, merged.shape)
    return Proposal(float(confidences[row]), float(similarities[column]), bool(reaches.any()))


def _at_or_above(
    pairs: pl.DataFrame, confidences: NDArray[np.float64], similarities: NDArray[np.float64]
) -> NDArray[np.int64]:
    """How many pairs are at or above each two thresholds."""
    counts = np.zeros((len(confidences), len(similarities)), dtype=np.int64)
    rows, columns = (
        # At the width that the pairs have.
        np.searchsorted(grid.astype(np.float32), pairs[name].cast(pl.Float32).to_numpy(), side="right") - 1
        for name, grid in (("confidence", confidences), ("near", similarities))
    )
    inside = (rows >= 0) & (columns >= 0)
    np.add.at(counts, (rows[inside], columns[inside]), 1)
    from_above: NDArray[np.int64] = counts[::-1, ::-1].cumsum(0).cumsum(1)[::-1, ::-1]
    return from_above
