"""One writer at a time: a lock on the warehouse that dies with its holder."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from flows.errors import NightfoldError

_POLL_SECONDS = 0.2


class WarehouseLocked(NightfoldError):
    """Another process writes to the warehouse."""


@contextmanager
def writer_lock(warehouse: Path, *, doing: str, wait_seconds: float, tell: Callable[[str], None]) -> Iterator[None]:
    """Holds the warehouse for one writer; waits up to `wait_seconds`, saying for whom, then WarehouseLocked.

    The kernel releases the lock when the process ends in any way, so a killed run leaves nothing to clean up. Child
    processes do not inherit it.
    """
    warehouse.mkdir(parents=True, exist_ok=True)
    path = warehouse / "writer.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline, told = time.monotonic() + wait_seconds, False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = _holder(path)
                if time.monotonic() >= deadline:
                    raise WarehouseLocked(
                        f"{warehouse}: {holder} holds the lock; wait for it, or stop it. "
                        "[warehouse] lock_wait_seconds sets how long a run waits by itself"
                    ) from None
                if not told:
                    tell(f"waiting up to {wait_seconds:g} s for {holder}")
                    told = True
                time.sleep(_POLL_SECONDS)
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({**me, "doing": doing}).encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _holder(path: Path) -> str:
    try:
        held = json.loads(path.read_text())
        return f"{held['doing']} (pid {held['pid']} on {held['host']}, since {held['since']})"
    except (OSError, ValueError, KeyError):
        return "another process"
