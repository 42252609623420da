"""The flows under Prefect: `nightly`, one task a stage, and `rollback`. Tasks are given a plan (paths, ids, versions),
never frames. A fault with a known cause ends a run as Failed with its own line, and without a traceback."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from prefect import State, flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import deployment, flow_run
from prefect.states import Failed

from flows import night as nights
from flows.console import Progress
from flows.errors import NightfoldError
from flows.night import Outcome
from flows.plan import Plan, Stage, StageReport
from flows.settings import load_settings
from flows.summary import summary_markdown
from flows.warehouse import Run
from schemas.contract import ContractBroken
from transforms.reconcile import DoesNotAddUp

T = TypeVar("T")


def _is_unforeseen(record: logging.LogRecord) -> bool:
    """False for what Prefect logs of a fault with a known cause: it would be its traceback, beside its own line."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, NightfoldError | DoesNotAddUp | ContractBroken)


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_is_unforeseen)


@dataclass
class LoggedProgress(Progress):
    """Every line also in the log of the flow run. Where a worker runs it, the log is all there is: no terminal."""

    def tell(self, line: str) -> None:
        get_run_logger().info(line)
        super().tell(line)


def run_as_task(name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport:
    """Runs a stage as a Prefect task of its name."""
    as_task = task(name=name, task_run_name=name, cache_policy=NO_CACHE, persist_result=False)
    return as_task(stage)(plan, progress)


def _moment() -> str:
    """The name of a flow run: what it is, and since when."""
    what = "dry run" if flow_run.parameters.get("dry_run") else flow_run.flow_name
    return f"{what} {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


@flow(name="nightly", flow_run_name=_moment, persist_result=False)
def nightly(
    settings_file: str | None = None, over: dict[str, Any] | None = None, *, dry_run: bool = False
) -> Outcome | State[Any]:
    """Load, hash, fold exact duplicates, write, publish and refresh the mart; the summary becomes an artifact.

    Args:
        settings_file: The TOML file; nightfold.toml in the working folder where none is named.
        over: Settings that stand above the file and the environment, by section, as in
            {"warehouse": {"path": "out"}, "inputs": [{"path": "faq.csv", "scope": "acme"}]}.
        dry_run: Say what would happen; write nothing.
    """

    def work(progress: Progress) -> Outcome:
        settings = load_settings(None if settings_file is None else Path(settings_file), over=over)
        outcome = nights.night(settings, progress=progress, run_stage=run_as_task, dry_run=dry_run)
        key = "nightfold-dry-run" if dry_run else "nightfold-run"
        what = "What the night would do" if dry_run else "What the night did"
        create_markdown_artifact(summary_markdown(outcome), key=key, description=what)
        return outcome

    return _told(work)


@flow(name="rollback", flow_run_name=_moment, persist_result=False)
def rollback(run_id: str, settings_file: str | None = None, over: dict[str, Any] | None = None) -> Run | State[Any]:
    """Publish an older run again; the runs after it stay on record.

    Args:
        run_id: The run to go back to, or enough of its beginning, as `nightfold runs list` shows it.
        settings_file: The TOML file; nightfold.toml in the working folder where none is named.
        over: Settings that stand above the file and the environment, by section.
    """

    def work(progress: Progress) -> Run:
        settings = load_settings(None if settings_file is None else Path(settings_file), over=over)
        run = nights.rollback(settings, run_id, progress=progress)
        progress.tell(f"run {run.run_id} publishes run {run.restores} again; the mart shows it")
        return run

    return _told(work)


def _told(work: Callable[[Progress], T]) -> T | State[Any]:
    """The work's result; of a fault with a known cause, the Failed state that carries its line to Prefect.

    Who calls the flow gets the fault itself raised. Were it raised through the flow, Prefect would put words of its
    own before the line, and keep a pickle of the fault in its result storage.
    """
    try:
        return work(LoggedProgress(quiet=deployment.id is not None))
    except NightfoldError as error:
        get_run_logger().error(str(error))
        return Failed(message=str(error), data=error)
