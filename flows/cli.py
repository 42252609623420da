"""The command line: its commands, and how it ends."""

import io
import sys
from typing import Annotated, NoReturn

import typer

from flows.commands.backfill import backfill
from flows.commands.judging import calibrate, judge
from flows.commands.looks import check, explain, sql
from flows.commands.morning import report
from flows.commands.nights import retry, run, unmerge
from flows.commands.review import review_app
from flows.commands.review_page import serve, serve_by_default, token_app
from flows.commands.runs import runs_app
from flows.commands.searching import search
from flows.commands.settings import settings_app
from flows.errors import NightfoldError

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


for command in (run, retry, backfill, unmerge, sql, search, check, explain, report, judge, calibrate):
    app.command()(command)
review_app.callback(invoke_without_command=True, no_args_is_help=False, help=serve_by_default.__doc__)(serve_by_default)
review_app.command("serve")(serve)
review_app.add_typer(token_app, name="token")
app.add_typer(review_app, name="review")
app.add_typer(runs_app, name="runs")
app.add_typer(settings_app, name="settings")
