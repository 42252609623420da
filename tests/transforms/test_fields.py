"""Records field by field: spec rows by any word, records of `label: value` lines by what each side says."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from schemas.terms import SPEC_ROW, TEXT
from transforms.fields import field_evidence

FIELDS = {"Category": "Pump", "Sub-Category": "Motor", "Specification": "Power", "Value": "5 kW", "Additional": "EU"}


def spec(**over: str) -> str:
    """The text of a spec row; `Sub_Category` stands for the label with a dash."""
    changed = {name.replace("_", "-"): value for name, value in over.items()}
    return "\n".join(f"{label}: {value}" for label, value in (FIELDS | changed).items())


def evidence(*pairs: tuple[str | None, str | None], kinds: tuple[str | None, str | None] = (SPEC_ROW, SPEC_ROW)) -> Any:
    texts = pl.Series([text for pair in pairs for text in pair], dtype=pl.String)
    places = np.arange(2 * len(pairs), dtype=np.int64)
    return field_evidence(texts, pl.Series([*kinds] * len(pairs), dtype=pl.String), places[::2], places[1::2])


def found(left: str, right: str, left_kind: str = SPEC_ROW, right_kind: str = SPEC_ROW) -> dict[str, Any]:
    row: dict[str, Any] = evidence((left, right), kinds=(left_kind, right_kind)).row(0, named=True)
    return row


def test_of_texts_that_are_no_records_the_same_is_said_alone_and_beside_records() -> None:
    prose = ("One line.\nAnother: line.", "Quite another one.")
    alone = evidence(prose, ("a", None), kinds=(TEXT, SPEC_ROW))
    beside = evidence(prose, ("a", None), (spec(), spec(Value="6 kW")), kinds=(TEXT, SPEC_ROW))
    assert_frame_equal(alone, beside.head(2))
    assert_frame_equal(evidence(), beside.clear())


@pytest.mark.parametrize("value", ["6 kW", "5 W", "5 kW max", "", "-5 kW", "kW", "5", "five", "✗", "5 m²"])
def test_another_value_is_the_only_field_that_differs(value: str) -> None:
    row = found(spec(), spec(Value=value))
    assert (row["is_spec"], row["fields_differ"], row["is_value_only"]) == (True, 1, True)
    assert row["fields_shown"] == f"Value (5 kW / {value})"


@pytest.mark.parametrize("label", ["Category", "Sub_Category", "Specification", "Additional"])
@pytest.mark.parametrize("value", ["Valve", "", "bomba", "válvula"])
def test_another_field_differs_by_any_word(label: str, value: str) -> None:
    row = found(spec(), spec(**{label: value}))
    assert (row["fields_differ"], row["is_value_only"]) == (1, False)
    both = found(spec(), spec(**{label: value}, Value="9"))
    assert (both["fields_differ"], both["is_value_only"]) == (2, False)


@pytest.mark.parametrize(
    "other", [spec(Value="5000 W"), spec(Value="5kW"), spec(Category="PUMP"), spec(Additional="(eu)"), spec()]
)
def test_case_marks_and_units_make_no_other_field(other: str) -> None:
    row = found(spec(), other)
    assert (row["is_spec"], row["fields_differ"], row["fields_shown"]) == (True, 0, "")


def test_a_field_that_only_one_spec_row_has_differs_unless_it_is_empty() -> None:
    fewer = spec().rsplit("\n", 1)[0]
    assert found(spec(), fewer)["fields_differ"] == found(fewer, spec())["fields_differ"] == 1
    assert found(spec(Additional=""), fewer)["fields_differ"] == 0


@pytest.mark.parametrize(("left", "right"), [("power 5 kW", "power 6 kW"), (spec(), "power 6 kW"), ("", "")])
def test_a_spec_row_without_fields_is_compared_as_text(left: str, right: str) -> None:
    row = found(left, right)
    assert (row["is_spec"], row["fields_differ"], row["is_value_only"]) == (False, 0, False)


RECORD = "Name: Pump 4\nColour: red\nPower: 5 kW"


@pytest.mark.parametrize(
    ("other", "differ"),
    [
        ("Name: Pump 4\nColour: red\nPower: 6 kW", 1),
        ("Name: Pump 4\nColour: blue\nPower: 5 kW", 1),
        ("Name: Pump 5\nColour: blue\nPower: 5 kW", 2),
        ("Name: Pump 4\nColour: red\nPower: 5000 W", 0),
        ("Power: 5 kW\nName: pump 4\nColour: RED", 0),
        ("Name: Pump 4\nColour: dark red\nPower: 5 kW", 0),
        ("Name: Pump 4\nColour: red\nWeight: 6 kg", 0),
        ("Name: Pump 4\nColour:\nPower: 5 kW", 0),
        ("Name Pump 4\nColour blue\nPower: 6 kW", 0),
        ("Name: Pump 4. Colour: red. Power: 6 kW", 0),
    ],
)
def test_a_field_of_a_record_differs_when_both_sides_say_something_else(other: str, differ: int) -> None:
    assert found(RECORD, other, TEXT, TEXT)["fields_differ"] == differ
    assert found(other, RECORD, TEXT, TEXT)["fields_differ"] == differ
    assert not found(RECORD, other, TEXT, TEXT)["is_spec"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Nombre: Bomba\nColor: rojo\nPotencia: 5 kW", "Nombre: Bomba\nColor: azul\nPotencia: 5 kW"),
        ("Nome: Bomba\nCor: vermelha\nPotência: 5 kW", "Nome: Bomba\nCor: azul\nPotência: 5 kW"),
    ],
)
def test_records_in_spanish_and_portuguese_are_records(left: str, right: str) -> None:
    assert found(left, right, TEXT, TEXT)["fields_differ"] == 1


def test_prose_with_a_label_now_and_then_is_no_record() -> None:
    prose = "Note: this\nis prose\nthat goes on\nand on\nPower: {}\nand so\non"
    assert found(prose.format("5 kW"), prose.format("6 kW"), TEXT, TEXT)["fields_differ"] == 0


def test_at_most_three_fields_are_shown_shortened_in_the_order_of_the_left() -> None:
    row = found(spec(), spec(Category="a" * 50, Sub_Category="b", Value="c", Additional="d"))
    assert row["fields_differ"] == 4
    assert row["fields_shown"] == f"Category (Pump / {'a' * 40}), Sub-Category (Motor / b), Value (5 kW / c)"


VALUES = st.sampled_from(["", "red", "Red!", "blue", "5 kW", "5000 W", "6", "not red", "Name: x"])
TEXTS = st.lists(st.tuples(st.sampled_from(["Value", "Name", "Colour", "value"]), VALUES), max_size=4).map(
    lambda lines: "\n".join(f"{label}: {value}" for label, value in lines)
)
KINDS = st.sampled_from([SPEC_ROW, TEXT])


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4), KINDS, KINDS)
def test_fields_do_not_hang_on_the_side_nor_on_other_pairs(pairs: list[tuple[str, str]], one: str, two: str) -> None:
    whole = evidence(*pairs, kinds=(one, two))
    swapped = evidence(*[(right, left) for left, right in pairs], kinds=(two, one))
    assert_frame_equal(whole.drop("fields_shown"), swapped.drop("fields_shown"))
    for at, pair in enumerate(pairs):
        assert_frame_equal(whole[at : at + 1], evidence(pair, kinds=(one, two)))


def test_no_pairs_and_no_texts_have_the_shape_of_others() -> None:
    full = evidence((spec(), spec(Value="7")))
    assert evidence().schema == full.schema
    odd = evidence((None, ""), ("🙂\n🙂\n🙂", "שלום: 5\nשלום: 6\nא: 7"), kinds=(None, None))
    assert odd.schema == full.schema
    assert odd["is_spec"].to_list() == [False, False]
