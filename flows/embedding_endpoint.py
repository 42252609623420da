"""Vectors of an OpenAI-compatible endpoint: patient with one that is busy, plain about one that refuses."""

import json
import os
import random
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx
import numpy as np
import numpy.typing as npt
import polars as pl

from flows.model_files import EncoderUnavailable, version_of
from flows.settings import EmbeddingSettings
from transforms.embedding import EncoderDown, EncodingFailed, unit
from transforms.vocabulary import Vectors

# An endpoint that asks for more patience than this is down for tonight.
_LONGEST_WAIT_SECONDS = 300.0
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 60.0
# What may lie in the texts: the same answer would come again, but not for other texts.
_OF_THE_TEXTS = {400, 413, 422}
_BUSY = {408, 425, 429, 502, 503, 504}


class _TryAgain(Exception):
    """A request that may go well the next time."""

    def __init__(self, why: str, *, of_the_texts: bool, after_seconds: float | None = None) -> None:
        super().__init__(why)
        self.of_the_texts = of_the_texts
        """Whether other texts may go well where these never will."""
        self.after_seconds = after_seconds


@dataclass
class EndpointEncoder:
    """Asks an endpoint for vectors, a batch a request."""

    settings: EmbeddingSettings
    dimensions: int
    key: str | None = field(repr=False)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        self._client = httpx.Client(timeout=self.settings.timeout_seconds, headers=headers)
        self._closed = weakref.finalize(self, self._client.close)
        self._url = f"{(self.settings.url or '').rstrip('/')}/embeddings"
        self._next_request_at = self.clock()
        self._failed: frozenset[str] = frozenset()

    @property
    def model(self) -> str:
        """Its name at the endpoint."""
        return self.settings.model

    @property
    def version(self) -> str:
        """A digest of address, model and dimensions: the weights are not ours to see."""
        return version_of(["http 1", self._url, self.model, self.dimensions])

    @property
    def batch_rows(self) -> int:
        """Texts in one request."""
        return self.settings.batch_size

    def encode(self, texts: pl.Series) -> Vectors:
        """A unit vector for each text. EncoderDown when the endpoint refuses, or is busy or away after all retries."""
        some = range(0, texts.len(), self.batch_rows)
        batches = [self._batch(texts[start : start + self.batch_rows].to_list()) for start in some]
        return np.concatenate(batches) if batches else np.zeros((0, self.dimensions), dtype=np.float32)

    def close(self) -> None:
        """Lets go of the connection."""
        self._closed()

    def _batch(self, texts: list[str]) -> Vectors:
        # A part of what has failed after all retries is not worth them again: it is asked to find the one bad text.
        is_part = self._failed.issuperset(texts)
        attempt = 0
        while True:
            try:
                return unit(self._vectors(self._answer(texts), rows=len(texts)))
            except _TryAgain as again:
                is_last = attempt == self.settings.retries or (is_part and again.of_the_texts)
                if is_last and again.of_the_texts:
                    self._failed = self._failed if is_part else frozenset(texts)
                    raise EncodingFailed(f"{self._url}: {again}") from again
                if is_last or (again.after_seconds or 0) > _LONGEST_WAIT_SECONDS:
                    raise EncoderDown(f"{self._url}: {again}; run `nightfold retry` when it is back") from again
                self.sleep(_wait_seconds(attempt, again.after_seconds))
                attempt += 1

    def _answer(self, texts: list[str]) -> bytes:
        """The body of a good answer."""
        self._keep_pace()
        deadline = self.clock() + self.settings.timeout_seconds
        body = bytearray()
        try:
            with self._client.stream("POST", self._url, json={"model": self.model, "input": texts}) as response:
                for part in response.iter_bytes():
                    body += part
                    if self.clock() > deadline:  # the client's own limit starts anew with every byte
                        raise httpx.ReadTimeout("the answer does not end")
        except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise _TryAgain(f"no connection within {self.settings.timeout_seconds:g} s", of_the_texts=False) from error
        except httpx.TimeoutException as error:
            raise _TryAgain(f"no answer within {self.settings.timeout_seconds:g} s", of_the_texts=True) from error
        except httpx.TransportError as error:
            raise _TryAgain(f"out of reach ({self._told(str(error))})", of_the_texts=False) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EncoderDown(f"{self._url}: {self._told(str(error))}; check [embedding] url") from error
        if response.status_code != httpx.codes.OK:
            self._refused(response, body.decode("utf-8", "replace"))
        return bytes(body)

    def _refused(self, response: httpx.Response, body: str) -> None:
        status = response.status_code
        said = f"answers {status} {response.reason_phrase}: {self._told(body)}"
        if status in _OF_THE_TEXTS:
            raise EncodingFailed(f"{self._url}: {said}")
        if status in _BUSY or status >= 500:
            raise _TryAgain(said, of_the_texts=status == 500, after_seconds=_retry_after(response))
        if status in (401, 403):
            variable = self.settings.api_key_variable
            remedy = (
                "name the variable that holds its key in [embedding] api_key_variable"
                if variable is None
                else f"check the key in {variable}"
            )
        else:
            remedy = "check [embedding] url and model"
        raise EncoderDown(f"{self._url}: {said}; {remedy}")

    def _vectors(self, body: bytes, *, rows: int) -> npt.NDArray[np.float64]:
        """The vectors of an answer, in the order of the texts."""
        try:
            data = json.loads(body)["data"]
            by_index = {int(each["index"]): each["embedding"] for each in data}
            in_order = [by_index[index] for index in range(rows)]
            vectors = np.array(in_order, dtype=np.float64)
        except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
            raise _TryAgain(f"gives no vector for each of {rows} texts", of_the_texts=True) from error
        if len(data) != rows or vectors.ndim != 2:
            raise _TryAgain(f"gives {len(data)} answers for {rows} texts", of_the_texts=True)
        if vectors.shape[1] != self.dimensions:
            raise _TryAgain(
                f"gives vectors of {vectors.shape[1]}, [embedding] dimensions is {self.dimensions}", of_the_texts=True
            )
        if not np.isfinite(vectors).all():
            raise _TryAgain("gives a vector that is not finite", of_the_texts=True)
        return vectors

    def _keep_pace(self) -> None:
        wait = self._next_request_at - self.clock()
        if wait > 0:
            self.sleep(wait)
        self._next_request_at = max(self.clock(), self._next_request_at) + 60 / self.settings.requests_per_minute

    def _told(self, text: str) -> str:
        """What the other side says, in one short line and without our key."""
        if self.key:
            text = text.replace(self.key, "***")
        return " ".join(text.split())[:200] or "nothing more"


def open_endpoint(settings: EmbeddingSettings) -> EndpointEncoder:
    """The endpoint of the settings. Nothing is asked of it yet: rows are stored also while it is away."""
    key = None
    if settings.api_key_variable is not None:
        key = os.environ.get(settings.api_key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise EncoderUnavailable(
                f"environment variable {settings.api_key_variable}: holds no key; set it, or another [embedding] "
                "api_key_variable"
            )
    assert settings.dimensions is not None  # as the settings have checked
    return EndpointEncoder(settings=settings, dimensions=settings.dimensions, key=key)


def _wait_seconds(attempt: int, after_seconds: float | None) -> float:
    backoff = min(_FIRST_WAIT_SECONDS * 2.0**attempt, _LONGEST_BACKOFF_SECONDS)
    # Spread, so that those who failed together do not come back together.
    return max(backoff * random.uniform(0.5, 1.5), after_seconds or 0)


def _retry_after(response: httpx.Response) -> float | None:
    """The seconds of a Retry-After, which is a number or a date."""
    given = response.headers.get("Retry-After", "").strip()
    if given.isdecimal():
        return float(given)
    try:
        until = parsedate_to_datetime(given)
    except ValueError:
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
