"""Calibration as an engineer uses it: labelled pairs in, tables, settings to paste and a plot out."""

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.calibrate import Calibration, calibrate, check_plot, report_lines, write_plot
from flows.console import Progress
from flows.errors import NightfoldError
from flows.settings import Settings
from tests.flows.chat_endpoint import chatting, reply, texts_in
from tests.flows.word_judge import judge_by_words

ASKED = "say of each pair, true or false, whether its two texts may become one"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("flows.verdicts.judge_pairs", judge_by_words)
    return tmp_path


def measured(path: str = "pairs.parquet", precision: float = 0.95, **sections: Any) -> Calibration:
    given = {"embedding": {"encoder": "none"}} | sections
    given["judge"] = {"merge_confidence": 0.9, "merge_similarity": 0.95} | given.get("judge", {})
    return calibrate(Path(path), precision=precision, settings=Settings(**given), progress=Progress(quiet=True))


def judged(*rows: tuple[Any, str, float], **columns: Any) -> str:
    """A judged file of (mergeable, relation, confidence)."""
    mergeable, relation, confidence = zip(*rows, strict=True)
    near = [0.97] * len(rows)
    usual = {"mergeable": mergeable, "relation": relation, "confidence": confidence, "similarity": near}
    frame = pl.DataFrame({**usual, "reading": [None] * len(rows), **columns}, schema_overrides={"reading": pl.Float32})
    frame.write_parquet("judged.parquet")
    return "judged.parquet"


def refused(path: str = "pairs.parquet", precision: float = 0.95) -> str:
    with pytest.raises(NightfoldError) as error:
        measured(path, precision)
    assert "\n" not in str(error.value)
    return str(error.value)


LABELS = (
    "mergeable,text_a,text_b,similarity\n"
    "true,The pump.,the pump,0.97\n"
    "No,The valve.,the valve,0.96\n"
    "1,x,y,0.9\n"
    "0,v,w,0.9\n"
    ",a,b,0.9\n"
)


# ---- pairs that are judged first


def test_labelled_pairs_are_judged_and_those_without_a_label_left_out() -> None:
    Path("pairs.csv").write_text(LABELS)
    found = measured("pairs.csv")
    assert (found.now.mergeable, found.now.others, found.left_out) == (2, 2, 1)
    assert (found.now.merged, found.now.right, found.now.found, found.now.queued_in_vain) == (2, 1, 2, 1)


def test_a_finer_label_of_the_file_is_not_taken_for_a_verdict() -> None:
    pl.DataFrame(
        {
            "text_a": ["A b"],
            "text_b": ["a b."],
            "similarity": [0.97],
            "mergeable": [True],
            "relation": ["contradictory"],
        }
    ).write_parquet("pairs.parquet")
    assert measured().now.right == 1


@pytest.mark.parametrize("labels", [["true", "FALSE "], ["yes", "no"], ["1", "0"], [1, 0], [1.0, 0.0], [True, False]])
def test_labels_are_taken_in_the_words_people_use(labels: list[Any]) -> None:
    texts = {"text_a": ["a", "b"], "text_b": ["A", "B"], "similarity": [0.97, 0.97]}
    pl.DataFrame({**texts, "mergeable": labels}).write_parquet("pairs.parquet")
    found = measured()
    assert (found.now.mergeable, found.now.others, found.now.right) == (1, 1, 1)


def test_the_llm_is_asked_about_all_that_some_threshold_would_merge(tmp_path: Path) -> None:
    Path("pairs.csv").write_text(LABELS.replace("0.97", "0.6"))
    with chatting() as endpoint:
        endpoint.rule = lambda body: reply("distinct" if "the valve" in texts_in(body) else "equivalent")
        found = measured("pairs.csv", llm=endpoint.settings(tmp_path / "llm").model_dump())
        assert len(endpoint.asked) == 2
    assert found.proposal is not None
    assert (found.proposal.precision, found.proposal.recall, found.is_reached) == (1.0, 0.5, True)
    assert found.proposal.merge_similarity == 0.6


# ---- pairs that are judged already


def test_a_judged_file_is_taken_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    path = judged((True, "equivalent", 0.95), (False, "equivalent", 0.91), (True, "unknown", 0.5))
    found = calibrate(Path(path), precision=0.95, settings=Settings(), progress=Progress())
    assert (found.now.merged, found.now.right, found.now.found) == (2, 1, 2)
    assert capsys.readouterr().out.splitlines() == [
        "judged.parquet: has similarity, reading, relation, confidence; taken as judged",
        "judged.parquet: no column is_confirmed; every pair counts as confirmed",
    ]


def test_what_was_not_confirmed_is_not_merged() -> None:
    rows = ((True, "equivalent", 0.95), (True, "equivalent", 0.95), (False, "equivalent", 0.95))
    found = measured(judged(*rows, is_confirmed=[True, False, False], stands=[None, "a", None]))
    assert (found.now.merged, found.now.found, found.now.queued_in_vain) == (1, 2, 1)
    without = measured(judged(*rows, is_confirmed=[True, False, False]), judge={"require_confirmation": False})
    assert without.now.merged == 3


# ---- the proposal


MANY = [(True, "equivalent", 0.97)] * 190 + [(False, "equivalent", 0.92)] * 40 + [(True, "equivalent", 0.92)] * 60


def test_the_proposal_reaches_the_precision_and_can_be_pasted() -> None:
    found = measured(judged(*MANY))
    assert found.now.precision == pytest.approx(250 / 290)
    assert found.proposal is not None
    assert (found.proposal.precision, found.is_reached) == (1.0, True)
    lines = report_lines(found)
    pasted = tomllib.loads("\n".join(lines[lines.index("[judge]") :]))["judge"]
    over = Settings(judge=pasted).judge
    assert 0.92 < over.merge_confidence <= 0.97
    assert over.merge_similarity == 0.95
    assert "only" not in lines[-4]


def test_settings_that_reach_it_can_stay() -> None:
    found = measured(judged(*MANY), precision=0.8)
    assert any(line.startswith("for a precision of 0.8, the settings can stay: ") for line in report_lines(found))


def test_few_merges_are_said_to_be_few() -> None:
    lines = report_lines(measured(judged((True, "equivalent", 0.97), (False, "distinct", 0.97))))
    assert "only 1 merges: label more pairs before you rely on it" in lines


def test_a_precision_that_is_not_reached_is_told_with_the_best_there_is() -> None:
    found = measured(judged(*[(True, "equivalent", 0.97), (False, "equivalent", 0.97)] * 5))
    assert not found.is_reached
    told = next(line for line in report_lines(found) if "not reached" in line)
    assert told.startswith("precision 0.95 is not reached at any threshold; the best is precision 0.500 (at least 0.2")
    assert "[judge]" not in report_lines(found)


def test_a_judge_that_calls_nothing_equivalent_is_told() -> None:
    lines = report_lines(measured(judged((True, "unknown", 0.97))))
    assert lines[-1].startswith("precision 0.95 cannot be aimed at: no pair is called equivalent")
    assert "no pair is called equivalent" in lines


def test_labels_without_a_mergeable_pair_are_told() -> None:
    lines = report_lines(measured(judged((False, "equivalent", 0.97))))
    assert lines[-1] == "no pair is mergeable: nothing can be said of recall; add pairs that may become one"


def test_the_report_shows_both_thresholds_and_marks_what_is_set() -> None:
    lines = report_lines(measured(judged(*MANY), judge={"merge_confidence": 0.94}))
    assert lines[0] == "judged.parquet: 290 labelled pairs, 250 of them mergeable"
    marked = [re.split(r"\s+", line)[:4] for line in lines if line.startswith("* ")]
    assert marked == [["*", "0.94", "190", "1.000"], ["*", "0.95", "190", "1.000"]]
    at = lines.index("how often a confidence in `equivalent` was right")
    assert [re.split(r"\s{2,}", line)[:4] for line in lines[at + 1 : at + 4]] == [
        ["confidence", "pairs", "mean", "mergeable"],
        ["0.9 to 0.95", "100", "0.920", "0.600"],
        ["0.95 to 0.99", "190", "0.970", "1.000"],
    ]


# ---- what is refused


@pytest.mark.parametrize("precision", [0, 1.1, -1, float("nan")])
def test_a_precision_is_a_share(precision: float) -> None:
    assert refused(judged(*MANY), precision).endswith(": a share above 0 and up to 1, as in 0.95")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"text_a": ["x"], "text_b": ["y"]},
            f"no column mergeable; {ASKED} (there are text_a, text_b)",
        ),
        ({"mergeable": [True]}, "no column text_a or text_b; give each row its two texts (there are mergeable)"),
        (
            {"mergeable": ["true", "maybe", "2"]},
            "mergeable of 2 of 3 rows is not true or false (or 1, 0, yes, no) (the first is 'maybe')",
        ),
        ({"mergeable": [None, None]}, "0 of 2 pairs have a mergeable of true or false; label some"),
        ({"mergeable": [" "]}, "0 of 1 pairs have a mergeable of true or false; label some"),
    ],
)
def test_a_file_that_does_not_fit_is_told_in_one_line(columns: dict[str, Any], told: str) -> None:
    pl.DataFrame(columns).write_parquet("pairs.parquet")
    assert refused() == f"pairs.parquet: {told}"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"relation": ["same"]}, "relation of 1 of 1 rows is not one of equivalent, subset, "),
        ({"relation": [None]}, "relation of 1 of 1 rows is not one of "),
        ({"confidence": [1.5]}, "confidence of 1 of 1 rows is not a number from 0 to 1 (the first is '1.5')"),
        ({"similarity": ["x"]}, "similarity of 1 of 1 rows is not a number from -1 to 1 (the first is 'x')"),
        ({"is_confirmed": ["perhaps"]}, "is_confirmed of 1 of 1 rows is not true or false "),
    ],
)
def test_a_judged_file_with_other_words_is_told(columns: dict[str, Any], told: str) -> None:
    assert refused(judged((True, "equivalent", 0.9), **columns)).startswith(f"judged.parquet: {told}")


# ---- the plot


def test_the_plot_is_one_whole_svg(folder: Path) -> None:
    Path(judged(*MANY)).rename("a<b>&c.parquet")
    found = measured("a<b>&c.parquet")
    write_plot(found, Path("curve.svg"))
    svg = ET.fromstring(Path("curve.svg").read_text())
    names = "{http://www.w3.org/2000/svg}"
    assert svg.find(f"{names}title").text == "Calibration on a<b>&c.parquet"  # type: ignore[union-attr]
    texts = [each.text for each in svg.iter(f"{names}text")]
    assert {"precision", "recall", "found", "wanted 0.95", "as set 0.9", "merge_confidence"} <= set(texts)
    assert any(text and text.startswith("proposed 0.9") for text in texts)
    assert len(list(svg.iter(f"{names}polyline"))) == 3
    assert len(list(svg.iter(f"{names}circle"))) == 2
    # Nothing that a viewer would have to fetch.
    assert not re.search(r"href|url\(|<script|@import", Path("curve.svg").read_text())


def test_a_plot_of_nothing_merged_is_still_a_plot() -> None:
    write_plot(measured(judged((False, "unknown", 0.9))), Path("curve.svg"))
    assert ET.fromstring(Path("curve.svg").read_text()).tag.endswith("svg")


@pytest.mark.parametrize(
    ("plot", "told"),
    [
        ("curve.png", "--plot curve.png: the plot is an SVG; name a .svg file"),
        ("nope/curve.svg", "--plot nope/curve.svg: no such folder nope; make it, or name another"),
    ],
)
def test_a_plot_that_cannot_be_drawn_is_told_first(plot: str, told: str) -> None:
    with pytest.raises(NightfoldError) as error:
        check_plot(Path(plot))
    assert str(error.value) == told
