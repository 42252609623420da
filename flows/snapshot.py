"""A published run as a search sees it: which chunks are in which group, which rows say them, and who is shown what.
Held in memory; texts and vectors stay on disk."""

from dataclasses import dataclass
from typing import Self

import lance
import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.warehouse import Run, Warehouse
from schemas.contract import Contract
from schemas.tables import AGENTS, CANONICALS, CHUNKS, CORPORA, CORPUS_AGENT_ASSIGNMENTS, OCCURRENCES
from transforms.visibility import held_in, visible_corpora

Rows = NDArray[np.int64]
_ID = "S32"
_NAMES = pl.Categorical


@dataclass(frozen=True)
class Snapshot:
    """What a run published, in the order of groups. Never changed: a search that began with it ends with it."""

    run: Run
    chunks: pl.DataFrame
    """canonical_id, chunk_id, stands, is_out and place, the row in the table; by group."""
    occurrences: pl.DataFrame
    """occurrence_id, chunk (a row of `chunks`), scope, corpus_id, seen_at and place; by chunk."""
    ids: NDArray[np.bytes_]
    """The chunk ids in their order, and `order`, the row of `chunks` of each."""
    order: Rows
    groups: Rows
    """Where each group begins in `chunks`, and their end; `of_chunk` is likewise of `occurrences`."""
    of_chunk: Rows
    corpora: pl.DataFrame
    agents: pl.DataFrame
    assignments: pl.DataFrame
    sizes: dict[tuple[str | None, str], int]
    """Rows by corpus and scope."""
    texts: lance.LanceDataset | None
    rows: lance.LanceDataset | None

    @classmethod
    def of(cls, warehouse: Warehouse, run: Run) -> Self:
        """The run as the warehouse has it."""
        stands = _read(warehouse, run, CANONICALS, ["chunk_id"])["chunk_id"]
        is_out = pl.col("superseded_by").is_not_null() | pl.col("deleted_at").is_not_null()
        chunks = (
            _read(warehouse, run, CHUNKS, ["canonical_id", "chunk_id", "superseded_by", "deleted_at"])
            .with_row_index("place")
            .with_columns(stands=pl.col("chunk_id").is_in(stands.implode()), is_out=is_out)
            .select("canonical_id", "chunk_id", "stands", "is_out", "place")
            .sort("canonical_id", "chunk_id")
        )
        by_id = chunks.select("chunk_id").with_row_index("row").sort("chunk_id")
        occurrences = (
            _read(warehouse, run, OCCURRENCES, ["occurrence_id", "chunk_id", "scope", "corpus_id", "seen_at"])
            .with_row_index("place")
            .join(by_id.select("chunk_id", chunk="row"), on="chunk_id", how="inner")
            .drop("chunk_id")
            .with_columns(pl.col("scope", "corpus_id").cast(_NAMES))
            .sort("chunk", "place")
        )
        names = chunks["canonical_id"]
        starts = (names != names.shift(1)).fill_null(value=True).arg_true()
        return cls(
            run=run,
            chunks=chunks,
            occurrences=occurrences,
            ids=np.array(by_id["chunk_id"].to_list(), dtype=_ID),
            order=by_id["row"].to_numpy().astype(np.int64),
            groups=np.append(starts.to_numpy().astype(np.int64), chunks.height),
            of_chunk=np.searchsorted(occurrences["chunk"].to_numpy(), np.arange(chunks.height + 1)).astype(np.int64),
            corpora=_read(warehouse, run, CORPORA, CORPORA.columns),
            agents=_read(warehouse, run, AGENTS, AGENTS.columns),
            assignments=_read(warehouse, run, CORPUS_AGENT_ASSIGNMENTS, CORPUS_AGENT_ASSIGNMENTS.columns),
            sizes={
                (corpus_id, scope): count
                for corpus_id, scope, count in occurrences.group_by("corpus_id", "scope").len().iter_rows()
            },
            texts=warehouse.open(CHUNKS.name, run),
            rows=warehouse.open(OCCURRENCES.name, run),
        )

    def visible_corpora(self, agent: str | None, user: str | None) -> pl.DataFrame:
        """The corpora that the agent shows the user."""
        return visible_corpora(self.corpora, self.agents, self.assignments, agent=agent, user=user)

    def held(self, corpora: pl.DataFrame, chunk_ids: pl.Series | None = None) -> pl.DataFrame:
        """The rows in these corpora (`transforms.visibility.held_in`) of the groups that these chunks are in, or of
        all."""
        if chunk_ids is None:
            return held_in(self.chunks, _named(self.occurrences, self.chunks), corpora)
        chunk_rows = self._groups_of(chunk_ids)
        rows = _spans(self.of_chunk[chunk_rows], self.of_chunk[chunk_rows + 1])
        return held_in(self.chunks[chunk_rows], _named(self.occurrences[rows], self.chunks), corpora)

    def size(self, corpora: pl.DataFrame) -> int:
        """How many rows are in these corpora."""
        return sum(self.sizes.get(pair, 0) for pair in corpora.select("corpus_id", "scope").iter_rows())

    def _groups_of(self, chunk_ids: pl.Series) -> Rows:
        """The rows of all chunks of the groups that these are in; an id that is not there is in none."""
        asked = np.array(chunk_ids.to_list(), dtype=_ID)
        at = np.minimum(np.searchsorted(self.ids, asked), max(0, len(self.ids) - 1))
        found = self.order[at[self.ids[at] == asked]] if len(self.ids) else np.empty(0, dtype=np.int64)
        group = np.unique(np.searchsorted(self.groups, found, side="right") - 1)
        return _spans(self.groups[group], self.groups[group + 1])

    def with_content(self, shown: pl.DataFrame) -> pl.DataFrame:
        """The chunks to show with their kind and text, and with what the row that tells where they are from says."""
        if shown.is_empty() or self.texts is None or self.rows is None:
            return shown.clear()
        at_chunk = self.order[np.searchsorted(self.ids, np.array(shown["chunk_id"].to_list(), dtype=_ID))]
        rows = _spans(self.of_chunk[at_chunk], self.of_chunk[at_chunk + 1])
        said = self.occurrences[rows].join(shown.select("occurrence_id"), on="occurrence_id", how="semi")
        texts = _take(self.texts, self.chunks["place"][at_chunk], ["chunk_id", "kind", "text"])
        of_row = ["occurrence_id", "source", "source_row_id", "source_doc_id", "metadata"]
        sources = _take(self.rows, said["place"], of_row)
        return shown.join(texts, on="chunk_id", how="left", maintain_order="left").join(
            sources, on="occurrence_id", how="left", maintain_order="left"
        )


def _named(occurrences: pl.DataFrame, chunks: pl.DataFrame) -> pl.DataFrame:
    return occurrences.select(
        "occurrence_id",
        chunks["chunk_id"].gather(occurrences["chunk"]).alias("chunk_id"),
        pl.col("scope", "corpus_id").cast(pl.String),
        "seen_at",
    )


def _spans(starts: Rows, ends: Rows) -> Rows:
    """All numbers from each start up to its end."""
    lengths = ends - starts
    shift = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64), lengths)
    return np.arange(int(lengths.sum()), dtype=np.int64) + shift


def _read(warehouse: Warehouse, run: Run, contract: Contract, columns: list[str]) -> pl.DataFrame:
    """Some columns of a table as the run published it; one that it has not gained yet is null."""
    dataset = warehouse.open(contract.name, run)
    if dataset is None:
        return contract.empty().select(columns)
    rows = _frame(dataset, [name for name in columns if name in dataset.schema.names])
    gained = [pl.lit(None, dtype=contract.dtypes[name]).alias(name) for name in columns if name not in rows.columns]
    return rows.with_columns(gained).select(columns)


def _frame(dataset: lance.LanceDataset, columns: list[str]) -> pl.DataFrame:
    rows = pl.from_arrow(dataset.to_table(columns=columns))
    assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
    return rows


def _take(dataset: lance.LanceDataset, places: pl.Series, columns: list[str]) -> pl.DataFrame:
    rows = pl.from_arrow(dataset.take(places.unique().sort().cast(pl.UInt64).to_arrow(), columns=columns))
    assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
    return rows
