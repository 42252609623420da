"""Decisions as a file: open questions out, a person's answers in the spreadsheet of their choice, and back."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from blake3 import blake3

from flows.errors import NightfoldError
from flows.reviews import AlreadyDecided, BadChoice, Choice, Decision, Filters, Reviews
from schemas.terms import DECISIONS

ANSWERED = ("decision", "target_canonical_id", "notes")
COLUMNS = (
    "review_id",
    *ANSWERED,
    "scope",
    "text",
    "best_candidate",
    "relation",
    "confidence",
    "similarity",
    "candidates",
    "reason",
    "source",
    "source_row_id",
    "queued_at",
)
_WANTED = ("review_id", *ANSWERED)
_PAGE = 1_000
# What a spreadsheet takes for a formula when a cell begins with it; a quote before it says that it is text.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n", "'")
_MOST_LINES = 20


class BadLines(NightfoldError):
    """Lines of a file that were refused; nothing of it was taken."""


@dataclass(frozen=True)
class Line:
    """A row of the file: its number as a person counts, and what it says."""

    number: int
    choice: Choice


@dataclass(frozen=True)
class Taken:
    """What became of a file: decisions, lines without an answer, lines that say what stands already, and what was
    refused, by line."""

    decisions: list[Decision]
    blank: int
    repeated: int
    refused: list[str]


def export_questions(reviews: Reviews, path: Path, filters: Filters) -> int:
    """Writes the open questions to a file, the target filled in with the group of the best candidate; returns how
    many."""
    write = _writer(path)
    items = reviews.every(filters, scopes=None)
    texts: dict[str, str | None] = {}
    for start in range(0, len(items), _PAGE):
        texts |= reviews.texts(
            [i for item in items[start : start + _PAGE] for i in (item.chunk_id, item.best_chunk_id)]
        )
    rows = [
        {
            "review_id": item.review_id,
            "decision": None,
            "target_canonical_id": item.best_canonical_id,
            "notes": None,
            "scope": item.scope,
            "text": texts.get(item.chunk_id),
            "best_candidate": texts.get(item.best_chunk_id or ""),
            "relation": item.relation,
            "confidence": item.confidence,
            "similarity": item.similarity,
            "candidates": item.candidates,
            "reason": item.reason,
            "source": item.source,
            "source_row_id": item.source_row_id,
            "queued_at": item.queued_at.isoformat(timespec="seconds"),
        }
        for item in items
    ]
    write(rows)
    return len(rows)


def import_decisions(reviews: Reviews, path: Path, *, by: str, partial: bool) -> Taken:
    """Takes the decisions of a file, each line checked as the page would; all of them, or, where lines are refused,
    only with `partial` the others."""
    lines, refused, blank = _choices(path)
    checked = reviews.checked([line.choice for line in lines], scopes=None)
    repeated = 0
    told = [*refused]
    for place, problem in checked.problems.items():
        line = lines[place]
        if isinstance(problem, AlreadyDecided) and _says_the_same(line.choice, problem.standing, by=by):
            repeated += 1
        else:
            told.append((line.number, str(problem)))
    words = [f"{path}:{number}: {why}" for number, why in sorted(told)]
    if words and not partial:
        shown = "\n".join(words[:_MOST_LINES]) + (
            f"\nand {len(words) - _MOST_LINES:,} more" if len(words) > _MOST_LINES else ""
        )
        raise BadLines(
            f"{len(words):,} of {len(lines) + len(refused):,} answers were refused, and none was taken; mend them, or "
            f"take the others with --partial:\n{shown}"
        )
    good = [line.choice for place, line in enumerate(lines) if place not in checked.problems]
    decided = reviews.decide(good, by=by, scopes=None, batch_id=_batch_id(path)) if good else []
    return Taken(decided, blank, repeated, words)


def _batch_id(path: Path) -> str:
    return blake3(path.read_bytes()).hexdigest()[:32]


def _says_the_same(choice: Choice, standing: Decision, *, by: str) -> bool:
    """Whether this line is the decision that stands: the file was taken before."""
    is_same = choice.decision == standing.decision and standing.reviewer == " ".join(by.split())
    return is_same and (choice.target_canonical_id or None) == standing.target_canonical_id


def _choices(path: Path) -> tuple[list[Line], list[tuple[int, str]], int]:
    """The lines that answer, those that cannot be read as an answer, and how many have none."""
    lines, refused, blank = [], list[tuple[int, str]](), 0
    for number, row in _rows(path):
        said = {name: _clean(row.get(name)) for name in _WANTED}
        decision = (said["decision"] or "").lower().replace(" ", "_").replace("-", "_")
        if not decision:
            blank += 1
        elif not said["review_id"]:
            refused.append((number, "has a decision and no review_id"))
        elif decision not in DECISIONS:
            refused.append((number, f"{said['decision']!r} is no decision; there are {', '.join(DECISIONS)}"))
        else:
            # The target was filled in for a merge; for what concerns the whole question it says nothing.
            target = said["target_canonical_id"] if decision in ("merge", "link", "flag_contradiction") else None
            lines.append(Line(number, Choice(said["review_id"], decision, target, said["notes"])))
    return lines, refused, blank


def _clean(value: Any) -> str | None:
    text = None if value is None else str(value).strip()
    return text or None


# ---- formats


def _writer(path: Path) -> Any:
    ways = {".csv": _write_csv, ".jsonl": _write_jsonl, ".parquet": _write_parquet}
    if path.suffix not in ways:
        raise NightfoldError(f"{path}: name a file that ends in {', '.join(ways)}")
    return lambda rows: _kept(path, ways[path.suffix], rows)


def _kept(path: Path, write: Any, rows: list[dict[str, Any]]) -> None:
    unfinished = path.with_name(f"{path.name}.partial")
    try:
        write(unfinished, rows)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([guarded(row[name]) for name in COLUMNS] for row in rows)


def _write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    numbers = {"confidence": pl.Float64, "similarity": pl.Float64, "candidates": pl.Int64}
    pl.DataFrame(rows, schema={name: numbers.get(name, pl.String) for name in COLUMNS}).write_parquet(path)


def guarded(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula; `unguarded` gives back what it was."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def unguarded(text: str) -> str:
    """What a guarded cell says."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file with their line: of a csv the line they begin on, of the others the row from 1."""
    try:
        if path.suffix == ".csv":
            yield from _read_csv(path)
        elif path.suffix == ".jsonl":
            yield from _read_jsonl(path)
        elif path.suffix == ".parquet":
            frame = pl.read_parquet(path, glob=False)
            _check_columns(path, frame.columns)
            yield from enumerate(frame.iter_rows(named=True), 1)
        else:
            raise NightfoldError(f"{path}: name a file that ends in .csv, .jsonl or .parquet")
    except (UnicodeDecodeError, csv.Error, pl.exceptions.ComputeError) as error:
        raise NightfoldError(f"{path}: cannot be read: {str(error).splitlines()[0]}; save it as UTF-8") from None


def _read_csv(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    text = path.read_bytes().decode("utf-8-sig")
    # The texts beside the answers may be of any length.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    first = text.partition("\n")[0]
    # A spreadsheet of some countries writes a semicolon where others have a comma.
    delimiter = max((",", ";", "\t"), key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    heads = next(reader, [])
    _check_columns(path, heads)
    line = reader.line_num + 1
    for cells in reader:
        if any(cells):
            yield line, {head: unguarded(cell) for head, cell in zip(heads, cells, strict=False)}
        line = reader.line_num + 1


def _read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # Not by `splitlines`: a text may hold what that takes for the end of a line, and JSON leaves as it is.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise NightfoldError(f"{path}:{number}: is no JSON object; one a line")
            yield number, row


def _check_columns(path: Path, columns: list[str]) -> None:
    missing = [name for name in ("review_id", "decision") if name not in columns]
    if missing:
        raise BadChoice(
            f"{path}: has no column {' nor '.join(missing)}; `nightfold review export` writes a file to fill in"
        )
