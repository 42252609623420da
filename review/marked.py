"""Two chunks side by side, as the page shows them: their differences marked, what is long folded."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flows.review_terms import Shown
from schemas.rows import SPEC_FIELDS
from schemas.terms import SPEC_ROW
from transforms.word_diff import Kind, Line, Piece, word_diff

# A page is never larger than a browser likes: of longer texts, their beginnings are compared.
MOST_CHARACTERS = 40_000
_OPEN_CHARACTERS = 1_500
_NOT_WORTH_FOLDING = 400
_FIELD_NAMES = dict(zip(SPEC_FIELDS, ("Category", "Sub-category", "Specification", "Value", "Additional"), strict=True))
_BLANKS = re.compile(r"\A(\s*)(.*?)(\s*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Mark:
    """Words that are in both texts, or in one; the blanks around them are not marked."""

    kind: Kind
    before: str
    words: str
    after: str


@dataclass(frozen=True)
class Side:
    """One of the texts: what is open at first, and what is folded."""

    open: list[Mark]
    folded: list[Mark]
    characters: int
    shown_characters: int

    @property
    def folded_changes(self) -> int:
        return sum(mark.kind != "same" for mark in self.folded)

    @property
    def folded_characters(self) -> int:
        return sum(len(mark.before) + len(mark.words) + len(mark.after) for mark in self.folded)


@dataclass(frozen=True)
class WovenLine:
    """A line of the two texts woven into one, or how many lines that are the same stand here."""

    number: int
    marks: list[Mark]
    skipped: int = 0


@dataclass(frozen=True)
class SpecField:
    """A field of two spec rows."""

    name: str
    new: list[Mark]
    there: list[Mark]
    differs: bool


@dataclass(frozen=True)
class Comparison:
    """A new chunk and one that is there."""

    new: Side
    there: Side
    changes: int
    woven: list[WovenLine]
    fields: list[SpecField]
    is_partial: bool


def compared(new: Shown, there: Shown) -> Comparison:
    """The two chunks with their differences marked. Spec rows are compared field by field."""
    new_text, there_text = new.text or "", there.text or ""
    found = word_diff(there_text[:MOST_CHARACTERS], new_text[:MOST_CHARACTERS])
    return Comparison(
        new=_side(found.second, len(new_text)),
        there=_side(found.first, len(there_text)),
        changes=found.changes,
        woven=list(_woven(found.woven)),
        fields=_fields(new, there),
        is_partial=max(len(new_text), len(there_text)) > MOST_CHARACTERS,
    )


def alone(chunk: Shown) -> Side:
    """A chunk that is compared with nothing."""
    text = chunk.text or ""
    return _side(((Piece("same", text[:MOST_CHARACTERS]),),), len(text))


def _side(lines: Iterable[Line], characters: int) -> Side:
    pieces = _together(piece for line in lines for piece in line)
    shown = sum(len(piece.text) for piece in pieces)
    at_once, folded = pieces, []
    if shown > _OPEN_CHARACTERS + _NOT_WORTH_FOLDING:
        at_once, folded = _split(pieces)
    return Side(_marks(at_once), _marks(folded), characters, shown)


def _together(pieces: Iterable[Piece]) -> list[Piece]:
    """Lines joined again, so that a difference over several of them is one to look at and to hear."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = Piece(piece.kind, joined[-1].text + piece.text)
        else:
            joined.append(piece)
    return joined


def _split(pieces: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    left = _OPEN_CHARACTERS
    for n, piece in enumerate(pieces):
        if len(piece.text) >= left:
            # At a blank, so that no word is cut; a text without blanks is cut where it is.
            at = max(piece.text.rfind(" ", 0, left), piece.text.rfind("\n", 0, left)) + 1 or left
            head, rest = Piece(piece.kind, piece.text[:at]), Piece(piece.kind, piece.text[at:])
            return [*pieces[:n], head], [*([rest] if rest.text else []), *pieces[n + 1 :]]
        left -= len(piece.text)
    return pieces, []


def _marks(pieces: Iterable[Piece]) -> list[Mark]:
    return [_mark(piece) for piece in pieces]


def _mark(piece: Piece) -> Mark:
    parts = _BLANKS.match(piece.text)
    before, words, after = parts.groups() if parts else ("", piece.text, "")
    return Mark(piece.kind if words else "same", before, words, after)


def _woven(lines: tuple[Line, ...]) -> Iterator[WovenLine]:
    skipped = 0
    for number, line in enumerate(lines, start=1):
        marks = _marks(line)
        if all(mark.kind == "same" for mark in marks):
            skipped += 1
            continue
        if skipped:
            yield WovenLine(number, [], skipped)
            skipped = 0
        yield WovenLine(number, marks)
    if skipped and skipped < len(lines):
        yield WovenLine(len(lines), [], skipped)


def _fields(new: Shown, there: Shown) -> list[SpecField]:
    if new.kind != SPEC_ROW or there.kind != SPEC_ROW:
        return []
    fields = []
    for field, name in _FIELD_NAMES.items():
        said, said_there = (str(chunk.metadata.get(field) or "")[:MOST_CHARACTERS] for chunk in (new, there))
        found = word_diff(said_there, said)
        marks = [_marks(_together(piece for line in side for piece in line)) for side in (found.second, found.first)]
        fields.append(SpecField(name, *marks, differs=found.changes > 0))
    return fields
