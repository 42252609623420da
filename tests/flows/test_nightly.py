"""The flows in this process on a real Prefect server: what Prefect keeps of a night, and of one that fails."""

import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter, LogFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort, TaskRunSort
from prefect.exceptions import ParameterTypeError
from prefect.logging.handlers import APILogWorker

from flows.console import Progress
from flows.errors import NightfoldError, UnreadableSource
from flows.lock import WarehouseLocked, writer_lock
from flows.night import Outcome
from flows.nightly import nightly, rollback, run_as_task
from flows.plan import Plan, StageReport
from flows.run_rows import NothingPublished
from flows.settings import SettingsRefused
from flows.warehouse import Run, Warehouse
from schemas.terms import MERGED, STORED_AS_NEW
from tests.judged import given, given_verdicts, sections, word_endpoint

pytestmark = [pytest.mark.xdist_group("prefect"), pytest.mark.usefixtures("prefect_api")]

# No settings but those of the test.
NO_FILE = os.devnull
ROWS = "id,workspace_id,text\n1,acme,the secret of the first row\n2,acme,the secret of the first row\n3,acme,\n"

Over = Callable[..., dict[str, Any]]


@pytest.fixture
def over(tmp_path: Path) -> Over:
    """Settings of a night over a file of these rows, with these sections besides."""

    def settings(rows: str = ROWS, **sections: Any) -> dict[str, Any]:
        (tmp_path / "rows.csv").write_text(rows)
        warehouse = {"path": str(tmp_path / "warehouse"), "lock_wait_seconds": 0}
        return {"inputs": [{"path": str(tmp_path / "rows.csv")}], "warehouse": warehouse, **sections}

    return settings


@pytest.fixture
def client() -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


def run_once(over: dict[str, Any], *, dry_run: bool = False) -> Outcome:
    return cast(Outcome, nightly(NO_FILE, over, dry_run=dry_run))


def last_run(client: SyncPrefectClient) -> FlowRun:
    """The flow run that was started last."""
    return client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=1)[0]


def log_of(client: SyncPrefectClient, run: FlowRun) -> list[str]:
    """What Prefect has logged of a flow run and its tasks."""
    APILogWorker.instance().drain()
    logs = client.read_logs(LogFilter.model_validate({"flow_run_id": {"any_": [str(run.id)]}}))
    return [log.message for log in logs]


def artifact_of(client: SyncPrefectClient, run: FlowRun) -> tuple[str | None, str]:
    """The key and the text of a flow run's only artifact."""
    of_run = ArtifactFilter.model_validate({"flow_run_id": {"any_": [str(run.id)]}})
    (artifact,) = client.read_artifacts(artifact_filter=of_run)
    return artifact.key, str(artifact.data)


def in_storage() -> set[Path]:
    """What Prefect keeps of results and faults."""
    return set((Path(os.environ["PREFECT_HOME"]) / "storage").rglob("*"))


def tasks_of(client: SyncPrefectClient, run: FlowRun) -> list[tuple[str, str | None]]:
    """The name and the state of each task, in the order they began; task states reach the server by events, later."""
    of_run = FlowRunFilter.model_validate({"id": {"any_": [str(run.id)]}})
    tasks = client.read_task_runs(flow_run_filter=of_run, sort=TaskRunSort.EXPECTED_START_TIME_ASC)
    return [(task.name, task.state_name) for task in tasks]


def test_a_night_is_one_task_a_stage_and_its_summary_an_artifact(
    over: Over, client: SyncPrefectClient, eventually: Callable[[Callable[[], object]], None], tmp_path: Path
) -> None:
    log = tmp_path / "night.log"
    outcome = run_once(over(report={"enabled": True}, log={"format": "json", "path": str(log)}))

    run = last_run(client)
    assert run.state_name == "Completed"
    assert run.name.startswith("nightly 2")
    stages = ["load", "hash", "exact", "write", "mart"]
    eventually(lambda: tasks_of(client, run) == [(stage, "Completed") for stage in stages])
    key, summary = artifact_of(client, run)
    assert key == "nightfold-run"
    assert outcome.run.run_id in summary
    assert outcome.run.chunks_new == 1
    assert "| new groups | 1 |" in summary
    assert f"Report: `{tmp_path}/warehouse/reports/{outcome.run.run_id}.html`" in summary
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["stage"] for each in events if each["event"] == "stage.done"] == stages
    assert "secret" not in log.read_text()


def test_judging_is_a_task_and_a_guard_is_let_through_by_a_parameter(
    tmp_path: Path, client: SyncPrefectClient, eventually: Callable[[Callable[[], object]], None]
) -> None:
    with word_endpoint() as endpoint, given_verdicts() as verdicts:
        verdicts.say("a", "b")
        rows = given(tmp_path / "in.parquet", ("acme", "a", 1), ("acme", "b", 2))
        settings = {"inputs": [rows], "warehouse": {"path": str(tmp_path / "w")}, **sections(endpoint)}
        limits = {"max_group_chunks": 1}
        with pytest.raises(NothingPublished, match=r"max_group_chunks = 1: group .* would have 2 chunks"):
            run_once({**settings, "guard": limits})
        outcome = run_once({**settings, "guard": {**limits, "allow": ["max_group_chunks"]}})
    assert outcome.run.actions == {STORED_AS_NEW: 1, MERGED: 1}
    assert outcome.run.settings["guard"]["allow"] == ["max_group_chunks"]
    run = last_run(client)
    stages = ["load", "hash", "exact", "embed", "index", "near", "judge", "write", "mart"]
    eventually(lambda: tasks_of(client, run) == [(stage, "Completed") for stage in stages])
    assert "| chunks merged into another | 1 |" in artifact_of(client, run)[1]


def test_the_log_has_a_line_a_stage_and_no_text_of_a_row(
    over: Over, client: SyncPrefectClient, capsys: pytest.CaptureFixture[str]
) -> None:
    run_once(over())

    run = last_run(client)
    lines = log_of(client, run)
    for stage in ("load", "hash", "exact", "write", "mart"):
        assert [line for line in lines if line.startswith(stage) and " rows " in line]
    # Who starts the flow by hand has the same lines before their eyes.
    assert "exact " in capsys.readouterr().out
    assert "secret" not in "\n".join([*lines, artifact_of(client, run)[1]])


def test_prefect_keeps_neither_the_settings_nor_the_figures_of_a_night_as_a_result(
    over: Over, client: SyncPrefectClient
) -> None:
    before = in_storage()
    run_once(over())

    state = last_run(client).state
    assert state is not None
    assert state.data is None
    assert in_storage() == before


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(
    over: Over, client: SyncPrefectClient, tmp_path: Path
) -> None:
    outcome = run_once(over(), dry_run=True)

    assert outcome.run.chunks_new == 1
    assert not (tmp_path / "warehouse").exists()
    run = last_run(client)
    assert run.name.startswith("dry run 2")
    assert artifact_of(client, run)[0] == "nightfold-dry-run"


@pytest.mark.parametrize(
    ("sections", "fault", "line"),
    [
        ({"inputs": [{"path": "no/such.csv"}]}, UnreadableSource, "no/such.csv: no such file"),
        ({"guard": {"max_reject_share": 0.1}}, NothingPublished, "1 of 3 rows were rejected"),
        ({"warehous": {}}, SettingsRefused, "warehous: no such setting"),
    ],
    ids=["bad input", "figures", "setting"],
)
def test_a_fault_with_a_known_cause_fails_the_flow_run_with_its_own_line(
    over: Over, client: SyncPrefectClient, sections: dict[str, Any], fault: type[NightfoldError], line: str
) -> None:
    before = in_storage()
    with pytest.raises(fault, match=line) as raised:
        run_once(over() | sections)

    run = last_run(client)
    assert run.state is not None
    assert run.state.is_failed()
    assert run.state.message == str(raised.value)
    log = log_of(client, run)
    assert str(raised.value) in log
    assert "Traceback" not in "\n".join(log)
    assert in_storage() == before


def test_a_run_that_finds_the_lock_held_fails_and_says_who_holds_it(
    over: Over, client: SyncPrefectClient, tmp_path: Path
) -> None:
    with (
        writer_lock(tmp_path / "warehouse", doing="a long backfill", wait_seconds=0, tell=print),
        pytest.raises(WarehouseLocked, match="a long backfill"),
    ):
        run_once(over())
    state = last_run(client).state
    assert state is not None
    assert state.is_failed()
    assert "a long backfill" in (state.message or "")


def test_a_failed_flow_run_leaves_the_lock_free_in_the_same_process(over: Over) -> None:
    with pytest.raises(NothingPublished):
        run_once(over(guard={"max_reject_share": 0}))
    assert run_once(over()).run.chunks_new == 1


@pytest.mark.parametrize(
    ("parameters", "named"),
    [({"over": 3}, "over"), ({"dry_run": "perhaps"}, "dry_run"), ({"settings_file": ["a"]}, "settings_file")],
)
def test_a_parameter_of_the_wrong_kind_is_refused_by_name(parameters: dict[str, Any], named: str) -> None:
    with pytest.raises(ParameterTypeError, match=named):
        nightly(**parameters)


def test_a_settings_file_that_is_not_there_is_named() -> None:
    with pytest.raises(SettingsRefused, match=r"no/such\.toml: no such settings file"):
        nightly("no/such.toml")


def test_the_settings_file_of_the_parameter_is_obeyed(over: Over, tmp_path: Path) -> None:
    over()
    file = tmp_path / "settings.toml"
    file.write_text(f'[warehouse]\npath = "{tmp_path}/other"\n[[inputs]]\npath = "{tmp_path}/rows.csv"\n')
    nightly(str(file))
    assert Warehouse(str(tmp_path / "other")).published() is not None


def test_a_rollback_publishes_an_older_run_again(over: Over, client: SyncPrefectClient) -> None:
    first = run_once(over()).run
    run_once(over(ROWS + "4,acme,another\n"))

    back = cast(Run, rollback(first.run_id, NO_FILE, over()))

    assert back.restores == first.run_id
    run = last_run(client)
    assert run.name.startswith("rollback 2")
    assert f"run {back.run_id} publishes run {first.run_id} again; the mart shows it" in log_of(client, run)


def test_a_rollback_to_no_run_on_record_fails_with_one_line(over: Over, client: SyncPrefectClient) -> None:
    run_once(over())
    with pytest.raises(NightfoldError, match="1999") as raised:
        rollback("1999", NO_FILE, over())
    state = last_run(client).state
    assert state is not None
    assert state.message == str(raised.value)


def test_an_unforeseen_error_keeps_its_traceback_in_the_log(
    client: SyncPrefectClient, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(plan: Plan, progress: Progress) -> StageReport:
        raise ZeroDivisionError("a bug")

    @flow
    def night_with_a_bug() -> None:
        run_as_task("load", broken, cast(Plan, None), Progress(quiet=True))

    with caplog.at_level(logging.ERROR), pytest.raises(ZeroDivisionError):
        night_with_a_bug()
    run = last_run(client)
    assert run.state is not None
    assert run.state.is_failed()
    assert "Traceback" in "\n".join(log_of(client, run))
