"""Laws and examples of the sliding window."""

import sys
import unicodedata
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from transforms.chunking import TOKEN, chunk_documents, windows

# Letters that join into runs, letters that stand alone, marks, and every kind of whitespace.
TEXTS = st.text() | st.text(alphabet="aé_9漢かカ한.,|\u0301\u200b \t\n\r\x1c\x85\xa0\u3000", max_size=200)


@st.composite
def window_sizes(draw: st.DrawFn) -> tuple[int, int]:
    tokens = draw(st.integers(1, 12))
    return tokens, draw(st.integers(0, tokens - 1))


def tokens_of(text: str) -> list[str]:
    return TOKEN.findall(text)


@given(TEXTS)
def test_tokens_are_the_text_without_its_whitespace(text: str) -> None:
    assert "".join(tokens_of(text)) == "".join(text.split())


@given(TEXTS, window_sizes())
def test_windows_without_their_overlap_are_the_tokens_of_the_text(text: str, size: tuple[int, int]) -> None:
    tokens, overlap = size
    pieces = [tokens_of(window) for window in windows(text, tokens=tokens, overlap=overlap)]
    rebuilt = [token for number, piece in enumerate(pieces) for token in piece[overlap if number else 0 :]]
    assert rebuilt == tokens_of(text)


@given(TEXTS, window_sizes())
def test_neighbours_share_exactly_the_overlap_and_each_adds_a_token(text: str, size: tuple[int, int]) -> None:
    tokens, overlap = size
    pieces = [tokens_of(window) for window in windows(text, tokens=tokens, overlap=overlap)]
    for before, after in pairwise(pieces):
        assert before[tokens - overlap :] == after[:overlap]
        assert len(after) > overlap


@given(TEXTS, window_sizes())
def test_only_the_last_window_may_be_short(text: str, size: tuple[int, int]) -> None:
    tokens, overlap = size
    lengths = [len(tokens_of(window)) for window in windows(text, tokens=tokens, overlap=overlap)]
    assert all(length == tokens for length in lengths[:-1])
    assert all(1 <= length <= tokens for length in lengths)


@given(TEXTS, window_sizes())
def test_windows_are_slices_of_the_text_from_token_to_token(text: str, size: tuple[int, int]) -> None:
    tokens, overlap = size
    spans = [token.span() for token in TOKEN.finditer(text)]
    firsts = range(0, max(len(spans) - overlap, min(len(spans), 1)), tokens - overlap)
    expected = [text[spans[first][0] : spans[min(first + tokens, len(spans)) - 1][1]] for first in firsts]
    assert windows(text, tokens=tokens, overlap=overlap) == expected


@given(TEXTS)
def test_a_text_that_fits_is_one_window_and_blank_text_is_none(text: str) -> None:
    fits = max(len(tokens_of(text)), 1)
    assert windows(text, tokens=fits, overlap=fits - 1) == ([text.strip()] if text.strip() else [])


@pytest.mark.parametrize(
    ("count", "lengths"),
    [(1, [1]), (800, [800]), (801, [800, 101]), (1500, [800, 800]), (1501, [800, 800, 101]), (2000, [800, 800, 600])],
)
def test_the_default_window_of_800_tokens_moves_by_700(count: int, lengths: list[int]) -> None:
    text = " ".join(f"w{number}" for number in range(count))
    pieces = windows(text, tokens=800, overlap=100)
    assert [len(piece.split()) for piece in pieces] == lengths
    assert [piece.split()[0] for piece in pieces] == [f"w{700 * number}" for number in range(len(lengths))]


def test_layout_inside_a_window_survives_and_around_it_goes() -> None:
    assert windows("\n  one\n\n  two,\tthree  \n", tokens=3, overlap=1) == ["one\n\n  two,", ",\tthree"]


def test_a_word_is_a_token_and_so_is_each_mark() -> None:
    assert tokens_of("v1_2 isn't 3.5€") == ["v1_2", "isn", "'", "t", "3", ".", "5", "€"]


def test_each_character_of_east_asian_text_is_a_token() -> None:
    assert tokens_of("東京タワー、한국 GPU搭載") == [*"東京タワー、한국", "GPU", "搭", "載"]
    assert windows("東京タワー", tokens=3, overlap=1) == ["東京タ", "タワー"]


def test_every_ideograph_kana_and_hangul_that_unicode_names_stands_alone() -> None:
    scripts = ("CJK ", "HIRAGANA", "KATAKANA", "HENTAIGANA", "HANGUL", "HALFWIDTH KATAKANA", "HALFWIDTH HANGUL")
    every = map(chr, range(sys.maxunicode + 1))
    characters = [character for character in every if unicodedata.name(character, "").startswith(scripts)]
    assert len(characters) > 100_000
    assert tokens_of("".join(characters)) == characters


def test_letters_of_other_scripts_join_into_words() -> None:
    words = ["Straße", "Ελλάδα", "Москва", "עברית", "العربية", "ไทยกขค", "ㄅㄆㄇ", "𝒳𝒴"]
    assert tokens_of(" ".join(words)) == words


def test_a_run_without_spaces_is_cut_every_24_characters() -> None:
    run = "QUJD" * 500
    assert {len(token) for token in tokens_of(run)} == {24, 8}
    pieces = windows(run, tokens=10, overlap=2)
    assert max(map(len, pieces)) == 240
    assert "".join(piece[48 if number else 0 :] for number, piece in enumerate(pieces)) == run


def test_a_border_does_not_move_when_text_is_added_at_the_end() -> None:
    text = "one two three four five six"
    assert windows(text + " seven", tokens=3, overlap=1)[:2] == windows(text, tokens=3, overlap=1)[:2]


def test_a_window_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^tokens=0: a window holds at least 1 token"):
        windows("text", tokens=0, overlap=0)


@pytest.mark.parametrize("overlap", [-1, 5, 6])
def test_an_overlap_that_does_not_fit_its_window_is_refused(overlap: int) -> None:
    with pytest.raises(ValueError, match=rf"^overlap={overlap}: must be at least 0 and below tokens=5"):
        windows("text", tokens=5, overlap=overlap)


def test_each_window_of_a_document_is_a_row_in_order() -> None:
    documents = pl.DataFrame({"source": ["b", "a"], "text": ["one two three", " four "], "page": [1, 2]})
    expected = pl.DataFrame(
        {
            "source": ["b", "b", "a"],
            "text": ["one two", "two three", "four"],
            "page": [1, 1, 2],
            "chunk_index": pl.Series([0, 1, 0], dtype=pl.Int32),
        }
    )
    assert_frame_equal(chunk_documents(documents, tokens=2, overlap=1), expected)


def test_a_document_without_tokens_passes_as_it_is() -> None:
    documents = pl.DataFrame({"text": [None, "", " \n", "word"], "source": ["a", "b", "c", "d"]})
    expected = documents.with_columns(pl.lit(0, dtype=pl.Int32).alias("chunk_index"))
    assert_frame_equal(chunk_documents(documents, tokens=2, overlap=1), expected)


@pytest.mark.parametrize("dtype", [pl.String, pl.Null])
def test_no_documents_give_no_chunks_in_the_same_shape(dtype: type[pl.DataType]) -> None:
    documents = pl.DataFrame(schema={"text": dtype, "source": pl.String})
    chunks = chunk_documents(documents, tokens=2, overlap=1)
    assert chunks.schema == pl.Schema({"text": pl.String, "source": pl.String, "chunk_index": pl.Int32})
    assert chunks.is_empty()


def test_other_columns_keep_their_types_when_they_are_lists() -> None:
    documents = pl.DataFrame({"text": ["one two three"], "tags": [["x", "y"]]})
    chunks = chunk_documents(documents, tokens=2, overlap=0)
    assert chunks["tags"].to_list() == [["x", "y"], ["x", "y"]]


def test_chunks_are_not_chunked_again() -> None:
    chunks = chunk_documents(pl.DataFrame({"text": ["one two three"]}), tokens=2, overlap=0)
    with pytest.raises(ValueError, match="already has a column chunk_index"):
        chunk_documents(chunks, tokens=2, overlap=0)
