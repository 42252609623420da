"""How far each document has come, by what the tables hold of it."""

import polars as pl

from schemas.tables import CORPUS_DOCUMENTS
from schemas.terms import COMPLETE, FAILED, INCOMPLETE, INDEXED, PENDING, PROCESSING, RETRY_NEEDED


def with_status(
    documents: pl.DataFrame, *, occurrences: pl.DataFrame, chunks: pl.DataFrame, rejects: pl.DataFrame
) -> pl.DataFrame:
    """The documents with the status and reason that follow from their rows, in the order of their keys.

    `failed` where a row was refused tonight or a chunk has no vector, `processing` while one waits for a vector of a
    new model, `indexed` when all are complete. Where no row has come, what the document says of itself stands, but for
    `indexed`, which is then `pending`. `occurrences` and `rejects` have corpus_id, source and source_doc_id.
    """
    key = ["corpus_id", "document_id"]
    named = documents.select(*key, "source_doc_id", wanted="source")
    rows = _of(named, occurrences.join(chunks, on="chunk_id", how="left"), key).unique([*key, "chunk_id"])
    status = pl.col("completion_status")
    counts = rows.group_by(key).agg(
        chunks=pl.len(),
        complete=(status == COMPLETE).sum(),
        incomplete=(status == INCOMPLETE).sum(),
        waiting=(status == RETRY_NEEDED).sum(),
    )
    refused = _of(named, rejects, key).sort("reason")
    refusals = refused.group_by(key).agg(refused=pl.len(), rules=pl.col("reason").unique().sort().str.join(", "))
    both = documents.join(counts, on=key, how="left").join(refusals, on=key, how="left")
    has_come = pl.col("chunks").is_not_null()
    why_refused = pl.format("{} rows refused: {}", "refused", "rules")
    why_incomplete = pl.format("{} of {} chunks have no vector", "incomplete", "chunks")
    why_waiting = pl.format("{} of {} chunks wait for a vector of the new model", "waiting", "chunks")
    fails, lacks, waits = pl.col("refused").is_not_null(), pl.col("incomplete") > 0, pl.col("waiting") > 0
    said = pl.when(pl.col("status") == INDEXED).then(pl.lit(PENDING)).otherwise(pl.col("status"))
    is_failed = fails | lacks.fill_null(value=False)
    return CORPUS_DOCUMENTS.shaped(
        both.with_columns(
            status=pl.when(is_failed)
            .then(pl.lit(FAILED))
            .when(waits)
            .then(pl.lit(PROCESSING))
            .when(has_come)
            .then(pl.lit(INDEXED))
            .otherwise(said),
            reason=pl.when(fails & lacks.fill_null(value=False))
            .then(pl.concat_str(why_refused, pl.lit("; "), why_incomplete))
            .when(fails)
            .then(why_refused)
            .when(lacks)
            .then(why_incomplete)
            .when(waits)
            .then(why_waiting)
            .when(~has_come)
            .then(pl.col("reason")),
        )
    ).sort(key)


def _of(documents: pl.DataFrame, rows: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """The rows of each document: of its corpus and its source_doc_id, and of its source where it names one."""
    both = documents.join(rows, on=["corpus_id", "source_doc_id"], how="inner")
    return both.filter(pl.col("wanted").is_null() | (pl.col("wanted") == pl.col("source")))
