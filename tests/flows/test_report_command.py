"""`nightfold report` as an operator types it."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows import cli
from flows.warehouse import Warehouse
from tests.nights import run_night
from tests.pages import elements

Call = Callable[..., tuple[str, str, int]]


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    for rows in ("1,acme,one\n", "1,acme,one\n2,boreal,two\n"):
        (folder / "faq.csv").write_text("id,workspace_id,text\n" + rows)
        run_night(folder / "out", {"path": str(folder / "faq.csv")})
    return folder


@pytest.fixture
def call(two_nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs `nightfold report` in a folder with a warehouse of two nights."""
    shutil.copytree(two_nights, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[str, str, int]:
        monkeypatch.setattr(sys, "argv", ["nightfold", "report", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return printed.out, printed.err, int(ended.value.code or 0)

    return run


def test_without_a_run_it_is_the_report_of_what_readers_see(call: Call, tmp_path: Path) -> None:
    out, err, code = call("--warehouse", "out")
    published = Warehouse(str(tmp_path / "out")).published()
    assert published is not None
    assert (out, err, code) == (f"out/reports/{published.run_id}.html\n", "", 0)
    page = (tmp_path / out.strip()).read_text(encoding="utf-8")
    assert elements(page)
    assert page == (tmp_path / "out/reports/latest.html").read_text(encoding="utf-8")


def test_an_older_run_goes_to_a_file_of_ones_own_and_leaves_latest_alone(call: Call, tmp_path: Path) -> None:
    first = Warehouse(str(tmp_path / "out")).runs()[0]
    out, _, code = call(first.run_id, "--warehouse", "out", "--out", "mine/night.html")
    assert (out, code) == ("mine/night.html\n", 0)
    assert first.run_id in (tmp_path / "mine/night.html").read_text(encoding="utf-8")
    assert not (tmp_path / "out/reports").exists()


def test_with_a_scope_it_is_a_page_of_its_own(call: Call, tmp_path: Path) -> None:
    out, _, code = call("--warehouse", "out", "--scope", "acme")
    assert code == 0
    assert "boreal" not in (tmp_path / out.strip()).read_text(encoding="utf-8")
    assert not (tmp_path / "out/reports/latest.html").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--warehouse", "none"), "none: no run is published"),
        (("1999", "--warehouse", "out"), "1999: no such run"),
        (("--warehouse", "out", "--scope", "nobody"), "has no chunk in this scope"),
        (("--warehouse", "out", "--out", "faq.csv/page.html"), "faq.csv"),
    ],
)
def test_what_cannot_be_made_is_one_line(call: Call, arguments: tuple[str, ...], line: str) -> None:
    out, err, code = call(*arguments)
    assert (out, code) == ("", 1)
    assert line in err
    assert err.count("\n") == 1


def test_it_opens_the_page_where_that_is_asked_for(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    out, _, _ = call("--warehouse", "out", "--open")
    assert opened == [Path(out.strip()).resolve().as_uri()]
