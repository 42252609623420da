"""Precision, recall and reliability against plain counting, and thresholds that are the best there are."""

from dataclasses import replace
from itertools import product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.terms import EQUIVALENT, RELATIONS
from transforms.calibrate import Action, outcome, outcomes, proposed, reliability, wilson
from transforms.decide import Limits, action_of

SCHEMA = {
    "mergeable": pl.Boolean,
    "relation": pl.String,
    "confidence": pl.Float32,
    "similarity": pl.Float32,
    "reading": pl.Float32,
    "is_confirmed": pl.Boolean,
    "stands": pl.String,
}
Row = tuple[bool, str, float, float, float | None, bool, None]


def action(confidence: float, similarity: float) -> pl.Expr:
    limits = replace(Limits(), merge_confidence=confidence, merge_similarity=similarity)
    return action_of(limits, may_merge=pl.lit(value=True))


ACTION: Action = action
MAY_MERGE = (pl.col("relation") == EQUIVALENT) & pl.col("is_confirmed")


def row(mergeable: bool, confidence: float, similarity: float = 0.99, relation: str = EQUIVALENT) -> Row:
    return mergeable, relation, confidence, similarity, None, True, None


def frame(*rows: Row) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SCHEMA, orient="row")


def test_an_outcome_counts_what_is_merged_found_and_asked_in_vain() -> None:
    pairs = frame(
        row(True, 0.95),
        row(False, 0.95),
        row(True, 0.8),
        row(False, 0.5, relation="unknown"),
        row(True, 0.9, relation="distinct"),
    )
    found = outcome(pairs, 0.9, 0.95, action=ACTION)
    assert (found.merged, found.right, found.found, found.queued_in_vain) == (2, 1, 2, 1)
    assert (found.precision, found.recall, found.found_share, found.review_share) == (0.5, 1 / 3, 2 / 3, 0.5)
    assert found.precision_at_least == wilson(1, 2)[0]


def test_shares_of_nothing_are_none() -> None:
    found = outcome(frame(), 0.9, 0.95, action=ACTION)
    assert (found.precision, found.precision_at_least, found.recall) == (None, None, None)
    assert (found.found_share, found.review_share) == (None, None)


def test_the_limits_themselves_count_as_reached() -> None:
    pairs = frame(row(True, 0.9, 0.95))
    assert [each.merged for each in outcomes(pairs, [(0.9, 0.95), (0.91, 0.95), (0.9, 0.96)], action=ACTION)] == [
        1,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 0, 0.0, 1.0), (10, 10, 0.722, 1.0), (0, 10, 0.0, 0.278), (95, 100, 0.888, 0.978), (1, 2, 0.095, 0.905)],
)
def test_the_interval_is_that_of_wilson(hits: int, of: int, low: float, high: float) -> None:
    assert wilson(hits, of) == pytest.approx((low, high), abs=5e-4)


def test_reliability_holds_what_was_seen_beside_what_was_said() -> None:
    pairs = frame(
        row(True, 0.99),
        row(True, 1.0),
        row(False, 0.95),
        row(True, 0.96),
        row(False, 0.2),
        row(True, 0.9, 0.9, "subset"),
    )
    found = [(each.low, each.high, each.pairs, each.mergeable) for each in reliability(pairs)]
    assert found == [(0.0, 0.5, 1, 0), (0.95, 0.99, 2, 1), (0.99, 1.0, 2, 2)]
    assert [each.observed for each in reliability(pairs)] == [0.0, 0.5, 1.0]
    assert reliability(pairs)[1].mean_confidence == pytest.approx(0.955)
    assert reliability(frame()) == []


SHARES = st.sampled_from([0.4, 0.5, 0.7, 0.9, 0.905, 0.95, 0.99, 1.0])
ROWS = st.builds(
    lambda mergeable, relation, confidence, similarity, reading, confirmed: (
        mergeable,
        relation,
        confidence,
        similarity,
        reading,
        confirmed,
        None,
    ),
    st.booleans(),
    st.sampled_from([EQUIVALENT, EQUIVALENT, *RELATIONS]),
    SHARES,
    SHARES,
    st.one_of(st.none(), SHARES),
    st.booleans(),
)


@given(st.lists(ROWS, max_size=12), st.sampled_from([0.3, 0.5, 0.9, 1.0]))
@settings(max_examples=30, deadline=None)
def test_no_other_thresholds_do_better_than_those_proposed(rows: list[Row], wanted: float) -> None:
    pairs = frame(*rows)
    found = proposed(pairs, precision=wanted, may_merge=MAY_MERGE, now=(0.9, 0.95))
    tried = outcomes(pairs, product([0.5, 0.7, 0.9, 0.905, 0.95, 0.99], [0.5, 0.7, 0.9, 0.95, 0.99]), action=ACTION)
    if found is None:
        assert not any(each.merged for each in tried)
        return
    best = outcome(pairs, found.merge_confidence, found.merge_similarity, action=ACTION)
    assert best.precision is not None
    reaching = [each for each in tried if each.precision is not None and each.precision >= wanted]
    assert found.is_reached == (best.precision >= wanted) == bool(reaching)
    if reaching:
        assert best.right == max(each.right for each in reaching)
    else:
        assert best.precision == max(each.precision for each in tried if each.precision is not None)


@given(st.lists(ROWS, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_changes_nothing(rows: list[Row], chance: object) -> None:
    shuffled = sorted(rows, key=lambda _: chance.random())  # type: ignore[attr-defined]
    one, other = (
        (proposed(pairs, precision=0.9, may_merge=MAY_MERGE, now=(0.9, 0.95)), reliability(pairs))
        for pairs in (frame(*rows), frame(*shuffled))
    )
    assert one[0] == other[0]
    assert [each.mergeable for each in one[1]] == [each.mergeable for each in other[1]]


def test_of_equals_the_nearest_to_what_is_set_is_proposed() -> None:
    pairs = frame(row(True, 0.99), row(False, 0.7))
    found = proposed(pairs, precision=0.95, may_merge=MAY_MERGE, now=(0.912, 0.955))
    assert found is not None
    assert (found.merge_confidence, found.merge_similarity, found.is_reached) == (0.912, 0.955, True)
