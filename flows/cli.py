"""The command line: thin over the flows."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.console import Progress
from flows.errors import NightfoldError
from flows.settings import Settings, load_settings

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    help="Deduplicates RAG corpora and spec tables, night by night.",
)
runs_app = typer.Typer(no_args_is_help=True, help="The runs on record: list, show, roll back.")
settings_app = typer.Typer(no_args_is_help=True, help="The settings in force, and a commented example.")
app.add_typer(runs_app, name="runs")
app.add_typer(settings_app, name="settings")

SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="The TOML file; nightfold.toml in this folder where none is named.")
]
WarehouseDir = Annotated[str | None, typer.Option("--warehouse", help="The warehouse folder.")]


def main() -> None:
    """The command `nightfold`: errors with a known cause are one line, not a traceback."""
    try:
        app()
    except NightfoldError as error:
        typer.echo(f"nightfold: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("nightfold: stopped; what was published before still stands", err=True)
        sys.exit(130)


@app.command()
def run(
    settings: SettingsFile = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="A file, folder or glob; may be repeated.")
    ] = None,
    warehouse: WarehouseDir = None,
    kind: Annotated[str | None, typer.Option(help="text, file, spec_row or memory.")] = None,
    text_column: Annotated[str | None, typer.Option(help="The column with the text.")] = None,
    id_column: Annotated[str | None, typer.Option(help="The column with the row's id.")] = None,
    scope: Annotated[str | None, typer.Option(help="One scope for all rows.")] = None,
    scope_column: Annotated[
        list[str] | None, typer.Option(help="The column that makes the scope; may be repeated.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="What the input is called in the tables.")] = None,
    table: Annotated[str | None, typer.Option(help="The table of a DuckDB file.")] = None,
    on_unreadable: Annotated[
        str | None, typer.Option(help="fail (default) or skip a file that cannot be read.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; write nothing.")] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="Without Prefect: starts at once, and leaves no record there.")
    ] = False,
) -> None:
    """Run the night: load, hash, drop exact duplicates, publish, refresh the mart.

    [bold]Examples[/bold]

    nightfold run                       (uses nightfold.toml in this folder)

    nightfold run --input faq.csv --warehouse out --scope acme

    nightfold run --input 'corpus/*.parquet' --warehouse out --text-column body --scope-column tenant

    nightfold run --input specs.csv --kind spec_row --warehouse out --dry-run
    """
    over = _over(warehouse, inputs, kind, text_column, id_column, scope, scope_column, source, table, on_unreadable)
    checked = load_settings(settings, over=over)
    progress = Progress()
    if dry_run or direct:
        from flows.night import night

        outcome = night(checked, progress=progress, dry_run=dry_run)
    else:
        outcome = _under_prefect(settings, over, progress)
    from flows.summary import summary_table

    progress.tell("")
    if dry_run:
        progress.tell(f"dry run: nothing was written to {checked.warehouse.path}")
    else:
        progress.tell(
            f"published run {outcome.run.run_id}" + ("" if outcome.run.chunks_new else ": nothing new, 0 chunks added")
        )
    progress.console.print(summary_table(outcome))
    if outcome.mart is not None:
        where = "" if checked.warehouse.path == Settings().warehouse.path else f" --warehouse {checked.warehouse.path}"
        progress.tell("")
        progress.tell(f"tables   {checked.warehouse.path}")
        progress.tell(f"mart     {outcome.mart}   (duckdb {outcome.mart})")
        progress.tell(f'look     nightfold sql{where} "from duplicate_rate_by_source"')
        progress.tell(f"runs     nightfold runs list{where}")


def _under_prefect(settings: Path | None, over: dict[str, Any], progress: Progress) -> Any:
    """Runs the flow under Prefect: on the configured server, else on a temporary one."""
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "180")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    if "PREFECT_API_URL" not in os.environ:
        progress.tell("starting Prefect's temporary server (some seconds; --direct does without)")
    from flows.nightly import nightly

    return nightly(None if settings is None else str(settings), over)


def _over(
    warehouse: str | None,
    inputs: list[str] | None,
    kind: str | None,
    text_column: str | None,
    id_column: str | None,
    scope: str | None,
    scope_column: list[str] | None,
    source: str | None,
    table: str | None,
    on_unreadable: str | None,
) -> dict[str, Any]:
    """What the command line sets, in the settings' own words."""
    over: dict[str, Any] = {}
    if warehouse is not None:
        over["warehouse"] = {"path": warehouse}
    if on_unreadable is not None:
        over["load"] = {"on_unreadable": on_unreadable}
    given = {
        "kind": kind,
        "text_column": text_column,
        "id_column": id_column,
        "scope": scope,
        "scope_by": scope_column or None,
        "name": source,
        "table": table,
    }
    given = {key: value for key, value in given.items() if value is not None}
    if inputs:
        over["inputs"] = [{"path": list(inputs), **given}]
    elif given:
        raise NightfoldError(
            f"--{next(iter(given)).replace('_', '-')}: goes with --input; without it, set it in nightfold.toml"
        )
    return over


@app.command()
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
    """
    from flows.query import prompt, query_mart

    checked = load_settings(settings, over={"warehouse": {"path": warehouse}} if warehouse else None)
    if query is None:
        prompt(checked)
    else:
        query_mart(checked, query, as_csv=as_csv)


@runs_app.command("list")
def runs_list(settings: SettingsFile = None, warehouse: WarehouseDir = None) -> None:
    """Every run, newest first; the one readers see is marked.

    Example: nightfold runs list
    """
    from flows.query import show_runs

    show_runs(load_settings(settings, over={"warehouse": {"path": warehouse}} if warehouse else None))


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

    show_run(load_settings(settings, over={"warehouse": {"path": warehouse}} if warehouse else None), run_id)


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
    checked = load_settings(settings, over={"warehouse": {"path": warehouse}} if warehouse else None)
    run = rollback(checked, run_id, progress=progress)
    progress.tell(f"run {run.run_id} publishes run {run.restores} again; the mart shows it")


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
    typer.echo((Path(__file__).with_name("nightfold.example.toml")).read_text(encoding="utf-8"), nl=False)
