"""One writer at a time: a lock on the warehouse that dies with its holder."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from flows.errors import NightfoldError

_POLL_SECONDS = 0.2
_held: set[int] = set()


class WarehouseLocked(NightfoldError):
    """Another process writes to the warehouse."""


def _let_go() -> None:
    """In a forked child: its copy of the descriptor would keep the lock alive after its parent."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


@contextmanager
def writer_lock(warehouse: Path, *, doing: str, wait_seconds: float, tell: Callable[[str], None]) -> Iterator[None]:
    """Holds the warehouse for one writer; waits up to `wait_seconds`, saying for whom, then WarehouseLocked.

    The kernel releases the lock when the process ends in any way, so a killed run leaves nothing to clean up. Child
    processes do not inherit it.
    """
    path = warehouse / "writer.lock"
    try:
        warehouse.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise NightfoldError(
            f"{warehouse}: cannot be written to: {error.strerror}; name a folder of yours with [warehouse] path "
            "or --warehouse"
        ) from None
    _held.add(descriptor)
    try:
        _acquire(descriptor, path, wait_seconds=wait_seconds, tell=tell)
        _sign(descriptor, doing)
        try:
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
    finally:
        # A forked child has let go already.
        if descriptor in _held:
            _held.remove(descriptor)
            os.close(descriptor)


def _acquire(descriptor: int, path: Path, *, wait_seconds: float, tell: Callable[[str], None]) -> None:
    deadline, told = time.monotonic() + wait_seconds, False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(path)
        else:
            return
        if time.monotonic() >= deadline:
            raise WarehouseLocked(
                f"{path.parent}: {holder} holds the lock; wait for it, or stop it. "
                "[warehouse] lock_wait_seconds sets how long a run waits by itself"
            )
        if not told:
            tell(f"waiting up to {wait_seconds:g} s for {holder}")
            told = True
        time.sleep(_POLL_SECONDS)


def _sign(descriptor: int, doing: str) -> None:
    """Who holds the lock, for those who wait. The lock is held without it too: a full disk must not hide its own
    message behind this one."""
    me = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "doing": doing,
    }
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(me).encode(), 0)


def _holder(path: Path) -> str:
    try:
        held = json.loads(path.read_text())
        return f"{held['doing']} (pid {held['pid']} on {held['host']}, since {held['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
