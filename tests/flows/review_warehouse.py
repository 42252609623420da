"""A warehouse with as many open questions as one likes, written into its tables without a night."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from flows import mart
from flows.run_rows import NOTHING_COUNTED, run_id_at
from flows.warehouse import Change, Run, Warehouse
from schemas.contract import Contract
from schemas.tables import CANONICALS, CHUNKS, OCCURRENCES, PAIRS, PENDING_REVIEWS
from schemas.terms import COMPLETE, PUBLISHED, QUEUED, STORED_AS_NEW, UNKNOWN
from transforms.candidates import with_pair_id
from transforms.hashing import derived_id
from transforms.review import review_id

START = datetime(2026, 1, 1, tzinfo=UTC)
_OF_A_CHUNK = "the red pump in hall {} has {} steel valves and one long hose"


def make_queue(folder: Path, *, questions: int, text: str | None = _OF_A_CHUNK) -> Warehouse:
    """Publishes chunks that stand, two for each question, and as many in question, each with two candidates."""
    warehouse = Warehouse(str(folder))
    warehouse.begin()
    numbers = pl.DataFrame({"number": pl.int_range(questions * 3, eager=True)})
    said = pl.lit(None, dtype=pl.String) if text is None else _said(text)
    chunks = numbers.select(
        "number",
        chunk_id=derived_id(pl.lit("chunk"), pl.col("number")),
        scope=pl.lit("acme"),
        kind=pl.lit("text"),
        content_hash=derived_id(pl.col("number")) + derived_id(pl.lit("hash"), pl.col("number")),
        text=said,
        metadata=pl.lit("{}"),
        source=pl.lit("corpus"),
        source_row_id=pl.col("number").cast(pl.String),
        action=pl.when(pl.col("number") < questions).then(pl.lit(QUEUED)).otherwise(pl.lit(STORED_AS_NEW)),
        keep_apart=pl.lit(value=False),
        completion_status=pl.lit(COMPLETE),
        occurrences=pl.lit(1),
        first_seen_at=pl.lit(START) + pl.duration(minutes="number"),
        last_seen_at=pl.lit(START) + pl.duration(minutes="number"),
    ).with_columns(canonical_id="chunk_id")
    canonicals = chunks.select(
        "canonical_id", "scope", "chunk_id", "occurrences", "first_seen_at", "last_seen_at", variants=pl.lit(0)
    )
    occurrences = chunks.select(
        "chunk_id",
        "scope",
        "source",
        "source_row_id",
        "metadata",
        occurrence_id=derived_id(pl.lit("row"), pl.col("chunk_id")),
        run_id=pl.lit("r"),
        seen_at="first_seen_at",
    )
    asked = chunks.head(questions)
    ways = [
        asked.select("scope", "chunk_id", "number", other_id=chunks["chunk_id"].slice(questions * way, questions))
        for way in (1, 2)
    ]
    pairs = with_pair_id(
        pl.concat(ways).select(
            "scope",
            left_id=pl.min_horizontal("chunk_id", "other_id"),
            right_id=pl.max_horizontal("chunk_id", "other_id"),
            similarity=pl.lit(0.93, dtype=pl.Float32),
            relation=pl.lit(UNKNOWN),
            confidence=pl.lit(0.5, dtype=pl.Float32),
            evidence=pl.lit("the halls are others"),
            decided_by=pl.lit("test"),
            action=pl.lit(QUEUED),
            run_id=pl.lit("r"),
        )
    )
    told = {"similarity": 0.93, "reading": 0.91, "relation": UNKNOWN, "confidence": 0.5, "evidence": "other halls"}
    reviews = asked.select(
        "scope",
        "chunk_id",
        review_id=review_id(pl.col("chunk_id")),
        candidates=pl.Series(
            [
                json.dumps([{"chunk_id": each, "canonical_id": each, **told} for each in both])
                for both in zip(*(way["other_id"] for way in ways), strict=True)
            ]
        ),
        reason=pl.lit("may or may not say the same"),
        queued_at=pl.lit(START + timedelta(days=30)) + pl.duration(seconds=pl.col("number") // 100),
    )
    tables: list[tuple[Contract, pl.DataFrame]] = [
        (CHUNKS, chunks),
        (CANONICALS, canonicals),
        (OCCURRENCES, occurrences),
        (PAIRS, pairs),
        (PENDING_REVIEWS, reviews),
    ]
    with TemporaryDirectory() as staging:
        for contract, rows in tables:
            path = Path(staging) / f"{contract.name}.parquet"
            contract.shaped(rows).write_parquet(path)
            warehouse.apply(Change(contract.name, appends=path))
    warehouse.tend()
    now = datetime.now(UTC)
    run = Run(
        **NOTHING_COUNTED, run_id=run_id_at(now), started_at=now, published_at=now, status=PUBLISHED, restores=None,
        table_versions=warehouse.versions(), settings={}, note="made for a test",
    )  # fmt: skip
    warehouse.commit(run)
    mart.refresh(warehouse, run, before=None, changes=[])
    return warehouse


def _said(text: str) -> pl.Expr:
    if "{}" not in text:
        return pl.lit(text)
    return pl.format(text, "number", pl.col("number") % 7)
