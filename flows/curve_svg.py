"""The curves of a calibration as one SVG: written by hand, as a plotting library would weigh more than all the rest."""

from collections.abc import Sequence
from html import escape

from transforms.calibrate import Bucket, Outcome

_WIDTH, _HEIGHT = 920, 420
_TOP, _SIDE = 70, 300
_LEFTS = (60, 530)
_INK, _FAINT, _PRECISION, _RECALL, _FOUND = "#222222", "#d8d8d8", "#1f5fa8", "#c05a12", "#8a8a8a"


def curve_svg(
    *,
    title: str,
    curve: Sequence[Outcome],
    buckets: Sequence[Bucket],
    wanted: float,
    proposal: Outcome | None,
    now: Outcome,
) -> str:
    """Precision and recall by merge_confidence on the left, the reliability of the confidence on the right."""
    similarity = curve[0].merge_similarity if curve else now.merge_similarity
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img">',
        f"<title>Calibration on {escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFTS[0], 24, f"Calibration on {title}", size=15),
        _text(_LEFTS[0], 52, f"auto-merge by merge_confidence (merge_similarity = {similarity:g})"),
        _text(_LEFTS[1], 52, "how often a confidence in `equivalent` was right"),
        *_axes(_LEFTS[0], low=0.5, label="merge_confidence"),
        *_axes(_LEFTS[1], low=0.0, label="confidence"),
        *_thresholds(wanted, proposal, now),
        *_lines(curve),
        *_reliability(buckets),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(left: int, value: float, low: float) -> float:
    return left + _SIDE * (value - low) / (1 - low)


def _y(value: float) -> float:
    return _TOP + _SIDE * (1 - value)


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", fill: str = _INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, *, stroke: str, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"{dashed}/>'


def _axes(left: int, *, low: float, label: str) -> list[str]:
    parts = []
    for step in range(6):
        share = step / 5
        value = low + (1 - low) * share
        x, y = _x(left, value, low), _y(share)
        parts += [
            _line(left, y, left + _SIDE, y, stroke=_FAINT),
            _line(x, _TOP, x, _TOP + _SIDE, stroke=_FAINT),
            _text(left - 8, y + 4, f"{share:.1f}", anchor="end"),
            _text(x, _TOP + _SIDE + 18, f"{value:.1f}", anchor="middle"),
        ]
    return [*parts, _text(left + _SIDE / 2, _TOP + _SIDE + 38, label, anchor="middle")]


def _thresholds(wanted: float, proposal: Outcome | None, now: Outcome) -> list[str]:
    left, parts = _LEFTS[0], []
    parts.append(_line(left, _y(wanted), left + _SIDE, _y(wanted), stroke=_INK, dash="2 4"))
    parts.append(_text(left + _SIDE + 6, _y(wanted) + 4, f"wanted {wanted:g}"))
    marks = [(now.merge_confidence, "as set", 12)]
    if proposal is not None:
        marks.append((proposal.merge_confidence, "proposed", 26))
    for confidence, word, below in marks:
        x = _x(left, max(0.5, confidence), 0.5)
        parts.append(_line(x, _TOP, x, _TOP + _SIDE, stroke=_INK, dash="6 4"))
        parts.append(_text(x - 4, _TOP + _SIDE - below, f"{word} {confidence:g}", anchor="end"))
    return parts


def _lines(curve: Sequence[Outcome]) -> list[str]:
    parts = []
    kinds = (("found_share", "found", _FOUND), ("recall", "recall", _RECALL), ("precision", "precision", _PRECISION))
    for place, (name, word, stroke) in enumerate(kinds):
        shares = [(each.merge_confidence, getattr(each, name)) for each in curve]
        points = [(_x(_LEFTS[0], at, 0.5), _y(share)) for at, share in shares if share is not None]
        if not points:
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="2"/>')
        # Each word at another part of its line: lines may lie on each other.
        x, y = points[place * len(points) // 4]
        parts.append(_text(x + 6, y - 6, word, fill=stroke))
    return parts


def _reliability(buckets: Sequence[Bucket]) -> list[str]:
    left = _LEFTS[1]
    parts = [_line(left, _y(0), left + _SIDE, _y(1), stroke=_INK, dash="2 4")]
    most = max((bucket.pairs for bucket in buckets), default=1)
    for bucket in buckets:
        x, y = _x(left, bucket.mean_confidence, 0.0), _y(bucket.observed)
        radius = 3 + 9 * (bucket.pairs / most) ** 0.5
        told = f"confidence {bucket.mean_confidence:.3f}: {bucket.mergeable:,} of {bucket.pairs:,} mergeable"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{_PRECISION}" fill-opacity="0.6">'
            f"<title>{escape(told)}</title></circle>"
        )
    return parts
