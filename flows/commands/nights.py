"""Commands that publish: the night, and what brings known chunks up to date."""

import os
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.commands.options import (
    Allow,
    SettingsFile,
    WarehouseDir,
    option,
    over_guard,
    over_inputs,
    over_warehouse,
    settings_of,
)
from flows.console import Progress
from flows.errors import NightfoldError
from flows.settings import Kind, Settings, load_settings


def run(
    settings: SettingsFile = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="FILE", help="A file, folder or glob; may be repeated.")
    ] = None,
    warehouse: WarehouseDir = None,
    kind: Annotated[Kind | None, typer.Option(metavar="KIND", help="text (default), file, spec_row or memory.")] = None,
    text_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column with the text.")] = None,
    id_column: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column with the row's id.")] = None,
    scope: Annotated[str | None, typer.Option(metavar="NAME", help="One scope for all rows.")] = None,
    scope_column: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="The column that makes the scope; may be repeated.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="What the input is called in the tables.")] = None,
    table: Annotated[str | None, typer.Option(metavar="TABLE", help="The table of a DuckDB file.")] = None,
    on_unreadable: Annotated[
        Literal["fail", "skip"] | None,
        typer.Option(metavar="HOW", help="fail (default) or skip a file that cannot be read."),
    ] = None,
    allow: Allow = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; write nothing.")] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="Without Prefect: starts at once, and leaves no record there.")
    ] = False,
) -> None:
    """Run the night: load, fold exact duplicates, judge near ones, publish, refresh the mart.

    [bold]Examples[/bold]

    nightfold run                       (uses nightfold.toml in this folder)

    nightfold run --input faq.csv --warehouse out --scope acme

    nightfold run -i 'corpus/*.parquet' --warehouse out --scope-column tenant

    nightfold run --input specs.csv --kind spec_row --warehouse out --dry-run

    nightfold run --allow max_removed_share       (a guard stopped it, and it is right)
    """
    one_input = {
        "--kind": ("kind", kind),
        "--text-column": ("text_column", text_column),
        "--id-column": ("id_column", id_column),
        "--scope": ("scope", scope),
        "--scope-column": ("scope_by", scope_column or None),
        "--source": ("name", source),
        "--table": ("table", table),
    }
    over = {
        **over_warehouse(warehouse),
        **({} if on_unreadable is None else {"load": {"on_unreadable": on_unreadable}}),
        **over_guard(allow),
        **over_inputs(inputs or [], one_input),
    }
    checked = load_settings(settings, over=over)
    from flows.sources import find_sources

    find_sources(checked)  # a path that is mistyped is told at once, before anything is started or written
    progress = Progress()
    if dry_run or direct:
        from flows.night import night

        outcome = night(checked, progress=progress, dry_run=dry_run)
    else:
        outcome = _under_prefect(settings, over, progress)
    _tell_end(outcome, checked, progress, again=[*option("--settings", settings), *option("--warehouse", warehouse)])


def retry(settings: SettingsFile = None, warehouse: WarehouseDir = None, allow: Allow = None) -> None:
    """Embed the chunks that have no vector yet, and join them.

    No input is read: rows that came in while the model or the endpoint failed are in the tables, `incomplete`.

    Example: nightfold retry
    """
    embed_known(settings, warehouse, pending="incomplete", allow=allow)


def unmerge(
    chunk: Annotated[str, typer.Argument(help="The merged chunk: its id, or enough of its beginning.")],
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record of runs.")] = None,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who decided it; else you.")] = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Take a merged chunk out of its group, for good.

    It is its own canonical again, in a run of its own. No later night merges the two again by itself.

    [bold]Examples[/bold]

    nightfold sql "from merged"         (shows the merged chunks and their ids)

    nightfold unmerge 3f2a9c --reason "two different pumps"
    """
    from getpass import getuser

    from flows.unmerge import unmerge as take_out

    checked, progress = settings_of(settings, warehouse), Progress()
    done = take_out(checked, chunk, by=by or getuser(), reason=reason, progress=progress)
    progress.tell(
        f"run {done.run.run_id}: {done.chunk_id} stands for itself again, apart from {done.stood_for_by}; the mart "
        "shows it"
    )


def embed_known(
    settings: Path | None,
    warehouse: str | None,
    *,
    pending: Literal["incomplete", "all"],
    allow: list[str] | None,
) -> None:
    """A run over chunks that are there: what it did, and where to look."""
    from flows.night import night
    from flows.warehouse import Warehouse

    checked = load_settings(settings, over={**over_warehouse(warehouse), **over_guard(allow)})
    if checked.embedding.encoder == "none":
        raise NightfoldError('[embedding] encoder = "none": there is nothing to embed with; name an encoder')
    if Warehouse(checked.warehouse.path).published() is None:
        raise NightfoldError(f"{checked.warehouse.path}: no run is published; `nightfold run` makes the first")
    progress = Progress()
    outcome = night(checked, progress=progress, pending=pending)
    _tell_end(outcome, checked, progress, again=[*option("--settings", settings), *option("--warehouse", warehouse)])


def _tell_end(outcome: Any, checked: Settings, progress: Progress, *, again: list[str]) -> None:
    """What the run did, and where to look: commands that work as printed, with the options `again` of this one."""
    from flows.summary import summary_text

    is_dry = outcome.mart is None
    progress.tell("")
    if is_dry:
        progress.tell(f"dry run: nothing was written to {checked.warehouse.path}; a run would do this")
    else:
        is_new = outcome.run.chunks_new or outcome.run.neighbours.get("embedded")
        added = "" if is_new else ": nothing new, 0 chunks added"
        progress.tell(f"published run {outcome.run.run_id}{added}")
    progress.tell(summary_text(outcome))
    if is_dry:
        return
    sql_again = shlex.join(["nightfold", "sql", *again])
    progress.tell("")
    progress.tell(f"tables   {checked.warehouse.path}")
    progress.tell(f"mart     {outcome.mart}   (opens in any DuckDB)")
    if outcome.morning.report is not None:
        progress.tell(f"report   {outcome.morning.report}   (opens in any browser)")
    progress.tell(f'look     {sql_again} "from duplicate_rate_by_source"')
    if outcome.tables["rejects"]:
        progress.tell(f'rejects  {sql_again} "from rejects_by_rule"')
    progress.tell(f"runs     {shlex.join(['nightfold', 'runs', 'list', *again])}")


def _under_prefect(settings: Path | None, over: dict[str, Any], progress: Progress) -> Any:
    """Runs the flow under Prefect: on the configured server, else on a temporary one."""
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "180")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    if "PREFECT_LOGGING_LEVEL" not in os.environ:
        # The server keeps Prefect's log; here it would tell each error a second time, with a traceback.
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    from prefect.client.orchestration import get_client
    from prefect.settings import get_current_settings

    from flows.temporary_server import temporary_server

    prefect = get_current_settings()
    with ExitStack() as while_it_runs:
        if prefect.api.url is not None:
            with get_client(sync_client=True) as client:
                problem = client.api_healthcheck()
            if problem is not None:
                raise NightfoldError(
                    f"{prefect.api.url}: Prefect's server does not answer ({problem}); start it, or run with --direct"
                )
        elif prefect.server.ephemeral.enabled:
            progress.tell("starting Prefect's temporary server (some seconds; --direct does without)")
            start_seconds = prefect.server.ephemeral.startup_timeout_seconds
            while_it_runs.enter_context(temporary_server(start_seconds=start_seconds))
        else:
            raise NightfoldError(
                "Prefect: no server is configured and its temporary one is switched off; set PREFECT_API_URL, or run "
                "with --direct"
            )
        from flows.nightly import nightly

        return nightly(None if settings is None else str(settings), over)
