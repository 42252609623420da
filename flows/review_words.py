"""The queue in words, for a terminal."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from flows.console import in_columns, plain
from flows.reviews import Candidate, Decision, Page, Question, Shown
from schemas.terms import UNDO
from transforms.decisions import APPLIED

_SHORT = 12
_TEXT, _LONG = 60, 600


def list_lines(page: Page, counts: dict[str, Any]) -> Iterator[str]:
    """A line a question, and how many there are."""
    if not page.items:
        yield "nothing is open" if not counts["open"] else "no more"
        return
    heads = ("review", "scope", "relation", "conf", "sim", "text", "asked")
    rows = [
        (
            item.review_id[:_SHORT],
            plain(item.scope, most=20),
            item.relation or "",
            _figure(item.confidence),
            _figure(item.similarity),
            plain(item.text, most=_TEXT) if item.text else "(bytes of a file)",
            f"{item.queued_at:%Y-%m-%d}",
        )
        for item in page.items
    ]
    yield from in_columns([heads, *rows], right=[3, 4])
    shown = f"{len(rows):,} of {counts['open']:,} open"
    by = ", ".join(f"{count:,} {relation}" for relation, count in counts["by_relation"].items())
    yield f"{shown} ({by})" if by else shown


def question_lines(question: Question) -> Iterator[str]:
    """The chunk, its candidates and the answer."""
    yield f"question {question.review_id} in {plain(question.chunk.scope, most=_TEXT)}, asked {_at(question.queued_at)}"
    yield f"  {plain(question.reason, most=_LONG)}"
    if question.answer is not None:
        yield f"  {_answer(question.answer)}"
    yield ""
    yield from _chunk(question.chunk, "chunk")
    for number, candidate in enumerate(question.candidates, 1):
        yield ""
        yield from _candidate(number, candidate)


def _chunk(chunk: Shown, what: str) -> Iterator[str]:
    state = "" if chunk.is_current else ", no longer current"
    yield f"{what} {chunk.chunk_id} ({plain(f'{chunk.source}:{chunk.source_row_id}', most=_TEXT)}){state}"
    yield f"  “{plain(chunk.text, most=_LONG)}”" if chunk.text is not None else "  (bytes of a file)"
    rows = f"{chunk.occurrences:,} row{'' if chunk.occurrences == 1 else 's'}"
    yield f"  group {chunk.canonical_id} of {chunk.group_size:,}, {rows}, seen {_at(chunk.first_seen_at)}"


def _candidate(number: int, candidate: Candidate) -> Iterator[str]:
    yield from _chunk(candidate.chunk, f"{number}.")
    judged = f"{candidate.relation or 'not judged'}, confidence {_figure(candidate.confidence)}"
    yield f"  {judged}, similarity {_figure(candidate.similarity)}, reading {_figure(candidate.reading)}"
    if candidate.evidence:
        yield f"  {plain(candidate.evidence, most=_LONG)}"


def decided_line(decision: Decision) -> str:
    """What was decided, and how to take it back."""
    into = f" into {decision.target_canonical_id}" if decision.target_canonical_id else ""
    return f"{decision.decision}{into} by {decision.reviewer} (`nightfold review undo {decision.decision_id[:_SHORT]}`)"


def log_lines(decisions: list[Decision]) -> Iterator[str]:
    """A line a decision."""
    if not decisions:
        yield "nothing was decided yet"
        return
    heads = ("decision", "when", "who", "what", "question", "state", "notes")
    rows = [
        (
            each.decision_id[:_SHORT],
            _at(each.decided_at),
            plain(each.reviewer, most=20),
            f"undo of {(each.undoes or '')[:_SHORT]}" if each.decision == UNDO else each.decision,
            each.review_id[:_SHORT],
            _state(each),
            plain(each.notes or "", most=_TEXT),
        )
        for each in decisions
    ]
    yield from in_columns([heads, *rows])


def _state(decision: Decision) -> str:
    if decision.undone_by is not None:
        return "undone"
    if not decision.is_applied:
        return "outstanding"
    return APPLIED if decision.outcome in (APPLIED, None) else plain(decision.outcome, most=_LONG)


def _answer(answer: Decision) -> str:
    words = f": {plain(answer.notes, most=_LONG)}" if answer.notes else ""
    return f"answered {answer.decision} by {answer.reviewer} on {_at(answer.decided_at)}{words}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
