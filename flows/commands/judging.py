"""Commands on files of pairs: judge and calibrate. They touch no warehouse."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import SettingsFile
from flows.console import Progress
from flows.settings import load_settings

Pairs = Annotated[Path, typer.Argument(metavar="PAIRS", help="A parquet, csv or jsonl file with text_a and text_b.")]


def judge(
    pairs: Pairs,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write them: .parquet, .csv or .jsonl.")],
    settings: SettingsFile = None,
) -> None:
    """Judge pairs of texts: relation, confidence, evidence, and what a night would do with each.

    Optional columns: similarity (else that of the configured encoder), kind,
    and what tells the age of a text: effective_at, version and
    source_priority, each with _a or _b. The text of side b counts as the
    later one. Other columns are carried through. No warehouse is touched.

    [bold]Examples[/bold]

    nightfold judge pairs.parquet --out judged.parquet

    nightfold judge pairs.csv --out judged.csv --settings strict.toml
    """
    from flows.judge_file import judge_file, summary_lines

    progress = Progress()
    judged = judge_file(pairs, out, settings=load_settings(settings), progress=progress)
    progress.tell("")
    for line in summary_lines(judged):
        progress.tell(line)
    progress.tell("")
    progress.tell(f"written  {out}")


def calibrate(
    pairs: Pairs,
    precision: Annotated[float, typer.Option(metavar="SHARE", help="The precision of auto-merge to aim at.")] = 0.95,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw the curves, as an .svg file.")] = None,
    settings: SettingsFile = None,
) -> None:
    """Measure auto-merge on labelled pairs, and propose settings for a wanted precision.

    The column mergeable says of each pair, true or false, whether its two
    texts may become one; rows without a label are left out. A file that
    `nightfold judge` wrote is taken as judged, any other is judged first.

    [bold]Examples[/bold]

    nightfold calibrate labelled.parquet

    nightfold calibrate labelled.csv --precision 0.98 --plot curve.svg
    """
    from flows.calibrate import calibrate as measure
    from flows.calibrate import check_plot, report_lines, write_plot

    progress = Progress()
    check_plot(plot)
    measured = measure(pairs, precision=precision, settings=load_settings(settings), progress=progress)
    for line in report_lines(measured):
        progress.tell(line)
    if plot is not None:
        write_plot(measured, plot)
        progress.tell("")
        progress.tell(f"plot     {plot}")
