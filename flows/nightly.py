"""The nightly flow under Prefect: one task a stage. Tasks are given a plan (paths, ids, versions), never frames."""

from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from flows.console import Progress
from flows.night import Outcome, Plan, Stage, StageReport, night
from flows.settings import Settings, load_settings
from flows.summary import summary_markdown


def run_as_task(name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport:
    """Runs a stage as a Prefect task of its name."""
    return task(name=name, cache_policy=NO_CACHE, persist_result=False)(stage)(plan, progress)


@flow(name="nightly", flow_run_name="nightly", persist_result=False, validate_parameters=False)
def nightly(settings_file: str | None = None, over: dict[str, Any] | None = None) -> Outcome:
    """Load, hash, fold exact duplicates, write, publish and refresh the mart; the summary becomes an artifact.

    Args:
        settings_file: the TOML file; `nightfold.toml` in the current folder where none is named.
        over: settings that stand above the file and the environment, by section.
    """
    settings: Settings = load_settings(None if settings_file is None else Path(settings_file), over=over)
    outcome = night(settings, progress=Progress(), run_stage=run_as_task)
    create_markdown_artifact(summary_markdown(outcome), key="nightfold-run", description="What the night did")
    return outcome
