"""What must hold of the tables before a run is published, and how much of them one night may move.

Ids may be of any type that compares: a caller with many of them gives digests.
"""

from collections.abc import Sequence

import polars as pl

from transforms.reconcile import DoesNotAddUp

# Nights that a share must have been seen on before a jump can be told from chance.
_FEWEST_NIGHTS = 3


class GuardBreached(DoesNotAddUp):
    """A night that would move more than a setting allows; nothing is published."""


def check_groups(chunks: pl.DataFrame, canonicals: pl.DataFrame, variants: pl.DataFrame) -> None:
    """Every chunk has exactly one canonical of its scope, stood for by one of its own chunks; every chunk that does not
    stand is a variant, and no other; figures of the groups are those of their chunks."""
    _none(
        chunks,
        chunks.join(canonicals, on=["canonical_id", "scope"], how="anti"),
        "chunks",
        "name no canonical of their scope",
    )
    own = chunks.select("chunk_id", "canonical_id", "scope")
    _none(
        canonicals,
        canonicals.join(own, on=["chunk_id", "canonical_id", "scope"], how="anti"),
        "canonicals",
        "are not stood for by a chunk of their own",
    )
    merged = variants.join(own, on=["chunk_id", "canonical_id", "scope"], how="anti")
    _none(variants, merged, "variants", "do not have the group of their chunk")
    standing = variants.join(canonicals, on="chunk_id", how="semi")
    _none(variants, standing, "variants", "stand for a group")
    if variants.height + canonicals.height != chunks.height:
        raise DoesNotAddUp(
            f"chunks: {chunks.height:,}, but {canonicals.height:,} canonicals + {variants.height:,} variants = "
            f"{canonicals.height + variants.height:,}; nothing was published"
        )
    sums = chunks.group_by("canonical_id").agg(members=pl.len(), counted=pl.col("occurrences").sum())
    both = canonicals.join(sums, on="canonical_id", how="inner")
    off = both.filter((pl.col("members") != pl.col("variants") + 1) | (pl.col("counted") != pl.col("occurrences")))
    _none(canonicals, off, "canonicals", "do not add up to their chunks")


def check_walls(table: str, rows: pl.DataFrame, chunks: pl.DataFrame, *, ends: Sequence[str]) -> None:
    """Every chunk that a row names is there, and of the row's scope."""
    for end in ends if rows.height else ():
        strangers = rows.join(chunks, left_on=[end, "scope"], right_on=["chunk_id", "scope"], how="anti")
        _none(rows, strangers, table, f"have a {end} that is no chunk of their scope")


def check_forwards(forwards: pl.DataFrame, canonicals: pl.DataFrame) -> None:
    """An id that leads on is no group's any more, and leads to a group of its scope."""
    alive = forwards.join(canonicals, on="canonical_id", how="semi")
    _none(forwards, alive, "forwards", "have the id of a group that is still there")
    there = canonicals.select("scope", forwards_to="canonical_id")
    nowhere = forwards.join(there, on=["forwards_to", "scope"], how="anti")
    _none(forwards, nowhere, "forwards", "lead to no group of their scope")


def _none(rows: pl.DataFrame, broken: pl.DataFrame, table: str, what: str) -> None:
    if broken.height:
        raise DoesNotAddUp(f"{table}: {broken.height:,} of {rows.height:,} rows {what}; nothing was published")


def check_removed(
    chunks: pl.DataFrame, *, merged_before: pl.Series, merged_tonight: pl.Series, limit: float, from_chunks: int
) -> None:
    """No source and no scope loses more than `limit` of the chunks it would show without tonight's merges."""
    shown = chunks.filter(~pl.col("chunk_id").is_in(merged_before.implode())).with_columns(
        is_lost=pl.col("chunk_id").is_in(merged_tonight.implode())
    )
    for what in ("source", "scope"):
        shares = shown.group_by(what).agg(chunks=pl.len(), lost=pl.col("is_lost").sum()).cast({what: pl.String})
        over = shares.filter((pl.col("chunks") >= from_chunks) & (pl.col("lost") > pl.col("chunks") * limit))
        if over.height:
            worst = over.sort(pl.col("lost") / pl.col("chunks"), what, descending=[True, False]).row(0, named=True)
            raise GuardBreached(
                f"[guard] max_removed_share = {limit}: tonight's merges would take {worst['lost']:,} of the "
                f"{worst['chunks']:,} chunks of {what} {worst[what]!r} ({worst['lost'] / worst['chunks']:.0%})"
                f"{_and_others(over.height - 1, what)}; {_remedy('max_removed_share')}"
            )


def check_group_size(grown: pl.DataFrame, *, limit: int) -> None:
    """No group that tonight made or added to has more than `limit` chunks."""
    over = grown.filter(pl.col("variants") + 1 > limit).sort("variants", "canonical_id", descending=[True, False])
    if over.height:
        worst = over.row(0, named=True)
        raise GuardBreached(
            f"[guard] max_group_chunks = {limit}: group {worst['canonical_id']} of scope {worst['scope']!r} would have "
            f"{worst['variants'] + 1:,} chunks{_and_others(over.height - 1, 'group')}; {_remedy('max_group_chunks')}"
        )


def check_merge_jump(
    merged: int, chunks_new: int, *, nights: Sequence[tuple[int, int]], limit: float, from_chunks: int
) -> None:
    """The share of tonight's chunks that are merged is at most `limit` times the mean of the nights before.

    `nights` gives merged and new chunks of each. Nights of fewer than `from_chunks` chunks count for nothing, and a
    mean below one in `from_chunks` counts as that: of so few, one is no jump.
    """
    shares = [before / new for before, new in nights if new >= from_chunks]
    if chunks_new < from_chunks or len(shares) < _FEWEST_NIGHTS:
        return
    usual, share = max(sum(shares) / len(shares), 1 / from_chunks), merged / chunks_new
    if share > limit * usual:
        raise GuardBreached(
            f"[guard] max_merge_jump = {limit:g}: tonight {merged:,} of {chunks_new:,} new chunks would be merged "
            f"({share:.1%}), on the {len(shares)} nights before {usual:.1%}; {_remedy('max_merge_jump')}"
        )


def _and_others(count: int, what: str) -> str:
    return f", and {count:,} other {what}s are over it" if count else ""


def _remedy(guard: str) -> str:
    return (
        "nothing was published. If that is right, let it through once with "
        f"`nightfold run --allow {guard}`, or raise the limit"
    )
