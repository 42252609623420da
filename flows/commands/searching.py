"""The command that searches what was published, as an agent would for its user."""

import json
from typing import Annotated

import typer

from flows.commands.options import SettingsFile, WarehouseDir, settings_of
from flows.errors import NightfoldError


def search(
    query: Annotated[str, typer.Argument(help="What is asked, in plain words.")],
    agent: Annotated[str | None, typer.Option(metavar="ID", help="The agent that asks; goes with --user.")] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="The user it asks for.")] = None,
    scope: Annotated[
        str | None, typer.Option(metavar="NAME", help="Or one scope: its rows that are in no corpus.")
    ] = None,
    k: Annotated[int, typer.Option("--k", metavar="N", min=1, help="So many results at most.")] = 10,
    min_score: Annotated[
        float, typer.Option(metavar="SCORE", min=0, max=1, help="The cosine from which a result counts.")
    ] = 0.7,
    group: Annotated[bool, typer.Option("--group", help="Spec rows by parent and sub category.")] = False,
    as_context: Annotated[bool, typer.Option("--context", help="Print a block for a prompt instead.")] = False,
    budget: Annotated[
        int, typer.Option(metavar="N", min=1, help="Words and punctuation marks that the block may have.")
    ] = 2_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Search what was published: one result for each thing said, of what an agent may show a user.

    [bold]Examples[/bold]

    nightfold search "how long does charging take?" --agent support --user ana

    nightfold search "towing capacity" --agent support --user ana --group

    nightfold search "opening hours" --scope acme --min-score 0.5 --json

    nightfold search "charging" --agent support --user ana --context --budget 500
    """
    from flows.search import Searcher, context_of, grouped
    from flows.search_shown import lines_of

    if as_context and (group or as_json):
        raise NightfoldError("--context prints a block for a prompt: leave out --group and --json")
    searcher = Searcher(settings_of(settings, warehouse), tell=lambda line: typer.echo(line, err=True))
    hits = searcher.search(query, agent=agent, user=user, scope=scope, k=k, min_score=min_score)
    if as_context:
        typer.echo(context_of(hits, budget=budget), nl=bool(hits))
    elif as_json:
        groups = [
            {
                "parent_category": each.parent_category,
                "sub_category": each.sub_category,
                "hits": [hit.as_dict() for hit in each.hits],
            }
            for each in grouped(hits)
        ]
        typer.echo(json.dumps(groups if group else [hit.as_dict() for hit in hits], ensure_ascii=False, indent=2))
    else:
        for line in lines_of(hits, by_group=group):
            typer.echo(line)
    if hits:
        return
    if scope is None and searcher.visible_corpora(agent=agent, user=user).is_empty():
        typer.echo(
            f'agent {agent!r} shows user {user!r} no corpus; `nightfold sql "from agents"` lists agents', err=True
        )
    else:
        typer.echo(f"nothing from a score of {min_score} on; a lower --min-score shows what is less near", err=True)
