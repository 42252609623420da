"""The guards over the tables as written, before a run is published: what must add up, and the blast radius."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from flows.settings import GuardSettings
from flows.warehouse import Warehouse
from schemas.tables import (
    CANONICALS,
    CHUNKS,
    CONTRADICTIONS,
    FORWARDS,
    LINKS,
    PAIRS,
    PENDING_REVIEWS,
    SEPARATIONS,
    VARIANTS,
)
from schemas.terms import MERGED, PUBLISHED
from transforms.guards import (
    check_forwards,
    check_group_size,
    check_groups,
    check_merge_jump,
    check_removed,
    check_walls,
)

_NIGHTS = 7
_NAMES = ("scope", "source")
_PAIRED = (PAIRS, LINKS, CONTRADICTIONS, SEPARATIONS)


def check_written(warehouse: Warehouse) -> pl.DataFrame:
    """Reconciles every table as it stands for the writer; returns the chunks, their ids as digests."""
    ids = ["chunk_id", "canonical_id", "superseded_by"]
    chunks = _read(warehouse, CHUNKS.name, ids, ["scope", "source", "occurrences"])
    canonicals = _read(warehouse, CANONICALS.name, ["canonical_id", "chunk_id"], ["scope", "variants", "occurrences"])
    variants = _read(warehouse, VARIANTS.name, ["chunk_id", "canonical_id"], ["scope"])
    check_groups(chunks, canonicals, variants)
    for contract in _PAIRED:
        rows = _read(warehouse, contract.name, ["left_id", "right_id"], ["scope"])
        check_walls(contract.name, rows, chunks, ends=["left_id", "right_id"])
    reviews = _read(warehouse, PENDING_REVIEWS.name, ["chunk_id"], ["scope"])
    check_walls(PENDING_REVIEWS.name, reviews, chunks, ends=["chunk_id"])
    check_walls(CHUNKS.name, chunks.drop_nulls("superseded_by"), chunks, ends=["superseded_by"])
    check_forwards(_read(warehouse, FORWARDS.name, ["canonical_id", "forwards_to"], ["scope"]), canonicals)
    return chunks


def _read(warehouse: Warehouse, table: str, ids: list[str], others: list[str]) -> pl.DataFrame:
    """Columns of a table as it stands for the writer: ids as digests, names as categories. A batch at a time, so that
    the texts of the ids are never held together."""
    frames: Iterator[pl.DataFrame] = (
        rows.select(
            *(pl.when(pl.col(name).is_not_null()).then(pl.col(name).hash()).alias(name) for name in ids),
            *(pl.col(name).cast(pl.Categorical) if name in _NAMES else pl.col(name) for name in others),
        )
        for rows in warehouse.scan(table, [*ids, *others])
    )
    shape: dict[str, pl.DataType] = {
        **{name: pl.UInt64() for name in ids},
        **{name: pl.Categorical() if name in _NAMES else pl.Int64() for name in others},
    }
    return pl.concat([pl.DataFrame(schema=shape), *frames])


def check_blast_radius(
    chunks: pl.DataFrame, judged: Path, *, warehouse: Warehouse, settings: GuardSettings, chunks_new: int, merged: int
) -> None:
    """How much tonight's merges move, against the limits of the settings; those that are allowed for this run are not
    looked at."""
    tonight = pl.read_parquet(judged / "variants.parquet", glob=False)
    if tonight.is_empty():
        return
    if "max_removed_share" not in settings.allow:
        now = tonight["chunk_id"].hash()
        ever = _read(warehouse, VARIANTS.name, ["chunk_id"], [])["chunk_id"]
        check_removed(
            chunks,
            merged_before=ever.filter(~ever.is_in(now.implode())),
            merged_tonight=now,
            limit=settings.max_removed_share,
            from_chunks=settings.from_chunks,
        )
    if "max_group_chunks" not in settings.allow:
        files = [judged / "canonicals.parquet", judged / "canonicals-moved.parquet"]
        groups = pl.concat([pl.read_parquet(file, glob=False) for file in files])
        check_group_size(groups.join(tonight, on="canonical_id", how="semi"), limit=settings.max_group_chunks)
    if "max_merge_jump" not in settings.allow:
        runs = [run for run in warehouse.runs() if run.status == PUBLISHED and run.decisions is None]
        nights = [run for run in runs if run.chunks_new >= settings.from_chunks]
        check_merge_jump(
            merged,
            chunks_new,
            nights=[(run.actions.get(MERGED, 0), run.chunks_new) for run in nights[-_NIGHTS:]],
            limit=settings.max_merge_jump,
            from_chunks=settings.from_chunks,
        )
