"""What was said of checked rows, as a table for a person."""

from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.console import in_columns, plain
from schemas.terms import ACTIONS, MERGED

_HEADS = ("row", "becomes", "because", "what is there")
_SHOWN_ROWS = 200
# What a cell holds at most: on a terminal it is folded, elsewhere a row is a line.
_CELL, _CELL_IN_LINE = 200, 80


def show(checked: pl.DataFrame, console: Console) -> None:
    """The first rows as a table."""
    rows = [_cells(row) for row in checked.head(_SHOWN_ROWS).iter_rows(named=True)]
    if console.is_terminal:
        table = Table(pad_edge=False, show_lines=True)
        for head in _HEADS:
            table.add_column(head, overflow="fold")
        for cells in rows:
            table.add_row(*(Text(plain(cell, most=_CELL)) for cell in cells))
        console.print(table)
    else:
        lines = in_columns([_HEADS, *([plain(cell, most=_CELL_IN_LINE) for cell in cells] for cells in rows)])
        console.print("\n".join(lines), markup=False)
    if checked.height > _SHOWN_ROWS:
        console.print(f"and {checked.height - _SHOWN_ROWS:,} more; --out FILE writes all of them", markup=False)


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    name = row["source_row_id"] or row["locator"]
    if row["rejected_by"]:
        return name, "rejected", ": ".join(filter(None, [row["rejected_by"], row["evidence"]])), ""
    if row["existing_chunk_id"] is None:
        return name, row["action"], "nothing like it in its scope", ""
    judged = "not judged" if row["relation"] is None else f"{row['relation']} {row['confidence']:.2f}"
    because = f"{judged}, similarity {row['similarity']:.2f}" + (f": {row['evidence']}" if row["evidence"] else "")
    return name, row["action"], because, f"{row['existing_chunk_id'][:12]} {row['existing_text'] or ''}"


def summary_lines(checked: pl.DataFrame) -> list[str]:
    """A line for each thing that would become of rows, with their number."""
    exact = pl.col("duplicate_kind").eq_missing(pl.lit("exact"))
    counts = dict(checked.filter(~exact)["action"].drop_nulls().value_counts().iter_rows())
    others = {f"{MERGED}, in other words" if action == MERGED else action: counts.get(action) for action in ACTIONS}
    figures = {
        "rows": checked.height,
        "exact duplicates": checked.filter(exact).height,
        **others,
        "rejected": checked["rejected_by"].count(),
    }
    rows = [(what, f"{figure:,}") for what, figure in figures.items() if figure or what == "rows"]
    return in_columns(rows, right=[1])
