"""The log for machines: JSON a line, with the run and its figures, and never the text of a row."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.console import Progress
from flows.errors import NightfoldError, UnreadableSource
from flows.log import LogNotWritten, log, log_failure, logged
from flows.night import night
from flows.settings import LogSettings, load_settings
from tests.flows.word_endpoint import serving
from tests.judged import Nights, given_verdicts, word_endpoint
from tests.nights import published, run_night

ROOT = Path(__file__).parents[2]
SECRET = "the swan sleeps at noon"


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def given_rows(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "faq.csv").write_text(f"id,text\n1,{SECRET}\n2,other\n")
    return {"path": str(tmp_path / "faq.csv"), "scope": "acme"}


def json_log(path: Path, **over: Any) -> dict[str, Any]:
    return {"log": {"format": "json", "path": str(path), **over}}


def test_a_night_is_a_line_of_json_for_each_event(given_rows: dict[str, Any], tmp_path: Path) -> None:
    run = run_night(tmp_path / "out", given_rows, **json_log(tmp_path / "logs" / "night.log")).run
    told = events(tmp_path / "logs" / "night.log")
    assert [each["event"] for each in told] == [
        "run.started",
        *(["stage.done"] * 4),
        "run.published",
        "stage.done",
    ]
    assert {each["run_id"] for each in told} == {run.run_id}
    load = told[1]
    assert (load["stage"], load["rows_in"], load["rows_out"], load["reused"]) == ("load", 2, 2, False)
    assert load["seconds"] >= 0
    assert load["peak_mib"] > 1
    assert told[-2]["chunks_new"] == 2
    assert told[0]["time"].endswith("+00:00")
    assert not logging.getLogger("nightfold.night").handlers


def test_nights_are_appended_and_a_failed_one_says_why(given_rows: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    run_night(tmp_path / "out", given_rows, **json_log(path))
    Path(given_rows["path"]).write_text("id,text\n1,\n")
    with pytest.raises(NightfoldError):
        run_night(tmp_path / "out", given_rows, **json_log(path))
    failed = events(path)[-1]
    assert (failed["event"], failed["level"], failed["error"]) == ("run.failed", "error", "NothingPublished")
    assert "1 of 1 rows were rejected" in failed["why"]


def test_the_text_format_has_the_same_events_in_lines(given_rows: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    run = run_night(tmp_path / "out", given_rows, log={"path": str(path)}).run
    lines = path.read_text().splitlines()
    assert f' info run.started run_id="{run.run_id}"' in lines[0]
    assert any(' stage="exact" ' in line for line in lines)
    assert SECRET not in path.read_text()


def test_json_without_a_file_goes_to_stderr(
    given_rows: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_night(tmp_path / "out", given_rows, log={"format": "json"})
    printed = capsys.readouterr()
    assert next(json.loads(line)["event"] for line in printed.err.splitlines()) == "run.started"
    assert "run.started" not in printed.out


def test_text_without_a_file_logs_nothing_that_the_night_does_not_say(
    given_rows: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_night(tmp_path / "out", given_rows)
    assert capsys.readouterr().err == ""


def test_only_what_went_wrong_is_logged_at_warning(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    with serving() as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        endpoint.bad["swan"] = "400"
        (tmp_path / "faq.csv").write_text(f"id,text\n1,{SECRET}\n2,other words\n")
        given = {"path": str(tmp_path / "faq.csv"), "scope": "acme"}
        run_night(tmp_path / "out", given, embedding=endpoint.settings(), **json_log(path, level="warning"))
    failed = published(tmp_path / "out", "chunks").filter(pl.col("completion_status") != "complete")["chunk_id"]
    told = events(path)
    assert [(each["event"], each["chunk_id"]) for each in told] == [("chunk.not_embedded", failed[0])]
    assert "swan" not in path.read_text()


def test_merged_chunks_are_named_at_debug(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    with word_endpoint() as endpoint, given_verdicts() as verdicts:
        nights = Nights(tmp_path, endpoint, verdicts, over=json_log(path, level="debug"))
        verdicts.say("a", "b")
        nights.run(("acme", "a", 1), ("acme", "b", 2))
        merged = [each for each in events(path) if each["event"] == "chunk.merged"]
        (row,) = nights.table("variants").to_dicts()
    assert [(each["chunk_id"], each["canonical_id"]) for each in merged] == [(row["chunk_id"], row["canonical_id"])]
    assert "reason" not in merged[0]


def test_no_text_of_the_sample_is_in_its_log_or_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "data" / "sample", tmp_path / "data" / "sample")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NIGHTFOLD_EMBEDDING__ENCODER")
    path = tmp_path / "night.log"
    over = {**json_log(path, level="debug"), "judge": {"reader": None}}  # what the rules merge is enough
    night(load_settings(ROOT / "nightfold.toml", over=over), progress=Progress(quiet=True))
    logged_words = path.read_text() + (tmp_path / "data/warehouse/metrics/nightfold.prom").read_text()
    assert [each for each in events(path) if each["event"] == "chunk.merged"]
    texts = published(tmp_path / "data" / "warehouse", "chunks")["text"].drop_nulls()
    assert texts.len() > 400
    # Any four words that follow each other would be a quotation.
    for words in (text.split() for text in texts):
        for place in range(len(words) - 3):
            assert " ".join(words[place : place + 4]) not in logged_words
    for text in texts:
        assert text not in logged_words


def test_what_a_library_says_of_a_file_is_not_logged_as_it_may_quote_it(tmp_path: Path) -> None:
    path = tmp_path / "night.log"
    with logged(LogSettings(format="json", path=str(path))):
        try:
            raise UnreadableSource(f"x.parquet: could not parse {SECRET!r}") from ValueError(SECRET)
        except UnreadableSource as error:
            log_failure(error)
        log_failure(ZeroDivisionError(SECRET))
    assert [(each["error"], each["why"]) for each in events(path)] == [
        ("UnreadableSource", None),
        ("ZeroDivisionError", None),
    ]


@pytest.mark.parametrize("header", [f"{SECRET},another", f"{SECRET},{SECRET}"])
def test_the_first_row_of_a_file_without_a_header_is_not_logged(tmp_path: Path, header: str) -> None:
    (tmp_path / "rows.csv").write_text(f"{header}\na,b\n")
    path = tmp_path / "night.log"
    given = {"path": str(tmp_path / "rows.csv")}
    sections: list[dict[str, Any]] = [{}, {"corpora": {"corpora": given["path"], "agents": given["path"]}}]
    for over in sections:
        with pytest.raises(UnreadableSource, match=SECRET):
            run_night(tmp_path / "out", given, **json_log(path), **over)
    assert SECRET not in path.read_text()
    assert [each["error"] for each in events(path) if each["event"] == "run.failed"] == ["UnreadableSource"] * 2


def test_a_line_break_in_a_name_does_not_break_the_line(tmp_path: Path) -> None:
    for kind in ("json", "text"):
        path = tmp_path / kind
        with logged(LogSettings.model_validate({"format": kind, "path": str(path)})):
            log("stage.done", stage='a\nb"}')
        assert len(path.read_text().splitlines()) == 1


def test_a_log_that_cannot_be_written_stops_the_run_before_it_begins(
    given_rows: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogNotWritten, match=r"\[log\] path = '.*/file/night.log': cannot be written"):
        run_night(tmp_path / "out", given_rows, **json_log(tmp_path / "file" / "night.log"))
