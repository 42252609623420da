"""The load stage: every source into rows that keep the input contract, and what does not into rejects."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from flows.errors import UnreadableSource
from flows.known_files import KnownFiles, ParsedFile, as_frame, goes_by_text_alone
from flows.readers import Batch, Recall, read
from flows.settings import Settings
from flows.sources import BYTES, Source, SourceFile
from schemas.rows import ROWS, TEXT_FITS
from schemas.tables import CORPORA, REJECTS
from schemas.terms import FILE
from transforms.chunking import chunk_documents
from transforms.corpora import with_scope
from transforms.hashing import derived_id, file_hash
from transforms.mapping import ColumnMap, MissingColumn, mapped, resolved

# What a bad row says, as far as it is known.
_SAID = ("chunk_id", "scope", "text", "metadata", "detail")
_FILE_BLOCK_BYTES = 1024 * 1024
# A part is written when any of these is reached: by short rows, by long ones, by files of a row each.
_PART_ROWS = 131_072
_PART_BYTES = 128 * 1024 * 1024
_PART_BATCHES = 1024


def load_sources(
    sources: list[Source],
    settings: Settings,
    folder: Path,
    *,
    tell_rows: Callable[[int], None],
    corpora: pl.DataFrame | None = None,
    known: KnownFiles | None = None,
) -> dict[str, Any]:
    """Writes `rows-*.parquet` and `rejects.parquet`; returns what was counted and which files were skipped. `corpora`
    are those that rows can be in. Documents that are `known` are not parsed; those that are, are named in
    `files.parquet`."""
    door = _Door(settings, Parts(folder), tell_rows, corpora=corpora, known=known)
    for source in sources:
        door.take(source)
    door.parts.close()
    refused = pl.concat([REJECTS.empty(), *door.rejects])
    refused.write_parquet(folder / "rejects.parquet")
    counted = {
        "rows_in": door.rows_in,
        "rows": door.parts.rows,
        "kinds": sorted({source.settings.kind for source in sources}),
        "skipped": door.skipped,
    }
    if known is None:
        return counted
    as_frame(door.files).write_parquet(folder / "files.parquet")
    return {**counted, "known_files": door.known_files}


class ScopeComesLate(Exception):
    """A file has the scope columns of its input, after others without them went to the default scope."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self.file = file


@dataclass
class DefaultScope:
    """All files of an input go to the default scope, or none does: the wall must not hang on how rows are split over
    files, nor two files that lost their scope share one. Likewise all of them name a corpus for their rows, or none."""

    scoped: SourceFile | None = None
    is_taken: bool = False
    first: tuple[SourceFile, bool] | None = None

    def see(self, file: SourceFile, before: ColumnMap, settled: ColumnMap) -> None:
        self.first = self.first or (file, settled.is_of_corpora)
        if settled.is_of_corpora != self.first[1]:
            has, lacks = (file, self.first[0]) if settled.is_of_corpora else (self.first[0], file)
            raise UnreadableSource(
                f"{file.path}: {has.name} of this input has a column corpus_id and {lacks.name} has none; add what is "
                "missing, or make them two inputs"
            )
        if settled.is_of_corpora:
            return
        if before.scope is not None:
            return
        if settled.scope is None:
            if self.is_taken:
                raise ScopeComesLate(file)
            self.scoped = self.scoped or file
        elif self.scoped is not None:
            raise UnreadableSource(
                f"{file.path}: no column {' or '.join(before.scope_by)}, which {self.scoped.name} of this input has; "
                "add what is missing, or make the file an input of its own with a scope"
            )
        else:
            self.is_taken = True


class _Door:
    """What has come in so far, and what was turned away."""

    def __init__(
        self,
        settings: Settings,
        parts: "Parts",
        tell_rows: Callable[[int], None],
        *,
        corpora: pl.DataFrame | None,
        known: KnownFiles | None,
    ) -> None:
        self.parts = parts
        self.rejects: list[pl.DataFrame] = []
        self.rows_in = 0
        self.skipped: list[str] = []
        self.files: list[ParsedFile] = []
        self.known_files = 0
        self._known = known
        self._settings = settings
        self._tell_rows = tell_rows
        self._corpora = corpora

    def take(self, source: Source) -> None:
        """All files of the source. Their order makes no difference to what comes in."""
        self.skipped += source.left_out
        self.parts.begin_source()
        before = self._so_far()
        try:
            self._take_files(source, DefaultScope())
        except ScopeComesLate as late:
            self.parts.drop_source()
            self._forget(*before)
            self._take_files(source, DefaultScope(late.file))

    def _take_files(self, source: Source, default_scope: DefaultScope) -> None:
        for file in source.files:
            before = self._so_far()
            self.parts.begin_file()
            recall = self._recall(source, file, default_scope)
            try:
                for batch in read(file, given=source.settings, load=self._settings.load, recall=recall):
                    good, refused = split(batch, source, file, self._settings, default_scope, corpora=self._corpora)
                    self._remember(source, file, batch, good, refused)
                    self.rows_in += good.height + refused.height
                    self.parts.add(good)
                    self.rejects.append(refused)
                    self._tell_rows(self.parts.rows)
            except UnreadableSource as error:
                if self._settings.load.on_unreadable == "fail":
                    raise
                # Nothing of an unreadable file comes in: half a file would look like a whole one.
                self.parts.drop_file()
                self._forget(*before)
                self.skipped.append(str(error))

    def _so_far(self) -> tuple[int, ...]:
        return len(self.rejects), self.rows_in, len(self.skipped), len(self.files), self.known_files

    def _forget(self, rejects: int, rows_in: int, skipped: int, files: int, known_files: int) -> None:
        del self.rejects[rejects:]
        del self.skipped[skipped:]
        del self.files[files:]
        self.rows_in, self.known_files = rows_in, known_files

    def _recall(self, source: Source, file: SourceFile, default_scope: DefaultScope) -> Recall | None:
        """What looks a document up by its bytes, in the scope it would be in."""
        known = self._known
        if known is not None:
            known.next_file()
        if known is None or file.format != "documents":
            return None

        def recall(about: Batch, content: bytes) -> Batch | None:
            batch = replace(about, rows=about.rows.with_columns(text=pl.lit(None, dtype=pl.String)))
            has_corpora = self._corpora is not None
            settled = _settled(batch, source, file, self._settings, default_scope, has_corpora=has_corpora)
            if not goes_by_text_alone(settled):
                return None
            row = mapped(batch.rows, settled, position=pl.lit(file.name))
            if settled.is_of_corpora:
                row = with_scope(row, CORPORA.empty() if self._corpora is None else self._corpora)
            scope = row["scope"][0]
            cut = self._settings.chunking if _is_chunked(source, file) else None
            return known.recall(batch, file, scope=scope, content=content, cut=cut)

        return recall

    def _remember(
        self, source: Source, file: SourceFile, batch: Batch, good: pl.DataFrame, refused: pl.DataFrame
    ) -> None:
        """Keeps what a document became, where all of it came in."""
        if self._known is None or file.format != "documents":
            return
        self.known_files += batch.is_cut
        parsed = self._known.parsed(good["text"]) if good.height and not refused.height else None
        if parsed is not None:
            self.files.append(replace(parsed, source=source.name, place=file.name))


class Parts:
    """Rows gathered into parquet files of bounded size, numbered as they come. Those of the file or the source that is
    being read can be dropped again: no part holds rows of it together with rows from before it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = 0
        self._before: list[pl.DataFrame] = []
        self._of_file: list[pl.DataFrame] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._written = self._written_before = self._rows_before = 0
        self._source_began = 0, 0

    def begin_source(self) -> None:
        """What has come so far stays, whatever becomes of the source that is about to be read."""
        self.begin_file()
        self._write_all()
        self._source_began = self._written, self.rows

    def drop_source(self) -> None:
        """Forgets every row since `begin_source`."""
        self._before = []
        self._written_before, self._rows_before = self._source_began
        self.drop_file()

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


def split(
    batch: Batch,
    source: Source,
    file: SourceFile,
    settings: Settings,
    default_scope: DefaultScope,
    *,
    corpora: pl.DataFrame | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The batch's rows, documents and rows that ask for it in windows: those that keep the input contract, and the
    rejects."""
    refused = _refused_lines(batch, source)
    if not batch.rows.width:
        return ROWS.empty(), refused
    settled = _settled(batch, source, file, settings, default_scope, has_corpora=corpora is not None)
    if settled.text is not None and _is_chunked(source, file) and not batch.is_cut:
        batch = _in_windows(batch, file, settled.text, settings)
    is_whole = file.format in ("documents", BYTES)
    position = pl.lit(file.name) if is_whole else pl.lit(f"{file.name}:") + pl.lit(batch.numbers).cast(pl.String)
    # Ids in a column that nobody named may begin anew in each file. Not with a colon: a row without an id goes by that
    # and its line.
    is_guessed = source.settings.id_column is None and not source.is_one_file and not is_whole
    id_prefix = f"{file.name}#" if is_guessed else ""
    rows = mapped(batch.rows, settled, position=position, id_prefix=id_prefix, as_json=batch.as_json)
    if settled.is_of_corpora:
        rows = with_scope(rows, CORPORA.empty() if corpora is None else corpora)
    if source.settings.kind == FILE:
        rows = rows.with_columns(_hashes_of_bytes(rows, batch, file, settled.text))
    too_long = pl.col("text").str.len_bytes() > settings.load.max_text_bytes
    fits = pl.when(too_long).then(pl.lit(TEXT_FITS))
    rows = rows.with_columns(broken=pl.coalesce("broken", fits, ROWS.broken_rule()))
    good = rows.filter(pl.col("broken").is_null()).drop("broken")
    bad = rows.filter(pl.col("broken").is_not_null()).select(
        *("source", "source_row_id", "locator", "scope", "text", "metadata", "corpus_id", "source_doc_id"),
        reason=pl.col("broken"),
    )
    return good, pl.concat([refused, as_rejects(bad)])


def _settled(
    batch: Batch,
    source: Source,
    file: SourceFile,
    settings: Settings,
    default_scope: DefaultScope,
    *,
    has_corpora: bool,
) -> ColumnMap:
    """Which column of the batch is what, or UnreadableSource saying which there are."""
    mapping = source.settings.column_map(source=source.name, scope_by=settings.scope.by, has_corpora=has_corpora)
    # A scope that is asked for by name must be there; only the usual one gives way to the default.
    asked_for = source.settings.scope_by is not None or settings.scope.required
    default = None if asked_for else settings.scope.default
    try:
        settled = resolved(mapping, batch.rows.columns, default_scope=default, partitions=batch.partitions)
    except MissingColumn as missing:
        raise UnreadableSource(f"{file.path}: {missing}") from None
    default_scope.see(file, mapping, settled)
    return settled


def _is_chunked(source: Source, file: SourceFile) -> bool:
    return file.format == "documents" if source.settings.chunk is None else source.settings.chunk


def _in_windows(batch: Batch, file: SourceFile, text: str, settings: Settings) -> Batch:
    """The batch with a row for each window of its texts, in the same columns and `chunk_index`."""
    if "chunk_index" in batch.rows.columns:
        raise UnreadableSource(
            f"{file.path}: has a column chunk_index, so its texts are windows already; leave out chunk = true"
        )
    if batch.rows.schema[text] not in (pl.String, pl.Null) or text in batch.as_json:
        raise UnreadableSource(f"{file.path}: chunk = true cuts text, and {text!r} is {_held_in(batch, text)}")
    number = max(batch.rows.columns, key=len) + "#"  # a name that no column has
    windows = chunk_documents(
        batch.rows.with_columns(batch.numbers.alias(number)),
        text=text,
        tokens=settings.chunking.tokens,
        overlap=settings.chunking.overlap,
    )
    return replace(batch, rows=windows.drop(number), numbers=windows[number])


def _held_in(batch: Batch, column: str) -> str:
    return "lists or objects" if column in batch.as_json else str(batch.rows.schema[column])


def _refused_lines(batch: Batch, source: Source) -> pl.DataFrame:
    """The lines that a reader could not make into rows, as rejects."""
    columns = ("locator", "detail", "reason")
    lines = {name: [getattr(refused, name) for refused in batch.refused] for name in columns}
    rows = pl.DataFrame(lines, schema=dict.fromkeys(columns, pl.String))
    return as_rejects(rows.with_columns(source=pl.lit(source.name)))


def as_rejects(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with source, locator and reason in the shape of REJECTS; the runs are set when they are published.

    The id also has what the row says, as far as it is known: another bad row in the same place is another reject.
    """
    said = [pl.col(name) for name in ("source_row_id", *_SAID) if name in rows.columns]
    reject_id = derived_id(pl.col("reason"), pl.col("source"), pl.col("locator"), *said)
    return REJECTS.shaped(rows.with_columns(reject_id=reject_id))


def _hashes_of_bytes(rows: pl.DataFrame, batch: Batch, file: SourceFile, column: str | None) -> pl.Series:
    """The content hash of each file row: of the file itself, or of the bytes in a column."""
    scopes = rows["scope"].to_list()
    if file.format == BYTES:
        hashes = [None if scope is None else file_hash(scope, _blocks(file.path)) for scope in scopes]
    elif column is None:
        raise UnreadableSource(f"{file.path}: no column with the bytes; name one with text_column")
    elif batch.rows.schema[column] not in (pl.Binary, pl.String, pl.Null) or column in batch.as_json:
        raise UnreadableSource(
            f'{file.path}: kind = "{FILE}" takes bytes, and {column!r} is {_held_in(batch, column)}; '
            "name another column"
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
