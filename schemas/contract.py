"""A table's contract: Arrow shape, key and named rules, checked where data enters and where it is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl
import pyarrow as pa


class ContractBroken(ValueError):
    """Rows of our own making that break their table's contract."""


@dataclass(frozen=True)
class Contract:
    """A table's name, shape, key and rules. A rule's name states what is true of every row that keeps it."""

    name: str
    shape: pa.Schema
    key: tuple[str, ...]
    rules: Mapping[str, pl.Expr] = field(default_factory=dict)
    about: str = ""

    @cached_property
    def dtypes(self) -> pl.Schema:
        """The shape in Polars' words."""
        return pl.Schema(self.empty().schema)

    @property
    def columns(self) -> list[str]:
        return list(self.shape.names)

    def empty(self) -> pl.DataFrame:
        """No rows, in the same shape as full output."""
        empty = pl.from_arrow(self.shape.empty_table())
        assert isinstance(empty, pl.DataFrame)  # a table never comes back as a Series
        return empty

    def shaped(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with exactly the contract's columns, order and types; a column that is missing is null."""
        present = set(rows.columns)
        return rows.select(
            (pl.col(name) if name in present else pl.lit(None)).cast(dtype).alias(name)
            for name, dtype in self.dtypes.items()
        )

    def broken_rule(self) -> pl.Expr:
        """The name of the first rule a row breaks, null when it keeps them all. A rule that is null is broken."""
        verdict = pl.lit(None, dtype=pl.String)
        for name, rule in reversed(list(self.rules.items())):
            verdict = pl.when(rule.fill_null(value=False)).then(verdict).otherwise(pl.lit(name))
        return verdict

    def check(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows as they are, or ContractBroken naming the table, the rule and how many rows break it."""
        for name, dtype in self.dtypes.items():
            if rows.schema.get(name) != dtype:
                raise ContractBroken(f"{self.name}.{name}: expected {dtype}, got {rows.schema.get(name, 'no column')}")
        broken = rows.select(self.broken_rule().alias("rule")).filter(pl.col("rule").is_not_null())
        if broken.height:
            worst = broken.group_by("rule").len().sort("len", "rule", descending=[True, False]).row(0)
            raise ContractBroken(f"{self.name}: {worst[1]:,} of {rows.height:,} rows break the rule {worst[0]}")
        repeated = rows.height - rows.select(self.key).n_unique() if rows.height else 0
        if repeated:
            raise ContractBroken(f"{self.name}: {repeated:,} of {rows.height:,} rows repeat the key {self.key}")
        return rows
