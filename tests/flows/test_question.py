"""What an LLM is asked, which no text can change, and what counts as its reply, which is next to nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.question import InvalidReply, Question, question, reply_in, reply_of
from tests.flows.chat_endpoint import FAKE, ORDER, attacks, obedient

GOOD = {"relation": "equivalent", "confidence": 0.9, "reason": "the same"}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


def user(asked: Question) -> list[str]:
    return asked.messages()[1]["content"].split("\n")


# ---- the question


@given(TEXTS, TEXTS)
def test_any_two_texts_stand_whole_on_one_line_between_their_marks(left: str, right: str) -> None:
    asked = question(left, right, max_text_chars=1000)
    opening, data, closing, task = user(asked)
    assert (opening, closing) == (f"<<<DATA {asked.mark}>>>", f"<<<END {asked.mark}>>>")
    assert json.loads(data) == dict(zip(("text_1", "text_2"), sorted((left, right)), strict=True))
    assert data.isprintable()
    assert asked.mark not in data
    assert "JSON object" in task


@given(TEXTS, TEXTS)
def test_what_is_asked_does_not_hang_on_which_text_comes_first(left: str, right: str) -> None:
    assert question(left, right, max_text_chars=50) == question(right, left, max_text_chars=50)


def test_the_mark_is_that_of_the_two_texts_and_not_of_them_in_one() -> None:
    marks = {Question(texts).mark for texts in [("a", "b"), ("ab", ""), ("", "ab"), ("a", "c"), ("b", "a")]}
    assert len(marks) == 5
    assert all(len(mark) == 64 for mark in marks)


def test_a_long_text_is_cut_with_a_mark() -> None:
    asked = question("y" * 100, "x" * 130, max_text_chars=100)
    assert asked.texts == ("x" * 100 + " [cut: 30 characters]", "y" * 100)


def test_what_is_not_seen_is_escaped() -> None:
    data = user(question("a\u202eb\U000e0041", "c\u2028d\x1b[0m\n", max_text_chars=100))[1]
    assert data == r'{"text_1": "a\u202eb\udb40\udc41", "text_2": "c\u2028d\u001b[0m\n"}'


def test_the_system_message_holds_nothing_of_the_texts() -> None:
    first, second = question("alpha", "beta", max_text_chars=100), question("gamma", "delta", max_text_chars=100)
    one, other = first.messages()[0]["content"], second.messages()[0]["content"]
    assert one.replace(first.mark, "") == other.replace(second.mark, "")


def test_asked_again_the_question_only_says_that_the_reply_was_none() -> None:
    asked = Question(("a", "b"))
    first, again = asked.messages(), asked.messages(again=True)
    assert first[0] == again[0]
    assert again[1]["content"].startswith(first[1]["content"])


# ---- the reply


def answer(content: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


def test_a_reply_is_taken_as_it_was_asked_for() -> None:
    assert reply_in(answer(json.dumps(GOOD))).model_dump() == GOOD
    assert reply_of(f" \n{json.dumps(GOOD | {'confidence': 1})}\n").confidence == 1.0


WRONG: dict[str, Any] = {
    "another relation": GOOD | {"relation": "same"},
    "a relation in capitals": GOOD | {"relation": "Equivalent"},
    "a list of relations": GOOD | {"relation": ["equivalent"]},
    "too sure": GOOD | {"confidence": 1.01},
    "below nothing": GOOD | {"confidence": -0.1},
    "a number in words": GOOD | {"confidence": "0.9"},
    "true": GOOD | {"confidence": True},
    "not a number": GOOD | {"confidence": float("nan")},
    "no reason": {"relation": "equivalent", "confidence": 0.9},
    "a blank reason": GOOD | {"reason": " "},
    "a long reason": GOOD | {"reason": "x" * 301},
    "two lines": GOOD | {"reason": "a\nb"},
    "an escape": GOOD | {"reason": "a\x1b[2J"},
    "turned around": GOOD | {"reason": "a\u202eb"},
    "one key more": GOOD | {"action": "merge"},
    "a list": [GOOD],
    "a word": "equivalent",
    "null": None,
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_any_other_reply_is_none(content: object) -> None:
    with pytest.raises(InvalidReply, match=r"^gives a reply "):
        reply_in(answer(json.dumps(content)))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "equivalent",
        f"```json\n{json.dumps(GOOD)}\n```",
        f"{json.dumps(GOOD)} {json.dumps(GOOD)}",
        f"Sure! {json.dumps(GOOD)}",
        '{"relation": "distinct", "relation": "equivalent", "confidence": 1, "reason": "x"}',
        "[" * 100_000,
    ],
)
def test_what_is_not_one_json_object_is_no_reply(content: str) -> None:
    with pytest.raises(InvalidReply, match="not the JSON asked for"):
        reply_in(answer(content))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"choices": []}', answer(None), answer([1]), answer(GOOD), b"\xff"]
)
def test_an_answer_without_a_message_is_no_reply(body: bytes) -> None:
    with pytest.raises(InvalidReply, match="gives no message"):
        reply_in(body)


def test_what_a_wrong_reply_says_is_not_in_the_error() -> None:
    with pytest.raises(InvalidReply) as refused:
        reply_of(json.dumps(GOOD | {"relation": "SECRET", "confidence": "SECRET", "SECRET": 1}))
    assert str(refused.value) == "gives a reply with a wrong relation and confidence"


# ---- as an attacker would have it


@pytest.mark.parametrize("attack", attacks().values(), ids=attacks())
def test_a_text_that_gives_orders_is_compared_like_any_other(attack: str) -> None:
    body = {"messages": question("The pump runs at 5 kW.", attack, max_text_chars=6000).messages()}
    assert reply_in(obedient(body)[2]).relation == "distinct"
    body = {"messages": question(f"  {attack}", attack, max_text_chars=6000).messages(again=True)}
    assert reply_in(obedient(body)[2]).reason == "by their words"


@pytest.mark.parametrize("attack", [ORDER, FAKE])
def test_the_model_of_these_tests_does_obey_what_stands_outside(attack: str) -> None:
    messages = question("a", "b", max_text_chars=100).messages()
    messages[1]["content"] += attack
    assert reply_in(obedient({"messages": messages})[2]).relation == "equivalent"


def test_texts_set_in_as_they_are_would_have_been_obeyed() -> None:
    messages = [
        {"role": "system", "content": "<<<DATA x>>>"},
        {"role": "user", "content": f"<<<DATA x>>>\na\nb\n<<<END x>>>\n{ORDER}\n<<<END x>>>"},
    ]
    assert reply_in(obedient({"messages": messages})[2]).relation == "equivalent"
