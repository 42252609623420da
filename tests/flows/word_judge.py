"""A judge for tests about what comes before and after judging: two texts of the same words are equivalent."""

from collections.abc import Callable
from typing import Any

import polars as pl

from flows.judging import VERDICT
from schemas.terms import EQUIVALENT, UNKNOWN


def judge_by_words(
    pairs: pl.DataFrame, chunks: pl.DataFrame, *, tell_rows: Callable[[int], None], **_: Any
) -> pl.DataFrame:
    """As `flows.judging.judge_pairs`: sure and confirmed where the words are the same, else unknown and unsure."""
    words = chunks.select("chunk_id", said=pl.col("text").str.to_lowercase().str.extract_all(r"\w+").list.join(" "))
    both = pairs.join(words.rename({"chunk_id": "left_id"}), on="left_id", how="left", maintain_order="left").join(
        words.rename({"chunk_id": "right_id", "said": "other"}), on="right_id", how="left", maintain_order="left"
    )
    same = pl.col("said") == pl.col("other")
    tell_rows(pairs.height)
    verdict = {
        "reading": pl.lit(None),
        "relation": pl.when(same).then(pl.lit(EQUIVALENT)).otherwise(pl.lit(UNKNOWN)),
        "confidence": pl.when(same).then(0.97).otherwise(0.5),
        "stands": pl.lit(None),
        "evidence": pl.when(same).then(pl.lit("the same words")).otherwise(pl.lit("other words")),
        "decided_by": pl.lit("rule"),
        "is_confirmed": same,
    }
    return both.select(*pairs.columns, *(verdict[name].cast(dtype).alias(name) for name, dtype in VERDICT.items()))
