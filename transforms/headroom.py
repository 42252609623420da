"""How near a run came to the guards' limits."""

from dataclasses import dataclass

import polars as pl

# From this share of its limit on, a guard is near it.
NEAR = 0.8


@dataclass(frozen=True)
class Headroom:
    """A guard, what it looked at, its figure and its limit. None where it had too little to look at."""

    guard: str
    subject: str
    figure: float | None
    limit: float

    @property
    def used(self) -> float | None:
        """The figure as a share of the limit."""
        if self.figure is None:
            return None
        return self.figure / self.limit if self.limit else float(self.figure > 0)

    @property
    def is_near(self) -> bool:
        return self.used is not None and self.used >= NEAR


def removed_shares(chunks: pl.DataFrame, merged_before: pl.Series, merged_tonight: pl.Series) -> pl.DataFrame:
    """What tonight's merges take of each source and scope, the largest share first: what (source or scope), name,
    chunks (shown without them), lost and share."""
    shown = chunks.filter(~pl.col("chunk_id").is_in(merged_before.implode())).with_columns(
        is_lost=pl.col("chunk_id").is_in(merged_tonight.implode())
    )
    by_kind = [
        shown.group_by(pl.col(what).cast(pl.String).alias("name"))
        .agg(chunks=pl.len().cast(pl.Int64), lost=pl.col("is_lost").sum().cast(pl.Int64))
        .select(pl.lit(what).alias("what"), "name", "chunks", "lost", share=pl.col("lost") / pl.col("chunks"))
        for what in ("source", "scope")
    ]
    return pl.concat(by_kind).sort("share", "what", "name", descending=[True, False, False])
