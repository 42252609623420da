"""What two texts have in common and what only one has: each count, whichever side is left, whatever stands beside."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from transforms.evidence import pair_evidence, sides_of

WORDS = [
    "the",
    "door",
    "is",
    "open",
    "closed",
    "not",
    "5",
    "kW",
    "6",
    "W",
    "1,234",
    "1234",
    "1.234",
    "Bob",
    "Ann",
    "A",
    "B",
]
WORDS += [
    "colour",
    "color",
    "colours",
    "animal",
    "dog",
    "March",
    "April",
    "AB-12",
    "✓",
    "cans",
    "can",
    "note",
    ".",
    "-5",
]
ODD = ["", "...", "🙂", "🙃 5", "שלום", "漢字 5", "x" * 3_000, "word " * 2_000, "\n\n", "' '"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join) | st.sampled_from(ODD) | st.text(max_size=12)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), max_size=5)
# What is said in words names the left side first.
SAID = ("opposed_shown",)


def evidence(*pairs: tuple[str | None, str | None]) -> pl.DataFrame:
    texts = pl.Series([text for pair in pairs for text in pair], dtype=pl.String)
    places = np.arange(2 * len(pairs), dtype=np.int64)
    return pair_evidence(sides_of(texts, places[::2], places[1::2])).drop("pair")


def found(left: str, right: str) -> dict[str, Any]:
    return evidence((left, right)).row(0, named=True)


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("it has 5 kW", "it has 6 kW", {"left_numbers": 1, "right_numbers": 1, "left_figures": "5 kW"}),
        ("it has 5 kW", "it has 5000 W", {"left_numbers": 0, "right_numbers": 0, "is_same_run": True}),
        ("it is -5 °C", "it is 5 °C", {"left_numbers": 1, "left_figures": "-5 °C", "right_figures": "5 °C"}),
        ("on 3 March", "on 3 April", {"left_months": 1, "right_months": 1}),
        ("type AB12", "type AB13", {"left_codes": 1, "right_codes": 1}),
        ("it is open", "it is not open", {"left_negations": 0, "right_negations": 1}),
        ("está abierta", "no está abierta", {"left_negations": 0, "right_negations": 1}),
        ("está aberta", "não está aberta", {"left_negations": 0, "right_negations": 1}),
        ("it is open", "it is closed", {"opposed": 1, "opposed_shown": "open / closed"}),
        ("está abierta", "está cerrada", {"opposed": 1}),
        ("está aberta", "está fechada", {"opposed": 1}),
        ("we saw Bob", "we saw Ann", {"left_names": 1, "right_names": 1}),
        ("take plan A", "take plan B", {"left_letters": 1, "right_letters": 1}),
        ("take plan C", "take plan B", {"left_letters": 1, "right_letters": 1}),
        ("has it a door", "has it the door", {"left_letters": 0, "left_function": 1, "right_function": 1}),
        ("what I saw", "what we saw", {"left_letters": 0}),
        ("x ✓", "x ✗", {"left_signs": 1, "right_signs": 1}),
        ("the dog barks", "the animal barks", {"broader": 1}),
        ("el perro ladra", "el animal ladra", {"broader": 1}),
        ("o cachorro late", "o animal late", {"broader": 1}),
        ("the colour", "the color", {"spelled": 1, "left_only": 1, "right_only": 1}),
        ("organización local", "organisación local", {"spelled": 1}),
        ("the dog bites the man", "the man bites the dog", {"moved": 2, "is_same_run": False}),
        ("el perro muerde al hombre", "el hombre muerde al perro", {"moved": 2}),
        ("THE Door, is: open!", "the door is open", {"is_same_run": True, "left_only": 0}),
        ("big red door", "red door", {"left_only": 1, "right_only": 0, "shared_content": 2, "left_content": 3}),
        ("it has 1,234 rows", "it has 1234 rows", {"left_numbers": 0, "right_numbers": 0}),
        ("it has 1.234 rows", "it has 1234 rows", {"left_numbers": 0, "right_numbers": 0}),
        ("it has 1,234 rows", "it has 1.234 rows", {"left_numbers": 0, "right_numbers": 0}),
        ("it has 1,234 kg", "it has 1234 km", {"left_numbers": 1, "right_numbers": 1}),
        ("1,234 and 1,234", "1234", {"left_numbers": 2, "right_numbers": 1}),
        ("1,234", "1234 and 1.234", {"left_numbers": 1, "right_numbers": 2}),
        ("one two two", "one two", {"left_numbers": 1, "right_numbers": 0}),
    ],
)
def test_each_difference_is_counted_as_what_it_is(left: str, right: str, wanted: dict[str, Any]) -> None:
    row = found(left, right)
    assert {name: row[name] for name in wanted} == wanted


def test_words_are_shown_as_written_in_their_order_the_first_few() -> None:
    row = found("Gamma beta alpha stay", "stay one two three four five six seven")
    assert row["left_shown"] == "Gamma, beta, alpha"
    assert row["right_shown"] == "one, two, three, four, five, six"


def test_a_date_is_shown_by_the_name_of_its_month() -> None:
    assert found("on 2020-03-25", "on 2020-04-25")["left_figures"] == "March"


def test_a_word_that_both_have_is_shown_and_named_as_on_the_side_that_has_more_of_it() -> None:
    for pair in (("see bob", "so Bob met Bob"), ("so Bob met Bob", "see bob")):
        assert "Bob" in "".join(found(*pair)[name] for name in ("left_shown", "right_shown"))


def test_two_spellings_of_one_word_are_one_spelling() -> None:
    assert found("factoryx factoryy", "factoryz elephants")["spelled"] == 1
    assert found("factoryz elephants", "factoryx factoryy")["spelled"] == 1


def mirrored(rows: pl.DataFrame) -> pl.DataFrame:
    sides = {"left": "right", "right": "left"}
    names = {name: "_".join(sides.get(part, part) for part in name.split("_")) for name in rows.columns}
    return rows.rename(names).select(rows.columns)


@settings(deadline=None, max_examples=200)
@given(PAIRS)
@example([("Bob dog man", "man Bob dog Bob")])
@example([("a1 b1 c1 d1", "c1 d1 a1 b1"), ("a1 b1 c1 d1", "d1 a1 c1 b1")])
@example([("factoryx factoryy", "factoryz elephants")])
def test_left_and_right_swapped_give_the_same_mirrored(pairs: list[tuple[str, str]]) -> None:
    swapped = evidence(*[(right, left) for left, right in pairs])
    assert_frame_equal(evidence(*pairs).drop(SAID), mirrored(swapped).drop(SAID))


@settings(deadline=None)
@given(PAIRS, st.randoms(use_true_random=False))
@example([("the cans", "the can"), ("can", "note not")], None)
def test_a_pair_does_not_hang_on_those_beside_it(pairs: list[tuple[str, str]], random: Any) -> None:
    order = list(range(len(pairs)))
    if random is not None:
        random.shuffle(order)
    whole = evidence(*[pairs[at] for at in order])
    for row, at in enumerate(order):
        assert_frame_equal(whole[row : row + 1], evidence(pairs[at]))


def test_it_does_not_matter_where_among_the_texts_the_sides_stand() -> None:
    texts = ["so Bob met Bob", "see bob", "the cans"]
    places = np.array([0], dtype=np.int64), np.array([1], dtype=np.int64)
    there = np.array([2], dtype=np.int64), np.array([1], dtype=np.int64)
    assert_frame_equal(
        pair_evidence(sides_of(pl.Series(texts), *places)), pair_evidence(sides_of(pl.Series(texts[::-1]), *there))
    )


@settings(deadline=None)
@given(TEXTS)
def test_a_text_does_not_differ_from_itself(text: str) -> None:
    row = found(text, text)
    assert row["is_same_run"]
    assert row["shared_words"] == row["left_words"] == row["right_words"]
    assert not any(row[name] for name in row if name.endswith(("_only", "_numbers", "_codes", "_letters", "_names")))
    assert not row["moved"]


def test_no_pairs_and_empty_texts_have_the_shape_of_others() -> None:
    full = evidence(("the door is 5 m wide", "the gate is 6 m wide"))
    assert evidence().schema == full.schema
    assert evidence(("", None), (None, "...")).schema == full.schema
    assert evidence(("", None))["is_same_run"].to_list() == [True]
    assert full.null_count().sum_horizontal().item() == 0
