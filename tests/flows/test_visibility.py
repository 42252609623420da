"""The rule of who is shown what is one: the macros and the function agree on whatever the tables hold."""

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.mart import _create, _views
from schemas.contract import Contract
from schemas.rows import PERSONAL_SCOPE
from schemas.tables import (
    AGENTS,
    CANONICALS,
    CHUNKS,
    CORPORA,
    CORPUS_AGENT_ASSIGNMENTS,
    OCCURRENCES,
    PUBLISHED_TABLES,
    RUNS,
)
from transforms.visibility import held_in, visible_chunks, visible_corpora

WORKSPACES, OWNERS, AGENT_IDS = ("w1", "w2"), ("ana", "bo", ""), ("a1", "a2", "")
SCOPES = (*WORKSPACES, f"{PERSONAL_SCOPE}ana", f"{PERSONAL_SCOPE}bo")
DAY = datetime(2026, 1, 1, tzinfo=UTC)
maybe = st.none() | st.sampled_from(WORKSPACES)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, pl.DataFrame]:
    """Tables as the warehouse could hold them, and some that it never should: owners that are blank or null, a scope
    that is not the corpus's own, a standing chunk that is out."""
    corpora = [
        {
            "corpus_id": f"c{n}",
            "type": draw(st.sampled_from(["global", "personal"])),
            "name": f"n{n}",
            "owner_id": draw(st.none() | st.sampled_from(OWNERS)),
            "workspace_id": draw(maybe),
            "is_active": draw(st.booleans()),
            "scope": draw(st.sampled_from(SCOPES)),
            "is_assigned": draw(st.booleans()),
        }
        for n in range(draw(st.integers(0, 4)))
    ]
    agents = [
        {"agent_id": name, "allows_personal_corpus": draw(st.booleans()), "workspace_id": draw(maybe)}
        for name in AGENT_IDS
    ]
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(["c0", "c1", "c2", "c3"]), st.sampled_from(AGENT_IDS)), unique=True)
    )
    assignments = [{"corpus_id": corpus, "agent_id": agent} for corpus, agent in pairs]
    chunks, canonicals, occurrences = [], [], []
    for n in range(draw(st.integers(0, 5))):
        scope, size = draw(st.sampled_from(SCOPES)), draw(st.integers(1, 3))
        ids = [f"{n}{m}".zfill(32) for m in range(size)]
        canonicals.append({"canonical_id": ids[0], "chunk_id": draw(st.sampled_from(ids)), "scope": scope})
        for chunk in ids:
            is_out = draw(st.sampled_from([None, None, None, "superseded_by", "deleted_at"]))
            chunks.append(
                {
                    "chunk_id": chunk,
                    "canonical_id": ids[0],
                    "scope": scope,
                    "text": chunk,
                    "superseded_by": "x" if is_out == "superseded_by" else None,
                    "deleted_at": DAY if is_out == "deleted_at" else None,
                }
            )
            for m in range(draw(st.integers(1, 3))):
                corpus = draw(st.none() | st.sampled_from(["c0", "c1", "c2", "c3"]))
                seen = DAY + timedelta(days=draw(st.integers(0, 2)))
                one = {"occurrence_id": f"{chunk}{m}", "chunk_id": chunk, "scope": scope, "corpus_id": corpus}
                occurrences.append({**one, "seen_at": seen, "source": f"s{m}", "source_row_id": f"r{m}"})
    given: list[tuple[Contract, list[dict[str, Any]]]] = [
        (CORPORA, corpora),
        (AGENTS, agents),
        (CORPUS_AGENT_ASSIGNMENTS, assignments),
        (CHUNKS, chunks),
        (CANONICALS, canonicals),
        (OCCURRENCES, occurrences),
    ]
    return {contract.name: shaped(rows, contract) for contract, rows in given}


def shaped(rows: list[dict[str, Any]], contract: Contract) -> pl.DataFrame:
    return contract.shaped(pl.DataFrame(rows, infer_schema_length=None)) if rows else contract.empty()


@settings(max_examples=40)
@given(tables=tables(), agent=st.sampled_from([*AGENT_IDS, "a3"]) | st.none(), user=st.sampled_from(OWNERS) | st.none())
def test_the_macros_and_the_function_show_the_same(
    tables: dict[str, pl.DataFrame], agent: str | None, user: str | None
) -> None:
    with contextlib.closing(duckdb.connect()) as mart:
        for contract in (*PUBLISHED_TABLES, RUNS):
            _create(mart, contract)
            if contract.name in tables:
                mart.register("rows", tables[contract.name].to_arrow())
                mart.execute(f"insert into {contract.name} by name from rows")
                mart.unregister("rows")
        mart.execute("create table mart_run as select 'the run' as run_id")
        mart.execute(_views())
        corpora_in_sql = mart.execute("from visible_corpora($1, $2)", [agent, user]).fetchall()
        columns = "canonical_id, chunk_id, scope, corpus_id, corpus_type, corpus_name, corpus_ids, occurrences, "
        columns += "epoch_us(first_seen_at), epoch_us(last_seen_at), source"
        in_sql = mart.execute(f"select {columns} from visible_chunks($1, $2)", [agent, user]).fetchall()
    corpora = visible_corpora(
        tables["corpora"], tables["agents"], tables["corpus_agent_assignments"], agent=agent, user=user
    )
    assert corpora.rows() == corpora_in_sql
    stands = tables["canonicals"]["chunk_id"].implode()
    is_out = pl.col("superseded_by").is_not_null() | pl.col("deleted_at").is_not_null()
    chunks = tables["chunks"].with_columns(is_out=is_out, stands=pl.col("chunk_id").is_in(stands))
    rows = tables["occurrences"].select("occurrence_id", "chunk_id", "scope", "corpus_id", "seen_at")
    shown = visible_chunks(held_in(chunks.select("canonical_id", "chunk_id", "stands", "is_out"), rows, corpora))
    sources = tables["occurrences"].select("occurrence_id", "source")
    said = shown.join(sources, on="occurrence_id", maintain_order="left").select(
        *("canonical_id", "chunk_id", "scope", "corpus_id", "type", "name", "corpus_ids", "occurrences"),
        pl.col("first_seen_at", "last_seen_at").dt.epoch("us"),
        "source",
    )
    assert said.rows() == in_sql
    assert set(shown["chunk_id"]).isdisjoint(chunks.filter("is_out")["chunk_id"])
    # Whose it is: never another's, whatever the tables say.
    others = tables["corpora"].filter((pl.col("type") == "personal") & pl.col("owner_id").ne_missing(pl.lit(user)))
    assert set(corpora["corpus_id"]).isdisjoint(others["corpus_id"])
