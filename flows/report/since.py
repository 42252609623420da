"""What a run changed since the one before it, by the versions of both."""

from dataclasses import dataclass, field

import polars as pl

from flows.report.version import Version, nothing_of
from flows.warehouse import Run, Warehouse
from schemas.contract import Contract
from schemas.tables import CANONICALS, CHUNKS, CONTRADICTIONS, PENDING_REVIEWS
from transforms.changes import (
    GroupChanges,
    OpenChanges,
    chunks_of_the_run,
    group_changes,
    newly_superseded,
    open_changes,
)

CHUNK_COLUMNS = ["chunk_id", "canonical_id", "scope", "source", "action", "superseded_by"]
IS_OPEN_REVIEW = "reviewed_at is null"
IS_OPEN_CONTRADICTION = "status = 'open'"
# What became of things since the last run, in the words of every report of it.
CHANGES = {
    "new_groups": "new groups",
    "grown": "groups grown",
    "shrunk": "groups shrunk",
    "split": "groups split off",
    "joined": "groups joined to another",
    "gone": "groups gone",
    "restood": "groups that another chunk stands for",
    "superseded": "chunks newly superseded",
    "questions_opened": "questions opened",
    "questions_closed": "questions closed",
    "contradictions_opened": "contradictions found",
    "contradictions_closed": "contradictions closed",
}


@dataclass(frozen=True)
class Since:
    """What changed since `before`, ids as digests; with None for it, against nothing. `is_pruned`: there was a run
    before, and its versions are no longer there to compare with."""

    before: Run | None
    is_pruned: bool
    between: list[Run]
    chunks_before: int
    chunks: pl.DataFrame = field(repr=False)
    tonight: pl.DataFrame = field(repr=False)
    canonicals: pl.DataFrame = field(repr=False)
    groups: GroupChanges
    superseded: pl.DataFrame
    questions: OpenChanges
    contradictions: OpenChanges

    @property
    def is_known(self) -> bool:
        return not self.is_pruned

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind of change there are, in the order a reader wants them."""
        if not self.is_known:
            return {}
        groups = self.groups
        return {
            "new_groups": groups.new.height,
            "grown": groups.grown.height,
            "shrunk": groups.shrunk.height,
            "split": groups.split.height,
            "joined": groups.joined.height,
            "gone": groups.gone.height,
            "restood": groups.restood.height,
            "superseded": self.superseded.height,
            "questions_opened": self.questions.opened.len(),
            "questions_closed": self.questions.closed.len(),
            "contradictions_opened": self.contradictions.opened.len(),
            "contradictions_closed": self.contradictions.closed.len(),
        }


def since_the_last(warehouse: Warehouse, run: Run, *, scope: str | None = None) -> Since:
    """What changed since the last run.

    A night is compared with the night before it, so that what was decided by day in between is in it; any other run
    with the one before it.
    """
    earlier = _earlier(warehouse, run)
    place = next((n for n, each in enumerate(earlier) if each.is_night or not run.is_night), None)
    before = None if place is None else earlier[place]
    is_pruned = before is not None and not warehouse.can_restore(before)
    now = Version(warehouse, run, scope)
    was = None if before is None or is_pruned else Version(warehouse, before, scope)
    chunks, chunks_before = _chunks(now), _chunks(was)
    groups_of = ["canonical_id", "scope", "chunk_id"]
    canonicals = _rows(now, CANONICALS, groups_of)
    return Since(
        before=before,
        is_pruned=is_pruned,
        between=earlier[: place or 0][::-1],
        chunks_before=chunks_before.height,
        chunks=chunks,
        tonight=chunks_of_the_run(chunks_before, chunks),
        canonicals=canonicals,
        groups=group_changes(chunks_before, chunks, _rows(was, CANONICALS, groups_of), canonicals),
        superseded=newly_superseded(chunks_before, chunks),
        questions=_open(was, now, PENDING_REVIEWS, "review_id", IS_OPEN_REVIEW),
        contradictions=_open(was, now, CONTRADICTIONS, "pair_id", IS_OPEN_CONTRADICTION),
    )


def _earlier(warehouse: Warehouse, run: Run) -> list[Run]:
    """The runs that readers saw before this one, the last first."""
    earlier = []
    for each in warehouse.runs():
        if each.run_id == run.run_id:
            break
        if each.is_readable:
            earlier.append(each)
    return earlier[::-1]


def _rows(version: Version | None, contract: Contract, columns: list[str], where: str | None = None) -> pl.DataFrame:
    if version is None:
        return nothing_of(contract, columns)
    return version.rows(contract.name, columns, where)


def _chunks(version: Version | None) -> pl.DataFrame:
    return _rows(version, CHUNKS, CHUNK_COLUMNS)


def _open(was: Version | None, now: Version, contract: Contract, key: str, where: str) -> OpenChanges:
    return open_changes(_rows(was, contract, [key], where)[key], _rows(now, contract, [key], where)[key])
