"""The judge: from the evidence of a pair to its relation, with a confidence and the reasons in words.

Rules speak first, where they are certain. What they leave open a small linear model weighs, and its figure is read off
a curve of how often such pairs really were one. A differing number, date, code, negation, opposite or name is a veto:
no such pair is ever called equivalent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from schemas.terms import (
    COMPLEMENTARY,
    CONTRADICTORY,
    DISTINCT,
    EQUIVALENT,
    LEFT,
    RIGHT,
    SUBSET,
    SUPERSEDING,
    UNKNOWN,
)

# As the transformer reads them in their sentences: every word has a counterpart as near as this in the other text, ...
_CLOSE = 0.66
_CLOSE_MOST_WORDS = 180
# ... or the texts are long, as near as this on the whole, and differ in few words, none of them one for one.
_LONG_WORDS, _LONG_SIMILARITY, _LONG_LOWER, _LONG_SHARE, _LONG_WORST = 16, 0.95, 0.9, 0.2, 0.3
# The share of content that two texts must have in common for a difference to be a contradiction.
_FRAME = 0.5
_SAME_WORDS, _SAME_CONTENT, _SAME_VALUES, _CERTAIN_RULE = 0.99, 0.97, 0.85, 0.95
_SAME_CONTENT_READ = 0.85
_CONTAINED = 0.75
_RELATED = 0.35
# Texts as near as this in the mean of three ways to measure it, which no rule tells apart, are a question to a person.
_OPEN = 0.8

_col = pl.col
# When it holds, the relation it gives, how sure that is, and what it is called.
Rule = tuple[pl.Expr, str, pl.Expr, str]


def _lower(name: str) -> pl.Expr:
    return pl.min_horizontal(f"left_{name}", f"right_{name}")


def _higher(name: str) -> pl.Expr:
    return pl.max_horizontal(f"left_{name}", f"right_{name}")


def _share(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return (part / whole.clip(lower_bound=1)).cast(pl.Float64)


_negations = (_col("left_negations") - _col("right_negations")).abs()
_best = pl.max_horizontal("similarity", _col("reading").fill_null(-1.0))
_is_read = _col("worst").is_not_null()
_nearness = (
    pl.when(_is_read)
    .then((_col("similarity") + _col("reading") + _col("mean")) / 3)
    .otherwise(_col("similarity") - 0.1)
)
_few_left = (_lower("only") - _col("spelled")).clip(lower_bound=0)

# Both sides have one that the other has not: the same place says two things.
_swapped = (
    (_lower("numbers") > 0)
    | (_lower("codes") > 0)
    | (_lower("months") > 0)
    | (_col("opposed") > 0)
    | (_negations % 2 == 1)
    | ((_lower("names") > 0) & (_higher("only") <= 2))
    | (_col("fields_differ") > 0)
)
# Anything of weight that only one side has: the two are not the same, whatever else speaks for it.
_vetoed = (
    _swapped
    | (_higher("numbers") > 0)
    | (_higher("codes") > 0)
    | (_higher("months") > 0)
    | (_higher("signs") > 0)
    | (_negations > 0)
    | (_lower("names") > 0)
    | (_lower("letters") > 0)
)
# Both sides say as much, but not of the same things: words in another order or number, a negation in another place.
_dealt_anew = (_col("moved") > 0) | (_lower("recounted") > 0) | ((_lower("negations") > 0) & (_col("renegated") > 0))
_may_be_one = ~_vetoed & ~_dealt_anew & (_col("broader") == 0)
_is_close = (
    _may_be_one
    & _is_read
    & (_col("worst") >= _CLOSE)
    & (_higher("only") <= 3)
    & (_higher("words") <= _CLOSE_MOST_WORDS)
).fill_null(value=False)
_is_long_and_near = (
    _may_be_one
    & _is_read
    & (_higher("words") >= _LONG_WORDS)
    & (_best >= _LONG_SIMILARITY)
    & (pl.min_horizontal("similarity", "reading") >= _LONG_LOWER)
    & (_col("worst") >= _LONG_WORST)
    & (_few_left != 1)
    & (_share(_lower("only") + _higher("only"), 2 * _higher("words")) <= _LONG_SHARE)
).fill_null(value=False)

# The same content in the same order, but for articles and a `to be` that only one side has.
_is_same_content = (
    _may_be_one
    & _is_read
    & (_best >= _SAME_CONTENT_READ)
    & (_higher("only") == 0)
    & (_higher("linking") == 0)
    & (_lower("being") == 0)
).fill_null(value=False)

# What the model weighs, each by its name.
FEATURES: Mapping[str, pl.Expr] = {
    "similarity": _col("similarity"),
    "reading": _col("reading").fill_null(_col("similarity")),
    "mean_counterpart": _col("mean").fill_null(0.0),
    "worst_counterpart": _col("worst").fill_null(0.0),
    "words": _higher("words").log1p(),
    "content_overlap": _share(
        _col("shared_content"), _col("left_content") + _col("right_content") - _col("shared_content")
    ),
    "replaced": _few_left.clip(0, 6),
    "differing": _higher("only").clip(0, 10),
    "moved": _col("moved").clip(0, 4),
    "figures": (_higher("numbers") + _higher("codes") + _higher("months")).clip(0, 3),
    "negations": _negations.clip(0, 2),
    "opposed": _col("opposed").clip(0, 2),
    "names_swapped": _lower("names").clip(0, 3),
    "broader": _col("broader").clip(0, 1),
    "is_close": _is_close,
    "is_long_and_near": _is_long_and_near,
}


@dataclass(frozen=True)
class Model:
    """A linear model of the features, and two curves from its figure to how often such pairs were one: for pairs that
    the transformer's reading confirms, and for the others."""

    name: str
    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weight: tuple[float, ...]
    intercept: float
    confirmed: tuple[tuple[float, float], ...]
    other: tuple[tuple[float, float], ...]

    def probability(self, evidence: pl.DataFrame) -> NDArray[np.float64]:
        """How likely each pair may become one row."""
        raw = self.raw(features_of(evidence, self.features))
        is_confirmed = evidence.select(_is_close | _is_long_and_near).to_series().to_numpy()
        return np.where(is_confirmed, _along(self.confirmed, raw), _along(self.other, raw))

    def raw(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """The model's own figure, between 0 and 1."""
        score = (features - np.array(self.mean)) / np.array(self.scale) @ np.array(self.weight) + self.intercept
        # Beyond this a float is 0 or 1 anyway, and the power would overflow.
        figure: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(score, -700, 700)))
        return figure


def model_of(described: Mapping[str, Any]) -> Model:
    """The model as it is written down."""
    unknown = sorted(set(described["features"]) - set(FEATURES))
    if unknown:
        raise ValueError(f"the judge's model has a feature that is not known here: {unknown[0]}")
    for part in ("mean", "scale", "weight"):
        if len(described[part]) != len(described["features"]):
            raise ValueError(
                f"the judge's model has {len(described['features'])} features, but {len(described[part])} in {part}"
            )
    for curve in ("confirmed", "other"):
        if not _rises(described[curve]):
            raise ValueError(f"the judge's model: the curve `{curve}` does not rise from 0 to 1")
    return Model(
        name=str(described["name"]),
        features=tuple(described["features"]),
        mean=tuple(described["mean"]),
        scale=tuple(described["scale"]),
        weight=tuple(described["weight"]),
        intercept=float(described["intercept"]),
        confirmed=tuple((float(at), float(is_)) for at, is_ in described["confirmed"]),
        other=tuple((float(at), float(is_)) for at, is_ in described["other"]),
    )


def _rises(curve: Sequence[Sequence[float]]) -> bool:
    """Whether a curve has knots, from left to right, that never fall and stay within 0 and 1."""
    knots, shares = [knot[0] for knot in curve], [knot[1] for knot in curve]
    in_order = knots == sorted(knots) and shares == sorted(shares)
    return bool(curve) and in_order and shares[0] >= 0 and shares[-1] <= 1


def _along(curve: Sequence[tuple[float, float]], raw: NDArray[np.float64]) -> NDArray[np.float64]:
    at, is_ = zip(*curve, strict=True)
    share: NDArray[np.float64] = np.interp(raw, at, is_)
    return share


def features_of(evidence: pl.DataFrame, names: Sequence[str]) -> NDArray[np.float64]:
    """The features of each pair, a column each."""
    return evidence.select(FEATURES[name].cast(pl.Float64).alias(name) for name in names).to_numpy()


def wants_reading(evidence: pl.DataFrame) -> pl.Series:
    """The pairs whose verdict hangs on how the transformer reads them."""
    is_settled = _col("is_same_run") | _col("is_spec") | (_swapped & _frame())
    return evidence.select(~is_settled).to_series()


def at_best(evidence: pl.DataFrame) -> pl.Series:
    """The relation that leads furthest of those that some reading of each pair could give it."""
    read = evidence.with_columns(reading=pl.lit(1.0), mean=pl.lit(1.0), worst=pl.lit(1.0))
    is_confirmed = _is_close | _is_long_and_near | _is_same_content | _col("is_same_run")
    return read.select(
        pl.when(is_confirmed)
        .then(pl.lit(EQUIVALENT))
        .when(_col("newer").is_not_null())
        .then(pl.lit(SUPERSEDING))
        .otherwise(pl.lit(UNKNOWN))
    ).to_series()


def _frame() -> pl.Expr:
    return _share(_col("shared_content"), _higher("content")) >= _FRAME


def judged(evidence: pl.DataFrame, model: Model, *, priority_supersedes: bool = False) -> pl.DataFrame:
    """The verdict on each pair, in their order: relation, confidence, stands, evidence, decided_by and is_confirmed.

    A chunk supersedes another by its version or date; by the priority of its source only where `priority_supersedes`.
    """
    weighed = evidence.with_columns(
        likely=pl.Series(model.probability(evidence)),
        overlap=_share(_col("shared_content"), _higher("content")),
        is_vetoed=_vetoed,
        is_swapped=_swapped,
        is_newer=_col("newer").is_not_null() & (pl.lit(priority_supersedes) | ~_col("is_by_priority")),
        is_same_content=_is_same_content,
        is_confirmed=_is_close | _is_long_and_near | _is_same_content | (_col("is_same_run") & ~_col("is_spec")),
    )
    likely, overlap = _col("likely"), _col("overlap")
    is_age_known = _col("is_newer") & (_col("is_swapped") | (_nearness >= _OPEN)) & _frame()
    extra = _higher("only") - _lower("only") > 0
    is_contained = (_few_left == 0) & extra & (_share(_col("shared_content"), _lower("content")) >= 0.8)
    rules: list[Rule] = [
        (_col("is_written_alike"), EQUIVALENT, pl.lit(_SAME_WORDS), "rule: same fields"),
        # `5 kW` and `5000 W`, `A.B` and `A B`: the same, and in a table of specifications a person says so.
        (_col("is_spec") & (_col("fields_differ") == 0), EQUIVALENT, pl.lit(_SAME_VALUES), "rule: same values"),
        (
            _col("is_spec") & _col("is_newer") & _col("is_value_only"),
            SUPERSEDING,
            pl.lit(0.9),
            "rule: newer",
        ),
        (_col("is_spec") & _col("is_value_only"), CONTRADICTORY, pl.lit(_CERTAIN_RULE), "rule: one value differs"),
        (_col("is_spec"), DISTINCT, pl.lit(_CERTAIN_RULE), "rule: other fields differ"),
        (_col("is_same_run"), EQUIVALENT, pl.lit(_SAME_WORDS), "rule: same words"),
        (_col("is_same_content"), EQUIVALENT, pl.lit(_SAME_CONTENT), "rule: same content"),
        (is_age_known & ~_col("is_confirmed"), SUPERSEDING, 0.75 + 0.2 * overlap, "rule: newer"),
        (_col("is_swapped") & _frame(), CONTRADICTORY, 0.7 + 0.25 * overlap, "rule: differing value"),
        (
            (_col("moved") > 0) & (_higher("only") == 0) & ~_col("is_vetoed"),
            UNKNOWN,
            pl.lit(0.5),
            "rule: another order",
        ),
        ((likely >= 0.5) & ~_col("is_vetoed"), EQUIVALENT, likely, model.name),
        (is_contained & (overlap >= _RELATED) & (_nearness < _OPEN), SUBSET, pl.lit(_CONTAINED), "rule: contained"),
        (_nearness >= _OPEN, UNKNOWN, likely, model.name),
        ((overlap >= _RELATED) | (_best >= 0.8), COMPLEMENTARY, 1 - likely, model.name),
        (pl.lit(value=True), DISTINCT, 1 - likely, model.name),
    ]
    relation = _first(rules, lambda rule: pl.lit(rule[1]))
    confidence = _first(rules, lambda rule: rule[2].cast(pl.Float32))
    decided_by = _first(rules, lambda rule: pl.lit(rule[3]))
    larger = pl.when(_col("left_only") > _col("right_only")).then(pl.lit(LEFT)).otherwise(pl.lit(RIGHT))
    return weighed.with_columns(relation=relation, confidence=confidence, decided_by=decided_by).select(
        "relation",
        "confidence",
        stands=pl.when(_col("relation") == SUPERSEDING).then("newer").when(_col("relation") == SUBSET).then(larger),
        evidence=_in_words(),
        decided_by="decided_by",
        is_confirmed=_col("is_confirmed") | _col("is_written_alike"),
    )


def _first(rules: list[Rule], of: Callable[[Rule], pl.Expr]) -> pl.Expr:
    """Of the first rule that holds."""
    verdict: pl.Expr = of(rules[-1])
    for rule in reversed(rules[:-1]):
        verdict = pl.when(rule[0]).then(of(rule)).otherwise(verdict)
    return verdict


def _in_words() -> pl.Expr:
    """The evidence as a person reads it, what weighs most first."""

    def said(condition: pl.Expr, *parts: pl.Expr | str) -> pl.Expr:
        text = pl.concat_str([pl.lit(part) if isinstance(part, str) else part for part in parts])
        return pl.when(condition).then(text)

    both_figures = (_col("left_figures") != "") & (_col("right_figures") != "")
    one_figure = (_col("left_figures") != "") ^ (_col("right_figures") != "")
    differing = _lower("only") + _higher("only") + _higher("numbers")
    parts = [
        said(_col("is_same_run"), "the same words; only case, marks or spacing differ"),
        said(_col("fields_differ") > 0, "fields differ: ", _col("fields_shown")),
        said(both_figures, "figures differ: ", _col("left_figures"), " / ", _col("right_figures")),
        said(one_figure, "only one has the figures ", _col("left_figures"), _col("right_figures")),
        said(_negations > 0, "a negation on one side"),
        said(_col("opposed") > 0, "opposed: ", _col("opposed_shown")),
        said(_lower("names") > 0, "names differ"),
        said(
            _col("newer").is_not_null() & ~_col("is_by_priority"),
            "newer: the ",
            _col("newer"),
            " one, by ",
            _col("newer_by"),
        ),
        said(_col("is_by_priority"), "the source of the ", _col("newer"), " one has the higher priority"),
        said(_col("moved") > 0, "the same words stand in another order"),
        said(_lower("recounted") > 0, "both have the same words in other numbers"),
        said((_lower("negations") > 0) & (_col("renegated") > 0), "a negation stands before another word"),
        said(_col("broader") > 0, "one word is broader than the other"),
        said(
            (differing > 0) & ~_col("is_same_run"),
            "words of one side only: ",
            pl.when(_col("left_shown") == "").then(pl.lit("-")).otherwise("left_shown"),
            " / ",
            pl.when(_col("right_shown") == "").then(pl.lit("-")).otherwise("right_shown"),
        ),
        pl.format("{}% of the content in common", (_col("overlap") * 100).round(0).cast(pl.Int32)),
        said(_is_read, "worst counterpart ", _col("worst").round(2).cast(pl.String)),
    ]
    return pl.concat_str(parts, separator="; ", ignore_nulls=True)
