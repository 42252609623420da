"""The log of a night for machines: events with their run, stage and figures, and the chunk where one is meant. The text
of a row is in none of them."""

import json
import logging
import logging.handlers
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from flows.errors import NightfoldError, UnreadableSource
from flows.settings import LogSettings
from schemas.terms import COMPLETE

_logger = logging.getLogger("nightfold.night")
logging.getLogger("nightfold").addHandler(logging.NullHandler())
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}
_FIELDS = "nightfold_fields"
_NAMES_COLUMNS = "there are ", "the header names "


class LogNotWritten(NightfoldError):
    """The file of the log cannot be written to."""


class _Json(logging.Formatter):
    """An event a line, as an object of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        return json.dumps({**fields, **getattr(record, _FIELDS, {})}, default=str)


class _Text(logging.Formatter):
    """An event a line, as `time level event name=value ...`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = getattr(record, _FIELDS, {})
        told = [f"{name}={json.dumps(value, default=str)}" for name, value in fields.items()]
        return " ".join([at, record.levelname.lower(), record.getMessage(), *told])


@contextmanager
def logged(settings: LogSettings) -> Iterator[None]:
    """Inside, what a night logs goes where the settings say: JSON to stderr or a file, text to a file. Text without a
    file is what the night says anyway, and is not logged a second time."""
    if settings.format == "text" and settings.path is None:
        yield
        return
    handler = _handler(settings)
    handler.setFormatter(_Json() if settings.format == "json" else _Text())
    level_before = _logger.level
    _logger.addHandler(handler)
    _logger.setLevel(_LEVELS[settings.level])
    try:
        yield
    finally:
        _logger.setLevel(level_before)
        _logger.removeHandler(handler)
        handler.close()


def _handler(settings: LogSettings) -> logging.Handler:
    if settings.path is None:
        return logging.StreamHandler(sys.stderr)
    path = Path(settings.path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return logging.handlers.WatchedFileHandler(path, encoding="utf-8")  # it may be rotated meanwhile
    except OSError as error:
        raise LogNotWritten(f"[log] path = {settings.path!r}: cannot be written: {error.strerror or error}") from error


def log(event: str, level: int = logging.INFO, /, **fields: Any) -> None:
    """One event with its fields."""
    _logger.log(level, event, extra={_FIELDS: fields})


def log_failure(error: BaseException, **fields: Any) -> None:
    """A run that ended early. A library that could not read a file may quote from it, and so does who names the columns
    that are there, since a file without a header has its first row in their place: then the kind of error is all."""
    why = str(error)
    has_quoted = error.__cause__ or error.__context__ or any(words in why for words in _NAMES_COLUMNS)
    quotes = isinstance(error, UnreadableSource) and bool(has_quoted)
    is_known = isinstance(error, NightfoldError) and not quotes
    log("run.failed", logging.ERROR, **fields, error=type(error).__name__, why=why if is_known else None)


def log_chunks(stage: str, staging: Path, *, run_id: str) -> None:
    """The single chunks of a stage: those left without a vector, and at debug level those that were merged."""
    if stage == "embed" and _logger.isEnabledFor(logging.WARNING):
        for path in (staging / "embed" / "chunks.parquet", staging / "embed" / "chunks-embedded.parquet"):
            for chunk_id, status in _without_vector(path):
                log("chunk.not_embedded", logging.WARNING, run_id=run_id, chunk_id=chunk_id, status=status)
    if stage == "judge" and _logger.isEnabledFor(logging.DEBUG):
        for row in _merged(staging / "judge" / "variants.parquet"):
            log("chunk.merged", logging.DEBUG, run_id=run_id, **row)


def _without_vector(path: Path) -> list[tuple[str, str]]:
    if not path.exists() or not _logger.hasHandlers():
        return []
    rows = pl.scan_parquet([path], glob=False).select("chunk_id", "completion_status")
    return rows.filter(pl.col("completion_status") != COMPLETE).sort("chunk_id").collect().rows()


def _merged(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    columns = ["chunk_id", "canonical_id", "relation", "similarity", "confidence", "decided_by"]
    rows = pl.read_parquet(path, columns=columns, glob=False)
    return rows.sort("chunk_id").with_columns(pl.col("similarity", "confidence").round(4)).to_dicts()
