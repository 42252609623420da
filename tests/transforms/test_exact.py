"""Exact duplicates: a chunk is a function of the set of its occurrences."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from transforms.exact import (
    folded_into_canonicals,
    folded_into_known,
    group_by_content,
    new_groups,
    repeats_of_an_id,
)

NIGHT = datetime(2026, 1, 31, 2, tzinfo=UTC)
KEYS = pl.Schema(
    {
        "row": pl.UInt64(),
        "chunk_id": pl.String(),
        "scope": pl.String(),
        "source": pl.String(),
        "layout_digest": pl.UInt64(),
        "source_row_id": pl.String(),
        "chunk_index": pl.Int32(),
        "parsed_spec_id": pl.String(),
        "seen_at": pl.Datetime("us", "UTC"),
        "is_new": pl.Boolean(),
        "corpus_id": pl.String(),
    }
)


def keys(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows as the exact stage takes them; each row gives what matters to its test."""
    usual = {"chunk_id": "c", "scope": "ws", "source": "s", "layout_digest": 1, "seen_at": NIGHT, "is_new": True}
    full = [usual | {"row": number, "source_row_id": str(number)} | row for number, row in enumerate(rows)]
    return pl.DataFrame(full, schema=KEYS)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "chunk_id": st.sampled_from("abc"),
            "source": st.sampled_from(["s", "t"]),
            "layout_digest": st.sampled_from([None, 1, 2**64 - 1]),
            "chunk_index": st.sampled_from([None, 0, 1]),
            "parsed_spec_id": st.sampled_from([None, "p", "q"]),
            "seen_at": st.integers(0, 3).map(lambda days: NIGHT + timedelta(days=days)),
        }
    ),
    max_size=8,
)


def rank(row: dict[str, Any]) -> tuple[Any, ...]:
    """The order of representatives in plain Python: a row with a text first, then null before any value."""
    digest, index = row["layout_digest"], row["chunk_index"]
    return (
        digest is None,
        row["source"],
        digest or 0,
        row["source_row_id"],
        -1 if index is None else index,
    )


def as_known(groups: pl.DataFrame) -> pl.DataFrame:
    """What the warehouse knows after a night that stored these groups."""
    return groups.select(
        "chunk_id",
        pl.exclude("chunk_id", "scope", "row", "new_occurrences"),
        canonical_id=pl.col("chunk_id"),
        occurrences=pl.col("new_occurrences"),
    )


@given(ROWS)
def test_groups_agree_with_a_plain_loop(rows: list[dict[str, Any]]) -> None:
    given_keys = keys(*rows)
    members: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in given_keys.iter_rows(named=True):
        members[row["chunk_id"]].append(row)
    groups = {group["chunk_id"]: group for group in group_by_content(given_keys).iter_rows(named=True)}
    assert groups.keys() == members.keys()
    for chunk_id, of_chunk in members.items():
        group = groups[chunk_id]
        assert group["row"] == min(of_chunk, key=rank)["row"]
        assert group["new_occurrences"] == len(of_chunk)
        assert group["first_seen_at"] == min(row["seen_at"] for row in of_chunk)
        assert group["last_seen_at"] == max(row["seen_at"] for row in of_chunk)
        assert group["parsed_spec_ids"] == sorted({row["parsed_spec_id"] for row in of_chunk} - {None})


@given(ROWS, st.randoms())
def test_the_order_of_rows_makes_no_difference(rows: list[dict[str, Any]], random: Any) -> None:
    ordered = keys(*rows)
    places = list(range(ordered.height))
    random.shuffle(places)
    shuffled = ordered[places]
    by_chunk = group_by_content(ordered).sort("chunk_id")
    assert_frame_equal(group_by_content(shuffled).sort("chunk_id"), by_chunk)


@given(ROWS, ROWS)
def test_two_nights_end_as_one(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    together = keys(*first, *second)
    one_night = as_known(group_by_content(together))
    known = as_known(group_by_content(together.head(len(first))))
    groups = group_by_content(together.slice(len(first)))
    folded = folded_into_known(groups, known)
    taken = together.select("row", "source", "layout_digest", "source_row_id", "chunk_index")
    moved = known.update(folded.drop("canonical_id", "new_occurrences", "row"), on="chunk_id").update(
        folded.select("chunk_id", "row").join(taken, on="row").drop("row"), on="chunk_id", include_nulls=True
    )
    two_nights = pl.concat([moved, as_known(new_groups(groups, known))])
    assert_frame_equal(two_nights.sort("chunk_id"), one_night.sort("chunk_id"))


def test_a_known_chunk_seen_again_only_moves_its_count_and_its_last_sight() -> None:
    known = as_known(group_by_content(keys({})))
    later = keys({"source_row_id": "9", "seen_at": NIGHT + timedelta(days=1)})
    folded = folded_into_known(group_by_content(later), known)
    assert folded.rows(named=True) == [
        {
            "chunk_id": "c",
            "canonical_id": "c",
            "row": None,
            "new_occurrences": 1,
            "occurrences": 2,
            "first_seen_at": NIGHT,
            "last_seen_at": NIGHT + timedelta(days=1),
            "parsed_spec_ids": [],
        }
    ]


def test_the_same_rows_at_the_same_moment_change_nothing() -> None:
    first = keys({}, {"parsed_spec_id": "p"})
    known = as_known(group_by_content(first))
    again = group_by_content(first.with_columns(is_new=pl.lit(value=False)))
    assert folded_into_known(again, known).is_empty()
    assert new_groups(again, known).is_empty()


def test_a_row_with_a_text_takes_over_from_one_without() -> None:
    known = as_known(group_by_content(keys({"source": "a", "layout_digest": None})))
    folded = folded_into_known(group_by_content(keys({"source": "z", "row": 7})), known)
    assert folded["row"].to_list() == [7]


def test_canonicals_add_up_over_their_chunks() -> None:
    folded = pl.DataFrame(
        {
            "canonical_id": ["g", "g"],
            "new_occurrences": [2, 3],
            "first_seen_at": [NIGHT - timedelta(days=2), NIGHT],
            "last_seen_at": [NIGHT, NIGHT + timedelta(days=2)],
        }
    )
    canonicals = pl.DataFrame(
        {"canonical_id": ["g", "h"], "occurrences": [1, 1], "first_seen_at": [NIGHT] * 2, "last_seen_at": [NIGHT] * 2}
    )
    assert folded_into_canonicals(folded, canonicals).rows() == [
        ("g", 6, NIGHT - timedelta(days=2), NIGHT + timedelta(days=2))
    ]


def test_of_rows_that_share_an_id_the_lowest_content_stays_whatever_their_order() -> None:
    same_id = [{"chunk_id": "b", "source_row_id": "1"}, {"chunk_id": "a", "source_row_id": "1"}]
    assert repeats_of_an_id(keys(*same_id))["chunk_id"].to_list() == ["b"]
    assert repeats_of_an_id(keys(*reversed(same_id)))["chunk_id"].to_list() == ["b"]


def test_one_id_in_two_scopes_sources_or_windows_is_no_repeat() -> None:
    of_one_id = keys({}, {"scope": "other"}, {"source": "other"}, {"chunk_index": 0}, {"chunk_index": 1})
    assert repeats_of_an_id(of_one_id.with_columns(source_row_id=pl.lit("1"))).is_empty()


def test_no_rows_give_no_groups_in_the_same_shape() -> None:
    full, empty = group_by_content(keys({}, {})), group_by_content(keys())
    assert empty.is_empty()
    assert empty.schema == full.schema
    assert repeats_of_an_id(keys()).is_empty()
