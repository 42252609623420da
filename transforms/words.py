"""Texts as words: each distinct token is looked at once, and a text is a run of keys that stand for what it says.

Inflections of a word share a key, a number is its value in base units whatever it is written in, and a date is its day,
month and year. So two texts differ exactly in the keys that one of them has and the other has not.
"""

import re
from calendar import month_name
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from transforms.lexicon import FUNCTION_WORDS, MONTHS, NEGATIONS, NUMBER_WORDS, UNITS, stem, unaccented
from transforms.vocabulary import distinct_with_codes

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Kind(IntEnum):
    """What a token is."""

    WORD = 0
    FUNCTION = 1
    NUMBER = 2
    CODE = 3
    NEGATION = 4
    MARK = 5
    SIGN = 6
    INITIAL = 7
    MONTH = 8


# Numbers and codes with what joins their parts; words; units that are no words; signs that say something; marks.
_SPLIT = (
    r"km/h|(?:US|R)\$|\p{L}*\p{N}[\p{L}\p{N}]*(?:[.,:/_\-][\p{L}\p{N}]*\p{N}[\p{L}\p{N}]*)*(?:-\p{Lu}\b)?"
    r"|\p{L}[\p{L}\p{M}]*(?:['’ʼ´`]\p{L}+)*|[°º]\p{L}?|[%&@#?]|[.!:;\n]"
    # Symbols, but those that only decorate: rules, bullets, marks of a trade.
    r"|[\p{Sc}\p{Sm}\p{So}&&[^|~©®™\x{FFFD}\x{2500}-\x{25FF}\x{2794}-\x{27BF}]]"
)
_MARKS = frozenset(".!:;\n")
# Not after a number: `(1903 -1967)` is a span.
_MINUS = (r"(^\s*|[(\[]|[^\d\s]\s+)[-−–](\p{Sc}?\d)", "${1}minus ${2}")
_SPACE = r"[ \x{A0}\x{202F}]"
# Thousands told apart by a space, thin or not; the longest run first.
_SPACED = tuple(
    (r"\b(\d{1,3})" + rf"{_SPACE}(\d{{3}})" * groups + r"\b", "".join(f"${{{n}}}" for n in range(1, groups + 2)))
    for groups in (3, 2, 1)
)
# In Portuguese `no` is `in the`; in Spanish and English it turns a statement round.
_PORTUGUESE = (
    r"\b\p{Ll}\p{L}*[ãõç]|(?i)\p{L}ç(?:ão|ões)\b"
    r"|\b(?:não|um|uma|em|nas|pelo|pela|pelos|pelas|são|foi|seu|sua|ele|ela|isso|você|também"
    r"|até|já|à|às|ao|é|(?:está|fica|ficam) no)\b|(?:lh|nh)[ao]s?\b"
    # Not `pode`, which in Spanish prunes a tree, nor `COM`, a port.
    r"|(?-i:(?:^|\s)(?:com|podem|deve|devem)\s)"
)
_ENGLISH_OR_SPANISH = (
    r"the|is|are|was|were|has|have|had|with|there|it|of|and|to|this|that|el|una|del|y|con|pero|hay|muy"
)
_NOT_PORTUGUESE = (
    r"(?i)[ñ¿¡]|\bno (?:longer|one|more|way|need|matter)\b"
    # Not as titles write them: `The Hulk` stands in Portuguese texts too.
    rf"|(?-i)\b(?:{_ENGLISH_OR_SPANISH}|{_ENGLISH_OR_SPANISH.upper()})\b"
)
_IN_THE = (r"(?i)\b(n)o\b", "${1}a")
_PERCENT = (r"(?i)\bper cent\b|\bpor cien(?:to)?\b|\bpor cento\b", "percent")
# Where `3.10` is not `3.1`.
_VERSIONS = (
    r"(?i)\b(versi[oó]n|version|versão|edition|edición|edição|revision|revisión|revisão|release)\s+(\d+(?:\.\d+)+)\b",
    "${1} v${2}",
)
_YEAR = r"((?:19|20)\d{2})"
_DAY_ABOVE_12, _MONTH_NUMBER = r"(1[3-9]|2\d|3[01])", r"(0?[1-9]|1[0-2])"
_MONTH_NAME = (
    r"(January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
)
# Dates whose parts are told apart by their places or sizes, as day, month and year; beside a year `May` is a month.
_DATES = (
    (rf"\b{_MONTH_NAME} (\d{{1,2}})(?:st|nd|rd|th)?,? {_YEAR}\b", "${2} ${1} ${3}"),
    (rf"\bMay,? {_YEAR}\b", "month5 ${1}"),
    (rf"\b{_YEAR}[-/.](\d{{2}})[-/.](\d{{2}})\b", "${3} month${2} ${1}"),
    (rf"\b{_DAY_ABOVE_12}[-/.]{_MONTH_NUMBER}[-/.]{_YEAR}\b", "${1} month${2} ${3}"),
    (rf"\b{_MONTH_NUMBER}[-/.]{_DAY_ABOVE_12}[-/.]{_YEAR}\b", "${2} month${1} ${3}"),
    # The time of day, as Portuguese and French write it.
    (r"\b([01]?\d|2[0-3])h([0-5]\d)\b", "${1}:${2}"),
)
# Texts that any of these is in, at a glance.
_FIGURES = (
    r"(?:^|[\s(\[])[-−–]\p{Sc}?\d|\d[-/.h \x{A0}\x{202F}]\d|(?:\d(?:st|nd|rd|th)?,?|May,?) (?:19|20)\d"
    r"|(?i:\bp[eo]r ci?en)"
)
_MONTH_TOKEN = re.compile(r"month0?([1-9]|1[0-2])")
_MONTH_NAMES = {f"month{number:0{width}}": month_name[number] for number in range(1, 13) for width in (1, 2)}
_GROUPS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?")
_PLAIN_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_NUMBER_AND_UNIT = re.compile(r"([\d.,]+)([^\d.,].*)")
# Figures of every shape: superior and inferior ones, fractions, Roman and circled numbers.
_DIGITS = re.compile(r"[\d²³¹¼-¾⁰-₉⅐-↋①-⓿❶-➓]")
# Names that are written in figures: what a float could not tell apart, or what begins with zeros.
_NAME_IN_FIGURES = re.compile(r"0\d{2,}|\d{15,}")
_SIGNIFICANT = 14
_LONGEST_NUMBER = 18
_APOSTROPHES = re.compile("[’ʼ´`]")
# A number only before a unit; elsewhere an article or a pronoun.
_ONE = frozenset({"one", "un", "uno", "una", "um", "uma"})


@dataclass(frozen=True)
class Words:
    """Texts as runs of keys: those of text `i` stand from `starts[i]` to `starts[i + 1]`."""

    starts: Ints
    key: Ints
    """What each token says."""
    token: Ints
    """Which token of the vocabulary it is."""
    is_name: Flags
    """Begins with a capital where no sentence begins."""
    unit: Ints
    """Which token of the vocabulary is a number's unit; -1 where it has none."""
    vocabulary: pl.Series
    keys: pl.DataFrame
    """Of each key its kind, a number's value and other reading, and its word without accents."""

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)


@dataclass(frozen=True)
class _Looked:
    """The vocabulary, looked up token by token."""

    kind: NDArray[np.int8]
    key: list[str]
    value: NDArray[np.float64]
    other: NDArray[np.float64]
    unit: NDArray[np.int16]
    factor: NDArray[np.float64]
    is_capital: Flags
    is_one: Flags
    is_minus: Flags


_QUANTITIES = sorted({quantity for quantity, _ in UNITS.values()})


def words_of(texts: pl.Series) -> Words:
    """The texts as words. A null has none."""
    texts = texts.fill_null("")
    if texts.len():
        texts = _without_in_the(_with_figures(texts))
    split = texts.str.extract_all(_SPLIT)
    lengths = split.list.len().to_numpy().astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    vocabulary, token = distinct_with_codes(split.explode(empty_as_null=False))
    looked = _look(vocabulary.to_list())
    kind = looked.kind[token]
    begins = np.zeros(len(token) + 1, dtype=bool)
    begins[starts[:-1]] = True
    begins[1:] |= np.append(kind, 0)[:-1] == Kind.MARK
    is_name = looked.is_capital[token] & ~begins[:-1]
    keys, key, unit, kept = _keyed(looked, token, begins[:-1])
    return Words(
        starts=np.concatenate([[0], np.cumsum(kept)])[starts],
        key=key[kept],
        token=token[kept],
        is_name=is_name[kept],
        unit=unit[kept],
        vocabulary=vocabulary.replace(_MONTH_NAMES),
        keys=keys,
    )


def _with_figures(texts: pl.Series) -> pl.Series:
    """Dates as day, month and year, thousands without gaps, versions as codes; a minus before a figure as a word."""
    has = texts.str.contains(_FIGURES)
    if not has.any():
        return texts
    found = texts.filter(has)
    for pattern, written in (_MINUS, *_SPACED, *_DATES, _VERSIONS, _PERCENT):
        found = found.str.replace_all(pattern, written)
    return texts.scatter(has.arg_true(), found)


def _without_in_the(texts: pl.Series) -> pl.Series:
    """Portuguese texts with `no` as `na`, which is no negation."""
    at = texts.str.contains(_IN_THE[0]).arg_true()
    some = texts.gather(at)
    is_portuguese = some.str.contains(_PORTUGUESE) & ~some.str.contains(_NOT_PORTUGUESE)
    if not is_portuguese.any():
        return texts
    return texts.scatter(at.filter(is_portuguese), some.filter(is_portuguese).str.replace_all(*_IN_THE))


def _look(tokens: list[str]) -> _Looked:
    count = len(tokens)
    looked = _Looked(
        kind=np.zeros(count, dtype=np.int8),
        key=[""] * count,
        value=np.full(count, np.nan),
        other=np.full(count, np.nan),
        unit=np.full(count, -1, dtype=np.int16),
        factor=np.ones(count),
        is_capital=np.zeros(count, dtype=bool),
        is_one=np.zeros(count, dtype=bool),
        is_minus=np.zeros(count, dtype=bool),
    )
    for at, token in enumerate(tokens):
        looked.is_capital[at] = token[0].isupper()
        unit = UNITS.get(token) or UNITS.get(token.lower())
        if unit is not None:
            looked.unit[at], looked.factor[at] = _QUANTITIES.index(unit[0]), unit[1]
        looked.kind[at], looked.key[at] = _looked_up(token, looked, at)
    return looked


def _looked_up(token: str, looked: _Looked, at: int) -> tuple[Kind, str]:  # noqa: PLR0911  one kind a line
    month = _MONTH_TOKEN.fullmatch(token)
    if month:
        return Kind.MONTH, f"month {int(month[1])}"
    if _DIGITS.search(token):
        return _number_or_code(token, looked, at)
    if not token[0].isalpha() or token[-1] == "$":
        return (Kind.MARK if token in _MARKS else Kind.SIGN), token
    bare = unaccented(_APOSTROPHES.sub("'", token))
    if bare in NEGATIONS or "n't" in bare:
        return Kind.NEGATION, "not"
    if bare in NUMBER_WORDS:
        looked.value[at] = NUMBER_WORDS[bare]
        return Kind.NUMBER, bare
    looked.is_one[at], looked.is_minus[at] = bare in _ONE, bare == "minus"
    if bare in MONTHS:
        return Kind.MONTH, f"month {MONTHS[bare]}"
    if len(bare) == 1 and bare not in FUNCTION_WORDS:
        return Kind.INITIAL, bare
    bare = bare.removesuffix("'s")
    return (Kind.FUNCTION if bare in FUNCTION_WORDS else Kind.WORD), stem(bare)


def _number_or_code(token: str, looked: _Looked, at: int) -> tuple[Kind, str]:
    with_unit = _NUMBER_AND_UNIT.fullmatch(token)
    if with_unit and with_unit[2] in UNITS and token[0].isdigit():
        quantity, factor = UNITS[with_unit[2]]
        looked.unit[at], looked.factor[at] = _QUANTITIES.index(quantity), factor
        token = with_unit[1]
    if _GROUPS.fullmatch(token) and len(token) <= _LONGEST_NUMBER:
        looked.value[at], looked.other[at] = _grouped(token)
    elif _PLAIN_NUMBER.fullmatch(token) and not _NAME_IN_FIGURES.fullmatch(token):
        looked.value[at] = float(token.replace(",", "."))
    else:
        # Separators of a part number or a date are written many ways; leading zeros of its parts count.
        return Kind.CODE, re.sub(r"[\W_]+", "-", unaccented(token))
    return Kind.NUMBER, token


def _grouped(token: str) -> tuple[float, float]:
    """`1,234` and `1.234`: with thousands told apart, or with a fraction. As the first reading is usual in English."""
    last = max(token.rfind(","), token.rfind("."))
    if "," in token and "." in token:
        value = float(re.sub(r"[.,]", "", token[:last]) + "." + token[last + 1 :])
        return value, np.nan
    whole = float(re.sub(r"[.,]", "", token))
    if token.count(token[last]) > 1:
        return whole, np.nan
    fraction = float(token.replace(",", "."))
    return (whole, fraction) if token[last] == "," else (fraction, whole)


def _keyed(looked: _Looked, token: Ints, begins: Flags) -> tuple[pl.DataFrame, Ints, Ints, Flags]:
    """The keys there are, the key of each token and its unit, and which tokens are kept: a unit goes into its number,
    and marks go."""
    words, of_word = _distinct_words(looked)
    key, kind = of_word[token], looked.kind[token]
    kept, unit_token = kind != Kind.MARK, np.full(len(token), -1, dtype=np.int64)
    has_unit = looked.unit[token] >= 0
    is_one = looked.is_one[token]
    is_one[:-1] &= has_unit[1:] & ~begins[1:]
    is_one[-1:] = False
    numbers = np.flatnonzero((kind == Kind.NUMBER) | is_one)
    if not numbers.size:
        return words, key, unit_token, kept
    value = np.where(is_one[numbers], 1.0, looked.value[token[numbers]])
    other = looked.other[token[numbers]]
    unit, factor = looked.unit[token[numbers]].copy(), looked.factor[token[numbers]].copy()
    for step, is_prefix in ((1, False), (-1, True)):
        near = numbers + step
        inside = (near >= 0) & (near < len(token))
        near = np.where(inside, near, 0)
        # Over no border between texts: the unit after a number begins none, nor does the number after a sign.
        inside &= ~begins[np.maximum(near, numbers)]
        there = looked.unit[token[near]]
        takes = inside & (unit < 0) & (there >= 0) & (kind[near] != Kind.NUMBER)
        if is_prefix:
            # A sign that is the unit of the number before it is no longer there to take.
            takes &= (kind[near] == Kind.SIGN) & kept[near]
        unit[takes], factor[takes] = there[takes], looked.factor[token[near]][takes]
        unit_token[numbers[takes]] = token[near[takes]]
        kept[near[takes]] = False
    # What `takes` holds now are the numbers with a sign before them: a minus stands before that.
    before = numbers - 1 - takes
    is_below = (before >= 0) & looked.is_minus[token[np.maximum(before, 0)]]
    is_below &= ~begins[numbers] & ~begins[np.maximum(before + 1, 0)]
    kept[before[is_below]] = False
    factor[is_below] *= -1
    quantities, of_number = _distinct_numbers(value * factor, other * factor, unit)
    key[numbers] = words.height + of_number
    return pl.concat([words, quantities]), key, unit_token, kept


def _distinct_words(looked: _Looked) -> tuple[pl.DataFrame, Ints]:
    """The keys of words, and for each token of the vocabulary which of them it has."""
    tokens = pl.DataFrame({"word": looked.key, "kind": looked.kind}, schema={"word": pl.String, "kind": pl.Int8})
    words = tokens.unique(maintain_order=True).with_row_index("key")
    of_word = (
        tokens.join(words, on=["word", "kind"], how="left", maintain_order="left")["key"].to_numpy().astype(np.int64)
    )
    nothing = pl.lit(float("nan"))
    return words.select("word", "kind", value=nothing, other=nothing, quantity=pl.lit(-1, dtype=pl.Int16)), of_word


def _distinct_numbers(
    value: NDArray[np.float64], other: NDArray[np.float64], unit: NDArray[np.int16]
) -> tuple[pl.DataFrame, Ints]:
    rows = pl.DataFrame({"value": _rounded(value), "other": _rounded(other), "quantity": unit.astype(np.int16)})
    distinct = rows.unique(maintain_order=True).with_row_index("at")
    of_number = rows.join(distinct, on=rows.columns, how="left", nulls_equal=True, maintain_order="left")["at"]
    named = distinct.select(
        word=pl.col("value").cast(pl.String),
        kind=pl.lit(int(Kind.NUMBER), dtype=pl.Int8),
        value="value",
        other="other",
        quantity="quantity",
    )
    return named, of_number.to_numpy().astype(np.int64)


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values as far as conversions of units leave them alone."""
    distinct, at = np.unique(values, return_inverse=True)
    rounded: NDArray[np.float64] = np.array([float(f"{value:.{_SIGNIFICANT}g}") for value in distinct])[at]
    return rounded
