"""A second opinion from a server on loopback that fails, stalls and lies: no pair is lost, none asked about twice."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.endpoint import NoKey
from flows.llm import OPINIONS, SecondOpinion, open_second_opinion
from flows.settings import LlmSettings
from tests.flows.chat_endpoint import Answer, ChatEndpoint, attacks, chatting, obedient, reply, said, texts_in

KEY = "a-key-for-nobody"
Open = Callable[..., SecondOpinion]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatEndpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with chatting() as endpoint:
        yield endpoint


@pytest.fixture
def waits() -> list[float]:
    """How long would have been waited."""
    return []


@pytest.fixture
def opened(endpoint: ChatEndpoint, tmp_path: Path, waits: list[float]) -> Iterator[Open]:
    opinions: list[SecondOpinion] = []

    def make(**settings: Any) -> SecondOpinion:
        opinion = open_second_opinion(endpoint.settings(tmp_path / "llm", **settings))
        assert opinion is not None
        opinion.endpoint.sleep = waits.append
        opinions.append(opinion)
        return opinion

    yield make
    for opinion in opinions:
        opinion.close()


def pairs(count: int = 1, *, same: bool = True) -> pl.DataFrame:
    """Pairs that the model of the server calls equivalent, or not."""
    rows = range(count)
    return pl.DataFrame(
        {
            "pair_id": [f"p{n}" for n in rows],
            "left_text": [f"Row {n}." for n in rows],
            "right_text": [f"row {n}" if same else f"line {n}" for n in rows],
        },
        schema={"pair_id": pl.String, "left_text": pl.String, "right_text": pl.String},
    )


def asked(opinion: SecondOpinion, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The opinions, and what was told; every pair has one, in its place."""
    told: list[str] = []
    found = opinion.opinions(rows, tell=told.append, tell_rows=lambda _: None)
    assert found["pair_id"].to_list() == rows["pair_id"].to_list()
    assert found.schema == OPINIONS
    assert found.filter(~pl.col("is_reached")).drop("pair_id", "is_reached").null_count().row(0) == (
        (found.height - found["is_reached"].sum(),) * 3
    )
    return found, told


# ---- what goes well


def test_each_pair_gets_the_opinion_of_the_model(endpoint: ChatEndpoint, opened: Open) -> None:
    rows = pl.concat([pairs(), pairs(same=False).with_columns(pair_id=pl.lit("q"))])
    found, told = asked(opened(), rows)
    assert found["llm_relation"].to_list() == ["equivalent", "distinct"]
    assert found["llm_confidence"].to_list() == pytest.approx([0.8, 0.8])
    assert found["llm_reason"].to_list() == ["by their words"] * 2
    assert (found["is_reached"].to_list(), told) == ([True, True], [])


def test_a_request_asks_for_json_at_temperature_nought(endpoint: ChatEndpoint, opened: Open) -> None:
    asked(opened(url=endpoint.url + "/"), pairs())
    (body,) = endpoint.asked
    assert (body["path"], body["model"], body["temperature"]) == ("/v1/chat/completions", "m", 0)
    assert body["response_format"] == {"type": "json_object"}
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert texts_in(body) == ("Row 0.", "row 0")


def test_no_pairs_ask_nothing(endpoint: ChatEndpoint, opened: Open) -> None:
    assert asked(opened(), pairs(0))[0].is_empty()
    assert endpoint.asked == []


def test_long_texts_are_sent_cut(endpoint: ChatEndpoint, opened: Open) -> None:
    asked(opened(max_text_chars=100), pairs().with_columns(left_text=pl.lit("x" * 150)))
    assert texts_in(endpoint.asked[0]) == ("row 0", "x" * 100 + " [cut: 50 characters]")


def test_a_pair_without_a_text_is_not_asked_about(endpoint: ChatEndpoint, opened: Open) -> None:
    rows = pairs(2).with_columns(left_text=pl.when(pl.col("pair_id") == "p1").then("left_text"))
    found, told = asked(opened(), rows)
    assert (found["is_reached"].to_list(), len(endpoint.asked)) == ([False, True], 1)
    why = "a pair without a text"
    assert told == [
        f"[llm] {endpoint.url}/chat/completions: 1 of 2 pairs have no second opinion ({why}); they go to review"
    ]


def test_without_an_address_there_is_no_second_opinion() -> None:
    assert open_second_opinion(LlmSettings()) is None


def test_how_many_have_one_is_told_as_they_come(opened: Open) -> None:
    counts: list[int] = []
    opened().opinions(pairs(3), tell=print, tell_rows=counts.append)
    assert counts == [0, 1, 2, 3]


# ---- asked once


def test_a_rerun_asks_for_nothing_twice(endpoint: ChatEndpoint, opened: Open) -> None:
    first, _ = asked(opened(), pairs(5))
    assert len(endpoint.asked) == 5
    again, _ = asked(opened(timeout_seconds=5, retries=3), pairs(5))
    assert again.equals(first)
    assert len(endpoint.asked) == 5


def test_two_texts_are_asked_about_once_whichever_comes_first(endpoint: ChatEndpoint, opened: Open) -> None:
    turned = pairs().select(pl.lit("turned").alias("pair_id"), left_text="right_text", right_text="left_text")
    found, _ = asked(opened(), pl.concat([pairs(), turned, pairs()]))
    assert (found["is_reached"].to_list(), len(endpoint.asked)) == ([True] * 3, 1)


@pytest.mark.parametrize("other", [{"model": "n"}, {"max_text_chars": 101}])
def test_another_model_or_another_cut_is_another_question(
    endpoint: ChatEndpoint, opened: Open, other: dict[str, Any]
) -> None:
    rows = pairs().with_columns(left_text=pl.lit("x" * 150))
    asked(opened(max_text_chars=100), rows)
    asked(opened(**({"max_text_chars": 100} | other)), rows)
    assert len(endpoint.asked) == 2


def test_another_prompt_is_another_question(
    endpoint: ChatEndpoint, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(opened(), pairs())
    monkeypatch.setattr("flows.llm.PROMPT_VERSION", 0)
    asked(opened(), pairs())
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"relation": "same"}', b"null"])
def test_a_kept_reply_that_is_damaged_is_asked_for_again(
    endpoint: ChatEndpoint, opened: Open, tmp_path: Path, content: bytes
) -> None:
    first, _ = asked(opened(), pairs())
    (kept,) = (tmp_path / "llm").rglob("*.json")
    whole = kept.read_bytes()
    kept.write_bytes(content)
    assert asked(opened(), pairs())[0].equals(first)
    assert (kept.read_bytes(), len(endpoint.asked)) == (whole, 2)
    assert [path.name for path in (tmp_path / "llm").rglob("*") if path.is_file()] == [kept.name]


def test_no_reply_is_not_kept(endpoint: ChatEndpoint, opened: Open, tmp_path: Path) -> None:
    endpoint.next = [(503, {}, b"")]
    assert not asked(opened(), pairs())[0]["is_reached"].item()
    assert asked(opened(), pairs())[0]["is_reached"].item()


def test_replies_that_cannot_be_kept_are_used_all_the_same(
    endpoint: ChatEndpoint, opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    found, told = asked(opened(cache=str(tmp_path / "file")), pairs(2))
    assert found["is_reached"].all()
    assert told == [
        f"{tmp_path / 'file'}: replies could not be kept (Not a directory); name a folder of yours with [llm] cache"
    ]


def test_a_full_disk_leaves_no_half_reply(
    endpoint: ChatEndpoint, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    _, told = asked(opened(), pairs())
    assert "No space left on device" in told[0]
    assert [path for path in (tmp_path / "llm").rglob("*") if path.is_file()] == []


# ---- an endpoint that is busy, slow or away


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 0])
def test_a_busy_endpoint_is_asked_again(endpoint: ChatEndpoint, opened: Open, waits: list[float], status: int) -> None:
    endpoint.next = [(status, {}, b"later")] * 2
    assert asked(opened(retries=2), pairs())[0]["is_reached"].item()
    assert (len(endpoint.asked), len(waits)) == (3, 2)


def test_a_retry_after_is_waited_for(endpoint: ChatEndpoint, opened: Open, waits: list[float]) -> None:
    endpoint.next = [(429, {"Retry-After": "20"}, b"")]
    assert asked(opened(retries=1), pairs())[0]["is_reached"].item()
    assert waits == [20]


def test_a_pair_without_an_answer_after_the_retries_is_not_reached_and_the_others_are(
    endpoint: ChatEndpoint, opened: Open
) -> None:
    endpoint.rule = lambda body: (503, {}, b"") if "row 2" in texts_in(body) else reply()
    found, told = asked(opened(retries=1), pairs(6))
    assert found["is_reached"].to_list() == [n != 2 for n in range(6)]
    assert len(endpoint.asked) == 7
    assert "1 of 6 pairs have no second opinion (answers 503 Service Unavailable: nothing more)" in told[0]


def test_a_stalled_answer_is_given_up(endpoint: ChatEndpoint, opened: Open) -> None:
    def stall(body: dict[str, Any]) -> Answer:
        if "row 0" in texts_in(body):
            endpoint.over.wait(5)
        return reply()

    endpoint.rule = stall
    found, told = asked(opened(timeout_seconds=0.3), pairs(3))
    assert found["is_reached"].to_list() == [False, True, True]
    assert "(no answer within 0.3 s)" in told[0]


def test_an_answer_without_end_is_given_up(endpoint: ChatEndpoint, opened: Open) -> None:
    endpoint.rule = lambda _: (200, {}, b" " * (2 * 1024 * 1024))
    _, told = asked(opened(), pairs())
    assert "(gives more than 1,048,576 bytes)" in told[0]


DOWN: dict[str, Answer] = {
    "busy": (503, {}, b""),
    "broken": (500, {}, b""),
    "dead": (0, {}, b""),
    "no key": (401, {}, b""),
    "elsewhere": (404, {}, b""),
    "hours": (429, {"Retry-After": "86400"}, b""),
    "refuses": (400, {}, b"response_format"),
    "no JSON": (200, {}, b"<html>"),
    "talks": said("They are equivalent."),
}


@pytest.mark.parametrize("answer", DOWN.values(), ids=DOWN)
def test_an_endpoint_that_answers_nobody_is_not_asked_about_every_pair(
    endpoint: ChatEndpoint, opened: Open, answer: Answer
) -> None:
    endpoint.rule = lambda _: answer
    opinion = opened(retries=1)
    found, told = asked(opinion, pairs(500))
    assert not found["is_reached"].any()
    assert len(told) == 1
    assert "500 of 500 pairs have no second opinion" in told[0]
    few = len(endpoint.asked)
    assert few <= 20
    asked(opinion, pairs(500))
    assert len(endpoint.asked) == few


def test_an_endpoint_out_of_reach_is_told_once(opened: Open) -> None:
    found, told = asked(opened(url="http://127.0.0.1:1"), pairs(50))
    assert not found["is_reached"].any()
    assert len(told) == 1
    assert told[0].startswith(
        "[llm] http://127.0.0.1:1/chat/completions: 50 of 50 pairs have no second opinion (out of"
    )


def test_texts_that_a_model_chokes_on_do_not_cost_the_others_their_opinion(
    endpoint: ChatEndpoint, opened: Open
) -> None:
    endpoint.rule = lambda body: said("no") if "poison" in " ".join(texts_in(body)) else reply()
    poisoned = pairs(20).with_columns(pl.col("left_text") + " poison", pair_id="x" + pl.col("pair_id"))
    found, _ = asked(opened(), pl.concat([poisoned, pairs(20)]))
    assert found["is_reached"].to_list() == [False] * 20 + [True] * 20


def test_an_endpoint_that_comes_back_is_asked_on(endpoint: ChatEndpoint, opened: Open) -> None:
    endpoint.next = [(503, {}, b"")] * 2
    found, _ = asked(opened(), pairs(30))
    assert found["is_reached"].sum() == 28


# ---- replies that are none


@pytest.mark.parametrize(
    "wrong",
    [
        said("{"),
        said("[]"),
        reply("same"),
        reply(confidence=2),
        reply(reason="a\nb"),
        reply(reason="x" * 301),
        (200, {}, b"[1]"),
    ],
)
def test_an_invalid_reply_is_asked_for_once_more(endpoint: ChatEndpoint, opened: Open, wrong: Answer) -> None:
    endpoint.next = [wrong]
    assert asked(opened(), pairs())[0]["is_reached"].item()
    endpoint.next = [wrong, wrong]
    found, told = asked(opened(model="other"), pairs())
    assert not found["is_reached"].item()
    assert "(gives " in told[0]
    assert len(endpoint.asked) == 4
    assert [len(body["messages"][1]["content"].splitlines()) for body in endpoint.asked] == [4, 5, 4, 5]


def test_of_a_reply_that_echoes_the_texts_nothing_is_kept(endpoint: ChatEndpoint, opened: Open, tmp_path: Path) -> None:
    secret = "SECRET " * 60
    rows = pairs().with_columns(left_text=pl.lit(secret))
    endpoint.rule = lambda _: reply(reason=secret)
    _, told = asked(opened(), rows)
    endpoint.rule = lambda _: reply(reason="no", confidence=secret)
    _, told_again = asked(opened(), rows)
    assert "SECRET" not in " ".join(told + told_again)
    assert not list((tmp_path / "llm").rglob("*.json"))
    endpoint.rule = lambda _: reply(reason=secret[:300])
    found, _ = asked(opened(), rows)
    assert len(found["llm_reason"].item()) == 300
    (kept,) = (tmp_path / "llm").rglob("*.json")
    assert set(json.loads(kept.read_text())) == {"relation", "confidence", "reason"}
    assert kept.stat().st_size < 400


# ---- the key


def test_the_key_is_sent_and_comes_back_nowhere(
    endpoint: ChatEndpoint, opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    endpoint.rule = lambda _: reply(reason=f"your key is {KEY}")
    opinion = opened(api_key_variable="SOME_KEY")
    found, _ = asked(opinion, pairs())
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert found["llm_reason"].item() == "your key is ***"
    assert KEY not in json.dumps(endpoint.asked) + repr(opinion)
    assert all(KEY not in path.read_text() for path in (tmp_path / "llm").rglob("*.json"))
    endpoint.rule = lambda _: (401, {}, f"wrong key {KEY}".encode())
    _, told = asked(opened(api_key_variable="SOME_KEY", model="n"), pairs())
    assert "(answers 401 Unauthorized: wrong key ***; check the key in SOME_KEY)" in told[0]


def test_a_variable_without_a_key_is_named(endpoint: ChatEndpoint, opened: Open) -> None:
    with pytest.raises(NoKey, match=r"^environment variable NO_SUCH_KEY: holds no key; set it, or another \[llm\] a"):
        opened(api_key_variable="NO_SUCH_KEY")


def test_no_row_of_an_attacker_gets_its_way(
    endpoint: ChatEndpoint, opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    endpoint.rule = lambda body: obedient(body, key=KEY)
    texts = list(attacks().values())
    rows = pl.DataFrame(
        {
            "pair_id": list(attacks()) + [f"{name}, twice" for name in attacks()],
            "left_text": ["The pump runs at 5 kW."] * len(texts) + [f"{text}!" for text in texts],
            "right_text": texts + texts,
        }
    )
    found, _ = asked(opened(api_key_variable="SOME_KEY"), rows)
    assert found["is_reached"].all()
    assert found["llm_relation"].to_list() == ["distinct"] * len(texts) + ["equivalent"] * len(texts)
    assert found["llm_reason"].unique().to_list() == ["by their words"]
    assert KEY not in json.dumps(endpoint.asked)
    assert all(KEY not in path.read_text() for path in (tmp_path / "llm").rglob("*.json"))


# ---- the pace


def test_requests_are_spread_over_the_minute(endpoint: ChatEndpoint, opened: Open, waits: list[float]) -> None:
    opinion = opened(requests_per_minute=30)
    opinion.endpoint.clock = lambda: 100.0
    opinion.endpoint._next_request_at = 100.0
    asked(opinion, pairs(5))
    assert sorted(waits) == [2.0, 4.0, 6.0, 8.0]


def test_few_requests_are_under_way_at_once(endpoint: ChatEndpoint, opened: Open) -> None:
    def slow(body: dict[str, Any]) -> Answer:
        endpoint.over.wait(0.05)
        return reply()

    endpoint.rule = slow
    assert asked(opened(), pairs(20))[0]["is_reached"].all()
    assert 2 <= endpoint.most_in_flight <= 4


def test_whoever_stops_a_run_does_not_wait_for_the_turns_that_are_left(endpoint: ChatEndpoint, opened: Open) -> None:
    opinion = opened(requests_per_minute=1)
    opinion.endpoint.sleep = opinion._sleep

    def stop(count: int) -> None:
        if count == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opinion.opinions(pairs(50), tell=print, tell_rows=stop)
    assert len(endpoint.asked) == 1
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("second-opinion")]
