"""Rows of two texts, as people keep them in files, and what the judge takes and gives: chunks, pairs and verdicts."""

from datetime import UTC, datetime

import polars as pl

from schemas.terms import EQUIVALENT, LEFT, MERGED, RIGHT, STORED_AS_NEW, UNKNOWN
from transforms.hashing import derived_id
from transforms.normalize import normalized

A, B = "a", "b"
SCOPE = "pairs"
# What a row gets beside its own columns, in order. A similarity of its own stays.
JUDGED = pl.Schema(
    {
        "similarity": pl.Float32,
        "reading": pl.Float32,
        "relation": pl.String,
        "confidence": pl.Float32,
        "action": pl.String,
        "evidence": pl.String,
        "decided_by": pl.String,
        "is_confirmed": pl.Boolean,
        "stands": pl.String,
    }
)
_SAME_TEXT = "same text"
_NO_TEXT = "no text"
# The text of side b counts as the later one.
_SEEN_AT = {A: datetime(2000, 1, 1, tzinfo=UTC), B: datetime(2000, 1, 2, tzinfo=UTC)}


def normal_texts(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `normal_a` and `normal_b`, the normal forms of their texts; null where there is nothing to read."""
    forms = {side: normalized(pl.col(f"text_{side}")) for side in (A, B)}
    return rows.with_columns(pl.when(form != "").then(form).alias(f"normal_{side}") for side, form in forms.items())


def without_text() -> pl.Expr:
    """Whether a row of `normal_texts` lacks one of its texts."""
    return pl.any_horizontal(pl.col("normal_a", "normal_b").is_null())


def of_one_text() -> pl.Expr:
    """Whether the two texts of such a row are the same."""
    return pl.col("normal_a").eq(pl.col("normal_b")).fill_null(value=False)


def judged_without_text(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that lack a text: it is certain that nothing can be known of them, so nobody is asked, and they stay."""
    blank = [pl.when(pl.col(f"normal_{side}").is_null()).then(pl.lit(f"text_{side}")) for side in (A, B)]
    both = pl.concat_str(blank, separator=" and ", ignore_nulls=True)
    return rows.with_columns(
        reading=pl.lit(None, dtype=pl.Float32),
        relation=pl.lit(UNKNOWN),
        confidence=pl.lit(1.0, dtype=pl.Float32),
        action=pl.lit(STORED_AS_NEW),
        evidence=pl.concat_str(pl.lit("nothing to read in "), both),
        decided_by=pl.lit(f"rule: {_NO_TEXT}"),
        is_confirmed=pl.lit(value=False),
        stands=pl.lit(None, dtype=pl.String),
    )


def judged_by_same_text(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose texts are the same in their normal form: one content, whatever the thresholds."""
    return rows.with_columns(
        similarity=pl.col("similarity").fill_null(1.0),
        reading=pl.lit(None, dtype=pl.Float32),
        relation=pl.lit(EQUIVALENT),
        confidence=pl.lit(1.0, dtype=pl.Float32),
        action=pl.lit(MERGED),
        evidence=pl.lit(_SAME_TEXT),
        decided_by=pl.lit(f"rule: {_SAME_TEXT}"),
        is_confirmed=pl.lit(value=True),
        stands=pl.lit(None, dtype=pl.String),
    )


def with_pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `id_a`, `id_b`, `left_id`, `right_id` and `pair_id`: rows that say the same in all that is judged
    share them. A text of one side is another chunk than the same of the other side, which was seen later."""
    ids = {
        side: derived_id(pl.lit(side), pl.col("kind"), pl.col(f"metadata_{side}"), pl.col(f"text_{side}"))
        for side in (A, B)
    }
    return (
        rows.with_columns(id_a=ids[A], id_b=ids[B])
        .with_columns(left_id=pl.min_horizontal("id_a", "id_b"), right_id=pl.max_horizontal("id_a", "id_b"))
        .with_columns(pair_id=derived_id(pl.col("similarity"), pl.col("left_id"), pl.col("right_id")))
    )


def pairs_in(rows: pl.DataFrame) -> pl.DataFrame:
    """The distinct pairs of such rows, as the judge takes them."""
    return (
        rows.select("pair_id", "left_id", "right_id", pl.lit(SCOPE).alias("scope"), "similarity")
        .unique("pair_id")
        .sort("pair_id")
    )


def chunks_in(rows: pl.DataFrame) -> pl.DataFrame:
    """The chunks of such rows, as the judge takes them."""
    sides = [
        rows.select(
            chunk_id=f"id_{side}",
            kind="kind",
            text=f"text_{side}",
            metadata=f"metadata_{side}",
            first_seen_at=pl.lit(seen_at, dtype=pl.Datetime("us", "UTC")),
        )
        for side, seen_at in _SEEN_AT.items()
    ]
    return pl.concat(sides).unique("chunk_id").sort("chunk_id")


def with_verdicts(rows: pl.DataFrame, judged: pl.DataFrame) -> pl.DataFrame:
    """The rows with the verdict on their pair, its sides by the names they have in the rows."""
    names = [name for name in JUDGED if name != "similarity"]
    is_a = (pl.col("stands") == LEFT) == (pl.col("id_a") == pl.col("left_id"))
    return rows.join(judged.select("pair_id", *names), on="pair_id", how="left", maintain_order="left").with_columns(
        stands=pl.when(pl.col("stands").is_in([LEFT, RIGHT])).then(pl.when(is_a).then(pl.lit(A)).otherwise(pl.lit(B)))
    )
