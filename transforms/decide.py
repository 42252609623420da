"""What becomes of judged pairs: an action for each, and for each chunk the strongest of its pairs'.

Similarity nominated the pair and the judge named its relation; here the limits of the settings decide. What is not sure
enough to act on goes to a person or stays as it is, never into a merge.
"""

from dataclasses import dataclass

import polars as pl

from schemas.terms import (
    ACTIONS,
    COMPLEMENTARY,
    CONTRADICTORY,
    EQUIVALENT,
    FLAGGED,
    LEFT,
    LINKED,
    MERGED,
    QUEUED,
    RIGHT,
    STORED_AS_NEW,
    SUBSET,
    SUPERSEDED,
    SUPERSEDING,
    UNKNOWN,
)

_STRENGTH = {action: rank for rank, action in enumerate(ACTIONS)}


@dataclass(frozen=True)
class Limits:
    """From where on a judgement is acted upon, and how."""

    merge_similarity: float = 0.95
    merge_confidence: float = 0.9
    review_confidence: float = 0.7
    require_confirmation: bool = True
    merge_subsets: bool = False
    flag_contradictions: bool = True
    queue_unknown: bool = True


def action_of(limits: Limits, *, may_merge: pl.Expr) -> pl.Expr:
    """The action that a judged pair leads to by itself: by its relation, similarity, reading, confidence, side that
    stands and confirmation. Where `may_merge` is false it is not merged, nor is anyone asked whether it should be."""
    similarity = pl.max_horizontal("similarity", "reading")
    is_sure = pl.col("confidence") >= _single(limits.merge_confidence)
    is_near = similarity >= _single(limits.merge_similarity)
    is_confirmed = (
        pl.lit(value=True) if not limits.require_confirmation else pl.col("is_confirmed").fill_null(value=False)
    )
    is_likely = pl.col("confidence") >= _single(limits.review_confidence)
    has_side = pl.col("stands").is_not_null()
    merged = pl.when(may_merge).then(pl.lit(MERGED)).otherwise(pl.lit(STORED_AS_NEW))
    queued = pl.when(may_merge).then(pl.lit(QUEUED)).otherwise(pl.lit(STORED_AS_NEW))
    equivalent = pl.when(is_sure & is_near & is_confirmed).then(merged).otherwise(queued)
    merges_subset = pl.lit(limits.merge_subsets) & is_sure & has_side & may_merge
    return (
        pl.when(_is(EQUIVALENT))
        .then(equivalent)
        .when(_is(SUBSET))
        .then(pl.when(merges_subset).then(pl.lit(MERGED)).otherwise(pl.lit(LINKED)))
        .when(_is(SUPERSEDING))
        .then(pl.when(is_likely & has_side).then(pl.lit(SUPERSEDED)).otherwise(pl.lit(QUEUED)))
        .when(_is(CONTRADICTORY) & pl.lit(limits.flag_contradictions))
        .then(pl.lit(FLAGGED))
        .when(_is(COMPLEMENTARY))
        .then(pl.lit(LINKED))
        .when(_is(UNKNOWN) & ~is_likely.fill_null(value=False) & pl.lit(limits.queue_unknown))
        .then(queued)
        .otherwise(pl.lit(STORED_AS_NEW))
    )


def _single(limit: float) -> pl.Expr:
    """A limit at the width of what it is held against: 0.9 in four bytes is not below 0.9."""
    return pl.lit(limit, dtype=pl.Float32)


def _is(relation: str) -> pl.Expr:
    return pl.col("relation") == relation


def decided(judged: pl.DataFrame, chunks: pl.DataFrame, separations: pl.DataFrame, *, limits: Limits) -> pl.DataFrame:
    """The judged pairs, in their order, with `action`, and with `later_id`, the chunk that it is the action of.

    That is the chunk seen later, of two seen at once the one of the higher id; of a superseding pair the newer.
    `chunks` gives first_seen_at and keep_apart of every chunk named. Pairs of `separations` are never merged again by
    themselves.
    """
    facts = chunks.select("chunk_id", "first_seen_at", "keep_apart")
    both = judged.join(
        facts.rename({"chunk_id": "left_id", "first_seen_at": "left_seen", "keep_apart": "left_apart"}),
        on="left_id",
        how="left",
        maintain_order="left",
    ).join(
        facts.rename({"chunk_id": "right_id", "first_seen_at": "right_seen", "keep_apart": "right_apart"}),
        on="right_id",
        how="left",
        maintain_order="left",
    )
    is_apart = pl.any_horizontal(pl.col("left_apart", "right_apart").fill_null(value=False))
    is_separated = pl.col("pair_id").is_in(separations["pair_id"].implode())
    # The left id is the lower one, so that of two seen at once the right one is the later.
    is_left_later = pl.col("left_seen") > pl.col("right_seen")
    newer = pl.when(_is(SUPERSEDING)).then(pl.col("stands"))
    later_side = pl.coalesce(newer, pl.when(is_left_later).then(pl.lit(LEFT)).otherwise(pl.lit(RIGHT)))
    return both.with_columns(
        action=action_of(limits, may_merge=~is_apart & ~is_separated),
        later_id=pl.when(later_side == LEFT).then("left_id").otherwise("right_id"),
    ).drop("left_seen", "right_seen", "left_apart", "right_apart")


def chunk_actions(pairs: pl.DataFrame) -> pl.DataFrame:
    """chunk_id and action of every chunk that a pair's action is of: the strongest."""
    strongest = pl.col("action").sort_by(pl.col("action").replace_strict(_STRENGTH, return_dtype=pl.Int8)).first()
    return pairs.group_by(chunk_id="later_id").agg(strongest).sort("chunk_id")


def stronger(action: pl.Expr, other: pl.Expr) -> pl.Expr:
    """The stronger of two actions; where one is null, the other."""
    mine = action.replace_strict(_STRENGTH, return_dtype=pl.Int8)
    theirs = other.replace_strict(_STRENGTH, return_dtype=pl.Int8)
    return pl.when((theirs < mine) | action.is_null()).then(other).otherwise(action)
