"""Vectors for chunks, night after night: what fails is stored and healed, and nothing is asked for twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flows.console import Progress
from flows.embed import ModelChanged, block_files, embed_blocks
from flows.encoders import open_encoder
from flows.night import night, rollback
from flows.plan import Plan, Stage, StageReport, plain_call
from flows.run_rows import NothingPublished
from flows.settings import EmbeddingSettings
from flows.vectors import Vectors
from flows.warehouse import Run, Warehouse
from tests.flows.word_endpoint import DIMENSIONS, PROBE, WordEndpoint, serving
from tests.nights import published, run_night, said_by_night, settings_of

ROOT = Path(__file__).parents[2]
# Five of a kind and two of another, so that there are pairs and rows without.
NEAR = [f"the red pump in hall {n} has two steel valves and one long hose" for n in range(5)]
OTHERS = ["nobody knows this one", "quite another thing altogether"]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[WordEndpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as endpoint:
        yield endpoint


def given_texts(path: Path, *texts: str | tuple[str, str], force: bool = False) -> dict[str, Any]:
    """An input of these texts, each of workspace acme or of the one it comes with."""
    rows = [("acme", text) if isinstance(text, str) else text for text in texts]
    ids = [f"{path.stem}-{n}" for n in range(len(rows))]
    columns = {"id": ids, "workspace_id": [scope for scope, _ in rows], "text": [text for _, text in rows]}
    pl.DataFrame({**columns, "force": [force] * len(rows), "at": ["2026-01-31T02:00:00Z"] * len(rows)}).write_parquet(
        path
    )
    return {"path": str(path), "name": "corpus", "seen_at_column": "at"}


def statuses(warehouse: Path) -> dict[str, str]:
    return dict(published(warehouse, "chunks").select("text", "completion_status").iter_rows())


def last_run(warehouse: Path) -> Run:
    run = Warehouse(str(warehouse)).published()
    assert run is not None
    return run


def pairs(warehouse: Path) -> pl.DataFrame:
    """The pairs, but for who found them."""
    return published(warehouse, "pairs").select(pl.exclude("run_id")).sort("pair_id")


def vectors_in_use(warehouse: Path) -> pl.DataFrame:
    return published(warehouse, f"vectors_{last_run(warehouse).neighbours['embedding']['version']}")


def check_whole(warehouse: Path) -> None:
    """A chunk with a text is complete exactly when it has a vector of the version in use; pairs are of such chunks."""
    chunks, vectors = published(warehouse, "chunks"), vectors_in_use(warehouse)
    version = last_run(warehouse).neighbours["embedding"]["version"]
    complete = chunks.filter(pl.col("text").is_not_null(), pl.col("completion_status") == "complete")
    assert sorted(complete["chunk_id"]) == sorted(vectors["chunk_id"])
    assert set(complete["embedding_version"]) <= {version}
    without = chunks.filter(pl.col("completion_status") != "complete")
    assert without["embedding_version"].null_count() == without.height
    sides = published(warehouse, "pairs").select(pl.concat_list("left_id", "right_id")).to_series().explode()
    assert set(sides) <= set(vectors["chunk_id"])


def check_mart_agrees(warehouse: Path) -> None:
    with duckdb.connect(str(warehouse / "mart.duckdb"), read_only=True) as mart:
        for table, columns in (("chunks", "chunk_id, completion_status"), ("pairs", "pair_id, similarity")):
            shown = mart.sql(f"select {columns} from {table}").fetchall()
            kept = published(warehouse, table).select(columns.split(", ")).rows()
            assert sorted(shown) == sorted(kept)


def test_every_chunk_is_complete_with_the_vector_of_its_text(tmp_path: Path, endpoint: WordEndpoint) -> None:
    given = given_texts(tmp_path / "in.parquet", *NEAR, *OTHERS)
    run = run_night(tmp_path / "w", given, embedding=endpoint.settings()).run
    check_whole(tmp_path / "w")
    check_mart_agrees(tmp_path / "w")
    chunks = published(tmp_path / "w", "chunks")
    assert set(chunks["completion_status"]) == {"complete"}
    assert set(chunks["embedding_model"]) == {"words"}
    both = chunks.join(vectors_in_use(tmp_path / "w"), on="chunk_id")
    lengths = np.linalg.norm(both["vector"].to_numpy(), axis=1)
    assert np.allclose(lengths, 1, atol=1e-6)
    assert (run.neighbours["embedded"], run.neighbours["failed"]) == (7, 0)
    assert run.neighbours["embedding"] == {
        "model": "words",
        "version": chunks["embedding_version"][0],
        "dimensions": DIMENSIONS,
    }
    # Ten pairs among the five of a kind.
    assert (pairs(tmp_path / "w").height, run.neighbours["found"], run.neighbours["cut"]) == (10, 10, 0)


def test_a_file_has_no_text_and_is_complete_without_a_vector(tmp_path: Path, endpoint: WordEndpoint) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.bin").write_bytes(b"\x00\x01")
    files = {"path": f"{tmp_path}/files/*", "kind": "file", "scope": "acme"}
    run_night(tmp_path / "w", files, given_texts(tmp_path / "in.parquet", NEAR[0]), embedding=endpoint.settings())
    chunks = published(tmp_path / "w", "chunks").sort("kind")
    assert chunks.select("kind", "completion_status").rows() == [("file", "complete"), ("text", "complete")]
    assert chunks["embedding_version"].is_null().to_list() == [True, False]
    assert vectors_in_use(tmp_path / "w").height == 1
    check_whole(tmp_path / "w")


@pytest.mark.parametrize("how", ["500", "400", "nan", "size", "count", "stall"])
def test_one_text_that_fails_is_incomplete_the_others_are_complete_and_a_retry_asks_for_it_alone(
    tmp_path: Path, endpoint: WordEndpoint, how: str
) -> None:
    endpoint.bad = {"3": how}
    given = given_texts(tmp_path / "in.parquet", *NEAR, *OTHERS)
    embedding = endpoint.settings(timeout_seconds=0.3 if how == "stall" else 20)
    said = said_by_night(tmp_path / "w", given, embedding=embedding)
    assert statuses(tmp_path / "w") == dict.fromkeys([*NEAR, *OTHERS], "complete") | {NEAR[3]: "incomplete"}
    assert published(tmp_path / "w", "occurrences").height == 7
    assert last_run(tmp_path / "w").neighbours["failed"] == 1
    check_whole(tmp_path / "w")
    assert "1 chunks have no vector yet; `nightfold retry` takes them up again" in said
    why = [line for line in said.splitlines() if endpoint.url in line]
    assert len(why) == 1
    assert pairs(tmp_path / "w").height == 6
    endpoint.bad = {}
    endpoint.forget()
    run_night(tmp_path / "w", given, pending="incomplete", embedding=embedding)
    assert endpoint.given == {NEAR[3]: 1}
    assert set(statuses(tmp_path / "w").values()) == {"complete"}
    assert pairs(tmp_path / "w").height == 10
    check_whole(tmp_path / "w")
    check_mart_agrees(tmp_path / "w")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("401", "answers 401 Unauthorized: "),
        ("500", "answers 500 "),
        ("503", "answers 503 "),
        ("size", "gives vectors of 31"),
    ],
)
def test_with_the_endpoint_down_all_night_rows_are_stored_and_a_retry_ends_as_a_calm_night(
    tmp_path: Path, endpoint: WordEndpoint, monkeypatch: pytest.MonkeyPatch, how: str, told: str
) -> None:
    monkeypatch.setattr("flows.embed.BLOCK_ROWS", 3)
    given = given_texts(tmp_path / "in.parquet", *NEAR, *OTHERS)
    run_night(tmp_path / "calm", given, embedding=endpoint.settings())
    endpoint.down = how
    endpoint.forget()
    said = said_by_night(tmp_path / "w", given, embedding=endpoint.settings())
    assert "7 chunks have no vector yet" in said
    why = [line for line in said.splitlines() if endpoint.url in line]
    assert len(why) == 1
    assert told in why[0]
    # One batch, and perhaps one probe: an endpoint that answers nobody is not asked about every block.
    assert endpoint.requests <= 2
    assert set(statuses(tmp_path / "w").values()) == {"incomplete"}
    assert len(statuses(tmp_path / "w")) == 7
    assert pairs(tmp_path / "w").is_empty()
    check_mart_agrees(tmp_path / "w")
    still_down = said_by_night(tmp_path / "w", given, pending="incomplete", embedding=endpoint.settings())
    assert "7 chunks have no vector yet" in still_down
    endpoint.down = None
    run_night(tmp_path / "w", given, pending="incomplete", embedding=endpoint.settings())
    assert_frame_equal(pairs(tmp_path / "w"), pairs(tmp_path / "calm"))
    columns = ["chunk_id", "completion_status", "embedding_model", "embedding_version", "occurrences"]
    got, wanted = (published(tmp_path / name, "chunks").select(columns).sort("chunk_id") for name in ("w", "calm"))
    assert_frame_equal(got, wanted)
    check_whole(tmp_path / "w")
    check_mart_agrees(tmp_path / "w")


def test_nobody_behind_the_address_loses_no_row(tmp_path: Path) -> None:
    with serving() as gone:
        embedding = gone.settings()
    said = said_by_night(tmp_path / "w", given_texts(tmp_path / "in.parquet", *NEAR), embedding=embedding)
    assert "out of reach" in said
    assert set(statuses(tmp_path / "w").values()) == {"incomplete"}


def test_a_rerun_and_a_retry_with_nothing_missing_ask_for_nothing(tmp_path: Path, endpoint: WordEndpoint) -> None:
    given = given_texts(tmp_path / "in.parquet", *NEAR, *OTHERS)
    run_night(tmp_path / "w", given, embedding=endpoint.settings())
    before = pairs(tmp_path / "w")
    run_night(tmp_path / "w", given, embedding=endpoint.settings())
    run_night(tmp_path / "w", given, pending="incomplete", embedding=endpoint.settings())
    assert set(endpoint.given.values()) == {1}
    assert endpoint.given.total() == 7
    assert_frame_equal(pairs(tmp_path / "w"), before)
    check_whole(tmp_path / "w")


def test_one_text_in_many_scopes_is_asked_for_once_also_over_blocks_and_nights(
    tmp_path: Path, endpoint: WordEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.embed.BLOCK_ROWS", 2)
    first = given_texts(tmp_path / "a.parquet", *[(scope, text) for scope in ("x", "y", "z") for text in NEAR])
    run_night(tmp_path / "w", first, embedding=endpoint.settings())
    assert endpoint.given == dict.fromkeys(NEAR, 1)
    second = given_texts(tmp_path / "b.parquet", ("new", NEAR[0]), ("new", f" {NEAR[1]}\n"), ("new", OTHERS[0]))
    run_night(tmp_path / "w", second, embedding=endpoint.settings())
    assert endpoint.given == dict.fromkeys([*NEAR, OTHERS[0]], 1)
    assert vectors_in_use(tmp_path / "w").height == 18
    check_whole(tmp_path / "w")


def test_what_came_in_without_an_encoder_waits_for_a_retry(tmp_path: Path, endpoint: WordEndpoint) -> None:
    first = given_texts(tmp_path / "a.parquet", *NEAR[:3])
    run_night(tmp_path / "w", first)
    run_night(tmp_path / "w", given_texts(tmp_path / "b.parquet", *NEAR[3:]), embedding=endpoint.settings())
    assert statuses(tmp_path / "w") == dict.fromkeys(NEAR[:3], "incomplete") | dict.fromkeys(NEAR[3:], "complete")
    run_night(tmp_path / "w", pending="incomplete", embedding=endpoint.settings())
    assert set(statuses(tmp_path / "w").values()) == {"complete"}
    assert endpoint.given == dict.fromkeys(NEAR, 1)
    assert pairs(tmp_path / "w").height == 10


def test_a_night_without_an_encoder_leaves_vectors_and_pairs_as_they_are(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    run_night(tmp_path / "w", given_texts(tmp_path / "a.parquet", *NEAR), embedding=endpoint.settings())
    before = pairs(tmp_path / "w")
    run_night(tmp_path / "w", given_texts(tmp_path / "b.parquet", *OTHERS))
    assert_frame_equal(pairs(tmp_path / "w"), before)
    assert statuses(tmp_path / "w") == dict.fromkeys(NEAR, "complete") | dict.fromkeys(OTHERS, "incomplete")
    check_whole(tmp_path / "w")


def test_forced_rows_are_paired_and_never_merged(tmp_path: Path, endpoint: WordEndpoint) -> None:
    forced = given_texts(tmp_path / "forced.parquet", NEAR[0], NEAR[0], force=True)
    plain = given_texts(tmp_path / "in.parquet", NEAR[0])
    run_night(tmp_path / "w", forced | {"name": "forced"}, plain, embedding=endpoint.settings())
    chunks = published(tmp_path / "w", "chunks")
    assert chunks.height == published(tmp_path / "w", "canonicals").height == 3
    assert endpoint.given == {NEAR[0]: 1}
    found = pairs(tmp_path / "w")
    assert (found.height, found["similarity"].min()) == (3, 1.0)
    check_whole(tmp_path / "w")


# ---- another model


def changed(tmp_path: Path, endpoint: WordEndpoint) -> tuple[Path, dict[str, Any]]:
    """A warehouse of the model `words`, then a night of two new rows under `other`; and those settings."""
    warehouse, other = tmp_path / "w", endpoint.settings(model="other")
    run_night(warehouse, given_texts(tmp_path / "a.parquet", *NEAR, OTHERS[0]), embedding=endpoint.settings())
    endpoint.forget()
    said = said_by_night(warehouse, given_texts(tmp_path / "b.parquet", NEAR[0] + " new", OTHERS[1]), embedding=other)
    assert "[embedding] has another model than the vectors in use: new chunks wait for theirs" in said
    assert "`nightfold backfill --embeddings`" in said
    return warehouse, other


def test_after_a_model_change_new_chunks_wait_and_the_vectors_in_use_stay(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    warehouse, _ = changed(tmp_path, endpoint)
    waiting = dict.fromkeys([NEAR[0] + " new", OTHERS[1]], "retry-needed")
    assert statuses(warehouse) == dict.fromkeys([*NEAR, OTHERS[0]], "complete") | waiting
    assert pairs(warehouse).height == 10
    assert last_run(warehouse).neighbours["embedding"]["model"] == "words"
    assert not endpoint.given
    check_whole(warehouse)
    check_mart_agrees(warehouse)


def test_a_retry_under_another_model_is_refused_by_name(tmp_path: Path, endpoint: WordEndpoint) -> None:
    warehouse, other = changed(tmp_path, endpoint)
    before = last_run(warehouse)
    with pytest.raises(
        ModelChanged, match=r"\[embedding\] is other now, and the vectors in use are of words; .*backfill"
    ):
        run_night(warehouse, pending="incomplete", embedding=other)
    assert last_run(warehouse) == before
    assert not endpoint.given
    # With the former model again, what waits is healed.
    run_night(warehouse, pending="incomplete", embedding=endpoint.settings())
    assert set(statuses(warehouse).values()) == {"complete"}
    check_whole(warehouse)


def test_a_backfill_embeds_every_chunk_anew_and_replaces_the_pairs(tmp_path: Path, endpoint: WordEndpoint) -> None:
    warehouse, other = changed(tmp_path, endpoint)
    was = last_run(warehouse).neighbours["embedding"]["version"]
    run_night(warehouse, pending="all", embedding=other)
    assert endpoint.given == dict.fromkeys([*NEAR, *OTHERS, NEAR[0] + " new"], 1)
    chunks, run = published(warehouse, "chunks"), last_run(warehouse)
    assert set(chunks["completion_status"]) == {"complete"}
    assert set(chunks["embedding_model"]) == {"other"}
    assert set(chunks["embedding_version"]) == {run.neighbours["embedding"]["version"]} != {was}
    assert set(published(warehouse, "pairs")["run_id"]) == {run.run_id}
    fresh = tmp_path / "fresh"
    both = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    run_night(fresh, {"path": both, "name": "corpus", "seen_at_column": "at"}, embedding=other)
    assert_frame_equal(pairs(warehouse), pairs(fresh))
    check_whole(warehouse)
    check_mart_agrees(warehouse)


def test_a_rollback_after_a_backfill_brings_the_former_vectors_and_pairs_back(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    warehouse, other = changed(tmp_path, endpoint)
    before, pairs_before, vectors_before = last_run(warehouse), pairs(warehouse), vectors_in_use(warehouse)
    run_night(warehouse, pending="all", embedding=other)
    rollback(settings_of(warehouse, embedding=other), before.run_id, progress=Progress(quiet=True))
    assert_frame_equal(pairs(warehouse), pairs_before)
    assert_frame_equal(vectors_in_use(warehouse), vectors_before)
    check_whole(warehouse)
    check_mart_agrees(warehouse)
    # New rows are joined by the former model, and the backfill can be done again.
    third = given_texts(tmp_path / "c.parquet", NEAR[1] + " third")
    run_night(warehouse, third, embedding=endpoint.settings())
    check_whole(warehouse)
    run_night(warehouse, pending="all", embedding=other)
    assert set(published(warehouse, "chunks")["embedding_model"]) == {"other"}
    check_whole(warehouse)


def test_a_model_changed_and_changed_back_asks_only_for_what_the_first_never_saw(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    warehouse, other = changed(tmp_path, endpoint)
    run_night(warehouse, pending="all", embedding=other)
    endpoint.forget()
    run_night(warehouse, pending="all", embedding=endpoint.settings())
    assert set(published(warehouse, "chunks")["embedding_model"]) == {"words"}
    assert set(endpoint.given.values()) == {1}
    check_whole(warehouse)


def test_a_backfill_with_the_model_in_use_asks_for_what_is_missing_and_joins_anew(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    endpoint.bad = {"3": "500"}
    given = given_texts(tmp_path / "in.parquet", *NEAR, *OTHERS)
    run_night(tmp_path / "w", given, embedding=endpoint.settings())
    endpoint.bad = {}
    endpoint.forget()
    run_night(tmp_path / "w", pending="all", embedding=endpoint.settings())
    assert endpoint.given == {NEAR[3]: 1}
    assert pairs(tmp_path / "w").height == 10
    check_whole(tmp_path / "w")


def test_the_vectors_of_a_former_model_go_with_the_last_run_that_is_kept_of_it(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    warehouse, keep = tmp_path / "w", {"keep_runs": 2}
    given = given_texts(tmp_path / "in.parquet", *NEAR)
    run_night(warehouse, given, embedding=endpoint.settings(), warehouse=keep)
    other = endpoint.settings(model="other")
    run_night(warehouse, pending="all", embedding=other, warehouse=keep)
    assert len(list(warehouse.glob("vectors_*.lance"))) == 2
    run_night(warehouse, given, embedding=other, warehouse=keep)
    in_use = f"vectors_{last_run(warehouse).neighbours['embedding']['version']}.lance"
    assert [path.name for path in warehouse.glob("vectors_*.lance")] == [in_use]
    check_whole(warehouse)


def test_blocks_that_another_model_left_are_not_taken_up(tmp_path: Path, endpoint: WordEndpoint) -> None:
    """The folder of a model can change under the same settings, between a crash and the next run."""
    rows = pl.DataFrame({"chunk_id": ["0" * 32], "scope": ["acme"], "text": [NEAR[0]]})
    rows.write_parquet(tmp_path / "pending.parquet")
    made = []
    for model in ("words", "other"):
        encoder = open_encoder(EmbeddingSettings(**endpoint.settings(model=model)), tell=print)
        assert encoder is not None
        vectors = Vectors(Warehouse(str(tmp_path / "w")), encoder.version, DIMENSIONS)
        embed_blocks(
            [tmp_path / "pending.parquet"],
            tmp_path / "blocks",
            encoder=encoder,
            vectors=vectors,
            run=None,
            tell=print,
            tell_rows=lambda _: None,
        )
        made.append(pl.concat([pl.read_parquet(path) for path in block_files(tmp_path / "blocks")]))
    assert made[0].height == made[1].height == 1
    assert made[0]["vector"].to_list() != made[1]["vector"].to_list()
    assert endpoint.given == {NEAR[0]: 2}


# ---- what must not be published, and crashes


def test_a_vector_that_is_missing_stops_the_run_and_the_next_one_is_whole(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    first = given_texts(tmp_path / "a.parquet", *NEAR[:3])
    run_night(tmp_path / "w", first, embedding=endpoint.settings())
    before, pairs_before = last_run(tmp_path / "w"), pairs(tmp_path / "w")
    second = given_texts(tmp_path / "b.parquet", *NEAR[3:])

    def lose_one(name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport:
        if name == "write":
            assert plan.vectors is not None
            table = plan.warehouse.head(plan.vectors.table)
            table.delete(f"chunk_id = '{vectors_in_use(tmp_path / 'w')['chunk_id'][0]}'")
        return plain_call(name, stage, plan, progress)

    settings = settings_of(tmp_path / "w", second, embedding=endpoint.settings())
    told = r"5 chunks say they are complete \(0 of them in another embedding version\) and 4 have a vector"
    with pytest.raises(NothingPublished, match=told):
        night(settings, progress=Progress(quiet=True), run_stage=lose_one)
    assert last_run(tmp_path / "w") == before
    assert_frame_equal(pairs(tmp_path / "w"), pairs_before)
    run_night(tmp_path / "w", second, embedding=endpoint.settings())
    assert pairs(tmp_path / "w").height == 10
    check_whole(tmp_path / "w")


MANY = [f"part {n} of the red pump in hall {n % 7} has two steel valves and one long hose" for n in range(60)]
DRIVER = """
import sys
import flows.embed
flows.embed.BLOCK_ROWS = 10
{more}
from flows.cli import main
sys.argv = ["nightfold", *sys.argv[1:]]
main()
"""
STOP_IN_THE_JOIN = """
import pathlib, time
import flows.near
def stop(*args, **kwargs):
    pathlib.Path({reached!r}).touch()
    time.sleep(600)
flows.near.join_exactly = stop
"""


def write_settings(path: Path, warehouse: Path, corpus: dict[str, Any], embedding: dict[str, Any]) -> Path:
    values = {"warehouse": {"path": str(warehouse)}, "embedding": embedding}
    lines = [
        f"[{name}]\n" + "".join(f"{key} = {value!r}\n" for key, value in of.items()) for name, of in values.items()
    ]
    lines += ["[[inputs]]\n" + "".join(f"{key} = {value!r}\n" for key, value in corpus.items())]
    path.write_text("".join(lines))
    return path


def start(settings: Path, *command: str, more: str = "") -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if name != "NIGHTFOLD_EMBEDDING__ENCODER"}
    line = [sys.executable, "-c", DRIVER.format(more=more), *command, "--settings", str(settings)]
    return subprocess.Popen(line, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_to_its_end(settings: Path, *command: str) -> str:
    process = start(settings, *command)
    said = process.communicate()[0]
    assert process.returncode == 0, said
    return said


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()


def check_still_as_before(warehouse: Path, before: Run, pairs_before: pl.DataFrame) -> None:
    assert last_run(warehouse) == before
    assert_frame_equal(pairs(warehouse), pairs_before)
    check_whole(warehouse)
    check_mart_agrees(warehouse)


def test_a_run_killed_while_it_embeds_asks_next_time_for_what_it_did_not_have(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    warehouse, embedding = tmp_path / "w", endpoint.settings(batch_size=5)
    run_night(warehouse, given_texts(tmp_path / "a.parquet", *NEAR), embedding=embedding)
    before, pairs_before = last_run(warehouse), pairs(warehouse)
    settings = write_settings(tmp_path / "n.toml", warehouse, given_texts(tmp_path / "b.parquet", *MANY), embedding)
    endpoint.forget()
    endpoint.hold_after = 35
    process = start(settings, "run", "--direct")
    try:
        assert endpoint.is_holding.wait(60)
    finally:
        kill(process)
    check_still_as_before(warehouse, before, pairs_before)
    endpoint.hold_after = None
    endpoint.release.set()
    asked_before = dict(endpoint.given)
    assert len(asked_before) == 35
    run_to_its_end(settings, "run", "--direct")
    # Three blocks of ten were kept; the half block that was under way is asked for again, and nothing else.
    again = [text for text, count in endpoint.given.items() if count > 1]
    assert set(endpoint.given) == set(MANY)
    assert len(again) == 5
    run_night(tmp_path / "calm", given_texts(tmp_path / "a.parquet", *NEAR), embedding=embedding)
    run_night(tmp_path / "calm", given_texts(tmp_path / "b.parquet", *MANY), embedding=embedding)
    assert_frame_equal(pairs(warehouse), pairs(tmp_path / "calm"))
    check_whole(warehouse)
    check_mart_agrees(warehouse)


def test_a_run_killed_in_its_join_asks_for_nothing_again(tmp_path: Path, endpoint: WordEndpoint) -> None:
    warehouse, embedding, reached = tmp_path / "w", endpoint.settings(), tmp_path / "reached"
    run_night(warehouse, given_texts(tmp_path / "a.parquet", *NEAR), embedding=embedding)
    before, pairs_before = last_run(warehouse), pairs(warehouse)
    settings = write_settings(tmp_path / "n.toml", warehouse, given_texts(tmp_path / "b.parquet", *MANY), embedding)
    process = start(settings, "run", "--direct", more=STOP_IN_THE_JOIN.format(reached=str(reached)))
    try:
        while not reached.exists():
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        kill(process)
    check_still_as_before(warehouse, before, pairs_before)
    assert set(endpoint.given.values()) == {1}
    said = run_to_its_end(settings, "run", "--direct")
    assert "(done before, taken up)" in next(line for line in said.splitlines() if line.startswith("embed"))
    assert set(endpoint.given.values()) == {1}
    assert vectors_in_use(warehouse).height == 65
    check_whole(warehouse)
    check_mart_agrees(warehouse)


def test_a_killed_backfill_goes_on_from_where_it_was_and_the_former_vectors_serve_until_then(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    warehouse = tmp_path / "w"
    given = given_texts(tmp_path / "a.parquet", *MANY)
    run_night(warehouse, given, embedding=endpoint.settings())
    before, pairs_before = last_run(warehouse), pairs(warehouse)
    other = endpoint.settings(model="other", batch_size=5)
    settings = write_settings(tmp_path / "n.toml", warehouse, given, other)
    endpoint.forget()
    endpoint.hold_after = 30
    process = start(settings, "backfill", "--embeddings")
    try:
        assert endpoint.is_holding.wait(60)
    finally:
        kill(process)
    check_still_as_before(warehouse, before, pairs_before)
    endpoint.hold_after = None
    endpoint.release.set()
    run_to_its_end(settings, "backfill", "--embeddings")
    assert set(endpoint.given.values()) == {1}
    assert set(endpoint.given) == set(MANY)
    assert set(published(warehouse, "chunks")["embedding_model"]) == {"other"}
    check_whole(warehouse)


# ---- the static model of the defaults


@pytest.mark.xdist_group("model")
def test_the_static_model_pairs_what_says_the_same_and_asks_nobody(tmp_path: Path) -> None:
    texts = [
        "The warehouse in Oslo opens at eight in the morning.",
        "The warehouse in Oslo opens at eight each morning.",
        "Bananas are rich in potassium.",
    ]
    given = given_texts(tmp_path / "in.parquet", *texts)
    run_night(tmp_path / "w", given, embedding={"encoder": "static"})
    check_whole(tmp_path / "w")
    chunks = published(tmp_path / "w", "chunks")
    assert set(chunks["completion_status"]) == {"complete"}
    found = pairs(tmp_path / "w")
    ids = dict(chunks.select("text", "chunk_id").iter_rows())
    assert [sorted(pair) for pair in found.select("left_id", "right_id").rows()] == [
        sorted(ids[text] for text in texts[:2])
    ]
    before = last_run(tmp_path / "w").neighbours["embedding"]
    run_night(tmp_path / "w", given_texts(tmp_path / "b.parquet", PROBE), embedding={"encoder": "static"})
    assert last_run(tmp_path / "w").neighbours["embedding"] == before
    check_whole(tmp_path / "w")
