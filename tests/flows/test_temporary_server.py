"""Prefect's API for a run by hand: there while the run is, gone with it however it ends."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from flows.lock import writer_lock
from flows.temporary_server import NoServer, temporary_server
from flows.warehouse import Warehouse

pytestmark = pytest.mark.xdist_group("prefect")

NIGHTFOLD = str(Path(sys.executable).with_name("nightfold"))
SERVE = """
import time
from flows.temporary_server import temporary_server
with temporary_server(start_seconds=180) as url:
    print(url, flush=True)
    time.sleep(600)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def no_server_is_configured(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the processes that a test starts: no server, and a home that only these tests use."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(home))


@pytest.fixture
def start(tmp_path: Path, request: pytest.FixtureRequest) -> Start:
    """Starts a command as a terminal does, as a job of its own; what is left of it goes after the test."""

    def run(*command: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )

        def end() -> None:
            process.kill()
            process.communicate()

        request.addfinalizer(end)
        return process

    return run


def answers(url: str) -> bool:
    try:
        with closing(urlopen(f"{url}/health", timeout=5)) as answer:
            return bool(answer.status == 200)
    except (URLError, ConnectionError, TimeoutError):
        return False


def last_kept() -> tuple[str, list[str]]:
    """The state of the flow run that Prefect kept last, and those of its tasks; no result and no fault is kept."""
    home = Path(os.environ["PREFECT_HOME"])
    assert not (home / "storage").exists()
    with closing(sqlite3.connect(home / "prefect.db")) as kept:
        run, state = kept.execute("select id, state_name from flow_run order by created desc").fetchone()
        tasks = kept.execute("select state_name from task_run where flow_run_id = ?", [run]).fetchall()
    return state, [name for (name,) in tasks]


def said_of(process: "subprocess.Popen[str]", beginning: str) -> str:
    """The first line of that beginning that a process prints."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(beginning):
            return line.strip()
    raise AssertionError(f"it ended and never said {beginning!r}: {process.communicate()}")


def test_the_server_answers_inside_the_block_and_is_gone_after_it() -> None:
    with temporary_server(start_seconds=180) as url:
        assert answers(url)
        assert os.environ["PREFECT_API_URL"] == url
    assert not answers(url)
    assert "PREFECT_API_URL" not in os.environ


def test_a_killed_process_takes_its_server_along(
    start: Start, eventually: Callable[[Callable[[], object]], None]
) -> None:
    process = start(sys.executable, "-c", SERVE)
    url = said_of(process, "http")
    assert answers(url)
    process.kill()
    eventually(lambda: not answers(url))


def test_a_server_whose_parent_dies_while_it_starts_does_not_start() -> None:
    serve = [sys.executable, "-P", "-m", "flows.temporary_server"]
    ended = subprocess.run(serve, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")


def test_a_server_that_cannot_start_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", "no database")
    with pytest.raises(
        NoServer, match=r"server ended before it was ready: .*Could not parse.*; mend that, or run with --direct"
    ):
        temporary_server(start_seconds=180).__enter__()


def test_a_server_that_takes_too_long_is_told_with_the_way_around() -> None:
    with pytest.raises(NoServer, match=r"server was not ready after 0 s: .*run with --direct"):
        temporary_server(start_seconds=0).__enter__()


def test_a_run_by_hand_is_kept_by_prefect_and_says_nothing_of_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,text\n1,one\n2,one\n")
    process = start(NIGHTFOLD, "run", "--input", "rows.csv", "--warehouse", "out")
    shown, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert "exact " in shown
    assert Warehouse(str(tmp_path / "out")).published() is not None
    assert last_kept() == ("Completed", ["Completed"] * 5)


def test_a_run_by_hand_that_fails_is_one_line(start: Start, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,words\n1,one\n")
    process = start(NIGHTFOLD, "run", "--input", "rows.csv", "--warehouse", "out")
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.startswith("nightfold: rows.csv: no text column")
    assert errors.count("\n") == 1
    assert last_kept() == ("Failed", ["Failed"])


def test_ctrl_c_ends_a_run_with_one_line_and_prefect_knows_of_it(start: Start, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,text\n1,one\n")
    with writer_lock(tmp_path / "out", doing="a backfill", wait_seconds=0, tell=print):
        process = start(NIGHTFOLD, "run", "--input", "rows.csv", "--warehouse", "out")
        said_of(process, "waiting up to 60 s for a backfill")
        # As a terminal does: to all that its job is.
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "nightfold: stopped; what was published before still stands\n"
    assert last_kept() == ("Crashed", [])
