"""What is long is folded, and nothing of it is lost."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.review_terms import Shown
from review.filters import age, asked
from review.marked import MOST_CHARACTERS, Side, alone, compared

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def chunk(text: str | None, kind: str = "text", **metadata: str | None) -> Shown:
    return Shown("c", "c", "acme", kind, text, metadata, "faq", "1", None, 1, NOW, NOW, 1, is_current=True)


def text_of(side: Side) -> str:
    return "".join(mark.before + mark.words + mark.after for part in side.parts for mark in part.marks)


WORDS = st.lists(st.sampled_from(["red", "blue ", "x" * 300, "\n", " a b c d " * 60, "12,5"]), max_size=40).map(
    " ".join
)


@given(WORDS, WORDS)
def test_both_sides_hold_the_whole_text(new: str, there: str) -> None:
    found = compared(chunk(new), chunk(there))
    assert (text_of(found.new), text_of(found.there)) == (new, there)
    for side in (found.new, found.there):
        opened = sum(part.characters for part in side.parts if not part.is_folded)
        assert opened <= 1_900 or len(side.parts) == 1
        assert all(part.marks for part in side.parts)


def test_a_difference_in_the_middle_of_a_long_text_is_open() -> None:
    before, after = "one two three " * 500, " four five six" * 500
    found = compared(chunk(f"{before}RED{after}"), chunk(f"{before}BLUE{after}"))
    opened = [mark.words for part in found.new.parts if not part.is_folded for mark in part.marks]
    assert "RED" in opened
    assert [part.is_folded for part in found.new.parts] == [False, True, False, True]


def test_a_text_that_is_compared_with_nothing_is_open_at_its_beginning() -> None:
    side = alone(chunk("word " * 2_000))
    assert [part.is_folded for part in side.parts] == [False, True]
    assert text_of(alone(chunk(None))) == ""


def test_of_a_huge_text_the_beginning_is_compared() -> None:
    found = compared(chunk("a " * 400_000), chunk("a " * 10))
    assert found.is_partial
    assert (found.new.characters, found.new.shown_characters) == (800_000, MOST_CHARACTERS)


def test_spec_rows_are_compared_field_by_field_and_others_are_not() -> None:
    one, other = (
        chunk("spec", "spec_row", parent_category="Pumps", specification="Weight", value=value, additional=None)
        for value in ("12 kg", "13 kg")
    )
    fields = compared(one, other).fields
    assert [(field.name, field.differs) for field in fields] == [
        ("Category", False),
        ("Sub-category", False),
        ("Specification", False),
        ("Value", True),
        ("Additional", False),
    ]
    assert compared(one, chunk("text")).fields == []


def test_lines_that_are_the_same_are_counted_and_left_out() -> None:
    found = compared(chunk("a\nb\nNEW\nd\ne\nf"), chunk("a\nb\nold\nd\ne\nf"))
    assert [(line.number, line.skipped) for line in found.woven if line.skipped] == [(3, 2), (7, 3)]
    assert [mark.words for line in found.woven for mark in line.marks if mark.kind != "same"] == ["old", "NEW"]


@pytest.mark.parametrize(
    ("ago", "told"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=5), "5 hours ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=70), "2 months ago"),
        (timedelta(days=800), "2 years ago"),
        (timedelta(days=-1), "just now"),
    ],
)
def test_ages_are_told_in_words(ago: timedelta, told: str) -> None:
    assert age(NOW - ago, now=NOW) == told


def test_the_filters_of_an_address_can_be_put_into_one_again() -> None:
    query = {"scope": "a&b", "min_confidence": "0,5", "older_than_days": "7", "text": " x ", "other": "?", "source": ""}
    found = asked(query)
    assert (found.filters.scope, found.filters.min_confidence, found.filters.older_than_days) == ("a&b", 0.5, 7)
    assert found.query == {"scope": "a&b", "min_confidence": "0,5", "older_than_days": "7", "text": "x"}
    assert asked(found.query) == found
    assert found.with_(cursor="c", relation=None) == {**found.query, "cursor": "c"}
