"""A plot as SVG, by hand: seconds a stage, stacked, against rows."""

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 760, 420, 60, 50, 20, 150
_COLOURS = ("#8c8c8c", "#b5a642", "#6b8e23", "#1f77b4", "#17a2b8", "#d62728", "#9467bd", "#e377c2")


def stacked(sizes: list[int], seconds: dict[str, tuple[float, ...]]) -> str:
    """An area a stage, one upon the other; a straight dashed line from nothing to the end shows what is linear."""
    totals = [sum(stage[n] for stage in seconds.values()) for n in range(len(sizes))]
    across = (_WIDTH - _LEFT - _RIGHT) / max(sizes)
    up = (_HEIGHT - _BOTTOM - _TOP) / max(totals)

    def at(rows: float, height: float) -> str:
        return f"{_LEFT + rows * across:.1f},{_HEIGHT - _BOTTOM - height * up:.1f}"

    box = f"0 0 {_WIDTH} {_HEIGHT}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    below = [0.0] * len(sizes)
    for place, (stage, took) in enumerate(seconds.items()):
        above = [low + each for low, each in zip(below, took, strict=True)]
        edge = [at(size, high) for size, high in zip(sizes, above, strict=True)]
        back = [at(size, low) for size, low in zip(sizes, below, strict=True)][::-1]
        colour = _COLOURS[place % len(_COLOURS)]
        parts.append(f'<polygon points="{at(0, 0)} {" ".join(edge + back)}" fill="{colour}" fill-opacity="0.8"/>')
        # The list beside the plot stands in the order of the stack.
        row = _TOP + 20 * (len(seconds) - place)
        parts.append(f'<rect x="{_WIDTH - _RIGHT + 20}" y="{row - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 38}" y="{row}">{stage} {took[-1]:.1f} s</text>')
        below = above
    linear = f"{at(0, 0)} {at(sizes[-1], totals[-1])}"
    parts.append(f'<polyline points="{linear}" fill="none" stroke="black" stroke-dasharray="6 4"/>')
    for size, total in zip(sizes, totals, strict=True):
        x, y = at(size, 0).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 18:.1f}" text-anchor="middle">{size:,}</text>')
        x, y = at(size, total).split(",")
        parts.append(f'<text x="{x}" y="{float(y) - 5:.1f}" text-anchor="end">{total:.1f} s</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle">rows</text>')
    return "\n".join([*parts, "</svg>", ""])
