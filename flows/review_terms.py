"""What the queue is made of, as the page, the command line and the report see it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from flows.errors import NightfoldError
from schemas.terms import DECISIONS

__all__ = ["DECISIONS"]


@dataclass(frozen=True)
class Filters:
    """Which open questions are meant; None is any."""

    scope: str | None = None
    relation: str | None = None
    source: str | None = None
    min_confidence: float | None = None
    max_confidence: float | None = None
    min_similarity: float | None = None
    max_similarity: float | None = None
    older_than_days: int | None = None
    text: str | None = None


@dataclass(frozen=True)
class Item:
    """A line of the list: an open question and the best of its candidates. `similarity` is the cosine as the
    transformer reads the two, where it was asked, else that of the vectors."""

    review_id: str
    scope: str
    chunk_id: str
    kind: str
    source: str
    source_row_id: str
    text: str
    relation: str | None
    confidence: float | None
    similarity: float | None
    candidates: int
    reason: str
    queued_at: datetime
    best_chunk_id: str | None = None
    best_canonical_id: str | None = None


@dataclass(frozen=True)
class Page:
    """Some lines of the list, oldest question first, and the cursors of the pages around them."""

    items: list[Item]
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Shown:
    """A chunk as a reviewer sees it. `is_current`: neither replaced nor deleted."""

    chunk_id: str
    canonical_id: str
    scope: str
    kind: str
    text: str | None
    metadata: dict[str, Any]
    source: str
    source_row_id: str
    source_doc_id: str | None
    occurrences: int
    first_seen_at: datetime
    last_seen_at: datetime
    group_size: int
    is_current: bool


@dataclass(frozen=True)
class Candidate:
    """A chunk that the one in question may be the same as, and what it was judged to be. Its chunk's canonical_id is
    that of its group as it is now: the target of a merge."""

    chunk: Shown
    similarity: float | None
    reading: float | None
    relation: str | None
    confidence: float | None
    evidence: str | None


@dataclass(frozen=True)
class Decision:
    """A person's answer, or the entry that takes one back. `outcome` is null until it is applied."""

    decision_id: str
    review_id: str
    decision: str
    target_canonical_id: str | None
    reviewer: str
    notes: str | None
    decided_at: datetime
    is_applied: bool = False
    undone_by: str | None = None
    batch_id: str | None = None
    undoes: str | None = None
    scope: str | None = None
    chunk_id: str | None = None
    outcome: str | None = None


@dataclass(frozen=True)
class Question:
    """A chunk beside its candidates, best first. `answer` is the standing decision, or how the question was closed;
    None while it is open."""

    review_id: str
    chunk: Shown
    candidates: list[Candidate]
    reason: str
    queued_at: datetime
    answer: Decision | None


@dataclass(frozen=True)
class Choice:
    """What a person chose for a question."""

    review_id: str
    decision: str
    target_canonical_id: str | None = None
    notes: str | None = None


BulkKind = Literal["accept_high_confidence", "dismiss_low_similarity"]


@dataclass(frozen=True)
class Bulk:
    """What a bulk action would do: its choices, a sample of the questions, and `counts` of what is done and left."""

    what: BulkKind
    choices: list[Choice]
    sample: list[Item]
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Contradiction:
    """Two chunks that disagree. `answer` is the standing resolution; None while there is none."""

    pair_id: str
    scope: str
    left: Shown
    right: Shown
    evidence: str | None
    status: str
    answer: Decision | None = None


@dataclass(frozen=True)
class Contradictions:
    """Some contradictions, in the order of their ids, and the cursors of the pages around them."""

    items: list[Contradiction]
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Entry:
    """A line of the audit record."""

    seq: int
    at: datetime
    who: str
    what: str
    about: str | None
    scope: str | None
    allowed: bool
    detail: str


class NoSuchQuestion(NightfoldError):
    """A question, contradiction or decision that is not there, or of a scope the reader may not see."""


class AlreadyDecided(NightfoldError):
    """Somebody decided first; theirs stands."""

    def __init__(self, message: str, standing: Decision) -> None:
        super().__init__(message)
        self.standing = standing


class BadChoice(NightfoldError):
    """A choice that cannot be taken; the message says why."""
