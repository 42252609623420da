"""Real processes, killed at random moments: what was published stays whole, and the next run ends as if nothing had
happened. `make test` runs a short campaign, `make soak` the long one."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flows.warehouse import Warehouse
from tests.flows.word_endpoint import WordEndpoint, serving
from tests.judged import word_endpoint
from tests.nights import published, run_night

ROOT = Path(__file__).parents[2]
NIGHTFOLD = Path(sys.executable).with_name("nightfold")
TABLES = ("chunks", "occurrences", "canonicals", "rejects")
SEED = int(os.environ.get("SOAK_SEED", time.time_ns() % 1_000_000))


def write_corpus(path: Path, rows: int) -> None:
    """Rows of which a third repeat another, with a few to reject, and a time each."""
    numbers = pl.int_range(rows, eager=True)
    said = numbers % (rows * 2 // 3)
    pl.DataFrame({"id": numbers.cast(pl.String), "said": said}).select(
        "id",
        workspace_id=pl.when(said % 7 == 0).then(pl.lit("boreal")).otherwise(pl.lit("acme")),
        text=pl.when(pl.col("id").str.ends_with("999"))
        .then(pl.lit(" "))
        .otherwise(pl.format("Part {} is kept in aisle {} and weighs {} g.", "said", said % 90, said * 3)),
        at=pl.lit("2026-01-31T02:00:00Z"),
    ).write_parquet(path)


def command(corpus: Path, warehouse: Path) -> list[str]:
    settings = warehouse.with_suffix(".toml")
    settings.write_text(
        f'[warehouse]\npath = "{warehouse}"\nlock_wait_seconds = 0\n'
        f'[[inputs]]\npath = "{corpus}"\nname = "corpus"\nseen_at_column = "at"\n'
    )
    return [str(NIGHTFOLD), "run", "--direct", "--settings", str(settings)]


def run_to_its_end(corpus: Path, warehouse: Path) -> None:
    done = subprocess.run(command(corpus, warehouse), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def state(warehouse: Path) -> dict[str, pl.DataFrame]:
    tables = {name: published(warehouse, name) for name in TABLES}
    return {
        name: rows.select(pl.exclude("run_id", "last_run_id")).sort(rows.columns[0]) for name, rows in tables.items()
    }


def check_readable(warehouse: Path) -> None:
    """The last published run is whole in the tables, and the mart shows a whole run."""
    run = Warehouse(str(warehouse)).published()
    assert run is not None
    chunks, occurrences = published(warehouse, "chunks"), published(warehouse, "occurrences")
    assert chunks["occurrences"].sum() == occurrences.height
    assert chunks.height == published(warehouse, "canonicals").height
    with duckdb.connect(str(warehouse / "mart.duckdb"), read_only=True) as mart:
        claimed, kept = mart.sql(
            "select (select sum(occurrences) from chunks), (select count(*) from occurrences)"
        ).fetchall()[0]
        assert claimed == kept
        shown = mart.sql("select run_id from mart_run").fetchall()[0][0]
    assert shown in {run.run_id for run in Warehouse(str(warehouse)).runs() if run.is_readable}


def campaign(folder: Path, *, rows: int, kills: int) -> None:
    """Night one is published; night two, with all rows, is killed at a random moment, then run to its end."""
    print(f"SOAK_SEED={SEED}")
    dice = random.Random(SEED)
    first, whole = folder / "first.parquet", folder / "whole.parquet"
    write_corpus(whole, rows)
    pl.read_parquet(whole).sample(fraction=0.6, seed=1, shuffle=True).write_parquet(first)
    given = {"name": "corpus", "seen_at_column": "at"}
    run_night(folder / "one", {"path": str(first), **given})
    calm = folder / "calm"
    shutil.copytree(folder / "one", calm)
    started = time.monotonic()
    run_to_its_end(whole, calm)
    whole_night = time.monotonic() - started
    wanted = state(calm)
    for number in range(kills):
        stormy = folder / f"stormy-{number}"
        shutil.copytree(folder / "one", stormy)
        moment = dice.uniform(0.3, 1.1) * whole_night
        process = subprocess.Popen(command(whole, stormy), stdout=subprocess.PIPE, text=True)
        time.sleep(moment)
        process.kill()
        last = (process.communicate()[0].strip().splitlines() or ["(nothing)"])[-1]
        print(f"kill {number}: after {moment:.2f} of {whole_night:.2f} s, last said: {last}")
        check_readable(stormy)
        run_to_its_end(whole, stormy)
        check_readable(stormy)
        got = state(stormy)
        for name in TABLES:
            assert_frame_equal(got[name], wanted[name])
        shutil.rmtree(stormy)


def test_a_killed_run_leaves_the_last_one_whole_and_the_next_ends_the_same(tmp_path: Path) -> None:
    campaign(tmp_path, rows=20_000, kills=4)


@pytest.mark.soak
def test_a_long_campaign_of_kills_on_many_rows(tmp_path: Path) -> None:
    campaign(tmp_path, rows=100_000, kills=int(os.environ.get("SOAK_KILLS", "20")))


def test_a_second_run_is_told_who_holds_the_lock_and_runs_when_it_is_free(tmp_path: Path) -> None:
    write_corpus(tmp_path / "rows.parquet", 5_000)
    line = command(tmp_path / "rows.parquet", tmp_path / "w")
    first = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    try:
        holder = tmp_path / "w" / "writer.lock"
        deadline = time.monotonic() + 60
        while not (holder.exists() and holder.read_bytes()) and time.monotonic() < deadline:
            time.sleep(0.01)
        first.send_signal(signal.SIGSTOP)
        second = subprocess.run(line, capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert f"(pid {first.pid} on " in second.stderr
        assert "holds the lock" in second.stderr
        assert "Traceback" not in second.stderr
        waiting = subprocess.Popen(
            line, stdout=subprocess.PIPE, text=True, env={**os.environ, "NIGHTFOLD_WAREHOUSE__LOCK_WAIT_SECONDS": "120"}
        )
        assert waiting.stdout is not None
        assert waiting.stdout.readline().startswith("waiting up to 120 s for nightfold run")
        first.send_signal(signal.SIGCONT)
        said = waiting.communicate()[0]
        assert waiting.returncode == 0
        assert "0 chunks added" in said
    finally:
        first.kill()
        first.wait()


# ---- inside a stage: the process dies by its own hand, at a place that is known

_DIES = """
import os, signal, sys
import flows.embed, transforms.neighbours
from flows.cli import main

def dies_after(times, work):
    calls = iter(range(times))
    def wrapped(*given, **named):
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*given, **named)
    return wrapped

flows.embed.BLOCK_ROWS = 400
place, times = sys.argv.pop(1), int(sys.argv.pop(1))
if place == "embed":
    flows.embed._embedded_block = dies_after(times, flows.embed._embedded_block)
if place == "near":
    transforms.neighbours.Nearest.offer = dies_after(times, transforms.neighbours.Nearest.offer)
main()
"""


def run_and_die(place: str, times: int, settings: Path, endpoint: WordEndpoint) -> int:
    line = [sys.executable, "-c", _DIES, place, str(times), "run", "--direct", "--settings", str(settings)]
    given = {f"NIGHTFOLD_EMBEDDING__{name.upper()}": str(value) for name, value in endpoint.settings().items()}
    given["NO_PROXY"] = "127.0.0.1"
    return subprocess.run(line, env=os.environ | given, capture_output=True, check=False).returncode


def pairs(warehouse: Path) -> pl.DataFrame:
    return published(warehouse, "pairs").select(pl.exclude("run_id")).sort("pair_id")


@pytest.mark.parametrize(("place", "times"), [("embed", 2), ("near", 30)])
def test_killed_while_embedding_or_joining_the_next_run_reuses_what_was_computed(
    tmp_path: Path, place: str, times: int
) -> None:
    write_corpus(tmp_path / "rows.parquet", 2_400)
    for name in ("calm", "stormy"):
        command(tmp_path / "rows.parquet", tmp_path / name)
        with (tmp_path / f"{name}.toml").open("a") as settings:
            # Few rows, and through partitions all the same.
            settings.write("[neighbours]\nexact_up_to_rows = 300\nrecall_sample = 100\nthreshold = 0.75\n")
    with serving() as endpoint:
        assert run_and_die("nowhere", 0, tmp_path / "calm.toml", endpoint) == 0
        endpoint.forget()
        assert run_and_die(place, times, tmp_path / "stormy.toml", endpoint) == -signal.SIGKILL
        before = endpoint.given.total()
        assert run_and_die("nowhere", 0, tmp_path / "stormy.toml", endpoint) == 0
        chunks = published(tmp_path / "stormy", "chunks").height
        # 400 chunks a block, two of them done before the kill; no text twice.
        assert before == (chunks if place == "near" else 800)
        assert endpoint.given.total() == chunks
    run = Warehouse(str(tmp_path / "stormy")).published()
    assert run is not None
    assert run.neighbours["probes"], "no scope went through partitions"
    got, wanted = ({**state(tmp_path / name), "pairs": pairs(tmp_path / name)} for name in ("stormy", "calm"))
    for name, rows in wanted.items():
        assert_frame_equal(got[name], rows)
    assert wanted["pairs"].height > 1_000


IN_SLICES = """
import os, pathlib, sys, time
import flows.judge
import flows.verdicts
from flows.cli import main
from flows.judging import judge_pairs
flows.judge.SLICE_PAIRS = 100
judged = pathlib.Path(sys.argv.pop(1))
def judge(pairs, *args, **kwargs):
    if os.environ.get("STOP") and judged.exists():
        time.sleep(600)
    with judged.open("a") as told:
        told.write(f"{pairs.height}\\n")
    return judge_pairs(pairs, *args, **kwargs)
flows.verdicts.judge_pairs = judge
main()
"""
JUDGED = (*TABLES, "pairs", "variants", "links", "contradictions", "pending_reviews")
SENTENCE = "the red pump in hall nine has two steel valves and one long hose"


def write_near_corpus(path: Path) -> dict[str, str]:
    """Twenty texts that are all near, four groups of which have the same words."""
    texts = [
        f"{SENTENCE} {word}{mark}" for word in ("now", "then", "here", "there") for mark in ("", ".", "!", "?", ";")
    ]
    rows = pl.DataFrame({"text": texts}).with_row_index("id")
    rows.select(pl.col("id").cast(pl.String), "text", at=pl.lit("2026-01-31T02:00:00Z")).write_parquet(path)
    return {"path": str(path), "name": "in", "seen_at_column": "at", "scope": "acme"}


def test_a_run_killed_while_it_judges_publishes_nothing_and_the_next_takes_its_verdicts_up(tmp_path: Path) -> None:
    with word_endpoint() as endpoint:
        given = write_near_corpus(tmp_path / "in.parquet")
        sections: dict[str, Any] = {
            "embedding": endpoint.settings(batch_size=100),
            "neighbours": {"max_candidates": 100, "threshold": 0.5},
            "judge": {"merge_similarity": 0.5},
        }
        run_night(tmp_path / "calm", given, **sections)
        tables = {"warehouse": {"path": str(tmp_path / "stormy")}, **sections}
        lines = [
            f"[{name}]\n" + "".join(f"{key} = {value!r}\n" for key, value in of.items()) for name, of in tables.items()
        ]
        lines += ["[[inputs]]\n", *(f"{key} = {value!r}\n" for key, value in given.items())]
        (tmp_path / "n.toml").write_text("".join(lines))
        judged = tmp_path / "judged"
        line = [sys.executable, "-c", IN_SLICES, str(judged), "run", "--direct", "--settings", str(tmp_path / "n.toml")]
        env = {name: value for name, value in os.environ.items() if name != "NIGHTFOLD_EMBEDDING__ENCODER"}
        killed = subprocess.Popen(line, cwd=ROOT, env=env | {"STOP": "yes"}, stdout=subprocess.DEVNULL)
        staging, deadline = tmp_path / "stormy" / "staging", time.monotonic() + 60
        while not list(staging.glob("*/verdicts/000000.parquet")) and time.monotonic() < deadline:
            assert killed.poll() is None
            time.sleep(0.02)
        killed.kill()
        killed.wait()
        assert Warehouse(str(tmp_path / "stormy")).published() is None
        done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        # 190 pairs in slices of 100: each was judged once.
        assert judged.read_text().split() == ["100", "90"]
        calm, stormy = (
            {name: published(tmp_path / folder, name).sort(pl.first()) for name in JUDGED}
            for folder in ("calm", "stormy")
        )
        assert calm["variants"].height > 0
        for name in JUDGED:
            of_the_run = ("run_id", "last_run_id", "queued_at")
            assert_frame_equal(*(tables[name].drop(of_the_run, strict=False) for tables in (stormy, calm)))
