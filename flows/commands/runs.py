"""Commands of `nightfold runs`: list, show, roll back."""

from typing import Annotated

import typer

from flows.commands.options import SettingsFile, WarehouseDir, settings_of
from flows.console import Progress

runs_app = typer.Typer(
    no_args_is_help=True, help="The runs on record: list, show, roll back.\n\nExample: nightfold runs list"
)


@runs_app.command("list")
def runs_list(settings: SettingsFile = None, warehouse: WarehouseDir = None) -> None:
    """Every run, newest first; the one readers see is marked.

    Example: nightfold runs list
    """
    from flows.query import show_runs

    show_runs(settings_of(settings, warehouse))


@runs_app.command("show")
def runs_show(
    run_id: Annotated[str, typer.Argument(help="The run, or enough of its beginning.")],
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """One run: figures, seconds by stage, table versions, settings.

    Example: nightfold runs show 20260131T020000
    """
    from flows.query import show_run

    show_run(settings_of(settings, warehouse), run_id)


@runs_app.command("rollback")
def runs_rollback(
    run_id: Annotated[str, typer.Argument(help="The run to go back to.")],
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Publish an older run again; the runs after it stay on record.

    Example: nightfold runs rollback 20260131T020000
    """
    from flows.night import rollback

    progress = Progress()
    checked = settings_of(settings, warehouse)
    run = rollback(checked, run_id, progress=progress)
    progress.tell(f"run {run.run_id} publishes run {run.restores} again; the mart shows it")
