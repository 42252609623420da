"""The stages of a night between the door and the commit: hash, exact, write. Each leaves whole files behind."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import polars as pl

from flows.corpora import corpora_changes, write_documents
from flows.guard import check_blast_radius, check_written
from flows.load import as_rejects
from flows.retrieval import Retrieval
from flows.settings import Settings
from flows.staging import Staging
from flows.vectors import Vectors
from flows.warehouse import Change, Run, Warehouse
from schemas.rows import ID_IS_UNIQUE
from schemas.tables import (
    CANONICALS,
    CHUNKS,
    CONTRADICTIONS,
    FORWARDS,
    LEGACY_ROWS,
    LINKS,
    OCCURRENCES,
    PAIRS,
    PARSED_FILES,
    PENDING_REVIEWS,
    REJECTS,
    VARIANTS,
    VECTORS_PREFIX,
)
from schemas.terms import INCOMPLETE, STORED_AS_NEW
from transforms.exact import (
    MOVING,
    REPRESENTATIVE,
    folded_into_canonicals,
    folded_into_known,
    group_by_content,
    new_groups,
    repeats_of_an_id,
)
from transforms.hashing import with_content_hash, with_ids
from transforms.reconcile import Tally, check_reject_share, check_rows, check_tables, check_vectors

# What the exact stage holds in memory of every row; texts and the rest stay on disk.
_KEYS = ("row", "chunk_id", "scope", *REPRESENTATIVE, "parsed_spec_id", "seen_at", "corpus_id")
# What a chunk takes over from the occurrence that represents it.
_OF_REPRESENTATIVE = (
    "kind",
    "text",
    "metadata",
    "source",
    "source_row_id",
    "source_doc_id",
    "chunk_index",
    "layout_digest",
)
_KNOWN = ("chunk_id", "canonical_id", *MOVING, *REPRESENTATIVE)


# Where the write stage leaves the documents of [corpora] with their status, in the staging.
DOCUMENTS = "documents/corpus_documents.parquet"
# Up to so many known chunks are written as whole rows, which costs by their number. More of them, seen again, change
# some columns in place: that costs by the table, and leaves the texts alone.
_FEW_CHUNKS = 20_000


def hash_rows(
    loaded: Path, folder: Path, *, settings: Settings, kinds: list[str], started_at: datetime
) -> dict[str, Any]:
    """Writes `keys.parquet`: every row with its hash and ids, without its text. A row without a time of its own was
    seen when the run started."""
    keys = (
        _scan(*sorted(loaded.glob("rows-*.parquet")))
        .pipe(with_content_hash, kinds=kinds)
        .pipe(with_ids, unchecked_scopes=settings.unchecked_scopes)
        .with_columns(pl.col("seen_at").fill_null(started_at))
        .drop("text", "force")
    )
    keys.sink_parquet(folder / "keys.parquet", compression="lz4", statistics=False)
    return {}


def fold_exact(
    loaded: Path,
    hashed: Path,
    folder: Path,
    *,
    rows_in: int,
    warehouse: Warehouse,
    run: Run | None,
    run_id: str,
) -> dict[str, Any]:
    """Writes what the night changes in each table: one file of appends and some of updates a table."""
    rows, keys_on_disk = _scan(*sorted(loaded.glob("rows-*.parquet"))), _scan(hashed / "keys.parquet")
    keys = keys_on_disk.select(_KEYS).collect(engine="streaming")

    repeats = repeats_of_an_id(keys).select("row")
    keys = keys.join(repeats, on="row", how="anti", maintain_order="left") if repeats.height else keys
    refused = _refused_repeats(repeats, keys_on_disk)

    found = warehouse.find(CHUNKS.name, keys["chunk_id"], run=run)
    known = found.rows(list(_KNOWN))
    of_known = keys.join(known, on="chunk_id", how="semi")["row"]
    with ThreadPoolExecutor(2) as readers:  # two tables, two reads
        of_groups = readers.submit(warehouse.find, CANONICALS.name, known["canonical_id"], run=run)
        seen_before = readers.submit(_seen_before, of_known, keys_on_disk, warehouse, run).result()
    keys = keys.with_columns(is_new=pl.col("row").is_in(seen_before.implode()).not_())

    groups = group_by_content(keys)
    new, folded = new_groups(groups, known), folded_into_known(groups, known)
    canonicals = of_groups.result().among(folded["canonical_id"]).rows(CANONICALS.columns)

    _sink(_new_chunks(new, rows, keys_on_disk), folder / "chunks.parquet")
    is_whole = pl.lit(folded.height <= _FEW_CHUNKS) | pl.col("row").is_not_null()
    moved, folded_whole = folded.filter(~is_whole), folded.filter(is_whole)
    moved.drop("canonical_id", "row", "new_occurrences").write_parquet(folder / "chunks-moved.parquet")
    before = found.among(folded_whole["chunk_id"]).rows(CHUNKS.columns)
    _sink(_whole_chunks(folded_whole, before, rows, keys_on_disk), folder / "chunks-whole.parquet")
    _sink(_new_occurrences(keys, keys_on_disk, run_id), folder / "occurrences.parquet")
    _new_canonicals(new).write_parquet(folder / "canonicals.parquet")
    folded_into_canonicals(folded, canonicals).write_parquet(folder / "canonicals-moved.parquet")

    # Refused rows of [corpora] are no rows of an input: they are on record, and in no count of rows.
    of_corpora = loaded / "rejects-corpora.parquet"
    of_corpora_rows = _scan(of_corpora).collect() if of_corpora.exists() else REJECTS.empty()
    of_inputs = pl.concat([_scan(loaded / "rejects.parquet").collect(), refused])
    rejects = pl.concat([of_inputs, of_corpora_rows]).with_columns(run_id=pl.lit(run_id), last_run_id=pl.lit(run_id))
    known_rejects = warehouse.lookup(REJECTS.name, rejects["reject_id"], ["reject_id"], run=run)
    new_rejects = rejects.join(known_rejects, on="reject_id", how="anti", maintain_order="left")
    new_rejects.write_parquet(folder / "rejects.parquet")
    known_rejects.with_columns(last_run_id=pl.lit(run_id)).write_parquet(folder / "rejects-again.parquet")
    return {
        "tally": {
            "rows_in": rows_in,
            "rows_rejected": of_inputs.height,
            "rejects_new": new_rejects.height,
            "occurrences_new": int(keys["is_new"].sum()),
            "occurrences_known": int(keys["is_new"].not_().sum()),
            "chunks_new": new.height,
            "chunks_touched": groups.height - new.height,
        },
        "reasons": dict(of_inputs["reason"].value_counts(sort=True).iter_rows()),
        "sources": _by_source(keys, of_inputs),
    }


def _by_source(keys: pl.DataFrame, rejects: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Tonight's rows by source."""
    taken = keys.group_by("source").agg(new=pl.col("is_new").sum(), rows=pl.len())
    refused = rejects.group_by("source").agg(rejected=pl.len())
    both = taken.cast({"source": pl.String}).join(refused, on="source", how="full", coalesce=True).fill_null(0)
    return {
        row["source"]: {"new": row["new"], "known": row["rows"] - row["new"], "rejected": row["rejected"]}
        for row in both.sort("source").iter_rows(named=True)
    }


def _scan(*paths: Path) -> pl.LazyFrame:
    """The files as they are named: a folder may be called `b[1]`, which to Polars is a pattern."""
    return pl.scan_parquet(list(paths), glob=False)


def _sink(rows: pl.LazyFrame, path: Path) -> None:
    rows.sink_parquet(path, compression="lz4", statistics=False)


def _seen_before(rows: pl.Series, keys: pl.LazyFrame, warehouse: Warehouse, run: Run | None) -> pl.Series:
    """Those of the rows, all of known chunks, that the warehouse has as occurrences."""
    if not rows.len():
        return rows
    named = keys.select("row", "occurrence_id").join(rows.to_frame().lazy(), on="row", how="semi").collect()
    known = warehouse.lookup(OCCURRENCES.name, named["occurrence_id"], ["occurrence_id"], run=run)
    return named.join(known, on="occurrence_id", how="semi")["row"]


def _refused_repeats(repeats: pl.DataFrame, keys: pl.LazyFrame) -> pl.DataFrame:
    if not repeats.height:
        return REJECTS.empty()
    at = (
        keys.select("row", "source", "source_row_id", "locator", "chunk_id", "corpus_id", "source_doc_id")
        .join(repeats.lazy(), on="row", how="semi")
        .collect()
    )
    return as_rejects(at.sort("row").with_columns(reason=pl.lit(ID_IS_UNIQUE)))


def _new_chunks(new: pl.DataFrame, rows: pl.LazyFrame, keys: pl.LazyFrame) -> pl.LazyFrame:
    """The new groups as rows of `chunks`, with the text and the rest of their representatives."""
    sums = new.lazy().select(
        "row", "first_seen_at", "last_seen_at", "parsed_spec_ids", occurrences=pl.col("new_occurrences")
    )
    of_keys = keys.select("row", "chunk_id", "scope", "content_hash", "keep_apart", *_without_text())
    chunks = (
        rows.select("row", "text")
        .join(of_keys.join(sums, on="row", how="inner"), on="row", how="inner", maintain_order="left")
        .with_columns(
            canonical_id=pl.col("chunk_id"),
            action=pl.lit(STORED_AS_NEW),
            completion_status=pl.lit(INCOMPLETE),
            embedding_model=pl.lit(None, dtype=pl.String),
            embedding_version=pl.lit(None, dtype=pl.String),
            superseded_by=pl.lit(None, dtype=pl.String),
            valid_from=pl.lit(None),
            valid_to=pl.lit(None),
            deleted_at=pl.lit(None),
        )
    )
    return chunks.select(pl.col(name).cast(dtype) for name, dtype in CHUNKS.dtypes.items())


def _without_text() -> list[str]:
    return [name for name in _OF_REPRESENTATIVE if name != "text"]


def _whole_chunks(folded: pl.DataFrame, before: pl.DataFrame, rows: pl.LazyFrame, keys: pl.LazyFrame) -> pl.LazyFrame:
    """Known chunks as whole rows after tonight. Those that a lower occurrence now represents show that one; to change
    the text alone, Lance would rewrite that column of every chunk."""
    moved = folded.lazy().drop("canonical_id", "new_occurrences")
    kept = (
        moved.filter(pl.col("row").is_null()).drop("row").join(before.lazy().drop(MOVING), on="chunk_id", how="inner")
    )
    of_keys = keys.select("row", *_without_text()).join(moved.drop_nulls("row"), on="row", how="inner")
    taken = rows.select("row", "text").join(of_keys, on="row", how="inner").drop("row")
    represented = taken.join(before.lazy().drop(*MOVING, *_OF_REPRESENTATIVE), on="chunk_id", how="inner")
    return pl.concat([kept.select(CHUNKS.columns), represented.select(CHUNKS.columns)])


def _new_occurrences(keys: pl.DataFrame, keys_on_disk: pl.LazyFrame, run_id: str) -> pl.LazyFrame:
    """The rows that are new, of all on disk; by those that are not, where these are fewer."""
    new, rows_on_disk = keys.filter("is_new").select("row").lazy(), keys_on_disk.select(pl.len()).collect().item()
    how: Literal["semi", "anti"] = "semi"
    if keys["is_new"].sum() > rows_on_disk / 2:
        new, how = keys_on_disk.select("row").join(new, on="row", how="anti"), "anti"
    occurrences = keys_on_disk.join(new, on="row", how=how, maintain_order="left")
    return occurrences.with_columns(run_id=pl.lit(run_id)).select(
        pl.col(name).cast(dtype) for name, dtype in OCCURRENCES.dtypes.items()
    )


def _new_canonicals(new: pl.DataFrame) -> pl.DataFrame:
    return CANONICALS.shaped(
        new.with_columns(canonical_id=pl.col("chunk_id"), variants=pl.lit(0), occurrences=pl.col("new_occurrences"))
    )


def changes_in(staging: Path) -> list[Change]:
    """What the stages left, by table: the exact stage, where chunks are embedded the two after it, and where pairs were
    judged what came of that."""
    folder, embed, near, judge = (staging / name for name in ("exact", "embed", "near", "judge"))
    is_embedded = (embed / "chunks.parquet").exists()
    is_judged = (judge / "pairs.parquet").exists()
    updates = [folder / "chunks-moved.parquet", folder / "chunks-whole.parquet"]
    if is_embedded:
        updates.append(embed / "chunks-embedded.parquet")
    rest = [
        *corpora_changes(staging / "load", staging / DOCUMENTS),
        Change(OCCURRENCES.name, appends=folder / "occurrences.parquet"),
        Change(REJECTS.name, appends=folder / "rejects.parquet", updates=(folder / "rejects-again.parquet",)),
        *_changes_where_staged(staging),
    ]
    if is_judged:
        updates.append(judge / "chunks-judged.parquet")
        return [Change(CHUNKS.name, judge / "chunks.parquet", tuple(updates)), *_judged_changes(judge, near), *rest]
    of_pairs = Change(PAIRS.name, appends=near / "pairs.parquet", deletes=near / "pairs-cut.parquet")
    return [
        Change(
            CHUNKS.name,
            appends=(embed if is_embedded else folder) / "chunks.parquet",
            updates=tuple(updates),
        ),
        *([of_pairs] if (near / "pairs.parquet").exists() else []),
        Change(CANONICALS.name, appends=folder / "canonicals.parquet", updates=(folder / "canonicals-moved.parquet",)),
        *rest,
    ]


def _changes_where_staged(staging: Path) -> list[Change]:
    """What only some nights have: a slice of a legacy source, and documents that were parsed."""
    legacy, files = staging / "legacy" / "rows.parquet", staging / "files" / "files.parquet"
    gone = legacy.with_name("rows-gone.parquet")
    changes = [
        Change(LEGACY_ROWS.name, appends=legacy, updates=(legacy.with_stem("rows-moved"),), deletes=gone),
        Change(PARSED_FILES.name, appends=files, updates=(files.with_stem("files-moved"),)),
    ]
    return [change for change in changes if change.appends is not None and change.appends.exists()]


def _judged_changes(judge: Path, near: Path) -> list[Change]:
    """What came of judging in the tables other than `chunks`."""
    deletes = {PAIRS.name: near / "pairs-cut.parquet"} | {
        contract.name: judge / f"{contract.name}-gone.parquet"
        for contract in (CANONICALS, VARIANTS, LINKS, CONTRADICTIONS)
    }
    return [
        Change(
            contract.name,
            appends=judge / f"{contract.name}.parquet",
            updates=(judge / f"{contract.name}-moved.parquet",),
            deletes=deletes.get(contract.name),
        )
        for contract in (PAIRS, CANONICALS, VARIANTS, LINKS, CONTRADICTIONS, PENDING_REVIEWS, FORWARDS)
    ]


def write_tables(
    staging: Path,
    *,
    warehouse: Warehouse,
    tally: Tally,
    reasons: dict[str, int],
    settings: Settings,
    vectors: Vectors | None,
    in_use: Vectors | None,
    run_id: str,
    reads_input: bool,
) -> dict[str, int]:
    """Writes the night's changes and returns the versions to publish, or DoesNotAddUp with nothing published. `vectors`
    are those that were written tonight, `in_use` those that readers search."""
    check_rows(tally)
    if "max_reject_share" not in settings.guard.allow:
        check_reject_share(tally, reasons=reasons, limit=settings.guard.max_reject_share)
    before = warehouse.rows()
    (staging / DOCUMENTS).unlink(missing_ok=True)
    with ThreadPoolExecutor(2) as writers:  # each table has its own files and commits
        list(writers.map(warehouse.apply, changes_in(staging)))
    warehouse.tend()
    check_tables({**warehouse.rows(), **warehouse.claimed()}, before=before, tally=tally)
    chunks = check_written(warehouse)
    judged = staging / "judge"
    if (judged / "variants.parquet").exists():
        check_blast_radius(
            chunks,
            judged,
            warehouse=warehouse,
            settings=settings.guard,
            chunks_new=tally.chunks_new,
            merged=Staging(staging).result("judge")["merged"],
        )
    if vectors is not None:
        check_vectors(*warehouse.completed(vectors.contract.name.removeprefix(VECTORS_PREFIX)), vectors.rows())
    write_documents(staging / "load", staging / DOCUMENTS, warehouse=warehouse, run_id=run_id, reads_input=reads_input)
    for change in corpora_changes(staging / "load", staging / DOCUMENTS):
        warehouse.apply(change)
    if in_use is None:
        return warehouse.versions()
    retrieval = Retrieval(warehouse, in_use)
    return warehouse.versions(in_use.table, *retrieval.follow())
