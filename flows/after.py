"""What a run leaves behind besides its tables: the report, the metrics, the log. None of it can undo a published run:
what goes wrong here is told, and the run stands."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from flows.errors import NightfoldError
from flows.log import log, log_failure, logged
from flows.settings import Settings
from flows.warehouse import Run, Warehouse

Tell = Callable[[str], None]
_logger = logging.getLogger("nightfold.after")


@dataclass(frozen=True)
class Morning:
    """What a run left to look at: the report, what changed since the last run by kind, and how many questions wait."""

    report: Path | None = None
    changed: dict[str, int] = field(default_factory=dict)
    waiting: int = 0


def leave_report(settings: Settings, warehouse: Warehouse, run: Run, *, tell: Tell) -> Morning:
    """Writes the report of a run that was just published; without one where that fails, or none is wanted."""
    from flows.report.facts import Facts  # noqa: PLC0415  a command that leaves no report need not load a plotting library
    from flows.report.file import write_report  # noqa: PLC0415

    morning = Morning()
    try:
        facts = Facts(warehouse, run, settings.report)
        morning = Morning(None, facts.since.counts, facts.open_questions)
        if settings.report.enabled:
            morning = Morning(write_report(facts), morning.changed, morning.waiting)
    except Exception as error:
        # Whatever it is, the run is published: a page about it must not make it look otherwise.
        _logger.debug("no report", exc_info=True)
        log("report.failed", logging.WARNING, run_id=run.run_id, error=type(error).__name__)
        tell(f"no report of run {run.run_id}: {_why(error)}; `nightfold report` makes it again")
    return morning


@contextmanager
def observed(settings: Settings, warehouse: Warehouse, *, tell: Tell) -> Iterator[None]:
    """Inside, a run is logged. At its end, however it ends, its metrics are written."""
    succeeded = False
    with logged(settings.log):
        try:
            yield
            succeeded = True
        except BaseException as error:
            log_failure(error)
            raise
        finally:
            _leave_metrics(settings, warehouse, succeeded=succeeded, tell=tell)


def follow_metrics(settings: Settings, warehouse: Warehouse, *, tell: Tell) -> None:
    """Brings the metrics to a run that is no night: decisions, an unmerge, a rollback."""
    _leave_metrics(settings, warehouse, succeeded=None, tell=tell)


def _leave_metrics(settings: Settings, warehouse: Warehouse, *, succeeded: bool | None, tell: Tell) -> None:
    from flows.metrics import metrics_path, refresh_metrics, write_metrics  # noqa: PLC0415

    if not settings.metrics.enabled:
        return
    path = metrics_path(settings.metrics, warehouse)
    try:
        if succeeded is None:
            refresh_metrics(path, warehouse)
        else:
            write_metrics(path, warehouse, succeeded=succeeded, ended_at=datetime.now(UTC))
    except Exception as error:
        # A full disk, or a fault of ours: what the run did stands all the same.
        _logger.debug("no metrics", exc_info=True)
        tell(f"{path}: the metrics were not written: {_why(error)}")


def _why(error: Exception) -> str:
    if isinstance(error, NightfoldError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
