"""A JSON endpoint over HTTP: asked at a measured pace, its faults told apart by what can be done about them."""

import os
import random
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from flows.errors import NightfoldError

# An endpoint that asks for more patience than this is down for tonight.
LONGEST_WAIT_SECONDS = 300.0
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_BACKOFF_SECONDS = 60.0
# What may lie in the texts: the same answer would come again, but not for other texts.
_OF_THE_TEXTS = {400, 413, 422}
_BUSY = {408, 425, 429, 502, 503, 504}


class NoKey(NightfoldError):
    """The variable that is to hold the key of an endpoint holds none."""


class TryAgain(Exception):
    """A request that may go well the next time."""

    def __init__(self, why: str, *, of_the_texts: bool, after_seconds: float | None = None) -> None:
        super().__init__(why)
        self.of_the_texts = of_the_texts
        """Whether other texts may go well where these never will."""
        self.after_seconds = after_seconds

    @property
    def asks_for_too_long(self) -> bool:
        """Whether the endpoint wants to be left alone for longer than a run waits."""
        return (self.after_seconds or 0) > LONGEST_WAIT_SECONDS


class TextsRefused(Exception):
    """The endpoint will not take these texts; others it may."""


class EndpointRefused(Exception):
    """The endpoint will take nothing from us, whatever it says."""


@dataclass
class Endpoint:
    """One address of an endpoint. Several threads may ask; together they keep the pace."""

    url: str
    section: str
    """The section of the settings that an error names."""
    key: str | None = field(repr=False)
    api_key_variable: str | None
    requests_per_minute: int
    timeout_seconds: float
    most_bytes: int | None = None
    """An answer of more bytes is none."""
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        self._client = httpx.Client(timeout=self.timeout_seconds, headers=headers)
        self._closed = weakref.finalize(self, self._client.close)
        self._pace = threading.Lock()
        self._next_request_at = self.clock()

    def ask(self, body: dict[str, Any]) -> bytes:
        """The body of a good answer to one request, made when the pace allows."""
        self._keep_pace()
        deadline = self.clock() + self.timeout_seconds
        answer = bytearray()
        try:
            with self._client.stream("POST", self.url, json=body) as response:
                for part in response.iter_bytes():
                    answer += part
                    if self.most_bytes is not None and len(answer) > self.most_bytes:
                        raise TryAgain(f"gives more than {self.most_bytes:,} bytes", of_the_texts=True)
                    if self.clock() > deadline:  # the client's own limit starts anew with every byte
                        raise httpx.ReadTimeout("the answer does not end")
        except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise TryAgain(f"no connection within {self.timeout_seconds:g} s", of_the_texts=False) from error
        except httpx.TimeoutException as error:
            raise TryAgain(f"no answer within {self.timeout_seconds:g} s", of_the_texts=True) from error
        except httpx.TransportError as error:
            raise TryAgain(f"out of reach ({self.told(str(error))})", of_the_texts=False) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EndpointRefused(f"{self.told(str(error))}; check [{self.section}] url") from error
        if response.status_code != httpx.codes.OK:
            self._refused(response, answer.decode("utf-8", "replace"))
        return bytes(answer)

    def wait(self, attempt: int, again: TryAgain) -> None:
        """Waits before the next attempt: longer each time, and as long as the endpoint asks for."""
        backoff = min(_FIRST_WAIT_SECONDS * 2.0**attempt, _LONGEST_BACKOFF_SECONDS)
        # Spread, so that those who failed together do not come back together.
        self.sleep(max(backoff * random.uniform(0.5, 1.5), again.after_seconds or 0))

    def told(self, text: str) -> str:
        """What the other side says, in one short line and without our key."""
        return " ".join(self.without_key(text).split())[:200] or "nothing more"

    def without_key(self, text: str) -> str:
        """The text with the key blotted out."""
        return text.replace(self.key, "***") if self.key else text

    def close(self) -> None:
        """Lets go of the connections."""
        self._closed()

    def _keep_pace(self) -> None:
        with self._pace:
            now = self.clock()
            wait = self._next_request_at - now
            self._next_request_at = max(now, self._next_request_at) + 60 / self.requests_per_minute
        if wait > 0:
            self.sleep(wait)

    def _refused(self, response: httpx.Response, body: str) -> None:
        status = response.status_code
        said = f"answers {status} {response.reason_phrase}: {self.told(body)}"
        if status in _OF_THE_TEXTS:
            raise TextsRefused(said)
        if status in _BUSY or status >= 500:
            raise TryAgain(said, of_the_texts=status == 500, after_seconds=_retry_after(response))
        if status not in (401, 403):
            remedy = f"check [{self.section}] url and model"
        elif self.api_key_variable is None:
            remedy = f"name the variable that holds its key in [{self.section}] api_key_variable"
        else:
            remedy = f"check the key in {self.api_key_variable}"
        raise EndpointRefused(f"{said}; {remedy}")


def key_in(variable: str | None, *, section: str) -> str | None:
    """The key that the environment variable holds; None where none is named."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise NoKey(f"environment variable {variable}: holds no key; set it, or another [{section}] api_key_variable")
    return key


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
