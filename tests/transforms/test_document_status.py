"""How far a document has come hangs on what the tables hold of it."""

import polars as pl
import pytest

from schemas.tables import CORPUS_DOCUMENTS
from transforms.document_status import with_status

ROWS = {"corpus_id": pl.String, "source": pl.String, "source_doc_id": pl.String}


def status(
    chunks: dict[str, str], *, rejects: tuple[str, ...] = (), source: str | None = None, said: str = "pending"
) -> tuple[str, str | None]:
    """Of a document with these chunks and their completion, and rows refused under these rules."""
    documents = CORPUS_DOCUMENTS.shaped(
        pl.DataFrame(
            [("d", "faq", source, "doc", said, None), ("d", "other", None, "doc", "pending", None)],
            schema=dict.fromkeys(CORPUS_DOCUMENTS.columns, pl.String),
            orient="row",
        )
    )
    occurrences = pl.DataFrame(
        [("faq", "corpus", "doc", chunk) for chunk in [*chunks, *list(chunks)[:1]]]
        + [("faq", "corpus", "another doc", "elsewhere")],
        schema={**ROWS, "chunk_id": pl.String},
        orient="row",
    )
    known = pl.DataFrame(
        [*chunks.items(), ("elsewhere", "incomplete")],
        schema={"chunk_id": pl.String, "completion_status": pl.String},
        orient="row",
    )
    refused = pl.DataFrame(
        [("faq", "corpus", "doc", rule) for rule in rejects], schema={**ROWS, "reason": pl.String}, orient="row"
    )
    found = with_status(documents, occurrences=occurrences, chunks=known, rejects=refused)
    assert found.filter(pl.col("corpus_id") == "other")["status"].to_list() == ["pending"]
    CORPUS_DOCUMENTS.check(found)
    return tuple(found.filter(pl.col("corpus_id") == "faq").select("status", "reason").row(0))


@pytest.mark.parametrize(
    ("chunks", "more", "wanted"),
    [
        ({"a": "complete", "b": "complete"}, {}, ("indexed", None)),
        ({}, {}, ("pending", None)),
        ({}, {"said": "indexed"}, ("pending", None)),
        ({}, {"said": "processing"}, ("processing", None)),
        ({"a": "complete", "b": "incomplete"}, {}, ("failed", "1 of 2 chunks have no vector")),
        ({"a": "complete", "b": "retry-needed"}, {},
         ("processing", "1 of 2 chunks wait for a vector of the new model")),
        ({"a": "complete"}, {"rejects": ("text_fits", "text_fits", "another")},
         ("failed", "3 rows refused: another, text_fits")),
        ({"a": "incomplete"}, {"rejects": ("text_fits",)},
         ("failed", "1 rows refused: text_fits; 1 of 1 chunks have no vector")),
        ({}, {"rejects": ("text_fits",)}, ("failed", "1 rows refused: text_fits")),
        ({"a": "complete"}, {"source": "corpus"}, ("indexed", None)),
        ({"a": "complete"}, {"source": "another"}, ("pending", None)),
        ({"a": "complete"}, {"said": "failed"}, ("indexed", None)),
    ],
)  # fmt: skip
def test_the_status_follows_from_rows_chunks_and_rejects(
    chunks: dict[str, str], more: dict[str, object], wanted: tuple[str, str | None]
) -> None:
    assert status(chunks, **more) == wanted  # type: ignore[arg-type]
