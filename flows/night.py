"""A night: the order of its stages, under the lock, from the sources to the mart. Who runs a stage is the caller's
choice; what it does is the same by hand and under Prefect."""

import json
import logging
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flows import mart
from flows.after import Morning, follow_metrics, leave_report, observed
from flows.apply_decisions import apply_outstanding
from flows.console import Progress
from flows.corpora import corpora_files
from flows.errors import NightfoldError, UnreadableSource
from flows.lock import writer_lock
from flows.log import log, log_chunks
from flows.night_stages import embed, exact, hash_, index, judge, legacy_rows, load, near, refresh_mart, write
from flows.peak_memory import peak_memory
from flows.plan import Pending, Plan, RunStage, Stage, StageReport, plain_call
from flows.run_rows import NOTHING_COUNTED, NothingPublished, run_id_at
from flows.settings import Settings
from flows.slices import about_slice
from flows.sources import find_sources
from flows.staging import Staging, drop_others, staging_name, staging_root
from flows.warehouse import Run, Warehouse
from schemas.contract import ContractBroken
from schemas.rows import ROWS
from schemas.tables import PUBLISHED_TABLES
from schemas.terms import FAILED, PUBLISHED, ROLLED_BACK, STORED_AS_NEW
from transforms.reconcile import DoesNotAddUp, check_reject_share, check_rows

_logger = logging.getLogger("nightfold.night")


@dataclass(frozen=True)
class Outcome:
    """What a night did, and left to look at. `seconds` has every stage, also those after the commit."""

    run: Run
    skipped: list[str]
    reasons: dict[str, int]
    tables: dict[str, int]
    seconds: dict[str, float]
    mart: Path | None
    morning: Morning = field(default_factory=Morning)
    legacy: dict[str, Any] = field(default_factory=dict)


def night(
    settings: Settings,
    *,
    progress: Progress,
    run_stage: RunStage = plain_call,
    dry_run: bool = False,
    pending: Pending = "new",
    legacy: Path | None = None,
) -> Outcome:
    """Runs the night. Afterwards it is published whole, or, with an error, not at all.

    Where `pending` is not "new", no input is read: chunks that are there are embedded, and joined. `legacy` is the
    folder of a slice of a legacy source, which is then the input.
    """
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="nightfold-dry-run-") as folder:
            try:
                return _rehearse(_planned(settings, Path(folder), legacy=legacy), progress, run_stage)
            except DoesNotAddUp as error:
                raise NothingPublished(str(error)) from error
    warehouse = Warehouse(settings.warehouse.path)
    what = "nightfold run" if legacy is None else "nightfold backfill"
    doing = f"{what} of {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    wait = settings.warehouse.lock_wait_seconds
    with (
        writer_lock(warehouse.folder, doing=doing, wait_seconds=wait, tell=progress.tell),
        observed(settings, warehouse, tell=progress.tell),
    ):
        # What people decided since the last run comes first, so that the night obeys.
        _obey(settings, warehouse, warehouse.begin(), progress)
        started_at, staging = datetime.now(UTC), None
        try:
            plan = _planned(settings, staging_root(settings.warehouse.staging, warehouse.folder), pending, legacy)
            started_at, staging = plan.started_at, Staging(plan.staging)
            drop_others(plan.staging.parent, keep=plan.staging.name)
            log("run.started", run_id=plan.run_id, pending=pending)
            for line in moved_walls(settings, plan.run_before):
                progress.tell(line)
            stages = _Stages(plan, progress, run_stage)
            published = _publish(plan, stages)
        except (NightfoldError, DoesNotAddUp, ContractBroken) as error:
            if staging is not None:
                staging.drop()
            warehouse.commit(_failed(settings, started_at, why=str(error)))
            # Whoever opens a table without asking `runs` for its version sees what is published.
            warehouse.begin()
            if isinstance(error, NightfoldError):
                raise
            raise NothingPublished(str(error)) from error
        try:
            stages.run("mart", refresh_mart)
            # Before older versions are pruned: it compares with them.
            morning = leave_report(settings, warehouse, published, tell=progress.tell)
        finally:
            warehouse.prune(keep_runs=settings.warehouse.keep_runs)
        outcome = _outcome(plan, published, stages.seconds, mart.mart_path(warehouse), morning)
        staging.drop()
        # And what they decided while it went on.
        _obey(settings, warehouse, published, progress)
        return outcome


def _obey(settings: Settings, warehouse: Warehouse, before: Run | None, progress: Progress) -> None:
    """Applies the decisions that are outstanding, in a run of their own. Where that fails they stay outstanding, and
    the night goes on: a decision is never lost, and a night never stands still for one."""
    try:
        applied = apply_outstanding(settings, warehouse, before)
    except Exception as error:
        # Whatever it is, a fault of ours included. What it wrote and did not publish must not become part of the night.
        published = warehouse.begin()
        _logger.debug("decisions", exc_info=True)
        why = str(error) if isinstance(error, NightfoldError) else f"{type(error).__name__}: {error}"
        log("decisions.failed", logging.WARNING, error=type(error).__name__)
        if published is not None and before is not None and published.run_id != before.run_id:
            progress.tell(f"decisions of reviewers were applied, and then: {why}")
        else:
            progress.tell(f"decisions of reviewers could not be applied and stay outstanding: {why}")
        return
    if applied:
        progress.tell(f"applied {applied:,} decision{'s' if applied > 1 else ''} of reviewers")


def _planned(settings: Settings, root: Path, pending: Pending = "new", legacy: Path | None = None) -> Plan:
    """The plan of tonight. Its staging is named after the program, the settings, the files and the run before it, so
    that a rerun of the same night finds what a crashed one left, and no other night does."""
    warehouse = Warehouse(settings.warehouse.path)
    before = warehouse.published()
    sources = find_sources(settings) if pending == "new" else []
    inputs: list[Any] = [_stamp(file.path) for source in sources for file in source.files]
    inputs += [_stamp(path) for path in corpora_files(settings)] if pending == "new" else []
    inputs += [about_slice(legacy)] if legacy is not None else []
    made_by = [version("nightfold"), *(str(contract.shape) for contract in (ROWS, *PUBLISHED_TABLES))]
    mine = [pending, settings.model_dump(mode="json"), inputs, before.run_id if before else None]
    identity = json.dumps([made_by, mine])
    staging = Staging(root / staging_name(identity))
    # A rerun keeps the moment and the id of the run it takes up: they stand in what was staged.
    begun = staging.run("begun", lambda _: {"started_at": datetime.now(UTC).isoformat()})[1]
    started_at = datetime.fromisoformat(begun["started_at"])
    before_id = before.run_id if before else None
    return Plan(settings, staging.folder, run_id_at(started_at), started_at, before_id, pending, legacy)


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        stat = path.stat()
    except OSError as error:
        raise UnreadableSource(f"{path}: gone since the folder was listed ({error.strerror}); run again") from error
    return str(path), stat.st_size, stat.st_mtime_ns


@dataclass
class _Stages:
    """Runs the stages of a plan, times them, and tells of each when it is done."""

    plan: Plan
    progress: Progress
    run_stage: RunStage
    seconds: dict[str, float] = field(default_factory=dict)
    peak_mib: dict[str, float] = field(default_factory=dict)

    def run(self, name: str, stage: Stage) -> StageReport:
        started = time.perf_counter()
        with self.progress.stage(name), peak_memory() as peak:
            report = self.run_stage(name, stage, self.plan, self.progress)
            self.peak_mib[name] = peak()
        # A stage times itself: what Prefect adds around it is not its own.
        self.seconds[name] = round(report.seconds or time.perf_counter() - started, 3)
        self.progress.done(name, report.rows_in, report.rows_out, self.seconds[name], reused=report.reused)
        self._log(name, report)
        return report

    def _log(self, name: str, report: StageReport) -> None:
        run_id, rows = self.plan.run_id, {"rows_in": report.rows_in, "rows_out": report.rows_out}
        spent = {"seconds": self.seconds[name], "peak_mib": self.peak_mib[name]}
        log("stage.done", run_id=run_id, stage=name, reused=report.reused, **rows, **spent)
        log_chunks(name, self.plan.staging, run_id=run_id)


def _publish(plan: Plan, stages: _Stages) -> Run:
    """The night up to its commit; afterwards readers of the tables see it."""
    stages.run("load", load)
    stages.run("hash", hash_)
    stages.run("exact", exact)
    if plan.legacy is not None:
        stages.run("legacy", legacy_rows)
    if plan.embeds:
        stages.run("embed", embed)
        if plan.vectors is not None:
            stages.run("index", index)
            stages.run("near", near)
            if plan.judges:
                stages.run("judge", judge)
    written = stages.run("write", write)
    published = _run_row(plan, stages, versions=written.versions)
    plan.warehouse.commit(published)
    counts = {name: getattr(published, name) for name in ("rows_in", "rows_rejected", "occurrences_new", "chunks_new")}
    log("run.published", run_id=plan.run_id, **counts, actions=published.actions, recall=published.recall_measured)
    return published


def _rehearse(plan: Plan, progress: Progress, run_stage: RunStage) -> Outcome:
    """The night up to what it would change, with nothing written but a temporary folder."""
    stages = _Stages(plan, progress, run_stage)
    stages.run("load", load)
    stages.run("hash", hash_)
    stages.run("exact", exact)
    if plan.legacy is not None:
        stages.run("legacy", legacy_rows)
    check_rows(plan.tally)
    guard, reasons = plan.settings.guard, plan.result("exact")["reasons"]
    if "max_reject_share" not in guard.allow:
        check_reject_share(plan.tally, reasons=reasons, limit=guard.max_reject_share)
    return _outcome(plan, _run_row(plan, stages, versions={}), stages.seconds, None)


def moved_walls(settings: Settings, before: Run | None) -> list[str]:
    """A line for each change since the run before that gives rows other chunks than they had."""
    if before is None:
        return []
    earlier = before.settings
    unchecked = {name for name, one in earlier.get("scopes", {}).items() if not one["dedup"]}
    lines = [
        f"[scopes.{scope!r}] dedup has changed: its rows are stored a second time where they come again"
        for scope in sorted(unchecked ^ set(settings.unchecked_scopes))
    ]
    if settings.scope.by != earlier.get("scope", {}).get("by", settings.scope.by):
        lines.append("[scope] by has changed: rows whose scope is another now are stored a second time")
    return lines


def _run_row(plan: Plan, stages: _Stages, *, versions: dict[str, int]) -> Run:
    tally, loaded = plan.tally, plan.result("load")
    skipped, notes = loaded["skipped"], [loaded["note"]] if "note" in loaded else []
    neighbours = _neighbours(plan) if versions else {}
    return Run(
        run_id=plan.run_id,
        started_at=plan.started_at,
        published_at=datetime.now(UTC),
        status=PUBLISHED,
        restores=None,
        rows_in=tally.rows_in,
        rows_rejected=tally.rows_rejected,
        occurrences_new=tally.occurrences_new,
        occurrences_known=tally.occurrences_known,
        chunks_new=tally.chunks_new,
        chunks_touched=tally.chunks_touched,
        actions=_actions(plan) if versions else {STORED_AS_NEW: tally.chunks_new},
        stage_seconds=dict(stages.seconds),
        recall_measured=neighbours.get("recall"),
        table_versions=versions,
        settings=plan.settings.model_dump(mode="json"),
        note="; ".join([*notes, *(f"skipped {line}" for line in skipped)]) or None,
        neighbours=neighbours,
        sources=plan.result("exact").get("sources", {}),
        stage_peak_mib=dict(stages.peak_mib),
        backfill=loaded.get("backfill"),
    )


def _actions(plan: Plan) -> dict[str, int]:
    """Tonight's chunks by what became of them: every new one, and known ones whose action is another now."""
    judged = plan.result("judge") if plan.judges else {}
    return {STORED_AS_NEW: plan.tally.chunks_new - judged.get("acted_new", 0), **judged.get("actions", {})}


def _neighbours(plan: Plan) -> dict[str, Any]:
    """What the run says of its vectors and pairs; the embedding in use stays on record while nothing replaces it."""
    before = plan.run_before
    in_use = {} if before is None else {name: before.neighbours.get(name) for name in ("embedding", "probes")}
    if plan.vectors is None:
        return in_use
    result, pairs = plan.result("embed"), plan.result("near")
    embedding = {name: result[name] for name in ("model", "version", "dimensions")}
    counts = {"embedded": result["embedded"], "failed": result["failed"]}
    probes = {**(in_use.get("probes") or {}), **pairs["probes"]}
    return {**pairs, **counts, "embedding": embedding, "probes": probes}


def _failed(settings: Settings, started_at: datetime, *, why: str) -> Run:
    return Run(
        run_id=run_id_at(started_at),
        started_at=started_at,
        published_at=None,
        status=FAILED,
        restores=None,
        **NOTHING_COUNTED,
        table_versions={},
        settings=settings.model_dump(mode="json"),
        note=why,
    )


def _outcome(
    plan: Plan, run: Run, seconds: dict[str, float], mart_file: Path | None, morning: Morning | None = None
) -> Outcome:
    exact_result = plan.result("exact")
    tables: dict[str, int] = {}
    if mart_file is not None:
        counts = plan.warehouse.rows()
        tables = {name: counts[name] for name in ("chunks", "occurrences", "canonicals", "pairs", "rejects")}
    legacy = plan.result("legacy") if plan.legacy is not None else {}
    return Outcome(
        run,
        plan.result("load")["skipped"],
        exact_result["reasons"],
        tables,
        seconds,
        mart_file,
        morning or Morning(),
        legacy,
    )


def rollback(settings: Settings, run_id: str, *, progress: Progress) -> Run:
    """Publishes an older run's versions again, as a new run; the mart follows."""
    warehouse = Warehouse(settings.warehouse.path)
    warehouse.run(run_id)  # a mistyped one is told before the lock makes a folder
    wait = settings.warehouse.lock_wait_seconds
    with writer_lock(warehouse.folder, doing="nightfold runs rollback", wait_seconds=wait, tell=progress.tell):
        target = warehouse.run(run_id)
        if not warehouse.can_restore(target):
            why = "it was never published" if not target.is_readable else "its versions have been pruned"
            raise NightfoldError(f"{target.run_id}: cannot go back to this run: {why}")
        now = datetime.now(UTC)
        run = replace(
            target,
            **NOTHING_COUNTED,
            run_id=run_id_at(now),
            started_at=now,
            published_at=now,
            status=ROLLED_BACK,
            restores=target.run_id,
            note=f"went back to {target.run_id}",
        )
        warehouse.commit(run)
        warehouse.begin()
        try:
            mart.refresh(warehouse, run, before=None, changes=[])
        finally:
            follow_metrics(settings, warehouse, tell=progress.tell)
        return run
