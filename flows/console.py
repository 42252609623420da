"""What a person sees while a run goes on: one line a stage, plain where there is no terminal."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.status import Status


@dataclass
class Progress:
    """Prints a line a stage; on a terminal, shows the stage that is under way."""

    console: Console = field(default_factory=lambda: Console(stderr=False, highlight=False, soft_wrap=True))
    quiet: bool = False
    _status: Status | None = None
    _last: float = 0.0

    def tell(self, line: str) -> None:
        """One line of plain words."""
        if not self.quiet:
            self.console.print(line, markup=False)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Shows the stage as under way on a terminal."""
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
        if self._status is not None:
            self._status.update(f"{stage:<9}{count:>12,} rows ...")

    def done(self, stage: str, rows_in: int, rows_out: int, seconds: float, *, reused: bool = False) -> None:
        """The line of a stage that is done: `exact      1,000,000 -> 812,345 rows   0.9 s`."""
        again = "   (done before, taken up)" if reused else ""
        self.tell(f"{stage:<9}{rows_in:>12,} -> {rows_out:,} rows   {seconds:.1f} s{again}")


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
