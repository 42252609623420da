"""Exact duplicates: rows of one (scope, content_hash) are one chunk with many occurrences.

A chunk is a function of the set of its occurrences: counts add up, first and last seen are the least and the
greatest, and the occurrence that represents it is the lowest in a total order. So the order of rows, their split over
files and over nights make no difference.
"""

import polars as pl

# Who represents a chunk: the lowest of these. The layout comes before the row so that the text of a chunk does not
# hang on row ids that are mere positions.
REPRESENTATIVE = ("source", "layout_digest", "source_row_id", "chunk_index")
_SLOT = ("scope", "source", "source_row_id", "chunk_index")
_MOVING = ("occurrences", "first_seen_at", "last_seen_at", "parsed_spec_ids")


def repeats_of_an_id(keys: pl.DataFrame) -> pl.DataFrame:
    """The rows that repeat the id of another row of their scope and source; of each id the lowest content stays."""
    suspects = keys.filter(pl.struct(_SLOT).hash().is_duplicated())
    return (
        suspects.sort(*_SLOT, "chunk_id", "layout_digest", "row")
        .filter(pl.struct(_SLOT).is_first_distinct().not_())
        .sort("row")
    )


def group_by_content(keys: pl.DataFrame) -> pl.DataFrame:
    """One row per chunk_id: `row` of its representative, and what its occurrences add up to. In order of `row`.

    `new_occurrences` counts the rows not seen on an earlier night, by the column `is_new`.
    """
    is_repeated = keys["chunk_id"].is_duplicated()
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
        .sort(*REPRESENTATIVE, "row")
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
    before = known.rename({name: f"{name}_before" for name in (*_MOVING, *REPRESENTATIVE)})
    both = before.join(groups, on="chunk_id", how="inner", validate="1:1")
    changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_before")) for name in _MOVING)
    return (
        both.with_columns(
            occurrences=pl.col("occurrences_before") + pl.col("new_occurrences"),
            first_seen_at=pl.min_horizontal("first_seen_at_before", "first_seen_at"),
            last_seen_at=pl.max_horizontal("last_seen_at_before", "last_seen_at"),
            parsed_spec_ids=pl.col("parsed_spec_ids_before").list.set_union("parsed_spec_ids").list.sort(),
            row=pl.when(_precedes("_before")).then(pl.col("row")),
        )
        .filter(changed | pl.col("row").is_not_null())
        .select("chunk_id", "canonical_id", "row", "new_occurrences", *_MOVING)
        .sort("chunk_id")
    )


def folded_into_canonicals(folded: pl.DataFrame, canonicals: pl.DataFrame) -> pl.DataFrame:
    """The canonicals of the folded chunks, with tonight's occurrences added."""
    moves = folded.group_by("canonical_id").agg(
        pl.col("new_occurrences").sum(),
        first_seen_at_moved=pl.col("first_seen_at").min(),
        last_seen_at_moved=pl.col("last_seen_at").max(),
    )
    return (
        canonicals.join(moves, on="canonical_id", how="inner", validate="1:1")
        .select(
            "canonical_id",
            occurrences=pl.col("occurrences") + pl.col("new_occurrences"),
            first_seen_at=pl.min_horizontal("first_seen_at", "first_seen_at_moved"),
            last_seen_at=pl.max_horizontal("last_seen_at", "last_seen_at_moved"),
        )
        .sort("canonical_id")
    )


def _precedes(suffix: str) -> pl.Expr:
    """True where the row's REPRESENTATIVE is lower than the one whose columns end in `suffix`; null sorts first."""
    lower, same = pl.lit(value=False), pl.lit(value=True)
    for name in REPRESENTATIVE:
        ours, theirs = pl.col(name), pl.col(name + suffix)
        ours_lower = (ours < theirs).fill_null(ours.is_null() & theirs.is_not_null())
        lower = lower | (same & ours_lower)
        same = same & ours.eq_missing(theirs)
    return lower
