"""Judging a file of pairs: what each two texts are to each other, and what a night would do with them."""

import json
import time
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from flows.console import Progress, in_columns
from flows.encoders import open_encoder
from flows.errors import NightfoldError, UnreadableSource
from flows.judge import limits_of
from flows.pair_files import PairFile, check_out, read_pairs, write_pairs
from flows.settings import Settings
from flows.verdicts import verdicts
from schemas.terms import ACTIONS, KINDS, RELATIONS, TEXT
from transforms.decide import action_of
from transforms.embedding import EncodingFailed, embedded
from transforms.pair_rows import (
    JUDGED,
    A,
    B,
    chunks_in,
    judged_by_same_text,
    judged_without_text,
    normal_texts,
    of_one_text,
    pairs_in,
    with_pairs,
    with_verdicts,
    without_text,
)

# What may stand beside a text and tells its age, as metadata does: effective_at_a, effective_at_b, ...
_AGES = ("effective_at", "version", "source_priority")
_COSINE_LIMIT = 1.0 + 1e-5


def judge_file(path: Path, out: Path, *, settings: Settings, progress: Progress) -> pl.DataFrame:
    """Judges the pairs of a file, writes them with their verdicts to another, and returns what was written."""
    check_out(out, given=path)
    file = read_pairs(path, load=settings.load)
    added = [name for name in JUDGED if name != "similarity"]
    clashes = [name for name in added if name in file.rows.columns]
    if clashes:
        raise UnreadableSource(
            f"{file.name}: has a column {' and '.join(clashes)}, which the judge writes; rename it, or leave it out"
        )
    judged = judge_rows(file, settings=settings, progress=progress)
    if "similarity" in file.rows.columns and file.rows["similarity"].dtype.is_float():
        judged = judged.with_columns(file.rows["similarity"].fill_nan(None).fill_null(judged["similarity"]))
    rows = file.rows.with_columns(judged.get_columns())
    write_pairs(out, rows, as_json=file.as_json)
    return rows


def judge_rows(file: PairFile, *, settings: Settings, progress: Progress) -> pl.DataFrame:
    """The columns of JUDGED for each row of the file, in their order; other columns of these names are not looked at.

    A row that lacks a text is `unknown`; two texts that are the same in their normal form are `equivalent`.
    """
    rows = normal_texts(_read_columns(file)).with_row_index("row")
    open_rows = rows.filter(~without_text() & ~of_one_text())
    parts = [
        judged_without_text(rows.filter(without_text())),
        judged_by_same_text(rows.filter(of_one_text())),
        _judged(open_rows, file, settings=settings, progress=progress),
    ]
    columns = [pl.col(name).cast(dtype) for name, dtype in JUDGED.items()]
    return pl.concat([part.select("row", *columns) for part in parts]).sort("row").drop("row")


def summary_lines(judged: pl.DataFrame) -> list[str]:
    """A line for each relation and action that occurs, with its pairs."""
    counts = {(relation, action): pairs for relation, action, pairs in _counted(judged)}
    rows = [
        (relation, action, f"{counts[relation, action]:,}")
        for relation in RELATIONS
        for action in ACTIONS
        if (relation, action) in counts
    ]
    return in_columns([("relation", "action", "pairs"), *rows, ("all", "", f"{judged.height:,}")], right=[2])


def _counted(judged: pl.DataFrame) -> list[tuple[str, str, int]]:
    return judged.group_by("relation", "action").len().rows()


# --- what the file says -----------------------------------------------------------------------------------------------


def _read_columns(file: PairFile) -> pl.DataFrame:
    """text_a, text_b, kind, metadata_a, metadata_b and similarity of each row, with what is missing filled in."""
    file.need(["text_a", "text_b"], remedy="give each row its two texts")
    return pl.DataFrame(
        {
            "text_a": _texts(file, "text_a"),
            "text_b": _texts(file, "text_b"),
            "kind": _kinds(file),
            "metadata_a": _metadata(file, A),
            "metadata_b": _metadata(file, B),
            "similarity": _similarities(file),
        }
    )


def _texts(file: PairFile, name: str) -> pl.Series:
    values = file.rows[name]
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null) or name in file.as_json:
        raise UnreadableSource(f"{file.name}: column {name} is {values.dtype}, not text; write its texts as strings")
    return values.cast(pl.String)


def _kinds(file: PairFile) -> pl.Series:
    if "kind" not in file.rows.columns:
        return pl.Series("kind", [TEXT], dtype=pl.String).new_from_index(0, file.rows.height)
    kinds = file.rows["kind"].cast(pl.String).fill_null(TEXT)
    _refuse(file, kinds, ~kinds.is_in(KINDS), f"a kind that is none of {', '.join(KINDS)}; leave it empty for {TEXT}")
    return kinds


def _similarities(file: PairFile) -> pl.Series:
    if "similarity" not in file.rows.columns:
        return pl.Series("similarity", [None], dtype=pl.Float32).new_from_index(0, file.rows.height)
    given = file.rows["similarity"]
    numbers = given.cast(pl.Float32, strict=False).fill_nan(None)
    is_bad = (given.is_not_null() & given.cast(pl.Float64, strict=False).is_null()) | (numbers.abs() > _COSINE_LIMIT)
    _refuse(file, given, is_bad.fill_null(value=False), "a similarity that is no cosine from -1 to 1; leave it empty")
    return numbers


def _refuse(file: PairFile, values: pl.Series, is_bad: pl.Series, rule: str) -> None:
    """UnreadableSource where a value is bad; the first stands for all."""
    if is_bad.any():
        first = values.filter(is_bad)[0]
        raise UnreadableSource(
            f"{file.name}: {is_bad.sum():,} of {values.len():,} rows have {rule} (the first is {str(first)[:80]!r})"
        )


def _metadata(file: PairFile, side: str) -> pl.Series:
    """What is said of the age of a text, as the JSON that chunks have beside theirs."""
    columns = {age: f"{age}_{side}" for age in _AGES if f"{age}_{side}" in file.rows.columns}
    if not columns:
        return pl.Series([json.dumps({})], dtype=pl.String).new_from_index(0, file.rows.height)
    said = file.rows.select(pl.col(name).alias(age) for age, name in columns.items()).iter_rows(named=True)
    return pl.Series(
        [json.dumps({age: value for age, value in row.items() if value is not None}, default=str) for row in said],
        dtype=pl.String,
    )


# --- the judge --------------------------------------------------------------------------------------------------------


def _judged(rows: pl.DataFrame, file: PairFile, *, settings: Settings, progress: Progress) -> pl.DataFrame:
    rows = with_pairs(_with_similarity(rows, file, settings=settings, progress=progress))
    pairs, started = pairs_in(rows), time.monotonic()
    with progress.stage("judge"):
        judged = verdicts(
            pairs,
            chunks_in(rows),
            settings=settings,
            tell=progress.tell,
            tell_rows=partial(progress.rows, "judge"),
        )
    progress.done("judge", rows.height, pairs.height, time.monotonic() - started)
    action = action_of(limits_of(settings.judge), may_merge=pl.lit(value=True))
    return with_verdicts(rows, judged.with_columns(action=action))


def _with_similarity(rows: pl.DataFrame, file: PairFile, *, settings: Settings, progress: Progress) -> pl.DataFrame:
    """The rows with the cosine of the configured encoder where they have no similarity of their own."""
    is_open = rows["similarity"].is_null()
    if not is_open.any():
        return rows
    encoder = open_encoder(settings.embedding, tell=progress.tell)
    subject = f"{file.name}: {is_open.sum():,} of {file.rows.height:,} rows have no similarity"
    if encoder is None:
        raise NightfoldError(f'{subject}, and [embedding] encoder = "none"; name an encoder, or add the column')
    asked, started = rows.filter(is_open), time.monotonic()
    reasons: list[EncodingFailed] = []
    texts = pl.concat([asked["normal_a"], asked["normal_b"]])
    with progress.stage("embed"):
        vectors, has = embedded(texts, encoder=encoder, report=lambda why, _: reasons.append(why))
    if not has.all():
        raise NightfoldError(f"{subject}, and {(~has).sum():,} of their texts get no vector ({reasons[0]}); try again")
    progress.done("embed", texts.len(), texts.n_unique(), time.monotonic() - started)
    a, b = np.split(vectors, 2)
    cosines = np.clip(np.einsum("ij,ij->i", a, b), -1, 1)
    return rows.with_columns(similarity=rows["similarity"].scatter(is_open.arg_true(), cosines))
