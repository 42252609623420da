"""The review queue: what is open, what a person answers, and what comes of it. The page, the command line and files of
decisions all go through here, so that the same is allowed and refused everywhere."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from blake3 import blake3

from flows.apply_decisions import apply_if_free
from flows.decision_desk import DecisionDesk
from flows.errors import NightfoldError
from flows.mart_reader import MartReader
from flows.review_journal import Journal, New, Written, already, moment
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
from schemas.terms import (
    BOTH_STAND,
    DECISIONS,
    EQUIVALENT,
    FLAG_CONTRADICTION,
    KEEP_SEPARATE,
    LEFT_STANDS,
    LINK,
    MERGE,
    RIGHT_STANDS,
    UNDO,
)
from transforms.decisions import Entry as Answer
from transforms.decisions import why_not
from transforms.review_desk import candidates_of

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
_ID = re.compile(r"[0-9a-f]{1,32}")
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

    def every(self, filters: Filters, *, scopes: Scopes) -> list[Item]:
        """All open questions that are meant, oldest first."""
        return self._questions.every(filters, scopes=scopes)

    def texts(self, chunk_ids: Sequence[str | None]) -> dict[str, str | None]:
        """The whole texts of chunks."""
        return self._questions.texts([each for each in chunk_ids if each is not None])

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

    # ---- names, as people type them

    def named(self, beginning: str, *, scopes: Scopes) -> str:
        """The question of that id, or the only one whose id begins so."""
        found = self._questions.beginning(beginning, scopes=scopes) if _ID.fullmatch(beginning) else []
        return _only(found, "question", beginning)

    def decision_named(self, beginning: str, *, scopes: Scopes) -> tuple[str, bool]:
        """The decision or batch of that id, or the only one whose id begins so, and whether it is a batch."""
        found = self._journal.beginning(beginning, scopes=scopes) if _ID.fullmatch(beginning) else []
        if len({name for name, _ in found}) != 1:
            _only([name for name, _ in found], "decision", beginning)
        return found[0]

    def target_of(self, review_id: str, decision: str, into: str | None, *, scopes: Scopes) -> str | None:
        """The group that a decision is about: that of the candidate, named by the beginning of its group's or its own
        id; of a merge without one, that of the best."""
        candidates = self.question(review_id, scopes=scopes).candidates
        if into is None:
            is_needed = decision == MERGE and candidates
            return candidates[0].chunk.canonical_id if is_needed else None
        groups = {
            each.chunk.canonical_id
            for each in candidates
            if each.chunk.canonical_id.startswith(into) or each.chunk.chunk_id.startswith(into)
        }
        if len(groups) > 1:
            raise BadChoice(f"{into}: {len(groups)} of the candidates' groups begin so, give more of the id")
        return groups.pop() if groups else into

    # ---- deciding

    def decide(
        self, choices: Sequence[Choice], *, by: str, scopes: Scopes, batch_id: str | None = None
    ) -> list[Decision]:
        """Writes the decisions down, all of them or none; durable when it returns."""
        checked = self.checked(choices, scopes=scopes)
        for problem in checked.problems.values():
            raise problem
        refused = self._questions.refused([new.review_id for new in checked.new])
        if refused:
            self._journal.release(refused)
        return self._questions.told(self._journal.write(checked.new, by=_named(by), batch_id=batch_id))

    def checked(self, choices: Sequence[Choice], *, scopes: Scopes) -> "Checked":
        """What would be written of these choices, and why the others cannot be taken, by their place."""
        asked = self._questions.asked([choice.review_id for choice in choices], scopes=scopes)
        answers = self._questions.answers(list(asked.values()))
        problems: dict[int, NightfoldError] = {}
        new: dict[int, New] = {}
        seen: set[str] = set()
        for place, choice in enumerate(choices):
            row = asked.get(choice.review_id)
            try:
                if row is None:
                    raise no_such("question", choice.review_id)
                one = _new(choice, row, answers[choice.review_id], is_repeated=choice.review_id in seen)
                new[place] = self._anchored(one) if one.decision in (LINK, FLAG_CONTRADICTION) else one
                seen.add(choice.review_id)
            except NightfoldError as error:
                problems[place] = error
        merges = {place: each for place, each in new.items() if each.decision == MERGE}
        for place, why in self._why_not_merged(merges).items():
            problems[place] = BadChoice(f"{choices[place].review_id}: cannot be merged: {why}")
        taken = [new[place] for place in sorted(new) if place not in problems]
        return Checked(taken, dict(sorted(problems.items())))

    def _why_not_merged(self, merges: dict[int, New]) -> dict[int, str]:
        published = self._warehouse.published()
        if not merges or published is None:
            return {}
        entries = {place: _as_entry(each) for place, each in merges.items()}
        desk = DecisionDesk(self._warehouse, published).of(list(entries.values()), with_questions=False)
        why: dict[int, str] = {}
        for place, entry in entries.items():
            gone = [each for each in entry.chunk_ids if each not in desk.table("chunks")]
            if gone:
                why[place] = f"chunk {gone[0]} is not in the published run"
            elif (told := why_not(desk, entry)) is not None:
                why[place] = told
            elif desk.forwarded(entry.target_canonical_id or "") == desk.group_of(entry.chunk_id):
                why[place] = "that is the group it is in"
        return why

    def _anchored(self, new: New) -> New:
        """With the chunk that a link or a contradiction is with: the candidate of the group chosen, or the best."""
        ids = [told["chunk_id"] for told in candidates_of(new.question)]
        chosen = ids[0] if ids else None
        if new.target_canonical_id is not None:
            shown = self._questions.shown(ids, scope=new.scope)
            group = new.target_canonical_id
            chosen = next((one for one in ids if one in shown and shown[one].canonical_id == group), None)
        if chosen is None:
            raise BadChoice(f"{new.review_id}: group {new.target_canonical_id} is none of its candidates'")
        return replace(new, question={**new.question, "chosen": chosen})

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
        return self._questions.told(self._journal.undo(entries, by=_named(by)))

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
        refused = self._questions.refused([pair_id])
        if refused:
            self._journal.release(refused)
        ends = {"left_id": one.left.chunk_id, "right_id": one.right.chunk_id}
        new = New(pair_id, 0, one.scope, one.left.chunk_id, _RESOLUTIONS[stands], None, notes, ends)
        return self._questions.told(self._journal.write([new], by=_named(by), batch_id=None))[0]

    # ---- applying

    def apply_outstanding(self, *, wait_seconds: float = 0) -> int | None:
        """Brings the tables up to the journal. Returns how many entries were applied; None where a run holds the lock,
        which applies them itself."""
        return apply_if_free(self._settings, wait_seconds=wait_seconds)

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


@dataclass(frozen=True)
class Checked:
    """Choices that can be written, and by their place why the others cannot."""

    new: list[New]
    problems: dict[int, NightfoldError]


def _new(choice: Choice, row: dict[str, Any], standing: Decision | None, *, is_repeated: bool) -> New:
    name = choice.review_id
    if choice.decision not in DECISIONS:
        raise BadChoice(f"{name}: {choice.decision!r} is no decision; there are {', '.join(DECISIONS)}")
    if choice.decision == MERGE and not choice.target_canonical_id:
        raise BadChoice(f"{name}: merge needs the group to merge into (target_canonical_id)")
    if is_repeated:
        raise BadChoice(f"{name}: is answered twice here; one answer a question")
    if standing is not None:
        raise already(standing)
    question = {"candidates": row["candidates"], "reason": row["reason"]}
    return New(
        review_id=name,
        asked_us=row["asked_us"],
        scope=row["scope"],
        chunk_id=row["chunk_id"],
        decision=choice.decision,
        target_canonical_id=choice.target_canonical_id or None,
        notes=(choice.notes or "").strip() or None,
        question=question,
    )


def _as_entry(new: New) -> Answer:
    return Answer(
        decision_id="",
        seq=0,
        review_id=new.review_id,
        scope=new.scope,
        chunk_id=new.chunk_id,
        decision=new.decision,
        target_canonical_id=new.target_canonical_id,
        reviewer="",
        notes=new.notes,
        decided_at=datetime.now(UTC),
        batch_id=None,
        undoes=None,
        asked_at=moment(new.asked_us),
        question=new.question,
    )


def _named(by: str) -> str:
    name = " ".join(by.split())
    if not name or not name.isprintable():
        raise BadChoice(f"{by!r}: is no name; decisions bear the name of who took them")
    return name


def _only(found: Sequence[str], what: str, beginning: str) -> str:
    if len(set(found)) > 1:
        raise NoSuchQuestion(f"{beginning}: {len(set(found))} {what}s begin so, give more of the id")
    if not found:
        raise no_such(what, beginning)
    return found[0]


def _batch_id(what: str, by: str) -> str:
    said = f"{what} {by} {datetime.now(UTC).isoformat()}"
    return blake3(said.encode()).hexdigest()[:32]
