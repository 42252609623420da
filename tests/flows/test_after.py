"""What a run leaves to look at, and that none of it can undo the run."""

from pathlib import Path
from typing import Any

import pytest

from flows.console import Progress
from flows.night import night
from flows.report.file import LATEST
from flows.warehouse import Warehouse
from tests.nights import run_night, said_by_night, settings_of

REPORT: dict[str, Any] = {"report": {"enabled": True}}


@pytest.fixture
def faq(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n2,hello\n3,other\n")
    return {"path": str(tmp_path / "faq.csv"), "scope": "acme"}


def test_a_night_leaves_its_report_and_says_what_changed(faq: dict[str, Any], tmp_path: Path) -> None:
    outcome = run_night(tmp_path / "out", faq, **REPORT)
    morning = outcome.morning
    assert morning.report == tmp_path / "out" / "reports" / f"{outcome.run.run_id}.html"
    assert morning.report.read_bytes() == (tmp_path / "out" / "reports" / LATEST).read_bytes()
    assert {kind: count for kind, count in morning.changed.items() if count} == {"new_groups": 2}
    assert morning.waiting == 0


def test_a_night_that_wants_no_report_still_says_what_changed(faq: dict[str, Any], tmp_path: Path) -> None:
    morning = run_night(tmp_path / "out", faq, report={"enabled": False}).morning
    assert morning.report is None
    assert morning.changed["new_groups"] == 2
    assert not (tmp_path / "out" / "reports").exists()


def test_a_report_that_cannot_be_written_is_told_and_the_run_stands(faq: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "reports").write_text("in the way")
    said = said_by_night(tmp_path / "out", faq, **REPORT)
    run = Warehouse(str(tmp_path / "out")).published()
    assert run is not None
    assert f"no report of run {run.run_id}: {tmp_path}/out/reports: " in said
    assert "`nightfold report` makes it again" in said


def test_a_fault_of_ours_in_the_report_does_not_fail_the_run(
    faq: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("flows.report.file.report_html", broken)
    said = said_by_night(tmp_path / "out", faq, **REPORT)
    assert "ZeroDivisionError: a bug" in said
    assert Warehouse(str(tmp_path / "out")).published() is not None
    # What changed is known all the same, and a next night is as any other.
    assert run_night(tmp_path / "out", faq, **REPORT).morning.changed["new_groups"] == 0


def test_a_dry_run_leaves_nothing_to_look_at(faq: dict[str, Any], tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "out", faq, **REPORT)
    outcome = night(settings, progress=Progress(quiet=True), dry_run=True)
    assert outcome.morning.report is None
    assert not (tmp_path / "out").exists()
