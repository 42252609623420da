"""What the README says is so: its SQL and its commands run, and every file it points to is there."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import duckdb
import pytest
from prometheus_client.parser import text_string_to_metric_families

from flows.console import Progress
from flows.lance_sql import load_lance
from flows.night import night
from flows.settings import load_settings
from tests.pages import elements, faults_of_style, loaded

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Where the servers and workers are started that the README tells to leave running.
STARTED_IN = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
# What a reader is told of a command that does not end by itself.
LEAVE = "# leave it running"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the README in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def command_lines() -> list[str]:
    lines = [line.split("   #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder like a clone after `make run`: the sample, its settings, and the published night."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "data" / "sample", folder / "data" / "sample")
    shutil.copy(ROOT / "nightfold.toml", folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.delenv("NIGHTFOLD_EMBEDDING__ENCODER")  # as a reader has it: with vectors and pairs
        patched.delenv("NIGHTFOLD_REPORT__ENABLED")  # and the report
        night(load_settings(), progress=Progress(quiet=True))
        yield folder


@pytest.mark.parametrize("query", blocks("sql"))
def test_the_sql_of_the_readme_answers(clone: Path, query: str) -> None:
    with duckdb.connect(str(clone / "data/warehouse/mart.duckdb"), read_only=True) as mart:
        for statement in mart.extract_statements(query):
            load_lance(mart, statement.query)  # as `nightfold sql` does
            found = mart.execute(statement).fetchall()
            assert found or statement.query.strip().startswith("set variable "), statement.query


@pytest.mark.parametrize("block", blocks("python"))
def test_the_python_of_the_readme_runs(clone: Path, block: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", block],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_report_and_the_metrics_of_the_sample_are_what_the_readme_says(clone: Path) -> None:
    page = (clone / "data/warehouse/reports/latest.html").read_text(encoding="utf-8")
    assert elements(page)
    assert faults_of_style(page) == []
    assert loaded(page) == []
    told = (clone / "data/warehouse/metrics/nightfold.prom").read_text(encoding="utf-8")
    found = {sample.name for family in text_string_to_metric_families(told) for sample in family.samples}
    section = README[README.index("## The morning after") : README.index("## Schedule it")]
    named = set(re.findall(r"`((?:nightfold|rag)_\w+)", section))
    # Only a night that measured its recall has one.
    assert named - {"nightfold_recall_ratio"} == found


@pytest.mark.parametrize("block", [block for block in blocks("sh") if re.search(r"^nightfold ", block, re.MULTILINE)])
def test_the_commands_of_the_readme_run_in_their_order(clone: Path, tmp_path: Path, block: str) -> None:
    folder = tmp_path / "here"
    shutil.copytree(clone, folder)
    # Under Prefect a run is tested elsewhere, and takes its time to start.
    script = re.sub(r"^(nightfold run .*)$", r"\1 --direct", block, flags=re.MULTILINE)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NIGHTFOLD_REVIEW__PORT": "0"}
    ending, lasting = partition_of(script)
    done = subprocess.run(
        ["bash", "-ec", ending],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in lasting:
        runs_until_ctrl_c(line, folder, env)


def partition_of(script: str) -> tuple[str, list[str]]:
    """The lines of a block that end by themselves, and the commands after them that are left running."""
    lines = script.splitlines()
    lasts = [line for line in lines if LEAVE in line]
    assert lines[len(lines) - len(lasts) :] == lasts, "nothing is run after what goes on running"
    return "\n".join(lines[: len(lines) - len(lasts)]), [line.partition("#")[0].strip() for line in lasts]


def runs_until_ctrl_c(line: str, folder: Path, env: dict[str, str]) -> None:
    """It says where it is reached, answers there, and ends in peace."""
    with subprocess.Popen(
        shlex.split(line),
        cwd=folder,
        env={**env, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        said = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert address, said + process.stdout.read()
        with urlopen(address[0], timeout=30) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        said += process.stdout.read()
        assert process.wait(60) == 0, said


@pytest.mark.xdist_group("prefect")
@pytest.mark.usefixtures("prefect_worker")
@pytest.mark.parametrize("line", [line for line in command_lines() if line.startswith("prefect deployment run ")])
def test_the_runs_of_deployments_in_the_readme_are_taken(line: str) -> None:
    asked = [sys.executable, "-m", *shlex.split(line), "--start-in", "10 hours"]  # taken, and never carried out
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_other_command_of_the_readme_is_one_that_is_run_somewhere() -> None:
    for line in command_lines():
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", MAKEFILE, re.MULTILINE), line
        elif words[0] == "prefect" and words[1] != "deployment":
            assert ", ".join(f'"{word}"' for word in words[1:]) in STARTED_IN, line
        else:
            assert words[0] in ("nightfold", "prefect", "export"), line


def test_every_file_the_readme_points_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
