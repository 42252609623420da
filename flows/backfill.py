"""Backfill: the rows of a legacy system brought in slice by slice, each slice a run of its own."""

import json
import shutil
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from flows.console import Progress
from flows.encoders import open_encoder
from flows.errors import NightfoldError, UnreadableSource
from flows.legacy import found_of, is_in
from flows.lock import WarehouseLocked, writer_lock
from flows.night import Outcome, night
from flows.readers import read
from flows.run_rows import NothingPublished
from flows.settings import InputSettings, Settings
from flows.slices import Cut, Legacy, Slice, cut_source, drop_slice, identity_of, unreadable
from flows.sources import Source, find_sources
from flows.staging import staging_name, staging_root
from flows.updates import Emitted, Target, check_folder, emit_updates
from flows.warehouse import Warehouse
from schemas.rows import ROWS
from transforms.legacy import Shape, UnknownShape, shape_of, usual_columns

# Long enough for a run that waits for the lock to see that it is free.
_LET_IN_SECONDS = 0.5
_ONE_SLICE = 2**62
# Which setting names the column of each role.
_COLUMN_SETTINGS = {
    "text": "text_column",
    "id": "id_column",
    "doc_id": "doc_id_column",
    "seen_at": "seen_at_column",
    "hash": "hash_column",
    "embedding": "embedding_column",
    "model": "model_column",
}


@dataclass(frozen=True)
class Told:
    """A legacy source as it will be read: its shape with the columns that told it, and the column of each role."""

    settings: Settings
    source: Source
    shape: Shape
    by: list[str]
    columns: dict[str, str]
    scope_columns: tuple[str, ...]

    @property
    def line(self) -> str:
        """What it was taken for, and why."""
        why = f" (by {', '.join(self.by)})" if self.by else ""
        columns = ", ".join(f"{role} {name}" for role, name in self.columns.items())
        return f"{self.source.name}: read as {self.shape.name}{why}; columns: {columns}"


@dataclass
class Done:
    """What a backfill did, in this call."""

    told: Told
    rows_read: int = 0
    rows_new: int = 0
    rows_known: int = 0
    chunks_new: int = 0
    runs: list[str] = field(default_factory=list)
    slices_skipped: int = 0
    found: dict[str, dict[str, int]] = field(default_factory=dict)
    rejects: int = 0
    emitted: Emitted | None = None


def told_source(settings: Settings) -> Told:
    """The one input of the settings as a legacy source, or an error that says which columns there are."""
    (given,) = settings.inputs
    (source,) = find_sources(settings)
    refused = unreadable(source)
    if refused is not None:
        raise refused
    asked, first = settings.backfill, source.files[0]
    with closing(read(first, given=given, load=settings.load)) as batches:  # type: ignore[type-var]
        columns = next(batches).rows.columns
    try:
        shape, by = shape_of(columns, asked.shape)
    except UnknownShape as error:
        raise UnreadableSource(f"{first.path}: {error}") from None
    found = usual_columns(shape, columns)
    named = {role: getattr(asked, name) for role, name in _COLUMN_SETTINGS.items()}
    for role, name in named.items():
        if name is not None and name not in columns:
            raise UnreadableSource(
                f"{first.path}: no column {name!r} for {role} ([backfill] {_COLUMN_SETTINGS[role]}); "
                f"there are {', '.join(columns)}"
            )
    found |= {role: name for role, name in named.items() if name is not None}
    scope_by = asked.scope_by or ([found["scope"]] if "scope" in found else None)
    one_input = InputSettings(
        **given.model_dump(exclude={"kind", "scope_by", "chunk", "name"}, exclude_none=True)
        | {f"{role}_column": found.get(role) for role in ("text", "id", "doc_id", "seen_at")},
        name=source.name,
        kind="memory" if shape.kind == "memory" else "text",
        scope_by=None if given.scope is not None else scope_by,
        chunk=True if shape.is_cut else None,
    )
    wall = tuple(scope_by or settings.scope.by)
    of_columns = given.scope is None and set(wall) <= set(columns)
    settings = settings.model_copy(update={"inputs": [one_input]})
    (source,) = find_sources(settings)
    ordered = {role: found[role] for role in ("id", *_COLUMN_SETTINGS) if role in found}
    return Told(settings, source, shape, by, ordered, wall if of_columns else ())


def rehearse(settings: Settings, *, progress: Progress) -> tuple[Told, Cut, Outcome]:
    """What a backfill would do, with nothing written but a temporary folder."""
    told = told_source(settings)
    with tempfile.TemporaryDirectory(prefix="nightfold-dry-run-") as folder:
        cut = _cut(told, Path(folder), slice_rows=_ONE_SLICE, progress=progress)
        settings = _checked(told, cut)
        (everything,) = cut.slices
        outcome = night(settings, progress=_OfSlice.of(progress), dry_run=True, legacy=everything.folder)
        return told, cut, outcome


def backfill(settings: Settings, *, progress: Progress, emit: Path | None = None, table: str | None = None) -> Done:
    """Brings the rows of the one input in, slice by slice, from the first that is not in yet. Each slice is published
    as a run of its own, and between two of them another run can go. With `emit`, the updates for the legacy system are
    then written to that folder."""
    told = told_source(settings)
    if emit is not None:
        check_folder(emit)
        if "id" not in told.columns:
            raise NightfoldError(
                f"{told.source.name}: has no column of ids, so that no update could name a row; name one with "
                "--id-column, or leave out --emit-updates"
            )
    warehouse = Warehouse(settings.warehouse.path)
    done = Done(told)
    root = staging_root(settings.warehouse.staging, warehouse.folder)
    folder = root / f"backfill-{staging_name(told.source.name)}"
    doing = f"nightfold backfill of {told.source.name}"
    with writer_lock(folder, doing=doing, wait_seconds=0, tell=progress.tell):
        cut = _cut(told, folder, slice_rows=settings.backfill.slice_rows, progress=progress)
        if not cut.is_true_of(warehouse.standing()):
            progress.tell(f"{told.source.name}: slices of it are in no longer, after a rollback: it is cut anew")
            shutil.rmtree(folder / "cut", ignore_errors=True)
            cut = _cut(told, folder, slice_rows=settings.backfill.slice_rows, progress=progress)
        _bring_in(cut, done, _checked(told, cut), progress=progress)
        is_whole = cut.is_true_of(warehouse.standing())
        shutil.rmtree(folder, ignore_errors=True)
        if not is_whole:
            raise NightfoldError(
                f"{told.source.name}: a rollback took slices of it away while others came in; the same command brings "
                "in what is missing"
            )
    run = warehouse.published()
    done.found = found_of(told.source.name, warehouse=warehouse, run=run)
    if emit is not None:
        given = told.settings.inputs[0]
        target = Target(
            table=table or given.table or told.shape.name,
            id_column=told.columns["id"],
            scope_columns=told.scope_columns,
            files=tuple(file.name for file in told.source.files),
        )
        done.emitted = emit_updates(emit, warehouse=warehouse, source=told.source.name, target=target)
    return done


def _cut(told: Told, folder: Path, *, slice_rows: int, progress: Progress) -> Cut:
    """The source in slices; those of an earlier call, where they are of the same source and settings."""
    settings, tell = told.settings, progress.tell
    encoder = open_encoder(settings.embedding, tell=tell)
    legacy = Legacy(
        shape=told.shape.name,
        is_cut=told.shape.is_cut,
        hash_column=told.columns.get("hash"),
        embedding_column=told.columns.get("embedding"),
        model_column=told.columns.get("model"),
        stated_model=settings.backfill.embedding_model,
        model=None if encoder is None else encoder.model,
        dimensions=1 if encoder is None else encoder.dimensions,
    )
    parts = ("scope", "scopes", "load", "chunking", "inputs")
    asked = [version("nightfold"), str(ROWS.shape), asdict(legacy), slice_rows]
    asked += [settings.model_dump(mode="json", include=set(parts))]
    files = [[str(file.path), *_stamp(file.path)] for file in told.source.files]
    identity = json.dumps({"asked": staging_name(json.dumps(asked)), "files": files})
    before = identity_of(folder)
    if before is not None and before != identity:
        what = "settings" if json.loads(before)["files"] == files else "source"
        tell(
            f"{told.source.name}: the {what} changed since a backfill of it was begun: it is cut anew, and rows that "
            "are in already are skipped"
        )
        shutil.rmtree(folder / "cut", ignore_errors=True)
    with progress.stage("cut"):
        started = time.perf_counter()
        cut = cut_source(
            told.source,
            settings,
            legacy,
            folder,
            identity=identity,
            slice_rows=slice_rows,
            tell_rows=lambda count: progress.rows("cut", count),
        )
    progress.done("cut", cut.counts["rows_read"], sum(one.rows for one in cut.slices), time.perf_counter() - started)
    return cut


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@dataclass
class _OfSlice(Progress):
    """Tells what a run tells, but for a line a stage: there is a line a slice."""

    @classmethod
    def of(cls, progress: Progress) -> "_OfSlice":
        return cls(console=progress.console, quiet=progress.quiet)

    def done(self, stage: str, rows_in: int, rows_out: int, seconds: float, *, reused: bool = False) -> None:
        pass


def _checked(told: Told, cut: Cut) -> Settings:
    """The settings of each slice. The share of rejects is that of the whole source: a slice may have nothing left but
    its rejects."""
    guard, refused = told.settings.guard, sum(one.rejects for one in cut.slices)
    rows = sum(one.rows for one in cut.slices) + refused
    if "max_reject_share" not in guard.allow and refused > guard.max_reject_share * rows:
        raise NothingPublished(
            f"{told.source.name}: {refused:,} of {rows:,} rows would be rejected, more than [guard] max_reject_share = "
            f"{guard.max_reject_share}; nothing was published. Mend the source or name its columns, or let it through "
            "with --allow max_reject_share"
        )
    allow = sorted({*guard.allow, "max_reject_share"})
    return told.settings.model_copy(update={"guard": guard.model_copy(update={"allow": allow})})


def _bring_in(cut: Cut, done: Done, settings: Settings, *, progress: Progress) -> None:
    left = cut.left()
    done.rows_read = cut.counts["rows_read"]
    done.rejects = sum(one.rejects for one in cut.slices)
    done.rows_known = sum(one.rows for one in cut.slices if one not in left)
    if len(left) < len(cut.slices):
        progress.tell(f"going on from slice {left[0].number + 1 if left else len(cut.slices)} of {len(cut.slices)}")
    rows_left, started = sum(one.source_rows for one in left), time.perf_counter()
    rows_to_do = rows_left
    for one in left:
        took = time.perf_counter()
        said, run_id = _bring_in_one(one, done, settings, is_first=one is left[0], progress=progress)
        drop_slice(one, run_id=run_id)
        rows_left -= one.source_rows
        seconds = (time.perf_counter() - started) / max(1, rows_to_do - rows_left) * rows_left
        ahead = f"; {rows_left:,} rows left, about {_for_people(seconds)}" if rows_left else ""
        number = f"slice {one.number + 1} of {len(cut.slices)}"
        progress.tell(f"{number:<18}{said}   {time.perf_counter() - took:.1f} s{ahead}")
        if one is not left[-1] and done.runs:
            time.sleep(_LET_IN_SECONDS)


def _bring_in_one(one: Slice, done: Done, settings: Settings, *, is_first: bool, progress: Progress) -> tuple[str, str]:
    """Publishes a slice, and says what of it was new, and which run has it."""
    warehouse = Warehouse(settings.warehouse.path)
    published = warehouse.published()
    if published is not None and is_in(one.folder, warehouse=warehouse, run=published):
        done.slices_skipped += 1
        done.rows_known += one.rows
        return f"{one.rows:,} rows in already", published.run_id
    outcome = _published(one, settings, waits=not is_first, progress=progress)
    run, counts = outcome.run, outcome.legacy
    new = run.rows_in - run.rows_rejected
    done.runs.append(run.run_id)
    done.rows_new, done.rows_known = done.rows_new + new, done.rows_known + one.rows - new
    done.chunks_new += run.chunks_new
    known = f", {one.rows - new:,} in already" if one.rows > new else ""
    said = f"{new:,} rows brought in{known}: {run.chunks_new:,} new chunks, {counts['vectors']:,} vectors taken over"
    return said, run.run_id


def _published(one: Slice, settings: Settings, *, waits: bool, progress: Progress) -> Outcome:
    """The slice as a run. Once the first is in, a night that goes between two slices is waited for as long as it
    takes."""
    while True:
        try:
            return night(settings, progress=_OfSlice.of(progress), legacy=one.folder)
        except WarehouseLocked:
            if not waits:
                raise
            time.sleep(_LET_IN_SECONDS)
        except NothingPublished as error:
            raise NothingPublished(
                f"slice {one.number + 1}: {error}. Slices before it are in; the same command goes on from here"
            ) from error


def _for_people(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds)):,} s"
    minutes = round(seconds / 60)
    return f"{minutes:,} min" if minutes < 120 else f"{minutes // 60:,} h {minutes % 60} min"
