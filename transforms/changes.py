"""What a run changed, from two versions of the tables: that of a run before it, and its own.

Ids may be of any type that compares. Every frame is in the order of its ids.
"""

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class GroupChanges:
    """What became of groups. One may be in several frames: it can have grown, and be stood for by another chunk.

    new: canonical_id, scope, chunks; of chunks that were not there before, all of them.
    grown: canonical_id, scope, chunks, gained; a group of both versions with chunks that it did not have.
    shrunk: canonical_id, scope, chunks, lost; a group of both versions that has lost chunks.
    split: canonical_id, scope, chunks, was_in; a group that is new, with chunks that were in others. `was_in` is the
        group that its standing chunk was in, or null.
    joined: canonical_id, scope, into; a group that is there no longer. `into` is the group of the chunk that stood.
    gone: canonical_id, scope; a group that is there no longer, nor the chunk that stood for it.
    restood: canonical_id, scope, stood, stands; a group of both versions, stood for by another chunk.
    """

    new: pl.DataFrame
    grown: pl.DataFrame
    shrunk: pl.DataFrame
    split: pl.DataFrame
    joined: pl.DataFrame
    gone: pl.DataFrame
    restood: pl.DataFrame


def group_changes(
    chunks_before: pl.DataFrame,
    chunks: pl.DataFrame,
    canonicals_before: pl.DataFrame,
    canonicals: pl.DataFrame,
) -> GroupChanges:
    """What became of groups. Chunks give chunk_id and canonical_id; canonicals canonical_id, scope and chunk_id."""
    was = chunks_before.select("chunk_id", was_in="canonical_id")
    now = chunks.select("chunk_id", "canonical_id")
    # Only chunks whose group is another, or that come or go, say anything; most do not.
    moved = (
        now.join(was, on="chunk_id", how="full", coalesce=True)
        .filter(pl.col("canonical_id").ne_missing(pl.col("was_in")))
        .select("chunk_id", "canonical_id", "was_in")
    )
    gained = (
        moved.drop_nulls("canonical_id")
        .group_by("canonical_id")
        .agg(gained=pl.len().cast(pl.Int64), known=pl.col("was_in").is_not_null().sum())
    )
    lost = moved.drop_nulls("was_in").group_by(canonical_id="was_in").agg(lost=pl.len().cast(pl.Int64))

    born = canonicals.join(canonicals_before, on="canonical_id", how="anti").select("canonical_id", "scope", "chunk_id")
    ended = canonicals_before.join(canonicals, on="canonical_id", how="anti").select(
        "canonical_id", "scope", "chunk_id"
    )
    kept = canonicals.join(
        canonicals_before.select("canonical_id", stood="chunk_id"), on="canonical_id", how="inner"
    ).select("canonical_id", "scope", "stood", stands="chunk_id")
    grown = kept.join(gained, on="canonical_id", how="inner")
    shrunk = kept.join(lost, on="canonical_id", how="inner")
    born = born.join(gained, on="canonical_id", how="left").with_columns(pl.col("gained", "known").fill_null(0))

    sized = pl.concat([each.select("canonical_id") for each in (grown, shrunk, born)]).unique()
    sizes = now.join(sized, on="canonical_id", how="semi").group_by("canonical_id").agg(chunks=pl.len().cast(pl.Int64))
    into = ended.join(now.select("chunk_id", into="canonical_id"), on="chunk_id", how="left")
    split = born.filter(pl.col("known") > 0).join(was, on="chunk_id", how="left")
    return GroupChanges(
        new=_told(born.filter(pl.col("known") == 0), sizes, "chunks"),
        grown=_told(grown, sizes, "chunks", "gained"),
        shrunk=_told(shrunk, sizes, "chunks", "lost"),
        split=_told(split, sizes, "chunks", "was_in"),
        joined=_told(into.drop_nulls("into"), sizes, "into"),
        gone=_told(into.filter(pl.col("into").is_null()), sizes),
        restood=_told(kept.filter(pl.col("stood") != pl.col("stands")), sizes, "stood", "stands"),
    )


def _told(groups: pl.DataFrame, sizes: pl.DataFrame, *columns: str) -> pl.DataFrame:
    if "chunks" in columns:
        groups = groups.join(sizes, on="canonical_id", how="left")
    return groups.select("canonical_id", "scope", *columns).sort("canonical_id")


def newly_superseded(chunks_before: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    """chunk_id, scope and superseded_by of the chunks that are replaced now and were not, or by another one."""
    replaced = chunks.drop_nulls("superseded_by").select("chunk_id", "scope", "superseded_by")
    earlier = chunks_before.drop_nulls("superseded_by").select("chunk_id", "superseded_by")
    return replaced.join(earlier, on=["chunk_id", "superseded_by"], how="anti").sort("chunk_id")


@dataclass(frozen=True)
class OpenChanges:
    """Ids of what was opened and what was closed between two versions: questions, contradictions."""

    opened: pl.Series
    closed: pl.Series


def open_changes(open_before: pl.Series, open_now: pl.Series) -> OpenChanges:
    """What is open now and was not, and what was open and is so no longer."""
    return OpenChanges(
        opened=open_now.filter(~open_now.is_in(open_before.implode())).unique().sort(),
        closed=open_before.filter(~open_before.is_in(open_now.implode())).unique().sort(),
    )


def chunks_of_the_run(chunks_before: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    """The chunks that are new, and those whose action is another now."""
    same = chunks_before.select("chunk_id", "action")
    return chunks.join(same, on=["chunk_id", "action"], how="anti")
