"""Prefect in the tests: it keeps to a folder of its own, says nothing to anyone, and has one server for who asks."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from hypothesis import settings as hypothesis_settings

# Before anything imports Prefect, and for every process that a test starts.
_HOME = tempfile.mkdtemp(prefix="nightfold-prefect-")
for _name in [name for name in os.environ if name.startswith("PREFECT_")]:
    del os.environ[_name]
os.environ |= {"PREFECT_HOME": _HOME, "DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
# A night that is not about vectors loads no model, in this process or another.
os.environ["NIGHTFOLD_EMBEDDING__ENCODER"] = "none"
# And one that is not about its report draws no page.
os.environ["NIGHTFOLD_REPORT__ENABLED"] = "false"

ROOT = Path(__file__).parents[1]
PREFECT = [sys.executable, "-m", "prefect"]

# No test is about how long it takes.
hypothesis_settings.register_profile("nightfold", deadline=None)
hypothesis_settings.load_profile("nightfold")


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


@contextmanager
def _running(command: list[str], log: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process and its children, for as long as the block and no longer."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def prefect_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real `prefect server`, which this process and those it starts talk to."""
    # Not at the top: Prefect reads its environment when it is imported, and most tests need none of it.
    from prefect.context import refresh_global_settings_context  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("prefect")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}/api"
    command = [*PREFECT, "server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui"]
    wait = {"PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "1"}
    with _running(command, folder / "server.log", PREFECT_HOME=str(folder), **wait) as server:
        until = time.monotonic() + 180
        while True:
            with suppress(URLError, ConnectionError, TimeoutError), urlopen(f"{url}/health", timeout=5):
                break
            said = (folder / "server.log").read_text()
            assert server.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(0.2)
        os.environ["PREFECT_API_URL"] = url
        refresh_global_settings_context()
        try:
            yield url
        finally:
            del os.environ["PREFECT_API_URL"]
            refresh_global_settings_context()


@pytest.fixture(scope="session")
def prefect_worker(prefect_api: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Everything of prefect.yaml deployed, and a process worker in this clone; gives the warehouse its runs write."""
    folder = tmp_path_factory.mktemp("worker")
    for command in (["work-pool", "create", "nightfold", "--type", "process"], ["deploy", "--all"]):
        done = subprocess.run(
            [*PREFECT, *command], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    command = [*PREFECT, "worker", "start", "--pool", "nightfold", "--type", "process"]
    env = {"PREFECT_WORKER_QUERY_SECONDS": "1", "NIGHTFOLD_WAREHOUSE__PATH": str(folder / "warehouse")}
    with _running(command, folder / "worker.log", **env):
        yield folder / "warehouse"


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits until something holds that other processes bring about."""

    def wait(holds: Callable[[], object]) -> None:
        until = time.monotonic() + 90
        while not holds():
            assert time.monotonic() < until, "it never came to hold"
            time.sleep(0.2)

    return wait
