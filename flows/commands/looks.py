"""Commands that ask: SQL, what would become of rows, and the story of a chunk. They write nothing."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import SettingsFile, WarehouseDir, over_inputs, over_warehouse, settings_of
from flows.console import Progress
from flows.settings import Kind, load_settings


def sql(
    query: Annotated[str | None, typer.Argument(help="The query; without one a prompt opens.")] = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the result as CSV.")] = False,
) -> None:
    """Query the mart, read-only.

    [bold]Examples[/bold]

    nightfold sql "select * from duplicate_rate_by_source"

    nightfold sql --csv "from duplicates" > duplicates.csv

    nightfold sql                       (a prompt; end a query with ;)

    nightfold sql < report.sql
    """
    from flows.query import prompt, query_mart

    checked = settings_of(settings, warehouse)
    if query is None:
        if not prompt(checked, as_csv=as_csv):
            raise typer.Exit(1)
    else:
        query_mart(checked, query, as_csv=as_csv)


def check(
    paths: Annotated[list[str], typer.Argument(metavar="INPUT...", help="A file, folder or glob of rows.")],
    kind: Annotated[Kind | None, typer.Option(metavar="KIND", help="text (default), file, spec_row or memory.")] = None,
    text_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column with the text.")] = None,
    id_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column with the row's id.")] = None,
    scope: Annotated[str | None, typer.Option(metavar="NAME", help="One scope for all rows.")] = None,
    scope_column: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="The column that makes the scope; may be repeated.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="The source the rows would come from.")] = None,
    table: Annotated[str | None, typer.Option(metavar="TABLE", help="The table of a DuckDB file.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write all of it: .parquet, .csv or .jsonl.")
    ] = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Say what would become of rows against the warehouse, and write nothing there.

    Each row is held against the chunks of its own scope: the same content, else the nearest chunks, judged as a night
    would. In the evidence, left is what is there and right is the row. Rows are not compared with each other.

    [bold]Examples[/bold]

    nightfold check new.csv --scope acme

    nightfold check specs.csv --kind spec_row --out checked.parquet
    """
    from flows.check import Checker, check_inputs
    from flows.checked_table import show, summary_lines
    from flows.pair_files import check_out, write_pairs

    one_input = {
        "--kind": ("kind", kind),
        "--text-column": ("text_column", text_column),
        "--id-column": ("id_column", id_column),
        "--scope": ("scope", scope),
        "--scope-column": ("scope_by", scope_column or None),
        "--source": ("name", source),
        "--table": ("table", table),
    }
    checked = load_settings(settings, over={**over_warehouse(warehouse), **over_inputs(paths, one_input)})
    if out is not None:
        check_out(out, given=Path(paths[0]))
    progress = Progress()
    with Checker(checked, tell=progress.tell) as checker:
        rows, skipped = check_inputs(checked, checker=checker)
        for line in [*([checker.note] if checker.note else []), *(f"skipped {line}" for line in skipped)]:
            progress.tell(line)
    if out is not None:
        write_pairs(out, rows)
    else:
        show(rows, progress.console)
    for line in summary_lines(rows):
        progress.tell(line)
    if out is not None:
        progress.tell(f"written  {out}")


def explain(
    chunk: Annotated[str | None, typer.Argument(help="The chunk: its id, or enough of its beginning.")] = None,
    row: Annotated[
        str | None, typer.Option("--row", metavar="SOURCE:ROW_ID", help="The chunk that this input row says.")
    ] = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Tell the story of a chunk: rows, group, judged pairs, decisions, runs.

    [bold]Examples[/bold]

    nightfold explain 3f2a9c

    nightfold explain --row handbook:hb-016
    """
    from flows.explain import told
    from flows.story import story_of

    for line in told(story_of(settings_of(settings, warehouse), chunk=chunk, row=row)):
        typer.echo(line)
