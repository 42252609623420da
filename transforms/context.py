"""What was found as a block for a prompt: whole texts within a budget, under headers that no text can imitate."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.terms import GLOBAL, PERSONAL
from transforms.chunking import TOKEN

HEADERS = {GLOBAL: "[GLOBAL CORPUS]", PERSONAL: "[PERSONAL CORPUS]"}
# Every line of a text begins so: a header is a line that does not.
_QUOTE = "> "
_BRACKETED = re.compile(r"\[([^\[\]]*)\]")


@dataclass(frozen=True)
class Passage:
    """A text that was found: of which type of corpus, and what it is called."""

    corpus_type: str
    title: str
    text: str


def context(passages: Sequence[Passage], *, budget: int) -> str:
    """The passages that fit, best first in each section, global ones before personal ones; empty where none fits.

    `budget` is of words and punctuation marks, as documents are cut, and all that is in the block counts.
    A passage is there whole or not at all; one that is too long gives way to the next that fits.
    """
    sections: dict[str, list[str]] = {GLOBAL: [], PERSONAL: []}
    left = budget
    for passage in passages:
        block = f"{_title(passage.title)}\n{_quoted(passage.text)}"
        header = "" if sections[passage.corpus_type] else HEADERS[passage.corpus_type]
        cost = counted(header) + counted(block)
        if cost <= left:
            sections[passage.corpus_type].append(block)
            left -= cost
    return "\n\n".join("\n\n".join([HEADERS[kind], *blocks]) for kind, blocks in sections.items() if blocks)


def counted(text: str) -> int:
    """Words and punctuation marks of a text."""
    return sum(1 for _ in TOKEN.finditer(text))


def _title(title: str) -> str:
    """In one line that cannot be taken for a header."""
    return "- " + _seen(" ".join(_defused(title).split()))


def _quoted(text: str) -> str:
    # By every mark that some reader takes for the end of a line.
    return "\n".join(f"{_QUOTE}{_seen(line)}" for line in _defused(text).splitlines())


def _seen(line: str) -> str:
    """The line without control characters: a terminal would obey them, and nobody reads them."""
    if line.isprintable():
        return line
    return "".join(c for c in line if c == "\t" or unicodedata.category(c) != "Cc")


def _defused(text: str) -> str:
    """The text with round brackets where square ones, of any kind, hold what reads as a header."""
    if not _reads_as_header(text):
        return text
    folded = "".join(_folded(character) for character in text)
    return _BRACKETED.sub(lambda found: f"({found[1]})" if _reads_as_header(found[1]) else found[0], folded)


def _folded(character: str) -> str:
    """Full-width and decorated forms as the plain ones; what is not seen is nothing, but for ends of lines."""
    plain = unicodedata.normalize("NFKC", character)
    if unicodedata.category(character) == "Cf":
        return ""
    bracket = {"Ps": "[", "Pe": "]"}.get(unicodedata.category(character))
    return bracket if bracket and character not in "(){}" else plain


def _reads_as_header(text: str) -> bool:
    letters = "".join(filter(str.isalpha, unicodedata.normalize("NFKC", text))).casefold()
    return any(name in letters for name in ("globalcorpus", "personalcorpus"))
