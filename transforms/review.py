"""Questions to a person: one for each chunk that may say the same as others, with those others, best first."""

import json
from datetime import datetime
from typing import Any

import polars as pl

from schemas.tables import PENDING_REVIEWS
from schemas.terms import CLOSED, EQUIVALENT, MERGED, SUPERSEDING
from transforms.hashing import derived_id

_CANDIDATE = r'"chunk_id": ?"([0-9a-f]{32})"'
NONE_LEFT = "no candidate is left to compare: each was replaced, deleted, merged with it or set apart from it since"
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
    """Tonight's questions, each with the candidates of the same question where nobody has answered that, and with its
    date where it is still open."""
    is_open = pl.col("reviewed_at").is_null()
    still_open = earlier.filter(is_open | (pl.col("decision") == CLOSED)).select(
        "review_id", asked_at=pl.when(is_open).then("queued_at"), candidates_before="candidates"
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


def closed(
    asked: pl.DataFrame, chunks: pl.DataFrame, separations: pl.DataFrame, *, at: datetime, by: str
) -> pl.DataFrame:
    """Those of the open questions that nobody needs to answer any more, closed, with why in `notes`: their chunk was
    replaced, or none of their candidates is left to compare.

    `chunks` gives canonical_id, superseded_by and deleted_at of every chunk they name, as it is now.
    """
    told = pl.col("candidates").str.extract_all(_CANDIDATE).list.eval(pl.element().str.extract(_CANDIDATE))
    facts = chunks.select("chunk_id", "canonical_id", "superseded_by", "deleted_at")
    compared = (
        asked.select("review_id", "chunk_id", other_id=told)
        .explode("other_id")
        .join(facts.select("chunk_id", mine="canonical_id"), on="chunk_id", how="left")
        .join(facts.rename({"chunk_id": "other_id"}), on="other_id", how="inner")
        .filter(pl.col("superseded_by").is_null() & pl.col("deleted_at").is_null())
        .filter(pl.col("mine") != pl.col("canonical_id"))
    )
    pairs = compared.with_columns(
        pair_id=derived_id(pl.min_horizontal("chunk_id", "other_id"), pl.max_horizontal("chunk_id", "other_id"))
    )
    left = pairs.join(separations, on="pair_id", how="anti")
    replaced = pl.format("the chunk was replaced by {} since", "superseded_by")
    none_left = ~pl.col("review_id").is_in(left["review_id"].implode())
    why = pl.when(pl.col("superseded_by").is_not_null()).then(replaced).when(none_left).then(pl.lit(NONE_LEFT))
    return (
        asked.filter(pl.col("reviewed_at").is_null())
        .join(facts.select("chunk_id", "superseded_by"), on="chunk_id", how="left")
        .with_columns(reviewed_at=at, reviewed_by=pl.lit(by), decision=pl.lit(CLOSED), notes=why)
        .filter(pl.col("notes").is_not_null())
        .select(asked.columns)
        .cast(PENDING_REVIEWS.dtypes)
    )


def settled(earlier: pl.DataFrame, *, at: datetime, by: str) -> pl.DataFrame:
    """The questions that are open, answered: their chunk has been merged since."""
    still_open = earlier.filter(pl.col("reviewed_at").is_null())
    merged = {"reviewed_by": pl.lit(by), "decision": pl.lit(MERGED), "notes": pl.lit("the night merged the chunk")}
    return still_open.with_columns(reviewed_at=at, **merged).cast(PENDING_REVIEWS.dtypes)
