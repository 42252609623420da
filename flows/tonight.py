"""The tables as the stages of a night up to now leave them: what is staged over what the run before published."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from flows.warehouse import Run, Warehouse
from schemas.contract import Contract
from schemas.tables import CHUNKS, PAIRS
from schemas.terms import CONTRADICTORY, EQUIVALENT, LINKED, MERGED, SUPERSEDING
from transforms.exact import MOVING

NOMINATED = ["pair_id", "left_id", "right_id", "scope", "similarity"]
# What keeps two chunks out of one group, whatever a third has in common with both.
DISAGREE = (CONTRADICTORY, SUPERSEDING)
# What an edge of a group must tell when it carries a variant.
EDGE = ["pair_id", "left_id", "right_id", "relation", "stands", "similarity", "confidence", "decided_by", "evidence"]


@dataclass(frozen=True)
class Tonight:
    """The tables as tonight's stages up to this one leave them."""

    staging: Path
    warehouse: Warehouse
    run: Run | None

    def chunks(self, ids: pl.Series, columns: list[str]) -> pl.DataFrame:
        """The chunks of these ids, with `is_known` for those of an earlier night; their figures include tonight's."""
        wanted = pl.DataFrame({"chunk_id": ids.unique()})
        new = self._staged("embed/chunks.parquet").select(columns).join(wanted.lazy(), on="chunk_id", how="semi")
        tonight = new.collect(engine="streaming").with_columns(is_known=pl.lit(value=False))
        others = wanted.join(tonight, on="chunk_id", how="anti")
        known = self.warehouse.lookup(CHUNKS.name, others["chunk_id"], columns, run=self.run)
        whole = self._staged("exact/chunks-whole.parquet").select(columns)
        whole_rows = whole.join(others.lazy(), on="chunk_id", how="semi").collect()
        known = pl.concat([known.join(whole_rows, on="chunk_id", how="anti"), whole_rows], how="vertical_relaxed")
        moved = self._staged("exact/chunks-moved.parquet").select(
            "chunk_id", *(name for name in MOVING if name in columns)
        )
        moved_rows = moved.join(others.lazy(), on="chunk_id", how="semi").collect()
        known = known.update(moved_rows, on="chunk_id", how="left").with_columns(is_known=pl.lit(value=True))
        return pl.concat([tonight, known.select(tonight.columns)], how="vertical_relaxed").sort("chunk_id")

    def _staged(self, name: str) -> pl.LazyFrame:
        return pl.scan_parquet([self.staging / name], glob=False)

    def staged(self, name: str) -> pl.DataFrame:
        """The rows of a file that a stage left."""
        return self._staged(name).collect()

    def read(self, contract: Contract, columns: list[str], where: str | None = None) -> pl.DataFrame:
        """These columns of a table as the run before published it, null where it has not gained them yet."""
        dataset = self.warehouse.open(contract.name, self.run) if self.run else None
        shape = contract.empty().select(columns)
        if dataset is None:
            return shape
        there = [name for name in columns if name in dataset.schema.names]
        rows = pl.from_arrow(dataset.to_table(columns=there, filter=where))
        assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
        return pl.concat([shape, rows.cast({name: shape.schema[name] for name in there})], how="diagonal")

    def lookup(self, contract: Contract, keys: pl.Series, columns: list[str] | None = None) -> pl.DataFrame:
        """The rows of these keys as the run before published them."""
        return self.warehouse.lookup(contract.name, keys, columns or contract.columns, run=self.run)

    def pairs_to_judge(self) -> pl.DataFrame:
        """Tonight's new pairs, and those that no night has judged yet, with `is_known` for the latter."""
        new = self.staged("near/pairs.parquet").select(*NOMINATED, is_known=pl.lit(value=False))
        dataset = self.warehouse.open(PAIRS.name, self.run) if self.run else None
        # Before it was judged at all, the table had no such column.
        was_judged = dataset is not None and "decided_by" in dataset.schema.names
        waiting = self.read(PAIRS, NOMINATED, "decided_by is null" if was_judged else None)
        waiting = waiting.join(self.staged("near/pairs-cut.parquet"), on="pair_id", how="anti")
        both = pl.concat([new, waiting.with_columns(is_known=pl.lit(value=True))])
        return both.sort("left_id", "right_id")

    def disagreements(self) -> pl.DataFrame:
        """The pairs that were judged to say different things of one matter."""
        where = " or ".join(f"relation = '{relation}'" for relation in DISAGREE)
        return self.read(PAIRS, ["left_id", "right_id"], where)

    def merge_edges(self, chunks: pl.DataFrame) -> pl.DataFrame:
        """The pairs of two of these chunks that earlier nights judged to be merged, whether or not that made them one
        group."""
        dataset = self.warehouse.open(PAIRS.name, self.run) if self.run else None
        if dataset is None or "action" not in dataset.schema.names:
            return PAIRS.empty().select(EDGE)
        where = f"action = '{MERGED}' or (action = '{LINKED}' and relation = '{EQUIVALENT}')"
        of_chunks = (
            self.read(PAIRS, ["pair_id", "left_id", "right_id"], where)
            .join(chunks, left_on="left_id", right_on="chunk_id", how="semi")
            .join(chunks, left_on="right_id", right_on="chunk_id", how="semi")
        )
        return self.lookup(PAIRS, of_chunks["pair_id"], EDGE)
