"""Differences in words: nothing of either text is lost, and what is marked is what differs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.word_diff import WordDiff, word_diff

TEXTS = st.text(alphabet=st.sampled_from("ab c,.\n 12é世界שلا\u0301\u200d"), max_size=60)


def joined(side: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    return "".join(text for line in side for _, text in line)


def marked(found: WordDiff) -> list[tuple[str, str]]:
    """What differs, without the blanks around it."""
    return [(piece.kind, piece.text.strip()) for line in found.woven for piece in line if piece.kind != "same"]


@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_off_to_the_letter(first: str, second: str) -> None:
    found = word_diff(first, second)
    assert joined(found.first) == first
    assert joined(found.second) == second
    assert {piece.kind for line in found.first for piece in line} <= {"same", "gone"}
    assert {piece.kind for line in found.second for piece in line} <= {"same", "new"}


@given(TEXTS, TEXTS)
def test_what_is_the_same_is_the_same_words_on_both_sides(first: str, second: str) -> None:
    found = word_diff(first, second)
    same = [
        "".join("".join(piece.text.split()) for line in side for piece in line if piece.kind == "same")
        for side in (found.first, found.second)
    ]
    assert same[0] == same[1]


@given(TEXTS)
def test_a_text_does_not_differ_from_itself_however_it_is_laid_out(text: str) -> None:
    assert word_diff(text, text).changes == 0
    assert word_diff(text, f"  {text}\n").changes == 0


@given(TEXTS, TEXTS)
def test_every_line_ends_where_a_line_of_the_text_ends(first: str, second: str) -> None:
    for line in word_diff(first, second).woven:
        assert "\n" not in "".join(piece.text for piece in line).removesuffix("\n")


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ("6 cylinders, red", "4 cylinders, red", [("gone", "6"), ("new", "4")]),
        ("weighs 12.5 kg", "weighs 12.6 kg", [("gone", "12.5"), ("new", "12.6")]),
        ("at 10:30 today", "at 10:45 today", [("gone", "10:30"), ("new", "10:45")]),
        ("open on Mondays", "open on Mondays.", [("new", ".")]),
        ("you may open it", "you may not open it", [("new", "not")]),
        ("电池容量是六十", "电池容量是八十", [("gone", "六"), ("new", "八")]),
        ("دوام السابعة صباحا", "دوام الثامنة صباحا", [("gone", "السابعة"), ("new", "الثامنة")]),
        ("हिन्दी में", "हिन्दू में", [("gone", "हिन्दी"), ("new", "हिन्दू")]),
        ("café au lait", "cafe au lait", [("gone", "café"), ("new", "cafe")]),
        ("", "all of it", [("new", "all of it")]),
        ("all of it", "", [("gone", "all of it")]),
    ],
)
def test_whole_words_numbers_and_signs_are_marked(first: str, second: str, differs: list[tuple[str, str]]) -> None:
    assert marked(word_diff(first, second)) == differs


def test_one_short_word_in_common_does_not_tear_two_long_changes() -> None:
    found = word_diff("red pumps and valves are in the old shed", "blue hoses and cables are in the old shed")
    assert marked(found) == [("gone", "red pumps and valves"), ("new", "blue hoses and cables")]


def test_changes_are_counted_as_runs_of_words() -> None:
    assert word_diff("a long row of words here", "a short row of words there").changes == 2


def test_very_long_texts_are_compared_line_by_line() -> None:
    lines = [f"line {n} of the manual says so and so" for n in range(10_000)]
    other = [*lines]
    other[8_000] = "line 8000 of the manual says nothing of the kind"
    other[10] = "line 10 of the manual is new"
    first, second = "\n".join(lines), "\n".join(other)
    found = word_diff(first, second)
    assert (joined(found.first), joined(found.second)) == (first, second)
    assert found.changes <= 4
    assert ("new", "nothing of the kind") in marked(found)


def test_texts_that_have_nothing_in_common_are_marked_whole_where_they_are_too_long_to_search() -> None:
    first, second = " ".join(f"a{n}" for n in range(20_000)), " ".join(f"b{n}" for n in range(20_000))
    found = word_diff(first, second)
    assert marked(found) == [("gone", first), ("new", second)]
