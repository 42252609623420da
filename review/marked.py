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
_AROUND = 200
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
class Part:
    """A stretch of a text: open, or folded because it is long."""

    marks: list[Mark]
    is_folded: bool = False

    @property
    def characters(self) -> int:
        return sum(len(mark.before) + len(mark.words) + len(mark.after) for mark in self.marks)

    @property
    def changes(self) -> int:
        return sum(mark.kind != "same" for mark in self.marks)


@dataclass(frozen=True)
class Side:
    """One of the texts."""

    parts: list[Part]
    characters: int
    shown_characters: int


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
    is_long = shown > _OPEN_CHARACTERS + _NOT_WORTH_FOLDING
    parts = list(_folded(pieces)) if is_long else [Part([_mark(piece) for piece in pieces])] if pieces else []
    return Side(parts, characters, shown)


def _folded(pieces: list[Piece]) -> Iterator[Part]:
    """What differs stays open, with some words around it; long stretches that are the same are folded, and so is all
    that comes after the first page of it."""
    open_: list[Mark] = []
    left = _OPEN_CHARACTERS
    for n, piece in enumerate(pieces):
        head, middle, tail = _cut(piece, is_first=n == 0, is_last=n == len(pieces) - 1)
        if len(head) > left:
            head, rest = _at_blank(head, left)
            yield Part([*open_, _mark(Piece(piece.kind, head))])
            rest += middle + tail
            yield Part(
                [_mark(each) for each in (Piece(piece.kind, rest), *pieces[n + 1 :]) if each.text], is_folded=True
            )
            return
        open_.append(_mark(Piece(piece.kind, head)))
        if middle:
            yield Part(open_)
            yield Part([_mark(Piece(piece.kind, middle))], is_folded=True)
            open_ = [_mark(Piece(piece.kind, tail))] if tail else []
        left -= len(head) + len(tail)
    if open_:
        yield Part(open_)


def _cut(piece: Piece, *, is_first: bool, is_last: bool) -> tuple[str, str, str]:
    """What is open at the beginning of a piece, what is folded of it, and what is open at its end."""
    text = piece.text
    before, after = (_OPEN_CHARACTERS // 2 if is_first and is_last else _AROUND), 0 if is_last else _AROUND
    if piece.kind != "same" or len(text) <= before + after + _NOT_WORTH_FOLDING:
        return text, "", ""
    head, rest = _at_blank(text, before)
    middle, tail = _at_blank(rest, len(rest) - after) if after else (rest, "")
    return head, middle, tail


def _at_blank(text: str, most: int) -> tuple[str, str]:
    """Two parts, cut at a blank, so that no word is cut; a text without blanks is cut where it is."""
    at = max(text.rfind(" ", 0, most), text.rfind("\n", 0, most)) + 1 or most
    return text[:at], text[at:]


def _together(pieces: Iterable[Piece]) -> list[Piece]:
    """Lines joined again, so that a difference over several of them is one to look at and to hear."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = Piece(piece.kind, joined[-1].text + piece.text)
        else:
            joined.append(piece)
    return joined


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
        ours, theirs = (
            _marks(_together(piece for line in side for piece in line)) for side in (found.second, found.first)
        )
        fields.append(SpecField(name, ours, theirs, differs=found.changes > 0))
    return fields
