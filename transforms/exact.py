"""Exact duplicates: rows of one (scope, content_hash) are one chunk with many occurrences.

A chunk is a function of the set of its occurrences: counts add up, first and last seen are the least and the
greatest, and the occurrence that represents it is the lowest in a total order. So the order of rows, their split over
files and over nights make no difference.
"""

import polars as pl

# Who represents a chunk: the lowest of these, of the rows that have a text where there are any (a file of the same
# bytes has none). The layout comes before the row so that the text of a chunk does not hang on row ids that are mere
# positions.
REPRESENTATIVE = ("source", "layout_digest", "source_row_id", "chunk_index")
_SLOT = ("scope", "source", "source_row_id", "chunk_index", "corpus_id")
# What tonight's occurrences can move in a known chunk.
MOVING = ("occurrences", "first_seen_at", "last_seen_at", "parsed_spec_ids")


def repeats_of_an_id(keys: pl.DataFrame) -> pl.DataFrame:
    """The rows that repeat the id of another row of their scope and source; of each id the lowest content stays.

    Which one stays is a matter of what the rows say; only rows that are the same in all of `keys` go by `row`.
    """
    suspects = keys.filter(pl.struct(_SLOT).hash().is_duplicated())
    return (
        suspects.sort(*_SLOT, "chunk_id", "layout_digest", "parsed_spec_id", "seen_at", "row")
        .filter(pl.struct(_SLOT).is_first_distinct().not_())
        .sort("row")
    )


def group_by_content(keys: pl.DataFrame) -> pl.DataFrame:
    """One row per chunk_id: `row` of its representative, and what its occurrences add up to. In order of `row`.

    `new_occurrences` counts the rows not seen on an earlier night, by the column `is_new`.
    """
    # By its hash: two ids that share one by chance only take the longer way.
    is_repeated = keys["chunk_id"].hash().is_duplicated()
    single = keys.filter(~is_repeated).select(
        "chunk_id",
        "scope",
        "row",
        *REPRESENTATIVE,
        new_occurrences=pl.col("is_new").cast(pl.Int64),
        first_seen_at=pl.col("seen_at"),
        last_seen_at=pl.col("seen_at"),
        parsed_spec_ids=pl.concat_list("parsed_spec_id").list.drop_nulls(),
    )
    repeated = keys.filter(is_repeated)
    sums = repeated.group_by("chunk_id").agg(
        new_occurrences=pl.col("is_new").cast(pl.Int64).sum(),
        first_seen_at=pl.col("seen_at").min(),
        last_seen_at=pl.col("seen_at").max(),
        parsed_spec_ids=pl.col("parsed_spec_id").drop_nulls().unique().sort(),
    )
    representatives = (
        repeated.select("chunk_id", "scope", "row", *REPRESENTATIVE)
        .sort(*_rank(), "row")
        .unique("chunk_id", keep="first")
    )
    many = representatives.join(sums, on="chunk_id", how="inner", validate="1:1")
    return pl.concat([single, many.select(single.columns)]).sort("row")


def new_groups(groups: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """The groups whose chunk the warehouse does not have."""
    return groups.join(known, on="chunk_id", how="anti", maintain_order="left")


def folded_into_known(groups: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Known chunks as they are after tonight's occurrences; those that do not change are left out.

    `row` is null where the chunk keeps its representative, else the row that takes its place.
    """
    before = known.rename({name: f"{name}_before" for name in (*MOVING, *REPRESENTATIVE)})
    both = before.join(groups, on="chunk_id", how="inner", validate="1:1")
    changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_before")) for name in MOVING)
    return (
        both.with_columns(
            occurrences=pl.col("occurrences_before") + pl.col("new_occurrences"),
            first_seen_at=pl.min_horizontal("first_seen_at_before", "first_seen_at"),
            last_seen_at=pl.max_horizontal("last_seen_at_before", "last_seen_at"),
            parsed_spec_ids=pl.col("parsed_spec_ids_before").list.set_union("parsed_spec_ids").list.sort(),
            row=pl.when(_precedes(_rank(), _rank("_before"))).then(pl.col("row")),
        )
        .filter(changed | pl.col("row").is_not_null())
        .select("chunk_id", "canonical_id", "row", "new_occurrences", *MOVING)
        .sort("chunk_id")
    )


def folded_into_canonicals(folded: pl.DataFrame, canonicals: pl.DataFrame) -> pl.DataFrame:
    """The canonicals of the folded chunks, with tonight's occurrences added."""
    moves = folded.group_by("canonical_id").agg(
        pl.col("new_occurrences").sum(),
        first_seen_at_moved=pl.col("first_seen_at").min(),
        last_seen_at_moved=pl.col("last_seen_at").max(),
    )
    moved = canonicals.join(moves, on="canonical_id", how="inner", validate="1:1").with_columns(
        occurrences=pl.col("occurrences") + pl.col("new_occurrences"),
        first_seen_at=pl.min_horizontal("first_seen_at", "first_seen_at_moved"),
        last_seen_at=pl.max_horizontal("last_seen_at", "last_seen_at_moved"),
    )
    return moved.select(canonicals.columns).sort("canonical_id")


def _rank(suffix: str = "") -> list[pl.Expr]:
    """The order of REPRESENTATIVE over the columns whose names end in `suffix`, rows without a text last."""
    return [pl.col(f"layout_digest{suffix}").is_null(), *(pl.col(name + suffix) for name in REPRESENTATIVE)]


def _precedes(ours: list[pl.Expr], theirs: list[pl.Expr]) -> pl.Expr:
    """True where `ours`, compared one by one, come before `theirs`; null sorts first."""
    lower, same = pl.lit(value=False), pl.lit(value=True)
    for mine, other in zip(ours, theirs, strict=True):
        mine_lower = (mine < other).fill_null(mine.is_null() & other.is_not_null())
        lower = lower | (same & mine_lower)
        same = same & mine.eq_missing(other)
    return lower
