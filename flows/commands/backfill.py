"""The command that brings in what was there before: legacy rows, and vectors of another model."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.nights import embed_known
from flows.commands.options import Allow, SettingsFile, WarehouseDir, option, over_guard, over_warehouse
from flows.console import Progress, in_columns
from flows.errors import NightfoldError
from flows.settings import Settings, Shape, load_settings

_HASHES = {"missing": "content hash computed", "right": "content hash right", "wrong": "content hash wrong, replaced"}
_EMBEDDINGS = {
    "usable": "embedding usable",
    "none": "no embedding",
    "unreadable": "embedding refused: not a list of numbers",
    "not_finite": "embedding refused: NaN or infinite",
    "zero": "embedding refused: zero",
    "wrong_dimension": "embedding refused: wrong dimension",
    "other_model": "embedding refused: another model",
    "unknown_model": "embedding refused: model not named",
    "of_several_chunks": "embedding of several chunks, not used",
}

Column = typer.Option(metavar="COLUMN", rich_help_panel="Columns, where they have other names")


def backfill(
    source: Annotated[str | None, typer.Argument(metavar="[SOURCE]", help="A file, folder or glob of rows.")] = None,
    shape: Annotated[
        Shape | None,
        typer.Option(metavar="SHAPE", help="knowledge_chunks, documents or memories; else by the columns."),
    ] = None,
    slice_rows: Annotated[int | None, typer.Option(metavar="N", help="Rows a run takes (100,000).")] = None,
    name: Annotated[str | None, typer.Option("--source", metavar="NAME", help="What the source is called.")] = None,
    table: Annotated[str | None, typer.Option(metavar="TABLE", help="The table of a DuckDB file.")] = None,
    scope: Annotated[str | None, typer.Option(metavar="NAME", help="One scope for all rows.")] = None,
    scope_column: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="The column that makes the scope; may be repeated.")
    ] = None,
    embedding_model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The model of embeddings whose rows do not name it.")
    ] = None,
    text_column: Annotated[str | None, Column] = None,
    id_column: Annotated[str | None, Column] = None,
    doc_id_column: Annotated[str | None, Column] = None,
    seen_at_column: Annotated[str | None, Column] = None,
    hash_column: Annotated[str | None, Column] = None,
    embedding_column: Annotated[str | None, Column] = None,
    model_column: Annotated[str | None, Column] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen; write nothing.")] = False,
    emit_updates: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write updates for the legacy system: SQL and CSV.")
    ] = None,
    updates_table: Annotated[
        str | None, typer.Option(metavar="NAME", help="The table that the updates are for; else by the shape.")
    ] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="No SOURCE: embed every chunk with the model of [embedding].")
    ] = False,
    settings: SettingsFile = None,
    warehouse: WarehouseDir = None,
    allow: Allow = None,
) -> None:
    """Bring in the rows of a legacy system, or vectors of another model for every chunk.

    Rows come from an export of a knowledge_chunks, documents or memories table: parquet, csv, jsonl, arrow or DuckDB.
    Missing hashes are computed, wrong ones replaced; an embedding of the model and dimension in use is taken over, any
    other made anew; `legacy_ids` leads from each old id to its chunk and canonical. Each slice is a run. Killed, the
    same command goes on from where it was. A nightly run can go between two slices.

    [bold]Examples[/bold]

    nightfold backfill knowledge_chunks.parquet --dry-run

    nightfold backfill knowledge_chunks.parquet --emit-updates updates

    nightfold backfill old.duckdb --table memories --source old --slice-rows 20000

    nightfold backfill --embeddings     (after another model was set)
    """
    if embeddings == (source is not None):
        raise NightfoldError("backfill: name a SOURCE of legacy rows, or say --embeddings; one of the two")
    if source is None:
        embed_known(settings, warehouse, pending="all", allow=allow)
        return
    one_input = {"path": source, "name": name, "table": table, "scope": scope}
    asked: dict[str, Any] = {
        "shape": shape,
        "slice_rows": slice_rows,
        "scope_by": scope_column or None,
        "embedding_model": embedding_model,
        "text_column": text_column,
        "id_column": id_column,
        "doc_id_column": doc_id_column,
        "seen_at_column": seen_at_column,
        "hash_column": hash_column,
        "embedding_column": embedding_column,
        "model_column": model_column,
    }
    if scope is not None and scope_column:
        raise NightfoldError("backfill: give --scope or --scope-column, not both")
    over = {
        **over_warehouse(warehouse),
        **over_guard(allow),
        "inputs": [{key: value for key, value in one_input.items() if value is not None}],
        "backfill": {key: value for key, value in asked.items() if value is not None},
    }
    checked = load_settings(settings, over=over)
    if dry_run:
        _tell_dry_run(checked)
    else:
        again = [*option("--settings", settings), *option("--warehouse", warehouse)]
        _tell_backfill(checked, emit_updates, updates_table, again=again)


def _tell_dry_run(checked: Settings) -> None:
    from flows.backfill import rehearse

    progress = Progress()
    told, cut, outcome = rehearse(checked, progress=progress)
    run, found = outcome.run, outcome.legacy
    there = sum(one.rows for one in cut.slices) - (run.rows_in - run.rows_rejected)
    rules = ", ".join(f"{count:,} {rule}" for rule, count in outcome.reasons.items())
    progress.tell("")
    progress.tell(f"dry run: nothing was written to {checked.warehouse.path}; a backfill would do this")
    progress.tell(told.line)
    figures = [
        (f"rows of {told.shape.name}", cut.counts["rows_read"], ""),
        ("in already", there, ""),
        ("to bring in", run.rows_in - run.rows_rejected, ""),
        ("rejected", run.rows_rejected, rules),
        ("new chunks", run.chunks_new, ""),
        ("exact duplicates inside", found["duplicates_inside"], ""),
        ("exact duplicates with the warehouse", found["duplicates_there"], ""),
        *_findings(found),
    ]
    _tell(progress, figures)


def _tell_backfill(checked: Settings, emit: Path | None, table: str | None, *, again: list[str]) -> None:
    from flows.backfill import backfill as bring_in

    progress = Progress()
    done = bring_in(checked, progress=progress, emit=emit, table=table)
    progress.tell("")
    progress.tell(done.told.line)
    figures = [
        (f"rows of {done.told.shape.name}", done.rows_read, ""),
        ("brought in", done.rows_new, f"{len(done.runs):,} runs" if len(done.runs) > 1 else ""),
        ("in already", done.rows_known, ""),
        ("rejected", done.rejects, ""),
        ("new chunks", done.chunks_new, ""),
        *_findings(done.found),
    ]
    _tell(progress, figures)
    progress.tell("")
    sql_again = shlex.join(["nightfold", "sql", *again])
    progress.tell(f'old ids  {sql_again} "from legacy_ids"')
    if emit is not None and done.emitted is not None:
        left_out = f"; {done.emitted.without_id:,} rows have no id of their own" if done.emitted.without_id else ""
        progress.tell(f"updates  {emit}   ({done.emitted.updates:,} rows{left_out})")


def _findings(found: dict[str, Any]) -> list[tuple[str, int, str]]:
    words = (("hash_was", _HASHES), ("embedding_was", _EMBEDDINGS))
    return [
        (said, found[name][what], "") for name, told in words for what, said in told.items() if found[name].get(what)
    ]


def _tell(progress: Progress, figures: list[tuple[str, int, str]]) -> None:
    progress.tell("\n".join(in_columns([(what, f"{figure:,}", note) for what, figure, note in figures], right=[1])))
