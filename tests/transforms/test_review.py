"""Questions to a person: one a chunk, the best candidate first, and never lost when more come."""

import json
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables import PENDING_REVIEWS
from schemas.terms import EQUIVALENT, MERGED, SUPERSEDING, UNKNOWN
from transforms.review import asked_again, questions, settled

NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
QUEUED = {
    "left_id": pl.String,
    "right_id": pl.String,
    "later_id": pl.String,
    "scope": pl.String,
    "similarity": pl.Float32,
    "reading": pl.Float32,
    "relation": pl.String,
    "confidence": pl.Float32,
    "evidence": pl.String,
    "is_confirmed": pl.Boolean,
}


def queued(other: str, **over: Any) -> dict[str, Any]:
    """A pair of the chunk `m` with another, which may be lower or higher."""
    left, right = sorted([other, "m"])
    usual = {"similarity": 0.9, "reading": None, "relation": UNKNOWN, "confidence": 0.5, "evidence": "one word"}
    return {"left_id": left, "right_id": right, "later_id": "m", "scope": "acme", **usual, "is_confirmed": True, **over}


def asked(*pairs: dict[str, Any], at: datetime = NOW) -> pl.DataFrame:
    chunks = pl.DataFrame({"chunk_id": ["a", "b", "z"], "canonical_id": ["a", "a", "z"]})
    return questions(pl.DataFrame(pairs, schema=QUEUED), chunks, queued_at=at)


def candidates(rows: pl.DataFrame) -> list[str]:
    return [each["chunk_id"] for each in json.loads(rows["candidates"][0])]


def test_a_chunk_with_several_candidates_is_asked_about_once_with_all_of_them() -> None:
    rows = asked(
        queued("a", similarity=0.88), queued("z", similarity=0.9, reading=0.95), queued("b", relation=EQUIVALENT)
    )
    assert rows.height == 1
    assert candidates(rows) == ["b", "z", "a"]
    first = json.loads(rows["candidates"][0])[0]
    assert first == {
        "chunk_id": "b",
        "canonical_id": "a",
        "similarity": 0.9,
        "reading": None,
        "relation": EQUIVALENT,
        "confidence": 0.5,
        "evidence": "one word",
    }
    assert PENDING_REVIEWS.check(rows)["queued_at"][0] == NOW


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (
            queued("a", relation=EQUIVALENT, confidence=0.8),
            "judged equivalent with confidence 0.80 at similarity 0.90, not sure enough to merge by itself",
        ),
        (
            queued("a", relation=EQUIVALENT, confidence=0.95, reading=0.97, is_confirmed=False),
            "judged equivalent with confidence 0.95 at similarity 0.97, and no second opinion confirms it",
        ),
        (
            queued("a", relation=SUPERSEDING, confidence=0.6),
            "one seems to replace the other, with confidence 0.60 at similarity 0.90",
        ),
        (queued("a"), "may or may not say the same, judged with confidence 0.50 at similarity 0.90"),
    ],
)
def test_the_reason_says_what_was_judged_and_what_is_missing(pair: dict[str, Any], reason: str) -> None:
    assert asked(pair)["reason"].to_list() == [reason]
    assert asked(pair, queued("z", similarity=0.86))["reason"].to_list() == [f"{reason}; 1 more to compare"]


@given(st.permutations(["a", "b", "z"]))
def test_the_order_of_pairs_changes_nothing(order: list[str]) -> None:
    assert asked(*(queued(other) for other in order)).rows() == asked(*map(queued, "abz")).rows()


def test_a_question_that_is_still_open_keeps_its_date_and_candidates() -> None:
    before = asked(queued("a"))
    again = asked_again(asked(queued("z"), at=LATER), before)
    assert candidates(again) == ["z", "a"]
    assert again["queued_at"].to_list() == [NOW]
    assert again["review_id"].to_list() == before["review_id"].to_list()


def test_a_candidate_that_is_judged_again_stands_once() -> None:
    assert candidates(asked_again(asked(queued("a", confidence=0.6)), asked(queued("a"), queued("b")))) == ["a", "b"]


def test_a_question_that_was_answered_is_asked_anew_with_the_new_candidates_alone() -> None:
    answered = asked(queued("a")).with_columns(
        reviewed_at=NOW, reviewed_by=pl.lit("ana"), decision=pl.lit("keep_separate")
    )
    again = asked_again(asked(queued("z"), at=LATER), answered)
    assert candidates(again) == ["z"]
    assert again.select("queued_at", "reviewed_at").row(0) == (LATER, None)


def test_a_question_about_a_chunk_that_was_merged_is_settled_once() -> None:
    rows = settled(asked(queued("a")), at=LATER, by="20260102T000000")
    assert rows.select("reviewed_at", "reviewed_by", "decision").row(0) == (LATER, "20260102T000000", MERGED)
    assert settled(rows, at=LATER, by="another").is_empty()


def test_nothing_to_ask_has_the_shape_of_a_question() -> None:
    assert asked().schema == PENDING_REVIEWS.dtypes
