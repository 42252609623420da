"""What speaks for and against two texts being one: their differences, named and counted, as columns of the pair."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from transforms.lexicon import ARTICLES, BEING, are_opposed, is_broader, is_listed, unaccented
from transforms.words import Ints, Kind, Words, words_of

# Words of a pair that are held against each other one by one, at most so many on each side.
_MOST_COMPARED = 12
# Two spellings of one word: of so many letters, and as near as this.
_SPELLING_LETTERS, _SPELLING = 5, 0.8
_SHOWN = 6
_KEY_BITS = np.uint64(32)

_CONTENT = (Kind.WORD, Kind.NUMBER, Kind.CODE, Kind.NEGATION, Kind.SIGN, Kind.MONTH)
_ORDERED = [int(kind) for kind in (Kind.WORD, Kind.NUMBER, Kind.CODE, Kind.INITIAL, Kind.MONTH, Kind.NEGATION)]
_NAMED = {
    "only": Kind.WORD,
    "numbers": Kind.NUMBER,
    "codes": Kind.CODE,
    "months": Kind.MONTH,
    "signs": Kind.SIGN,
    "function": Kind.FUNCTION,
}


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
    differing = _differing(counts, sides.words)
    evidence = (
        pl.concat([_overlap(counts, sides), _by_kind(differing, sides)], how="horizontal")
        .with_columns(renegated=pl.Series(_renegated(sides)))
        .with_row_index("pair")
        .join(_shown(differing, sides.words), on="pair", how="left", maintain_order="left")
        .join(_compared(differing, sides.words), on="pair", how="left", maintain_order="left")
        .join(_order(counts), on="pair", how="left", maintain_order="left")
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
    """How often each key stands on each side of a pair, and where it does so first."""
    pair, at, sign = _spread(sides)
    nowhere = np.iinfo(np.int32).max
    is_left = sign > 0
    rows = pl.DataFrame(
        {
            # One number is grouped by faster than two.
            "both": (pair.astype(np.uint64) << _KEY_BITS) | sides.words.key[at].astype(np.uint64),
            "left": is_left,
            "at_left": np.where(is_left, at, nowhere).astype(np.int32),
            "at_right": np.where(is_left, nowhere, at).astype(np.int32),
        }
    )
    found = rows.group_by("both").agg(
        pl.col("at_left", "at_right").min(), n_left=pl.col("left").sum().cast(pl.Int32), n=pl.len().cast(pl.Int32)
    )
    both = found["both"].to_numpy()
    key = (both & np.uint64((1 << int(_KEY_BITS)) - 1)).astype(np.uint32)
    return found.select(
        pl.Series("pair", (both >> _KEY_BITS).astype(np.uint32)),
        pl.Series("key", key),
        "at_left",
        "at_right",
        "n_left",
        n_right=pl.col("n") - pl.col("n_left"),
        kind=pl.Series(sides.words.keys["kind"].to_numpy()[key]),
    )


def _overlap(counts: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    words, kind = sides.words, sides.words.keys["kind"].to_numpy()
    is_content = np.isin(kind, [int(each) for each in _CONTENT])
    of_text = {
        "words": words.lengths,
        "content": _per_text(words, is_content),
        "negations": _per_text(words, kind == Kind.NEGATION),
    }
    shared = counts.select("pair", "key", n=pl.min_horizontal("n_left", "n_right")).filter(pl.col("n") > 0)
    pair, n = shared["pair"].to_numpy(), shared["n"].to_numpy()
    in_common = {
        "shared_words": np.bincount(pair, n, len(sides.left)),
        "shared_content": np.bincount(pair, n * is_content[shared["key"].to_numpy()], len(sides.left)),
    }
    each = {
        f"{side}_{name}": of_each[places]
        for name, of_each in of_text.items()
        for side, places in (("left", sides.left), ("right", sides.right))
    }
    return pl.DataFrame({name: column.astype(np.int32) for name, column in (each | in_common).items()})


def _per_text(words: Words, is_counted: NDArray[np.bool_]) -> Ints:
    """How many keys of a sort each text has."""
    sums = np.concatenate([[0], np.cumsum(is_counted[words.key])])
    per_text: Ints = np.diff(sums[words.starts])
    return per_text


def _differing(counts: pl.DataFrame, words: Words) -> pl.DataFrame:
    """The keys that stand more often on one side, and where they do first; numbers that read as each other in another
    convention of thousands and fractions are none."""
    found = counts.filter(pl.col("n_left") != pl.col("n_right")).select(
        "pair",
        "key",
        "kind",
        is_left=pl.col("n_left") > pl.col("n_right"),
        count=(pl.col("n_left") - pl.col("n_right")).abs(),
        at=pl.when(pl.col("n_left") > pl.col("n_right")).then("at_left").otherwise("at_right"),
        is_on_both=(pl.col("n_left") > 0) & (pl.col("n_right") > 0),
    )
    return _without_conventions(found, words)


def _as_written(words: Words, at: Ints) -> pl.Series:
    """The words at these places as they stand in the text, a number with its unit."""
    word, unit = words.vocabulary.gather(words.token[at]), words.unit[at]
    units = pl.Series(np.where(unit >= 0, unit, 0))
    below = words.keys["value"].to_numpy()[words.key[at]] < 0
    written = pl.DataFrame({"word": word, "unit": words.vocabulary.gather(units), "has": unit >= 0, "below": below})
    signed = pl.when("below").then("-" + pl.col("word")).otherwise("word")
    return written.select(pl.when("has").then(signed + " " + pl.col("unit")).otherwise(signed)).to_series()


def _without_conventions(differing: pl.DataFrame, words: Words) -> pl.DataFrame:
    numbers = differing.filter(pl.col("kind") == Kind.NUMBER)
    numbers = numbers.with_columns(words.keys[name].gather(numbers["key"]) for name in ("value", "other", "quantity"))
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


def _by_kind(differing: pl.DataFrame, sides: Sides) -> pl.DataFrame:
    """How much of each kind only one side has."""
    words, pairs = sides.words, len(sides.left)
    pair, kind, count = (differing[name].to_numpy() for name in ("pair", "kind", "count"))
    side = ~differing["is_left"].to_numpy()
    is_name = words.is_name[differing["at"].to_numpy()]
    sorts = 2 * len(Kind)
    sums = np.bincount(pair.astype(np.int64) * sorts + 2 * kind + side, count, pairs * sorts).reshape(
        pairs, len(Kind), 2
    )
    # `plan A`, `vitamin D`: a letter that stands for a thing, though as a word it may be an article.
    is_letter = (
        words.keys.select((pl.col("word").str.len_chars() == 1) & (pl.col("word") != "i")).to_series().to_numpy()
    )
    letter = (kind == Kind.INITIAL) | ((kind == Kind.FUNCTION) & is_name & is_letter[differing["key"].to_numpy()])
    columns: dict[str, NDArray[Any]] = {}
    for name, of_kind in _NAMED.items():
        columns |= {f"left_{name}": sums[:, of_kind, 0], f"right_{name}": sums[:, of_kind, 1]}
    key = differing["key"].to_numpy()
    is_article, is_being = (words.keys["word"].is_in(list(listed)).to_numpy()[key] for listed in (ARTICLES, BEING))
    is_function = kind == Kind.FUNCTION
    sorts_of = {
        "names": is_name & (kind == Kind.WORD),
        "letters": letter,
        "being": is_function & is_being,
        "linking": is_function & ~is_article & ~is_being,
        # `a dog and two reindeer`, `two dogs and a reindeer`: both have both.
        "recounted": (kind == Kind.WORD) & differing["is_on_both"].to_numpy(),
    }
    for name, some in sorts_of.items():
        for which, here in (("left", some & ~side), ("right", some & side)):
            columns[f"{which}_{name}"] = np.bincount(pair[here], count[here], pairs)
    return pl.DataFrame({name: column.astype(np.int32) for name, column in columns.items()})


def _renegated(sides: Sides) -> Ints:
    """Of each pair, how many negations stand before another word on one side than on the other."""
    words = sides.words
    pair, place, sign = _spread(sides)
    negates = words.keys["kind"].to_numpy()[words.key[place]] == Kind.NEGATION
    pair, place, sign = pair[negates], place[negates], sign[negates]
    ends = words.starts[np.searchsorted(words.starts, place, side="right")]
    key, is_passed = np.append(words.key, 0), words.keys["word"].is_in([*ARTICLES, "one"]).to_numpy()
    after = place + 1
    # `no one`, `nobody`; `not the red one`, `not red`.
    after += (after < ends) & is_passed[key[after]]
    follows = np.where(after < ends, key[after], -1)
    each = pl.DataFrame({"pair": pair, "follows": follows, "sign": sign}, schema_overrides={"sign": pl.Int32})
    moved = each.group_by("pair", "follows").agg(pl.col("sign").sum().abs()).filter(pl.col("sign") > 0)
    renegated: Ints = np.bincount(moved["pair"].to_numpy(), minlength=len(sides.left))
    return renegated


def _shown(differing: pl.DataFrame, words: Words) -> pl.DataFrame:
    """In words what only one side has, the first few."""
    said = differing.lazy().filter(~pl.col("kind").is_in([int(Kind.FUNCTION), int(Kind.INITIAL)]))
    place = pl.col("pair").cast(pl.UInt64) * 2**32 + pl.col("at").cast(pl.UInt64)
    rows = said.select("pair", "is_left", "at", place=place, is_figure=_is_figure()).sort("place").collect()
    figure, side = (
        rows["is_figure"].to_numpy(),
        2 * rows["pair"].to_numpy().astype(np.int64) + rows["is_left"].to_numpy(),
    )
    # The two texts of a pair stand apart, so that each side is a run of rows.
    begins = np.flatnonzero(np.diff(side, prepend=-1))
    lengths = np.diff(np.append(begins, len(side)))
    so_far = np.cumsum(figure) - figure
    is_among = np.arange(len(side)) - np.repeat(begins, lengths) < _SHOWN
    is_among |= figure & (so_far - np.repeat(so_far[begins], lengths) < _SHOWN)
    few = rows.filter(pl.Series(is_among))
    few = few.with_columns(word=_as_written(words, few["at"].to_numpy()))
    left, is_figure = pl.col("is_left"), pl.col("is_figure")
    return few.group_by("pair", maintain_order=True).agg(
        left_shown=pl.col("word").filter(left).head(_SHOWN).str.join(", "),
        right_shown=pl.col("word").filter(~left).head(_SHOWN).str.join(", "),
        left_figures=pl.col("word").filter(left & is_figure).head(_SHOWN).str.join(", "),
        right_figures=pl.col("word").filter(~left & is_figure).head(_SHOWN).str.join(", "),
    )


def _is_figure() -> pl.Expr:
    return pl.col("kind").is_in([int(Kind.NUMBER), int(Kind.CODE), int(Kind.MONTH)])


def _compared(differing: pl.DataFrame, words: Words) -> pl.DataFrame:
    """Words of the left that are opposed to one of the right, and words that are only spelled another way."""
    several = differing.filter(
        pl.col("kind").is_in([int(Kind.WORD), int(Kind.FUNCTION), int(Kind.NEGATION), int(Kind.MONTH)])
    )
    side = 2 * several["pair"].to_numpy().astype(np.int64) + several["is_left"].to_numpy()
    few = several.filter(pl.Series(np.bincount(side)[side] <= _MOST_COMPARED))
    few = few.with_columns(plain=_as_written(words, few["at"].to_numpy()).str.to_lowercase())
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
