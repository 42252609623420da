"""The command line: thin over the flows."""

import io
import os
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from flows.console import Progress
from flows.errors import NightfoldError
from flows.settings import Kind, Settings, load_settings

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    help="""Deduplicates RAG corpora and spec tables, night by night.

    [bold]Examples[/bold]

    nightfold run --input faq.csv --warehouse out --scope acme

    nightfold sql --warehouse out "from duplicates"
    """,
)
runs_app = typer.Typer(
    no_args_is_help=True, help="The runs on record: list, show, roll back.\n\nExample: nightfold runs list"
)
settings_app = typer.Typer(
    no_args_is_help=True,
    help="The settings in force, and a commented example.\n\nExample: nightfold settings example > nightfold.toml",
)
app.add_typer(runs_app, name="runs")
app.add_typer(settings_app, name="settings")

SettingsFile = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="The TOML file; else nightfold.toml in this folder.")
]
WarehouseDir = Annotated[str | None, typer.Option("--warehouse", metavar="DIR", help="The warehouse folder.")]

Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="GUARD", help="A guard to let this one run through, by its name; may be repeated."),
]

_STOPPED = 130


def main() -> None:
    """The command `nightfold`: errors with a known cause are one line, not a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name or text that the terminal's encoding cannot show must not end a run.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="nightfold")
    except NightfoldError as error:
        _stop(str(error), code=1)
    except OSError as error:
        _stop(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error), code=1)
    except SystemExit as ended:
        # Ctrl-C, which ends a command without a word.
        if ended.code == _STOPPED:
            _stop("stopped; what was published before still stands", code=_STOPPED)
        raise


def _stop(why: str, *, code: int) -> NoReturn:
    typer.echo(f"nightfold: {why}", err=True)
    sys.exit(code)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"nightfold {version('nightfold')}")
        raise typer.Exit


@app.callback()
def _of_all(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
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
        **_over_warehouse(warehouse),
        **({} if on_unreadable is None else {"load": {"on_unreadable": on_unreadable}}),
        **_over_guard(allow),
        **_over_inputs(inputs or [], one_input),
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
    _tell_end(outcome, checked, progress, again=[*_option("--settings", settings), *_option("--warehouse", warehouse)])


@app.command()
def retry(settings: SettingsFile = None, warehouse: WarehouseDir = None, allow: Allow = None) -> None:
    """Embed the chunks that have no vector yet, and join them.

    No input is read: rows that came in while the model or the endpoint failed are in the tables, `incomplete`.

    Example: nightfold retry
    """
    _embed_known(settings, warehouse, pending="incomplete", allow=allow)


@app.command()
def backfill(
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Embed every chunk with the model that [embedding] names now.")
    ] = False,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
    allow: Allow = None,
) -> None:
    """Bring what is there up to date: vectors of another model for every chunk.

    The vectors in use stay in use until all new ones are there. Killed, it goes on from where it was.

    Example: nightfold backfill --embeddings
    """
    if not embeddings:
        raise NightfoldError("backfill: say what to bring up to date: --embeddings")
    _embed_known(settings, warehouse, pending="all", allow=allow)


@app.command()
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

    checked, progress = _settings(settings, warehouse), Progress()
    done = take_out(checked, chunk, by=by or getuser(), reason=reason, progress=progress)
    progress.tell(
        f"run {done.run.run_id}: {done.chunk_id} stands for itself again, apart from {done.stood_for_by}; the mart "
        "shows it"
    )


def _embed_known(
    settings: Path | None,
    warehouse: str | None,
    *,
    pending: Literal["incomplete", "all"],
    allow: list[str] | None,
) -> None:
    from flows.night import night
    from flows.warehouse import Warehouse

    checked = load_settings(settings, over={**_over_warehouse(warehouse), **_over_guard(allow)})
    if checked.embedding.encoder == "none":
        raise NightfoldError('[embedding] encoder = "none": there is nothing to embed with; name an encoder')
    if Warehouse(checked.warehouse.path).published() is None:
        raise NightfoldError(f"{checked.warehouse.path}: no run is published; `nightfold run` makes the first")
    progress = Progress()
    outcome = night(checked, progress=progress, pending=pending)
    _tell_end(outcome, checked, progress, again=[*_option("--settings", settings), *_option("--warehouse", warehouse)])


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
    progress.tell(f'look     {sql_again} "from duplicate_rate_by_source"')
    if outcome.tables["rejects"]:
        progress.tell(f'rejects  {sql_again} "from rejects_by_rule"')
    progress.tell(f"runs     {shlex.join(['nightfold', 'runs', 'list', *again])}")


def _option(name: str, value: Path | str | None) -> list[str]:
    return [] if value is None else [name, str(value)]


def _over_warehouse(warehouse: str | None) -> dict[str, Any]:
    return {} if warehouse is None else {"warehouse": {"path": warehouse}}


def _over_guard(allow: list[str] | None) -> dict[str, Any]:
    return {} if not allow else {"guard": {"allow": allow}}


def _over_inputs(paths: list[str], options: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    """The one input of the command line: its paths, and what the options that were given set of it."""
    given = {option: pair for option, pair in options.items() if pair[1] is not None}
    if paths:
        return {"inputs": [{"path": paths, **dict(given.values())}]}
    if given:
        raise NightfoldError(f"{next(iter(given))}: goes with --input; without it, set it in nightfold.toml")
    return {}


def _settings(file: Path | None, warehouse: str | None) -> Settings:
    return load_settings(file, over=_over_warehouse(warehouse))


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

    nightfold sql < report.sql
    """
    from flows.query import prompt, query_mart

    checked = _settings(settings, warehouse)
    if query is None:
        if not prompt(checked, as_csv=as_csv):
            raise typer.Exit(1)
    else:
        query_mart(checked, query, as_csv=as_csv)


@app.command()
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
    checked = load_settings(settings, over={**_over_warehouse(warehouse), **_over_inputs(paths, one_input)})
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


@app.command()
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

    for line in told(story_of(_settings(settings, warehouse), chunk=chunk, row=row)):
        typer.echo(line)


Pairs = Annotated[Path, typer.Argument(metavar="PAIRS", help="A parquet, csv or jsonl file with text_a and text_b.")]


@app.command()
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


@app.command()
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


@runs_app.command("list")
def runs_list(settings: SettingsFile = None, warehouse: WarehouseDir = None) -> None:
    """Every run, newest first; the one readers see is marked.

    Example: nightfold runs list
    """
    from flows.query import show_runs

    show_runs(_settings(settings, warehouse))


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

    show_run(_settings(settings, warehouse), run_id)


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
    checked = _settings(settings, warehouse)
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
