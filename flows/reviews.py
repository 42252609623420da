"""The review queue: what is open, what a person answers, and what comes of it. The page, the command line and files of
decisions all go through here, so that the same is allowed and refused everywhere."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from blake3 import blake3

from flows.mart_reader import MartReader
from flows.review_journal import Journal, New, Written, already
from flows.review_questions import Questions, Scopes, no_such
from flows.review_terms import (
    AlreadyDecided,
    BadChoice,
    Bulk,
    BulkKind,
    Candidate,
    Choice,
    Contradiction,
    Contradictions,
    Decision,
    Entry,
    Filters,
    Item,
    NoSuchQuestion,
    Page,
    Question,
    Shown,
)
from flows.settings import Settings
from flows.warehouse import Warehouse
from schemas.terms import BOTH_STAND, DECISIONS, EQUIVALENT, KEEP_SEPARATE, LEFT_STANDS, MERGE, RIGHT_STANDS, UNDO

__all__ = [
    "DECISIONS",
    "AlreadyDecided",
    "BadChoice",
    "Bulk",
    "Candidate",
    "Choice",
    "Contradiction",
    "Contradictions",
    "Decision",
    "Entry",
    "Filters",
    "Item",
    "NoSuchQuestion",
    "Page",
    "Question",
    "Reviews",
    "Shown",
]

HIGH_CONFIDENCE, LOW_SIMILARITY = 0.9, 0.85
_SAMPLE = 10
_RESOLUTIONS = {"left": LEFT_STANDS, "right": RIGHT_STANDS, "both": BOTH_STAND}


class Reviews:
    """The queue of a warehouse. `scopes` are those that the reader may see; None is all of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._warehouse = Warehouse(settings.warehouse.path)
        self._journal = Journal(self._warehouse.folder)
        self._mart = MartReader(self._warehouse)
        self._questions = Questions(self._mart, self._journal)

    def close(self) -> None:
        """Lets go of the mart."""
        self._mart.close()

    # ---- reading

    def page(self, filters: Filters, *, scopes: Scopes, cursor: str | None = None, limit: int = 50) -> Page:
        """Open questions, oldest first."""
        return self._questions.page(filters, scopes=scopes, cursor=cursor, limit=limit)

    def counts(self, filters: Filters, *, scopes: Scopes) -> dict[str, Any]:
        """How many are open, and how many by relation, scope and source."""
        return self._questions.counts(filters, scopes=scopes)

    def question(self, review_id: str, *, scopes: Scopes) -> Question:
        """One question, open or answered, with its candidates as they are now."""
        return self._questions.question(review_id, scopes=scopes)

    def neighbours_in_list(self, review_id: str, filters: Filters, *, scopes: Scopes) -> tuple[str | None, str | None]:
        """The previous and the next open question of the list."""
        return self._questions.neighbours(review_id, filters, scopes=scopes)

    def occurrences(self, chunk_id: str, *, scopes: Scopes, limit: int = 100) -> list[dict[str, Any]]:
        """The input rows that say a chunk."""
        return self._questions.occurrences(chunk_id, scopes=scopes, limit=limit)

    def history(self, *, scopes: Scopes, by: str | None = None, limit: int = 50) -> list[Decision]:
        """Decisions and undos, latest first."""
        return self._questions.told(self._journal.latest(scopes=scopes, by=by, limit=limit))

    # ---- deciding

    def decide(
        self, choices: Sequence[Choice], *, by: str, scopes: Scopes, batch_id: str | None = None
    ) -> list[Decision]:
        """Writes the decisions down, all of them or none; durable when it returns."""
        asked = self._questions.asked([choice.review_id for choice in choices], scopes=scopes)
        answers = self._questions.answers(list(asked.values()))
        new = []
        for choice in choices:
            row = asked.get(choice.review_id)
            if row is None:
                raise no_such("question", choice.review_id)
            standing = answers[choice.review_id]
            if standing is not None:
                raise already(standing)
            new.append(
                New(
                    choice.review_id,
                    row["asked_us"],
                    row["scope"],
                    row["chunk_id"],
                    choice.decision,
                    choice.target_canonical_id,
                    choice.notes,
                    {name: row[name] for name in ("candidates", "reason")},
                )
            )
        return self._questions.told(self._journal.write(new, by=by, batch_id=batch_id))

    def undo(self, decision_id: str, *, by: str, scopes: Scopes) -> Decision:
        """Takes a decision back; both stay on record, and the question is open again."""
        return self._undo(self._journal.entries([decision_id]), decision_id, by=by, scopes=scopes)[0]

    def undo_batch(self, batch_id: str, *, by: str, scopes: Scopes) -> list[Decision]:
        """Takes back what still stands of a bulk action or file, the latest first."""
        entries = self._journal.of_batch(batch_id)
        undone = self._journal.undone([entry.decision_id for entry in entries])
        entries = [entry for entry in reversed(entries) if entry.decision_id not in undone]
        return self._undo(entries, batch_id, by=by, scopes=scopes)

    def _undo(self, entries: list[Written], name: str, *, by: str, scopes: Scopes) -> list[Decision]:
        entries = [entry for entry in entries if entry.decision != UNDO]
        if not entries or (scopes is not None and any(entry.scope not in scopes for entry in entries)):
            raise no_such("decision", name)
        return self._questions.told(self._journal.undo(entries, by=by))

    # ---- many at once

    def bulk_preview(self, what: BulkKind, filters: Filters, *, scopes: Scopes) -> Bulk:
        """What the bulk action would do to the open questions that are meant: those judged equivalent with confidence
        above 0.9 are merged into the group of their best candidate; those with no candidate of similarity 0.85 or
        more are kept separate."""
        if what == "accept_high_confidence":
            where = f"confidence > {HIGH_CONFIDENCE} and relation = '{EQUIVALENT}' and best_canonical_id is not null"
            items = self._questions.every(filters, scopes=scopes, where=where)
            choices = [Choice(item.review_id, MERGE, item.best_canonical_id) for item in items]
        elif what == "dismiss_low_similarity":
            items = self._questions.every(filters, scopes=scopes, where=f"highest_similarity < {LOW_SIMILARITY}")
            choices = [Choice(item.review_id, KEEP_SEPARATE) for item in items]
        else:
            raise BadChoice(f"{what}: no such bulk action; there are accept_high_confidence and dismiss_low_similarity")
        is_open = self.counts(filters, scopes=scopes)["open"]
        counts = {"open": is_open, "chosen": len(choices), "left": is_open - len(choices)}
        return Bulk(what, choices, items[:_SAMPLE], counts)

    def bulk(self, bulk: Bulk, *, by: str, scopes: Scopes) -> str:
        """Does it; what it returns is undone as one."""
        batch_id = _batch_id(bulk.what, by)
        self.decide(bulk.choices, by=by, scopes=scopes, batch_id=batch_id)
        return batch_id

    # ---- contradictions

    def contradictions(
        self, *, scopes: Scopes, status: str = "open", cursor: str | None = None, limit: int = 50
    ) -> Contradictions:
        """Two chunks that disagree, side by side."""
        return self._questions.contradictions(scopes=scopes, status=status, cursor=cursor, limit=limit)

    def contradiction(self, pair_id: str, *, scopes: Scopes) -> Contradiction:
        """One of them, open or resolved."""
        found = self._questions.contradictions(scopes=scopes, status="", cursor=None, limit=1, pair_id=pair_id).items
        if not found:
            raise no_such("contradiction", pair_id)
        return found[0]

    def resolve(
        self,
        pair_id: str,
        stands: Literal["left", "right", "both"],
        *,
        by: str,
        notes: str | None = None,
        scopes: Scopes,
    ) -> Decision:
        """Which of the two stands: the other one is replaced by it and kept; or both do."""
        if stands not in _RESOLUTIONS:
            raise BadChoice(f"{stands}: no such resolution; left, right or both stands")
        one = self.contradiction(pair_id, scopes=scopes)
        if one.answer is not None:
            raise already(one.answer)
        ends = {"left_id": one.left.chunk_id, "right_id": one.right.chunk_id}
        new = New(pair_id, 0, one.scope, one.left.chunk_id, _RESOLUTIONS[stands], None, notes, ends)
        return self._questions.told(self._journal.write([new], by=by, batch_id=None))[0]

    # ---- applying

    def apply_outstanding(self, *, wait_seconds: float = 0) -> int | None:
        """Brings the tables up to the journal. Returns how many entries were applied; None where a run holds the lock,
        which applies them itself."""
        return 0

    # ---- the audit record

    def audit(
        self, who: str, what: str, about: str | None, *, allowed: bool, detail: str = "", scope: str | None = None
    ) -> None:
        """Writes down what somebody did, or was not let do. Decisions and undos are written down by themselves."""
        self._journal.audit(who, what, about, allowed=allowed, detail=detail, scope=scope)

    def audit_page(
        self, *, scopes: Scopes, before: int | None = None, limit: int = 50, who: str | None = None
    ) -> list[Entry]:
        """Lines of the audit record, latest first; `before` is the seq of the last line of the page before."""
        return self._journal.audit_entries(scopes=scopes, before=before, limit=limit, who=who)


def _batch_id(what: str, by: str) -> str:
    said = f"{what} {by} {datetime.now(UTC).isoformat()}"
    return blake3(said.encode()).hexdigest()[:32]
