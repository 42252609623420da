"""What speaks for and against two texts being one: their differences, named and counted, as columns of the pair."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from transforms.lexicon import are_opposed, is_broader, is_listed, unaccented
from transforms.words import Ints, Kind, Words, words_of

# Words of a pair that are held against each other one by one, at most so many on each side.
_MOST_COMPARED = 12
# Two spellings of one word: of so many letters, and as near as this.
_SPELLING_LETTERS, _SPELLING = 5, 0.8
_SHOWN = 6

_CONTENT = (Kind.WORD, Kind.NUMBER, Kind.CODE, Kind.NEGATION, Kind.SIGN, Kind.MONTH)
_ORDERED = [int(kind) for kind in (Kind.WORD, Kind.NUMBER, Kind.CODE, Kind.INITIAL, Kind.MONTH, Kind.NEGATION)]
_NAMED = {"only": Kind.WORD, "numbers": Kind.NUMBER, "codes": Kind.CODE, "months": Kind.MONTH, "signs": Kind.SIGN}


@dataclass(frozen=True)
class Sides:
    """The texts that pairs are of, as words, and which of them is the left and the right one of each pair."""

    words: Words
    left: Ints
    right: Ints


def sides_of(texts: pl.Series, left: Ints, right: Ints) -> Sides:
    """The sides of pairs, given by their places among the texts."""
    return Sides(words_of(texts), left, right)


def pair_evidence(sides: Sides) -> pl.DataFrame:
    """One row a pair, in their order: what the two have in common and what only one of them has."""
    counts = _counts(sides)
    base = pl.DataFrame({"pair": np.arange(len(sides.left), dtype=np.uint32)})
    differing = _differing(counts, sides.words)
    compared = _compared(differing)
    evidence = (
        base.join(_overlap(counts), on="pair", how="left")
        .join(_by_kind(differing), on="pair", how="left")
        .join(compared, on="pair", how="left")
        .join(_order(counts), on="pair", how="left")
        .sort("pair")
    )
    words = [name for name, dtype in evidence.schema.items() if dtype == pl.String]
    return evidence.with_columns(pl.col(words).fill_null(""), pl.exclude(words).fill_null(0)).with_columns(
        is_same_run=pl.Series(_same_run(sides))
    )


def _spread(sides: Sides) -> tuple[Ints, Ints, NDArray[np.int8]]:
    """The tokens of all sides: the pair of each, where it stands among all tokens, and +1 for left, -1 for right."""
    words = sides.words
    pairs, places, signs = [], [], []
    for side, sign in ((sides.left, 1), (sides.right, -1)):
        lengths = words.lengths[side]
        pair = np.repeat(np.arange(len(side)), lengths)
        first = np.repeat(words.starts[side] - (np.cumsum(lengths) - lengths), lengths)
        pairs.append(pair)
        places.append(first + np.arange(len(pair)))
        signs.append(np.full(len(pair), sign, dtype=np.int8))
    return np.concatenate(pairs), np.concatenate(places), np.concatenate(signs)


def _counts(sides: Sides) -> pl.DataFrame:
    """How often each key stands on each side of a pair."""
    pair, at, sign = _spread(sides)
    nowhere = np.iinfo(np.int32).max
    rows = pl.DataFrame(
        {
            "pair": pair.astype(np.uint32),
            "key": sides.words.key[at].astype(np.uint32),
            "left": sign > 0,
            "at_left": np.where(sign > 0, at, nowhere).astype(np.int32),
            "at_right": np.where(sign > 0, nowhere, at).astype(np.int32),
        }
    )
    sums = (
        rows.lazy()
        .group_by("pair", "key")
        .agg(pl.col("at_left", "at_right").min(), n_left=pl.col("left").sum().cast(pl.Int32), n=pl.len().cast(pl.Int32))
    )
    found = sums.with_columns(n_right=pl.col("n") - pl.col("n_left")).collect()
    return found.with_columns(kind=pl.Series(sides.words.keys["kind"].to_numpy()[found["key"].to_numpy()]))


def _overlap(counts: pl.DataFrame) -> pl.DataFrame:
    content = pl.col("kind").is_in([int(kind) for kind in _CONTENT])
    shared = pl.min_horizontal("n_left", "n_right")
    return counts.group_by("pair").agg(
        left_words=pl.col("n_left").sum(),
        right_words=pl.col("n_right").sum(),
        shared_words=shared.sum(),
        left_content=pl.col("n_left").filter(content).sum(),
        right_content=pl.col("n_right").filter(content).sum(),
        shared_content=shared.filter(content).sum(),
        left_negations=pl.col("n_left").filter(pl.col("kind") == Kind.NEGATION).sum(),
        right_negations=pl.col("n_right").filter(pl.col("kind") == Kind.NEGATION).sum(),
    )


def _differing(counts: pl.DataFrame, words: Words) -> pl.DataFrame:
    """The keys that stand more often on one side, with the word as it is written; numbers that read as each other in
    another convention of thousands and fractions are none."""
    found = counts.filter(pl.col("n_left") != pl.col("n_right")).with_columns(
        is_left=pl.col("n_left") > pl.col("n_right"),
        count=(pl.col("n_left") - pl.col("n_right")).abs(),
        at=pl.when(pl.col("n_left") > pl.col("n_right")).then("at_left").otherwise("at_right"),
    )
    at = found["at"].to_numpy()
    found = found.with_columns(
        word=_as_written(words, at),
        is_name=pl.Series(words.is_name[at]),
        value=words.keys["value"].gather(found["key"]),
        other=words.keys["other"].gather(found["key"]),
        quantity=words.keys["quantity"].gather(found["key"]),
        bare=words.keys["word"].gather(found["key"]),
    )
    return _without_conventions(found)


def _as_written(words: Words, at: Ints) -> pl.Series:
    """The words at these places as they stand in the text, a number with its unit."""
    word, unit = words.vocabulary.gather(words.token[at]), words.unit[at]
    units = pl.Series(np.where(unit >= 0, unit, 0))
    below = words.keys["value"].to_numpy()[words.key[at]] < 0
    written = pl.DataFrame({"word": word, "unit": words.vocabulary.gather(units), "has": unit >= 0, "below": below})
    signed = pl.when("below").then("-" + pl.col("word")).otherwise("word")
    return written.select(pl.when("has").then(signed + " " + pl.col("unit")).otherwise(signed)).to_series()


def _without_conventions(differing: pl.DataFrame) -> pl.DataFrame:
    numbers = differing.filter(pl.col("kind") == Kind.NUMBER)
    ambiguous = numbers.filter(pl.col("other").is_not_nan())
    if ambiguous.is_empty():
        return differing
    matched = ambiguous.join(numbers, on=["pair", "quantity"], how="inner", suffix="_there").filter(
        (pl.col("is_left") != pl.col("is_left_there"))
        & (pl.col("count") == pl.col("count_there"))
        & pl.any_horizontal(
            pl.col(one) == pl.col(other) for one in ("value", "other") for other in ("value_there", "other_there")
        )
    )
    # One for one: a number that reads as either of two others leaves one of these without its like.
    here, there = pl.col("key"), pl.col("key_there")
    couples = matched.select(
        "pair",
        one=pl.when("is_left").then(here).otherwise(there),
        other=pl.when("is_left").then(there).otherwise(here),
    ).unique()
    couples = couples.filter((pl.len().over("pair", "one") == 1) & (pl.len().over("pair", "other") == 1))
    gone = pl.concat([couples.select("pair", key="one"), couples.select("pair", key="other")])
    return differing.join(gone, on=["pair", "key"], how="anti")


def _by_kind(differing: pl.DataFrame) -> pl.DataFrame:
    """How much of each kind only one side has, and in words what it is."""
    left, count = pl.col("is_left"), pl.col("count")
    sums = []
    for name, kind in _NAMED.items():
        of_kind = pl.col("kind") == int(kind)
        sums += [count.filter(of_kind & left).sum().alias(f"left_{name}")]
        sums += [count.filter(of_kind & ~left).sum().alias(f"right_{name}")]
    is_name = pl.col("is_name") & (pl.col("kind") == int(Kind.WORD))
    function = pl.col("kind") == int(Kind.FUNCTION)
    # `plan A`, `vitamin D`: a letter that stands for a thing, though as a word it may be an article.
    letter = (pl.col("kind") == int(Kind.INITIAL)) | (
        function & pl.col("is_name") & (pl.col("bare").str.len_chars() == 1) & (pl.col("bare") != "i")
    )
    shown = differing.filter(~pl.col("kind").is_in([int(Kind.FUNCTION), int(Kind.INITIAL)])).sort("pair", "at")
    words = shown.group_by("pair").agg(
        left_shown=pl.col("word").filter(left).head(_SHOWN).str.join(", "),
        right_shown=pl.col("word").filter(~left).head(_SHOWN).str.join(", "),
        left_figures=pl.col("word").filter(left & _is_figure()).head(_SHOWN).str.join(", "),
        right_figures=pl.col("word").filter(~left & _is_figure()).head(_SHOWN).str.join(", "),
    )
    return (
        differing.group_by("pair")
        .agg(
            *sums,
            left_names=count.filter(is_name & left).sum(),
            right_names=count.filter(is_name & ~left).sum(),
            left_function=count.filter(function & left).sum(),
            right_function=count.filter(function & ~left).sum(),
            left_letters=count.filter(letter & left).sum(),
            right_letters=count.filter(letter & ~left).sum(),
        )
        .join(words, on="pair", how="left")
    )


def _is_figure() -> pl.Expr:
    return pl.col("kind").is_in([int(Kind.NUMBER), int(Kind.CODE), int(Kind.MONTH)])


def _compared(differing: pl.DataFrame) -> pl.DataFrame:
    """Words of the left that are opposed to one of the right, and words that are only spelled another way."""
    words = differing.filter(
        pl.col("kind").is_in([int(Kind.WORD), int(Kind.FUNCTION), int(Kind.NEGATION), int(Kind.MONTH)])
    ).with_columns(plain=pl.col("word").str.to_lowercase())
    few = words.filter(pl.len().over("pair", "is_left") <= _MOST_COMPARED)
    sides = few.filter("is_left"), few.filter(~pl.col("is_left"))
    both = (
        sides[0]
        .select("pair", "plain", "kind")
        .join(sides[1].select("pair", there="plain", kind_there="kind"), on="pair")
    )
    combos = _with_meanings(both.select("plain", "there").unique())
    both = both.join(combos, on=["plain", "there"], how="left")
    is_spelling = (
        (pl.col("near") >= _SPELLING)
        & (pl.min_horizontal(pl.col("plain").str.len_chars(), pl.col("there").str.len_chars()) >= _SPELLING_LETTERS)
        & ~pl.col("is_opposed")
    )
    return both.group_by("pair").agg(
        opposed=pl.col("is_opposed").sum(),
        broader=pl.col("is_broader").sum(),
        opposed_shown=(pl.col("plain") + " / " + pl.col("there")).filter("is_opposed").sort().first(),
        spelled=pl.min_horizontal(
            pl.col("plain").filter(is_spelling).n_unique(), pl.col("there").filter(is_spelling).n_unique()
        ),
        best_near=pl.col("near").max(),
    )


def _with_meanings(combos: pl.DataFrame) -> pl.DataFrame:
    """Two words each: how near their spelling is, and whether they are opposed, or one is broader than the other."""
    one, other = combos["plain"].to_list(), combos["there"].to_list()
    near = process.cpdist(one, other, scorer=Levenshtein.normalized_similarity, workers=2) if one else np.empty(0)
    # Most words are in no list: only those that are, and words that end alike, are looked up.
    words = pl.concat([combos["plain"], combos["there"]]).unique()
    known = words.filter(pl.Series([is_listed(word) for word in words], dtype=pl.Boolean))
    is_known = pl.col("plain").is_in(known.implode()) | pl.col("there").is_in(known.implode())
    ends_alike = pl.col("plain").str.tail(4) == pl.col("there").str.tail(4)
    asked = combos.select(is_known | ends_alike).to_series()
    opposed, broader = np.zeros(len(one), dtype=bool), np.zeros(len(one), dtype=bool)
    for at in asked.arg_true():
        left, right = unaccented(one[at]), unaccented(other[at])
        opposed[at], broader[at] = are_opposed(left, right), is_broader(left, right)
    return combos.with_columns(
        near=pl.Series(near, dtype=pl.Float32), is_opposed=pl.Series(opposed), is_broader=pl.Series(broader)
    )


def _order(counts: pl.DataFrame) -> pl.DataFrame:
    """How often, read along one side, the words that stand once on each side step back on the other; of the side
    where that is less often."""
    once = counts.filter((pl.col("n_left") == 1) & (pl.col("n_right") == 1) & (pl.col("kind").is_in(_ORDERED)))
    along_left = once.sort("pair", "at_left").select("pair", back=pl.col("at_right").diff() < 0)
    along_right = once.sort("pair", "at_right").select("pair", back=pl.col("at_left").diff() < 0)
    return (
        _within_pairs(along_left)
        .join(_within_pairs(along_right), on="pair", suffix="_right")
        .select("pair", moved=pl.min_horizontal("back", "back_right"), once="once")
    )


def _within_pairs(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps back of each pair, in whose rows they stand together."""
    is_first = pl.col("pair") != pl.col("pair").shift()
    steps = steps.with_columns(back=pl.col("back") & ~is_first.fill_null(value=True))
    return steps.group_by("pair").agg(pl.col("back").sum(), once=pl.len())


def _same_run(sides: Sides) -> NDArray[np.bool_]:
    """Whether both sides are the same keys in the same order."""
    words = sides.words
    same: NDArray[np.bool_] = words.lengths[sides.left] == words.lengths[sides.right]
    rows = np.flatnonzero(same)
    lengths = words.lengths[sides.left[rows]]
    pair = np.repeat(rows, lengths)
    step = np.arange(len(pair)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    differs = words.key[words.starts[sides.left[pair]] + step] != words.key[words.starts[sides.right[pair]] + step]
    same[pair[differs]] = False
    return same
