"""One writer at a time, seen from real processes."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows import lock
from flows.errors import NightfoldError
from flows.lock import WarehouseLocked, writer_lock

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from flows.lock import writer_lock

with writer_lock(Path(sys.argv[1]), doing="the other night", wait_seconds=0, tell=print):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_POLL_SECONDS", 0.01)


@contextmanager
def held_by_another(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it reads a line, or is killed."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def let_go(other: subprocess.Popen[str]) -> None:
    assert other.stdin is not None
    other.stdin.write("\n")
    other.stdin.flush()


def take(folder: Path, *, wait_seconds: float = 0) -> list[str]:
    """Takes the lock and gives it back; what was told meanwhile."""
    told: list[str] = []
    with writer_lock(folder, doing="this night", wait_seconds=wait_seconds, tell=told.append):
        return told


def test_a_free_lock_is_taken_without_a_word_again_and_again(tmp_path: Path) -> None:
    assert take(tmp_path / "made" / "on the way") == []
    assert take(tmp_path / "made" / "on the way") == []


def test_a_second_process_waits_is_told_for_whom_and_then_gets_it(tmp_path: Path) -> None:
    told: list[str] = []
    with held_by_another(tmp_path) as other:

        def tell(line: str) -> None:
            told.append(line)
            let_go(other)

        with writer_lock(tmp_path, doing="this night", wait_seconds=60, tell=tell):
            assert other.wait() == 0
    assert len(told) == 1
    assert told[0].startswith(f"waiting up to 60 s for the other night (pid {other.pid} on ")


def test_a_second_process_gives_up_and_names_the_holder(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as other:
        with pytest.raises(WarehouseLocked) as refused:
            take(tmp_path, wait_seconds=0.05)
        # The one that gave up has not taken the holder's name off the lock.
        with pytest.raises(WarehouseLocked, match="the other night"):
            take(tmp_path)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path}: the other night (pid {other.pid} on ")
    assert "lock_wait_seconds" in message
    assert "\n" not in message


def test_the_lock_dies_with_a_killed_holder(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert take(tmp_path) == []


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writer_lock(tmp_path, doing="a", wait_seconds=0, tell=print):
        raise ZeroDivisionError
    assert take(tmp_path) == []
    assert (tmp_path / "writer.lock").read_text() == ""


def test_threads_of_one_process_keep_each_other_out(tmp_path: Path) -> None:
    inside, most, rounds = 0, 0, []

    def work() -> None:
        nonlocal inside, most
        with writer_lock(tmp_path, doing="a thread", wait_seconds=60, tell=lambda _: None):
            inside += 1
            most = max(most, inside)
            rounds.append(inside)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(rounds) == 8


def test_a_program_started_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    with writer_lock(tmp_path, doing="a parent", wait_seconds=0, tell=print):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        assert take(tmp_path) == []
    finally:
        child.kill()
        child.wait()


def test_a_forked_child_does_not_keep_the_lock_and_does_not_break_it(tmp_path: Path) -> None:
    # The fork is of a process of one thread: this one has threads, and forking those is another trouble.
    code = """
import os, sys, time
from pathlib import Path
from flows.lock import WarehouseLocked, writer_lock

folder = Path(sys.argv[1])
try:
    with writer_lock(folder, doing="a parent", wait_seconds=0, tell=print):
        child = os.fork()
        if child == 0:
            raise KeyboardInterrupt
        os.waitpid(child, 0)
        survivor = os.fork()
        if survivor == 0:
            time.sleep(5)
            os._exit(0)
        try:
            with writer_lock(folder, doing="another", wait_seconds=0, tell=print):
                print("broken")
        except WarehouseLocked:
            print("still held")
    with writer_lock(folder, doing="another", wait_seconds=0, tell=print):
        print("free")
    os.kill(survivor, 9)
except KeyboardInterrupt:
    os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.split("\n") == ["still held", "free", ""]


@pytest.mark.parametrize("written", ["", "not json", "[]", "7", '{"pid": 1}'])
def test_a_holder_that_left_no_name_is_another_process(tmp_path: Path, written: str) -> None:
    with writer_lock(tmp_path, doing="a", wait_seconds=0, tell=print):
        (tmp_path / "writer.lock").write_text(written)
        with pytest.raises(WarehouseLocked, match=f"^{tmp_path}: another process holds the lock"):
            take(tmp_path)


def test_the_lock_says_who_holds_it(tmp_path: Path) -> None:
    with writer_lock(tmp_path, doing="this night", wait_seconds=0, tell=print):
        held = json.loads((tmp_path / "writer.lock").read_text())
    assert (held["pid"], held["doing"]) == (os.getpid(), "this night")


@pytest.mark.parametrize("path", ["a file", "a file/below it", "/proc/no/such/place", "a lock that is a folder"])
def test_a_warehouse_that_cannot_be_written_to_is_told_in_one_line(tmp_path: Path, path: str) -> None:
    (tmp_path / "a file").write_text("")
    (tmp_path / "a lock that is a folder" / "writer.lock").mkdir(parents=True)
    with pytest.raises(NightfoldError) as refused:
        take(tmp_path / path)
    message = str(refused.value)
    assert message.startswith(f"{tmp_path / path}: cannot be written to: ")
    assert "--warehouse" in message
    assert "\n" not in message


def test_a_full_disk_does_not_stop_the_lock(tmp_path: Path) -> None:
    (tmp_path / "writer.lock").symlink_to("/dev/full")
    assert take(tmp_path) == []
