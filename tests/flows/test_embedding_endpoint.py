"""A real HTTP server on loopback that fails, stalls and lies, and what the endpoint's encoder makes of it."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest

from flows.embedding_endpoint import EndpointEncoder, open_endpoint
from flows.encoders import EncoderUnavailable, open_encoder
from flows.settings import EmbeddingSettings
from transforms.embedding import EncoderDown, EncodingFailed, embedded

Answer = tuple[int, dict[str, str], bytes]
KEY = "a-key-for-nobody"


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0]


def answer(texts: list[str], **instead: Any) -> Answer:
    rows = [{"object": "embedding", "index": n, "embedding": vector(text)} for n, text in enumerate(texts)]
    return 200, {}, json.dumps({"object": "list", "data": instead.get("data", rows)}).encode()


class Endpoint:
    """What the server does: `next` are answers to the next requests, `rule` answers the others."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.next: list[Answer] = []
        self.rule: Callable[[list[str]], Answer] = answer
        self.drips = False
        self.over = threading.Event()

    @property
    def inputs(self) -> list[list[str]]:
        return [body["input"] for body in self.asked]


class Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.endpoint.asked.append({"path": self.path, **body})
        self.endpoint.headers.append(dict(self.headers))
        status, headers, content = (
            self.endpoint.next.pop(0) if self.endpoint.next else self.endpoint.rule(body["input"])
        )
        if status == 0:  # a server that dies
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            if not self.endpoint.drips:
                self.wfile.write(content)
            for byte in content if self.endpoint.drips else b"":
                self.wfile.write(bytes([byte]))
                if self.endpoint.over.wait(0.05):
                    return
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    endpoint = Endpoint()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"endpoint": endpoint}))
    server.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield endpoint
    endpoint.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def told(endpoint: Endpoint, **settings: Any) -> EmbeddingSettings:
    given: dict[str, Any] = {"url": endpoint.url, "dimensions": 3, "model": "m", "requests_per_minute": 1_000_000}
    return EmbeddingSettings(encoder="http", **(given | settings))


Open = Callable[..., EndpointEncoder]


@pytest.fixture
def waits() -> list[float]:
    """How long the encoder would have waited."""
    return []


@pytest.fixture
def opened(endpoint: Endpoint, waits: list[float]) -> Iterator[Open]:
    encoders: list[EndpointEncoder] = []

    def make(**settings: Any) -> EndpointEncoder:
        encoder = open_endpoint(told(endpoint, **settings))
        encoder.endpoint.sleep = waits.append
        encoders.append(encoder)
        return encoder

    yield make
    for encoder in encoders:
        encoder.close()


def vectors(encoder: EndpointEncoder, texts: list[str]) -> list[list[float]]:
    found: list[list[float]] = encoder.encode(pl.Series(texts, dtype=pl.String)).tolist()
    return found


def unit(text: str) -> list[float]:
    found: list[float] = (np.array(vector(text)) / np.linalg.norm(vector(text))).astype(np.float32).tolist()
    return found


# ---- what goes well


def test_texts_go_in_batches_and_vectors_come_back_at_unit_length(endpoint: Endpoint, opened: Open) -> None:
    encoder = opened(batch_size=2)
    assert vectors(encoder, ["a", "bb", "ccc"]) == [unit("a"), unit("bb"), unit("ccc")]
    assert endpoint.asked == [
        {"path": "/v1/embeddings", "model": "m", "input": ["a", "bb"]},
        {"path": "/v1/embeddings", "model": "m", "input": ["ccc"]},
    ]
    assert (encoder.model, encoder.dimensions, encoder.batch_rows) == ("m", 3, 2)
    assert vectors(encoder, []) == []


def test_vectors_are_put_in_the_order_of_their_index(endpoint: Endpoint, opened: Open) -> None:
    endpoint.rule = lambda texts: answer(
        texts, data=[{"index": n, "embedding": vector(texts[n])} for n in reversed(range(len(texts)))]
    )
    assert vectors(opened(), ["a", "bb"]) == [unit("a"), unit("bb")]


def test_opening_asks_nothing_and_the_version_follows_address_model_and_dimensions(
    endpoint: Endpoint, opened: Open
) -> None:
    versions = [
        opened(**other).version for other in ({}, {"model": "n"}, {"dimensions": 4}, {"url": endpoint.url + "/w"})
    ]
    assert len(set(versions)) == 4
    assert opened(batch_size=3, timeout_seconds=1, url=endpoint.url + "/").version == versions[0]
    assert all(len(version) == 16 and int(version, 16) >= 0 for version in versions)
    assert endpoint.asked == []


def test_requests_are_spread_over_the_minute(endpoint: Endpoint, opened: Open) -> None:
    now = [100.0]
    encoder = opened(batch_size=1, requests_per_minute=30)
    encoder.endpoint.clock = lambda: now[0]
    encoder.endpoint._next_request_at = now[0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    slept: list[float] = []
    encoder.endpoint.sleep = sleep
    vectors(encoder, ["a", "b", "c"])
    assert slept == [2.0, 2.0]
    now[0] += 60
    vectors(encoder, ["d", "e"])
    assert slept == [2.0, 2.0, 2.0]


# ---- the key


def test_the_key_of_the_variable_is_sent_and_shown_nowhere(
    endpoint: Endpoint, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", f" {KEY}\n")
    encoder = opened(api_key_variable="SOME_KEY", retries=0)
    vectors(encoder, ["a"])
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"
    endpoint.next = [(401, {}, f"Incorrect key: {KEY}".encode())]
    with pytest.raises(EncoderDown) as refused:
        vectors(encoder, ["a"])
    line = str(refused.value)
    assert line == f"{endpoint.url}/embeddings: answers 401 Unauthorized: Incorrect key: ***; check the key in SOME_KEY"
    assert KEY not in repr(encoder) + encoder.settings.model_dump_json()


def test_without_a_variable_no_key_is_sent_and_a_refusal_says_where_to_name_one(
    endpoint: Endpoint, opened: Open
) -> None:
    endpoint.next = [(403, {}, b"")]
    with pytest.raises(EncoderDown, match=r"403 Forbidden: nothing more; name the variable .* api_key_variable"):
        vectors(opened(), ["a"])
    assert "Authorization" not in endpoint.headers[0]


@pytest.mark.parametrize("content", [None, " ", "schlüssel", "two\nlines"])
def test_a_variable_without_a_key_is_named(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    if content is not None:
        monkeypatch.setenv("SOME_KEY", content)
    with pytest.raises(EncoderUnavailable, match=r"^environment variable SOME_KEY: holds no key; set it, or another"):
        open_encoder(told(endpoint, api_key_variable="SOME_KEY"), tell=print)


# ---- an endpoint that is busy or away


@pytest.mark.parametrize("status", [429, 502, 503, 504, 500])
def test_a_busy_endpoint_is_asked_again_after_longer_and_longer_waits(
    endpoint: Endpoint, opened: Open, waits: list[float], status: int
) -> None:
    endpoint.next = [(status, {}, b"later")] * 3
    assert vectors(opened(), ["a"]) == [unit("a")]
    assert len(endpoint.asked) == 4
    assert [0.5 * 2**n * 0.5 <= wait <= 0.5 * 2**n * 1.5 for n, wait in enumerate(waits)] == [True] * 3


def test_a_retry_after_is_waited_for_as_seconds_or_as_a_date(
    endpoint: Endpoint, opened: Open, waits: list[float]
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    endpoint.next = [(429, {"Retry-After": given}, b"") for given in ("20", date, "soon", "Wed, 21 Oct 2015 07:28:00")]
    vectors(opened(), ["a"])
    assert waits[0] == 20
    assert 90 <= waits[1] <= 100
    assert waits[2] <= 3
    assert waits[3] <= 6


def test_an_endpoint_that_asks_for_hours_is_down(endpoint: Endpoint, opened: Open, waits: list[float]) -> None:
    endpoint.next = [(429, {"Retry-After": "86400"}, b"quota")]
    with pytest.raises(
        EncoderDown, match="answers 429 Too Many Requests: quota; run `nightfold retry` when it is back"
    ):
        vectors(opened(), ["a"])
    assert waits == []


def test_an_endpoint_that_stays_busy_is_down(endpoint: Endpoint, opened: Open) -> None:
    endpoint.rule = lambda _: (503, {}, b"")
    with pytest.raises(EncoderDown, match="answers 503 Service Unavailable"):
        vectors(opened(retries=2), ["a"])
    assert len(endpoint.asked) == 3


def test_an_endpoint_out_of_reach_is_down_after_all_retries(opened: Open, waits: list[float]) -> None:
    encoder = opened(url="http://127.0.0.1:1", retries=2)
    with pytest.raises(
        EncoderDown, match=r"^http://127.0.0.1:1/embeddings: out of reach \(.*\); run `nightfold retry`"
    ):
        vectors(encoder, ["a"])
    assert len(waits) == 2


def test_a_connection_that_is_not_made_in_time_is_tried_again(opened: Open, waits: list[float]) -> None:
    def nobody(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("no one", request=request)

    encoder = opened(timeout_seconds=7, retries=1)
    encoder.endpoint._client = httpx.Client(transport=httpx.MockTransport(nobody))
    with pytest.raises(EncoderDown, match="no connection within 7 s; run `nightfold retry`"):
        vectors(encoder, ["a"])
    assert len(waits) == 1


def test_a_connection_that_breaks_is_made_again(endpoint: Endpoint, opened: Open) -> None:
    endpoint.next = [(0, {}, b"")]
    assert vectors(opened(), ["a"]) == [unit("a")]


@pytest.mark.parametrize(("status", "said"), [(404, "404 Not Found"), (301, "301 Moved"), (405, "405 Method")])
def test_an_endpoint_that_is_none_is_down_at_once(endpoint: Endpoint, opened: Open, status: int, said: str) -> None:
    endpoint.rule = lambda _: (status, {}, b"x\n" * 500)
    with pytest.raises(EncoderDown, match=said) as down:
        vectors(opened(), ["a"])
    assert str(down.value).endswith("; check [embedding] url and model")
    assert len(str(down.value)) < 400
    assert "\n" not in str(down.value)
    assert len(endpoint.asked) == 1


def test_an_answer_in_an_encoding_that_cannot_be_read_is_told(endpoint: Endpoint, opened: Open) -> None:
    endpoint.rule = lambda _: (200, {"Content-Encoding": "gzip"}, b"no gzip")
    with pytest.raises(EncoderDown, match=r"check \[embedding\] url"):
        vectors(opened(), ["a"])


# ---- an endpoint that answers something else


WRONG = {
    "no JSON": b"<html>",
    "no data": b'{"object": "list"}',
    "a list": b"[1]",
    "too few": b'{"data": [{"index": 0, "embedding": [1, 2, 3]}]}',
    "an index twice": b'{"data": [{"index": 0, "embedding": [1, 2, 3]}, {"index": 0, "embedding": [1, 2, 3]}]}',
    "no numbers": b'{"data": [{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": "AAAA"}]}',
    "a null": b'{"data": [{"index": 0, "embedding": [1, 2, null]}, {"index": 1, "embedding": [1, 2, 3]}]}',
    "a NaN": b'{"data": [{"index": 0, "embedding": [1, 2, NaN]}, {"index": 1, "embedding": [1, 2, 3]}]}',
    "infinity": b'{"data": [{"index": 0, "embedding": [1, 2, 1e999]}, {"index": 1, "embedding": [1, 2, 3]}]}',
    "ragged": b'{"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1, 2, 3]}]}',
    "flat": b'{"data": [{"index": 0, "embedding": 1}, {"index": 1, "embedding": 2}]}',
    "too many": json.dumps({"data": [{"index": n, "embedding": [1, 2, 3]} for n in range(3)]}).encode(),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_an_answer_that_is_no_vectors_fails_after_all_retries(endpoint: Endpoint, opened: Open, body: bytes) -> None:
    endpoint.rule = lambda _: (200, {}, body)
    with pytest.raises(EncodingFailed) as failed:
        vectors(opened(retries=1), ["a", "b"])
    assert not isinstance(failed.value, EncoderDown)
    assert str(failed.value).startswith(f"{endpoint.url}/embeddings: gives ")
    assert len(endpoint.asked) == 2


def test_vectors_of_another_length_name_the_setting(endpoint: Endpoint, opened: Open) -> None:
    with pytest.raises(EncodingFailed, match=r"gives vectors of 3, \[embedding\] dimensions is 4"):
        vectors(opened(dimensions=4, retries=0), ["a"])


def test_a_text_that_the_endpoint_refuses_is_not_asked_for_again(endpoint: Endpoint, opened: Open) -> None:
    endpoint.rule = lambda _: (400, {}, b"too long")
    with pytest.raises(EncodingFailed, match="answers 400 Bad Request: too long"):
        vectors(opened(), ["a"])
    assert len(endpoint.asked) == 1


def test_an_answer_that_never_ends_is_given_up(endpoint: Endpoint, opened: Open) -> None:
    endpoint.drips = True
    with pytest.raises(EncodingFailed, match=r"no answer within 0.2 s"):
        vectors(opened(timeout_seconds=0.2, retries=0), ["a"])


def test_a_stalled_answer_is_given_up(endpoint: Endpoint, opened: Open) -> None:
    def stall(texts: list[str]) -> Answer:
        endpoint.over.wait(5)
        return answer(texts)

    endpoint.rule = stall
    with pytest.raises(EncodingFailed, match=r"no answer within 0.1 s"):
        vectors(opened(timeout_seconds=0.1, retries=0), ["a"])


# ---- as a run uses it


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_one_bad_text_is_found_and_no_other_is_lost(endpoint: Endpoint, opened: Open, status: int) -> None:
    endpoint.rule = lambda texts: (status, {}, b"") if "bad" in texts else answer(texts)
    texts = pl.Series([f"t{n}" for n in range(20)] + ["bad"] + [f"u{n}" for n in range(20)])
    _, has = embedded(texts, encoder=opened(batch_size=16, retries=2))
    assert has.tolist() == [text != "bad" for text in texts]
    failed = [texts for texts in endpoint.inputs if "bad" in texts]
    # The batch with its retries, then each part once.
    assert len(failed) == (3 if status == 500 else 1) + 4


@pytest.mark.parametrize("status", [400, 401, 404, 500, 503])
def test_an_endpoint_that_refuses_everything_is_not_asked_for_every_text(
    endpoint: Endpoint, opened: Open, status: int
) -> None:
    endpoint.rule = lambda _: (status, {}, b"")
    told: list[tuple[type, int]] = []
    texts = pl.Series([f"t{n}" for n in range(1000)])
    _, has = embedded(texts, encoder=opened(retries=1), report=lambda why, rows: told.append((type(why), rows)))
    assert not has.any()
    assert told == [(EncoderDown, 1000)]
    assert len(endpoint.asked) <= 4


def test_a_closed_encoder_lets_go_of_its_connection(endpoint: Endpoint) -> None:
    encoder = open_endpoint(told(endpoint))
    vectors(encoder, ["a"])
    encoder.close()
    encoder.close()
    with pytest.raises(RuntimeError, match="closed"):
        vectors(encoder, ["a"])
