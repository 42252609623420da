"""What differs between two texts, in words and line by line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from rapidfuzz.distance import Indel

Kind = Literal["same", "gone", "new"]
# A word is what stands between blanks and marks of punctuation, so that letters keep their accents, vowel signs and
# joiners. Numbers keep their points; a Han or Kana sign is a word by itself, since those scripts have no blanks.
_MARKS = r"!-/:-@\[-`{-~¡«»¿،؛؟।‐-‧‰-⁞、-〿！-／：-＠"
_SIGNS = "぀-ヿ㐀-䶿一-鿿豈-﫿"
_WORD = re.compile(rf"\d+(?:[.,:/]\d+)+|[{_SIGNS}]|[^\s{_MARKS}{_SIGNS}]+|[{_MARKS}]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Bits of the table that finds the longest common part: some 30 MB, and a few tens of milliseconds.
_MOST_CELLS = 250_000_000
# What two long changes have in common by chance, such as one `the`, would tear them to pieces.
_BY_CHANCE_LETTERS = 3


class Piece(NamedTuple):
    """Words in a row that are in both texts, in the first alone (gone) or in the second alone (new)."""

    kind: Kind
    text: str


Line = tuple[Piece, ...]


@dataclass(frozen=True)
class WordDiff:
    """The first text and the second, each whole, cut into lines and marked; and the two woven into one."""

    first: tuple[Line, ...]
    second: tuple[Line, ...]
    woven: tuple[Line, ...]

    @property
    def changes(self) -> int:
        """How many runs of words differ."""
        pieces = (piece.kind != "same" for line in self.woven for piece in line if piece.text.strip())
        return sum(differs for differs, _ in groupby(pieces))


class _Token(NamedTuple):
    word: str
    text: str  # with the blanks after it


class _Run(NamedTuple):
    """Words in a row of both texts: the same, or what stands in the first where that stands in the second."""

    is_same: bool
    first: list[_Token]
    second: list[_Token]


def word_diff(first: str, second: str) -> WordDiff:
    """Joined, the pieces of `first` are the first text and those of `second` the second, to the letter. How blanks
    and lines are laid out is no difference."""
    runs = list(_joined(_tidied(list(_compared(_tokens(first), _tokens(second))))))
    in_first = [Piece("same" if run.is_same else "gone", _text(run.first)) for run in runs if run.first]
    in_second = [Piece("same" if run.is_same else "new", _text(run.second)) for run in runs if run.second]
    woven = [piece for run in runs for piece in _woven(run)]
    return WordDiff(*(tuple(_lines(pieces)) for pieces in (in_first, in_second, woven)))


def _tokens(text: str) -> list[_Token]:
    starts = [match.span() for match in _WORD.finditer(text)]
    if not starts:
        return [_Token("", text)] if text else []
    ends = [start for start, _ in starts[1:]] + [len(text)]
    tokens = [_Token(text[start:stop], text[start:end]) for (start, stop), end in zip(starts, ends, strict=True)]
    before = text[: starts[0][0]]
    return [tokens[0]._replace(text=before + tokens[0].text), *tokens[1:]]


def _compared(first: list[_Token], second: list[_Token]) -> Iterator[_Run]:
    head = _alike(first, second)
    tail = _alike(first[head:][::-1], second[head:][::-1])
    if head:
        yield _same(first[:head], second[:head])
    inner_first, inner_second = first[head : len(first) - tail], second[head : len(second) - tail]
    if len(inner_first) * len(inner_second) <= _MOST_CELLS:
        yield from _by_word(inner_first, inner_second)
    else:
        yield from _by_line(inner_first, inner_second)
    if tail:
        yield _same(first[len(first) - tail :], second[len(second) - tail :])


def _alike(first: list[_Token], second: list[_Token]) -> int:
    """How many words the two begin with in common."""
    most = min(len(first), len(second))
    return next((n for n in range(most) if first[n].word != second[n].word), most)


def _by_word(first: list[_Token], second: list[_Token]) -> Iterator[_Run]:
    for start, stop, second_start, second_stop in _spans([t.word for t in first], [t.word for t in second]):
        left, right = first[start:stop], second[second_start:second_stop]
        yield _same(left, right) if [t.word for t in left] == [t.word for t in right] else _changed(left, right)


def _by_line(first: list[_Token], second: list[_Token]) -> Iterator[_Run]:
    """For texts too long to compare each word with each: lines first, then words where few enough differ."""
    ours, theirs = _by_lines(first), _by_lines(second)
    keys = [[" ".join(token.word for token in line) for line in lines] for lines in (ours, theirs)]
    if len(ours) * len(theirs) > _MOST_CELLS:
        yield _changed(first, second)
        return
    for start, stop, second_start, second_stop in _spans(keys[0], keys[1]):
        left = [token for line in ours[start:stop] for token in line]
        right = [token for line in theirs[second_start:second_stop] for token in line]
        if left and right and keys[0][start] == keys[1][second_start]:
            yield _same(left, right)
        elif len(left) * len(right) <= _MOST_CELLS:
            yield from _by_word(left, right)
        else:
            yield _changed(left, right)


def _by_lines(tokens: list[_Token]) -> list[list[_Token]]:
    lines: list[list[_Token]] = [[]]
    for token in tokens:
        lines[-1].append(token)
        if "\n" in token.text:
            lines.append([])
    return [line for line in lines if line]


def _spans(first: list[str], second: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Spans of both that are alike, and between them those that differ: one side of them may be empty."""
    # Numbers, so that what is found does not hang on how this interpreter hashes words.
    number: dict[str, int] = {}
    ours = [number.setdefault(word, len(number)) for word in first]
    theirs = [number.setdefault(word, len(number)) for word in second]
    at, second_at = 0, 0
    for step in Indel.opcodes(ours, theirs):
        if step.tag == "equal":
            if at < step.src_start or second_at < step.dest_start:
                yield at, step.src_start, second_at, step.dest_start
            yield step.src_start, step.src_end, step.dest_start, step.dest_end
            at, second_at = step.src_end, step.dest_end
    if at < len(ours) or second_at < len(theirs):
        yield at, len(ours), second_at, len(theirs)


def _tidied(runs: list[_Run]) -> Iterator[_Run]:
    """A short word in common between two longer changes is part of them."""
    for n, run in enumerate(runs):
        by_chance = run.is_same and 0 < n < len(runs) - 1 and _is_by_chance(run, runs[n - 1], runs[n + 1])
        yield _changed(run.first, run.second) if by_chance else run


def _is_by_chance(run: _Run, before: _Run, after: _Run) -> bool:
    letters = sum(len(token.word) for token in run.first)
    around = [len(side.first) + len(side.second) for side in (before, after)]
    return letters <= _BY_CHANCE_LETTERS and min(around) >= 2 * len(run.first) and sum(around) >= 6 * len(run.first)


def _joined(runs: Iterator[_Run]) -> Iterator[_Run]:
    """Common runs and changes in turn."""
    for is_same, some in groupby(runs, key=lambda run: run.is_same):
        together = list(some)
        first = [token for run in together for token in run.first]
        second = [token for run in together for token in run.second]
        yield _Run(is_same, first, second)


def _woven(run: _Run) -> list[Piece]:
    if run.is_same:
        return [Piece("same", _text(run.second))]
    sides: list[tuple[Kind, list[_Token]]] = [("gone", run.first), ("new", run.second)]
    return [Piece(kind, _text(tokens)) for kind, tokens in sides if tokens]


def _same(first: list[_Token], second: list[_Token]) -> _Run:
    return _Run(is_same=True, first=first, second=second)


def _changed(first: list[_Token], second: list[_Token]) -> _Run:
    return _Run(is_same=False, first=first, second=second)


def _text(tokens: list[_Token]) -> str:
    return "".join(token.text for token in tokens)


def _lines(pieces: list[Piece]) -> Iterator[Line]:
    line: list[Piece] = []
    for piece in pieces:
        for part in _LINE.findall(piece.text):
            line.append(Piece(piece.kind, part))
            if part.endswith("\n"):
                yield tuple(line)
                line = []
    if line:
        yield tuple(line)
