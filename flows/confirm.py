"""Confirmation before a merge: what a second opinion takes back of what the judge would merge."""

from collections.abc import Callable

import polars as pl

from flows.llm import SecondOpinion
from flows.settings import JudgeSettings
from schemas.terms import EQUIVALENT

NOT_REACHED = "the endpoint of [llm] was not reached"


def confirmed(
    judged: pl.DataFrame,
    texts: pl.DataFrame,
    *,
    opinion: SecondOpinion | None,
    settings: JudgeSettings,
    tell: Callable[[str], None],
    tell_rows: Callable[[int], None],
) -> pl.DataFrame:
    """The judged pairs, in their order, with `is_confirmed` taken back where the second opinion is not `equivalent`.

    `texts` has the chunk_id and text of every chunk in the pairs. Only pairs that would be merged are asked about, so
    a second opinion never makes a merge of what the judge refuses: nothing but `is_confirmed` and `evidence` changes,
    and `is_confirmed` only from true to false. Without a second opinion the judge's own word stands.
    """
    if opinion is None or not settings.require_confirmation:
        return judged
    asked = _with_texts(judged.filter(pl.col("is_confirmed") & would_merge(settings)), texts)
    opinions = opinion.opinions(asked, tell=tell, tell_rows=tell_rows).unique("pair_id")
    is_refused = pl.col("is_reached").is_not_null() & pl.col("llm_relation").ne_missing(EQUIVALENT)
    said = pl.concat_str(
        pl.lit(f"the second opinion of {opinion.settings.model} is "), "llm_relation", pl.lit(": "), "llm_reason"
    )
    why = pl.when("is_reached").then(said).otherwise(pl.lit(NOT_REACHED))
    evidence = pl.concat_str(
        pl.when(pl.col("evidence").str.len_bytes() > 0).then(pl.col("evidence")), why, separator="; ", ignore_nulls=True
    )
    return (
        judged.join(opinions, on="pair_id", how="left", maintain_order="left")
        .with_columns(
            evidence=pl.when(is_refused).then(evidence).otherwise("evidence"),
            is_confirmed=pl.col("is_confirmed") & ~is_refused,
        )
        .select(judged.columns)
    )


def would_merge(settings: JudgeSettings) -> pl.Expr:
    """Whether a pair would be merged once it is confirmed."""
    similarity = pl.max_horizontal("similarity", "reading")
    # At the width of what they are held against: 0.9 in four bytes is not below 0.9.
    is_sure = pl.col("confidence") >= pl.lit(settings.merge_confidence, dtype=pl.Float32)
    is_near = similarity >= pl.lit(settings.merge_similarity, dtype=pl.Float32)
    return ((pl.col("relation") == EQUIVALENT) & is_sure & is_near).fill_null(value=False)


def _with_texts(pairs: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    sides = [texts.select(pl.col("chunk_id").alias(f"{s}_id"), pl.col("text").alias(f"{s}_text")) for s in _SIDES]
    both = pairs.select("pair_id", "left_id", "right_id")
    for side, rows in zip(_SIDES, sides, strict=True):
        both = both.join(rows.unique(f"{side}_id"), on=f"{side}_id", how="left", maintain_order="left")
    return both.select("pair_id", "left_text", "right_text")


_SIDES = ("left", "right")
