"""The story of a chunk: everything that the published tables say of it."""

import re
from dataclasses import dataclass
from typing import Any

import polars as pl

from flows.errors import NightfoldError
from flows.settings import Settings
from flows.warehouse import Run, Warehouse
from schemas.contract import Contract
from schemas.tables import (
    CANONICALS,
    CHUNKS,
    CONTRADICTIONS,
    FORWARDS,
    LINKS,
    OCCURRENCES,
    PAIRS,
    PENDING_REVIEWS,
    REJECTS,
    REVIEW_DECISIONS,
    SEPARATIONS,
    VARIANTS,
)

_ID = re.compile(r"[0-9a-f]{1,32}")
_MOST_NAMED = 10


class NoSuchChunk(NightfoldError):
    """A chunk or a row that is not there, or more than one that could be meant."""


@dataclass(frozen=True)
class Story:
    """A chunk, its group, and every row in which it stands; `others` are the chunks named there, by id."""

    chunk: dict[str, Any]
    group: dict[str, Any]
    occurrences: pl.DataFrame
    variants: pl.DataFrame
    pairs: pl.DataFrame
    links: pl.DataFrame
    contradictions: pl.DataFrame
    reviews: pl.DataFrame
    decisions: pl.DataFrame
    replaced: pl.DataFrame
    separations: pl.DataFrame
    forwards: pl.DataFrame
    others: dict[str, dict[str, Any]]
    runs: list[Run]


def story_of(settings: Settings, *, chunk: str | None = None, row: str | None = None) -> Story:
    """The story of the chunk of that id, or the only one whose id begins so; or of what the row SOURCE:ROW_ID says."""
    if (chunk is None) == (row is None):
        raise NoSuchChunk("explain: name a chunk by its id, or a row with --row SOURCE:ROW_ID")
    warehouse = Warehouse(settings.warehouse.path)
    run = warehouse.published()
    if run is None:
        raise NoSuchChunk(f"{warehouse.location}: no run is published; `nightfold run` makes the first")
    tables = _Tables(warehouse, run)
    chunk_id = tables.chunk_named(chunk) if chunk is not None else tables.chunk_of_row(row or "")
    return tables.story(chunk_id)


@dataclass(frozen=True)
class _Tables:
    """The tables as a run published them."""

    warehouse: Warehouse
    run: Run

    def read(self, contract: Contract, where: str, *, most: int | None = None) -> pl.DataFrame:
        """The rows for which it holds, in the order of their key."""
        dataset = self.warehouse.open(contract.name, self.run)
        if dataset is None:
            return contract.empty()
        rows = pl.from_arrow(dataset.to_table(filter=where, limit=most))
        assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
        return contract.shaped(rows).sort(contract.key)

    def chunk_named(self, beginning: str) -> str:
        if _ID.fullmatch(beginning):
            found = self.read(CHUNKS, f"chunk_id like '{beginning}%'", most=100)["chunk_id"]
        else:
            found = CHUNKS.empty()["chunk_id"]
        if found.len() != 1:
            what = "no such chunk" if not found.len() else f"{_count(found)} chunks begin so, give more of the id"
            raise NoSuchChunk(
                f'{beginning}: {what}; `nightfold sql "select chunk_id, text from chunks"` shows them, and '
                "--row SOURCE:ROW_ID finds one by its row"
            )
        return str(found[0])

    def chunk_of_row(self, row: str) -> str:
        # Either name may hold a colon.
        ways = [(row[:at], row[at + 1 :]) for at, character in enumerate(row) if character == ":"]
        where = " or ".join(
            f"(source = {_quoted(source)} and source_row_id = {_quoted(name)})" for source, name in ways
        )
        found = self.read(OCCURRENCES, where) if ways else OCCURRENCES.empty()
        ids = found["chunk_id"].unique(maintain_order=True)
        if not ids.len():
            raise NoSuchChunk(f"{row}: {self._why_no_row(where)}")
        if ids.len() > 1:
            named = ", ".join(ids[:_MOST_NAMED]) + (", ..." if ids.len() > _MOST_NAMED else "")
            raise NoSuchChunk(f"{row}: says {ids.len():,} chunks; name one of them: {named}")
        return str(ids[0])

    def _why_no_row(self, where: str) -> str:
        refused = self.read(REJECTS, where) if where else REJECTS.empty()
        if refused.height:
            return f"was refused by the rule {refused['reason'][0]} (at {refused['locator'][0]}); it says no chunk"
        return 'no such row; `nightfold sql "select source, source_row_id from occurrences"` shows them'

    def story(self, chunk_id: str) -> Story:
        chunk = self.read(CHUNKS, f"chunk_id = '{chunk_id}'").row(0, named=True)
        group_id = chunk["canonical_id"]
        in_pair = f"left_id = '{chunk_id}' or right_id = '{chunk_id}'"
        reviews = self.read(PENDING_REVIEWS, f"chunk_id = '{chunk_id}' or candidates like '%{chunk_id}%'")
        asked = ",".join(map(_quoted, reviews["review_id"]))
        found = {
            "occurrences": self.read(OCCURRENCES, f"chunk_id = '{chunk_id}'").sort(
                "seen_at", "source", "source_row_id"
            ),
            "variants": self.read(VARIANTS, f"canonical_id = '{group_id}'"),
            "pairs": self.read(PAIRS, in_pair),
            "links": self.read(LINKS, in_pair),
            "contradictions": self.read(CONTRADICTIONS, in_pair),
            "reviews": reviews,
            "decisions": self.read(REVIEW_DECISIONS, f"review_id in ({asked})") if asked else REVIEW_DECISIONS.empty(),
            "replaced": self.read(CHUNKS, f"superseded_by = '{chunk_id}'"),
            "separations": self.read(SEPARATIONS, in_pair),
            "forwards": self.read(FORWARDS, f"forwards_to = '{group_id}' or canonical_id = '{chunk_id}'"),
        }
        group = self.read(CANONICALS, f"canonical_id = '{group_id}'").row(0, named=True)
        return Story(chunk, group, **found, others=self._others(chunk, group, found), runs=self._runs(found))

    def _others(
        self, chunk: dict[str, Any], group: dict[str, Any], found: dict[str, pl.DataFrame]
    ) -> dict[str, dict[str, Any]]:
        of_two = ("pairs", "links", "contradictions", "separations")
        sides = [found[name][side] for name in of_two for side in ("left_id", "right_id")]
        named = pl.Series([group["chunk_id"], *([chunk["superseded_by"]] if chunk["superseded_by"] else [])])
        ids = pl.concat([named, found["variants"]["chunk_id"], found["reviews"]["chunk_id"], *sides])
        rows = self.warehouse.lookup(CHUNKS.name, ids, ["chunk_id", "text", "source", "source_row_id"], run=self.run)
        return {each["chunk_id"]: each for each in rows.iter_rows(named=True)}

    def _runs(self, found: dict[str, pl.DataFrame]) -> list[Run]:
        ids = {each for rows in found.values() if "run_id" in rows.columns for each in rows["run_id"]}
        return [run for run in self.warehouse.runs() if run.run_id in ids]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _count(found: pl.Series) -> str:
    most = 100
    return f"{most} or more" if found.len() >= most else str(found.len())
