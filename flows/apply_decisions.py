"""Decisions of the journal into the tables: a small published run of its own, for all that are outstanding."""

import logging
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from flows import mart
from flows.after import follow_metrics
from flows.decision_desk import DecisionDesk
from flows.errors import NightfoldError
from flows.guard import check_written
from flows.lock import WarehouseLocked, writer_lock
from flows.review_journal import Journal, Written, moment
from flows.run_rows import NOTHING_COUNTED, NothingPublished, run_id_at
from flows.settings import Settings
from flows.warehouse import Change, Run, Warehouse
from schemas.contract import ContractBroken
from schemas.tables import PUBLISHED_TABLES, REVIEW_DECISIONS
from schemas.terms import PUBLISHED, UNDO
from transforms.decisions import Entry, apply_entries, came_to_nothing
from transforms.reconcile import DoesNotAddUp
from transforms.review_desk import TABLES, Desk

_LOG = logging.getLogger("nightfold.review")
# What a decision can change in a row of these; the other tables take whole rows.
_COLUMNS = {
    "chunks": ["chunk_id", "canonical_id", "action", "superseded_by", "valid_from", "valid_to", "deleted_at"],
    "pairs": ["pair_id", "action"],
}


def apply_if_free(settings: Settings, *, wait_seconds: float = 0) -> int | None:
    """Applies what is outstanding. Returns how many entries of the journal that were; None where a run holds the lock,
    which applies them itself."""
    warehouse = Warehouse(settings.warehouse.path)
    published = warehouse.published()
    if published is None or (not outstanding(warehouse, published) and mart.shows(warehouse, published)):
        return 0
    doing = "nightfold review (decisions)"
    try:
        with writer_lock(warehouse.folder, doing=doing, wait_seconds=wait_seconds, tell=lambda _: None):
            before = warehouse.begin()
            try:
                applied = apply_outstanding(settings, warehouse, before)
            finally:
                follow_metrics(settings, warehouse, tell=_LOG.warning)
            if before is not None and not applied and not mart.shows(warehouse, before):
                # Decisions were stopped after they were published, or an older program made the mart.
                mart.refresh(warehouse, before, before=None, changes=[])
            return applied
    except WarehouseLocked:
        return None


def outstanding(warehouse: Warehouse, run: Run) -> list[Written]:
    """The entries of the journal that the run does not have, in order."""
    journal = Journal(warehouse.folder)
    ids = journal.ids()
    if not ids:
        return []
    dataset = warehouse.open(REVIEW_DECISIONS.name, run)
    have = set() if dataset is None else set(dataset.to_table(columns=["decision_id"])["decision_id"].to_pylist())
    missing = [each for each in ids if each not in have]
    return journal.entries(missing)


def apply_outstanding(settings: Settings, warehouse: Warehouse, before: Run | None) -> int:
    """Publishes a run with all that is outstanding and can be applied; returns how many entries that were. The caller
    holds the lock, and the tables stand as `before` published them."""
    journal = Journal(warehouse.folder)
    if before is None:
        return 0
    entries = outstanding(warehouse, before)
    if not entries:
        return 0
    now = datetime.now(UTC)
    run_id = run_id_at(now)
    to_apply = [entry_of(each) for each in entries]
    desk = DecisionDesk(warehouse, before).of(to_apply)
    waiting = {each.decision_id for each in apply_entries(desk, to_apply, run_id=run_id, at=now)}
    done = [each for each in entries if each.decision_id not in waiting]
    if not done:
        return 0
    outcomes = {each.decision_id: str(desk.table("review_decisions")[each.decision_id]["outcome"]) for each in done}
    with tempfile.TemporaryDirectory(prefix="nightfold-decisions-") as folder:
        try:
            changes = _changes(desk, Path(folder))
            for change in changes:
                warehouse.apply(change)
            warehouse.tend()
            check_written(warehouse)
        except (NightfoldError, DoesNotAddUp, ContractBroken) as error:
            warehouse.begin()
            raise NothingPublished(f"decisions: {error}") from error
        run = replace(
            before,
            **{**NOTHING_COUNTED, "decisions": len(done)},
            run_id=run_id,
            started_at=now,
            published_at=datetime.now(UTC),
            status=PUBLISHED,
            restores=None,
            table_versions=warehouse.versions(*before.vector_tables),
            note=_note(done, outcomes),
            neighbours={name: before.neighbours.get(name) for name in ("embedding", "probes")},
        )
        warehouse.commit(run)
        try:
            mart.refresh(warehouse, run, before=before, changes=changes)
            # Stopped before this, whoever answers such a question next releases it.
            journal.release([each for each, outcome in outcomes.items() if came_to_nothing(outcome)])
        finally:
            warehouse.prune(keep_runs=settings.warehouse.keep_runs)
    return len(done)


def entry_of(written: Written) -> Entry:
    """An entry of the journal as the tables take it."""
    return Entry(
        decision_id=written.decision_id,
        seq=written.seq,
        review_id=written.review_id,
        scope=written.scope,
        chunk_id=written.chunk_id,
        decision=written.decision,
        target_canonical_id=written.target_canonical_id,
        reviewer=written.reviewer,
        notes=written.notes,
        decided_at=written.decided_at,
        batch_id=written.batch_id,
        undoes=written.undoes,
        asked_at=moment(written.asked_us),
        question=written.question,
    )


def _note(done: Sequence[Written], outcomes: dict[str, str]) -> str:
    """`3 decisions by ana`, and what else there is to say."""
    people = [name for name, _ in Counter(each.reviewer for each in done).most_common()]
    who = people[0] if len(people) == 1 else f"{people[0]} and {_counted(len(people) - 1, 'other')}"
    undone = sum(each.decision == UNDO for each in done)
    decided, said = len(done) - undone, []
    if decided:
        said.append(_counted(decided, "decision"))
    if undone:
        said.append(_counted(undone, "undo", plural="undos"))
    nothing = sum(map(came_to_nothing, outcomes.values()))
    more = f"; {_counted(nothing, 'decision')} could not be applied, see review_log" if nothing else ""
    return f"{' and '.join(said)} by {who}{more}"


def _counted(count: int, what: str, *, plural: str | None = None) -> str:
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def _changes(desk: Desk, folder: Path) -> list[Change]:
    """What is no longer as it was, as files of rows."""
    changes = []
    for contract in (each for each in PUBLISHED_TABLES if each.name in TABLES):
        found = desk.changes(contract.name)
        if found:
            columns = _COLUMNS.get(contract.name, contract.columns)
            named = {"new": (found.appended, columns), "changed": (found.updated, columns)}
            named["gone"] = ([{contract.key[0]: key} for key in found.deleted], [contract.key[0]])
            files = {}
            for name, (rows, of_rows) in named.items():
                files[name] = folder / f"{contract.name}-{name}.parquet"
                shape = {column: contract.dtypes[column] for column in of_rows}
                pl.DataFrame([{column: row[column] for column in of_rows} for row in rows], schema=shape).write_parquet(
                    files[name]
                )
            appends = files["new"] if found.appended else None
            changes.append(Change(contract.name, appends, (files["changed"],), files["gone"]))
    return changes
