"""The tables of [corpora]: read, checked, and followed from night to night; and the status of the documents in them."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from flows.errors import UnreadableSource
from flows.load import as_rejects
from flows.readers import Batch, read
from flows.settings import InputSettings, Settings
from flows.sources import SourceFile, shown, table_format
from flows.warehouse import Change, Run, Warehouse
from schemas.contract import Contract
from schemas.tables import (
    AGENTS,
    CHUNKS,
    CORPORA,
    CORPUS_AGENT_ASSIGNMENTS,
    CORPUS_DOCUMENTS,
    OCCURRENCES,
    REJECTS,
)
from schemas.terms import PUBLISHED
from transforms.corpora import ALSO_CALLED, NEEDED, TABLES, Corpora, as_given, checked, moved
from transforms.document_status import with_status

_KEYS = {
    CORPORA.name: "corpora",
    AGENTS.name: "agents",
    CORPUS_AGENT_ASSIGNMENTS.name: "assignments",
    CORPUS_DOCUMENTS.name: "documents",
}


def corpora_files(settings: Settings) -> list[Path]:
    """The files that [corpora] names, all of them there."""
    files = {key: Path(path).expanduser() for key, path in settings.corpora.paths.items()}
    for key, path in files.items():
        if not path.is_file():
            raise UnreadableSource(f"[corpora] {key} = {str(path)!r}: no such file")
    return list(files.values())


def load_corpora(settings: Settings, folder: Path) -> pl.DataFrame | None:
    """Writes a file a table, and `rejects-corpora.parquet`; returns the corpora that hold. None, and nothing written,
    where [corpora] names none."""
    if settings.corpora.corpora is None:
        return None
    rejects = [REJECTS.empty()]
    frames = []
    for contract in TABLES.values():
        path = settings.corpora.paths.get(_KEYS[contract.name])
        rows, refused = _nothing(contract), REJECTS.empty()
        if path is not None:
            rows, refused = _read(Path(path).expanduser(), contract, settings)
        frames.append(rows)
        rejects.append(refused)
    tables, refused = checked(Corpora(*frames))
    for name, rows in tables.tables.items():
        rows.sort(TABLES[name].key).write_parquet(folder / f"{name}.parquet")
    pl.concat([*rejects, as_rejects(refused)]).write_parquet(folder / "rejects-corpora.parquet")
    return tables.corpora


def _nothing(contract: Contract) -> pl.DataFrame:
    return contract.empty().with_columns(locator=pl.lit(None, dtype=pl.String))


def _read(path: Path, contract: Contract, settings: Settings) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All rows of the file in the shape of the contract, and the lines that could not be read. A file that cannot be
    read stops the run: without it, nobody knows who may see what."""
    at = f"[corpora] {_KEYS[contract.name]} = {str(path)!r}"
    file = SourceFile(path, shown(Path(path.name)), table_format(path, at=at))
    frames, refused = [], [REJECTS.empty()]
    for batch in read(file, given=InputSettings(path=str(path)), load=settings.load):
        lines = [{"locator": line.locator, "detail": line.detail, "reason": line.reason} for line in batch.refused]
        if lines:
            refused.append(as_rejects(pl.DataFrame(lines).with_columns(source=pl.lit(contract.name))))
        if batch.rows.width:
            frames.append(_texts(batch, file, contract, at))
    rows = pl.concat(frames) if frames else _texts_of_none(contract)
    return as_given(rows, contract, default_workspace=settings.scope.default), pl.concat(refused)


def _texts(batch: Batch, file: SourceFile, contract: Contract, at: str) -> pl.DataFrame:
    rows = batch.rows
    columns = {name: name for name in contract.columns if name in rows.columns}
    for name, others in ALSO_CALLED.items():
        if name in contract.columns and name not in columns:
            columns |= dict.fromkeys([name], next((other for other in others if other in rows.columns), name))
    columns = {name: given for name, given in columns.items() if given in rows.columns}
    missing = [name for name in NEEDED[contract.name] if name not in columns]
    if missing:
        raise UnreadableSource(f"{at}: no column {' or '.join(missing)}; there are {', '.join(rows.columns) or 'none'}")
    odd = [name for name in columns.values() if rows.schema[name].is_nested() or rows.schema[name] == pl.Binary]
    if odd:
        raise UnreadableSource(f"{at}: column {odd[0]!r} holds {rows.schema[odd[0]]}, not names")
    # Of our own making, or decided by the tables as a whole.
    columns = {name: given for name, given in columns.items() if name not in ("scope", "is_assigned")}
    return rows.select(
        *(_as_text(rows, given).alias(name) for name, given in columns.items()),
        locator=pl.lit(f"{file.name}:") + pl.lit(batch.numbers).cast(pl.String),
    )


def _as_text(rows: pl.DataFrame, name: str) -> pl.Expr:
    """A whole number that was read as a float, as a column of numbers with a gap is, without its point."""
    is_whole = rows.schema[name].is_float() and bool((rows[name].fill_nan(None).drop_nulls() % 1 == 0).all())
    return (pl.col(name).cast(pl.Int64, strict=False) if is_whole else pl.col(name)).cast(pl.String)


def _texts_of_none(contract: Contract) -> pl.DataFrame:
    names = [*NEEDED[contract.name], "locator"]
    return pl.DataFrame(schema=dict.fromkeys(names, pl.String))


def told_of_corpora(loaded: Path, warehouse: Warehouse, run: Run | None, settings: Settings) -> Iterator[str]:
    """What a person should hear of tonight's corpora: what was refused, and what is behind another wall than it was."""
    before = _published(warehouse, run, CORPORA)
    refused_rows = loaded / "rejects-corpora.parquet"
    if settings.corpora.corpora is not None and not refused_rows.exists():
        return  # no input was read
    if settings.corpora.corpora is None:
        if before.height:
            yield (
                f"[corpora] is not set: the {before.height:,} corpora of the run before stay in force; rows that come "
                "in without a corpus are in none of them"
            )
        return
    refused = pl.read_parquet(refused_rows, glob=False)
    if refused.height:
        rules = ", ".join(f"{count:,} {rule}" for rule, count in refused["reason"].value_counts(sort=True).iter_rows())
        yield f"[corpora] {refused.height:,} rows refused ({rules}); they are in `rejects`"
    yield from moved(before, pl.read_parquet(loaded / f"{CORPORA.name}.parquet", glob=False))


def published_corpora(warehouse: Warehouse, settings: Settings) -> pl.DataFrame | None:
    """The corpora of the latest run, for rows that are held against it; None where [corpora] names none."""
    if settings.corpora.corpora is None:
        return None
    return _published(warehouse, warehouse.published(), CORPORA)


def _published(warehouse: Warehouse, run: Run | None, contract: Contract) -> pl.DataFrame:
    dataset = warehouse.open(contract.name, run) if run is not None else None
    if dataset is None:
        return contract.empty()
    rows = pl.from_arrow(dataset.to_table())
    assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
    return contract.shaped(rows)


def corpora_changes(loaded: Path, documents: Path) -> list[Change]:
    """Tonight's corpora in the place of those before, and the documents as the write stage left them."""
    names = [name for name in TABLES if name != CORPUS_DOCUMENTS.name]
    changes = [Change(name, replaces=loaded / f"{name}.parquet") for name in names]
    changes = [change for change in changes if change.replaces is not None and change.replaces.exists()]
    return [*changes, *([Change(CORPUS_DOCUMENTS.name, replaces=documents)] if documents.exists() else [])]


def write_documents(loaded: Path, documents: Path, *, warehouse: Warehouse, run_id: str, reads_input: bool) -> None:
    """Writes the documents, tonight's or else those of the run before, with the status that the tables as they stand
    for the writer give them."""
    given = loaded / f"{CORPUS_DOCUMENTS.name}.parquet"
    rows = pl.read_parquet(given, glob=False) if given.exists() else _head(warehouse, CORPUS_DOCUMENTS)
    documents.unlink(missing_ok=True)
    if rows.is_empty() and not given.exists():
        return
    corpora = _head(warehouse, CORPORA).select("corpus_id", "scope")
    in_corpora = "corpus_id is not null"
    occurrences = _head(warehouse, OCCURRENCES, in_corpora).join(corpora, on=["corpus_id", "scope"], how="semi")
    chunks = warehouse.lookup_head(CHUNKS.name, occurrences["chunk_id"], ["chunk_id", "completion_status"])
    # A run that does not read the inputs refuses nothing of theirs: what the last one that did refused still is.
    last_read = run_id if reads_input else _last_read(warehouse)
    rejects = _head(warehouse, REJECTS, in_corpora).filter(pl.col("last_run_id") == last_read)
    documents.parent.mkdir(exist_ok=True)
    with_status(rows, occurrences=occurrences, chunks=chunks, rejects=rejects).write_parquet(documents)


def _last_read(warehouse: Warehouse) -> str | None:
    nights = (run for run in reversed(warehouse.runs()) if run.status == PUBLISHED and run.backfill is None)
    return next((run.run_id for run in nights if run.rows_in), None)


def _head(warehouse: Warehouse, contract: Contract, where: str | None = None) -> pl.DataFrame:
    wanted = {"corpus_id", "scope", "source", "source_doc_id", "chunk_id", "reason", "last_run_id"}
    is_small = contract.name in TABLES
    columns = contract.columns if is_small else [name for name in contract.columns if name in wanted]
    rows = pl.from_arrow(warehouse.head(contract.name).to_table(columns=columns, filter=where))
    assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
    return rows
