"""What a night does with a slice of a legacy source: the rows that are not in yet are loaded, and once they are folded
each has its place in `legacy_rows`, and its embedding goes to its chunk."""

from pathlib import Path
from typing import Any

import polars as pl
from blake3 import blake3

from flows.slices import EXTRAS, about_slice, rejects_of, scan_rows, scan_vectors
from flows.warehouse import Run, Warehouse
from schemas.rows import ROWS
from schemas.tables import LEGACY_ROWS, REJECTS
from schemas.terms import EMBEDDING_USABLE
from transforms.legacy import DOCUMENTS, hash_was
from transforms.reconcile import DoesNotAddUp, Tally


def unseen_rows(folder: Path, *, warehouse: Warehouse, run: Run | None) -> pl.DataFrame:
    """`row` and `legacy_id` of the slice's rows that are not in the warehouse as they are here, in order."""
    rows = scan_rows(folder).select("row", "legacy_id", "row_digest").collect()
    known = warehouse.lookup(LEGACY_ROWS.name, rows["legacy_id"], ["legacy_id", "row_digest"], run=run)
    return rows.join(known, on=["legacy_id", "row_digest"], how="anti", maintain_order="left").drop("row_digest")


def is_in(folder: Path, *, warehouse: Warehouse, run: Run | None) -> bool:
    """Whether every row and every reject of the slice is in the warehouse already."""
    if run is None or unseen_rows(folder, warehouse=warehouse, run=run).height:
        return False
    rejects = rejects_of(folder)["reject_id"]
    known = warehouse.lookup(REJECTS.name, rejects, ["reject_id"], run=run)
    return known.height == rejects.n_unique()


def load_slice(slice_folder: Path, folder: Path, *, warehouse: Warehouse, run: Run | None) -> dict[str, Any]:
    """As `load_sources`: writes the rows that are not in yet and the rejects; and `legacy.parquet`, what is known of
    the legacy row of each."""
    about = about_slice(slice_folder)
    unseen = unseen_rows(slice_folder, warehouse=warehouse, run=run)
    places = unseen.select(row_there="row").with_row_index("row").with_columns(pl.col("row").cast(pl.UInt64))
    rows = scan_rows(slice_folder).rename({"row": "row_there"})
    rows = rows.join(places.lazy(), on="row_there", how="inner", maintain_order="left")
    rows.select("row", *ROWS.columns).sink_parquet(folder / "rows-000000.parquet", compression="lz4", statistics=False)
    rows.select("row", *EXTRAS).sink_parquet(folder / "legacy.parquet", compression="lz4", statistics=False)
    rejects = rejects_of(slice_folder)
    rejects.write_parquet(folder / "rejects.parquet")
    return {
        "rows_in": unseen.height + rejects.height,
        "rows": unseen.height,
        "kinds": [about["kind"]],
        "skipped": [],
        "backfill": blake3(about["identity"].encode()).hexdigest()[:32],
        "note": f"backfill of {about['source']}: slice {about['number'] + 1}",
    }


def place_legacy_rows(
    slice_folder: Path,
    staging: Path,
    folder: Path,
    *,
    warehouse: Warehouse,
    run: Run | None,
    run_id: str,
    tally: Tally,
) -> dict[str, Any]:
    """Writes what the slice changes in `legacy_rows`, and `vectors.parquet`: the embeddings to use, by chunk."""
    about = about_slice(slice_folder)
    keys = pl.scan_parquet([staging / "hash" / "keys.parquet"], glob=False)
    extras = pl.scan_parquet([staging / "load" / "legacy.parquet"], glob=False)
    columns = ["row", "scope", "source", "source_row_id", "chunk_index", "chunk_id", "content_hash"]
    rows = (
        keys.select(columns)
        .join(extras, on="row", how="inner", maintain_order="left")
        .with_columns(row_hash=pl.coalesce("row_hash", "content_hash"))
        .with_columns(hash_was=hash_was(pl.col("hash_given"), pl.col("row_hash")))
        .collect(engine="streaming")
    )
    occurrences = tally.occurrences_new + tally.occurrences_known
    if rows.height != occurrences:
        raise DoesNotAddUp(
            f"legacy_rows: {rows.height:,} rows for {occurrences:,} occurrences of the slice; nothing was published"
        )
    placed = LEGACY_ROWS.shaped(
        rows.with_columns(old_id="source_row_id", shape=pl.lit(about["shape"]), run_id=pl.lit(run_id))
    )
    known = warehouse.lookup(LEGACY_ROWS.name, placed["legacy_id"], ["legacy_id"], run=run)
    placed.join(known, on="legacy_id", how="anti", maintain_order="left").write_parquet(folder / "rows.parquet")
    placed.join(known, on="legacy_id", how="semi", maintain_order="left").write_parquet(folder / "rows-moved.parquet")
    _gone(slice_folder, warehouse, run).write_parquet(folder / "rows-gone.parquet")
    new = pl.scan_parquet([staging / "exact" / "chunks.parquet"], glob=False).select("chunk_id").collect()
    of_new = rows.join(new, on="chunk_id", how="semi").height
    whole = placed.filter(_one_a_row())
    return {
        "vectors": _vectors_by_chunk(slice_folder, rows, folder / "vectors.parquet"),
        "duplicates_inside": of_new - new.height,
        "duplicates_there": rows.height - of_new,
        **{name: dict(whole[name].value_counts().iter_rows()) for name in ("hash_was", "embedding_was")},
    }


def found_of(source: str, *, warehouse: Warehouse, run: Run | None) -> dict[str, dict[str, int]]:
    """What was found of the hashes and embeddings of all rows of a source that are in, by what it was."""
    dataset, columns = warehouse.open(LEGACY_ROWS.name, run), ["source", "chunk_index", "shape"]
    found: dict[str, dict[str, int]] = {"hash_was": {}, "embedding_was": {}}
    for batch in dataset.to_batches(columns=[*columns, *found]) if dataset is not None else ():
        rows = pl.from_arrow(batch)
        assert isinstance(rows, pl.DataFrame)  # a batch never comes back as a Series
        mine = rows.filter((pl.col("source") == source) & _one_a_row())
        for name, counts in found.items():
            for what, count in mine[name].value_counts().iter_rows():
                counts[what] = counts.get(what, 0) + count
    return found


def _one_a_row() -> pl.Expr:
    """One of the windows of each document; every other row is one."""
    return (pl.col("shape") != DOCUMENTS) | (pl.col("chunk_index").fill_null(0) == 0)


def _gone(slice_folder: Path, warehouse: Warehouse, run: Run | None) -> pl.DataFrame:
    """The windows that documents of this slice had before, and have no more."""
    nothing = LEGACY_ROWS.empty().select("legacy_id")
    dataset = warehouse.open(LEGACY_ROWS.name, run) if run else None
    now = scan_rows(slice_folder).select("legacy_id", "scope", "source", old_id="source_row_id").collect()
    if dataset is None or not now.height:
        return nothing
    gone = [nothing]
    windows = "chunk_index is not null"
    for batch in dataset.to_batches(columns=["legacy_id", "scope", "source", "old_id"], filter=windows):
        before = pl.from_arrow(batch)
        assert isinstance(before, pl.DataFrame)  # a batch never comes back as a Series
        of_these = before.join(now, on=["scope", "source", "old_id"], how="semi")
        gone.append(of_these.join(now, on="legacy_id", how="anti").select("legacy_id"))
    return pl.concat(gone)


def _vectors_by_chunk(slice_folder: Path, rows: pl.DataFrame, path: Path) -> int:
    """Writes chunk_id and vector, one row a chunk: of the lowest of its rows whose whole text is the chunk's."""
    vectors = scan_vectors(slice_folder)
    if vectors is None:
        return 0
    is_whole = (pl.col("embedding_was") == EMBEDDING_USABLE) & (pl.col("row_hash") == pl.col("content_hash"))
    best = (
        rows.filter(is_whole)
        .sort("source_row_id", "chunk_index", "row")
        .unique("chunk_id", keep="first", maintain_order=True)
        .select("chunk_id", "at")
    )
    by_chunk = vectors.join(best.lazy(), on="at", how="inner").select("chunk_id", "vector")
    by_chunk.sink_parquet(path, compression="uncompressed", statistics=False)
    return best.height
