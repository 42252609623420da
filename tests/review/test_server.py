"""The page as a command serves it: where it listens, what it logs, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from flows.console import Progress
from flows.lock import writer_lock
from flows.review_terms import Choice, Filters
from flows.reviews import Reviews
from review.applying import Applier
from review.server import CannotServe, check_address, serve
from tests.review.asked import Asked
from tests.terminal import NIGHTFOLD

Eventually = Callable[[Callable[[], object]], None]


def test_the_page_is_served_until_ctrl_c_and_keeps_what_is_asked_to_itself(asked: Asked) -> None:
    command = [NIGHTFOLD, "review", "--port", "0", "--warehouse", str(asked.warehouse)]
    made = [NIGHTFOLD, "review", "token", "ana", "--role", "admin", "--warehouse", str(asked.warehouse)]
    token = subprocess.run(made, cwd=asked.folder, check=True, capture_output=True, text=True).stdout.strip()
    with subprocess.Popen(
        command,
        cwd=asked.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout
        first = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+", first)
        assert address, first
        with httpx2.Client(base_url=address[0], headers={"origin": address[0]}, trust_env=False) as client:
            assert client.post("/sign-in", data={"token": token}).status_code == 303
            answer = client.get("/?text=secret-new")
            assert answer.status_code == 200
            assert "server" not in answer.headers
            review_id = re.findall(r"/questions/([0-9a-f]{32})", answer.text)[0]
            form_token = re.findall(r'name="form_token" value="([0-9a-f]+)"', answer.text)[0]
            fields = {"form_token": form_token, "decision": "keep_separate", "note": "a private note"}
            assert client.post(f"/questions/{review_id}", data=fields).status_code == 303
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    said = first + rest
    assert "ended" in said
    for private in ("secret-new", "private note", token, review_id, "Traceback"):
        assert private not in said
    # What was decided in the last moment is in the tables.
    standing = Reviews(asked.settings()).question(review_id, scopes=None).answer
    assert standing
    assert standing.is_applied


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_this_machine_needs_no_tls(host: str) -> None:
    check_address(host, None)


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", None), ("10.0.0.7", None), ("example.com", None), ("::", None), ("127.0.0.1", "http://example.com")],
)
def test_others_need_it(host: str, url: str | None) -> None:
    with pytest.raises(CannotServe, match=r"without TLS|in the clear"):
        check_address(host, url)


def test_with_a_proxy_in_front_it_may_listen_to_others() -> None:
    check_address("0.0.0.0", "https://review.example.com")
    check_address("0.0.0.0", "http://localhost:9000")


def test_a_port_that_is_taken_is_told(asked: Asked) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = asked.settings(review={"port": port})
        with pytest.raises(CannotServe, match=rf"127.0.0.1:{port}: cannot be listened at: .*--port names another"):
            serve(settings, opens_browser=False, progress=Progress(quiet=True))


# ---- decisions reach the tables behind the page's back


def test_decisions_are_applied_soon_and_while_a_run_holds_the_warehouse_they_wait(
    asked: Asked, eventually: Eventually
) -> None:
    reviews = Reviews(asked.settings())
    first, second = (item.review_id for item in reviews.page(Filters(), scopes=None, limit=2).items)

    def is_applied(review_id: str) -> bool:
        answer = Reviews(asked.settings()).question(review_id, scopes=None).answer
        return answer is not None and answer.is_applied

    applier = Applier(reviews)
    applier.start()
    try:
        reviews.decide([Choice(first, "keep_separate")], by="ana", scopes=None)
        applier.ask()
        eventually(lambda: is_applied(first))
    finally:
        applier.close()
    with writer_lock(asked.warehouse, doing="a test", wait_seconds=0, tell=lambda _: None):
        reviews.decide([Choice(second, "keep_separate")], by="ana", scopes=None)
        applier.start()
        applier.ask()
        applier.close()
        assert not is_applied(second)
    applier.start()
    applier.close()
    assert is_applied(second)


def test_what_cannot_be_applied_waits_and_does_not_end_the_page(
    asked: Asked, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviews = Reviews(asked.settings())
    tried = threading.Event()

    def fails() -> int:
        tried.set()
        raise OSError("no room left")

    monkeypatch.setattr(reviews, "apply_outstanding", fails)
    applier = Applier(reviews)
    applier.start()
    eventually(tried.is_set)
    applier.ask()
    applier.close()
    assert Path(asked.warehouse / "mart.duckdb").exists()
