"""Tables of all formats as a stream of frames. Bad lines are told apart from a file that cannot be read.

Every batch of a file has the same columns and types, so that a row is read the same wherever a batch ends.
"""

import codecs
import csv
import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite
from pathlib import Path
from types import NoneType
from typing import Any, TextIO
from urllib.parse import unquote

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import from_json

from flows.documents import codec_of_mark, document_bytes, document_text
from flows.errors import UnreadableSource
from flows.settings import InputSettings, LoadSettings
from flows.sources import BYTES, SourceFile, shown
from schemas.rows import LINE_PARSES, TEXT_FITS

# `batch_rows` bounds a batch of short rows, these bound one of long rows: of a table, and of lines of text, whose
# values are Python's on their way.
_BATCH_BYTES = 64 * 1024 * 1024
_BLOCK_CHARACTERS = 16 * 1024 * 1024
_DELIMITERS = ",;\t|"
_MOST_OF_HEADER = 1024 * 1024
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# Arrow types that Polars has no column for.
_NOT_HELD = (
    pa.types.is_union,
    pa.types.is_interval,
    pa.types.is_run_end_encoded,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


@dataclass(frozen=True)
class Refused:
    """A line that could not be made into a row, and the rule it breaks."""

    locator: str
    detail: str
    reason: str = LINE_PARSES


@dataclass(frozen=True)
class Batch:
    """Rows of one file, in order, with the number of each in its file, counted from 1: of csv and jsonl the line.

    Columns of `partitions` are said by its folders, those of `as_json` have their values written as JSON. `is_cut`:
    the rows are windows already.
    """

    rows: pl.DataFrame
    numbers: pl.Series
    refused: list[Refused] = field(default_factory=list)
    partitions: frozenset[str] = frozenset()
    as_json: frozenset[str] = frozenset()
    is_cut: bool = False


# Given what is known of a document without its text, and its bytes: the rows it became before, None where it is new.
Recall = Callable[[Batch, bytes], Batch | None]


def read(
    file: SourceFile, *, given: InputSettings, load: LoadSettings, recall: Recall | None = None
) -> Iterator[Batch]:
    """The file as a stream of batches, or UnreadableSource in one line that names it. A document that `recall` knows is
    not parsed."""
    readers = {
        "parquet": _parquet,
        "csv": _csv,
        "jsonl": _jsonl,
        "arrow": _arrow,
        "duckdb": _duckdb,
        "documents": _document,
        BYTES: _bytes,
    }
    if recall is not None and file.format == "documents":
        readers["documents"] = lambda file, given, load: _known_document(file, recall)
    name = shown(file.path)
    if name != str(file.path):
        raise UnreadableSource(f"{name}: the name of the file is not UTF-8; rename it")
    try:
        before = _stamp(file.path)
        if file.format not in ("documents", BYTES) and before[0] == 0:
            raise UnreadableSource(f"{name}: the file is empty (0 bytes)")
        partitions = _partitions(file.path)
        for batch in readers[file.format](file, given, load):
            yield _with_partitions(batch, partitions)
        if _stamp(file.path) != before:
            raise UnreadableSource(f"{name}: changed while it was read; run again when it is written to its end")
    except OSError as error:
        raise UnreadableSource(
            f"{name}: cannot be read as {file.format}: {error.strerror or _first_line(error)}"
        ) from error
    except (UnicodeError, pa.ArrowException, duckdb.Error, pl.exceptions.PolarsError) as error:
        raise UnreadableSource(f"{name}: cannot be read as {file.format}: {_first_line(error)}") from error


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    # A pipe would be waited on for ever, a device may never end, and neither can be read twice.
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableSource(f"{path}: not a regular file; save what it gives to one, and name that")
    return status.st_size, status.st_mtime_ns


def _partitions(path: Path) -> dict[str, str | None]:
    """What the folders of a file say of all its rows, as in `workspace_id=acme/part-0.parquet`. Who writes such folders
    leaves the column out of the file; without it, the rows of all of them would be in one scope. An empty value is
    null."""
    folders = Path(os.path.abspath(path)).parts[:-1]  # noqa: PTH100  (links kept as they are named)
    said = [folder.split("=", 1) for folder in folders if folder.find("=") > 0]
    return {key: None if value in ("", _NULL_PARTITION) else unquote(value) for key, value in said}


def _with_partitions(batch: Batch, partitions: dict[str, str | None]) -> Batch:
    """The batch with those as columns; a column of the file's own stands."""
    # A column `chunk_index` always numbers windows, and no folder holds the one window of that number.
    missing = {key: value for key, value in partitions.items() if key not in (*batch.rows.columns, "chunk_index")}
    if not missing or not batch.rows.width:
        return batch
    columns = [pl.lit(value, dtype=pl.String).alias(key) for key, value in missing.items()]
    return replace(batch, rows=batch.rows.with_columns(columns), partitions=frozenset(missing))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _first_repeated(names: list[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


# --- tables with types of their own -----------------------------------------------------------------------------------


def _numbered(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, most: int) -> Iterator[Batch]:
    """The batches cut to at most that many rows; one without rows where there are none, to show the columns."""
    if not schema.names:
        raise pa.ArrowInvalid("the table has no columns")
    if twice := _first_repeated(schema.names):
        raise pa.ArrowInvalid(f"the table has {twice!r} more than once; rename one of them")
    held = pa.schema([pa.field(column.name, _held(column.type, column.name)) for column in schema])
    uuids = [column.name for column in schema if column.type == pa.uuid()]
    first = 1
    for batch in batches:
        # Nothing above checks that strings are UTF-8, and Polars takes it for granted.
        batch.validate(full=True)
        for start in range(0, batch.num_rows, most):
            rows = _frame(batch.slice(start, most), held, uuids)
            yield _in_order(rows, first)
            first += rows.height
    if first == 1:
        yield _in_order(_frame(held.empty_table(), held, uuids), first)


def _in_order(rows: pl.DataFrame, first: int) -> Batch:
    return Batch(rows, pl.int_range(first, first + rows.height, dtype=pl.Int64, eager=True))


def _frame(batch: pa.RecordBatch | pa.Table, held: pa.Schema, uuids: list[str]) -> pl.DataFrame:
    """The batch with its columns in the types of `held`, and UUIDs as people write them."""
    frame = pl.from_arrow(batch.cast(held))
    assert isinstance(frame, pl.DataFrame)  # a batch or table never comes back as a Series
    return frame.with_columns(_written_uuid(frame[name]) for name in uuids)


def _written_uuid(raw: pl.Series) -> pl.Series:
    digits, borders = raw.bin.encode("hex"), (0, 8, 12, 16, 20, 32)
    parts = [digits.str.slice(start, end - start) for start, end in pairwise(borders)]
    return pl.select(pl.concat_str(parts, separator="-")).to_series().alias(raw.name)


def _held(dtype: pa.DataType, column: str) -> pa.DataType:
    """The type with a place in Polars that holds the values of an Arrow type; ArrowTypeError where there is none."""
    if isinstance(dtype, pa.BaseExtensionType):
        return _held(dtype.storage_type, column)
    if any(is_of(dtype) for is_of in _NOT_HELD):
        raise pa.ArrowTypeError(f"column {column!r} is {dtype}; cast it to text, or leave it out")
    if pa.types.is_decimal256(dtype):
        return pa.string()
    if pa.types.is_timestamp(dtype) and (dtype.tz or "").startswith(("+", "-")):
        return pa.timestamp(dtype.unit, "UTC")
    return _held_inside(dtype, column) if pa.types.is_nested(dtype) else dtype


def _held_inside(dtype: pa.DataType, column: str) -> pa.DataType:
    """A list, map or struct of what holds its members."""
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(member.name, _held(member.type, column)) for member in dtype])
    if pa.types.is_map(dtype):
        return pa.map_(_held(dtype.key_type, column), _held(dtype.item_type, column))
    inner = _held(dtype.value_type, column)
    return dtype if inner == dtype.value_type else pa.large_list(inner)


def _parquet(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    with pq.ParquetFile(file.path) as parquet:
        about = parquet.metadata
        size = sum(about.row_group(n).total_byte_size for n in range(about.num_row_groups))
        most = max(1, min(load.batch_rows, _BATCH_BYTES * about.num_rows // max(1, size)))
        yield from _numbered(parquet.iter_batches(most), parquet.schema_arrow, most=most)


def _arrow(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    """An Arrow IPC file, which says so in its first bytes, or else a stream."""
    with pa.OSFile(str(file.path)) as opened:
        is_file = opened.read(6) == b"ARROW1"
        opened.seek(0)
        with pa.ipc.open_file(opened) if is_file else pa.ipc.open_stream(opened) as reader:
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            yield from _numbered(batches, reader.schema, most=load.batch_rows)


def _duckdb(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    with closing(duckdb.connect(str(file.path), read_only=True)) as connection:
        found = connection.execute(
            "select schema_name, table_name from duckdb_tables() where not internal union "
            "select schema_name, view_name from duckdb_views() where not internal order by all"
        ).fetchall()
        tables = {table if schema == "main" else f"{schema}.{table}": (schema, table) for schema, table in found}
        if given.table not in tables:
            asked = "set table = ..." if given.table is None else f"no table {given.table!r}"
            raise UnreadableSource(f"{file.path}: {asked}; there are {', '.join(tables) or 'none'}")
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in tables[given.table])
        reader = connection.execute(f"select * from {quoted}").to_arrow_reader(load.batch_rows)
        yield from _numbered(reader, reader.schema, most=load.batch_rows)


# --- lines of text ----------------------------------------------------------------------------------------------------


@contextmanager
def _lines_of(file: SourceFile, encoding: str, *, newline: str) -> Iterator[TextIO]:
    """The file as text in its encoding, without its byte order mark; UnreadableSource where it is in another."""
    _check_mark(file.path, encoding)
    with file.path.open(encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline=newline) as opened:
        try:
            yield opened
        except UnicodeError:
            raise _not_in_encoding(file.path, encoding) from None


def _check_mark(path: Path, encoding: str) -> None:
    """A mark of another encoding would be read as letters, and stand in the name of the first column."""
    with path.open("rb") as opened:
        mark = codec_of_mark(opened.read(4))
    marked = mark and mark.removesuffix("-sig")
    if marked is None and encoding == "utf-16":
        raise UnreadableSource(f"{path}: has no byte order mark, so it is not utf-16; save the file as UTF-8")
    if marked not in (None, encoding):
        remedy = "save the file as UTF-8" if marked == "utf-32" else f'set encoding = "{marked}" for this input'
        raise UnreadableSource(f"{path}: begins with the byte order mark of {marked}, not {encoding}; {remedy}")


def _not_in_encoding(path: Path, encoding: str) -> UnreadableSource:
    """The error for a file that is not in its encoding, with the line; the file is read again to find it."""
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    with path.open("rb") as opened:
        while True:
            block = opened.read(1024 * 1024)
            try:
                line += decoder.decode(block, final=not block).count("\n")
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                break
            if not block:
                break
    others = " or ".join(f'"{other}"' for other in ("utf-8", "latin-1", "cp1252", "utf-16") if other != encoding)
    return UnreadableSource(
        f"{path}: line {line} is not {encoding}; set encoding = {others} for this input, or save the file as UTF-8"
    )


def _csv(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    """Every value as text, an empty one as null; a row goes by the line it begins on. A row with too few or too many
    values is refused and the rest goes on. A quote that never closes would swallow rows unseen, so it makes the file
    as a whole unreadable, as a wrong encoding does."""
    # The bound on what an open quote can swallow. It is the process's, because the module knows no other.
    longest = min(load.max_text_bytes * 2 + 1024 * 1024, sys.maxsize)
    csv.field_size_limit(longest)
    delimiter = given.delimiter or _delimiter_of(file, given.encoding)
    with _lines_of(file, given.encoding, newline="") as opened:
        records = _records(opened, delimiter, file, longest=longest)
        columns = _header(next(records, None), file)
        rows: list[list[str]] = []
        numbers: list[int] = []
        refused: list[Refused] = []
        characters = 0
        for line, values in records:
            if isinstance(values, Refused):
                refused.append(values)
            elif len(values) == len(columns):
                rows.append(values)
                numbers.append(line)
                characters += sum(map(len, values))
            else:
                detail = f"the header has {len(columns)} columns, the line has {len(values)}"
                refused.append(Refused(f"{file.name}:{line}", detail))
            if len(rows) + len(refused) >= load.batch_rows or characters >= _BLOCK_CHARACTERS:
                yield Batch(_texts(columns, rows), pl.Series(numbers, dtype=pl.Int64), refused)
                rows, numbers, refused, characters = [], [], [], 0
        yield Batch(_texts(columns, rows), pl.Series(numbers, dtype=pl.Int64), refused)


class _Lines:
    """The lines of a file, and the last that was taken: a `csv.reader` does not show the line it fails on."""

    def __init__(self, opened: TextIO) -> None:
        self._lines = iter(opened)
        self.last = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.last = next(self._lines)
        return self.last


def _records(
    opened: TextIO, delimiter: str, file: SourceFile, *, longest: int
) -> Iterator[tuple[int, list[str] | Refused]]:
    """The records of a csv that are not blank, with the line each begins on."""
    lines = _Lines(opened)
    table = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = table.line_num + 1
        try:
            values = next(table)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" not in str(error):
                raise UnreadableSource(
                    f"{file.path}: line {line}: a quote is opened and never closed, or text follows a closed one; "
                    'put the whole value in quotes, and write a quote inside it twice ("")'
                ) from None
            # Where the record goes on over the line's end, nobody knows where the next one begins.
            if table.line_num > line or lines.last.count('"') % 2:
                raise UnreadableSource(
                    f"{file.path}: line {line}: a value of more than {longest:,} characters begins here; "
                    "close its quote, or raise [load] max_text_bytes"
                ) from None
            detail = f"a value has more than {longest:,} characters"
            yield line, Refused(f"{file.name}:{line}", detail, TEXT_FITS)
            continue
        if values:
            yield line, values


def _delimiter_of(file: SourceFile, encoding: str) -> str:
    """The tab in a .tsv; else the delimiter that cuts the first line with anything on it into the most columns."""
    if file.path.suffix.lower() == ".tsv":
        return "\t"
    with _lines_of(file, encoding, newline="") as opened:
        header = next((line for line in iter(lambda: opened.readline(_MOST_OF_HEADER), "") if line.strip()), "")
    return max(_DELIMITERS, key=lambda delimiter: len(next(csv.reader([header], delimiter=delimiter), [])))


def _header(record: tuple[int, list[str] | Refused] | None, file: SourceFile) -> list[str]:
    """The columns' names. A column without one, as the index that pandas writes, is called by its place."""
    values = record[1] if record is not None else []
    if isinstance(values, Refused) or not any(value.strip() for value in values):
        raise UnreadableSource(f"{file.path}: no header; the first line must name the columns")
    columns = [value.strip() or f"column_{place}" for place, value in enumerate(values, 1)]
    if twice := _first_repeated(columns):
        raise UnreadableSource(f"{file.path}: the header names {twice!r} more than once; rename one of them")
    return columns


def _texts(columns: list[str], rows: list[list[str]]) -> pl.DataFrame:
    by_column = zip(*rows, strict=True) if rows else ((),) * len(columns)
    return pl.DataFrame(
        {name: [value or None for value in values] for name, values in zip(columns, by_column, strict=True)},
        schema=dict.fromkeys(columns, pl.String),
    )


# --- JSON lines -------------------------------------------------------------------------------------------------------

_MOST_COLUMNS = 4096
_WHOLE_AS_FLOAT = 2**53
_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
# Kinds of values and the type that holds them, the first that fits; no value at all is text, and so is what none holds.
_SCALARS: tuple[tuple[set[object], type[pl.DataType]], ...] = (
    ({str}, pl.String),
    ({bool}, pl.Boolean),
    ({int, "wide"}, pl.Int64),
    ({int, float}, pl.Float64),
)


def _jsonl(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    """One object a line; a line that is none is refused. A column has the one type that holds all its values in the
    file, text where none does; a key that an object lacks is null. To know the columns, the file is read twice.

    Lists and objects are JSON, not typed: in a type for all of them, a value would have the keys of its neighbours."""
    kinds: dict[str, set[object]] = {}
    blocks: Iterable[_Block] = []
    seen = 0
    for block in _jsonl_blocks(file, given, load):
        blocks, seen = [block], seen + 1
        for column in dict.fromkeys(key for value in block.objects for key in value):
            kinds.setdefault(column, set()).update(_kinds([value.get(column) for value in block.objects]))
        if len(kinds) > _MOST_COLUMNS:
            raise UnreadableSource(f"{file.path}: more than {_MOST_COLUMNS:,} different keys; put them under one key")
    as_json = frozenset(column for column, seen_there in kinds.items() if seen_there & {list, dict})
    dtypes = {column: _dtype(kinds[column]) for column in sorted(kinds)}
    if not seen:
        raise UnreadableSource(f"{file.path}: nothing but blank lines; write one JSON object a line")
    for block in _jsonl_blocks(file, given, load) if seen > 1 else blocks:
        columns = {name: [value.get(name) for value in block.objects] for name in dtypes}
        rows = pl.DataFrame(
            {
                name: _json_column(values) if name in as_json else _column(values, dtypes[name])
                for name, values in columns.items()
            }
        )
        yield Batch(rows, pl.Series(block.numbers, dtype=pl.Int64), block.refused, as_json=as_json)


@dataclass(frozen=True)
class _Block:
    """The objects of some lines of a file, with the line of each."""

    objects: list[dict[str, Any]]
    numbers: list[int]
    refused: list[Refused]


def _jsonl_blocks(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[_Block]:
    """The lines in blocks of bounded size; a block without anything on its lines is left out."""
    first = 1
    with _lines_of(file, given.encoding, newline="\n") as opened:
        while lines := opened.readlines(_BLOCK_CHARACTERS):
            for start in range(0, len(lines), load.batch_rows):
                block = _parsed(lines[start : start + load.batch_rows], first + start, file.name)
                if block.objects or block.refused:
                    yield block
            first += len(lines)


def _parsed(lines: list[str], first: int, name: str) -> _Block:
    block = _Block([], [], [])
    for number, line in enumerate(lines, first):
        inked = line.strip()
        if not inked:
            continue
        try:
            value = from_json(inked, cache_strings="keys")
        except ValueError as error:
            block.refused.append(Refused(f"{name}:{number}", _first_line(error).replace(" at line 1 ", " at ")))
            continue
        if isinstance(value, dict) and value:
            block.objects.append(value)
            block.numbers.append(number)
        else:
            got = "an empty one" if value == {} else type(value).__name__
            block.refused.append(Refused(f"{name}:{number}", f"expected an object, got {got}"))
    return block


def _kinds(values: list[Any]) -> set[object]:
    """What the values are, as far as it decides on the type that holds them."""
    kinds: set[object] = {kind for kind in set(map(type, values)) if kind is not NoneType}
    if int in kinds:
        widest = max(abs(value) for value in values if type(value) is int)
        kinds |= {"wide"} if widest > _WHOLE_AS_FLOAT else set()
        kinds |= {"huge"} if widest >= 2**63 else set()
    return kinds


def _dtype(kinds: set[object]) -> type[pl.DataType] | None:
    """The type that holds every value without loss; None where there is none."""
    return next((dtype for held, dtype in _SCALARS if kinds <= held), None)


def _column(values: list[Any], dtype: type[pl.DataType] | None) -> pl.Series:
    if dtype is None:
        return pl.Series([_as_text(value) for value in values], dtype=pl.String)
    if dtype == pl.Float64:
        # Python writes NaN and Infinity, which JSON does not have.
        values = [value if value is None or isfinite(value) else None for value in values]
    return pl.Series(values, dtype=dtype, strict=False)


def _as_text(value: Any) -> str | None:
    """A value of a column of several types: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else _as_json(value)


def _json_column(values: list[Any]) -> pl.Series:
    return pl.Series([_as_json(value) for value in values], dtype=pl.String)


def _as_json(value: Any) -> str | None:
    """The one way to write a value: keys in order, a whole number without its point. What JSON has no word for is
    null."""
    if isinstance(value, float):
        if not isfinite(value):
            return None
        value = int(value) if value.is_integer() and abs(value) < _WHOLE_AS_FLOAT else value
    if value is None:
        return None
    try:
        return _JSON.encode(value)
    except ValueError:
        return _JSON.encode(_finite(value))


def _finite(value: Any) -> Any:
    """The value with null for every NaN and infinity in it."""
    match value:
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list():
            return [_finite(inner) for inner in value]
        case float():
            return value if isfinite(value) else None
        case _:
            return value


# --- documents and files ----------------------------------------------------------------------------------------------


def _about(file: SourceFile) -> dict[str, Any]:
    """What is known of a file without reading it: columns that scope and metadata can use."""
    size = file.path.stat().st_size
    known = {"path": file.name, "folder": file.folder, "name": file.path.name, "size_bytes": size}
    return {**known, "id": file.name, "doc_id": file.name}


def _document(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    text = document_text(file.path, document_bytes(file.path))
    yield _in_order(pl.DataFrame([{**_about(file), "text": text}]), 1)


def _known_document(file: SourceFile, recall: Recall) -> Iterator[Batch]:
    """As `_document`; parsed only if nobody knows what these bytes are."""
    content, about = document_bytes(file.path), pl.DataFrame([_about(file)])
    known = recall(_with_partitions(_in_order(about, 1), _partitions(file.path)), content)
    if known is not None:
        yield known
    else:
        yield _in_order(about.with_columns(text=pl.lit(document_text(file.path, content))), 1)


def _bytes(file: SourceFile, given: InputSettings, load: LoadSettings) -> Iterator[Batch]:
    yield _in_order(pl.DataFrame([_about(file)]), 1)
