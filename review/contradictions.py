"""The pages of contradictions: the list, and which of two stands."""

from typing import Literal, cast

from starlette.responses import Response

from flows.review_terms import AlreadyDecided, BadChoice
from review.marked import compared
from review.questions import note_of, told_first
from review.visit import Visit
from review.words import DECIDED

_MOST_SHOWN_OCCURRENCES = 8
_LONGEST_CURSOR = 500


def contradictions(visit: Visit) -> Response:
    """Two chunks that disagree, and again."""
    status = "resolved" if visit.query.get("status") == "resolved" else "open"
    cursor = visit.query.get("cursor", "")[:_LONGEST_CURSOR] or None
    page = visit.site.reviews.contradictions(
        scopes=visit.scopes, status=status, cursor=cursor, limit=visit.site.page_size
    )
    return visit.page("contradictions.html", page=page, status=status)


def contradiction(visit: Visit) -> Response:
    """One of them."""
    return _contradiction(visit)


def _contradiction(visit: Visit, *, status: int = 200, fault: str = "", note: str = "") -> Response:
    reviews, scopes = visit.site.reviews, visit.scopes
    pair = reviews.contradiction(visit.path_id("pair_id"), scopes=scopes)
    left, right = (
        reviews.occurrences(side.chunk_id, scopes=scopes, limit=_MOST_SHOWN_OCCURRENCES)
        for side in (pair.left, pair.right)
    )
    return visit.page(
        "contradiction.html",
        code=status,
        fault=fault,
        note=note,
        pair=pair,
        compared=compared(pair.right, pair.left),
        left_occurrences=left,
        right_occurrences=right,
    )


def resolve(visit: Visit) -> Response:
    """Takes down which of the two stands."""
    pair_id = visit.path_id("pair_id")
    note = note_of(visit)
    stands = cast("Literal['left', 'right', 'both']", visit.form.get("stands", ""))
    try:
        done = visit.site.reviews.resolve(pair_id, stands, by=visit.session.name, notes=note, scopes=visit.scopes)
    except AlreadyDecided as error:
        visit.audit("resolve", pair_id, allowed=False, detail="decided already")
        return _contradiction(visit, status=409, fault=told_first(error.standing), note=note or "")
    except BadChoice as error:
        visit.audit("resolve", pair_id, allowed=False, detail="bad choice")
        return _contradiction(visit, status=400, fault=f"Not recorded: {error}", note=note or "")
    visit.site.applier.ask()
    visit.say(f"{DECIDED[done.decision].capitalize()}.", undo=done.decision_id)
    return visit.go("/contradictions")
