"""Any one thing out of place in the tables is caught, and no night moves more than it may."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.guards import (
    GuardBreached,
    check_forwards,
    check_group_size,
    check_groups,
    check_merge_jump,
    check_removed,
    check_walls,
)
from transforms.reconcile import DoesNotAddUp

# Two groups of one scope, the first of two chunks, and one of another scope.
CHUNKS = pl.DataFrame(
    {
        "chunk_id": ["a", "b", "c", "d"],
        "canonical_id": ["a", "a", "c", "d"],
        "scope": ["x", "x", "x", "y"],
        "occurrences": [2, 3, 1, 1],
    }
)
CANONICALS = pl.DataFrame(
    {
        "canonical_id": ["a", "c", "d"],
        "chunk_id": ["a", "c", "d"],
        "scope": ["x", "x", "y"],
        "variants": [1, 0, 0],
        "occurrences": [5, 1, 1],
    }
)
VARIANTS = pl.DataFrame({"chunk_id": ["b"], "canonical_id": ["a"], "scope": ["x"]})


def put(rows: pl.DataFrame, row: int, **values: Any) -> pl.DataFrame:
    """The rows with other values in one of them."""
    at = pl.int_range(pl.len()) == row
    return rows.with_columns(
        pl.when(at).then(pl.lit(value)).otherwise(name).alias(name) for name, value in values.items()
    )


def test_groups_that_are_whole_pass() -> None:
    check_groups(CHUNKS, CANONICALS, VARIANTS)
    check_groups(CHUNKS.clear(), CANONICALS.clear(), VARIANTS.clear())


@pytest.mark.parametrize(
    ("chunks", "canonicals", "variants", "told"),
    [
        (
            put(CHUNKS, 2, canonical_id="q"),
            CANONICALS,
            VARIANTS,
            "chunks: 1 of 4 rows name no canonical of their scope",
        ),
        (
            put(CHUNKS, 3, canonical_id="c"),
            CANONICALS,
            VARIANTS,
            "chunks: 1 of 4 rows name no canonical of their scope",
        ),
        (
            CHUNKS,
            put(CANONICALS, 1, chunk_id="a"),
            VARIANTS,
            "canonicals: 1 of 3 rows are not stood for by a chunk of their own",
        ),
        (
            CHUNKS,
            put(CANONICALS, 1, chunk_id="gone"),
            VARIANTS,
            "canonicals: 1 of 3 rows are not stood for by a chunk of their own",
        ),
        (
            CHUNKS,
            CANONICALS,
            put(VARIANTS, 0, canonical_id="c"),
            "variants: 1 of 1 rows do not have the group of their",
        ),
        (CHUNKS, CANONICALS, put(VARIANTS, 0, scope="y"), "variants: 1 of 1 rows do not have the group of their chunk"),
        (CHUNKS, CANONICALS, put(VARIANTS, 0, chunk_id="a"), "variants: 1 of 1 rows stand for a group"),
        (CHUNKS, CANONICALS, VARIANTS.clear(), "chunks: 4, but 3 canonicals + 0 variants = 3"),
        (CHUNKS, put(CANONICALS, 0, variants=2), VARIANTS, "canonicals: 1 of 3 rows do not add up to their chunks"),
        (CHUNKS, put(CANONICALS, 2, occurrences=7), VARIANTS, "canonicals: 1 of 3 rows do not add up to their chunks"),
    ],
)
def test_one_thing_out_of_place_is_told_with_its_table_and_count(
    chunks: pl.DataFrame, canonicals: pl.DataFrame, variants: pl.DataFrame, told: str
) -> None:
    with pytest.raises(DoesNotAddUp, match="nothing was published") as refused:
        check_groups(chunks, canonicals, variants)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (("a", "d"), "links: 1 of 1 rows have a right_id that is"),
        (("d", "a"), "links: 1 of 1 rows have a left_id that is"),
    ],
)
def test_a_row_that_crosses_the_wall_is_told(ends: tuple[str, str], told: str) -> None:
    rows = pl.DataFrame({"left_id": [ends[0]], "right_id": [ends[1]], "scope": ["x"]})
    with pytest.raises(DoesNotAddUp) as refused:
        check_walls("links", rows, CHUNKS, ends=["left_id", "right_id"])
    assert str(refused.value).startswith(told)
    check_walls("links", put(rows, 0, left_id="a", right_id="b"), CHUNKS, ends=["left_id", "right_id"])


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("c", "a", "x"), "forwards: 1 of 1 rows have the id of a group that is still there"),
        (("z", "q", "x"), "forwards: 1 of 1 rows lead to no group of their scope"),
        (("z", "d", "x"), "forwards: 1 of 1 rows lead to no group of their scope"),
    ],
)
def test_an_id_that_leads_on_leads_to_a_living_group(row: tuple[str, str, str], told: str) -> None:
    shape = ["canonical_id", "forwards_to", "scope"]
    check_forwards(pl.DataFrame([("z", "a", "x")], schema=shape, orient="row"), CANONICALS)
    with pytest.raises(DoesNotAddUp) as refused:
        check_forwards(pl.DataFrame([row], schema=shape, orient="row"), CANONICALS)
    assert str(refused.value).startswith(told)


def source_of(rows: int, *, source: str = "faq", scope: str = "x") -> pl.DataFrame:
    ids = pl.Series("chunk_id", [f"{source}{n}" for n in range(rows)], dtype=pl.String)
    return ids.to_frame().with_columns(source=pl.lit(source), scope=pl.lit(scope))


def check_lost(chunks: pl.DataFrame, lost: int, *, before: int = 0, limit: float = 0.5, from_chunks: int = 10) -> None:
    ids = chunks["chunk_id"]
    check_removed(
        chunks,
        merged_before=ids[:before],
        merged_tonight=ids[before : before + lost],
        limit=limit,
        from_chunks=from_chunks,
    )


def test_a_source_that_would_lose_most_of_its_chunks_is_named_with_its_figures_and_the_way_out() -> None:
    chunks = pl.concat([source_of(100), source_of(500, source="manual")])
    with pytest.raises(GuardBreached) as refused:
        check_lost(chunks, 90)
    assert str(refused.value) == (
        "[guard] max_removed_share = 0.5: tonight's merges would take 90 of the 100 chunks of source 'faq' (90%); "
        "nothing was published. If that is right, let it through once with `nightfold run --allow max_removed_share`, "
        "or raise the limit"
    )


def test_a_scope_that_would_lose_most_is_stopped_though_no_source_does() -> None:
    small = pl.concat([source_of(9, source=f"s{n}") for n in range(4)])
    with pytest.raises(GuardBreached, match=r"19 of the 36 chunks of scope 'x' \(53%\)"):
        check_lost(small, 19)


def test_others_over_the_limit_are_counted() -> None:
    chunks = pl.concat([source_of(10, source="a"), source_of(10, source="b")])
    with pytest.raises(GuardBreached, match=r"source 'a' \(100%\), and 1 other sources are over it"):
        check_lost(chunks, 18)


def test_what_was_merged_before_is_no_loss_of_tonight() -> None:
    check_lost(source_of(100), 5, before=90)
    with pytest.raises(GuardBreached, match=r"6 of the 10 chunks"):
        check_lost(source_of(100), 6, before=90)


@given(lost=st.integers(0, 30), limit=st.floats(0, 1), from_chunks=st.integers(1, 40))
def test_a_share_is_stopped_only_above_its_limit_and_of_enough_chunks(
    lost: int, limit: float, from_chunks: int
) -> None:
    if from_chunks <= 30 and lost > 30 * limit:
        with pytest.raises(GuardBreached, match=r"max_removed_share"):
            check_lost(source_of(30), lost, limit=limit, from_chunks=from_chunks)
    else:
        check_lost(source_of(30), lost, limit=limit, from_chunks=from_chunks)


def test_a_group_that_grew_too_large_is_named() -> None:
    grown = pl.DataFrame({"canonical_id": ["a", "b", "c"], "scope": ["x", "x", "y"], "variants": [2, 3, 4]})
    check_group_size(grown, limit=5)
    with pytest.raises(GuardBreached) as refused:
        check_group_size(grown, limit=3)
    assert str(refused.value).startswith(
        "[guard] max_group_chunks = 3: group c of scope 'y' would have 5 chunks, and 1 other groups are over it; "
    )
    assert "--allow max_group_chunks" in str(refused.value)


def test_a_night_that_merges_many_times_more_than_the_ones_before_is_stopped() -> None:
    nights = [(5, 100), (3, 100), (4, 100)]
    check_merge_jump(20, 100, nights=nights, limit=5, from_chunks=50)
    with pytest.raises(GuardBreached) as refused:
        check_merge_jump(21, 100, nights=nights, limit=5, from_chunks=50)
    assert str(refused.value) == (
        "[guard] max_merge_jump = 5: tonight 21 of 100 new chunks would be merged (21.0%), on the 3 nights before "
        "4.0%; nothing was published. If that is right, let it through once with "
        "`nightfold run --allow max_merge_jump`, or raise the limit"
    )


@pytest.mark.parametrize(
    ("chunks_new", "nights"),
    [
        (49, [(0, 100)] * 3),
        (100, [(0, 100)] * 2),
        (100, [(0, 100), (0, 100), (0, 49)]),
        (100, []),
    ],
)
def test_too_few_nights_or_chunks_tell_no_jump(chunks_new: int, nights: list[tuple[int, int]]) -> None:
    check_merge_jump(chunks_new, chunks_new, nights=nights, limit=1, from_chunks=50)


def test_nights_without_a_merge_do_not_make_the_first_one_a_jump() -> None:
    check_merge_jump(10, 100, nights=[(0, 100)] * 5, limit=5, from_chunks=50)
    with pytest.raises(GuardBreached, match="max_merge_jump"):
        check_merge_jump(11, 100, nights=[(0, 100)] * 5, limit=5, from_chunks=50)
