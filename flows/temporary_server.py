"""Prefect's API for a run by hand, where no server is configured: on loopback, and gone when the run is.

Prefect would start one by itself, but as a part of the terminal's job: Ctrl-C would stop it before the run could tell
it so, and a killed run would leave it behind for ever.
"""

import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import uvicorn
from prefect.context import refresh_global_settings_context
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker

from flows.errors import NightfoldError

_STOP_SECONDS = 10


class NoServer(NightfoldError):
    """Prefect's temporary server did not start."""


@contextmanager
def temporary_server(*, start_seconds: float) -> Iterator[str]:
    """The URL of an API that all of this process uses, and that lives as long as the block; at the longest as long as
    this process, however it ends."""
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(
            # -P: a folder `flows` of the user's own is not ours.
            [sys.executable, "-P", "-m", "flows.temporary_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        )
        try:
            url = _url_of(server, said, start_seconds=start_seconds)
            with _used(url):
                yield url
        finally:
            _stop(server)


def _url_of(server: subprocess.Popen[str], said: IO[str], *, start_seconds: float) -> str:
    """What the server says when it is ready."""
    assert server.stdout is not None
    ready, _, _ = select.select([server.stdout], [], [], start_seconds)
    url = server.stdout.readline().strip() if ready else ""
    if url:
        return url
    said.seek(0)
    why = next((line.strip() for line in reversed(said.readlines()) if line.strip()), "it gave no reason")
    when = "ended before it was ready" if ready else f"was not ready after {start_seconds:g} s"
    raise NoServer(f"Prefect's temporary server {when}: {why}; mend that, or run with --direct")


@contextmanager
def _used(url: str) -> Iterator[None]:
    """Makes this process talk to that API, its threads included."""
    os.environ["PREFECT_API_URL"] = url
    refresh_global_settings_context()
    try:
        yield
    finally:
        # Logs and task states are sent from threads: what they still have must reach the server before it goes.
        APILogWorker.drain_all(timeout=_STOP_SECONDS)
        EventsWorker.drain_all(timeout=_STOP_SECONDS)
        del os.environ["PREFECT_API_URL"]
        refresh_global_settings_context()


def _stop(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.close()
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    server.stdout.close()


def _serve() -> None:
    """The server's own process: says its URL when it is ready, and ends when its standard input does."""
    ready: list[uvicorn.Server] = []
    threading.Thread(target=_live_with_parent, args=(ready,), daemon=True).start()
    # Takes seconds, and only this process needs it.
    from prefect.server.api.server import create_app  # noqa: PLC0415

    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
    app = create_app(ephemeral=True, final=True)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready.append(self)
                print(url, flush=True)
                os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=2)).run([listener])


def _live_with_parent(ready: list[uvicorn.Server]) -> None:
    with suppress(OSError):
        sys.stdin.read()
    if not ready:
        os._exit(0)
    # What it was told last is still on its way to the database.
    ready[0].should_exit = True


if __name__ == "__main__":
    _serve()
