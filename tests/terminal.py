"""A terminal for tests: a command at the far end of a pty, what it shows, and keys to press."""

import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path
from types import TracebackType

NIGHTFOLD = str(Path(sys.executable).with_name("nightfold"))
CTRL_C, CTRL_D = "\x03", "\x04"
_PATIENCE_SECONDS = 45


class Terminal:
    """`nightfold` on a terminal of its own. Use as a context: it is closed, and the command ended, at the end."""

    def __init__(self, *arguments: str, folder: Path, columns: int = 80) -> None:
        self._near, far = pty.openpty()
        ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        # A session of its own, with this terminal as the one that Ctrl-C comes from.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _AT_TERMINAL, NIGHTFOLD, *arguments],
            cwd=folder,
            stdin=far,
            stdout=far,
            stderr=far,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "", "LINES": ""},
            start_new_session=True,
        )
        os.close(far)
        self.shown = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._near)

    def press(self, keys: str) -> None:
        os.write(self._near, keys.encode())

    def read_to(self, text: str) -> str:
        """What is shown up to and with the text, since the last time."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.shown!r}"
            assert self._read(), f"{text!r} is not in {self.shown!r}, and the command has ended"
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def read_all(self) -> tuple[str, int]:
        """The rest of what is shown, and the exit code."""
        while self._read():
            pass
        return self.shown, self._process.wait(_PATIENCE_SECONDS)

    def _read(self) -> bool:
        if not select.select([self._near], [], [], _PATIENCE_SECONDS)[0]:
            return False
        try:
            got = os.read(self._near, 65536)
        except OSError:  # the far end is closed
            return False
        self.shown += got.decode(errors="replace").replace("\r\n", "\n")
        return bool(got)


_AT_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
