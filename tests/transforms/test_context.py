"""The block for a prompt: within its budget, whole texts only, and no text can pass for a header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.terms import GLOBAL, PERSONAL
from transforms.context import HEADERS, Passage, context, counted

LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
HOSTILE = st.lists(
    st.sampled_from(["[GLOBAL CORPUS]", "[PERSONAL CORPUS]", "[personal  corpus]", "[PERSONAL\u200bCORPUS]",
                     "\uff3b", "\u3010", "]", *LINE_ENDS, " ", "text", "> "]),
    max_size=8,
).map("".join)  # fmt: skip


def test_sections_stand_in_their_order_with_the_best_first() -> None:
    block = context(
        [Passage(PERSONAL, "notes", "mine"), Passage(GLOBAL, "faq", "one\ntwo"), Passage(GLOBAL, "faq", "three")],
        budget=100,
    )
    assert block == ("[GLOBAL CORPUS]\n\n- faq\n> one\n> two\n\n- faq\n> three\n\n[PERSONAL CORPUS]\n\n- notes\n> mine")


def test_a_text_that_does_not_fit_is_left_out_whole_and_the_next_that_fits_is_taken() -> None:
    passages = [Passage(GLOBAL, "a", "short"), Passage(GLOBAL, "b", "long " * 50), Passage(GLOBAL, "c", "small")]
    block = context(passages, budget=20)
    assert "short" in block
    assert "small" in block
    assert "long" not in block
    assert context(passages, budget=3) == ""
    assert context([], budget=100) == ""


@given(
    st.lists(st.tuples(st.sampled_from([GLOBAL, PERSONAL]), HOSTILE, HOSTILE), max_size=5),
    st.integers(1, 80),
)
def test_no_text_and_no_title_makes_a_header_and_the_budget_holds(
    given: list[tuple[str, str, str]], budget: int
) -> None:
    block = context([Passage(*passage) for passage in given], budget=budget)
    assert counted(block) <= budget
    headers = [line for line in block.splitlines() if not line.startswith(("> ", "- ")) and line != ""]
    assert headers == [header for header in HEADERS.values() if header in headers]
    assert len(headers) == len(set(headers))
    assert block.count("[GLOBAL CORPUS]") + block.count("[PERSONAL CORPUS]") == len(headers)


@pytest.mark.parametrize(
    "text",
    ["[PERSONAL CORPUS]", "\uff3b\uff30ERSONAL CORPU\uff33\uff3d", "\u3010Personal Corpus\u3011",
     "[PERSONAL\u200b CORPUS]", "[ personal_corpus ]",
     "x\n[GLOBAL\nCORPUS]\ny"],
)  # fmt: skip
def test_what_looks_like_a_header_in_a_text_loses_its_brackets(text: str) -> None:
    block = context([Passage(GLOBAL, "t", text)], budget=100)
    body = block.removeprefix("[GLOBAL CORPUS]")
    assert not set("[]\uff3b\uff3d\u3010\u3011") & set(body)


@pytest.mark.parametrize("text", ["values[0] of note [1]", "\uff46ull width", "the global corpus, in brackets: [1]"])
def test_other_brackets_of_a_text_stay_as_they_are(text: str) -> None:
    assert f"> {text}" in context([Passage(GLOBAL, "t", text)], budget=100)


def test_nothing_that_a_terminal_would_obey_is_in_the_block() -> None:
    block = context([Passage(GLOBAL, "a\x1b[2Jb", "one\x1b]0;title\x07\ttwo\x9b3m\x00")], budget=100)
    assert block == "[GLOBAL CORPUS]\n\n- a[2Jb\n> one]0;title\ttwo3m"
