"""A night: the order of its stages, under the lock, from the sources to the mart. Who runs a stage is the caller's
choice; what it does is the same by hand and under Prefect."""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

from flows import mart
from flows.after import Morning, follow_metrics, leave_report, observed
from flows.apply_decisions import apply_outstanding
from flows.console import Progress
from flows.corpora import corpora_files, load_corpora, told_of_corpora
from flows.embed import block_files, embed_chunks
from flows.errors import NightfoldError, UnreadableSource
from flows.judge import judge_night
from flows.known_files import KnownFiles, record_files
from flows.legacy import load_slice, place_legacy_rows
from flows.load import load_sources
from flows.lock import writer_lock
from flows.log import log, log_chunks
from flows.near import find_pairs
from flows.peak_memory import peak_memory
from flows.run_rows import NOTHING_COUNTED, NothingPublished, run_id_at
from flows.settings import Settings
from flows.slices import about_slice
from flows.sources import Source, find_sources
from flows.stages import changes_in, fold_exact, hash_rows, write_tables
from flows.staging import Staging, drop_others, staging_name, staging_root
from flows.vectors import Vectors
from flows.warehouse import Run, Warehouse
from schemas.contract import ContractBroken
from schemas.rows import ROWS
from schemas.tables import PUBLISHED_TABLES
from schemas.terms import FAILED, PUBLISHED, ROLLED_BACK, STORED_AS_NEW
from transforms.reconcile import DoesNotAddUp, Tally, check_reject_share, check_rows

_logger = logging.getLogger("nightfold.night")
# Which chunks are embedded: tonight's new ones; those without a vector as well; or all, into a new version.
Pending = Literal["new", "incomplete", "all"]


@dataclass(frozen=True)
class Plan:
    """What a stage needs to know of its night: where things are, and since when."""

    settings: Settings
    staging: Path
    run_id: str
    started_at: datetime
    before: str | None
    pending: Pending = "new"
    legacy: Path | None = None

    @property
    def embeds(self) -> bool:
        return self.settings.embedding.encoder != "none"

    @property
    def vectors(self) -> Vectors | None:
        """The table that tonight's vectors go to; None where there is none to write."""
        result = self.result("embed") if self.embeds else {}
        if not result.get("version") or result["model_changed"]:
            return None
        return Vectors(self.warehouse, result["version"], result["dimensions"])

    @property
    def vectors_in_use(self) -> Vectors | None:
        """The table of vectors that readers search after tonight; None where there is none."""
        if self.vectors is not None or self.run_before is None:
            return self.vectors
        embedding = self.run_before.neighbours.get("embedding") or {}
        if not embedding.get("version"):
            return None
        return Vectors(self.warehouse, embedding["version"], embedding["dimensions"])

    @property
    def judges(self) -> bool:
        return self.settings.judge.enabled and self.vectors is not None

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.warehouse.path)

    @property
    def run_before(self) -> Run | None:
        return None if self.before is None else self.warehouse.run(self.before)

    def result(self, stage: str) -> dict[str, Any]:
        """What a stage that is done has counted."""
        return Staging(self.staging).result(stage)

    @property
    def tally(self) -> Tally:
        return Tally(**self.result("exact")["tally"])


@dataclass(frozen=True)
class StageReport:
    """What a stage did, for its line and for `runs`."""

    rows_in: int
    rows_out: int
    reused: bool = False
    seconds: float = 0.0
    versions: dict[str, int] = field(default_factory=dict)


Stage = Callable[[Plan, Progress], StageReport]


class RunStage(Protocol):
    """Who runs a stage: this process by a plain call, or Prefect as a task."""

    def __call__(self, name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport: ...


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


def plain_call(name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport:
    """Runs a stage here and now."""
    return stage(plan, progress)


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


@contextmanager
def _clock() -> Iterator[Callable[[], float]]:
    started = time.perf_counter()
    yield lambda: time.perf_counter() - started


def load(plan: Plan, progress: Progress) -> StageReport:
    """Sources into rows and rejects."""
    with _clock() as elapsed:
        tell_rows = lambda count: progress.rows("load", count)  # noqa: E731
        slice_folder = plan.legacy
        reads_input = plan.pending == "new"
        sources = find_sources(plan.settings) if reads_input and slice_folder is None else []
        _, result, reused = Staging(plan.staging).run(
            "load",
            lambda folder: (
                load_sources(
                    sources,
                    plan.settings,
                    folder,
                    tell_rows=tell_rows,
                    corpora=load_corpora(plan.settings, folder) if reads_input else None,
                    known=_known_files(plan, sources),
                )
                if slice_folder is None
                else load_slice(slice_folder, folder, warehouse=plan.warehouse, run=plan.run_before)
            ),
        )
        for line in told_of_corpora(plan.staging / "load", plan.warehouse, plan.run_before, plan.settings):
            progress.tell(line)
        if files := result.get("known_files"):
            progress.tell(f"{files:,} file{'s' * (files > 1)} known by their bytes: not parsed")
        return StageReport(result["rows_in"], result["rows"], reused, elapsed())


def _known_files(plan: Plan, sources: list[Source]) -> KnownFiles | None:
    """What documents became before; None where nobody is to ask, or there are none."""
    has_documents = any(file.format == "documents" for source in sources for file in source.files)
    if not (has_documents and plan.settings.load.known_files):
        return None
    return KnownFiles(plan.warehouse, plan.run_before, sources)


def hash_(plan: Plan, progress: Progress) -> StageReport:
    """Rows normalized and hashed."""
    with _clock() as elapsed:
        loaded = plan.result("load")
        _, _, reused = Staging(plan.staging).run(
            "hash",
            lambda folder: hash_rows(
                plan.staging / "load",
                folder,
                settings=plan.settings,
                kinds=loaded["kinds"],
                started_at=plan.started_at,
            ),
        )
        return StageReport(loaded["rows"], loaded["rows"], reused, elapsed())


def exact(plan: Plan, progress: Progress) -> StageReport:
    """Rows grouped by content, and set against what the warehouse knows."""
    with _clock() as elapsed:
        loaded = plan.result("load")
        _, result, reused = Staging(plan.staging).run(
            "exact",
            lambda folder: fold_exact(
                plan.staging / "load",
                plan.staging / "hash",
                folder,
                rows_in=loaded["rows_in"],
                warehouse=plan.warehouse,
                run=plan.run_before,
                run_id=plan.run_id,
            ),
        )
        if "known_files" in loaded:
            Staging(plan.staging).run(
                "files",
                lambda folder: record_files(
                    plan.staging, folder, warehouse=plan.warehouse, run=plan.run_before, run_id=plan.run_id
                ),
            )
        tally = result["tally"]
        return StageReport(loaded["rows"], tally["chunks_new"] + tally["chunks_touched"], reused, elapsed())


def legacy_rows(plan: Plan, progress: Progress) -> StageReport:
    """The rows of a legacy source under their old ids, and the embeddings they brought."""
    with _clock() as elapsed:
        slice_folder = plan.legacy
        assert slice_folder is not None  # the stage runs where there is a slice
        _, result, reused = Staging(plan.staging).run(
            "legacy",
            lambda folder: place_legacy_rows(
                slice_folder,
                plan.staging,
                folder,
                warehouse=plan.warehouse,
                run=plan.run_before,
                run_id=plan.run_id,
                tally=plan.tally,
            ),
        )
        return StageReport(plan.result("load")["rows"], result["vectors"], reused, elapsed())


def embed(plan: Plan, progress: Progress) -> StageReport:
    """A vector for every new chunk that has a text."""
    with _clock() as elapsed:
        tell_rows = lambda count: progress.rows("embed", count)  # noqa: E731
        _, result, reused = Staging(plan.staging).run(
            "embed",
            lambda folder: embed_chunks(
                plan.staging / "exact" / "chunks.parquet",
                folder,
                blocks=plan.staging / "blocks",
                warehouse=plan.warehouse,
                run=plan.run_before,
                pending=plan.pending,
                given=plan.staging / "legacy" / "vectors.parquet",
                settings=plan.settings.embedding,
                tell=progress.tell,
                tell_rows=tell_rows,
            ),
        )
        if result["model_changed"]:
            progress.tell(
                "[embedding] has another model than the vectors in use: new chunks wait for theirs; "
                "`nightfold backfill --embeddings` embeds all of them with the new one"
            )
        elif result["failed"]:
            progress.tell(f"{result['failed']:,} chunks have no vector yet; `nightfold retry` takes them up again")
        return StageReport(result["embedded"] + result["failed"], result["embedded"], reused, elapsed())


def index(plan: Plan, progress: Progress) -> StageReport:
    """Tonight's vectors into their table, and its index kept current; not yet published."""
    with _clock() as elapsed:
        vectors = plan.vectors
        assert vectors is not None  # the stage runs where there is a table to write
        vectors.replace_unpublished(block_files(plan.staging / "blocks"), run=plan.run_before)
        vectors.tend_index(from_rows=plan.settings.neighbours.exact_up_to_rows)
        return StageReport(plan.result("embed")["embedded"], vectors.rows(), seconds=elapsed())


def near(plan: Plan, progress: Progress) -> StageReport:
    """The candidate pairs of tonight's chunks, inside their scopes."""
    with _clock() as elapsed:
        vectors = plan.vectors
        assert vectors is not None  # the stage runs where there is a table to write
        tell_rows = lambda count: progress.rows("near", count)  # noqa: E731
        _, result, reused = Staging(plan.staging).run(
            "near",
            lambda folder: find_pairs(
                block_files(plan.staging / "blocks"),
                folder,
                vectors=vectors,
                warehouse=plan.warehouse,
                run=plan.run_before,
                run_id=plan.run_id,
                anew=plan.pending == "all",
                unchecked_scopes=plan.settings.unchecked_scopes,
                settings=plan.settings.neighbours,
                tell_rows=tell_rows,
            ),
        )
        recall, wanted = result["recall"], plan.settings.neighbours.recall_min
        if recall is not None and recall < wanted:
            progress.tell(f"the join found {recall:.1%} of the true pairs, below [neighbours] recall_min = {wanted}")
        return StageReport(plan.result("embed")["embedded"], result["added"], reused, elapsed())


def judge(plan: Plan, progress: Progress) -> StageReport:
    """What each candidate pair is, and the groups that come of it."""
    with _clock() as elapsed:
        tell_rows = lambda count: progress.rows("judge", count)  # noqa: E731
        _, result, reused = Staging(plan.staging).run(
            "judge",
            lambda folder: judge_night(
                plan.staging,
                folder,
                slices=plan.staging / "verdicts",
                warehouse=plan.warehouse,
                run=plan.run_before,
                run_id=plan.run_id,
                started_at=plan.started_at,
                settings=plan.settings,
                tell=progress.tell,
                tell_rows=tell_rows,
            ),
        )
        return StageReport(result["judged"], result["merged"], reused, elapsed())


def write(plan: Plan, progress: Progress) -> StageReport:
    """The night's changes into the tables, checked; not yet published."""
    with _clock() as elapsed:
        tally = plan.tally
        versions = write_tables(
            plan.staging,
            warehouse=plan.warehouse,
            tally=tally,
            reasons=plan.result("exact")["reasons"],
            settings=plan.settings,
            vectors=plan.vectors,
            in_use=plan.vectors_in_use,
            run_id=plan.run_id,
            reads_input=plan.pending == "new" and plan.legacy is None,
        )
        rows_in = tally.occurrences_new + tally.occurrences_known
        return StageReport(rows_in, tally.chunks_new, seconds=elapsed(), versions=versions)


def refresh_mart(plan: Plan, progress: Progress) -> StageReport:
    """The mart brought to the published run."""
    with _clock() as elapsed:
        warehouse = plan.warehouse
        published = warehouse.published()
        if published is None:
            raise NightfoldError(f"{warehouse.location}: no run is published; there is nothing to show")
        mart.refresh(warehouse, published, before=plan.run_before, changes=changes_in(plan.staging))
        tally = plan.tally
        return StageReport(tally.chunks_new + tally.chunks_touched, tally.chunks_new, seconds=elapsed())


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
