"""Commands of `nightfold review` that serve the page and hand out its tokens."""

from typing import Annotated

import typer
from typer.core import TyperGroup

from flows.commands.options import SettingsFile, WarehouseDir, over_warehouse, settings_of
from flows.console import Progress
from flows.errors import NightfoldError
from flows.settings import load_settings

Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen; 127.0.0.1 by default.")]
Port = Annotated[
    int | None, typer.Option("--port", metavar="PORT", min=0, max=65_535, help="8765 by default; 0: any free one.")
]
Open = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]


def serve(
    host: Host = None,
    port: Port = None,
    opens_browser: Open = False,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Serve the page where people decide, until Ctrl-C.

    It listens on this machine alone; who signs in needs a token (`nightfold review token NAME`).

    [bold]Examples[/bold]

    nightfold review

    nightfold review serve --port 9000 --open
    """
    from review.server import serve

    given = {"host": host, "port": port}
    over = {"review": {name: value for name, value in given.items() if value is not None}}
    serve(
        load_settings(settings, over={**over_warehouse(warehouse), **over}),
        opens_browser=opens_browser,
        progress=Progress(),
    )


def serve_by_default(
    context: typer.Context,
    host: Host = None,
    port: Port = None,
    opens_browser: Open = False,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """What waits for a person: decided on a page, which `nightfold review` alone serves, or without a browser.

    [bold]Examples[/bold]

    nightfold review --port 9000

    nightfold review list --scope acme
    """
    given = {"--host": host, "--port": port, "--open": opens_browser, "--settings": settings, "--warehouse": warehouse}
    if context.invoked_subcommand is None:
        serve(host, port, opens_browser, settings, warehouse)
        return
    misplaced = next((name for name, value in given.items() if value not in (None, False)), None)
    if misplaced:
        raise NightfoldError(f"{misplaced}: goes after the command, as in `review {context.invoked_subcommand} ...`")


class _NameAlone(TyperGroup):
    """`token NAME ...` is `token create NAME ...`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["create", *args]
        return super().parse_args(ctx, args)


token_app = typer.Typer(
    cls=_NameAlone,
    no_args_is_help=True,
    help="Who may use the page: a personal token each.\n\n`token NAME` is `token create NAME`.\n\n"
    "Example: nightfold review token ana --role admin --scope acme-fleet",
)


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="Whose it is; it stands with every decision.")],
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="admin decides, viewer looks.")] = "viewer",
    scope: Annotated[
        list[str] | None, typer.Option("--scope", metavar="SCOPE", help="May be repeated; none: every scope.")
    ] = None,
    expires_days: Annotated[
        float | None, typer.Option("--expires-days", metavar="DAYS", help="It opens nothing after so many days.")
    ] = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Make a token. It is shown this once; only a digest of it is kept.

    Example: nightfold review token create ana --role admin --scope acme-fleet
    """
    from review.app import give_token

    checked = settings_of(settings, warehouse)
    typer.echo(give_token(checked, name, role=role, scopes=scope or None, expires_days=expires_days))
    opens = f"the scopes {', '.join(sorted(scope))}" if scope else "every scope"
    typer.echo(f"{role} of {opens}; it is not shown again", err=True)


@token_app.command("list")
def token_list(settings: SettingsFile = None, warehouse: WarehouseDir = None) -> None:
    """Every token on record: whose, what it opens, until when.

    Example: nightfold review token list
    """
    from datetime import UTC, datetime

    from rich.table import Table
    from rich.text import Text

    from review.app import open_access

    tokens = open_access(settings_of(settings, warehouse)).tokens()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "role", "scopes", "state", "made", "expires"):
        table.add_column(column, overflow="fold")
    for each in tokens:
        scopes = "every scope" if each.scopes is None else ", ".join(sorted(each.scopes))
        expires = each.expires_at.strftime("%Y-%m-%d %H:%M") if each.expires_at else "never"
        cells = (each.name, each.role, scopes, each.state(datetime.now(UTC)))
        table.add_row(*map(Text, (*cells, each.created_at.strftime("%Y-%m-%d %H:%M"), expires)))
    Progress().console.print(table if tokens else "no token yet; `nightfold review token NAME` makes one")


@token_app.command("revoke")
def token_revoke(
    name: Annotated[str, typer.Argument(help="Whose token.")],
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Take a token back: it opens nothing any more, and who is signed in with it is signed out.

    Example: nightfold review token revoke ana
    """
    from review.app import revoke_token

    revoke_token(settings_of(settings, warehouse), name)
    typer.echo(f"{name}: revoked")
