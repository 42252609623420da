"""The page in the tests: one warehouse with questions, copied for each test that decides."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn
from playwright.sync_api import Browser, sync_playwright

from review.access import Access
from review.app import review_app
from review.doors import Address
from tests.review.asked import Asked, Visitor, ask


class Served(NamedTuple):
    """Where a page is served, and who may."""

    url: str
    access: Access


@pytest.fixture(scope="session")
def asked_once(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Made once, and only read."""
    return ask(tmp_path_factory.mktemp("asked"))


@pytest.fixture
def asked(asked_once: Asked, tmp_path: Path) -> Asked:
    """A copy to decide in."""
    return asked_once.copied(tmp_path)


@pytest.fixture
def visitor(asked: Asked) -> Callable[..., Visitor]:
    """Makes visitors of the page; each has a browser of their own."""
    return lambda **over: Visitor(asked, **over)


# ---- a browser

CHROMIUM = "/usr/bin/chromium"
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One real browser for all tests that need one."""
    if not Path(CHROMIUM).exists():
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"{CHROMIUM} is not there; .ci/run installs it")
        pytest.skip(f"no {CHROMIUM}: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield browser
        browser.close()


@contextmanager
def served(asked: Asked, **over: Any) -> Iterator[Served]:
    """The page over a real socket, as `nightfold review` serves it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        access = Access(asked.warehouse)
        app = review_app(
            asked.settings(**over), address=Address.of(host="127.0.0.1", port=port, url=None), access=access
        )
        server = uvicorn.Server(uvicorn.Config(app, access_log=False, log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Served(f"http://127.0.0.1:{port}", access)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(name="served")
def _served() -> Callable[..., AbstractContextManager[Served]]:
    return served
