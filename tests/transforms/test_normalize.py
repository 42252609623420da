"""The normal form of texts, column against oracle."""

import sys
import unicodedata
from collections.abc import Iterator
from typing import Literal

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests import oracle
from transforms.normalize import _MAY_NOT_BE_NFC, normalized

ENGINES: tuple[Literal["in-memory", "streaming"], ...] = ("in-memory", "streaming")

# Where normal forms go wrong: marks of several classes, jamo and the syllables they join, characters that NFC
# replaces by another, every kind of whitespace, and what looks like whitespace and is none.
MARKS = "\u0300\u0301\u0308\u0323\u0327\u0338\u0345\u05b0\u0653\u093c\u0f71\u3099\u309a"
JAMO = "\u1100\u1112\u1161\u1175\u11a7\u11a8\u11c2\uac00\uac01\ud7a3"
SINGLETONS = "\u0340\u0341\u0343\u0344\u0374\u037e\u0387\u2000\u2001\u2126\u212a\u212b\u2329\u2adc\uf900\ufb1d"
SPACES = " \t\n\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2002\u2028\u2029\u202f\u205f\u3000"
NO_SPACES = "\u180e\u200b\u200c\u200d\u2060\ufeff\x00\x1b"
LETTERS = "aeiouAKn\u00e9\u00c5\u03a9\u0415\u05d0\u0627\u304b\u30cf\u4e00\U0001f600\U000110ba"

ANY_CHARACTER = st.characters(exclude_categories=["Cs"])
RISKY_CHARACTER = st.sampled_from(MARKS + JAMO + SINGLETONS + SPACES + NO_SPACES + LETTERS)
LONG_RUNS = st.lists(
    st.builds(str.__mul__, RISKY_CHARACTER, st.sampled_from([1, 2, 3, 40, 700])), min_size=1, max_size=5
).map("".join)
TEXTS = st.text(ANY_CHARACTER) | st.text(RISKY_CHARACTER | ANY_CHARACTER) | st.text(RISKY_CHARACTER) | LONG_RUNS


def normal_forms(texts: list[str | None], engine: Literal["in-memory", "streaming"] = "in-memory") -> list[str | None]:
    rows = pl.LazyFrame({"text": texts}, schema={"text": pl.String})
    return rows.select(normalized(pl.col("text"))).collect(engine=engine)["text"].to_list()


def characters() -> Iterator[str]:
    """Every code point but the surrogates, which no text in UTF-8 can hold."""
    return (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=500)
@given(texts=st.lists(TEXTS | st.none(), max_size=6))
@example(texts=["e\u0301", None, "plain", "\u1100\u1161\u11a8", "\u2000x\u2001", ""])
def test_the_column_equals_the_oracle(engine: Literal["in-memory", "streaming"], texts: list[str | None]) -> None:
    expected = [None if text is None else oracle.normalize(text) for text in texts]
    assert normal_forms(texts, engine) == expected


@given(texts=st.lists(TEXTS, max_size=6))
def test_a_normal_form_is_its_own_normal_form(texts: list[str]) -> None:
    once = normal_forms([*texts])
    assert normal_forms(once) == once


@given(left=TEXTS, right=TEXTS, gap=st.text(st.sampled_from(SPACES), min_size=1))
def test_texts_that_differ_in_whitespace_alone_have_one_normal_form(left: str, right: str, gap: str) -> None:
    spaced, plain = normal_forms([f"{gap}{left}{gap}{right}{gap}", f"{left} {right}"])
    assert spaced == plain


@given(text=TEXTS)
def test_canonically_equivalent_texts_have_one_normal_form(text: str) -> None:
    composed, decomposed = normal_forms([unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)])
    assert composed == decomposed


def test_every_code_point_alone_between_letters_and_after_a_base_agrees_with_the_oracle() -> None:
    texts = [text for char in characters() for text in (char, f"x{char}{char}y", f"e{char}")]
    wrong = [
        (text, got)
        for text, got in zip(texts, normal_forms([*texts], "streaming"), strict=True)
        if got != oracle.normalize(text)
    ]
    assert wrong == []


def test_every_pair_that_composes_is_composed() -> None:
    halves = [unicodedata.decomposition(char).split() for char in characters()]
    pairs = ["".join(chr(int(code, 16)) for code in codes) for codes in halves if codes and codes[0][0] != "<"]
    leads, vowels, tails = range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A7, 0x11C3)
    syllables = [chr(lead) + chr(vowel) + chr(tail) for lead in leads for vowel in vowels for tail in tails]
    texts = pairs + syllables
    assert normal_forms([*texts]) == [oracle.normalize(text) for text in texts]


def safe_characters() -> list[str]:
    """What `normalize` lets pass unread: the characters that its own pattern does not find."""
    every = pl.DataFrame({"char": list(characters())})
    return every.filter(~pl.col("char").str.contains(_MAY_NOT_BE_NFC))["char"].to_list()


def second_halves() -> set[str]:
    """Characters that NFC can join to one before them, by their decompositions and the arithmetic of Hangul."""
    seconds = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    for char in characters():
        parts = unicodedata.decomposition(char).split()
        if parts and not parts[0].startswith("<") and len(parts) == 2:
            seconds.add(chr(int(parts[1], 16)))
    return seconds


def test_characters_taken_for_safe_have_no_class_do_not_change_and_never_join_to_one_before() -> None:
    safe, seconds = safe_characters(), second_halves()
    assert len(safe) > 30_000
    assert [char for char in safe if unicodedata.combining(char)] == []
    assert [char for char in safe if unicodedata.normalize("NFC", char) != char] == []
    assert [char for char in safe if char in seconds] == []


def test_the_frame_that_was_read_is_left_as_it_was() -> None:
    rows = pl.DataFrame({"text": ["e\u0301 ", "plain", None]})
    both = rows.with_columns(normal=normalized(pl.col("text")))
    assert both["text"].to_list() == rows["text"].to_list() == ["e\u0301 ", "plain", None]


def test_a_column_in_pieces_and_slices_is_normalized_row_by_row() -> None:
    piece = pl.DataFrame({"text": ["a  b", "e\u0301", None, "\u212b"]})
    rows = pl.concat([piece, piece.slice(1, 2), piece.head(0), piece], rechunk=False)
    normal = rows.select(normalized(pl.col("text")))["text"].to_list()
    assert normal == ["a b", "é", None, "Å", "é", None, "a b", "é", None, "Å"]


def test_case_and_compatibility_characters_stay() -> None:
    assert normal_forms(["STRASSE Straße", "ﬁ ² ①", "Ⅳ"]) == ["STRASSE Straße", "ﬁ ² ①", "Ⅳ"]
