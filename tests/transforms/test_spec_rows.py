"""The text of a spec row."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.rows import SPEC_FIELDS
from tests import oracle
from transforms.spec_rows import spec_text

VALUES = st.text(st.sampled_from(" \n\xa0:ae\u0301") | st.characters(exclude_categories=["Cs"]), max_size=12)


def texts(*rows: tuple[str | None, ...]) -> list[str | None]:
    fields = pl.DataFrame(rows, schema=dict.fromkeys(SPEC_FIELDS, pl.String), orient="row")
    return fields.select(text=spec_text({name: pl.col(name) for name in SPEC_FIELDS}))["text"].to_list()


def test_the_five_fields_stand_in_fixed_order_under_fixed_labels() -> None:
    assert texts(("Engine", "Fuel", "Consumption", "5.4", "WLTP")) == [
        "Category: Engine\nSub-Category: Fuel\nSpecification: Consumption\nValue: 5.4\nAdditional: WLTP"
    ]


@given(rows=st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES, VALUES), min_size=1, max_size=6))
def test_each_field_is_normalized_by_itself(rows: list[tuple[str, str, str, str, str]]) -> None:
    expected = [oracle.spec_text(row) if any(map(oracle.normalize, row)) else None for row in rows]
    assert texts(*rows) == expected


@pytest.mark.parametrize("field", range(5))
def test_a_field_that_is_null_reads_as_empty(field: int) -> None:
    row = ["a", "b", "c", "d", "e"]
    missing: list[str | None] = [*row]
    missing[field], row[field] = None, " "
    with_null, with_blank = texts(tuple(missing), tuple(row))
    assert with_null == with_blank is not None


def test_a_row_of_nulls_and_blanks_has_no_text() -> None:
    assert texts((None, None, None, None, None), ("", " ", "\n", "\xa0", "\x1f")) == [None, None]


def test_a_value_that_moves_to_another_field_is_another_text() -> None:
    assert len(set(texts(("a", None, None, None, None), (None, "a", None, None, None), (None, None, "a", "", "")))) == 3


def test_a_line_break_in_a_value_cannot_imitate_the_next_field() -> None:
    split, joined = texts(("a", "b", None, None, None), ("a\nSub-Category: b", None, None, None, None))
    assert split != joined
