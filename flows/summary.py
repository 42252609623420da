"""What a run did, in words: a table for the terminal and the same as Markdown."""

from rich.table import Table

from flows.night import Outcome


def summary_lines(outcome: Outcome) -> list[tuple[str, str]]:
    """What a reader wants to know first, in order."""
    run = outcome.run
    lines = [
        ("rows in", f"{run.rows_in:,}"),
        ("seen for the first time", f"{run.occurrences_new:,}"),
        ("seen on an earlier night", f"{run.occurrences_known:,}"),
        ("rejected", _rejected(outcome)),
        ("chunks added", f"{run.chunks_new:,}"),
        ("known chunks seen again", f"{run.chunks_touched:,}"),
        ("exact duplicates tonight", f"{run.occurrences_new - run.chunks_new:,}"),
    ]
    lines += [(f"{name} in all", f"{count:,}") for name, count in outcome.tables.items()]
    lines += [("skipped", line) for line in outcome.skipped]
    return lines


def _rejected(outcome: Outcome) -> str:
    reasons = ", ".join(f"{count:,} {rule}" for rule, count in outcome.reasons.items())
    return f"{outcome.run.rows_rejected:,}" + (f" ({reasons})" if reasons else "")


def summary_table(outcome: Outcome) -> Table:
    """The summary for a terminal."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for what, figure in summary_lines(outcome):
        table.add_row(what, figure)
    return table


def summary_markdown(outcome: Outcome) -> str:
    """The summary as Markdown, with the seconds of each stage."""
    lines = [f"# Run {outcome.run.run_id}", "", "| | |", "|---|---|"]
    lines += [f"| {what} | {figure} |" for what, figure in summary_lines(outcome)]
    lines += ["", "| stage | seconds |", "|---|---|"]
    lines += [f"| {stage} | {seconds:.2f} |" for stage, seconds in outcome.seconds.items()]
    return "\n".join(lines) + "\n"
