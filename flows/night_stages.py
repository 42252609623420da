"""The stages of a night: each runs its work once, tells what is to be told, and reports."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flows import mart
from flows.console import Progress
from flows.corpora import load_corpora, told_of_corpora
from flows.embed import block_files, embed_chunks
from flows.errors import NightfoldError
from flows.judge import judge_night
from flows.known_files import KnownFiles, record_files
from flows.legacy import load_slice, place_legacy_rows
from flows.load import load_sources
from flows.near import find_pairs
from flows.plan import Plan, StageReport
from flows.sources import Source, find_sources
from flows.stages import changes_in, fold_exact, hash_rows, write_tables
from flows.staging import Staging


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
