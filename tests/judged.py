"""Nights in which the test says what two texts are to each other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.judging import VERDICT
from flows.settings import JudgeSettings
from schemas.terms import DISTINCT, EQUIVALENT, LEFT, RIGHT
from tests.flows.word_endpoint import WordEndpoint, serving
from tests.nights import published, run_night

# Every text begins so, and therefore is near to every other of its scope.
BASE = "the red pump in hall nine has two steel valves and one long hose"
JANUARY = "2026-01-{:02d}T02:00:00Z"


def text(name: str) -> str:
    return f"{BASE} {name}"


@dataclass
class Verdicts:
    """What two texts are to each other, by the names they end in; distinct where nothing is said."""

    given: dict[frozenset[str], dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def say(self, one: str, other: str, relation: str = EQUIVALENT, *, larger: str | None = None, **over: Any) -> None:
        """`larger` also names the newer of a superseding pair."""
        sure = {"confidence": 0.99, "reading": 0.99, "is_confirmed": True, "evidence": f"{one} and {other}"}
        self.given[frozenset([one, other])] = {"relation": relation, "larger": larger, **sure, **over}

    def judge(
        self,
        pairs: pl.DataFrame,
        chunks: pl.DataFrame,
        *,
        settings: JudgeSettings,
        tell: Callable[[str], None],
        tell_rows: Callable[[int], None],
        to_read: object = None,
    ) -> pl.DataFrame:
        """In place of `judge_pairs`."""
        names = {chunk_id: said.split()[-1] for chunk_id, said in chunks.select("chunk_id", "text").iter_rows()}
        rows = []
        for left_id, right_id in pairs.select("left_id", "right_id").iter_rows():
            left, right = names[left_id], names[right_id]
            self.asked.append((left, right))
            nothing = {"relation": DISTINCT, "larger": None, "confidence": 0.99, "reading": None, "evidence": ""}
            said = self.given.get(frozenset([left, right]), nothing)
            side = None if said["larger"] is None else LEFT if said["larger"] == left else RIGHT
            rows.append({"is_confirmed": False, **said, "stands": side, "decided_by": "test"})
        tell_rows(pairs.height)
        return pairs.hstack(pl.DataFrame(rows, schema=VERDICT))


@contextmanager
def given_verdicts() -> Iterator[Verdicts]:
    """The judge of this process says what the test does, for as long as the block."""
    verdicts = Verdicts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.verdicts.judge_pairs", verdicts.judge)
        yield verdicts


@contextmanager
def word_endpoint() -> Iterator[WordEndpoint]:
    """An endpoint that embeds words, reached without a proxy."""
    with pytest.MonkeyPatch.context() as patch, serving() as endpoint:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield endpoint


Row = tuple[str, str, int] | tuple[str, str, int, dict[str, Any]]


def given(path: Path, *rows: Row) -> dict[str, Any]:
    """An input of rows (scope, name, day of January), some with columns of their own."""
    frame = pl.DataFrame(
        [
            {
                "workspace_id": scope,
                "id": f"{scope}-{name}",
                "text": text(name),
                "at": JANUARY.format(day),
                **dict(*more),
            }
            for scope, name, day, *more in rows
        ],
        infer_schema_length=None,
    )
    frame.write_parquet(path)
    return {"path": str(path), "name": path.stem, "seen_at_column": "at"}


def sections(endpoint: WordEndpoint, **over: Any) -> dict[str, Any]:
    """Settings by which every two chunks of a scope are a candidate pair."""
    near = {"neighbours": {"max_candidates": 100, "threshold": 0.5}}
    return {**near, "embedding": endpoint.settings(batch_size=100), **over}


@dataclass
class Nights:
    """A warehouse, its endpoint and its judge."""

    folder: Path
    endpoint: WordEndpoint
    verdicts: Verdicts
    over: dict[str, Any] = field(default_factory=dict)
    count: int = 0

    @property
    def warehouse(self) -> Path:
        return self.folder / "w"

    def sections(self, **over: Any) -> dict[str, Any]:
        return sections(self.endpoint, **{**self.over, **over})

    def run(self, *rows: Row, source: str | None = None, **over: Any) -> Any:
        """A night with these rows."""
        self.count += 1
        path = self.folder / f"{source or f'night{self.count}'}.parquet"
        self.folder.mkdir(parents=True, exist_ok=True)
        inputs = [given(path, *rows)] if rows else []
        return run_night(self.warehouse, *inputs, **self.sections(**over)).run

    def table(self, table: str) -> pl.DataFrame:
        return published(self.warehouse, table)

    @property
    def names(self) -> dict[str, str]:
        """The name of each chunk by its id, with its scope where that is not acme."""
        rows = self.table("chunks").select("chunk_id", "scope", "text").iter_rows()
        return {
            chunk_id: said.split()[-1] if scope == "acme" else f"{scope}/{said.split()[-1]}"
            for chunk_id, scope, said in rows
        }

    def id_of(self, name: str) -> str:
        return next(chunk_id for chunk_id, known in self.names.items() if known == name)

    @property
    def groups(self) -> dict[str, tuple[str, str]]:
        """By name: whose id its group has, and who stands for it."""
        stands = dict(self.table("canonicals").select("canonical_id", "chunk_id").iter_rows())
        names = self.names
        return {
            names[chunk_id]: (names[canonical_id], names[stands[canonical_id]])
            for chunk_id, canonical_id in self.table("chunks").select("chunk_id", "canonical_id").iter_rows()
        }

    @property
    def actions(self) -> dict[str, str]:
        names = self.names
        return {
            names[chunk_id]: action
            for chunk_id, action in self.table("chunks").select("chunk_id", "action").iter_rows()
        }

    def row_of(self, table: str, name: str) -> dict[str, Any]:
        return self.table(table).filter(pl.col("chunk_id") == self.id_of(name)).row(0, named=True)
