"""What no longer holds: a chunk that a newer one replaces is kept, with the time until which it held."""

import polars as pl

_FORMATS = (
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d",
)
_UTC = pl.Datetime("us", "UTC")


def starts(chunks: pl.DataFrame) -> pl.DataFrame:
    """chunk_id and `start` of each chunk: the effective_at of its metadata, or when it was first seen."""
    said = pl.col("metadata").str.json_path_match("$.effective_at").str.strip_chars()
    with_zone = [said.str.to_datetime(form, strict=False, time_unit="us", time_zone="UTC") for form in _FORMATS]
    return chunks.select("chunk_id", start=pl.coalesce(*with_zone, pl.col("first_seen_at").cast(_UTC)))


def superseded(pairs: pl.DataFrame, starts: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """chunk_id, superseded_by, valid_from and valid_to of every chunk that a pair, or a pair before tonight, replaces.

    `pairs` has older_id and newer_id, `known` the chunk_id and superseded_by of all that were replaced before, `starts`
    every chunk in `pairs` and what replaced it before. Of several replacements the first to hold counts. What would
    replace itself in the end does not count.
    """
    replaced_by: dict[str, str] = dict(known.select("chunk_id", "superseded_by").iter_rows())
    since = dict(starts.select("chunk_id", "start").iter_rows())
    candidates: dict[str, set[str]] = {}
    for older, newer in pairs.select("older_id", "newer_id").iter_rows():
        before = {replaced_by[older]} if older in replaced_by else set()
        candidates.setdefault(older, before).add(newer)
    rows = []
    for older in sorted(candidates, key=lambda each: (since[each], each)):
        replaced_by.pop(older, None)
        for newer in sorted(candidates[older], key=lambda each: (since[each], each)):
            if not _leads_to(newer, older, replaced_by):
                replaced_by[older] = newer
                rows.append((older, newer, min(since[older], since[newer]), since[newer]))
                break
    shape: dict[str, pl.DataType] = {
        "chunk_id": pl.String(),
        "superseded_by": pl.String(),
        "valid_from": _UTC,
        "valid_to": _UTC,
    }
    return pl.DataFrame(rows, schema=shape, orient="row").sort("chunk_id")


def _leads_to(newer: str, older: str, replaced_by: dict[str, str]) -> bool:
    at: str | None = newer
    while at is not None and at != older:
        at = replaced_by.get(at)
    return at is not None
