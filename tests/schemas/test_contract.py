"""A contract keeps its shape, names the rule that is broken, and counts."""

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract import Contract, ContractBroken

BOXES = Contract(
    name="boxes",
    shape=pa.schema([("box_id", pa.large_string()), ("weight", pa.int64())]),
    key=("box_id",),
    rules={"weight_is_positive": pl.col("weight") > 0, "weight_is_below_ten": pl.col("weight") < 10},
)


def boxes(*rows: tuple[str | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema={"box_id": pl.String, "weight": pl.Int64}, orient="row")


def test_no_rows_have_the_same_shape_as_many() -> None:
    assert BOXES.empty().schema == boxes(("a", 1)).schema == BOXES.dtypes
    assert BOXES.check(BOXES.empty()).height == 0
    assert BOXES.columns == ["box_id", "weight"]


def test_rows_that_keep_the_contract_come_back_as_they_are() -> None:
    rows = boxes(("a", 1), ("b", 9))
    assert BOXES.check(rows) is rows


def test_shaped_rows_have_the_columns_the_order_and_the_types_of_the_contract() -> None:
    rows = pl.DataFrame({"extra": [1], "weight": pl.Series([7], dtype=pl.Int8)})
    assert BOXES.shaped(rows).equals(boxes((None, 7)))


def test_a_row_is_named_after_the_first_rule_it_breaks() -> None:
    rows = boxes(("a", 1), ("b", 0), ("c", 12))
    assert rows.select(BOXES.broken_rule())["literal"].to_list() == [None, "weight_is_positive", "weight_is_below_ten"]


def test_a_rule_that_cannot_be_told_is_broken() -> None:
    with pytest.raises(ContractBroken, match=r"^boxes: 1 of 2 rows break the rule weight_is_positive$"):
        BOXES.check(boxes(("a", None), ("b", 1)))


def test_of_several_broken_rules_the_worst_is_told() -> None:
    with pytest.raises(ContractBroken, match=r"^boxes: 2 of 3 rows break the rule weight_is_below_ten$"):
        BOXES.check(boxes(("a", 0), ("b", 10), ("c", 11)))


def test_a_missing_column_is_told_by_name() -> None:
    with pytest.raises(ContractBroken, match=r"^boxes\.weight: expected Int64, got no column$"):
        BOXES.check(boxes(("a", 1)).drop("weight"))


def test_a_column_of_another_type_is_told_by_name() -> None:
    with pytest.raises(ContractBroken, match=r"^boxes\.weight: expected Int64, got Float64$"):
        BOXES.check(boxes(("a", 1)).cast({"weight": pl.Float64}))


def test_a_repeated_key_is_refused_with_its_count() -> None:
    with pytest.raises(ContractBroken, match=r"^boxes: 2 of 4 rows repeat the key \('box_id',\)$"):
        BOXES.check(boxes(("a", 1), ("a", 2), ("a", 3), ("b", 1)))


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=2), st.integers(-2, 12) | st.none()), max_size=6))
def test_rows_pass_only_when_each_keeps_every_rule_and_no_key_repeats(rows: list[tuple[str, int | None]]) -> None:
    keep = all(weight is not None and 0 < weight < 10 for _, weight in rows)
    unique = len({box_id for box_id, _ in rows}) == len(rows)
    try:
        BOXES.check(boxes(*rows))
    except ContractBroken:
        assert not (keep and unique)
    else:
        assert keep
        assert unique
