"""Which of two chunks is the newer: by the version, the date or the trust that their rows or their texts give."""

import polars as pl

from schemas.terms import LEFT, RIGHT

_VERSION_IN_TEXT = (
    r"(?i)\b(?:version|versión|versão|edition|edición|edição|revision|revisión|revisão|release|rev\.?)"
    r"\s+v?(\d+(?:\.\d+)*)"
)
_VALID_FROM = (
    r"(?i)\b(?:effective|in force|valid|applies|vigente|en vigor|em vigor|válid[oa]s?|aplica)\b[^.\n]{0,30}?"
    r"\b((?:19|20)\d{2})\b"
)

_MOMENT = r"^(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[T ](\d{2}:\d{2})(?::(\d{2})(?:\.\d+)?)? ?(Z|UTC|[+-]\d{2}:?\d{2})?)?)?)?$"


def ages_of(chunks: pl.DataFrame) -> pl.DataFrame:
    """Of each chunk its effective date, version and priority where its metadata has them, and what its text says."""
    metadata = pl.col("metadata").fill_null("{}")
    text = pl.col("text").fill_null("")
    return chunks.select(
        "chunk_id",
        effective_at=_moment(metadata.str.json_path_match("$.effective_at")),
        version=_version(metadata.str.json_path_match("$.version")),
        priority=metadata.str.json_path_match("$.source_priority").cast(pl.Float64, strict=False),
        version_in_text=_version(text.str.extract(_VERSION_IN_TEXT, 1)),
        year_in_text=text.str.extract(_VALID_FROM, 1).cast(pl.Int32, strict=False),
    )


def _version(text: pl.Expr) -> pl.Expr:
    """A version as text that sorts as its numbers do; `2.0` is `2`."""
    numbers = text.str.extract_all(r"\d+").list.eval(pl.element().str.zfill(20)).list.join(".")
    return pl.when(numbers.str.len_bytes() > 0).then(numbers.str.replace(r"(?:\.0+)+$", ""))


def _moment(text: pl.Expr) -> pl.Expr:
    """A date, or a date and time, as a moment: the first of what it leaves open, and UTC where it names no zone."""
    year, month, day, time, second, zone = (text.str.extract(_MOMENT, group) for group in range(1, 7))
    ones, zeros = pl.lit("01"), pl.lit("00")
    written = pl.concat_str(
        [year, month.fill_null(ones), day.fill_null(ones), time.fill_null("00:00"), second.fill_null(zeros)],
        separator=" ",
    )
    figures = zone.str.replace_all(r"\D", "")
    minutes = 60 * figures.str.head(2).cast(pl.Int64, strict=False) + figures.str.tail(2).cast(pl.Int64, strict=False)
    ahead = pl.when(zone.str.starts_with("-")).then(-minutes).otherwise(minutes).fill_null(0)
    return written.str.to_datetime("%Y %m %d %H:%M %S", strict=False) - pl.duration(minutes=ahead)


def newer_of(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Which side is newer and by what, in the order of the rows; null where nothing says so, or two things disagree.

    Where neither date nor version says anything, the side of the higher priority, and `is_by_priority`.
    """
    both = pl.concat(
        [left.rename(lambda name: f"left_{name}"), right.rename(lambda name: f"right_{name}")], how="horizontal"
    )
    verdicts = {
        "its effective date": _newer("effective_at"),
        "its version": _newer("version"),
        "the version in its text": _newer("version_in_text"),
        "the date in its text": _newer("year_in_text"),
    }
    sides = both.select(verdict.alias(name) for name, verdict in verdicts.items())
    agreed = sides.select(
        newest=pl.concat_list(pl.all()).list.drop_nulls().list.unique(),
        by=pl.concat_str(
            [pl.when(pl.col(name).is_not_null()).then(pl.lit(name)) for name in verdicts],
            separator=" and ",
            ignore_nulls=True,
        ),
    )
    by_priority = both.select(priority=_newer("priority")).to_series()
    one = pl.col("newest").list.len() == 1
    nothing = pl.col("newest").list.len() == 0
    return agreed.with_columns(by_priority).select(
        newer=pl.when(one).then(pl.col("newest").list.first()).when(nothing).then("priority"),
        newer_by=pl.when(one).then("by"),
        is_by_priority=nothing & pl.col("priority").is_not_null(),
    )


def _newer(name: str) -> pl.Expr:
    left, right = pl.col(f"left_{name}"), pl.col(f"right_{name}")
    return pl.when(left > right).then(pl.lit(LEFT)).when(left < right).then(pl.lit(RIGHT))
