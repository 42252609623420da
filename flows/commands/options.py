"""Options that several commands share, and what they set."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.errors import NightfoldError
from flows.settings import Settings, load_settings

SettingsFile = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="The TOML file; else nightfold.toml in this folder.")
]
WarehouseDir = Annotated[str | None, typer.Option("--warehouse", metavar="DIR", help="The warehouse folder.")]

Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="GUARD", help="A guard to let this one run through, by its name; may be repeated."),
]


def over_warehouse(warehouse: str | None) -> dict[str, Any]:
    return {} if warehouse is None else {"warehouse": {"path": warehouse}}


def over_guard(allow: list[str] | None) -> dict[str, Any]:
    return {} if not allow else {"guard": {"allow": allow}}


def over_inputs(paths: list[str], options: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    """The one input of the command line: its paths, and what the options that were given set of it."""
    given = {option: pair for option, pair in options.items() if pair[1] is not None}
    if paths:
        return {"inputs": [{"path": paths, **dict(given.values())}]}
    if given:
        raise NightfoldError(f"{next(iter(given))}: goes with --input; without it, set it in nightfold.toml")
    return {}


def settings_of(file: Path | None, warehouse: str | None) -> Settings:
    return load_settings(file, over=over_warehouse(warehouse))


def option(name: str, value: Path | str | None) -> list[str]:
    return [] if value is None else [name, str(value)]
