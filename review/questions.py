"""The pages of questions: the list, one of them, many at once, and what was decided."""

from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, cast

from blake3 import blake3
from starlette.responses import Response

from flows.review_terms import (
    AlreadyDecided,
    BadChoice,
    Bulk,
    BulkKind,
    Candidate,
    Choice,
    Decision,
    NoSuchQuestion,
    Question,
)
from review.filters import asked
from review.marked import alone, compared
from review.visit import Refused, Visit, not_found
from review.words import DECIDED, NEEDS_TARGET, OFFERED
from schemas.terms import RESOLUTIONS, UNDO

_MOST_SHOWN_OCCURRENCES = 8
_MOST_OCCURRENCES = 100
_LONGEST_NOTE = 2_000
_LONGEST_CURSOR = 500
_HISTORY = 50
_EXCERPT = 140
# How far back `u` looks for the last decision that stands.
_LOOKS_BACK = 200
_OFFERED = {decision: label for _, decision, label, _ in OFFERED}
_BULKS: dict[str, dict[str, str]] = {
    "accept_high_confidence": {
        "title": "Accept all high-confidence",
        "verb": "Merge",
        "does": "each new chunk is merged into its best candidate",
        "rule": "its best candidate is judged equivalent with a confidence above 0.90",
        "done": "merged",
    },
    "dismiss_low_similarity": {
        "title": "Dismiss all low-similarity",
        "verb": "Keep separate",
        "does": "each new chunk is kept as a thing of its own",
        "rule": "no candidate has a similarity of 0.85 or more",
        "done": "kept separate",
    },
}


def questions(visit: Visit) -> Response:
    """The list of open questions."""
    wanted = asked(visit.query)
    reviews, scopes = visit.site.reviews, visit.scopes
    cursor = visit.query.get("cursor", "")[:_LONGEST_CURSOR] or None
    everything = reviews.counts(asked({}).filters, scopes=scopes)
    choices = [
        ("relation", "Relation", _choices(everything["by_relation"], wanted.query.get("relation"))),
        ("scope", "Scope", _choices(everything["by_scope"], wanted.query.get("scope"))),
        ("source", "Source", _choices(everything["by_source"], wanted.query.get("source"))),
    ]
    return visit.page(
        "list.html",
        asked=wanted,
        page=reviews.page(wanted.filters, scopes=scopes, cursor=cursor, limit=visit.site.page_size),
        counts=reviews.counts(wanted.filters, scopes=scopes),
        choices=choices,
    )


def _choices(counted: dict[str, int], chosen: str | None) -> list[tuple[str, int | None]]:
    found: list[tuple[str, int | None]] = [(name, n) for name, n in counted.items() if name]
    return found if chosen is None or chosen in counted else [*found, (chosen, None)]


def question(visit: Visit) -> Response:
    """One question."""
    return _question(visit)


def _question(visit: Visit, *, status: int = 200, fault: str = "", note: str = "") -> Response:
    wanted = asked(visit.query)
    reviews, scopes = visit.site.reviews, visit.scopes
    one = reviews.question(visit.path_id("review_id"), scopes=scopes)
    at, chosen = _chosen(one, visit.form.get("with") or visit.query.get("with"))
    previous, following = reviews.neighbours_in_list(one.review_id, wanted.filters, scopes=scopes)
    shown: dict[str, Any] = {"compared": compared(one.chunk, chosen.chunk)} if chosen else {}
    return visit.page(
        "item.html",
        code=status,
        fault=fault,
        note=note,
        asked=wanted,
        question=one,
        chosen=chosen,
        chosen_at=at,
        previous=previous,
        following=following,
        new_alone=alone(one.chunk),
        occurrences=reviews.occurrences(one.chunk.chunk_id, scopes=scopes, limit=_MOST_SHOWN_OCCURRENCES),
        candidate_occurrences=reviews.occurrences(chosen.chunk.chunk_id, scopes=scopes, limit=_MOST_SHOWN_OCCURRENCES)
        if chosen
        else [],
        **shown,
    )


def _chosen(one: Question, chunk_id: str | None) -> tuple[int, Candidate | None]:
    """The candidate shown: the one asked for, else the best."""
    for at, candidate in enumerate(one.candidates):
        if candidate.chunk.chunk_id == chunk_id:
            return at, candidate
    return (0, one.candidates[0]) if one.candidates else (0, None)


def decide(visit: Visit) -> Response:
    """Takes a decision, and goes on to the next question of the list."""
    review_id = visit.path_id("review_id")
    wanted = asked(visit.query)
    reviews, scopes = visit.site.reviews, visit.scopes
    decision, note = visit.form.get("decision", ""), note_of(visit)
    target = (visit.form.get("target") or None) if decision in NEEDS_TARGET else None
    # Before it leaves the list.
    previous, following = reviews.neighbours_in_list(review_id, wanted.filters, scopes=scopes)
    try:
        done = reviews.decide([Choice(review_id, decision, target, note)], by=visit.session.name, scopes=scopes)[0]
    except AlreadyDecided as error:
        visit.audit("decide", review_id, allowed=False, detail="decided already")
        return _question(visit, status=409, fault=told_first(error.standing), note=note or "")
    except BadChoice as error:
        visit.audit("decide", review_id, allowed=False, detail="bad choice")
        return _question(visit, status=400, fault=f"Not recorded: {error}", note=note or "")
    visit.site.applier.ask()
    words = f"{DECIDED[done.decision].capitalize()}."
    to = following or previous
    where = "Now the next question." if to else "That was the last question of this list."
    visit.say(f"{words} {where}", undo=done.decision_id)
    if to is None:
        return visit.go("/", query=wanted.query)
    return visit.go(f"/questions/{to}", query=wanted.query, fragment="question")


def note_of(visit: Visit) -> str | None:
    """The note of a form, without what cannot be seen in it."""
    note = visit.form.get("note", "").replace("\r\n", "\n")
    if len(note) > _LONGEST_NOTE:
        raise Refused(400, "This note is too long", f"A note has at most {_LONGEST_NOTE:,} characters.")
    return "".join(c for c in note if c == "\n" or c.isprintable()).strip() or None


def told_first(standing: Decision) -> str:
    """What the second of two is told."""
    words = DECIDED.get(standing.decision, standing.decision)
    when = standing.decided_at.strftime("%Y-%m-%d %H:%M UTC")
    return f"{standing.reviewer} was first, at {when}: {words}. That stands; yours was not recorded."


def undo(visit: Visit) -> Response:
    """Takes a decision, a whole batch, or one's last decision back."""
    reviews, scopes, me = visit.site.reviews, visit.scopes, visit.session.name
    decision_id, batch_id = visit.form.get("decision_id", ""), visit.form.get("batch_id", "")
    if visit.form.get("last"):
        last = _last_standing(visit)
        if last is None:
            visit.say("There is nothing of yours to undo.", is_warning=True)
            return visit.go("/")
        decision_id, batch_id = last.decision_id, last.batch_id or ""
    try:
        if batch_id:
            taken = reviews.undo_batch(batch_id, by=me, scopes=scopes)
            visit.say(f"Undone: {_counted(len(taken))} open again.")
            where = "/"
        else:
            where = _place(reviews.undo(decision_id, by=me, scopes=scopes))
            visit.say("Undone. It is open again.")
    except (NoSuchQuestion, AlreadyDecided, BadChoice):
        visit.audit("undo", decision_id or batch_id, allowed=False, detail="does not stand")
        visit.say("Not undone: there is no such decision, or it does not stand any more.", is_warning=True)
        return visit.go("/history")
    visit.site.applier.ask()
    if visit.form.get("back") == "history":
        return visit.go("/history")
    return visit.go(where, fragment="" if where == "/" else "question")


def _counted(n: int) -> str:
    return "one question is" if n == 1 else f"{n:,} questions are"


def _last_standing(visit: Visit) -> Decision | None:
    latest = visit.site.reviews.history(scopes=visit.scopes, by=visit.session.name, limit=_LOOKS_BACK)
    return next((each for each in latest if each.undone_by is None and each.decision != UNDO), None)


def _place(decision: Decision) -> str:
    """Where the question of a decision is, or the contradiction. An undo is of either."""
    of_two = decision.decision in RESOLUTIONS
    return f"/{'contradictions' if of_two else 'questions'}/{decision.review_id}"


# ---- many at once


def bulk_preview(visit: Visit) -> Response:
    """What a bulk action would do."""
    return _preview(visit, _bulk(visit))


def _bulk(visit: Visit) -> Bulk:
    what: str = visit.request.path_params["what"]
    if what not in _BULKS:
        raise not_found()
    wanted = asked(visit.query)
    return visit.site.reviews.bulk_preview(cast("BulkKind", what), wanted.filters, scopes=visit.scopes)


def _preview(visit: Visit, bulk: Bulk, *, is_stale: bool = False, fault: str = "") -> Response:
    counts = [
        ("open now", bulk.counts.get("open", 0)),
        ("answered by this", len(bulk.choices)),
        ("left open", bulk.counts.get("left", 0)),
    ]
    return visit.page(
        "bulk.html",
        code=409 if is_stale or fault else 200,
        fault=fault,
        what=bulk.what,
        asked=asked(visit.query),
        n=len(bulk.choices),
        counts=counts,
        sample=bulk.sample,
        seen=_seen(bulk),
        is_stale=is_stale,
        **_BULKS[bulk.what],
    )


def _seen(bulk: Bulk) -> str:
    """What the preview showed, in a few letters: nothing else may be done than that."""
    said = "\n".join(f"{each.review_id} {each.decision} {each.target_canonical_id}" for each in bulk.choices)
    return blake3(said.encode()).hexdigest()[:32]


def bulk(visit: Visit) -> Response:
    """Does what the preview showed, if that is still what it would do."""
    found = _bulk(visit)
    wanted = asked(visit.query)
    if not found.choices or visit.form.get("seen") != _seen(found):
        return _preview(visit, found, is_stale=True)
    try:
        batch_id = visit.site.reviews.bulk(found, by=visit.session.name, scopes=visit.scopes)
    except (AlreadyDecided, NoSuchQuestion):
        return _preview(visit, _bulk(visit), is_stale=True)
    except BadChoice as error:
        visit.audit("bulk", found.what, allowed=False, detail="bad choice")
        return _preview(visit, _bulk(visit), fault=f"Nothing was done. Answer this one by itself first: {error}")
    visit.site.applier.ask()
    n = len(found.choices)
    done = _BULKS[found.what]["done"]
    visit.say(f"{n:,} {'question' if n == 1 else 'questions'} answered: {done}.", undo_batch=batch_id)
    return visit.go("/", query=wanted.query)


# ---- what was decided


@dataclass(frozen=True)
class Entry:
    """A line of the history."""

    decision: Decision
    words: str
    path: str
    text: str
    is_undo: bool
    is_undone: bool
    may_undo: bool


def history(visit: Visit) -> Response:
    """Decisions, latest first: one's own, or everyone's."""
    whose: Literal["mine", "all"] = "all" if visit.query.get("whose") == "all" else "mine"
    by = visit.session.name if whose == "mine" else None
    latest = visit.site.reviews.history(scopes=visit.scopes, by=by, limit=_HISTORY)
    return visit.page("history.html", whose=whose, entries=[_entry(visit, each) for each in latest])


def _entry(visit: Visit, each: Decision) -> Entry:
    is_undo, is_undone = each.decision == UNDO, each.undone_by is not None
    return Entry(
        decision=each,
        words=DECIDED.get(each.decision, each.decision),
        path=_place(each),
        text=_text(visit, each),
        is_undo=is_undo,
        is_undone=is_undone,
        may_undo=visit.session.may_decide and not is_undo and not is_undone,
    )


def _text(visit: Visit, each: Decision) -> str:
    """What a decision is about: the first words of it."""
    reviews, scopes = visit.site.reviews, visit.scopes
    try:
        if each.decision in RESOLUTIONS:
            chunk = reviews.contradiction(each.review_id, scopes=scopes).left
        else:
            chunk = reviews.question(each.review_id, scopes=scopes).chunk
    except NoSuchQuestion:
        return ""
    return (chunk.text or chunk.source_row_id)[:_EXCERPT]


def occurrences(visit: Visit) -> Response:
    """The rows that say a chunk."""
    chunk_id = visit.path_id("chunk_id")
    found = visit.site.reviews.occurrences(chunk_id, scopes=visit.scopes, limit=_MOST_OCCURRENCES + 1)
    if not found:
        raise not_found()
    return visit.page(
        "chunk.html",
        occurrences=list(islice(found, _MOST_OCCURRENCES)),
        is_cut=len(found) > _MOST_OCCURRENCES,
    )
