"""The load stage: every source into rows that keep the input contract, and what does not into rejects."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from flows.errors import UnreadableSource
from flows.readers import Batch, read
from flows.settings import Settings
from flows.sources import BYTES, Source, SourceFile
from schemas.rows import ROWS, TEXT_FITS
from schemas.tables import REJECTS
from schemas.terms import FILE
from transforms.chunking import chunk_documents
from transforms.hashing import derived_id, file_hash
from transforms.mapping import MissingColumn, mapped, resolved

_FILE_BLOCK_BYTES = 1024 * 1024
# A part is written when any of these is reached: by short rows, by long ones, by files of a row each.
_PART_ROWS = 131_072
_PART_BYTES = 128 * 1024 * 1024
_PART_BATCHES = 1024


def load_sources(
    sources: list[Source], settings: Settings, folder: Path, *, tell_rows: Callable[[int], None]
) -> dict[str, Any]:
    """Writes `rows-*.parquet` and `rejects.parquet`; returns what was counted and which files were skipped."""
    parts = _Parts(folder)
    rejects: list[pl.DataFrame] = []
    kinds: set[str] = set()
    skipped: list[str] = []
    rows_in = 0
    for source in sources:
        kinds.add(source.settings.kind)
        skipped += source.left_out
        for file in source.files:
            refused_before, rows_before = len(rejects), rows_in
            parts.begin_file()
            try:
                for batch in read(file, given=source.settings, load=settings.load):
                    good, refused = _split(batch, source, file, settings)
                    rows_in += good.height + refused.height
                    parts.add(good)
                    rejects.append(refused)
                    tell_rows(parts.rows)
            except UnreadableSource as error:
                if settings.load.on_unreadable == "fail":
                    raise
                # Nothing of an unreadable file comes in: half a file would look like a whole one.
                parts.drop_file()
                del rejects[refused_before:]
                rows_in = rows_before
                skipped.append(str(error))
    parts.close()
    refused = pl.concat([REJECTS.empty(), *rejects])
    refused.write_parquet(folder / "rejects.parquet")
    return {
        "rows_in": rows_in,
        "rows": parts.rows,
        "kinds": sorted(kinds),
        "skipped": skipped,
    }


class _Parts:
    """Rows gathered into parquet files of bounded size, numbered as they come. Those of the file that is being read can
    be dropped again: no part holds rows of it together with rows from before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = 0
        self._before: list[pl.DataFrame] = []
        self._of_file: list[pl.DataFrame] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._written = self._written_before = self._rows_before = 0

    def begin_file(self) -> None:
        """What has come so far stays, whatever becomes of the file that is about to be read."""
        self._before += self._of_file
        self._of_file = []
        self._written_before, self._rows_before = self._written, self.rows

    def drop_file(self) -> None:
        """Forgets every row since `begin_file`."""
        for part in range(self._written_before, self._written):
            self._path(part).unlink()
        self._of_file = []
        self._waiting_rows = sum(batch.height for batch in self._before)
        self._waiting_bytes = sum(int(batch.estimated_size()) for batch in self._before)
        self._written, self.rows = self._written_before, self._rows_before

    def add(self, rows: pl.DataFrame) -> None:
        if not rows.height:
            return
        self._of_file.append(rows.with_row_index("row", offset=self.rows).with_columns(pl.col("row").cast(pl.UInt64)))
        self.rows += rows.height
        self._waiting_rows += rows.height
        self._waiting_bytes += int(rows.estimated_size())
        is_long = self._waiting_rows >= _PART_ROWS or self._waiting_bytes >= _PART_BYTES
        if is_long or len(self._before) + len(self._of_file) >= _PART_BATCHES:
            self._write_all()

    def close(self) -> None:
        self.begin_file()
        self._write_all()
        if not self._written:
            empty = ROWS.empty().with_row_index("row").with_columns(pl.col("row").cast(pl.UInt64))
            empty.write_parquet(self._path(0))

    def _write_all(self) -> None:
        if self._before:
            self._write(self._before)
            self._written_before = self._written
        self._write(self._of_file)
        self._before, self._of_file = [], []
        self._waiting_rows = self._waiting_bytes = 0

    def _write(self, frames: list[pl.DataFrame]) -> None:
        if frames:
            pl.concat(frames).write_parquet(self._path(self._written), compression="lz4", statistics=False)
            self._written += 1

    def _path(self, part: int) -> Path:
        return self.folder / f"rows-{part:06d}.parquet"


def _split(batch: Batch, source: Source, file: SourceFile, settings: Settings) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The batch's rows, documents and rows that ask for it in windows: those that keep the input contract, and the
    rejects."""
    refused = _refused_lines(batch, source)
    if not batch.rows.width:
        return ROWS.empty(), refused
    mapping = source.settings.column_map(source=source.name, scope_by=settings.scope.by)
    # A scope that is asked for by name must be there; only the usual one gives way to the default.
    asked_for = source.settings.scope_by is not None or settings.scope.required
    default_scope = None if asked_for else settings.scope.default
    try:
        mapping = resolved(mapping, batch.rows.columns, default_scope=default_scope)
    except MissingColumn as missing:
        raise UnreadableSource(f"{file.path}: {missing}") from None
    if mapping.text is not None and _is_chunked(source, file):
        batch = _in_windows(batch, file, mapping.text, settings)
    is_whole = file.format in ("documents", BYTES)
    position = pl.lit(file.name) if is_whole else pl.lit(f"{file.name}:") + pl.lit(batch.numbers).cast(pl.String)
    rows = mapped(batch.rows, mapping, position=position)
    if source.settings.kind == FILE:
        rows = rows.with_columns(_hashes_of_bytes(rows, batch, file, mapping.text))
    too_long = pl.col("text").str.len_bytes() > settings.load.max_text_bytes
    fits = pl.when(too_long).then(pl.lit(TEXT_FITS))
    rows = rows.with_columns(broken=pl.coalesce("broken", fits, ROWS.broken_rule()))
    good = rows.filter(pl.col("broken").is_null()).drop("broken")
    bad = rows.filter(pl.col("broken").is_not_null()).select(
        "source", "source_row_id", "locator", reason=pl.col("broken"), detail=pl.lit(None, dtype=pl.String)
    )
    return good, pl.concat([refused, as_rejects(bad)])


def _is_chunked(source: Source, file: SourceFile) -> bool:
    return file.format == "documents" if source.settings.chunk is None else source.settings.chunk


def _in_windows(batch: Batch, file: SourceFile, text: str, settings: Settings) -> Batch:
    """The batch with a row for each window of its texts, in the same columns and `chunk_index`."""
    if "chunk_index" in batch.rows.columns:
        raise UnreadableSource(
            f"{file.path}: has a column chunk_index, so its texts are windows already; leave out chunk = true"
        )
    if batch.rows.schema[text] not in (pl.String, pl.Null):
        raise UnreadableSource(f"{file.path}: chunk = true cuts text, and {text!r} is {batch.rows.schema[text]}")
    number = max(batch.rows.columns, key=len) + "#"  # a name that no column has
    windows = chunk_documents(
        batch.rows.with_columns(batch.numbers.alias(number)),
        text=text,
        tokens=settings.chunking.tokens,
        overlap=settings.chunking.overlap,
    )
    return Batch(windows.drop(number), windows[number])


def _refused_lines(batch: Batch, source: Source) -> pl.DataFrame:
    """The lines that a reader could not make into rows, as rejects."""
    columns = ("locator", "detail", "reason")
    lines = {name: [getattr(refused, name) for refused in batch.refused] for name in columns}
    rows = pl.DataFrame(lines, schema=dict.fromkeys(columns, pl.String))
    return as_rejects(rows.with_columns(source=pl.lit(source.name)))


def as_rejects(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with source, locator and reason in the shape of REJECTS; `run_id` is set when they are published."""
    reject_id = derived_id(pl.col("reason"), pl.col("source"), pl.col("locator"))
    return REJECTS.shaped(rows.with_columns(reject_id=reject_id))


def _hashes_of_bytes(rows: pl.DataFrame, batch: Batch, file: SourceFile, column: str | None) -> pl.Series:
    """The content hash of each file row: of the file itself, or of the bytes in a column."""
    scopes = rows["scope"].to_list()
    if file.format == BYTES:
        hashes = [None if scope is None else file_hash(scope, _blocks(file.path)) for scope in scopes]
    elif column is None:
        raise UnreadableSource(f"{file.path}: no column with the bytes; name one with text_column")
    elif (dtype := batch.rows.schema[column]) not in (pl.Binary, pl.String, pl.Null):
        raise UnreadableSource(
            f'{file.path}: kind = "{FILE}" takes bytes, and {column!r} is {dtype}; name another column'
        )
    else:
        contents = batch.rows[column].cast(pl.Binary).to_list()
        hashes = [
            None if scope is None or content is None else file_hash(scope, [content])
            for scope, content in zip(scopes, contents, strict=True)
        ]
    return pl.Series("content_hash", hashes, dtype=pl.String)


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as opened:
            while block := opened.read(_FILE_BLOCK_BYTES):
                yield block
    except OSError as error:
        raise UnreadableSource(f"{path}: its bytes cannot be read: {error.strerror}") from error
