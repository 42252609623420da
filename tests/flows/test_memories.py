"""Memories: each owner's are their own, what is remembered twice is one, and its time is that of the last time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.flows.word_endpoint import WordEndpoint
from tests.judged import BASE, given_verdicts, sections, word_endpoint
from tests.nights import published, run_night

SAMPLE = Path(__file__).parents[2] / "data/sample/memories/memories.jsonl"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


def memory(name: str, owner: str, session: str, content: str, day: int, **more: Any) -> dict[str, Any]:
    at = f"2026-03-{day:02d}T08:00:00+01:00"
    return {
        "id": name,
        "owner_key": owner,
        "session": session,
        "role": "user",
        "content": content,
        "timestamp": at,
        **more,
    }


def remember(folder: Path, *rows: dict[str, Any], **over: Any) -> pl.DataFrame:
    """The chunks after a night with these memories, their columns not mapped."""
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(list(rows), infer_schema_length=None).write_ndjson(folder / "memories.jsonl")
    run_night(folder / "w", {"path": str(folder / "memories.jsonl"), "kind": "memory"}, **over)
    return published(folder / "w", "chunks").sort("first_seen_at", "chunk_id")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memories") / "w"
    run_night(folder, {"path": str(SAMPLE), "kind": "memory"})
    return folder


def test_the_usual_columns_need_no_mapping(sample: Path) -> None:
    given = pl.read_ndjson(SAMPLE)
    chunks, rows = published(sample, "chunks"), published(sample, "occurrences")
    assert set(chunks["scope"]) == set(given["owner_key"])
    assert rows.height == given.height
    assert set(rows["metadata"].str.json_path_match("$.session")) == set(given["session"])
    said = given.select("id", at=pl.col("timestamp").str.to_datetime(time_zone="UTC", time_unit="us"))
    seen = rows.join(said, left_on="source_row_id", right_on="id")
    assert seen.filter(pl.col("seen_at") != pl.col("at")).is_empty()


def test_what_one_owner_says_in_several_sessions_is_one_with_the_time_of_the_last(sample: Path) -> None:
    rows = published(sample, "occurrences").filter(pl.col("source_row_id").is_in(["mem-002", "mem-014", "mem-029"]))
    assert rows["metadata"].str.json_path_match("$.session").n_unique() == 3
    (chunk,) = published(sample, "chunks").filter(pl.col("chunk_id") == rows["chunk_id"][0]).rows(named=True)
    assert chunk["occurrences"] == 3
    assert (chunk["first_seen_at"], chunk["last_seen_at"]) == (rows["seen_at"].min(), rows["seen_at"].max())


def test_the_same_words_of_two_owners_stay_two(sample: Path) -> None:
    rows = published(sample, "occurrences").filter(pl.col("source_row_id").is_in(["mem-002", "mem-006"]))
    assert rows["chunk_id"].n_unique() == rows["scope"].n_unique() == 2


def test_a_memory_that_says_force_is_kept(sample: Path) -> None:
    rows = published(sample, "occurrences").filter(pl.col("source_row_id").is_in(["mem-012", "mem-026", "mem-050"]))
    same = rows.filter(pl.col("source_row_id") != "mem-026")["chunk_id"]
    assert same.n_unique() == 1
    kept = rows.filter(pl.col("source_row_id") == "mem-026")["chunk_id"]
    assert set(kept).isdisjoint(same)


def test_a_later_night_moves_the_time_and_an_earlier_memory_does_not(tmp_path: Path) -> None:
    remember(tmp_path, memory("1", "ana", "s1", "I like tea.", 5))
    (chunk,) = remember(tmp_path, memory("2", "ana", "s2", "I like  tea.", 9)).rows(named=True)
    assert (chunk["first_seen_at"].day, chunk["last_seen_at"]) == (5, datetime(2026, 3, 9, 7, tzinfo=UTC))
    (chunk,) = remember(tmp_path, memory("3", "ana", "s0", "I like tea.", 2)).rows(named=True)
    assert (chunk["first_seen_at"].day, chunk["last_seen_at"].day, chunk["occurrences"]) == (2, 9, 3)


def test_a_merge_moves_the_time_of_what_stands_and_force_is_never_merged(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    with given_verdicts() as verdicts:
        for one, other in (("a", "b"), ("a", "c"), ("b", "c")):
            verdicts.say(one, other)
        rows = [
            memory("1", "ana", "s1", f"{BASE} a", 1, force=False),
            memory("2", "ana", "s2", f"{BASE} b", 7, force=False),
            memory("3", "ana", "s3", f"{BASE} c", 8, force=True),
            memory("4", "bo", "s4", f"{BASE} b", 9, force=False),
        ]
        chunks = remember(tmp_path, *rows, **sections(endpoint))
    groups = published(tmp_path / "w", "canonicals").join(chunks.select("chunk_id", "text"), on="chunk_id")
    assert groups.sort("first_seen_at").select(
        pl.col("text").str.tail(1), "variants", pl.col("last_seen_at").dt.day()
    ).rows() == [
        ("a", 1, 7),
        ("c", 0, 8),
        ("b", 0, 9),
    ]


def test_owners_of_one_name_in_two_workspaces_are_two(tmp_path: Path) -> None:
    rows = [memory(name, "ana", "s", "I like tea.", 1, workspace_id=name) for name in ("acme", "boreal")]
    remember(tmp_path, *rows)
    assert set(published(tmp_path / "w", "chunks")["scope"]) == {"acme\u241fana", "boreal\u241fana"}


def test_a_scope_that_is_given_is_the_scope_of_memories_too(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"owner_key": "ana", "content": "I like tea.", "team": "x"}\n')
    run_night(tmp_path / "w", {"path": str(tmp_path / "m.jsonl"), "kind": "memory", "scope_by": ["team"]})
    assert published(tmp_path / "w", "chunks")["scope"].to_list() == ["x"]
