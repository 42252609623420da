"""The page, served until Ctrl-C."""

import contextlib
import logging
import socket
import threading
import webbrowser
from ipaddress import ip_address
from urllib.parse import urlsplit

import uvicorn

from flows.console import Progress
from flows.errors import NightfoldError
from flows.settings import Settings
from review.app import open_access, review_app
from review.doors import Address

_GRACE_SECONDS = 5


class CannotServe(NightfoldError):
    """An address that the page cannot, or should not, be served at."""


def serve(settings: Settings, *, opens_browser: bool, progress: Progress) -> None:
    """Serves the page until it is told to stop."""
    review = settings.review
    check_address(review.host, review.url)
    access = open_access(settings)
    listening = _listen(review.host, review.port)
    port = listening.getsockname()[1]
    address = Address.of(host=review.host, port=port, url=review.url)
    shown = review.url or f"http://{f'[{review.host}]' if ':' in review.host else review.host}:{port}/"
    if not any(token.revoked_at is None for token in access.tokens()):
        progress.tell("nobody has a token yet: nightfold review token NAME --role admin")
    progress.tell(f"review   {shown}   (Ctrl-C ends it)")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s  %(message)s", datefmt="%H:%M:%S")
    config = uvicorn.Config(
        review_app(settings, address=address, access=access),
        # What people search for stands in the addresses that an access log would keep.
        access_log=False,
        log_level="warning",
        log_config=None,
        server_header=False,
        # Behind a proxy, who is asking is told by the proxy, and only by one on this machine.
        proxy_headers=review.url is not None,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        limit_concurrency=200,
        ws="none",
        h11_max_incomplete_event_size=32 * 1024,
    )
    if opens_browser:
        threading.Timer(0.8, webbrowser.open, [shown]).start()
    # Ctrl-C is how it ends: uvicorn lets requests finish, then raises it anew.
    with listening, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
    progress.tell("ended")


def check_address(host: str, url: str | None) -> None:
    """A page that others reach over a network is reached over TLS: tokens must not cross it in the clear."""
    if url is not None and (urlsplit(url).scheme == "https" or _is_loopback(urlsplit(url).hostname or "")):
        return
    if url is not None:
        raise CannotServe(
            f"[review] url = {url!r}: tokens would cross the network in the clear; give an https:// address"
        )
    if not _is_loopback(host):
        raise CannotServe(
            f"--host {host}: others would reach the page without TLS. Put a proxy with TLS in front of it and name the "
            'address that people type: [review] url = "https://review.example.com"'
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, reuse_port=False)
    except OSError as error:
        raise CannotServe(
            f"{host}:{port}: cannot be listened at: {error.strerror}; another page may be running there, "
            "--port names another (0: any free one)"
        ) from None
