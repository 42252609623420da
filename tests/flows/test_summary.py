"""What a run did, in lines for a terminal and as Markdown."""

from dataclasses import replace
from pathlib import Path

import pytest

from flows.after import Morning
from flows.night import Outcome
from flows.summary import summary_markdown, summary_text
from tests.nights import run_night


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A night of four rows, two of them duplicates and one rejected."""
    folder = tmp_path_factory.mktemp("summary")
    (folder / "faq.csv").write_text("id,text\n1,hello\n2,hello\n3,other\n4,\n")
    return run_night(folder / "out", {"path": str(folder / "faq.csv"), "scope": "acme"})


def test_figures_stand_flush_right_and_no_line_ends_in_blanks(outcome: Outcome) -> None:
    large = replace(outcome, run=replace(outcome.run, rows_in=1_234_567))
    lines = summary_text(large).splitlines()
    assert lines[:4] == [
        "rows in                   1,234,567",
        "seen for the first time           3",
        "seen on an earlier night          0",
        "rejected                          1  1 text_is_present",
    ]
    assert all(line == line.rstrip() for line in lines)


def test_a_long_line_is_neither_cut_nor_wrapped(outcome: Outcome) -> None:
    why = "a/very/long/path/" * 20 + "x.parquet: cannot be read"
    assert summary_text(replace(outcome, skipped=[why])).splitlines()[-1].split(maxsplit=1) == ["skipped", why]


def test_the_markdown_has_the_figures_and_the_seconds_of_every_stage(outcome: Outcome) -> None:
    lines = summary_markdown(outcome).splitlines()
    assert lines[0] == f"# Run {outcome.run.run_id}"
    assert "| rows in | 4 |" in lines
    assert "| rejected | 1 (1 text_is_present) |" in lines
    assert [line.split()[1] for line in lines[-5:]] == ["load", "hash", "exact", "write", "mart"]


def test_the_markdown_has_what_changed_what_waits_and_where_the_report_is(outcome: Outcome) -> None:
    lines = summary_markdown(outcome).splitlines()
    assert "| new groups | 2 |" in lines
    assert not [line for line in lines if "groups grown" in line or "Report" in line or "waits" in line]
    told = replace(outcome, morning=Morning(Path("out/reports/r.html"), {"grown": 1_200, "shrunk": 0}, 1))
    lines = summary_markdown(told).splitlines()
    assert "| groups grown | 1,200 |" in lines
    assert "1 question waits for a person." in lines
    assert "Report: `out/reports/r.html`" in lines


def test_a_name_of_a_file_stays_in_its_cell_of_the_markdown(outcome: Outcome) -> None:
    skipped = replace(outcome, skipped=[str(Path("a|b\nc.csv"))])
    assert r"| skipped | a\|b c.csv |" in summary_markdown(skipped).splitlines()
