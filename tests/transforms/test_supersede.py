"""What no longer holds keeps its place and its time, and nothing replaces itself in the end."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from transforms.supersede import starts, superseded

START = datetime(2026, 1, 1, tzinfo=UTC)
NOBODY: list[tuple[str, str]] = []


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def pairs_of(pairs: list[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame(pairs, schema={"older_id": pl.String, "newer_id": pl.String}, orient="row")


def known_of(known: list[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame(known, schema={"chunk_id": pl.String, "superseded_by": pl.String}, orient="row")


def since(**days: int) -> pl.DataFrame:
    return pl.DataFrame({"chunk_id": list(days), "start": [day(number) for number in days.values()]})


@pytest.mark.parametrize(
    ("metadata", "start"),
    [
        ('{"effective_at": "2026-02-03"}', datetime(2026, 2, 3, tzinfo=UTC)),
        ('{"effective_at": " 2026-02-03T04:05:06Z "}', datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ('{"effective_at": "2026-02-03T04:05:06+02:00"}', datetime(2026, 2, 3, 2, 5, 6, tzinfo=UTC)),
        ('{"effective_at": "2026-02-03 04:05:06.5"}', datetime(2026, 2, 3, 4, 5, 6, 500_000, tzinfo=UTC)),
        ('{"effective_at": "2026-02-03T04:05:06"}', datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ('{"effective_at": "next spring"}', START),
        ('{"effective_at": null}', START),
        ("{}", START),
        (None, START),
    ],
)
def test_a_chunk_holds_since_its_row_says_or_since_it_was_seen(metadata: str | None, start: datetime) -> None:
    chunks = pl.DataFrame(
        {"chunk_id": ["a"], "metadata": [metadata], "first_seen_at": [START]},
        schema_overrides={"metadata": pl.String, "first_seen_at": pl.Datetime("us", "UTC")},
    )
    assert starts(chunks)["start"].to_list() == [start]


def test_the_older_one_held_until_the_newer_began() -> None:
    replaced = superseded(pairs_of([("a", "b")]), since(a=1, b=5), known_of(NOBODY))
    assert replaced.rows() == [("a", "b", day(1), day(5))]


def test_of_several_replacements_the_first_to_hold_counts() -> None:
    pairs = pairs_of([("a", "c"), ("a", "b"), ("b", "c")])
    replaced = superseded(pairs, since(a=1, b=5, c=9), known_of(NOBODY))
    assert replaced.select("chunk_id", "superseded_by").rows() == [("a", "b"), ("b", "c")]


def test_a_replacement_that_comes_to_light_later_but_held_first_takes_its_place() -> None:
    replaced = superseded(pairs_of([("a", "b")]), since(a=1, b=5, c=9), known_of([("a", "c")]))
    assert replaced.rows() == [("a", "b", day(1), day(5))]
    kept = superseded(pairs_of([("a", "c")]), since(a=1, b=5, c=9), known_of([("a", "b")]))
    assert kept["superseded_by"].to_list() == ["b"]


def test_an_older_version_that_arrives_after_the_newer_held_for_no_time() -> None:
    replaced = superseded(pairs_of([("a", "b")]), since(a=7, b=2), known_of(NOBODY))
    assert replaced.rows() == [("a", "b", day(2), day(2))]


def test_two_that_replace_each_other_leave_one_that_holds() -> None:
    replaced = superseded(pairs_of([("a", "b"), ("b", "a")]), since(a=1, b=2), known_of(NOBODY))
    assert replaced.select("chunk_id", "superseded_by").rows() == [("a", "b")]
    against_known = superseded(pairs_of([("b", "a")]), since(a=1, b=2), known_of([("a", "b")]))
    assert against_known.is_empty()


names = st.sampled_from("abcdef")


@given(st.lists(st.tuples(names, names).filter(lambda both: both[0] != both[1])), st.randoms())
def test_following_what_replaced_a_chunk_always_ends_and_order_changes_nothing(
    pairs: list[tuple[str, str]], dice: st.DataObject
) -> None:
    begun = since(**{name: number // 2 for number, name in enumerate("abcdef")})
    replaced = superseded(pairs_of(pairs), begun, known_of(NOBODY))
    leads = dict(replaced.select("chunk_id", "superseded_by").iter_rows())
    for at in leads:
        seen = [at]
        while seen[-1] in leads:
            seen.append(leads[seen[-1]])
            assert len(seen) == len(set(seen))
    dice.shuffle(pairs)  # type: ignore[attr-defined]
    assert_frame_equal(superseded(pairs_of(pairs), begun, known_of(NOBODY)), replaced)
