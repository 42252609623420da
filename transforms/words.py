"""Texts as words: each distinct token is looked at once, and a text is a run of keys that stand for what it says.

Inflections of a word share a key, a number is its value in base units whatever it is written in, and a date is its day,
month and year. So two texts differ exactly in the keys that one of them has and the other has not.
"""

import re
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
    r"km/h|\p{L}*\p{Nd}[\p{L}\p{Nd}]*(?:[.,:/_\-][\p{L}\p{Nd}]*\p{Nd}[\p{L}\p{Nd}]*)*"
    r"|\p{L}[\p{L}\p{M}]*(?:['’]\p{L}+)*|[°º]\p{L}?|[%$€£<>=≤≥±+×÷&@#?]|[.!:;\n]"
)
_MARKS = frozenset(".!:;\n")
_MINUS = (r"(^|[\s(\[])[-−–](\d)", "${1}minus ${2}")
# Thousands told apart by a space, thin or not.
_SPACED = (r"\b(\d{1,3})[ \x{A0}\x{202F}](\d{3})\b", "${1}${2}")
# In Portuguese `no` is `in the`; in Spanish and English it turns a statement round.
_PORTUGUESE = r"(?i)[ãõç]|\b(?:não|uma|em|nas|pelo|pela|são|você|também|às|ao|é)\b|(?:lh|nh)[ao]s?\b"
_IN_THE = (r"\b([Nn])o\b", "${1}a")
_YEAR = r"((?:19|20)\d{2})"
_DAY_ABOVE_12, _MONTH_NUMBER = r"(1[3-9]|2\d|3[01])", r"(0?[1-9]|1[0-2])"
# Dates whose parts are told apart by their places or sizes, as day, month and year.
_DATES = (
    (rf"\b{_YEAR}[-/.](\d{{2}})[-/.](\d{{2}})\b", "${3} month${2} ${1}"),
    (rf"\b{_DAY_ABOVE_12}[-/.]{_MONTH_NUMBER}[-/.]{_YEAR}\b", "${1} month${2} ${3}"),
    (rf"\b{_MONTH_NUMBER}[-/.]{_DAY_ABOVE_12}[-/.]{_YEAR}\b", "${2} month${1} ${3}"),
)
_MONTH_TOKEN = re.compile(r"month0?(\d{1,2})")
_GROUPS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_PLAIN_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_NUMBER_AND_UNIT = re.compile(r"([\d.,]+)([^\d.,].*)")
_DIGITS = re.compile(r"\d")
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


_QUANTITIES = sorted({quantity for quantity, _ in UNITS.values()})


def words_of(texts: pl.Series) -> Words:
    """The texts as words. A null has none."""
    texts = texts.fill_null("")
    if texts.len():
        texts = _without_in_the(_with_dates(texts))
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
        vocabulary=vocabulary,
        keys=keys,
    )


def _with_dates(texts: pl.Series) -> pl.Series:
    """Dates in figures as day, month and year; a minus before a figure as a word."""
    has = texts.str.contains(r"(?:^|[\s(\[])[-−–]\d|\d[-/. \x{A0}\x{202F}]\d")
    if not has.any():
        return texts
    found = texts.filter(has).str.replace_all(*_MINUS)
    for _ in range(2):  # 1 234 567 has two gaps that share a group
        found = found.str.replace_all(*_SPACED)
    for pattern, day_month_year in _DATES:
        found = found.str.replace_all(pattern, day_month_year)
    return texts.scatter(has.arg_true(), found)


def _without_in_the(texts: pl.Series) -> pl.Series:
    """Portuguese texts with `no` as `na`, which is no negation."""
    has = texts.str.contains(r"\b[Nn]o\b") & texts.str.contains(_PORTUGUESE)
    return texts.scatter(has.arg_true(), texts.filter(has).str.replace_all(*_IN_THE)) if has.any() else texts


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
    if not token[0].isalpha():
        return (Kind.MARK if token in _MARKS else Kind.SIGN), token
    bare = unaccented(token).replace("’", "'")
    if bare in NEGATIONS or bare.endswith("n't"):
        return Kind.NEGATION, "not"
    if bare in NUMBER_WORDS:
        looked.value[at] = NUMBER_WORDS[bare]
        return Kind.NUMBER, bare
    looked.is_one[at] = bare in _ONE
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
    if _GROUPS.fullmatch(token):
        looked.value[at], looked.other[at] = _grouped(token)
    elif _PLAIN_NUMBER.fullmatch(token):
        looked.value[at] = float(token.replace(",", "."))
    else:
        # Separators of a part number or a date are written many ways; leading zeros of its parts count.
        return Kind.CODE, re.sub(r"[^0-9a-z]+", "-", unaccented(token))
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
            takes &= kind[near] == Kind.SIGN
        unit[takes], factor[takes] = there[takes], looked.factor[token[near]][takes]
        unit_token[numbers[takes]] = token[near[takes]]
        kept[near[takes]] = False
    quantities, of_number = _distinct_numbers(value * factor, other * factor, unit)
    key[numbers] = words.height + of_number
    return pl.concat([words, quantities]), key, unit_token, kept


def _distinct_words(looked: _Looked) -> tuple[pl.DataFrame, Ints]:
    """The keys of words, and for each token of the vocabulary which of them it has."""
    tokens = pl.DataFrame({"word": looked.key, "kind": looked.kind}, schema={"word": pl.String, "kind": pl.Int8})
    words = tokens.unique("word", keep="first", maintain_order=True).with_row_index("key")
    of_word = tokens.join(words, on="word", how="left", maintain_order="left")["key"].to_numpy().astype(np.int64)
    nothing = pl.lit(float("nan"))
    return words.select("word", "kind", value=nothing, other=nothing, quantity=pl.lit(-1, dtype=pl.Int16)), of_word


def _distinct_numbers(
    value: NDArray[np.float64], other: NDArray[np.float64], unit: NDArray[np.int16]
) -> tuple[pl.DataFrame, Ints]:
    rounded = [np.array([float(f"{number:.9g}") for number in column]) for column in (value, other)]
    rows = pl.DataFrame({"value": rounded[0], "other": rounded[1], "quantity": unit.astype(np.int16)})
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
