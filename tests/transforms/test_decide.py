"""What becomes of a judged pair: every relation, every limit, and who it is the action of."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.terms import (
    ACTIONS,
    COMPLEMENTARY,
    CONTRADICTORY,
    DISTINCT,
    EQUIVALENT,
    FLAG_CONTRADICTION,
    FLAGGED,
    KEEP_SEPARATE,
    LEFT,
    LINK,
    LINKED,
    MERGED,
    QUEUED,
    RELATIONS,
    RESOLUTIONS,
    RIGHT,
    STORED_AS_NEW,
    SUBSET,
    SUPERSEDED,
    SUPERSEDING,
    UNKNOWN,
)
from transforms.decide import Limits, chunk_actions, decided, stronger

START = datetime(2026, 1, 1, tzinfo=UTC)
JUDGED = {
    "pair_id": pl.String,
    "left_id": pl.String,
    "right_id": pl.String,
    "similarity": pl.Float32,
    "reading": pl.Float32,
    "relation": pl.String,
    "confidence": pl.Float32,
    "stands": pl.String,
    "is_confirmed": pl.Boolean,
}
NO_SEPARATIONS = pl.DataFrame(schema={"pair_id": pl.String, "decision": pl.String})
LIMITS = Limits()
MERGES_SUBSETS = replace(LIMITS, merge_subsets=True)


def judged(relation: str, **over: Any) -> pl.DataFrame:
    """One pair, sure of it in every way."""
    sure = {"similarity": 0.99, "reading": None, "confidence": 0.99, "stands": RIGHT, "is_confirmed": True}
    row = {"pair_id": "p", "left_id": "a", "right_id": "b", "relation": relation, **sure, **over}
    return pl.DataFrame([row], schema=JUDGED)


def chunks(
    *,
    left_seen: int = 0,
    right_seen: int = 1,
    left_apart: bool = False,
    right_apart: bool = False,
    left_deleted: bool = False,
    right_deleted: bool = False,
) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "chunk_id": ["a", "b"],
            "first_seen_at": [START + timedelta(days=left_seen), START + timedelta(days=right_seen)],
            "keep_apart": [left_apart, right_apart],
            "deleted_at": [START if left_deleted else None, START if right_deleted else None],
        },
        schema_overrides={"deleted_at": pl.Datetime("us", "UTC")},
    )


def action(pairs: pl.DataFrame, limits: Limits = LIMITS, **of_chunks: Any) -> str:
    return str(decided(pairs, chunks(**of_chunks), NO_SEPARATIONS, limits=limits)["action"][0])


@pytest.mark.parametrize(
    ("relation", "over", "limits", "wanted"),
    [
        (EQUIVALENT, {}, LIMITS, MERGED),
        (EQUIVALENT, {"confidence": 0.9, "similarity": 0.95}, LIMITS, MERGED),
        (EQUIVALENT, {"confidence": 0.89}, LIMITS, QUEUED),
        (EQUIVALENT, {"similarity": 0.94}, LIMITS, QUEUED),
        (EQUIVALENT, {"similarity": 0.86, "reading": 0.96}, LIMITS, MERGED),
        (EQUIVALENT, {"similarity": 0.96, "reading": 0.6}, LIMITS, MERGED),
        (EQUIVALENT, {"is_confirmed": False}, LIMITS, QUEUED),
        (EQUIVALENT, {"is_confirmed": None}, LIMITS, QUEUED),
        (EQUIVALENT, {"is_confirmed": False}, replace(LIMITS, require_confirmation=False), MERGED),
        (EQUIVALENT, {"confidence": 0.6}, replace(LIMITS, merge_confidence=0.6), MERGED),
        (EQUIVALENT, {"similarity": 0.86}, replace(LIMITS, merge_similarity=0.86), MERGED),
        (EQUIVALENT, {"confidence": 0.1}, LIMITS, QUEUED),
        (SUBSET, {}, LIMITS, LINKED),
        (SUBSET, {}, MERGES_SUBSETS, MERGED),
        (SUBSET, {"confidence": 0.89}, MERGES_SUBSETS, LINKED),
        (SUBSET, {"stands": None}, MERGES_SUBSETS, LINKED),
        (SUPERSEDING, {}, LIMITS, SUPERSEDED),
        (SUPERSEDING, {"confidence": 0.7}, LIMITS, SUPERSEDED),
        (SUPERSEDING, {"confidence": 0.69}, LIMITS, QUEUED),
        (SUPERSEDING, {"stands": None}, LIMITS, QUEUED),
        (CONTRADICTORY, {"confidence": 0.2}, LIMITS, FLAGGED),
        (CONTRADICTORY, {}, replace(LIMITS, flag_contradictions=False), STORED_AS_NEW),
        (COMPLEMENTARY, {}, LIMITS, LINKED),
        (UNKNOWN, {"confidence": 0.69}, LIMITS, QUEUED),
        (UNKNOWN, {"confidence": 0.7}, LIMITS, STORED_AS_NEW),
        (UNKNOWN, {"confidence": 0.5}, replace(LIMITS, review_confidence=0.5), STORED_AS_NEW),
        (UNKNOWN, {"confidence": 0.1}, replace(LIMITS, queue_unknown=False), STORED_AS_NEW),
        (DISTINCT, {}, LIMITS, STORED_AS_NEW),
        (DISTINCT, {"confidence": 0.1}, LIMITS, STORED_AS_NEW),
    ],
)
def test_each_relation_leads_to_its_action(relation: str, over: dict[str, Any], limits: Limits, wanted: str) -> None:
    assert action(judged(relation, **over), limits) == wanted


@pytest.mark.parametrize("side", ["left_apart", "right_apart"])
@pytest.mark.parametrize(
    ("relation", "wanted"),
    [
        (EQUIVALENT, STORED_AS_NEW),
        (SUBSET, LINKED),
        (UNKNOWN, STORED_AS_NEW),
        (CONTRADICTORY, FLAGGED),
        (SUPERSEDING, SUPERSEDED),
    ],
)
def test_a_chunk_that_is_kept_apart_is_never_merged_nor_asked_about(side: str, relation: str, wanted: str) -> None:
    pairs = judged(relation, confidence=0.99 if relation != UNKNOWN else 0.1)
    assert action(pairs, MERGES_SUBSETS, **{side: True}) == wanted
    assert decided(pairs, chunks(**{side: True}), NO_SEPARATIONS, limits=LIMITS)["relation"][0] == relation


def test_a_pair_that_was_taken_apart_is_neither_merged_nor_asked_about_again() -> None:
    separations = pl.DataFrame({"pair_id": ["p"], "decision": [None]}, schema_overrides={"decision": pl.String})
    for relation, confidence in ((EQUIVALENT, 0.99), (EQUIVALENT, 0.5), (UNKNOWN, 0.1), (SUPERSEDING, 0.1)):
        pairs = judged(relation, confidence=confidence)
        assert decided(pairs, chunks(), separations, limits=LIMITS)["action"][0] == STORED_AS_NEW


@pytest.mark.parametrize(
    ("decision", "wanted"),
    [
        (KEEP_SEPARATE, STORED_AS_NEW),
        (LINK, LINKED),
        (FLAG_CONTRADICTION, FLAGGED),
        *((resolution, FLAGGED) for resolution in RESOLUTIONS),
    ],
)
@pytest.mark.parametrize("relation", RELATIONS)
def test_what_a_person_said_of_a_pair_stands_whatever_it_is_judged_to_be(
    relation: str, decision: str, wanted: str
) -> None:
    separations = pl.DataFrame({"pair_id": ["p"], "decision": [decision]})
    (row,) = decided(judged(relation), chunks(), separations, limits=LIMITS).rows(named=True)
    assert (row["action"], row["is_settled"]) == (wanted, True)


@pytest.mark.parametrize("side", ["left_deleted", "right_deleted"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_nothing_comes_of_a_pair_with_a_chunk_that_was_deleted(relation: str, side: str) -> None:
    for confidence in (0.1, 0.99):
        pairs = judged(relation, confidence=confidence)
        (row,) = decided(pairs, chunks(**{side: True}), NO_SEPARATIONS, limits=LIMITS).rows(named=True)
        assert (row["action"], row["is_settled"]) == (STORED_AS_NEW, True)


@pytest.mark.parametrize(("left_seen", "right_seen", "later"), [(0, 1, "b"), (1, 0, "a"), (0, 0, "b")])
def test_the_action_is_of_the_chunk_seen_later_of_two_at_once_the_higher(
    left_seen: int, right_seen: int, later: str
) -> None:
    facts = chunks(left_seen=left_seen, right_seen=right_seen)
    assert decided(judged(EQUIVALENT), facts, NO_SEPARATIONS, limits=LIMITS)["later_id"][0] == later


@pytest.mark.parametrize(("stands", "newer"), [(LEFT, "a"), (RIGHT, "b"), (None, "b")])
def test_a_superseding_is_of_the_newer_whenever_it_came(stands: str | None, newer: str) -> None:
    pairs = judged(SUPERSEDING, stands=stands)
    assert decided(pairs, chunks(), NO_SEPARATIONS, limits=LIMITS)["later_id"][0] == newer


confidences = st.floats(0, 1, width=32)


@given(st.sampled_from(RELATIONS), confidences, confidences, confidences, st.booleans())
def test_nothing_but_a_sure_near_and_confirmed_equivalent_is_merged_by_default(
    relation: str, confidence: float, similarity: float, reading: float, confirmed: bool
) -> None:
    pairs = judged(relation, confidence=confidence, similarity=similarity, reading=reading, is_confirmed=confirmed)
    is_sure = confidence >= 0.9 - 1e-6 and max(similarity, reading) >= 0.95 - 1e-6 and confirmed
    if action(pairs) == MERGED:
        assert relation == EQUIVALENT
        assert is_sure


def test_a_chunk_bears_the_strongest_action_of_its_pairs_and_others_none() -> None:
    pairs = pl.DataFrame({"later_id": ["b", "b", "c", "c"], "action": [LINKED, MERGED, STORED_AS_NEW, QUEUED]})
    assert chunk_actions(pairs).rows() == [("b", MERGED), ("c", QUEUED)]


@given(st.sampled_from(ACTIONS), st.sampled_from(ACTIONS))
def test_the_stronger_of_two_actions_is_the_one_named_first(one: str, other: str) -> None:
    frame = pl.DataFrame({"one": [one], "other": [other]})
    assert frame.select(stronger(pl.col("one"), pl.col("other"))).item() == min(one, other, key=ACTIONS.index)


def test_no_action_is_weaker_than_any() -> None:
    frame = pl.DataFrame(
        {"one": [None, LINKED], "other": [LINKED, None]}, schema={"one": pl.String, "other": pl.String}
    )
    assert frame.select(stronger(pl.col("one"), pl.col("other"))).to_series().to_list() == [LINKED, LINKED]


def test_no_pairs_have_the_shape_of_many() -> None:
    none = decided(judged(EQUIVALENT).clear(), chunks().clear(), NO_SEPARATIONS, limits=LIMITS)
    assert none.schema == decided(judged(EQUIVALENT), chunks(), NO_SEPARATIONS, limits=LIMITS).schema
    assert chunk_actions(none).is_empty()
