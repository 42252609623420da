"""The embed stage: a vector for every chunk that has a text and none yet. What was embedded is kept, block by block, so
that a killed run asks for nothing twice."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from flows.encoders import open_encoder
from flows.errors import NightfoldError
from flows.settings import EmbeddingSettings
from flows.staging import keep
from flows.vectors import Vectors
from flows.warehouse import Run, Warehouse
from schemas.tables import CHUNKS
from schemas.terms import COMPLETE, INCOMPLETE, RETRY_NEEDED
from transforms.embedding import Encoder, EncoderDown, EncodingFailed, embedded
from transforms.hashing import derived_id
from transforms.normalize import normalized

BLOCK_ROWS = 65_536


class ModelChanged(NightfoldError):
    """Chunks cannot be embedded one by one when the vectors of the others are of another model."""


def embed_chunks(
    new_chunks: Path,
    folder: Path,
    *,
    blocks: Path,
    warehouse: Warehouse,
    run: Run | None,
    pending: str,
    settings: EmbeddingSettings,
    tell: Callable[[str], None],
    tell_rows: Callable[[int], None],
    given: Path | None = None,
) -> dict[str, Any]:
    """Writes `chunks.parquet`, the new chunks with their status, and `chunks-embedded.parquet`, what becomes of known
    ones that were pending; the vectors go to `blocks`. `given` is a file of vectors by chunk that need not be asked
    for, where it is there."""
    in_use = (run.neighbours.get("embedding") if run else None) or {}
    given = given if given is not None and given.exists() else None
    waiting = _waiting(warehouse, run, pending, folder / "pending.parquet", given=given)
    if not _rows(new_chunks) and not _rows(waiting):
        # Nothing to embed: no model is loaded for that.
        _write_statuses(new_chunks, waiting, folder, _nothing())
        return {"embedded": 0, "failed": 0, "model_changed": False, **_named(in_use)}
    encoder = open_encoder(settings, tell=tell)
    assert encoder is not None  # the stage runs where there is an encoder
    model_changed = bool(in_use) and in_use["version"] != encoder.version and pending != "all"
    if model_changed:
        if pending == "incomplete":
            raise ModelChanged(
                f"[embedding] is {encoder.model} now, and the vectors in use are of {in_use['model']}; "
                "`nightfold backfill --embeddings` embeds all chunks with the new one"
            )
        _write_statuses(new_chunks, waiting, folder, _waiting_for_the_new_model(new_chunks))
        return {"embedded": 0, "failed": 0, "model_changed": True, **_named(in_use)}
    vectors = Vectors(warehouse, encoder.version, encoder.dimensions)
    counts = embed_blocks(
        [new_chunks, waiting],
        blocks,
        encoder=encoder,
        vectors=vectors,
        run=run,
        tell=tell,
        tell_rows=tell_rows,
        given=given,
    )
    _write_statuses(new_chunks, waiting, folder, statuses(block_files(blocks), encoder=encoder))
    named = {"model": encoder.model, "version": encoder.version, "dimensions": encoder.dimensions}
    return {**counts, "model_changed": False, **named}


def _named(embedding: dict[str, Any]) -> dict[str, Any]:
    return {name: embedding.get(name) for name in ("model", "version", "dimensions")}


def _rows(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def _waiting(warehouse: Warehouse, run: Run | None, pending: str, path: Path, *, given: Path | None = None) -> Path:
    """The known chunks with a text that are to be embedded tonight, as a file."""
    columns = ["chunk_id", "scope", "text"]
    if given is not None and pending == "new":
        ids = pl.read_parquet(given, columns=["chunk_id"], glob=False)["chunk_id"]
        known = warehouse.find(CHUNKS.name, ids, run=run)
        bare = known.rows(["chunk_id", "completion_status"]).filter(pl.col("completion_status") != COMPLETE)
        known.among(bare["chunk_id"]).rows(columns).drop_nulls("text").write_parquet(path)
        return path
    dataset = warehouse.open(CHUNKS.name, run) if run and pending != "new" else None
    if dataset is None:
        CHUNKS.empty().select(columns).write_parquet(path)
        return path
    wanted = "text is not null" if pending == "all" else f"text is not null and completion_status != '{COMPLETE}'"
    shape = pa.schema([CHUNKS.shape.field(name) for name in columns])
    with pq.ParquetWriter(path, shape) as writer:
        for batch in dataset.to_batches(columns=columns, filter=wanted):
            writer.write_batch(batch.cast(shape))
    return path


def _write_statuses(new_chunks: Path, waiting: Path, folder: Path, became: pl.DataFrame) -> None:
    chunks = pl.scan_parquet([new_chunks], glob=False)
    with_statuses(chunks, became).sink_parquet(folder / "chunks.parquet", compression="lz4", statistics=False)
    known = pl.read_parquet(waiting, columns=["chunk_id"], glob=False)
    became.join(known, on="chunk_id", how="semi").write_parquet(folder / "chunks-embedded.parquet")


def _nothing() -> pl.DataFrame:
    return CHUNKS.empty().select("chunk_id", "completion_status", "embedding_model", "embedding_version")


def _waiting_for_the_new_model(new_chunks: Path) -> pl.DataFrame:
    ids = pl.read_parquet(new_chunks, columns=["chunk_id"], glob=False)
    return pl.concat([_nothing(), ids.with_columns(completion_status=pl.lit(RETRY_NEEDED))], how="diagonal")


def embed_blocks(
    pending: list[Path],
    folder: Path,
    *,
    encoder: Encoder,
    vectors: Vectors,
    run: Run | None,
    tell: Callable[[str], None],
    tell_rows: Callable[[int], None],
    given: Path | None = None,
) -> dict[str, Any]:
    """Writes a file a block: chunk_id, scope, text_key and vector, which is null where the encoder failed; and
    has_vector, which says so without the vectors being read.

    `pending` are files with chunk_id, scope and text. A block of this version that is there already is not embedded
    again. An encoder that is down is not asked about later blocks. Why texts have no vector is told in one line.
    """
    _make_blocks_folder(folder, version=encoder.version)
    shared, failures = _Shared(pending), _Failures()
    done = failed = 0
    for number, rows in enumerate(_blocks(pending)):
        path = folder / f"{number:06d}.parquet"
        if path.exists():
            block = pl.read_parquet(path, glob=False)
        else:
            asked, brought = _with_given(rows, given, vectors)
            block = _embedded_block(asked, encoder, vectors, run, shared=shared, failures=failures)
            block = pl.concat([block, brought.select(block.columns)]) if brought.height else block
            unfinished = path.with_suffix(".partial")
            block.write_parquet(unfinished, compression="uncompressed", statistics=False)
            keep(unfinished, path)
        shared.remember(block)
        failed += block.height - int(block["has_vector"].sum())
        done += block.height
        tell_rows(done)
    if failures.causes:
        tell(f"no vector: {failures.why}")
    return {"embedded": done - failed, "failed": failed}


def _make_blocks_folder(folder: Path, *, version: str) -> None:
    """The folder of blocks of this version. The weights can change under the same settings: what another version left
    there is dropped."""
    stamp = folder / "version"
    if folder.exists() and not (stamp.exists() and stamp.read_text() == version):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stamp.write_text(version)


@dataclass
class _Failures:
    """Why texts have no vector, and whether the encoder can still be asked."""

    causes: Counter[str] = field(default_factory=Counter)
    is_down: bool = False

    def report(self, failed: EncodingFailed, texts: int) -> None:
        """As `embedded` tells of them."""
        self.causes[str(failed)] += texts
        self.is_down = self.is_down or isinstance(failed, EncoderDown)

    @property
    def why(self) -> str:
        """The cause that most texts share, and how many others there are."""
        cause, _ = self.causes.most_common(1)[0]
        others = len(self.causes) - 1
        return cause + (f" (and {others:,} other causes)" if others else "")


def block_files(folder: Path) -> list[Path]:
    """The blocks that were embedded, in order."""
    return sorted(folder.glob("*.parquet"))


def _blocks(pending: list[Path]) -> Iterator[pl.DataFrame]:
    """The chunks that have a text, in blocks, with the key that texts of the same normal form share."""
    for path in pending:
        with pq.ParquetFile(path) as staged:
            for batch in staged.iter_batches(BLOCK_ROWS, columns=["chunk_id", "scope", "text"]):
                rows = pl.from_arrow(batch)
                assert isinstance(rows, pl.DataFrame)  # a batch never comes back as a Series
                yield _keyed(rows.drop_nulls("text"))


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(text=normalized(pl.col("text"))).with_columns(text_key=derived_id(pl.col("text")))


def _with_given(rows: pl.DataFrame, given: Path | None, vectors: Vectors) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that have no vector in the file of given ones, and the others with theirs.

    What someone else computed is for its own scope alone: under a key of that scope, no other one finds it, and
    whoever says the same there has the vector that the encoder makes.
    """
    if given is None:
        return rows, rows.clear()
    found = pl.scan_parquet([given], glob=False).join(rows.lazy().select("chunk_id"), on="chunk_id", how="semi")
    brought = rows.join(found.collect(), on="chunk_id", how="inner", maintain_order="left").select(
        "chunk_id",
        "scope",
        text_key=derived_id(pl.lit("given"), derived_id(pl.col("scope")), pl.col("text_key")),
        vector=pl.col("vector").cast(vectors.contract.dtypes["vector"]),
        has_vector=pl.lit(value=True),
    )
    return rows.join(brought, on="chunk_id", how="anti", maintain_order="left"), brought


class _Shared:
    """Vectors of texts that stand in several scopes: each is embedded once and kept for the others."""

    def __init__(self, pending: list[Path]) -> None:
        keys = pl.concat([pl.Series("text_key", [], dtype=pl.String), *(rows["text_key"] for rows in _blocks(pending))])
        self._repeated = keys.filter(keys.is_duplicated()).unique()
        self.known: pl.DataFrame | None = None

    def remember(self, block: pl.DataFrame) -> None:
        mine = block.filter(pl.col("text_key").is_in(self._repeated.implode())).drop_nulls("vector")
        mine = mine.select("text_key", "vector")
        self.known = (mine if self.known is None else pl.concat([self.known, mine])).unique("text_key", keep="first")


def _embedded_block(
    rows: pl.DataFrame, encoder: Encoder, vectors: Vectors, run: Run | None, *, shared: _Shared, failures: _Failures
) -> pl.DataFrame:
    known = vectors.known(rows["text_key"], run=run)
    if shared.known is not None:
        known = pl.concat([known, shared.known]).unique("text_key", keep="first")
    unknown = rows.join(known, on="text_key", how="anti").unique("text_key", keep="first", maintain_order=True)
    # A null has no vector, and nobody is asked for it.
    texts = pl.Series([None] * unknown.height, dtype=pl.String) if failures.is_down else unknown["text"]
    computed, is_there = embedded(texts, encoder=encoder, report=failures.report)
    fresh = unknown.select("text_key").with_columns(
        pl.Series("vector", computed, dtype=vectors.contract.dtypes["vector"])
    )
    if known.is_empty() and unknown.height == rows.height and is_there.all():
        # All of them new, none twice, none failed: they stand in order already.
        block = rows.drop("text").with_columns(fresh["vector"])
    else:
        fresh = fresh.filter(pl.Series(is_there, dtype=pl.Boolean))
        both = pl.concat([known, fresh.select(known.columns)])
        block = rows.drop("text").join(both, on="text_key", how="left", maintain_order="left")
    return block.with_columns(has_vector=pl.col("vector").is_not_null())


def statuses(blocks: list[Path], *, encoder: Encoder) -> pl.DataFrame:
    """What became of each chunk that was to be embedded."""
    columns = ["chunk_id", "has_vector"]
    empty = pl.DataFrame(schema={"chunk_id": pl.String, "has_vector": pl.Boolean})
    seen = [pl.read_parquet(path, columns=columns, glob=False) for path in blocks]
    there = pl.col("has_vector")
    return pl.concat([empty, *seen]).select(
        "chunk_id",
        completion_status=pl.when(there).then(pl.lit(COMPLETE)).otherwise(pl.lit(INCOMPLETE)),
        embedding_model=pl.when(there).then(pl.lit(encoder.model)),
        embedding_version=pl.when(there).then(pl.lit(encoder.version)),
    )


def with_statuses(chunks: pl.LazyFrame, became: pl.DataFrame) -> pl.LazyFrame:
    """New chunks as they are stored: complete with a vector, or without a text, which needs none."""
    columns = ["completion_status", "embedding_model", "embedding_version"]
    joined = chunks.drop(columns).join(became.lazy(), on="chunk_id", how="left", maintain_order="left")
    nothing_to_embed = pl.col("text").is_null()
    status = pl.when(nothing_to_embed).then(pl.lit(COMPLETE)).otherwise(pl.col("completion_status"))
    return joined.with_columns(completion_status=status.fill_null(INCOMPLETE)).select(CHUNKS.columns)
