"""The judge at work: evidence for each candidate pair, the reading of those that rules leave open, and a verdict."""

import json
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path

import numpy as np
import polars as pl

from flows.reader import READING, Reader, open_reader
from flows.settings import JudgeSettings
from transforms.ages import ages_of, newer_of
from transforms.evidence import pair_evidence, sides_of
from transforms.fields import field_evidence, without_ids
from transforms.judge import Model, at_best, judged, model_of, wants_reading

# What a judged pair has beside its ids, scope and similarity.
VERDICT = pl.Schema(
    {
        "reading": pl.Float32,
        "relation": pl.String,
        "confidence": pl.Float32,
        "stands": pl.String,
        "evidence": pl.String,
        "decided_by": pl.String,
        "is_confirmed": pl.Boolean,
    }
)
# Told the pairs as they are judged so far, with `is_open` where a reading is wanted that was not made, and `at_best`,
# the most that it could make of the pair: which of them are to be read next. It is asked until it names none.
ToRead = Callable[[pl.DataFrame], pl.Series]
_MODEL = Path(__file__).with_name("judge_model.json")
_PAIRS_AT_ONCE = 50_000


@cache
def _model() -> Model:
    return model_of(json.loads(_MODEL.read_text(encoding="utf-8")))


@lru_cache(maxsize=1)
def _reader(model: str) -> Reader:
    """Opened once a process: who has a few pairs judged now and then does not wait for it each time."""
    return open_reader(model, allow_hub=False)


def judge_pairs(
    pairs: pl.DataFrame,
    chunks: pl.DataFrame,
    *,
    settings: JudgeSettings,
    tell: Callable[[str], None],
    tell_rows: Callable[[int], None],
    to_read: ToRead | None = None,
) -> pl.DataFrame:
    """The pairs, in their order, each with its verdict; where `to_read` leaves out a reading, as it is without.

    `pairs` has pair_id, left_id, right_id, scope and similarity; `chunks` has every chunk named there, with chunk_id,
    kind, text, metadata and first_seen_at. Other columns are carried through.
    """
    every = chunks.unique("chunk_id", keep="first", maintain_order=True)
    found = [pairs.clear().with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in VERDICT.items())]
    done = 0
    opened: list[Reader] = []
    for some in pairs.iter_slices(_PAIRS_AT_ONCE):
        named = pl.concat([some.select(chunk_id="left_id"), some.select(chunk_id="right_id")])
        chunks = every.join(named, on="chunk_id", how="semi", maintain_order="left")
        evidence = evidence_of(some, chunks, id_fields=settings.id_fields)
        wanted = wants_reading(evidence)
        if settings.reader is not None and wanted.any() and not opened:
            tell(f"{settings.reader} reads the pairs that rules leave open")
            opened.append(_reader(settings.reader))
        read = partial(_readings, some, chunks, opened=opened, tell_rows=partial(_tell_more, tell_rows, done))
        verdict_of = partial(_with_verdict, some, priority_supersedes=settings.priority_supersedes)
        if to_read is None or not opened:
            both = verdict_of(evidence, read(wanted))
        else:
            both = _read_in_steps(evidence, wanted, read=read, verdict_of=verdict_of, to_read=to_read)
        found.append(both)
        done += some.height
        tell_rows(done)
    return pl.concat(found)


def _with_verdict(
    pairs: pl.DataFrame, evidence: pl.DataFrame, reading: pl.DataFrame, *, priority_supersedes: bool
) -> pl.DataFrame:
    both = pl.concat([evidence, reading], how="horizontal")
    verdict = judged(both, _model(), priority_supersedes=priority_supersedes)
    return pl.concat([pairs, reading.select("reading"), verdict], how="horizontal").with_columns(
        pl.col(name).cast(kind) for name, kind in VERDICT.items()
    )


def _read_in_steps(
    evidence: pl.DataFrame,
    wanted: pl.Series,
    *,
    read: Callable[[pl.Series], pl.DataFrame],
    verdict_of: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame],
    to_read: ToRead,
) -> pl.DataFrame:
    best, is_open = at_best(evidence), wanted
    reading = read(wanted.clear().extend_constant(value=False, n=wanted.len()))
    while True:
        both = verdict_of(evidence, reading)
        asked = to_read(both.with_columns(is_open=is_open, at_best=best)) & is_open
        if not asked.any():
            return both
        more = read(asked)
        reading = reading.select(
            pl.when(asked).then(more[name]).otherwise(pl.col(name)).alias(name) for name in reading.columns
        )
        is_open &= ~asked


def _tell_more(tell_rows: Callable[[int], None], before: int, rows: int) -> None:
    tell_rows(before + rows)


def evidence_of(pairs: pl.DataFrame, chunks: pl.DataFrame, *, id_fields: Sequence[str] = ()) -> pl.DataFrame:
    """All evidence on the pairs but the transformer's reading, in their order. No chunk is there twice."""
    left, right = _places(pairs["left_id"], chunks), _places(pairs["right_id"], chunks)
    texts, ages = without_ids(chunks["text"], chunks["kind"], id_fields=id_fields), ages_of(chunks)
    return pl.concat(
        [
            pairs.select("similarity"),
            pair_evidence(sides_of(texts, left, right)).drop("pair"),
            field_evidence(texts, chunks["kind"], left, right),
            newer_of(ages[left].drop("chunk_id"), ages[right].drop("chunk_id")),
        ],
        how="horizontal",
    )


def _places(ids: pl.Series, chunks: pl.DataFrame) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    at = chunks.select("chunk_id").with_row_index("at")
    placed = pl.DataFrame({"chunk_id": ids}).join(at, on="chunk_id", how="left", maintain_order="left")["at"]
    return placed.to_numpy().astype(np.int64)


def _readings(
    pairs: pl.DataFrame,
    chunks: pl.DataFrame,
    wanted: pl.Series,
    *,
    opened: list[Reader],
    tell_rows: Callable[[int], None],
) -> pl.DataFrame:
    nothing = pl.DataFrame({name: pl.Series([None] * pairs.height, dtype=kind) for name, kind in READING.items()})
    if not opened or not wanted.any():
        return nothing
    rows = pairs.filter(wanted)
    read = opened[0].read(
        chunks["text"].fill_null(""),
        _places(rows["left_id"], chunks),
        _places(rows["right_id"], chunks),
        tell_rows=tell_rows,
    )
    at = wanted.arg_true().rename("row").to_frame()
    placed = pl.concat([at, read], how="horizontal")
    return (
        nothing.with_row_index("row")
        .select("row")
        .join(placed, on="row", how="left", maintain_order="left")
        .drop("row")
    )
