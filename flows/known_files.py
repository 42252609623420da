"""Documents known by their bytes: what a file became before, so that the same bytes in the same scope are not parsed
again. The tables end as if they had been."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lance
import polars as pl
from blake3 import blake3

from flows.documents import parser_of
from flows.readers import Batch
from flows.settings import ChunkingSettings
from flows.sources import Source, SourceFile
from flows.warehouse import Run, Warehouse
from schemas.tables import CHUNKS, PARSED_FILES
from transforms.hashing import file_hash
from transforms.mapping import ColumnMap

_ID_CHARACTERS = 32


@dataclass(frozen=True)
class ParsedFile:
    """A document that was parsed tonight: its key, and where its rows stand."""

    file_key: str
    scope: str
    file_hash: str
    source: str = ""
    place: str = ""


def as_frame(files: list[ParsedFile]) -> pl.DataFrame:
    """The files as rows, the first of each key."""
    columns = dict.fromkeys(ParsedFile.__dataclass_fields__, pl.String)
    return pl.DataFrame([asdict(file) for file in files], schema=columns).unique(
        "file_key", keep="first", maintain_order=True
    )


def goes_by_text_alone(settled: ColumnMap) -> bool:
    """Whether the text of a document is its text and nothing else: no scope, id or time is made of it."""
    others = {settled.row_id, settled.doc_id, settled.parsed_spec_id, settled.force, settled.seen_at}
    return settled.text == "text" and "text" not in {*others, *settled.scope_by, *(settled.metadata or ())}


class KnownFiles:
    """Looks documents up by their bytes: among those of tonight, and in the warehouse."""

    def __init__(self, warehouse: Warehouse, run: Run | None, sources: list[Source]) -> None:
        self._files = warehouse.open(PARSED_FILES.name, run) if run else None
        self._chunks = warehouse.open(CHUNKS.name, run) if run else None
        # Two files of the same bytes have the same size: only those with such a neighbour are kept at hand.
        files = [file for source in sources for file in source.files if file.format == "documents"]
        self._of_size = Counter(_size(file.path) for file in files)
        self._tonight: dict[int, dict[str, list[str]]] = {}
        self._now: tuple[ParsedFile, int] | None = None

    def next_file(self) -> None:
        """Another file is read: what was asked of the one before it, which may not have come in, is not of this one."""
        self._now = None

    def recall(
        self, about: Batch, file: SourceFile, *, scope: str | None, content: bytes, cut: ChunkingSettings | None
    ) -> Batch | None:
        """The rows of a file with these bytes in this scope, under the name of this one; None where it must be parsed.

        `about` is the file's row without its text. What is then parsed is to be handed to `parsed`.
        """
        self.next_file()
        if scope is None:
            return None
        size, digest = len(content), file_hash(scope, [content])
        made_by = [scope, digest, parser_of(file.path), "whole" if cut is None else f"{cut.tokens} {cut.overlap}"]
        key = blake3("\x1f".join(made_by).encode()).hexdigest()[:_ID_CHARACTERS]
        texts = self._tonight.get(size, {}).get(key)
        if texts is None and (texts := self._recorded(key)) is None:
            self._now = ParsedFile(key, scope, digest), size
            return None
        self._count_off(size)
        windows = about.rows.select(pl.all().repeat_by(len(texts)).explode()).with_columns(
            pl.Series("text", texts, dtype=pl.String)
        )
        if cut is not None:
            windows = windows.with_columns(chunk_index=pl.int_range(len(texts), dtype=pl.Int32))
        return replace(about, rows=windows, numbers=pl.Series([1] * len(texts), dtype=pl.Int64), is_cut=True)

    def parsed(self, texts: pl.Series) -> ParsedFile | None:
        """Keeps the windows of the file that was asked for last; None where it was known."""
        if self._now is None:
            return None
        (file, size), self._now = self._now, None
        self._count_off(size)
        if self._of_size[size] > 0:
            self._tonight.setdefault(size, {})[file.file_key] = texts.to_list()
        return file

    def _count_off(self, size: int) -> None:
        """A file of this size has been seen; after the last one, nobody asks for them any more."""
        self._of_size[size] -= 1
        if self._of_size[size] <= 0:
            self._tonight.pop(size, None)

    def _recorded(self, key: str) -> list[str] | None:
        """The windows of a file on record; None where there is none, or the text of a window cannot be had any more:
        its chunk shows another layout of it by now."""
        found = _read(self._files, f"file_key = '{key}'", ["chunk_ids", "layout_digests", "texts"])
        if not found:
            return None
        (record,) = found
        listed = ",".join(f"'{chunk_id}'" for chunk_id in set(record["chunk_ids"]))
        chunks = _read(self._chunks, f"chunk_id in ({listed})", ["chunk_id", "text", "layout_digest"])
        shown = {chunk["chunk_id"]: (chunk["layout_digest"], chunk["text"]) for chunk in chunks}
        texts: list[str] = []
        for chunk_id, layout, own in zip(*(record[name] for name in record), strict=True):
            digest, text = shown.get(chunk_id, (None, None))
            text = own if own is not None else text if digest == layout else None
            if text is None:
                return None
            texts.append(text)
        return texts


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # whoever reads it says so
        return -1


def _read(dataset: lance.LanceDataset | None, where: str, columns: list[str]) -> list[dict[str, Any]]:
    if dataset is None:
        return []
    rows: list[dict[str, Any]] = dataset.to_table(columns=columns, filter=where).to_pylist()
    return rows


def record_files(staging: Path, folder: Path, *, warehouse: Warehouse, run: Run | None, run_id: str) -> dict[str, Any]:
    """Writes what the documents that were parsed tonight became, as changes of `parsed_files`."""
    files = pl.read_parquet(staging / "load" / "files.parquet", glob=False)
    keys = pl.scan_parquet([staging / "hash" / "keys.parquet"], glob=False)
    number = pl.format("#{}", "chunk_index").str.len_bytes().fill_null(0)
    place = pl.col("locator").str.head(pl.col("locator").str.len_chars() - number)
    windows = (
        keys.select("row", "source", "scope", "chunk_index", "chunk_id", "layout_digest", place=place)
        .join(files.lazy(), on=["source", "place", "scope"], how="inner")
        .collect(engine="streaming")
        .sort("file_key", "chunk_index", "row")
    )
    shown = _shown_layouts(windows["chunk_id"], staging / "exact", warehouse, run)
    windows = windows.join(shown, on="chunk_id", how="left", maintain_order="left")
    differs = windows.filter(pl.col("layout_digest").ne_missing(pl.col("layout_shown"))).select("row")
    rows = pl.scan_parquet(sorted((staging / "load").glob("rows-*.parquet")), glob=False).select("row", "text")
    texts = rows.join(differs.lazy(), on="row", how="semi").collect(engine="streaming")
    parsed = (
        windows.join(texts, on="row", how="left", maintain_order="left")
        .group_by("file_key", maintain_order=True)
        .agg(
            pl.col("scope", "file_hash").first(),
            chunk_ids="chunk_id",
            layout_digests="layout_digest",
            texts="text",
        )
        .with_columns(run_id=pl.lit(run_id))
    )
    parsed = PARSED_FILES.shaped(parsed)
    known = warehouse.lookup(PARSED_FILES.name, parsed["file_key"], ["file_key"], run=run)
    parsed.join(known, on="file_key", how="anti", maintain_order="left").write_parquet(folder / "files.parquet")
    parsed.join(known, on="file_key", how="semi", maintain_order="left").write_parquet(folder / "files-moved.parquet")
    return {"parsed": parsed.height}


def _shown_layouts(chunk_ids: pl.Series, exact: Path, warehouse: Warehouse, run: Run | None) -> pl.DataFrame:
    """chunk_id and the layout that each chunk shows after tonight."""
    wanted = pl.DataFrame({"chunk_id": chunk_ids.unique()}, schema={"chunk_id": pl.String})
    columns = ["chunk_id", "layout_digest"]
    staged = [
        pl.scan_parquet([exact / name], glob=False)
        .select(columns)
        .join(wanted.lazy(), on="chunk_id", how="semi")
        .collect()
        for name in ("chunks.parquet", "chunks-whole.parquet")
    ]
    before = warehouse.lookup(CHUNKS.name, wanted["chunk_id"], columns, run=run)
    every = pl.concat([*staged, before], how="vertical_relaxed").unique("chunk_id", keep="first", maintain_order=True)
    return every.rename({"layout_digest": "layout_shown"})
