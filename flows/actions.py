"""The action that a judged pair leads to by itself, under the limits of the settings."""

import polars as pl

from flows.confirm import would_merge
from flows.settings import JudgeSettings
from schemas.terms import (
    COMPLEMENTARY,
    CONTRADICTORY,
    EQUIVALENT,
    FLAGGED,
    LINKED,
    MERGED,
    QUEUED,
    STORED_AS_NEW,
    SUBSET,
    SUPERSEDED,
    SUPERSEDING,
    UNKNOWN,
)


def action_of_pair(settings: JudgeSettings) -> pl.Expr:
    """The action of each pair, by its relation, similarity, reading, confidence, side that stands and confirmation."""
    is_confirmed = pl.lit(not settings.require_confirmation) | pl.col("is_confirmed").fill_null(value=False)
    is_sure = pl.col("confidence") >= pl.lit(settings.merge_confidence, dtype=pl.Float32)
    is_likely = pl.col("confidence") >= pl.lit(settings.review_confidence, dtype=pl.Float32)
    has_side = pl.col("stands").is_not_null()
    merges_subset = pl.lit(settings.subset == "merge") & is_sure & has_side
    relation = pl.col("relation")
    return (
        pl.when(relation == EQUIVALENT)
        .then(pl.when(would_merge(settings) & is_confirmed).then(pl.lit(MERGED)).otherwise(pl.lit(QUEUED)))
        .when(relation == SUBSET)
        .then(pl.when(merges_subset).then(pl.lit(MERGED)).otherwise(pl.lit(LINKED)))
        .when(relation == SUPERSEDING)
        .then(pl.when(is_likely & has_side).then(pl.lit(SUPERSEDED)).otherwise(pl.lit(QUEUED)))
        .when((relation == CONTRADICTORY) & pl.lit(settings.flag_contradictions))
        .then(pl.lit(FLAGGED))
        .when(relation == COMPLEMENTARY)
        .then(pl.lit(LINKED))
        .when((relation == UNKNOWN) & ~is_likely & pl.lit(settings.queue_unknown))
        .then(pl.lit(QUEUED))
        .otherwise(pl.lit(STORED_AS_NEW))
    )
