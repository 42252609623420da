"""prefect.yaml: deployed as it stands, and run by a process worker in this clone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, LogFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import CronSchedule

from flows.lock import writer_lock
from flows.warehouse import Warehouse

pytestmark = pytest.mark.xdist_group("prefect")

Eventually = Callable[[Callable[[], object]], None]
DEPLOYMENTS = ["nightly/nightly", "nightly/by-hand", "nightly/dry-run", "rollback/rollback"]


@pytest.fixture
def client(prefect_api: str) -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


def start(client: SyncPrefectClient, name: str, **parameters: Any) -> UUID:
    """Asks for a run of a deployment, as `prefect deployment run` does."""
    deployment = client.read_deployment_by_name(name)
    return client.create_flow_run_from_deployment(deployment.id, parameters=parameters).id


def state_of(client: SyncPrefectClient, run: UUID) -> str:
    return client.read_flow_run(run).state_name or ""


def ended(client: SyncPrefectClient, run: UUID, eventually: Eventually) -> FlowRun:
    """The flow run, once it has ended in any way and its log, which is sent in batches, has come in."""
    eventually(lambda: "Finished in state" in log_of(client, run, of_tasks=False))
    return client.read_flow_run(run)


def artifacts_of(client: SyncPrefectClient, run: UUID) -> list[str | None]:
    of_run = ArtifactFilter.model_validate({"flow_run_id": {"any_": [str(run)]}})
    return [artifact.key for artifact in client.read_artifacts(artifact_filter=of_run)]


def log_of(client: SyncPrefectClient, run: UUID, *, of_tasks: bool = True) -> str:
    logs = client.read_logs(LogFilter.model_validate({"flow_run_id": {"any_": [str(run)]}}))
    return "\n".join(log.message for log in logs if of_tasks or log.task_run_id is None)


def test_one_deployment_has_a_clock_and_the_others_wait_to_be_asked(
    client: SyncPrefectClient, prefect_worker: Path
) -> None:
    schedules = {name: client.read_deployment_by_name(name).schedules for name in DEPLOYMENTS}
    (nightly,) = schedules.pop("nightly/nightly")
    assert isinstance(nightly.schedule, CronSchedule)
    assert (nightly.schedule.cron, nightly.schedule.timezone) == ("0 2 * * *", "UTC")
    assert list(schedules.values()) == [[], [], []]


def test_what_writes_runs_one_at_a_time_and_nothing_is_told_to_anyone(
    client: SyncPrefectClient, prefect_worker: Path
) -> None:
    for name in DEPLOYMENTS:
        deployment = client.read_deployment_by_name(name)
        assert deployment.job_variables["env"] == {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
        limit = deployment.global_concurrency_limit
        options = deployment.concurrency_options
        if name == "nightly/dry-run":
            assert limit is None
        else:
            assert limit is not None
            assert limit.limit == 1
            assert options is not None
            assert options.collision_strategy == "ENQUEUE"


def test_nothing_that_is_deployed_names_a_folder_of_this_machine(
    client: SyncPrefectClient, prefect_worker: Path
) -> None:
    root = str(Path(__file__).parents[2])
    assert not [name for name in DEPLOYMENTS if root in client.read_deployment_by_name(name).model_dump_json()]


def test_a_worker_runs_the_nights_one_after_the_other(
    client: SyncPrefectClient, prefect_worker: Path, tmp_path: Path, eventually: Eventually
) -> None:
    over = {"warehouse": {"path": str(tmp_path)}}
    with writer_lock(tmp_path, doing="a backfill", wait_seconds=0, tell=print):
        first = start(client, "nightly/nightly", over=over)
        eventually(lambda: "waiting up to 60 s for a backfill" in log_of(client, first))
        second = start(client, "nightly/nightly", over=over)
        eventually(lambda: state_of(client, second) == "AwaitingConcurrencySlot")

    one, two = ended(client, first, eventually), ended(client, second, eventually)
    assert (one.state_name, two.state_name) == ("Completed", "Completed")
    assert one.end_time is not None
    assert two.start_time is not None
    assert one.end_time <= two.start_time
    assert artifacts_of(client, first) == artifacts_of(client, second) == ["nightfold-run"]
    assert "exact " in log_of(client, first)
    # The second night found all of it known.
    assert sorted(run.chunks_new > 0 for run in Warehouse(str(tmp_path)).runs()) == [False, True]


def test_a_night_that_fails_under_a_worker_says_so_in_one_line(
    client: SyncPrefectClient, prefect_worker: Path, tmp_path: Path, eventually: Eventually
) -> None:
    over = {"warehouse": {"path": str(tmp_path)}, "inputs": [{"path": "no/such.csv"}]}
    failing = start(client, "nightly/by-hand", over=over)
    run = ended(client, failing, eventually)
    assert run.state is not None
    assert run.state.is_failed()
    assert run.state.message == "no/such.csv: no such file, folder or glob with a match"
    log = log_of(client, failing)
    assert f"\n{run.state.message}\n" in log
    assert "Traceback" not in log


def test_a_dry_run_under_a_worker_writes_nothing(
    client: SyncPrefectClient, prefect_worker: Path, tmp_path: Path, eventually: Eventually
) -> None:
    warehouse = tmp_path / "warehouse"
    # What is given with a run stands in place of the deployment's own parameters of that name only.
    dry = start(client, "nightly/dry-run", over={"warehouse": {"path": str(warehouse)}})
    assert ended(client, dry, eventually).state_name == "Completed"
    assert artifacts_of(client, dry) == ["nightfold-dry-run"]
    assert not warehouse.exists()
