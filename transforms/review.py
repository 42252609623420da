"""Questions to a person: one for each chunk that may say the same as others, with those others, best first."""

import json
from datetime import datetime
from typing import Any

import polars as pl

from schemas.tables import PENDING_REVIEWS
from schemas.terms import EQUIVALENT, MERGED, SUPERSEDING
from transforms.hashing import derived_id

_TOLD = ("similarity", "reading", "relation", "confidence", "evidence")


def review_id(chunk_id: pl.Expr) -> pl.Expr:
    """The id of the question about a chunk: it has one at a time."""
    return derived_id(pl.lit("review"), chunk_id)


def questions(pairs: pl.DataFrame, chunks: pl.DataFrame, *, queued_at: datetime) -> pl.DataFrame:
    """A row of `pending_reviews` for every `later_id` of the pairs. `chunks` gives the canonical_id of the others."""
    other = pl.when(pl.col("later_id") == pl.col("left_id")).then("right_id").otherwise("left_id")
    asked = (
        pairs.with_columns(other_id=other, nearness=pl.max_horizontal("similarity", "reading"))
        .join(chunks.select(other_id="chunk_id", canonical_id="canonical_id"), on="other_id", how="left")
        .sort(pl.col("relation") != EQUIVALENT, -pl.col("nearness"), "other_id")
    )
    told = pl.struct(pl.col("other_id").alias("chunk_id"), "canonical_id", *_TOLD)
    by_chunk = asked.group_by("later_id").agg(
        pl.col("scope").first(), pl.col("is_confirmed", "nearness").first(), candidates=told
    )
    rows: list[dict[str, Any]] = [
        {
            "chunk_id": row["later_id"],
            "scope": row["scope"],
            "candidates": json.dumps([_rounded(each) for each in row["candidates"]], ensure_ascii=False),
            "reason": _reason(row),
        }
        for row in by_chunk.sort("later_id").iter_rows(named=True)
    ]
    shape = {"chunk_id": pl.String, "scope": pl.String, "candidates": pl.String, "reason": pl.String}
    made = pl.DataFrame(rows, schema=shape)
    return PENDING_REVIEWS.shaped(made.with_columns(review_id=review_id(pl.col("chunk_id")), queued_at=queued_at))


def _rounded(candidate: dict[str, Any]) -> dict[str, Any]:
    """Figures in four bytes, as a person would write them."""
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in candidate.items()}


def _reason(row: dict[str, Any]) -> str:
    best, others = row["candidates"][0], len(row["candidates"]) - 1
    told = f"confidence {best['confidence'] or 0:.2f} at similarity {row['nearness']:.2f}"
    if best["relation"] == EQUIVALENT:
        why = f"judged equivalent with {told}"
        why += ", not sure enough to merge by itself" if row["is_confirmed"] else ", and no second opinion confirms it"
    elif best["relation"] == SUPERSEDING:
        why = f"one seems to replace the other, with {told}"
    else:
        why = f"may or may not say the same, judged with {told}"
    return why + (f"; {others:,} more to compare" if others else "")


def asked_again(rows: pl.DataFrame, earlier: pl.DataFrame) -> pl.DataFrame:
    """Tonight's questions, each with the candidates and the date of the same question where that is still open."""
    still_open = earlier.filter(pl.col("reviewed_at").is_null()).select(
        "review_id", asked_at="queued_at", candidates_before="candidates"
    )
    both = rows.join(still_open, on="review_id", how="left", maintain_order="left")
    merged = [_joined(now, before) for now, before in both.select("candidates", "candidates_before").iter_rows()]
    return both.with_columns(
        candidates=pl.Series(merged, dtype=pl.String), queued_at=pl.coalesce("asked_at", "queued_at")
    ).select(rows.columns)


def _joined(now: str, before: str | None) -> str:
    if before is None:
        return now
    ours = json.loads(now)
    there = {each["chunk_id"] for each in ours}
    return json.dumps(ours + [each for each in json.loads(before) if each["chunk_id"] not in there], ensure_ascii=False)


def settled(earlier: pl.DataFrame, *, at: datetime, by: str) -> pl.DataFrame:
    """The questions that are open, answered: their chunk has been merged since."""
    still_open = earlier.filter(pl.col("reviewed_at").is_null())
    return still_open.with_columns(reviewed_at=at, reviewed_by=pl.lit(by), decision=pl.lit(MERGED)).cast(
        PENDING_REVIEWS.dtypes
    )
