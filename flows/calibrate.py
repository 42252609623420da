"""Calibration: how good auto-merge is on labelled pairs, by threshold, and which settings reach a wanted precision."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from flows.console import Progress, in_columns
from flows.curve_svg import curve_svg
from flows.errors import NightfoldError, UnreadableSource
from flows.judge import limits_of
from flows.judge_file import judge_rows
from flows.pair_files import PairFile, read_pairs, whole_file
from flows.settings import JudgeSettings, Settings
from schemas.terms import EQUIVALENT, RELATIONS
from transforms.calibrate import Action, Bucket, Outcome, outcome, outcomes, proposed, reliability, wilson
from transforms.decide import action_of

_CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)
_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.99)
_CURVE = (*(round(0.5 + 0.01 * step, 2) for step in range(50)), 0.995, 1.0)
_FEW_MERGES = 100
_TRUE, _FALSE = ("true", "1", "yes", "1.0"), ("false", "0", "no", "0.0")
_AS_JUDGED = ("similarity", "reading", "relation", "confidence")


@dataclass(frozen=True)
class Calibration:
    """What the judge is worth on the labelled pairs of a file."""

    name: str
    left_out: int
    now: Outcome
    by_confidence: list[Outcome]
    by_similarity: list[Outcome]
    reliability: list[Bucket]
    wanted: float
    proposal: Outcome | None
    """The best thresholds there are; None where the judge calls no pair equivalent."""
    is_reached: bool
    curve: list[Outcome]


def calibrate(path: Path, *, precision: float, settings: Settings, progress: Progress) -> Calibration:
    """Judges the labelled pairs of a file, or takes them as judged, and measures what merging them would do."""
    if not 0 < precision <= 1:
        raise NightfoldError(f"--precision {precision:g}: a share above 0 and up to 1, as in 0.95")
    file = read_pairs(path, load=settings.load)
    file.need(["mergeable"], remedy="say of each pair, true or false, whether its two texts may become one")
    labels = _flags(file, "mergeable")
    if not labels.is_not_null().any():
        raise UnreadableSource(
            f"{file.name}: 0 of {labels.len():,} pairs have a mergeable of true or false; label some"
        )
    is_labelled = labels.is_not_null()
    of_labelled = PairFile(file.path, file.rows.filter(is_labelled), file.as_json)
    judged = _taken_as_judged(of_labelled, progress) if _is_judged(file) else _judged(of_labelled, settings, progress)
    labelled = judged.with_columns(mergeable=labels.filter(is_labelled))
    return _measured(labelled, file.name, labels.null_count(), precision, settings.judge)


def check_plot(plot: Path | None) -> None:
    """NightfoldError where no plot can be drawn there, before anything is judged."""
    if plot is not None and plot.suffix.lower() != ".svg":
        raise NightfoldError(f"--plot {plot}: the plot is an SVG; name a .svg file")
    if plot is not None and not plot.parent.is_dir():
        raise NightfoldError(f"--plot {plot}: no such folder {plot.parent}; make it, or name another")


def write_plot(calibration: Calibration, plot: Path) -> None:
    """Writes the curves as an SVG file."""
    with whole_file(plot) as partial:
        partial.write_text(
            curve_svg(
                title=calibration.name,
                curve=calibration.curve,
                buckets=calibration.reliability,
                wanted=calibration.wanted,
                proposal=calibration.proposal if calibration.is_reached else None,
                now=calibration.now,
            ),
            encoding="utf-8",
        )


def _measured(
    labelled: pl.DataFrame, name: str, left_out: int, precision: float, settings: JudgeSettings
) -> Calibration:
    action = _action(settings)
    now = (settings.merge_confidence, settings.merge_similarity)
    is_confirmed = pl.lit(not settings.require_confirmation) | pl.col("is_confirmed")
    may_merge = (pl.col("relation") == EQUIVALENT) & is_confirmed
    best = proposed(labelled, precision=precision, may_merge=may_merge, now=now)
    proposal = None if best is None else outcome(labelled, best.merge_confidence, best.merge_similarity, action=action)
    on_curve = now[1] if proposal is None else proposal.merge_similarity
    return Calibration(
        name=name,
        left_out=left_out,
        now=outcome(labelled, *now, action=action),
        by_confidence=outcomes(labelled, [(c, now[1]) for c in _with(now[0], _CONFIDENCES)], action=action),
        by_similarity=outcomes(labelled, [(now[0], s) for s in _with(now[1], _SIMILARITIES)], action=action),
        reliability=reliability(labelled),
        wanted=precision,
        proposal=proposal,
        is_reached=best is not None and best.is_reached,
        curve=outcomes(labelled, [(c, on_curve) for c in _CURVE], action=action),
    )


def _action(settings: JudgeSettings) -> Action:
    limits = limits_of(settings)

    def of(merge_confidence: float, merge_similarity: float) -> pl.Expr:
        tried = replace(limits, merge_confidence=merge_confidence, merge_similarity=merge_similarity)
        return action_of(tried, may_merge=pl.lit(value=True))

    return of


def _with(value: float, others: Iterable[float]) -> list[float]:
    return sorted({value, *others})


# --- what the file says -----------------------------------------------------------------------------------------------


def _is_judged(file: PairFile) -> bool:
    return set(_AS_JUDGED) <= set(file.rows.columns)


def _judged(file: PairFile, settings: Settings, progress: Progress) -> pl.DataFrame:
    # Under the lowest thresholds that are looked at, so that every pair which some of them would merge is confirmed.
    lowest = {
        "merge_confidence": min(*_CONFIDENCES, settings.judge.merge_confidence),
        "merge_similarity": min(*_SIMILARITIES, settings.judge.merge_similarity),
    }
    lowered = settings.model_copy(update={"judge": settings.judge.model_copy(update=lowest)})
    return judge_rows(file, settings=lowered, progress=progress)


def _taken_as_judged(file: PairFile, progress: Progress) -> pl.DataFrame:
    """The columns of a file that the judge has written, or another one that uses its words."""
    progress.tell(f"{file.name}: has {', '.join(_AS_JUDGED)}; taken as judged")
    rows = file.rows
    relation = rows["relation"].cast(pl.String)
    _refuse(file, "relation", ~relation.is_in(RELATIONS).fill_null(value=False), f"one of {', '.join(RELATIONS)}")
    has_flag = "is_confirmed" in rows.columns
    if not has_flag:
        progress.tell(f"{file.name}: no column is_confirmed; every pair counts as confirmed")
    return pl.DataFrame(
        {
            "similarity": _shares(file, "similarity", low=-1.0),
            "reading": _shares(file, "reading", low=-1.0),
            "relation": relation,
            "confidence": _shares(file, "confidence", low=0.0),
            "is_confirmed": _flags(file, "is_confirmed")
            if has_flag
            else pl.repeat(value=True, n=rows.height, eager=True),
            "stands": rows["stands"].cast(pl.String)
            if "stands" in rows.columns
            else pl.repeat(None, rows.height, dtype=pl.String, eager=True),
        }
    )


def _shares(file: PairFile, name: str, *, low: float) -> pl.Series:
    given = file.rows[name]
    numbers = given.cast(pl.Float32, strict=False).fill_nan(None)
    is_bad = (given.is_not_null() & numbers.is_null()) | ~numbers.is_between(low - 1e-5, 1 + 1e-5).fill_null(value=True)
    _refuse(file, name, is_bad, f"a number from {low:g} to 1")
    return numbers


def _flags(file: PairFile, name: str) -> pl.Series:
    """A column of true and false, in the words people use; what is empty is null."""
    given = file.rows[name]
    said = given.cast(pl.String, strict=False).str.strip_chars().str.to_lowercase().replace("", None)
    is_bad = said.is_not_null() & ~said.is_in([*_TRUE, *_FALSE])
    _refuse(file, name, is_bad.fill_null(value=False), "true or false (or 1, 0, yes, no)")
    return said.is_in(_TRUE).alias(name)


def _refuse(file: PairFile, name: str, is_bad: pl.Series, rule: str) -> None:
    if is_bad.any():
        first = file.rows[name].filter(is_bad)[0]
        raise UnreadableSource(
            f"{file.name}: {name} of {is_bad.sum():,} of {file.rows.height:,} rows is not {rule} "
            f"(the first is {str(first)[:80]!r})"
        )


# --- in words ---------------------------------------------------------------------------------------------------------


def report_lines(calibration: Calibration) -> list[str]:
    """All that was measured, for a terminal."""
    now = calibration.now
    left_out = f"; {calibration.left_out:,} without a label left out" if calibration.left_out else ""
    pairs = f"{now.mergeable + now.others:,} labelled pairs, {now.mergeable:,} of them mergeable{left_out}"
    return [
        f"{calibration.name}: {pairs}",
        "",
        f"auto-merge by merge_confidence, with merge_similarity = {now.merge_similarity:g} (* as set)",
        *_table(calibration.by_confidence, "merge_confidence", now.merge_confidence),
        "",
        f"auto-merge by merge_similarity, with merge_confidence = {now.merge_confidence:g} (* as set)",
        *_table(calibration.by_similarity, "merge_similarity", now.merge_similarity),
        "",
        "at least: the lower end of a 95 % interval (Wilson); found: mergeable pairs merged or put before a person;",
        "in vain: pairs that are not mergeable and yet put before a person",
        "",
        "how often a confidence in `equivalent` was right",
        *_reliability_table(calibration.reliability),
        "",
        *_proposal_lines(calibration),
    ]


def _table(found: list[Outcome], threshold: str, current: float) -> list[str]:
    heads = ("", threshold, "merged", "precision", "at least", "recall", "found", "in vain")
    rows = [
        (
            "*" if getattr(each, threshold) == current else "",
            f"{getattr(each, threshold):g}",
            f"{each.merged:,}",
            _share(each.precision),
            _share(each.precision_at_least),
            _share(each.recall),
            _share(each.found_share),
            _share(each.review_share),
        )
        for each in found
    ]
    return in_columns([heads, *rows], right=range(1, 8))


def _reliability_table(buckets: list[Bucket]) -> list[str]:
    if not buckets:
        return ["no pair is called equivalent"]
    rows = []
    for each in buckets:
        low, high = wilson(each.mergeable, each.pairs)
        between = f"{low:.3f} to {high:.3f}"
        mean, share = f"{each.mean_confidence:.3f}", _share(each.observed)
        rows.append((f"{each.low:g} to {each.high:g}", f"{each.pairs:,}", mean, share, between))
    return in_columns([("confidence", "pairs", "mean", "mergeable", "95 % interval"), *rows], right=[1, 2, 3])


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def _proposal_lines(calibration: Calibration) -> list[str]:
    now, best, wanted = calibration.now, calibration.proposal, f"{calibration.wanted:g}"
    if now.mergeable == 0:
        return ["no pair is mergeable: nothing can be said of recall; add pairs that may become one"]
    if best is None:
        return [f"precision {wanted} cannot be aimed at: no pair is called equivalent and confirmed, so none is merged"]
    measured = (
        f"precision {_share(best.precision)} (at least {_share(best.precision_at_least)}) with "
        f"{best.merged:,} merges, recall {_share(best.recall)}"
    )
    at = [f"merge_confidence = {best.merge_confidence:g}", f"merge_similarity = {best.merge_similarity:g}"]
    if not calibration.is_reached:
        return [
            f"precision {wanted} is not reached at any threshold; the best is {measured}, with {' and '.join(at)}.",
            "Some pairs that are not mergeable are called equivalent and sure. Look at them (`nightfold judge`),",
            "label more of their kind, ask for less with --precision, or set merge_confidence = 1.",
        ]
    few = [f"only {best.merged:,} merges: label more pairs before you rely on it"] if best.merged < _FEW_MERGES else []
    is_set = (now.merge_confidence, now.merge_similarity) == (best.merge_confidence, best.merge_similarity)
    as_set = ", the settings can stay" if is_set else ""
    return [
        f"for a precision of {wanted}{as_set}: {measured}",
        "(measured on the pairs that the thresholds were chosen by; try them on others)",
        *few,
        "[judge]",
        *at,
    ]
