"""The command that makes a run's report again."""

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import SettingsFile, WarehouseDir, settings_of


def report(
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The run, or enough of its beginning; else what readers see.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the page to this file.")] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="NAME", help="Only this scope; nothing of another is in it.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Make the report of a run again: one HTML page that loads nothing.

    Every night leaves one in the warehouse's folder `reports`. It is for those who may read all scopes; with --scope,
    for those of one.

    [bold]Examples[/bold]

    nightfold report --open

    nightfold report 20260131T020000 --out night.html

    nightfold report --scope acme --out acme.html
    """
    from flows.report.file import facts_of, write_report

    path = write_report(facts_of(settings_of(settings, warehouse), run_id, scope=scope), out)
    typer.echo(path)
    if open_it:
        typer.launch(path.resolve().as_uri())
