"""The lines a person sees while a run goes on, on a terminal and off it."""

import io
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flows.console import Progress, in_columns, is_terminal


def on(*, terminal: bool, plain_line_seconds: float = 30) -> tuple[Progress, io.StringIO]:
    seen = io.StringIO()
    console = Console(
        file=seen, force_terminal=terminal, width=80, highlight=False, soft_wrap=True, emoji=False, _environ={}
    )
    return Progress(console=console, plain_line_seconds=plain_line_seconds), seen


def test_a_stage_that_is_done_has_one_line() -> None:
    progress, seen = on(terminal=False)
    progress.done("exact", 1_000_000, 812_345, 0.94)
    progress.done("load", 3, 3, 0.0, reused=True)
    assert seen.getvalue().splitlines() == [
        "exact       1,000,000 -> 812,345 rows   0.9 s",
        "load                3 -> 3 rows   0.0 s   (done before, taken up)",
    ]


def test_words_are_printed_as_they_are() -> None:
    progress, seen = on(terminal=False)
    line = "[bold]no markup[/bold] :warning: " + "a long path/" * 20
    progress.tell(line)
    assert seen.getvalue() == line + "\n"


def test_quiet_prints_nothing() -> None:
    progress, seen = on(terminal=True)
    progress.quiet = True
    with progress.stage("load"):
        progress.rows("load", 5)
    progress.done("load", 5, 5, 0.1)
    assert not seen.getvalue()


def test_a_terminal_shows_the_rows_of_the_stage_under_way_and_clears_them() -> None:
    progress, seen = on(terminal=True)
    with progress.stage("load"):
        assert progress._status is not None
        progress._status._live.refresh()  # else ten times a second
        assert "load ..." in seen.getvalue()
        progress.rows("load", 131_072)
        progress._status._live.refresh()
        assert "load          131,072 rows ..." in seen.getvalue()
    progress.done("load", 131_072, 131_072, 1.0)
    assert "\x1b[2K" in seen.getvalue()
    assert seen.getvalue().endswith("load          131,072 -> 131,072 rows   1.0 s\n")


def test_the_live_line_ends_with_its_stage_also_when_that_fails() -> None:
    progress, seen = on(terminal=True)
    with pytest.raises(ValueError, match="broken"), progress.stage("load"):
        raise ValueError("broken")
    before = seen.getvalue()
    progress.rows("load", 5)
    assert seen.getvalue() == before


def test_off_the_terminal_a_short_stage_has_no_line_under_way() -> None:
    progress, seen = on(terminal=False)
    with progress.stage("load"):
        progress.rows("load", 5)
    assert not seen.getvalue()


def test_off_the_terminal_a_long_stage_tells_its_rows_in_plain_lines() -> None:
    progress, seen = on(terminal=False, plain_line_seconds=0)
    with progress.stage("load"):
        progress.rows("load", 131_072)
    assert seen.getvalue() == "load          131,072 rows ...\n"


def test_a_stage_on_another_thread_has_no_live_line() -> None:
    progress, seen = on(terminal=True)

    def work() -> None:
        with progress.stage("load"):
            progress.rows("load", 5)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not seen.getvalue()


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    rows = [("", "run", "rows in", "note"), ("*", "20260131T020000", "1,000", ""), ("", "x", "5", "skipped a.csv")]
    assert in_columns(rows, right=[2]) == [
        "   run              rows in  note",
        "*  20260131T020000    1,000",
        "   x                      5  skipped a.csv",
    ]


def test_no_rows_are_no_lines() -> None:
    assert in_columns([]) == []


CELL = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=120).map(str.strip)


@given(st.lists(st.tuples(CELL, CELL, CELL), max_size=4), st.sets(st.integers(0, 2)))
def test_a_row_is_one_line_with_every_cell_whole_and_no_blanks_at_the_end(
    rows: list[tuple[str, str, str]], right: set[int]
) -> None:
    lines = in_columns(rows, right=right)
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert line == line.rstrip()
        assert all(cell in line for cell in row)


def test_a_pipe_is_no_terminal() -> None:
    assert not is_terminal()
