"""The text of a spec row: five fields, each normalized by itself, in fixed order under fixed labels."""

from collections.abc import Mapping

import polars as pl

from schemas.rows import SPEC_FIELDS
from transforms.normalize import normalized

_LABELS = dict(zip(SPEC_FIELDS, ("Category", "Sub-Category", "Specification", "Value", "Additional"), strict=True))


def spec_text(fields: Mapping[str, pl.Expr]) -> pl.Expr:
    """`Category: ...\\nSub-Category: ...` and so on; a field that is null reads as empty, null where all five do."""
    shown = {name: normalized(fields[name].fill_null("")) for name in SPEC_FIELDS}
    lines = [pl.lit(f"{_LABELS[name]}: ") + value for name, value in shown.items()]
    is_empty = pl.all_horizontal(value == "" for value in shown.values())
    return pl.when(~is_empty).then(pl.concat_str(lines, separator="\n"))
