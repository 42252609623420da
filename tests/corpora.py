"""Warehouses with corpora, for tests: tables given as rows, nights over them, and who sees what."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from flows.night import Outcome
from flows.search import Hit, Searcher
from flows.settings import Settings
from tests.flows.word_endpoint import WordEndpoint
from tests.nights import published, run_night, said_by_night, settings_of

# corpus_id, type, owner_id, workspace_id, is_active
Corpus = tuple[str, str, str | None, str | None, bool]
Row = dict[str, Any]


def global_(corpus_id: str, workspace: str = "acme", *, is_active: bool = True) -> Corpus:
    return corpus_id, "global", None, workspace, is_active


def personal(corpus_id: str, owner: str, workspace: str | None = None, *, is_active: bool = True) -> Corpus:
    return corpus_id, "personal", owner, workspace, is_active


def row(corpus: str | None, name: str, text: str, **more: Any) -> Row:
    """A row of a corpus, with the id and text it has in its source."""
    return {"corpus_id": corpus, "id": name, "text": text, **more}


@dataclass
class World:
    """A folder with the tables of [corpora], an input and a warehouse. What a night is not told stays as it was."""

    folder: Path
    endpoint: WordEndpoint | None = None
    corpora: list[Corpus] = field(default_factory=list)
    agents: list[tuple[str, bool, str | None]] = field(default_factory=list)
    assignments: list[tuple[str, str]] = field(default_factory=list)
    documents: list[dict[str, str | None]] = field(default_factory=list)
    over: dict[str, Any] = field(default_factory=lambda: {"judge": {"enabled": False}})
    nights: int = 0

    @property
    def warehouse(self) -> Path:
        return self.folder / "w"

    def _tables(self) -> dict[str, str]:
        frames = {
            "corpora": pl.DataFrame(
                self.corpora,
                schema={
                    **dict.fromkeys(("corpus_id", "type", "owner_id", "workspace_id"), pl.String),
                    "is_active": pl.Boolean,
                },
                orient="row",
            ),
            "agents": pl.DataFrame(
                self.agents,
                schema={"agent_id": pl.String, "allows_personal_corpus": pl.Boolean, "workspace_id": pl.String},
                orient="row",
            ),
            "assignments": pl.DataFrame(
                self.assignments, schema={"corpus_id": pl.String, "agent_id": pl.String}, orient="row"
            ),
            "documents": pl.DataFrame(self.documents, schema=dict.fromkeys(_DOCUMENT, pl.String)),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, frame in frames.items():
            frame.write_parquet(self.folder / f"{name}.parquet")
        return {name: str(self.folder / f"{name}.parquet") for name in frames}

    def _given(self, rows: tuple[Row, ...], source: str, **given: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        tables = self._tables()
        path = self.folder / f"{source}.parquet"
        pl.DataFrame(list(rows), infer_schema_length=None).write_parquet(path)
        embedding = {} if self.endpoint is None else {"embedding": self.endpoint.settings(batch_size=100)}
        return [{"path": str(path), "name": source, **given}], {**embedding, "corpora": tables, **self.over}

    def night(self, *rows: Row, source: str = "rows", **given: Any) -> Outcome:
        """One night with these rows."""
        inputs, sections = self._given(rows, source, **given)
        return run_night(self.warehouse, *inputs, **sections)

    def said(self, *rows: Row, source: str = "rows") -> str:
        """What a night with these rows says."""
        inputs, sections = self._given(rows, source)
        return said_by_night(self.warehouse, *inputs, **sections)

    @property
    def settings(self) -> Settings:
        embedding = {} if self.endpoint is None else {"embedding": self.endpoint.settings(batch_size=100)}
        return settings_of(self.warehouse, **embedding, **self.over)

    def table(self, name: str) -> pl.DataFrame:
        return published(self.warehouse, name)

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.warehouse / "mart.duckdb"), read_only=True) as mart:
            return mart.execute(query, list(values)).fetchall()

    def rejected(self) -> list[tuple[str, str]]:
        return sorted(self.table("rejects").select("source", "reason").rows())


_DOCUMENT = ("document_id", "corpus_id", "source", "source_doc_id", "status", "reason")


def texts(hits: list[Hit]) -> list[str]:
    """What was found, best first."""
    return [hit.text or "" for hit in hits]


def found(searcher: Searcher, query: str, agent: str, user: str, **over: Any) -> list[Hit]:
    """All that the agent finds for the user, near or not."""
    return searcher.search(query, agent=agent, user=user, **{"k": 100, "min_score": 0.0, **over})
