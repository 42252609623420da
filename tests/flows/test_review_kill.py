"""Two people who decide and a night, real processes killed at random: no decision is lost, none is applied twice, and
of two answers to one question one stands. `make test` runs a short campaign, `make soak` the long one."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from flows.review_journal import Journal
from flows.reviews import Filters, Reviews
from flows.warehouse import Warehouse
from schemas.terms import UNDO
from tests.flows.review_warehouse import make_queue
from tests.nights import published, settings_of

ROOT = Path(__file__).parents[2]
NIGHTFOLD = Path(sys.executable).with_name("nightfold")
SEED = int(os.environ.get("SOAK_SEED", time.time_ns() % 1_000_000))
# Decides question after question, half of the time one that the other decides too; says of each that it is durable.
_DECIDES = """
import random, sys
from flows.errors import NightfoldError
from flows.reviews import AlreadyDecided, Choice, Filters, Reviews
from flows.settings import load_settings
from schemas.terms import DECISIONS
name, seed, warehouse, told = sys.argv[1:]
dice = random.Random(seed)
reviews = Reviews(load_settings(None, over={"warehouse": {"path": warehouse}}))
with open(told, "a", buffering=1) as said:
    while True:
        items = reviews.page(Filters(), scopes=None, limit=40).items
        if not items:
            break
        item, kind = dice.choice(items), dice.choice(DECISIONS)
        target = item.best_canonical_id if kind == "merge" else None
        try:
            (done,) = reviews.decide([Choice(item.review_id, kind, target)], by=name, scopes=None)
            said.write(f"decided {done.decision_id}\\n")
            if dice.random() < 0.2:
                undo = reviews.undo(done.decision_id, by=name, scopes=None)
                said.write(f"decided {undo.decision_id}\\n")
        except (AlreadyDecided, NightfoldError) as error:
            said.write(f"told {error}\\n")
        if dice.random() < 0.3:
            try:
                reviews.apply_outstanding()
            except NightfoldError as error:
                said.write(f"failed {error}\\n")
"""


def start(folder: Path, name: str, seed: int) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-c", _DECIDES, name, str(seed), str(folder / "w"), str(folder / f"{name}.said")]
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=log)


def night(folder: Path) -> subprocess.Popen[bytes]:
    (folder / "rows.csv").write_text("id,text,workspace_id\n1,another pump,acme\n2,a third pump,acme\n")
    line = [str(NIGHTFOLD), "run", "--direct", "-i", str(folder / "rows.csv"), "--warehouse", str(folder / "w")]
    env = {**os.environ, "NIGHTFOLD_WAREHOUSE__LOCK_WAIT_SECONDS": "60"}
    with (folder / "night.log").open("ab") as log:
        return subprocess.Popen(line, cwd=ROOT, env=env, stdout=log, stderr=log)


def wait_until_both_decide(folder: Path) -> None:
    """Until each has said something more: on a slow machine it takes them a while to start."""
    files = [folder / f"{name}.said" for name in ("ana", "ben")]
    sizes, deadline = [file.stat().st_size for file in files], time.monotonic() + 60
    while any(file.stat().st_size == size for file, size in zip(files, sizes, strict=True)):
        if time.monotonic() > deadline:
            raise AssertionError("\n".join((folder / f"{name}.log").read_text() for name in ("ana", "ben")))
        time.sleep(0.05)


def check(folder: Path) -> None:
    """Every entry that was said to be durable is in the journal, and once in the tables, with what it came to."""
    warehouse = folder / "w"
    journal = Journal(warehouse)
    said = [
        line.split()[1]
        for name in ("ana", "ben")
        for line in (folder / f"{name}.said").read_text().splitlines()
        if line.startswith("decided ")
    ]
    ids = journal.ids()
    assert set(said) <= set(ids)
    recorded = published(warehouse, "review_decisions")
    assert sorted(recorded["decision_id"]) == sorted(ids)
    entries = {entry.decision_id: entry for entry in journal.entries(ids)}
    undone = {entry.undoes for entry in entries.values() if entry.decision == UNDO}
    stand = Counter(
        (entry.review_id, entry.asked_us)
        for entry in entries.values()
        if entry.decision != UNDO and entry.decision_id not in undone
    )
    outcomes = dict(recorded.select("decision_id", "outcome").iter_rows())
    refused = {each for each, outcome in outcomes.items() if outcome.startswith("not applied")}
    for question, count in stand.items():
        of_question = [entry.decision_id for entry in entries.values() if (entry.review_id, entry.asked_us) == question]
        assert count - len(refused & set(of_question) - undone) <= 1, question
    # What stands is in the tables.
    answers = dict(published(warehouse, "pending_reviews").select("review_id", "decision").iter_rows())
    for entry in entries.values():
        if entry.decision != UNDO and entry.decision_id not in undone | refused:
            assert answers[entry.review_id] == entry.decision
    variants = published(warehouse, "variants").filter(pl.col("decided_by").str.starts_with("reviewer"))
    assert variants["chunk_id"].is_unique().all()


def campaign(folder: Path, *, questions: int, kills: int) -> None:
    print(f"SOAK_SEED={SEED}")
    dice = random.Random(SEED)
    make_queue(folder / "w", questions=questions)
    for name in ("ana", "ben"):
        (folder / f"{name}.said").touch()
    for number in range(kills):
        people = {name: start(folder, name, dice.randrange(1 << 30)) for name in ("ana", "ben")}
        people["night"] = night(folder)
        wait_until_both_decide(folder)
        time.sleep(dice.uniform(0, 3))
        killed = dice.sample(sorted(people), dice.randint(1, 3))
        print(f"round {number}: kills {killed}")
        for name in killed:
            people[name].kill()
        time.sleep(dice.uniform(0, 1))
        for name, process in people.items():
            if name == "night" and name not in killed:
                assert process.wait(120) == 0, (folder / "night.log").read_text()
            else:
                process.kill()
                process.wait()
    assert night(folder).wait(120) == 0, (folder / "night.log").read_text()
    reviews = Reviews(settings_of(folder / "w"))
    assert reviews.apply_outstanding() == 0
    check(folder)
    run = Warehouse(str(folder / "w")).published()
    assert run is not None
    decided = len(Journal(folder / "w").ids())
    print(f"{decided:,} entries, {reviews.counts(Filters(), scopes=None)['open']:,} questions still open")
    assert decided
    for name in ("ana", "ben"):
        assert "Traceback" not in (folder / f"{name}.log").read_text()


def test_no_decision_of_killed_processes_is_lost_and_none_is_applied_twice(tmp_path: Path) -> None:
    campaign(tmp_path, questions=400, kills=2)


@pytest.mark.soak
def test_a_long_campaign_of_kills_on_people_who_decide(tmp_path: Path) -> None:
    for number in range(int(os.environ.get("SOAK_KILLS", "20")) // 5):
        folder = tmp_path / str(number)
        folder.mkdir()
        campaign(folder, questions=3_000, kills=5)
        shutil.rmtree(folder)
