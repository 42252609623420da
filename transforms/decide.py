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
    FLAG_CONTRADICTION,
    FLAGGED,
    KEEP_SEPARATE,
    LEFT,
    LINK,
    LINKED,
    MERGED,
    QUEUED,
    RESOLUTIONS,
    RIGHT,
    STORED_AS_NEW,
    SUBSET,
    SUPERSEDED,
    SUPERSEDING,
    UNKNOWN,
)

# What a person said of a pair, as the action it led to.
_SAID = {KEEP_SEPARATE: STORED_AS_NEW, LINK: LINKED} | dict.fromkeys((FLAG_CONTRADICTION, *RESOLUTIONS), FLAGGED)
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
    `chunks` gives first_seen_at, keep_apart and deleted_at of every chunk named. A pair of `separations` is never
    merged by itself nor asked about again, and where a person said what it is (`decision`), that stands. Nothing comes
    of a pair with a chunk that is deleted. Of both kinds `is_settled` is true.
    """
    facts = chunks.select("chunk_id", "first_seen_at", "keep_apart", is_deleted=pl.col("deleted_at").is_not_null())
    both = judged.join(
        facts.rename(_of_side("left")),
        on="left_id",
        how="left",
        maintain_order="left",
    ).join(
        facts.rename(_of_side("right")),
        on="right_id",
        how="left",
        maintain_order="left",
    )
    is_apart = pl.any_horizontal(pl.col("left_apart", "right_apart").fill_null(value=False))
    is_deleted = pl.any_horizontal(pl.col("left_deleted", "right_deleted").fill_null(value=False))
    said = pl.col("decision").replace_strict(_SAID, default=None, return_dtype=pl.String)
    both = both.join(separations.select("pair_id", said=said), on="pair_id", how="left", maintain_order="left")
    is_separated = pl.col("pair_id").is_in(separations["pair_id"].implode())
    by_itself = action_of(limits, may_merge=~is_apart & ~is_separated)
    is_asked_again = is_separated & (by_itself == QUEUED)
    # The left id is the lower one, so that of two seen at once the right one is the later.
    is_left_later = pl.col("left_seen") > pl.col("right_seen")
    newer = pl.when(_is(SUPERSEDING)).then(pl.col("stands"))
    later_side = pl.coalesce(newer, pl.when(is_left_later).then(pl.lit(LEFT)).otherwise(pl.lit(RIGHT)))
    return both.with_columns(
        action=pl.when(is_deleted | is_asked_again)
        .then(pl.coalesce("said", pl.lit(STORED_AS_NEW)))
        .otherwise(pl.coalesce("said", by_itself)),
        is_settled=is_deleted | pl.col("said").is_not_null(),
        later_id=pl.when(later_side == LEFT).then("left_id").otherwise("right_id"),
    ).drop("left_seen", "right_seen", "left_apart", "right_apart", "left_deleted", "right_deleted", "said")


def _of_side(side: str) -> dict[str, str]:
    facts = {"first_seen_at": "seen", "keep_apart": "apart", "is_deleted": "deleted"}
    return {"chunk_id": f"{side}_id", **{name: f"{side}_{short}" for name, short in facts.items()}}


def chunk_actions(pairs: pl.DataFrame) -> pl.DataFrame:
    """chunk_id and action of every chunk that a pair's action is of: the strongest."""
    strongest = pl.col("action").sort_by(pl.col("action").replace_strict(_STRENGTH, return_dtype=pl.Int8)).first()
    return pairs.group_by(chunk_id="later_id").agg(strongest).sort("chunk_id")


def stronger(action: pl.Expr, other: pl.Expr) -> pl.Expr:
    """The stronger of two actions; where one is null, the other."""
    mine = action.replace_strict(_STRENGTH, return_dtype=pl.Int8)
    theirs = other.replace_strict(_STRENGTH, return_dtype=pl.Int8)
    return pl.when((theirs < mine) | action.is_null()).then(other).otherwise(action)
