"""Texts that are records: lines of `label: value`. Two records are compared field by field."""

import re
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from schemas.terms import SPEC_ROW
from transforms.evidence import pair_evidence, sides_of

# A label at the beginning of a line, and what stands behind it. Of this many lines on, a text is a record.
_FIELD = r"(?m)^([\p{L}][\p{L}\p{Nd} _/-]{0,30}):[ \t]*(.*)$"
_FEWEST = 3
_VALUE = "Value"
# Two lines in three are fields: prose with a label now and then is no record.
_LEAST_SHARE = 0.66
Places = NDArray[np.int64]


def without_ids(texts: pl.Series, kinds: pl.Series, *, id_fields: Sequence[str]) -> pl.Series:
    """The texts without the lines that only say which record they are."""
    if not id_fields or texts.is_empty():
        return texts
    listed = "|".join(re.escape(label) for label in id_fields)
    pattern = rf"(?mi)^(?:{listed}):[ \t]*[^\n]*\n?"
    has = texts.str.contains("\n") & texts.str.contains(pattern) & (kinds != SPEC_ROW)
    return texts.scatter(has.arg_true(), texts.filter(has).str.replace_all(pattern, "")) if has.any() else texts


def _fields(texts: pl.Series, kinds: pl.Series) -> pl.DataFrame:
    """The fields of the texts that are records: place of the text, label and value."""
    rows = pl.DataFrame({"text": texts, "kind": kinds}).with_row_index("at")
    lines = rows.filter(pl.col("text").str.contains("\n")).with_columns(
        field=pl.col("text").str.extract_all(_FIELD), lines=pl.col("text").str.count_matches("\n") + 1
    )
    count = pl.col("field").list.len()
    is_record = (pl.col("kind") == SPEC_ROW) | ((count >= _FEWEST) & (count >= _LEAST_SHARE * pl.col("lines")))
    each = lines.filter(is_record).select("at", "field").explode("field", empty_as_null=False)
    parts = each.with_columns(
        label=pl.col("field").str.extract(_FIELD, 1), value=pl.col("field").str.extract(_FIELD, 2).fill_null("")
    )
    return parts.select("at", "label", "value").unique(["at", "label"], keep="first", maintain_order=True)


def field_evidence(texts: pl.Series, kinds: pl.Series, left: Places, right: Places) -> pl.DataFrame:
    """One row a pair, in their order: whether both are spec rows with fields, how many fields differ and which, and
    whether it is the value of a spec row alone.

    A field differs between records when each side says something there that the other does not; between spec rows, by
    any word, and where only one of them has it.
    """
    fields = _fields(texts, kinds)
    if fields.is_empty():
        return _without_fields(len(left))
    has_fields = np.zeros(len(texts), dtype=bool)
    has_fields[fields["at"].to_numpy()] = True
    is_spec = (kinds == SPEC_ROW).fill_null(value=False).to_numpy() & has_fields
    base = pl.DataFrame({"left": left, "right": right}, schema={"left": pl.UInt32, "right": pl.UInt32}).with_columns(
        is_spec=pl.Series(is_spec[left] & is_spec[right])
    )
    base = base.with_row_index("pair")
    both = _side_by_side(base, fields)
    values, codes = _distinct(pl.concat([both["value_left"], both["value_right"]]))
    compared = pair_evidence(sides_of(values, codes[: both.height], codes[both.height :]))
    said_twice = pl.min_horizontal("left_only", "right_only") - pl.col("spelled") > 0
    other_figures = pl.max_horizontal("left_numbers", "right_numbers", "left_codes", "right_codes") > 0
    swapped = (
        said_twice | (other_figures & (pl.min_horizontal("left_words", "right_words") > 0)) | (pl.col("opposed") > 0)
    )
    both = pl.concat([both, compared.drop("pair")], how="horizontal").with_columns(
        differs=pl.when("is_spec").then(~pl.col("is_same_run")).otherwise(swapped & ~pl.col("is_same_run"))
    )
    found = both.group_by("pair").agg(
        fields_differ=pl.col("differs").sum(),
        fields_shown=pl.concat_str(
            [
                pl.col("label"),
                pl.lit(" ("),
                pl.col("value_left").str.head(40),
                pl.lit(" / "),
                pl.col("value_right").str.head(40),
                pl.lit(")"),
            ]
        )
        .filter("differs")
        .head(3)
        .str.join(", "),
        is_value_only=(pl.col("differs") == (pl.col("label") == _VALUE)).all(),
        is_written_alike=(_folded("value_left") == _folded("value_right")).all(),
    )
    return base.join(found, on="pair", how="left", maintain_order="left").select(
        "is_spec",
        pl.col("fields_differ").fill_null(0),
        pl.col("fields_shown").fill_null(""),
        is_value_only=pl.col("is_value_only").fill_null(value=False) & pl.col("is_spec"),
        is_written_alike=pl.col("is_written_alike").fill_null(value=False) & pl.col("is_spec"),
    )


def _without_fields(pairs: int) -> pl.DataFrame:
    """What is said of pairs of which no text is a record: for a few pairs, most of the work."""
    is_none = pl.repeat(value=False, n=pairs, dtype=pl.Boolean)
    return pl.select(
        is_spec=is_none,
        fields_differ=pl.repeat(0, pairs, dtype=pl.UInt32),
        fields_shown=pl.repeat("", pairs, dtype=pl.String),
        is_value_only=is_none,
        is_written_alike=is_none,
    )


def _folded(value: str) -> pl.Expr:
    """A field as it is written, but for case and spacing."""
    return pl.col(value).str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()


def _side_by_side(base: pl.DataFrame, fields: pl.DataFrame) -> pl.DataFrame:
    """The fields of each pair that both sides have, in the order of the left one; of spec rows, those of one side too,
    empty on the other."""
    sides = [
        base.select("pair", "is_spec", side)
        .join(fields.rename({"at": side, "value": f"value_{side}"}), on=side, maintain_order="left_right")
        .drop(side)
        for side in ("left", "right")
    ]
    both = sides[0].join(
        sides[1], on=["pair", "is_spec", "label"], how="full", coalesce=True, maintain_order="left_right"
    )
    is_one_sided = pl.col("value_left").is_null() | pl.col("value_right").is_null()
    return both.filter(pl.col("is_spec") | ~is_one_sided).with_columns(
        pl.col("value_left", "value_right").fill_null("")
    )


def _distinct(values: pl.Series) -> tuple[pl.Series, Places]:
    distinct = values.unique(maintain_order=True)
    codes = values.to_frame("value").join(
        distinct.to_frame("value").with_row_index("code"), on="value", how="left", maintain_order="left"
    )["code"]
    return distinct, codes.to_numpy().astype(np.int64)
