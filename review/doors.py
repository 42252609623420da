"""What every request passes before a page sees it, and what every answer carries.

A page of another site can make a browser send requests here. It cannot make it send them under another name of this
host (`Host`), without saying where they come from (`Origin`, `Sec-Fetch-Site`), or show what comes back.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOG = logging.getLogger("nightfold.review")
MOST_BODY_BYTES: Final = 64 * 1024
_MOST_QUERY_BYTES: Final = 8 * 1024
_MOST_PATH: Final = 200
_SAFE = ("GET", "HEAD")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that, browsers leave out where a form comes from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Address:
    """Under which names the page is reached."""

    origins: frozenset[str]

    @classmethod
    def of(cls, *, host: str, port: int, url: str | None) -> "Address":
        """The names of a loopback address, or the one that `url` gives to what stands behind a proxy."""
        if url is not None:
            parts = urlsplit(url)
            return cls(frozenset({f"{parts.scheme}://{parts.netloc}".lower()}))
        bound = f"[{host}]" if ":" in host else host
        return cls(frozenset(f"http://{name}:{port}".lower() for name in (*_LOOPBACK, bound)))

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(origin.partition("://")[2] for origin in self.origins)

    @property
    def is_secure(self) -> bool:
        return all(origin.startswith("https://") for origin in self.origins)


class Doors:
    """Lets requests of this site through and no others; forms that are refused are told to `refused`."""

    def __init__(self, app: ASGIApp, *, address: Address, refused: Callable[[str, str], None]) -> None:
        self._app = app
        self._address = address
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        is_static = scope["path"].startswith("/static/")

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers["Cache-Control"] = "no-cache" if is_static else "no-store"
                if self._address.is_secure:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, sent)
            return
        code, why = refusal
        _LOG.warning("refused a request (%d): %s", code, why)
        if scope["method"] not in _SAFE:
            await run_in_threadpool(self._refused, scope["path"][:_MOST_PATH], why)
        await PlainTextResponse(f"{why}\n", status_code=code)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._address.hosts:
            return 421, "This page is not reached under that name; open the address that `nightfold review` prints."
        if len(scope["query_string"]) > _MOST_QUERY_BYTES:
            return 414, "This address is too long."
        return None if scope["method"] in _SAFE else self._refusal_of_form(scope["method"], headers)

    def _refusal_of_form(self, method: str, headers: Headers) -> tuple[int, str] | None:
        if method != "POST":
            return 405, "There is nothing here for that method."
        if not self._is_from_here(headers):
            return 403, "This form was sent from another site, or by no browser; open the page and send it from there."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MOST_BODY_BYTES:
            return 413, f"A form has at most {MOST_BODY_BYTES:,} bytes."
        return None

    def _is_from_here(self, headers: Headers) -> bool:
        """Every browser sends `Origin` with a form, and newer ones `Sec-Fetch-Site` too, which no page can alter."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is None and site is None:
            return False
        return (origin is None or origin.lower() in self._address.origins) and site in (None, "same-origin")
