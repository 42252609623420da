"""What a run did, in words: lines for the terminal and the same as Markdown."""

from typing import Any

from flows.console import in_columns
from flows.night import Outcome
from flows.report.since import CHANGES
from schemas.terms import ACTIONS, FLAGGED, LINKED, MERGED, QUEUED, STORED_AS_NEW, SUPERSEDED

_IN_WORDS = {
    MERGED: "chunks merged into another",
    SUPERSEDED: "chunks that replace another",
    FLAGGED: "chunks that contradict another",
    QUEUED: "chunks queued for review",
    LINKED: "chunks linked to another",
}


def summary_rows(outcome: Outcome) -> list[tuple[str, str, str]]:
    """What a reader wants to know first, in order: the words, the figure, and what there is to say of it."""
    run = outcome.run
    reasons = ", ".join(f"{count:,} {rule}" for rule, count in outcome.reasons.items())
    figures = [
        ("rows in", run.rows_in, ""),
        ("seen for the first time", run.occurrences_new, ""),
        ("seen on an earlier night", run.occurrences_known, ""),
        ("rejected", run.rows_rejected, reasons),
        ("chunks added", run.chunks_new, ""),
        ("known chunks seen again", run.chunks_touched, ""),
        ("exact duplicates tonight", run.occurrences_new - run.chunks_new, ""),
        *_near(run.neighbours),
        *_actions(run.actions),
        *((f"{name} in all", count, "") for name, count in outcome.tables.items()),
    ]
    rows = [(what, f"{figure:,}", note) for what, figure, note in figures]
    return rows + [("skipped", "", line) for line in outcome.skipped]


def _near(neighbours: dict[str, Any]) -> list[tuple[str, int, str]]:
    """The vectors and pairs of the night, where there are any."""
    if "added" not in neighbours:
        return []
    recall = neighbours["recall"]
    found = f"of {neighbours['found']:,} found, {neighbours['cut']:,} beyond the best of both chunks"
    measured = "" if recall is None else f"; {recall:.1%} of the true pairs found in a sample"
    rows = [("candidate pairs added", neighbours["added"], found + measured)]
    if neighbours["failed"]:
        rows.append(("chunks without a vector", neighbours["failed"], "`nightfold retry` takes them up"))
    return rows


def _actions(actions: dict[str, int]) -> list[tuple[str, int, str]]:
    """What became of chunks, where anything did but being stored."""
    return [(_IN_WORDS[name], actions[name], "") for name in ACTIONS if name != STORED_AS_NEW and actions.get(name)]


def summary_text(outcome: Outcome) -> str:
    """The summary for a terminal."""
    return "\n".join(in_columns(summary_rows(outcome), right=[1]))


def summary_markdown(outcome: Outcome) -> str:
    """The summary as Markdown, with the seconds of each stage."""
    lines = [f"# Run {outcome.run.run_id}", "", "| | |", "|---|---|"]
    for what, figure, note in summary_rows(outcome):
        shown = f"{figure} ({note})" if figure and note else figure or note
        lines.append(f"| {what} | {_cell(shown)} |")
    lines += _morning(outcome)
    lines += ["", "| stage | seconds |", "|---|---|"]
    lines += [f"| {stage} | {seconds:.2f} |" for stage, seconds in outcome.seconds.items()]
    return "\n".join(lines) + "\n"


def _morning(outcome: Outcome) -> list[str]:
    """What changed since the last night, what waits, and where to read more; nothing of a dry run."""
    morning = outcome.morning
    changed = [f"| {CHANGES[kind]} | {count:,} |" for kind, count in morning.changed.items() if count]
    lines = ["", "| what changed | |", "|---|---|", *changed] if changed else []
    if morning.waiting:
        waits = "question waits" if morning.waiting == 1 else "questions wait"
        lines += ["", f"{morning.waiting:,} {waits} for a person."]
    if morning.report is not None:
        lines += ["", f"Report: `{_cell(str(morning.report))}`"]
    return lines


def _cell(text: str) -> str:
    """Text that stays in its cell, whatever a file is called."""
    return " ".join(text.replace("|", r"\|").split())
