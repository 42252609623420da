"""Reports as files: one a run in the warehouse's folder, and the latest beside them."""

import re
from pathlib import Path

from blake3 import blake3

from flows.atomic_file import write_whole
from flows.errors import NightfoldError
from flows.report.facts import Facts
from flows.report.page import report_html
from flows.settings import Settings
from flows.warehouse import Run, Warehouse

LATEST = "latest.html"
_OF_A_RUN = re.compile(r"\d{8}T\d{6}\.\d{6}Z(-[0-9a-f]{8})?\.html")


class NoReport(NightfoldError):
    """A run of which no report can be made."""


def reports_folder(warehouse: Warehouse) -> Path:
    return warehouse.folder / "reports"


def write_report(facts: Facts, out: Path | None = None) -> Path:
    """Writes the page to its place, or to `out`; returns the file. That of the run that readers see is also `latest`,
    and those of more runs than the settings keep are dropped."""
    page = report_html(facts)
    if out is not None:
        write_whole(out, page)
        return out
    folder = reports_folder(facts.warehouse)
    # A scope may hold what no file name can; and one's report must not take the place of the whole one.
    of_scope = "" if facts.scope is None else f"-{blake3(facts.scope.encode()).hexdigest()[:8]}"
    path = folder / f"{facts.run.run_id}{of_scope}.html"
    write_whole(path, page)
    published = facts.warehouse.published()
    if facts.scope is None and published is not None and published.run_id == facts.run.run_id:
        write_whole(folder / LATEST, page)
    _drop_old(folder, keep=facts.settings.keep)
    return path


def _drop_old(folder: Path, *, keep: int) -> None:
    ours = sorted(path.name for path in folder.iterdir() if _OF_A_RUN.fullmatch(path.name))
    kept = set(sorted({name[:23] for name in ours})[-keep:])
    for name in ours:
        if name[:23] not in kept:
            (folder / name).unlink(missing_ok=True)


def facts_of(settings: Settings, run_id: str | None, *, scope: str | None = None) -> Facts:
    """The facts of a run on record, the one that readers see where none is named."""
    warehouse = Warehouse(settings.warehouse.path)
    run = _run(warehouse, run_id)
    if not run.is_readable:
        raise NoReport(
            f"{run.run_id}: this run published nothing ({run.status}); `nightfold runs list` shows which did"
        )
    if not warehouse.can_restore(run):
        raise NoReport(
            f"{run.run_id}: the versions of this run have been pruned; [warehouse] keep_runs says for how many runs "
            "they are kept"
        )
    facts = Facts(warehouse, run, settings.report, scope)
    if scope is not None and not facts.since.chunks.height:
        raise NoReport(f"--scope {scope!r}: run {run.run_id} has no chunk in this scope")
    return facts


def _run(warehouse: Warehouse, run_id: str | None) -> Run:
    if run_id is not None:
        return warehouse.run(run_id)
    published = warehouse.published()
    if published is None:
        raise NoReport(f"{warehouse.location}: no run is published; `nightfold run` makes the first")
    return published
