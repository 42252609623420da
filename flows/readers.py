"""Tables of all formats as a stream of frames. Bad lines are told apart from a file that cannot be read."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from flows.documents import read_document
from flows.errors import UnreadableSource
from flows.settings import InputSettings, LoadSettings
from flows.sources import BYTES, SourceFile

_JSONL_BLOCK_BYTES = 16 * 1024 * 1024
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Refused:
    """A line or file that could not be made into a row."""

    locator: str
    detail: str


@dataclass(frozen=True)
class Batch:
    """Rows of one file, in order, with the number of each in its file, counted from 1."""

    rows: pl.DataFrame
    numbers: pl.Series
    refused: list[Refused] = field(default_factory=list)


def read(file: SourceFile, *, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    """The file as a stream of batches, or UnreadableSource in one line that names it."""
    readers = {
        "parquet": _parquet,
        "csv": _csv,
        "jsonl": _jsonl,
        "arrow": _arrow,
        "duckdb": _duckdb,
        "documents": _document,
        BYTES: _bytes,
    }
    try:
        if file.format not in ("documents", BYTES) and file.path.stat().st_size == 0:
            raise UnreadableSource(f"{file.path}: the file is empty (0 bytes)")
        yield from readers[file.format](file, given, load)
    except UnreadableSource:
        raise
    except (OSError, pa.ArrowException, duckdb.Error, pl.exceptions.PolarsError, UnicodeError) as error:
        raise UnreadableSource(f"{file.path}: cannot be read as {file.format}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _in_order(rows: pl.DataFrame, first: int) -> Batch:
    return Batch(rows, pl.int_range(first, first + rows.height, dtype=pl.Int64, eager=True))


def _numbered(frames: Iterator[pl.DataFrame]) -> Iterator[Batch]:
    first = 1
    for rows in frames:
        yield _in_order(rows, first)
        first += rows.height


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)  # a record batch never comes back as a Series
    return frame


def _parquet(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    with pq.ParquetFile(file.path) as parquet:
        yield from _numbered(_frame(batch) for batch in parquet.iter_batches(load.batch_rows))
        if parquet.metadata.num_rows == 0:
            yield _in_order(_frame(pa.RecordBatch.from_pylist([], schema=parquet.schema_arrow)), 1)


def _arrow(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    """An Arrow IPC file, or a stream where it is none."""
    with pa.OSFile(str(file.path)) as opened:
        try:
            with pa.ipc.open_file(opened) as reader:
                yield from _numbered(_frame(reader.get_batch(n)) for n in range(reader.num_record_batches))
            return
        except pa.ArrowInvalid:
            opened.seek(0)
        with pa.ipc.open_stream(opened) as stream:
            yield from _numbered(_frame(batch) for batch in stream)


def _duckdb(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    with closing(duckdb.connect(str(file.path), read_only=True)) as connection:
        tables = [
            str(row[0])
            for row in connection.execute("select table_name from duckdb_tables() union select view_name "
                                          "from duckdb_views() where not internal order by 1").fetchall()
        ]
        if given.table not in tables:
            asked = "set table = ..." if given.table is None else f"no table {given.table!r}"
            raise UnreadableSource(f"{file.path}: {asked}; there are {', '.join(tables) or 'none'}")
        reader = connection.table(given.table).to_arrow_reader(load.batch_rows)
        yield from _numbered(_frame(batch) for batch in reader)


def _csv(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    """Every value as text. A line with too few or too many values is refused and the rest goes on; a quote that
    never closes or a wrong encoding would swallow rows unseen, so the file as a whole is not readable."""
    delimiter, columns = _csv_header(file.path, given)
    longest = load.max_text_bytes * 2 + 1024 * 1024
    with closing(duckdb.connect()) as connection:
        connection.execute(
            "select * from read_csv($path, auto_detect=false, header=true, delim=$delim, quote='\"', escape='\"', "
            "columns=$columns, encoding=$encoding, nullstr='', strict_mode=true, store_rejects=true, "
            "rejects_limit=0, max_line_size=$longest, buffer_size=$buffer)",
            {
                "path": glob_escaped(file.path),
                "delim": delimiter,
                "columns": dict.fromkeys(columns, "VARCHAR"),
                "encoding": given.encoding,
                "longest": longest,
                "buffer": longest * 2,
            },
        )
        last = 0
        for batch in connection.to_arrow_reader(load.batch_rows):
            yield _in_order(_frame(batch), last + 1)
            last += batch.num_rows
        # One line can break several rules; it is one row all the same.
        faults = connection.execute(
            "select line, list(error_type::varchar order by error_type), "
            "any_value(error_message order by error_type) from reject_errors group by line order by line"
        ).fetchall()
    for line, kinds, _ in faults:
        if "INVALID ENCODING" in kinds:
            raise UnreadableSource(
                f"{file.path}: line {line} is not {given.encoding}; "
                'set encoding = "latin-1" or "utf-16" for this input, or save the file as UTF-8'
            )
        if "UNQUOTED VALUE" in kinds:
            raise UnreadableSource(f"{file.path}: line {line}: a quote is opened and never closed; mend the line")
    refused = [Refused(f"{file.name}:line {line}", str(message)) for line, _, message in faults]
    yield replace(_in_order(pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), last + 1), refused=refused)


def glob_escaped(path: Path) -> str:
    """The path as DuckDB takes it for one file, whatever its name holds."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))


def _csv_header(path: Path, given: InputSettings) -> tuple[str, list[str]]:
    with path.open(encoding="utf-8-sig" if given.encoding == "utf-8" else given.encoding, newline="") as opened:
        try:
            header = opened.readline()
        except UnicodeDecodeError:
            raise UnreadableSource(
                f"{path}: line 1 is not {given.encoding}; set encoding = \"latin-1\" or \"utf-16\" for this input"
            ) from None
    delimiter = given.delimiter or max(_DELIMITERS, key=header.count)
    columns = [name.strip().strip('"').replace('""', '"') for name in header.rstrip("\r\n").split(delimiter)]
    if not any(columns) or len(set(columns)) < len(columns) or not all(columns):
        raise UnreadableSource(f"{path}: the header must name every column once, got {header.strip()[:200]!r}")
    return delimiter, columns


def _jsonl(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    """One object a line. Lines that are no object are refused; a block without such lines is read at once."""
    first = 1
    with file.path.open("rb") as opened:
        while lines := opened.readlines(_JSONL_BLOCK_BYTES):
            if first == 1:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            try:
                block = b"".join(lines).decode(given.encoding)
            except UnicodeDecodeError as error:
                line = first + error.object[: error.start].count(b"\n")
                raise UnreadableSource(f"{file.path}: line {line} is not {given.encoding}; save it as UTF-8") from None
            yield from _jsonl_block(block, lines, first, file.name, given.encoding)
            first += len(lines)


def _jsonl_block(block: str, lines: list[bytes], first: int, name: str, encoding: str) -> Iterator[Batch]:
    blank_lines = any(not line.strip() for line in lines)
    if not blank_lines:
        try:
            rows = pl.read_ndjson(block.encode(), infer_schema_length=None)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            rows = None
        if rows is not None and rows.height == len(lines):
            yield _in_order(rows, first)
            return
    objects: list[dict[str, str | None]] = []
    numbers: list[int] = []
    refused: list[Refused] = []
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode(encoding))
        except ValueError as error:
            refused.append(Refused(f"{name}:line {number}", _first_line(error)))
            continue
        if not isinstance(value, dict):
            refused.append(Refused(f"{name}:line {number}", f"expected an object, got {type(value).__name__}"))
            continue
        objects.append({k: v if isinstance(v, str | None) else json.dumps(v, ensure_ascii=False) for k, v in value.items()})
        numbers.append(number)
    columns = sorted({key for value in objects for key in value})
    rows = pl.DataFrame(objects, schema=dict.fromkeys(columns, pl.String))
    yield Batch(rows, pl.Series(numbers, dtype=pl.Int64), refused)


def _about(file: SourceFile) -> dict[str, Any]:
    """What is known of a file without reading it: columns that scope and metadata can use."""
    size = file.path.stat().st_size
    known = {"path": file.name, "folder": file.folder, "name": file.path.name, "size_bytes": size}
    return {**known, "id": file.name, "doc_id": file.name}


def _document(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    yield _in_order(pl.DataFrame([{**_about(file), "text": read_document(file.path)}]), 1)


def _bytes(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    yield _in_order(pl.DataFrame([_about(file)]), 1)
