"""What must add up before a run is published: any one row too few or too many is caught."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.reconcile import DoesNotAddUp, Tally, check_reject_share, check_rows, check_tables

TALLY = Tally(
    rows_in=10,
    rows_rejected=2,
    rejects_new=1,
    occurrences_new=5,
    occurrences_known=3,
    chunks_new=4,
    chunks_touched=3,
)
BEFORE = {
    "chunks": 6,
    "occurrences": 9,
    "canonicals": 5,
    "variants": 1,
    "rejects": 3,
    "occurrences of chunks": 9,
    "occurrences of canonicals": 9,
}
AFTER = {
    "chunks": 10,
    "occurrences": 14,
    "canonicals": 8,
    "variants": 2,
    "rejects": 4,
    "occurrences of chunks": 14,
    "occurrences of canonicals": 14,
}


def test_rows_that_are_all_occurrences_or_rejects_add_up() -> None:
    check_rows(TALLY)


@pytest.mark.parametrize("counted", ["rows_in", "rows_rejected", "occurrences_new", "occurrences_known"])
@pytest.mark.parametrize("off_by", [-1, 1])
def test_one_row_lost_or_made_up_is_refused(counted: str, off_by: int) -> None:
    with pytest.raises(DoesNotAddUp, match=r"^rows in .* nothing was published$"):
        check_rows(replace(TALLY, **{counted: getattr(TALLY, counted) + off_by}))


def test_the_refusal_names_every_figure() -> None:
    with pytest.raises(DoesNotAddUp) as refused:
        check_rows(replace(TALLY, rows_in=1_000_000, rows_rejected=1, occurrences_new=2, occurrences_known=3))
    assert str(refused.value) == (
        "rows in 1,000,000 but 2 new occurrences + 3 known occurrences + 1 rejects = 6; nothing was published"
    )


def test_tables_that_gained_what_the_run_added_add_up() -> None:
    check_tables(AFTER, before=BEFORE, tally=TALLY)


@pytest.mark.parametrize("table", AFTER)
@pytest.mark.parametrize("off_by", [-1, 1])
def test_one_missing_or_doubled_row_of_any_table_is_refused(table: str, off_by: int) -> None:
    with pytest.raises(DoesNotAddUp, match=r"^[a-z ]+: expected \d+, the tables hold \d+; nothing was published$"):
        check_tables({**AFTER, table: AFTER[table] + off_by}, before=BEFORE, tally=TALLY)


@given(rejected=st.integers(0, 1_000), kept=st.integers(0, 1_000), limit=st.floats(0, 1))
def test_the_share_of_rejects_is_refused_only_above_its_limit(rejected: int, kept: int, limit: float) -> None:
    tally = replace(TALLY, rows_in=rejected + kept, rows_rejected=rejected)
    if rejected and rejected / (rejected + kept) > limit:
        with pytest.raises(DoesNotAddUp, match=r"max_reject_share"):
            check_reject_share(tally, reasons={"text_is_present": rejected}, limit=limit)
    else:
        check_reject_share(tally, reasons={"text_is_present": rejected}, limit=limit)
