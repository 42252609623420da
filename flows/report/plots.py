"""The plots of the report as SVG to stand inside HTML: drawn by matplotlib, coloured by the page's own style sheet, the
same for the same figures."""

import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

# Colours that stand for classes of the style sheet: `fill: #010101` is written as class="f-ink".
_INKS = {
    "ink": "#010101",
    "faint": "#020202",
    "grid": "#030303",
    "a": "#040404",
    "b": "#050505",
    "c": "#060606",
    "d": "#070707",
    "e": "#080808",
    "alarm": "#090909",
}
_CLASS_OF = {colour: name for name, colour in _INKS.items()}
_STYLE = re.compile(r' style="([^"]*)"')
_COLOURED = re.compile(r"\s*(fill|stroke):\s*(#0[1-9]0[1-9]0[1-9])\s*")
_FONT = re.compile(r"\s*font(-family|-size)?:\s*[^;]*")
_LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "nightfold",
    "font.size": 11,
    "text.color": _INKS["ink"],
    "axes.edgecolor": _INKS["grid"],
    "axes.labelcolor": _INKS["faint"],
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": _INKS["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": _INKS["grid"],
    "ytick.color": _INKS["grid"],
    "xtick.labelcolor": _INKS["faint"],
    "ytick.labelcolor": _INKS["faint"],
    "ytick.left": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
}


def similarity_histogram(
    buckets: Sequence[tuple[int, str, int]],
    *,
    kinds: Sequence[tuple[str, str]],
    thresholds: Sequence[tuple[str, float]],
) -> str:
    """Pairs by hundredth of similarity, stacked by kind, with the thresholds as lines.

    `buckets` are (hundredth, kind, pairs); `kinds` gives each kind's word and colour, the lowest of the stack first.
    """
    first = min([bucket for bucket, _, _ in buckets] + [int(at * 100) for _, at in thresholds], default=85)
    places = list(range(first, 100))
    with rc_context(_LOOK):
        figure, axes = _figure(7.2, 3.1)
        below = [0] * len(places)
        for kind, colour in kinds:
            counted = {bucket: pairs for bucket, of, pairs in buckets if of == kind}
            heights = [counted.get(place, 0) for place in places]
            if any(heights):
                at = [place / 100 + 0.005 for place in places]
                axes.bar(at, heights, width=0.0088, bottom=below, color=_INKS[colour], label=kind, linewidth=0)
            below = [low + height for low, height in zip(below, heights, strict=True)]
        highest = max(below, default=0) or 1
        axes.set_ylim(0, highest * 1.28)
        for place, (word, threshold) in enumerate(thresholds):
            axes.axvline(threshold, color=_INKS["alarm"], linewidth=1.2, linestyle=(0, (4, 3)))
            axes.annotate(
                f"{word} {threshold:g}",
                (threshold, highest * (1.2 - 0.12 * place)),
                xytext=(4, 0),
                textcoords="offset points",
                color=_INKS["ink"],
                fontsize=10,
            )
        axes.set_xlim(first / 100, 1.0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:.2f}"))
        _counts(axes)
        axes.set_xlabel("cosine similarity")
        if len(axes.get_legend_handles_labels()[1]) > 1:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=5, fontsize=10, handlelength=1)
        told = f"{sum(pairs for _, _, pairs in buckets):,} pairs by cosine similarity; " + ", ".join(
            f"{word} at {at:g}" for word, at in thresholds
        )
        return _svg(figure, name="similarity", title="Candidate pairs by similarity", about=told)


def stage_bars(seconds: dict[str, float], peak_mib: dict[str, float]) -> str:
    """A bar a stage for its seconds, and one for its peak memory."""
    stages = list(seconds)
    with rc_context({**_LOOK, "axes.grid.axis": "x", "ytick.labelcolor": _INKS["ink"]}):
        figure = Figure(figsize=(7.2, 0.34 * len(stages) + 0.9), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        parts = ((left, seconds, "a", "seconds", "{:,.2f}"), (right, peak_mib, "b", "peak memory, MiB", "{:,.0f}"))
        for axes, figures, colour, word, shown in parts:
            values = [figures.get(stage, 0.0) for stage in stages]
            bars = axes.barh(stages, values, color=_INKS[colour], height=0.62, linewidth=0)
            labels = [shown.format(figures[stage]) if stage in figures else "" for stage in stages]
            axes.bar_label(bars, labels=labels, padding=4, fontsize=10, color=_INKS["ink"])
            axes.set_xlim(0, (max(values, default=0) or 1) * 1.22)
            axes.set_title(word, fontsize=11, loc="left", color=_INKS["faint"])
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            axes.spines["bottom"].set_visible(False)
        left.invert_yaxis()
        told = "; ".join(f"{stage} {took:.1f} s, {peak_mib.get(stage, 0):,.0f} MiB" for stage, took in seconds.items())
        return _svg(figure, name="stages", title="Seconds and peak memory by stage", about=told)


def trend_lines(
    nights: Sequence[str], series: Sequence[tuple[str, str, Sequence[float | None]]], *, name: str, title: str
) -> str:
    """A line a series over the nights, the last at the right; a night without a figure is a gap."""
    with rc_context(_LOOK):
        figure, axes = _figure(7.2, 2.4)
        places = list(range(len(nights)))
        highest = 0.0
        for word, colour, values in series:
            drawn = [float("nan") if value is None else value for value in values]
            highest = max([highest, *(value for value in values if value is not None)])
            axes.plot(places, drawn, color=_INKS[colour], label=word, linewidth=1.8, marker="o", markersize=3.5)
        axes.set_ylim(0, highest * 1.12 or 1)
        axes.set_xlim(-0.4, max(len(nights) - 0.6, 0.4))
        shown = sorted({round(place * (len(nights) - 1) / 5) for place in range(6)})
        axes.set_xticks(shown, [nights[place] for place in shown])
        _counts(axes)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, fontsize=10, handlelength=1.4)
        told = "; ".join(
            f"{word}: " + ", ".join("none" if value is None else f"{value:,g}" for value in values)
            for word, _, values in series
        )
        return _svg(figure, name=name, title=title, about=f"From {nights[0]} to {nights[-1]}. {told}")


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes: Axes = figure.subplots()
    return figure, axes


def _counts(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _svg(figure: Figure, *, name: str, title: str, about: str) -> str:
    """The figure as an element that stands in HTML beside others: no prolog, ids of its own, classes for colours."""
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=nothing)
    drawn = written.getvalue()
    box = re.search(r'viewBox="([^"]*)"', drawn)
    assert box is not None  # matplotlib writes one
    inside = drawn[drawn.index(">", drawn.index("<svg")) + 1 :]
    inside = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", inside, flags=re.DOTALL)
    inside = re.sub(r'<style type="text/css">.*?</style>', "", inside, flags=re.DOTALL)
    inside = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', inside)
    inside = re.sub(r'href="#', f'href="#{name}-', inside)
    inside = re.sub(r"url\(#", f"url(#{name}-", inside)
    inside = _STYLE.sub(_classed, inside.replace(" xlink:href=", " href="))
    inside = re.sub(r"\n\s*", "\n", inside)
    return (
        f'<svg viewBox="{box[1]}" role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(about)}</desc>{inside}'
    )


def _classed(found: re.Match[str]) -> str:
    """Colours of ours as classes, fonts left to the page, the rest as it was."""
    classes, rest, sizes = [], [], []
    for each in found[1].split(";"):
        coloured = _COLOURED.fullmatch(each)
        if coloured and coloured[2] in _CLASS_OF:
            classes.append(f"{coloured[1][0]}-{_CLASS_OF[coloured[2]]}")
        elif _FONT.fullmatch(each):
            sizes += re.findall(r"([\d.]+)px", each)
        elif each.strip():
            rest.append(each.strip())
    told = f' class="{" ".join(classes)}"' if classes else ""
    told += f' font-size="{sizes[0]}"' if sizes else ""
    return told + (f' style="{"; ".join(rest)}"' if rest else "")
