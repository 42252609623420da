"""Files of pairs: read whole from parquet, csv or jsonl, and written whole or not at all."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile

import polars as pl

from flows.errors import NightfoldError, UnreadableSource
from flows.readers import read
from flows.settings import InputSettings, LoadSettings
from flows.sources import SourceFile, shown

_READ = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_WRITTEN = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class NotWritten(NightfoldError):
    """A file that could not be written where it was asked for."""


@dataclass(frozen=True)
class PairFile:
    """The rows of a file, in their order; the columns of `as_json` hold lists and objects, written as JSON."""

    path: Path
    rows: pl.DataFrame
    as_json: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What errors call it."""
        return shown(self.path)

    def need(self, columns: list[str], *, remedy: str) -> None:
        """UnreadableSource where one of the columns is missing."""
        missing = [name for name in columns if name not in self.rows.columns]
        if missing:
            raise UnreadableSource(
                f"{self.name}: no column {' or '.join(missing)}; {remedy} (there are {', '.join(self.rows.columns)})"
            )


def read_pairs(path: Path, *, load: LoadSettings) -> PairFile:
    """All rows of a file with its columns in their order, or UnreadableSource in one line that names it."""
    form = _READ.get(path.suffix.lower())
    if form is None:
        raise UnreadableSource(f"{shown(path)}: unknown kind of file {path.suffix!r}; name a {_either(_READ)} file")
    file = SourceFile(path, shown(Path(path.name)), form)
    # What its folders are called is not in the file.
    batches = [
        (batch.rows.drop(batch.partitions), batch)
        for batch in read(file, given=InputSettings(path=str(path)), load=load)
    ]
    refused = [line for _, batch in batches for line in batch.refused]
    rows = pl.concat([rows for rows, _ in batches])
    if refused:
        raise UnreadableSource(
            f"{shown(path)}: {len(refused):,} of {rows.height + len(refused):,} lines are no row, the first at "
            f"{refused[0].locator} ({refused[0].detail}); mend them, or take them out"
        )
    if form == "jsonl":
        rows = rows.select(_in_order_of_file(path, rows.columns))
    return PairFile(path, rows, batches[0][1].as_json)


def _in_order_of_file(path: Path, columns: list[str]) -> list[str]:
    """The columns as the first lines have them: the reader has them by name, since objects may differ."""
    with path.open(encoding="utf-8-sig") as opened:
        firsts = [json.loads(line) for line in islice(opened, 100) if line.strip()]
    return list(dict.fromkeys([*(key for first in firsts for key in first), *columns]))


def check_out(out: Path, *, given: Path) -> None:
    """NotWritten where nothing can be written there, told before an hour of judging and not after it."""
    if out.suffix.lower() not in _WRITTEN:
        raise NotWritten(f"{shown(out)}: unknown kind of file {out.suffix!r}; name a {_either(_WRITTEN)} file")
    if out.is_dir():
        raise NotWritten(f"{shown(out)}: is a folder; name a file")
    if not out.parent.is_dir():
        raise NotWritten(f"{shown(out.parent)}: no such folder; make it, or name another --out")
    if out.exists() and given.exists() and out.samefile(given):
        raise NotWritten(f"{shown(out)}: is the file that is read; name another --out")


def write_pairs(out: Path, rows: pl.DataFrame, *, as_json: frozenset[str] = frozenset()) -> None:
    """Writes the rows in the format of the name's suffix."""
    form = _WRITTEN[out.suffix.lower()]
    if form == "csv":
        for name, dtype in rows.schema.items():
            if dtype.is_nested() or dtype == pl.Binary:
                raise NotWritten(
                    f"{shown(out)}: column {name} is {dtype}, which a csv cannot hold; write a .parquet file"
                )
    writers: dict[str, Callable[[Path], object]] = {
        "parquet": rows.write_parquet,
        "csv": rows.write_csv,
        "jsonl": lambda path: _write_jsonl(path, rows, as_json),
    }
    with whole_file(out) as partial:
        writers[form](partial)


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """A file beside `out` to write to, which takes its place at the end of the block and is gone after a failure."""
    partial: Path | None = None
    try:
        with NamedTemporaryFile(dir=out.parent, prefix=f".{out.name}.", suffix=".partial", delete=False) as file:
            partial = Path(file.name)
        partial.chmod(0o644)
        yield partial
        partial.replace(out)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = getattr(error, "strerror", None) or next(iter(str(error).splitlines()), type(error).__name__)
        raise NotWritten(f"{shown(out)}: cannot be written: {why}; make room, or name another file") from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _write_jsonl(path: Path, rows: pl.DataFrame, as_json: frozenset[str]) -> None:
    if not as_json:
        rows.write_ndjson(path)
        return
    with path.open("w", encoding="utf-8") as file:
        for row in rows.iter_rows(named=True):
            said = {name: json.loads(row[name]) for name in as_json if row[name] is not None}
            file.write(json.dumps(row | said, ensure_ascii=False) + "\n")


def _either(suffixes: dict[str, str]) -> str:
    *others, last = suffixes
    return f"{', '.join(others)} or {last}"
