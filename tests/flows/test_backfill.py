"""A backfill of legacy rows: what comes in, what is skipped, what the legacy system is told, and what a kill leaves."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console

from flows import backfill as backfill_module
from flows.backfill import Done, backfill, rehearse
from flows.console import Progress
from flows.errors import NightfoldError, UnreadableSource
from flows.lock import WarehouseLocked, writer_lock
from flows.night import night, rollback
from flows.run_rows import NothingPublished
from flows.slices import drop_slice
from flows.warehouse import Warehouse
from tests import oracle
from tests.flows.word_endpoint import WordEndpoint, word_vector
from tests.judged import given_verdicts, sections, word_endpoint
from tests.nights import published, run_night, settings_of

ROOT = Path(__file__).parents[2]
QUIET = Progress(quiet=True)


@pytest.fixture(autouse=True)
def _lets_nobody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill_module, "_LET_IN_SECONDS", 0.01)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as serving:
        yield serving


def hash_of(scope: str, text: str) -> str:
    return oracle.text_hash(scope, text)


def old_rows(count: int = 30) -> list[dict[str, Any]]:
    """Rows of two scopes: a third without a hash, one with a wrong one, every tenth a duplicate, one without a text."""
    rows = []
    for n in range(count):
        said = n - 2 if n % 10 == 2 else n
        scope, text = ("acme", "boreal")[n % 2], f"Pump {said} holds {said % 7} bar."
        known = hash_of(scope, text) if n % 3 else None
        rows.append(
            {
                "id": n,
                "workspace_id": scope,
                "content": text,
                "content_hash": known,
                "created_at": f"2024-01-{1 + n % 28:02d}",
            }
        )
        if n == 4:
            rows[4]["content_hash"] = "0" * 64
        if n == 7:
            rows[7]["content"] = " "
    return rows


def save(path: Path, rows: list[dict[str, Any]]) -> Path:
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
    return path


def fill(
    warehouse: Path, source: Path, /, *, emit: Path | None = None, progress: Progress = QUIET, **given: Any
) -> Done:
    """A backfill of that source; `given` are keys of the input, of [backfill], or sections."""
    one_input = {"path": str(source), "name": "old"}
    one_input |= {key: given.pop(key) for key in ("scope", "table", "name") if key in given}
    settings = settings_of(warehouse, one_input, **given)
    return backfill(settings, progress=progress, emit=emit)


def said_by_filling(warehouse: Path, source: Path, /, **given: Any) -> str:
    said = StringIO()
    fill(warehouse, source, progress=Progress(console=Console(file=said, soft_wrap=True, highlight=False)), **given)
    return said.getvalue()


def state(warehouse: Path, *tables: str) -> dict[str, pl.DataFrame]:
    """Tables without what hangs on the moment of a run."""
    every = ("chunks", "occurrences", "canonicals", "rejects", "legacy_rows")
    found = {name: published(warehouse, name) for name in tables or every}
    return {
        name: rows.select(pl.exclude("run_id", "last_run_id")).sort(rows.columns[0]) for name, rows in found.items()
    }


def same(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    for name, rows in one.items():
        assert_frame_equal(rows, other[name])


def mapping(warehouse: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(warehouse / "mart.duckdb"), read_only=True) as mart:
        return mart.sql("select old_id, canonical_id, chunk_id, rejected_by from legacy_ids order by old_id").fetchall()


# ---- rows, hashes, ids


def test_a_backfill_in_slices_ends_as_one_night_over_the_same_rows(tmp_path: Path) -> None:
    source = save(tmp_path / "old.parquet", old_rows())
    done = fill(tmp_path / "sliced", source, backfill={"slice_rows": 7})
    assert (len(done.runs), done.rows_read, done.rows_new, done.rejects) == (5, 30, 29, 1)
    given = {"path": str(source), "name": "old", "text_column": "content", "seen_at_column": "created_at"}
    run_night(tmp_path / "night", given)
    same(state(tmp_path / "night", "chunks", "occurrences", "canonicals", "rejects"), state(tmp_path / "sliced"))
    fill(tmp_path / "whole", source)
    same(state(tmp_path / "whole"), state(tmp_path / "sliced"))
    assert not list((tmp_path / "sliced" / "staging").glob("*/cut"))


def test_hashes_are_computed_compared_and_never_trusted(tmp_path: Path) -> None:
    source = save(tmp_path / "old.parquet", old_rows())
    done = fill(tmp_path / "w", source)
    assert done.found["hash_was"] == {"missing": 10, "right": 18, "wrong": 1}
    rows = published(tmp_path / "w", "legacy_rows").join(published(tmp_path / "w", "chunks"), on="chunk_id")
    assert (rows["row_hash"] == rows["content_hash"]).all()
    assert rows.filter(pl.col("old_id") == "4")["row_hash"].item() == hash_of("acme", "Pump 4 holds 4 bar.")


def test_every_old_id_leads_to_a_canonical_and_the_rejects_are_beside_them(tmp_path: Path) -> None:
    source = save(tmp_path / "old.parquet", old_rows())
    fill(tmp_path / "w", source, backfill={"slice_rows": 10})
    rows = mapping(tmp_path / "w")
    assert sorted(int(old_id) for old_id, *_ in rows) == list(range(30))
    assert [row for row in rows if row[3] is not None] == [("7", None, None, "text_is_not_empty")]
    canonicals = set(published(tmp_path / "w", "canonicals")["canonical_id"])
    assert all(canonical in canonicals for _, canonical, _, rejected in rows if rejected is None)


def test_an_id_comes_in_once_whatever_slices_its_rows_are_in(tmp_path: Path) -> None:
    rows = [{"id": n % 4, "workspace_id": "acme", "content": f"text {n}", "created_at": "2024-01-01"} for n in range(8)]
    source = save(tmp_path / "old.parquet", rows)
    given = {"shape": "knowledge_chunks"}
    done = fill(tmp_path / "sliced", source, backfill={"slice_rows": 3, **given})
    fill(tmp_path / "whole", source, backfill=given)
    assert (done.rows_new, done.rejects) == (4, 4)
    same(state(tmp_path / "whole"), state(tmp_path / "sliced"))
    assert set(published(tmp_path / "sliced", "rejects")["reason"]) == {"source_row_id_is_unique"}


def test_legacy_rows_and_new_rows_deduplicate_against_each_other_in_both_orders(tmp_path: Path) -> None:
    rows = old_rows(12)
    source = save(tmp_path / "old.parquet", rows)
    new = tmp_path / "new.csv"
    new.write_text("id,workspace_id,text\na,acme,Pump  0 holds 0 bar.\nb,boreal,Pump 0 holds 0 bar.\nc,acme,New.\n")
    given = {"path": str(new), "name": "new"}
    fill(tmp_path / "old-first", source)
    assert run_night(tmp_path / "old-first", given).run.chunks_new == 2
    run_night(tmp_path / "new-first", given)
    done = fill(tmp_path / "new-first", source, backfill={"slice_rows": 5})
    assert done.chunks_new == published(tmp_path / "old-first", "chunks").height - 3 + 0
    one, other = (
        published(tmp_path / name, "occurrences").sort("occurrence_id") for name in ("old-first", "new-first")
    )
    assert one["chunk_id"].to_list() == other["chunk_id"].to_list()
    shared = one.filter(pl.col("source_row_id").is_in(["0", "a", "2"]) & (pl.col("scope") == "acme"))
    assert shared["chunk_id"].n_unique() == 1
    assert shared.height == 3


def test_a_canonical_of_a_legacy_row_is_the_one_of_the_latest_run(tmp_path: Path, endpoint: WordEndpoint) -> None:
    base = "the red pump in hall nine has two steel valves and one long hose"
    new = tmp_path / "new.csv"
    new.write_text(f"id,workspace_id,text,at\nx,acme,{base} first,2023-01-01T00:00:00Z\n")
    rows = [
        {"id": 1, "workspace_id": "acme", "content": f"{base} later", "content_hash": None, "created_at": "2024-01-01"}
    ]
    source = save(tmp_path / "old.parquet", rows)
    with given_verdicts() as verdicts:
        verdicts.say("first", "later")
        over = sections(endpoint, guard={"max_removed_share": 1})
        fill(tmp_path / "w", source, **over)
        ((_, alone, chunk, _),) = mapping(tmp_path / "w")
        assert alone == chunk
        run_night(tmp_path / "w", {"path": str(new), "name": "new", "seen_at_column": "at"}, **over)
    ((_, canonical, same_chunk, _),) = mapping(tmp_path / "w")
    assert same_chunk == chunk
    merged = published(tmp_path / "w", "variants")
    assert merged.height == 1
    assert canonical == published(tmp_path / "w", "canonicals")["canonical_id"].item()


def test_rows_that_are_in_are_skipped_and_changed_ones_are_not(tmp_path: Path) -> None:
    rows = old_rows()
    source = save(tmp_path / "old.parquet", rows)
    fill(tmp_path / "w", source, backfill={"slice_rows": 10})
    before, runs = state(tmp_path / "w"), len(Warehouse(str(tmp_path / "w")).runs())
    again = fill(tmp_path / "w", source, backfill={"slice_rows": 10})
    assert (again.slices_skipped, again.rows_new, again.rows_known) == (3, 0, 29)
    assert len(Warehouse(str(tmp_path / "w")).runs()) == runs
    same(before, state(tmp_path / "w"))
    rows[12]["content"] = "Another pump."
    save(source, [*rows, {**rows[0], "id": 30}])
    changed = fill(tmp_path / "w", source, backfill={"slice_rows": 10})
    assert (changed.slices_skipped, changed.rows_new, changed.rows_known) == (2, 2, 28)
    moved = published(tmp_path / "w", "legacy_rows").filter(pl.col("old_id") == "12")
    chunk = published(tmp_path / "w", "chunks").filter(pl.col("text") == "Another pump.")
    assert moved["chunk_id"].to_list() == chunk["chunk_id"].to_list()


# ---- embeddings


def embedded_rows() -> list[dict[str, Any]]:
    texts = [f"word{n} pump valve" for n in range(8)]
    vectors: list[list[float] | None] = [(word_vector(text)[::-1] * 3).tolist() for text in texts]
    vectors[1], vectors[2], vectors[3] = [0.0] * 32, [float("nan")] * 32, [1.0] * 31
    vectors[4] = None
    models = ["words"] * 8
    models[5] = "other"
    columns = zip(texts, vectors, models, strict=True)
    return [
        {"id": n, "workspace_id": "acme", "content": text, "embedding": vector, "embedding_model": model}
        for n, (text, vector, model) in enumerate(columns)
    ]


def test_an_embedding_that_fits_is_taken_over_and_any_other_is_made_anew(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    rows = embedded_rows()
    source = save(tmp_path / "old.parquet", rows)
    endpoint.forget()
    done = fill(tmp_path / "w", source, embedding=endpoint.settings())
    assert done.found["embedding_was"] == {
        "usable": 3,
        **dict.fromkeys(("none", "zero", "not_finite", "wrong_dimension", "other_model"), 1),
    }
    assert sorted(endpoint.given) == sorted(row["content"] for row in rows if row["id"] in (1, 2, 3, 4, 5))
    chunks = published(tmp_path / "w", "chunks")
    assert set(chunks["completion_status"]) == {"complete"}
    assert set(chunks["embedding_model"]) == {"words"}
    run = Warehouse(str(tmp_path / "w")).published()
    assert run is not None
    vectors = published(tmp_path / "w", run.vector_tables[0]).join(chunks, on="chunk_id").sort("text")
    for row, vector in zip(rows, vectors["vector"].to_list(), strict=True):
        wanted = word_vector(row["content"])[:: -1 if row["id"] in (0, 6, 7) else 1]
        assert vector == pytest.approx((wanted / (wanted @ wanted) ** 0.5).tolist(), abs=1e-6)


def test_what_someone_else_computed_stays_in_its_scope(tmp_path: Path, endpoint: WordEndpoint) -> None:
    rows = [row for row in embedded_rows() if row["id"] == 0]
    source = save(tmp_path / "old.parquet", rows)
    fill(tmp_path / "w", source, embedding=endpoint.settings())
    new = tmp_path / "new.csv"
    new.write_text("id,workspace_id,text\na,boreal,word0 pump valve\nb,acme,word0  pump valve\n")
    endpoint.forget()
    run_night(tmp_path / "w", {"path": str(new), "name": "new"}, embedding=endpoint.settings())
    assert list(endpoint.given) == ["word0 pump valve"]
    run = Warehouse(str(tmp_path / "w")).published()
    assert run is not None
    vectors = published(tmp_path / "w", run.vector_tables[0])
    assert vectors["text_key"].n_unique() == 2


def test_a_chunk_that_waits_for_its_vector_takes_the_one_of_a_legacy_row(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("id,workspace_id,text\na,acme,word0 pump valve\n")
    endpoint.down = "500"
    run_night(tmp_path / "w", {"path": str(new), "name": "new"}, embedding=endpoint.settings())
    assert set(published(tmp_path / "w", "chunks")["completion_status"]) == {"incomplete"}
    try:
        source = save(tmp_path / "old.parquet", [row for row in embedded_rows() if row["id"] in (0, 6)])
        fill(tmp_path / "w", source, embedding=endpoint.settings())
    finally:
        endpoint.down = None
    assert set(published(tmp_path / "w", "chunks")["completion_status"]) == {"complete"}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "duckdb"])
def test_embeddings_come_from_text_json_and_arrays_alike(tmp_path: Path, suffix: str, endpoint: WordEndpoint) -> None:
    rows = pl.DataFrame([row for row in embedded_rows() if row["id"] in (0, 6, 7)])
    source = tmp_path / f"old.{suffix}"
    given: dict[str, Any] = {}
    if suffix == "csv":
        as_text = pl.format("[{}]", pl.col("embedding").cast(pl.List(pl.String)).list.join(","))
        rows.with_columns(embedding=as_text).write_csv(source)
    elif suffix == "jsonl":
        rows.write_ndjson(source)
    else:
        given = {"table": "old_rows"}
        with duckdb.connect(str(source)) as store:
            store.register("rows", rows.to_arrow())
            store.execute("create table old_rows as select * replace (embedding::float[32] as embedding) from rows")
    done = fill(tmp_path / "w", source, embedding=endpoint.settings(), **given)
    assert done.found["embedding_was"] == {"usable": 3}
    assert done.chunks_new == 3


# ---- the other shapes


def test_documents_are_cut_and_have_a_place_for_each_window(tmp_path: Path) -> None:
    long = " ".join(f"w{n}" for n in range(25))
    rows: list[dict[str, Any]] = [
        {"id": "a", "workspace_id": "acme", "title": "A", "content": long, "content_hash": hash_of("acme", long)},
        {"id": "b", "workspace_id": "acme", "title": "B", "content": "short  text", "content_hash": None},
        {"id": "c", "workspace_id": "acme", "title": "C", "content": "short text", "content_hash": None},
    ]
    source = save(tmp_path / "old.parquet", rows)
    cut: dict[str, Any] = {"chunking": {"tokens": 10, "overlap": 0}, "backfill": {"shape": "documents"}}
    done = fill(tmp_path / "w", source, emit=tmp_path / "up", **cut)
    assert done.found["hash_was"] == {"right": 1, "missing": 2}
    placed = published(tmp_path / "w", "legacy_rows").sort("old_id", "chunk_index")
    assert placed.select("old_id", "chunk_index").rows() == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0)]
    updates = pl.read_csv(tmp_path / "up" / "updates.csv", schema_overrides={"chunk_index": pl.Int32}).rows(named=True)
    assert [(row["id"], row["chunk_id"] is None) for row in updates] == [("a", True), ("b", False), ("c", False)]
    assert [row["is_duplicate"] for row in updates].count(True) == 1
    assert not updates[0]["is_duplicate"]
    assert updates[0]["content_hash"] == hash_of("acme", long)
    assert updates[1]["content_hash"] == updates[2]["content_hash"] == hash_of("acme", "short text")
    # A document that has become shorter has no place for the windows it has no more.
    rows[0]["content"] = "short at last"
    save(source, rows)
    fill(tmp_path / "w", source, **cut)
    placed = published(tmp_path / "w", "legacy_rows").sort("old_id", "chunk_index")
    assert placed.select("old_id", "chunk_index").rows() == [("a", 0), ("b", 0), ("c", 0)]


def test_memories_are_compared_with_those_of_their_owner_alone(tmp_path: Path) -> None:
    rows = [
        {"id": n, "owner_key": owner, "session_id": n, "role": "user", "content": text, "created_at": "2024-05-01"}
        for n, (owner, text) in enumerate([("ana", "Likes tea."), ("ana", "Likes  tea."), ("ben", "Likes tea.")])
    ]
    fill(tmp_path / "w", save(tmp_path / "old.parquet", rows))
    chunks = published(tmp_path / "w", "chunks").sort("scope")
    assert chunks.select("scope", "kind", "occurrences").rows() == [("ana", "memory", 2), ("ben", "memory", 1)]


def test_columns_of_other_names_are_named_and_a_wrong_name_is_told(tmp_path: Path) -> None:
    rows = [{"key": 1, "tenant": "acme", "words": "said", "sha": hash_of("acme", "said"), "at": "2024-05-01"}]
    source = save(tmp_path / "old.parquet", rows)
    named = {"id_column": "key", "text_column": "words", "hash_column": "sha", "seen_at_column": "at"}
    asked = {"shape": "knowledge_chunks", "scope_by": ["tenant"], **named}
    done = fill(tmp_path / "w", source, backfill=asked)
    assert done.found["hash_was"] == {"right": 1}
    assert published(tmp_path / "w", "chunks").select("scope", "metadata").rows() == [("acme", None)]
    with pytest.raises(UnreadableSource, match=r"no column 'sum' for hash \(\[backfill\] hash_column\); there are key"):
        fill(tmp_path / "w", source, backfill={**asked, "hash_column": "sum"})
    with pytest.raises(UnreadableSource, match=r"columns of no known table; say which it is with --shape"):
        fill(tmp_path / "w", source)
    (tmp_path / "a.txt").write_text("A document.")
    with pytest.raises(UnreadableSource, match="is a document; `nightfold backfill` takes rows of a table"):
        fill(tmp_path / "w", tmp_path / "a.txt")


# ---- updates


def test_the_updates_run_in_sqlite_and_duckdb_and_say_what_the_csv_says(tmp_path: Path) -> None:
    rows = old_rows(12)
    rows[3]["id"], rows[5]["workspace_id"] = 1003, "o'neil; --"
    source = save(tmp_path / "old.parquet", rows)
    done = fill(tmp_path / "w", source, emit=tmp_path / "up")
    assert done.emitted is not None
    assert (done.emitted.updates, done.emitted.without_id, done.emitted.rejects) == (11, 0, 1)
    script = (tmp_path / "up" / "updates.sql").read_text()
    columns = "content_hash text, completion_status text, canonical_id text, chunk_id text, is_duplicate boolean"
    table = f"create table knowledge_chunks (id bigint primary key, workspace_id text, {columns})"
    told = "id, content_hash, completion_status, canonical_id, chunk_id, is_duplicate"
    asked = f"select {told} from knowledge_chunks order by id"
    given = [(row["id"], row["workspace_id"]) for row in rows]
    insert = "insert into knowledge_chunks (id, workspace_id) values (?, ?)"
    lite = sqlite3.connect(tmp_path / "lite.db", isolation_level=None)
    lite.execute(table)
    lite.executemany(insert, given)
    lite.executescript(script)
    in_lite = [(*row[:5], None if row[5] is None else bool(row[5])) for row in lite.execute(asked)]
    lite.close()
    with duckdb.connect() as duck:
        duck.execute(table)
        duck.executemany(insert, given)
        duck.execute(script)
        in_duck = duck.execute(asked).fetchall()
    assert in_lite == in_duck
    lines = pl.read_csv(tmp_path / "up" / "updates.csv").sort("id")
    assert [row[:6] for row in lines.rows()] == [row for row in in_duck if row[1] is not None]
    assert [row[0] for row in in_duck if row[1] is None] == [7]
    assert [row[0] for row in in_duck if row[5]] == [2]
    assert "text_is_not_empty" in (tmp_path / "up" / "rejects.csv").read_text()


def test_rows_without_an_id_are_in_and_no_update_names_them(tmp_path: Path) -> None:
    rows = [{**row, "id": None if row["id"] == 3 else row["id"]} for row in old_rows(6)]
    done = fill(tmp_path / "w", save(tmp_path / "old.parquet", rows), emit=tmp_path / "up")
    assert done.emitted is not None
    assert (done.emitted.updates, done.emitted.without_id) == (5, 1)
    nameless = save(tmp_path / "bare.parquet", [{"content": "said", "content_hash": None}])
    with pytest.raises(NightfoldError, match=r"has no column of ids, so that no update could name a row"):
        fill(tmp_path / "w", nameless, emit=tmp_path / "up")
    (tmp_path / "file").write_text("")
    with pytest.raises(NightfoldError, match=r"the updates cannot be written there \(.*name another folder"):
        fill(tmp_path / "w", tmp_path / "old.parquet", emit=tmp_path / "file")


# ---- the dry run


def test_a_dry_run_says_what_would_come_and_writes_nothing(tmp_path: Path) -> None:
    source = save(tmp_path / "old.parquet", old_rows())
    new = tmp_path / "new.csv"
    new.write_text("id,workspace_id,text\na,acme,Pump 0 holds 0 bar.\n")
    run_night(tmp_path / "w", {"path": str(new), "name": "new"})
    before = state(tmp_path / "w")
    told, cut, outcome = rehearse(settings_of(tmp_path / "w", {"path": str(source), "name": "old"}), progress=QUIET)
    assert told.line.startswith("old: read as knowledge_chunks (by content_hash); columns: id id, text content")
    assert (cut.counts["rows_read"], outcome.run.rows_in, outcome.reasons) == (30, 30, {"text_is_not_empty": 1})
    assert outcome.legacy["hash_was"] == {"missing": 10, "right": 18, "wrong": 1}
    assert outcome.legacy["embedding_was"] == {"none": 29}
    assert outcome.legacy["duplicates_there"] == 2
    assert outcome.legacy["duplicates_inside"] == 29 - 2 - outcome.run.chunks_new
    same(before, state(tmp_path / "w"))
    assert not list((tmp_path / "w" / "staging").glob("*"))


# ---- slices: kills, changes, neighbours

_DIES = """
import os, signal, sys
import flows.backfill, flows.legacy, flows.night_stages, flows.slices
from flows.cli import main

def dies_after(times, work):
    calls = iter(range(times))
    def wrapped(*given, **named):
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*given, **named)
    return wrapped

flows.backfill._LET_IN_SECONDS = 0.01
places = {
    "cut": (flows.slices, "checked_embeddings"),
    "legacy": (flows.night_stages, "place_legacy_rows"),
    "write": (flows.night_stages, "write_tables"),
    "published": (flows.backfill, "drop_slice"),
}
place, times = sys.argv.pop(1), int(sys.argv.pop(1))
module, name = places[place]
setattr(module, name, dies_after(times, getattr(module, name)))
main()
"""


def killed(place: str, times: int, source: Path, warehouse: Path) -> int:
    line = [sys.executable, "-c", _DIES, place, str(times), "backfill", str(source), "--warehouse", str(warehouse)]
    done = subprocess.run(
        [*line, "--slice-rows", "8", "--source", "old"], cwd=source.parent, capture_output=True, check=False
    )
    return done.returncode


def test_killed_wherever_it_is_it_goes_on_and_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    source = save(tmp_path / "old.parquet", old_rows())
    fill(tmp_path / "calm", source, backfill={"slice_rows": 8})
    for place, times in (("cut", 0), ("write", 1), ("published", 0), ("legacy", 1)):
        assert killed(place, times, source, tmp_path / "stormy") == -signal.SIGKILL, place
    said = said_by_filling(tmp_path / "stormy", source, backfill={"slice_rows": 8})
    assert "going on from slice " in said
    same(state(tmp_path / "calm"), state(tmp_path / "stormy"))
    assert mapping(tmp_path / "calm") == mapping(tmp_path / "stormy")
    runs = [run for run in Warehouse(str(tmp_path / "stormy")).runs() if run.is_readable]
    assert len(runs) == 4  # none of the slices was published twice


def test_a_changed_source_is_told_and_cut_anew(tmp_path: Path) -> None:
    rows = old_rows()
    source = save(tmp_path / "old.parquet", rows)
    assert killed("published", 1, source, tmp_path / "w") == -signal.SIGKILL
    save(source, [*rows, {**rows[0], "id": 99, "content": "One more."}])
    said = said_by_filling(tmp_path / "w", source, backfill={"slice_rows": 8})
    assert "old: the source changed since a backfill of it was begun: it is cut anew" in said
    assert "rows in already" in said
    assert published(tmp_path / "w", "legacy_rows").height == 30
    assert killed("published", 0, source, tmp_path / "w") == -signal.SIGKILL
    said = said_by_filling(tmp_path / "w", source, backfill={"slice_rows": 9})
    assert "old: the settings changed since a backfill of it was begun" in said


def test_a_night_goes_between_two_slices_and_one_that_holds_the_lock_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = save(tmp_path / "old.parquet", old_rows(16))
    new = tmp_path / "new.csv"
    new.write_text("id,workspace_id,text\na,acme,Between two slices.\n")
    fill(tmp_path / "alone", source)
    run_night(tmp_path / "alone", {"path": str(new), "name": "new"})
    tries = []

    def drops_and_lets_in(one: Any, *, run_id: str) -> None:
        drop_slice(one, run_id=run_id)
        if one.number == 0:
            run_night(tmp_path / "w", {"path": str(new), "name": "new"})

    def is_locked_at_first(*given: Any, **named: Any) -> Any:
        tries.append(1)
        if len(tries) == 2:
            raise WarehouseLocked("another run holds the lock")
        return night(*given, **named)

    monkeypatch.setattr(backfill_module, "drop_slice", drops_and_lets_in)
    monkeypatch.setattr(backfill_module, "night", is_locked_at_first)
    fill(tmp_path / "w", source, backfill={"slice_rows": 8})
    assert len(tries) == 3
    ids = [set(published(tmp_path / name, "occurrences")["occurrence_id"]) for name in ("alone", "w")]
    assert ids[0] == ids[1]


def test_many_slices_push_no_night_out_of_what_is_kept(tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("id,workspace_id,text\na,acme,Before all slices.\n")
    first = run_night(tmp_path / "w", {"path": str(new), "name": "new"}).run
    fill(
        tmp_path / "w",
        save(tmp_path / "old.parquet", old_rows(16)),
        backfill={"slice_rows": 3},
        warehouse={"keep_runs": 2},
    )
    warehouse = Warehouse(str(tmp_path / "w"))
    slices = [run for run in warehouse.runs() if run.backfill is not None]
    assert len(slices) == 6
    assert len({run.backfill for run in slices}) == 1
    assert warehouse.can_restore(first)
    assert [warehouse.can_restore(run) for run in slices] == [False, False, False, True, True, True]


def test_slices_that_a_rollback_took_away_come_in_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, new = save(tmp_path / "old.parquet", old_rows(16)), tmp_path / "new.csv"
    new.write_text("id,workspace_id,text\na,acme,Before all slices.\n")
    run_night(tmp_path / "w", {"path": str(new), "name": "new"})
    shutil.copytree(tmp_path / "w", tmp_path / "calm")
    fill(tmp_path / "calm", source)
    first = Warehouse(str(tmp_path / "w")).runs()[0].run_id

    def goes_back() -> None:
        rollback(settings_of(tmp_path / "w"), first, progress=QUIET)

    # Stopped on the way, and taken back before it goes on.
    assert killed("published", 1, source, tmp_path / "w") == -signal.SIGKILL
    goes_back()
    said = said_by_filling(tmp_path / "w", source, backfill={"slice_rows": 8})
    assert "old: slices of it are in no longer, after a rollback: it is cut anew" in said
    same(state(tmp_path / "calm"), state(tmp_path / "w"))

    # Taken back while it goes on.
    goes_back()

    def drops_and_goes_back(one: Any, *, run_id: str) -> None:
        drop_slice(one, run_id=run_id)
        if one.number == 0:
            goes_back()

    with monkeypatch.context() as patch:
        patch.setattr(backfill_module, "drop_slice", drops_and_goes_back)
        with pytest.raises(NightfoldError, match=r"old: a rollback took slices of it away while others came in"):
            fill(tmp_path / "w", source, backfill={"slice_rows": 8})
    fill(tmp_path / "w", source, backfill={"slice_rows": 8})
    same(state(tmp_path / "calm"), state(tmp_path / "w"))


def test_who_holds_the_warehouse_or_the_source_is_told_at_once(tmp_path: Path) -> None:
    source = save(tmp_path / "old.parquet", old_rows(4))
    with (
        writer_lock(tmp_path / "w", doing="a night", wait_seconds=0, tell=print),
        pytest.raises(WarehouseLocked, match=r"a night .* holds the lock"),
    ):
        fill(tmp_path / "w", source, warehouse={"lock_wait_seconds": 0})
    (state_folder,) = (tmp_path / "w" / "staging").glob("backfill-*")
    with (
        writer_lock(state_folder, doing="a night", wait_seconds=0, tell=print),
        pytest.raises(WarehouseLocked, match=r"a night .* holds the lock"),
    ):
        fill(tmp_path / "w", source)


def test_a_slice_that_a_guard_stops_leaves_those_before_it_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = save(tmp_path / "old.parquet", old_rows(12))
    nights = []

    def stopped_at_the_second(*given: Any, **named: Any) -> Any:
        nights.append(1)
        if len(nights) == 2:
            raise NothingPublished("a guard")
        return night(*given, **named)

    monkeypatch.setattr(backfill_module, "night", stopped_at_the_second)
    with pytest.raises(NothingPublished, match=r"slice 2: a guard\. Slices before it are in; the same command goes on"):
        fill(tmp_path / "w", source, backfill={"slice_rows": 6})
    assert published(tmp_path / "w", "legacy_rows").height == 6
    assert fill(tmp_path / "w", source, backfill={"slice_rows": 6}).rows_new == 5


def test_too_many_rejects_are_those_of_the_whole_source(tmp_path: Path) -> None:
    rows = [{**row, "content": " " if row["id"] < 7 else row["content"]} for row in old_rows(12)]
    source = save(tmp_path / "old.parquet", rows)
    with pytest.raises(NothingPublished, match=r"old: 8 of 12 rows would be rejected, more than \[guard\] max_reject"):
        fill(tmp_path / "w", source, backfill={"slice_rows": 6})
    assert Warehouse(str(tmp_path / "w")).published() is None
    done = fill(tmp_path / "w", source, backfill={"slice_rows": 6}, guard={"allow": ["max_reject_share"]})
    assert (done.rows_new, done.rejects) == (4, 8)


def test_files_with_and_without_a_scope_are_not_mixed_and_late_ones_count(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "a.csv").write_text("id,content,content_hash,embedding\n1,said,,\n")
    (folder / "b.csv").write_text("id,workspace_id,content,content_hash,embedding\n2,acme,said,,\n")
    with pytest.raises(UnreadableSource, match=r"a.csv: no column workspace_id, which b.csv of this input has"):
        fill(tmp_path / "w", folder, backfill={"slice_rows": 1})
    shutil.rmtree(tmp_path / "w")
    (folder / "a.csv").write_text("id,workspace_id,content,content_hash,embedding\n1,acme,said,,\n3,,x,,\nbad\n")
    (folder / "b.csv").write_text("id,workspace_id,content\n2,acme,said\n")
    done = fill(tmp_path / "w", folder, backfill={"slice_rows": 1})
    assert (done.rows_read, done.rows_new, done.rejects, done.chunks_new) == (4, 2, 2, 1)
    assert sorted(published(tmp_path / "w", "rejects")["locator"]) == ["a.csv:3", "a.csv:4"]
    assert list((tmp_path / "w" / "staging").iterdir()) == []
