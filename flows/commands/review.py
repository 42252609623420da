"""Commands of `nightfold review`: the queue without a browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.commands.options import SettingsFile, WarehouseDir, settings_of
from flows.console import Progress

if TYPE_CHECKING:
    from flows.reviews import Reviews

review_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""What waits for a person: list it, show it, decide it, undo it.

    [bold]Examples[/bold]

    nightfold review list --scope acme

    nightfold review export answers.csv
    """,
)

Scope = Annotated[str | None, typer.Option("--scope", metavar="NAME", help="Of this scope.")]
Relation = Annotated[str | None, typer.Option("--relation", metavar="NAME", help="Of this relation.")]
Source = Annotated[str | None, typer.Option("--source", metavar="NAME", help="Of this source.")]
MinConfidence = Annotated[float | None, typer.Option("--min-confidence", metavar="X", help="Confidence of X or more.")]
MaxConfidence = Annotated[float | None, typer.Option("--max-confidence", metavar="X", help="Confidence of X or less.")]
MinSimilarity = Annotated[float | None, typer.Option("--min-similarity", metavar="X", help="Similarity of X or more.")]
MaxSimilarity = Annotated[float | None, typer.Option("--max-similarity", metavar="X", help="Similarity of X or less.")]
OlderThan = Annotated[int | None, typer.Option("--older-than", metavar="DAYS", help="Asked more than so long ago.")]
Text = Annotated[str | None, typer.Option("--text", metavar="WORDS", help="With these words in its text.")]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides; else you.")]


@review_app.command("list")
def review_list(
    scope: Scope = None,
    relation: Relation = None,
    source: Source = None,
    min_confidence: MinConfidence = None,
    max_confidence: MaxConfidence = None,
    min_similarity: MinSimilarity = None,
    max_similarity: MaxSimilarity = None,
    older_than: OlderThan = None,
    text: Text = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="So many lines.")] = 50,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """The open questions, oldest first, and how many there are.

    Example: nightfold review list --relation equivalent --min-confidence 0.8
    """
    from flows.review_words import list_lines

    filters = _filters(
        scope=scope,
        relation=relation,
        source=source,
        min_confidence=min_confidence,
        max_confidence=max_confidence,
        min_similarity=min_similarity,
        max_similarity=max_similarity,
        older_than_days=older_than,
        text=text,
    )
    reviews = _reviews(settings, warehouse)
    page = reviews.page(filters, scopes=None, limit=limit)
    for line in list_lines(page, reviews.counts(filters, scopes=None)):
        typer.echo(line)


@review_app.command("show")
def review_show(
    review: Annotated[str, typer.Argument(metavar="REVIEW", help="The question: its id, or enough of its beginning.")],
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """One question: the chunk, its candidates with the evidence, and the answer where there is one.

    Example: nightfold review show 3f2a9c
    """
    from flows.review_words import question_lines

    reviews = _reviews(settings, warehouse)
    for line in question_lines(reviews.question(reviews.named(review, scopes=None), scopes=None)):
        typer.echo(line)


@review_app.command("decide")
def review_decide(
    review: Annotated[str, typer.Argument(metavar="REVIEW", help="The question: its id, or enough of its beginning.")],
    decision: Annotated[
        Literal["merge", "keep_separate", "link", "flag_contradiction", "delete"],
        typer.Argument(metavar="DECISION", help="merge, keep_separate, link, flag_contradiction or delete."),
    ],
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="GROUP", help="The candidate's group or chunk; else the best candidate's."),
    ] = None,
    notes: Annotated[str | None, typer.Option("--notes", metavar="TEXT", help="Why, for the record.")] = None,
    by: By = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Answer a question. It holds for every later night; `nightfold review undo` takes it back.

    [bold]Examples[/bold]

    nightfold review decide 3f2a9c keep_separate --notes "two different pumps"

    nightfold review decide 3f2a9c merge --into 81b0
    """
    from flows.review_words import decided_line
    from flows.reviews import Choice

    reviews = _reviews(settings, warehouse)
    review_id = reviews.named(review, scopes=None)
    target = reviews.target_of(review_id, decision, into, scopes=None)
    (done,) = reviews.decide([Choice(review_id, decision, target, notes)], by=_me(by), scopes=None)
    _tell_applied(reviews, decided_line(done))


@review_app.command("undo")
def review_undo(
    decision: Annotated[
        str, typer.Argument(metavar="DECISION", help="The decision or the batch: its id, or enough of its beginning.")
    ],
    by: By = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Take a decision back, or all of a batch. The question is open again; both stay on record.

    Example: nightfold review undo 5d11ab
    """
    reviews = _reviews(settings, warehouse)
    name, is_batch = reviews.decision_named(decision, scopes=None)
    if is_batch:
        undone = reviews.undo_batch(name, by=_me(by), scopes=None)
    else:
        undone = [reviews.undo(name, by=_me(by), scopes=None)]
    what = f"{len(undone):,} decisions" if len(undone) != 1 else f"decision {undone[0].undoes}"
    _tell_applied(reviews, f"{what} taken back")


@review_app.command("log")
def review_log(
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Of this person.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="So many lines.")] = 50,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """What was decided, latest first, and what came of it.

    Example: nightfold review log --by ana
    """
    from flows.review_words import log_lines

    for line in log_lines(_reviews(settings, warehouse).history(scopes=None, by=by, limit=limit)):
        typer.echo(line)


@review_app.command("export")
def review_export(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Where to: .csv, .jsonl or .parquet.")],
    scope: Scope = None,
    relation: Relation = None,
    source: Source = None,
    min_confidence: MinConfidence = None,
    max_confidence: MaxConfidence = None,
    min_similarity: MinSimilarity = None,
    max_similarity: MaxSimilarity = None,
    older_than: OlderThan = None,
    text: Text = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Write the open questions to a file: fill in decision and notes, and import it.

    The target of a merge is filled in with the best candidate. A line without a decision stays open.

    Example: nightfold review export answers.csv --scope acme
    """
    from flows.review_files import export_questions

    filters = _filters(
        scope=scope,
        relation=relation,
        source=source,
        min_confidence=min_confidence,
        max_confidence=max_confidence,
        min_similarity=min_similarity,
        max_similarity=max_similarity,
        older_than_days=older_than,
        text=text,
    )
    count = export_questions(_reviews(settings, warehouse), out, filters)
    Progress().tell(f"{count:,} open questions in {out}; fill in decision, then: nightfold review import {out}")


@review_app.command("import")
def review_import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file that was filled in.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Take the good lines, also where others are refused.")
    ] = False,
    by: By = None,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
) -> None:
    """Take the decisions of a file, each line checked as the page would. The same file twice changes nothing.

    Example: nightfold review import answers.csv --by ana
    """
    from flows.review_files import import_decisions

    reviews, progress = _reviews(settings, warehouse), Progress()
    taken = import_decisions(reviews, file, by=_me(by), partial=partial)
    for line in taken.refused:
        typer.echo(f"refused  {line}", err=True)
    told = f"{len(taken.decisions):,} decisions taken"
    told += f", {taken.repeated:,} stood already" if taken.repeated else ""
    told += f", {taken.blank:,} lines without one" if taken.blank else ""
    _tell_applied(reviews, told, progress)
    if taken.decisions:
        progress.tell(f"to take all of it back: nightfold review undo {taken.decisions[0].batch_id}")
    if taken.refused:
        raise typer.Exit(1)


def _reviews(settings: Path | None, warehouse: str | None) -> "Reviews":
    from flows.reviews import Reviews

    return Reviews(settings_of(settings, warehouse))


def _filters(**given: Any) -> Any:
    from flows.reviews import Filters

    return Filters(**given)


def _me(by: str | None) -> str:
    from getpass import getuser

    return by if by is not None else getuser()


def _tell_applied(reviews: "Reviews", done: str, progress: Progress | None = None) -> None:
    """What was done, and whether the tables show it yet."""
    applied = reviews.apply_outstanding()
    when = "; a run holds the warehouse and applies it when it is done" if applied is None else "; the mart shows it"
    (progress or Progress()).tell(done + when)
