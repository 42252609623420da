"""An embedding endpoint on loopback: a real HTTP server whose vectors are sums of words, and that fails as told."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIMENSIONS = 32
# What the embed stage asks for to tell a bad text from an endpoint that answers nobody.
PROBE = "text"
BATCH = 8


def word_vector(text: str, *, dimensions: int = DIMENSIONS) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The sum of a vector for each word, which hangs on the word alone."""
    digests = [blake2b(word.encode(), digest_size=dimensions).digest() for word in text.split()]
    signs = np.array([np.frombuffer(digest, dtype=np.uint8) for digest in digests], dtype=np.float64) - 127.5
    summed: np.ndarray[Any, np.dtype[np.float64]] = np.sign(signs).sum(axis=0)
    return summed


class WordEndpoint:
    """What the server has given, and how it misbehaves."""

    def __init__(self) -> None:
        self.url = ""
        self.given: Counter[str] = Counter()
        """How often each text got a vector, probes aside."""
        self.requests = 0
        self.bad: dict[str, str] = {}
        """How a request with such a word in it fails: a status, or `nan`, `size`, `count` or `stall`."""
        self.down: str | None = None
        """How every request fails."""
        self.hold_after: int | None = None
        """From so many texts given on, requests wait for `release`."""
        self.is_holding, self.release = threading.Event(), threading.Event()

    def forget(self) -> None:
        """Counts from nothing again."""
        self.given.clear()
        self.requests = 0

    def fault(self, texts: list[str]) -> str | None:
        """How this request fails, if it does."""
        said = " ".join(texts).split()
        return self.down or next((how for word, how in self.bad.items() if word in said), None)

    def settings(self, **over: Any) -> dict[str, Any]:
        """The [embedding] section that asks here; a failure is not tried again."""
        return {
            "encoder": "http",
            "url": self.url,
            "model": "words",
            "dimensions": DIMENSIONS,
            "batch_size": BATCH,
            "requests_per_minute": 1_000_000,
            "retries": 0,
        } | over


class _Handler(BaseHTTPRequestHandler):
    endpoint: WordEndpoint

    def do_POST(self) -> None:
        endpoint = self.endpoint
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts: list[str] = body["input"]
        endpoint.requests += 1
        if endpoint.hold_after is not None and endpoint.given.total() >= endpoint.hold_after:
            endpoint.is_holding.set()
            endpoint.release.wait(60)
            return
        fault = endpoint.fault(texts)
        if fault == "stall":
            endpoint.release.wait(60)
            return
        if fault is not None and fault.isdecimal():
            self._send(int(fault), {"error": {"message": "not today"}})
            return
        # Another model, other vectors.
        turned = 1 if body["model"] == "words" else -1
        vectors = [word_vector(text)[::turned].tolist() for text in texts]
        if fault == "nan":
            vectors[0][0] = float("nan")
        if fault == "size":
            vectors = [vector[:-1] for vector in vectors]
        if fault == "count":
            vectors = vectors[:-1]
        if fault is None:
            endpoint.given.update(text for text in texts if text != PROBE)
        self._send(200, {"data": [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        content = json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            return  # who asked is gone

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving() -> Iterator[WordEndpoint]:
    """The endpoint, for as long as the block."""
    endpoint = WordEndpoint()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"endpoint": endpoint}))
    server.daemon_threads = True
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
