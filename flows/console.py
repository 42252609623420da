"""What a person sees while a run goes on: one line a stage, plain where there is no terminal."""

import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.status import Status


@dataclass
class Progress:
    """Prints a line a stage. On a terminal the stage under way has a live line with its rows so far; elsewhere it says
    so in a plain line every `plain_line_seconds`."""

    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True, emoji=False))
    quiet: bool = False
    plain_line_seconds: float = 30
    _status: Status | None = None
    _told_at: float = 0.0

    def tell(self, line: str) -> None:
        """One line of plain words, as it is."""
        if not self.quiet:
            self.console.print(line, markup=False)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Shows the stage as under way."""
        self._told_at = time.monotonic()
        if self.quiet or not self.console.is_terminal or threading.current_thread() is not threading.main_thread():
            yield
            return
        with self.console.status(f"{name} ...") as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None

    def rows(self, stage: str, count: int) -> None:
        """Moves the line of the stage that is under way."""
        line = f"{stage:<9}{count:>12,} rows ..."
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() - self._told_at >= self.plain_line_seconds:
            self.tell(line)
            self._told_at = time.monotonic()

    def done(self, stage: str, rows_in: int, rows_out: int, seconds: float, *, reused: bool = False) -> None:
        """The line of a stage that is done: `exact      1,000,000 -> 812,345 rows   0.9 s`."""
        again = "   (done before, taken up)" if reused else ""
        self.tell(f"{stage:<9}{rows_in:>12,} -> {rows_out:,} rows   {seconds:.1f} s{again}")


def in_columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """A line a row, its cells two blanks apart and each column as wide as its widest; `right` are the columns set
    flush right. Nothing is cut or wrapped, and no line ends in blanks."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def plain(text: str, *, most: int) -> str:
    """A text in one line of at most so many characters, without what a terminal would obey."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def is_terminal() -> bool:
    """Whether a person types and reads: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()
