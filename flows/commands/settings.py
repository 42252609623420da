"""Commands of `nightfold settings`."""

from pathlib import Path

import typer

from flows.commands.options import SettingsFile
from flows.settings import load_settings

settings_app = typer.Typer(
    no_args_is_help=True,
    help="The settings in force, and a commented example.\n\nExample: nightfold settings example > nightfold.toml",
)


@settings_app.command("show")
def settings_show(settings: SettingsFile = None) -> None:
    """The settings in force, file and environment together, as JSON.

    Example: nightfold settings show
    """
    typer.echo(load_settings(settings).model_dump_json(indent=2))


@settings_app.command("example")
def settings_example() -> None:
    """A commented nightfold.toml with every key and its default.

    Example: nightfold settings example > nightfold.toml
    """
    typer.echo((Path(__file__).parents[1] / "nightfold.example.toml").read_text(encoding="utf-8"), nl=False)
