"""Decisions are carried into the tables behind the page's back: soon after the last one, in a thread of their own."""

import logging
import sqlite3
import threading
import time

from flows.errors import NightfoldError
from flows.reviews import Reviews

_LOG = logging.getLogger("nightfold.review")
_QUIET_SECONDS = 1.0
_LONGEST_SECONDS = 10.0


class Applier:
    """Applies outstanding decisions once nobody has decided for a moment. While a run holds the lock they stay in the
    journal, and that run applies them."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews
        self._changed = threading.Condition()
        self._first_at: float | None = None
        self._last_at = 0.0
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="nightfold-apply", daemon=True)
        self._thread.start()
        # What an earlier page left behind.
        self.ask()

    def ask(self) -> None:
        """Something has been decided."""
        with self._changed:
            self._last_at = time.monotonic()
            self._first_at = self._first_at or self._last_at
            self._changed.notify()

    def close(self) -> None:
        """Applies what is left, and ends."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._is_due():
                    if self._is_closed:
                        return
                    self._changed.wait(None if self._first_at is None else _QUIET_SECONDS / 4)
                self._first_at = None
            self._apply()

    def _is_due(self) -> bool:
        if self._first_at is None:
            return False
        now = time.monotonic()
        return self._is_closed or now >= min(self._last_at + _QUIET_SECONDS, self._first_at + _LONGEST_SECONDS)

    def _apply(self) -> None:
        try:
            applied = self._reviews.apply_outstanding()
        except (NightfoldError, OSError, sqlite3.Error) as error:
            _LOG.warning("decisions are kept and wait to be applied: %s", error)
            return
        except Exception:  # noqa: BLE001  (a fault of ours must not end the thread: later decisions are tried again)
            _LOG.exception("decisions are kept and wait to be applied")
            return
        if applied is None:
            _LOG.info("a run holds the warehouse; it applies the decisions")
        elif applied:
            _LOG.info("%d applied", applied)
