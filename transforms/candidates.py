"""Which near pairs are kept for judging: those in which one chunk is among the best candidates of the other."""

import polars as pl

from transforms.hashing import derived_id

_SIDES = (("left_id", "right_id"), ("right_id", "left_id"))


def with_pair_id(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs with an id derived from the two chunks."""
    return pairs.with_columns(pair_id=derived_id(pl.col("left_id"), pl.col("right_id")))


def best_of_either(pairs: pl.DataFrame, *, most: int) -> pl.DataFrame:
    """The pairs in which one chunk is among the `most` nearest of the other; of chunks as near, the lower id.

    What a chunk's nearest are hangs only on its own pairs. So a later night that brings the pairs kept before together
    with its own keeps the same as one night with all of them.
    """
    if pairs.is_empty():
        return pairs
    sides = [
        pairs.select(pl.int_range(pl.len()).alias("pair"), "similarity", chunk=mine, other=other)
        for mine, other in _SIDES
    ]
    kept = (
        pl.concat(sides)
        .sort("chunk", "similarity", "other", descending=[False, True, False])
        .filter(pl.int_range(pl.len()).over("chunk") < most)["pair"]
        .unique()
        .sort()
    )
    return pairs[kept]


def folded(known: pl.DataFrame, found: pl.DataFrame, *, most: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of the pairs found tonight those to add, and of the known ones those that give way.

    `known` holds every pair of the chunks found tonight, and every pair of the chunks those are paired with: a pair
    gives way only when it is among the best of neither.
    """
    columns = ["pair_id", "left_id", "right_id", "scope", "similarity"]
    fresh = found.join(known, on="pair_id", how="anti", maintain_order="left")
    kept = best_of_either(pl.concat([known.select(columns), fresh.select(columns)]), most=most)
    added = kept.join(known, on="pair_id", how="anti", maintain_order="left").sort("left_id", "right_id")
    gone = known.join(kept, on="pair_id", how="anti").sort("left_id", "right_id")
    return added, gone


def chunks_in(pairs: pl.DataFrame) -> pl.DataFrame:
    """The chunks that stand in these pairs, on either side."""
    return pl.concat([pairs.select(chunk_id=side) for side in ("left_id", "right_id")]).unique()


def pairs_of(chunks: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs in which one of these chunks stands."""
    at_left = pairs.join(chunks, left_on="left_id", right_on="chunk_id", how="semi")
    others = pairs.join(chunks, left_on="left_id", right_on="chunk_id", how="anti")
    at_right = others.join(chunks, left_on="right_id", right_on="chunk_id", how="semi")
    return pl.concat([at_left, at_right])
