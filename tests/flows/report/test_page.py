"""The report of nights in which the test says what texts are to each other: what it tells, and what it keeps out."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.console import Progress
from flows.night import rollback
from flows.report.facts import Facts
from flows.report.file import LATEST, NoReport, facts_of, reports_folder, write_report
from flows.report.page import cleaned, report_html
from flows.settings import ReportSettings
from flows.unmerge import unmerge
from flows.warehouse import Run, Warehouse
from schemas.terms import CONTRADICTORY, SUPERSEDING, UNKNOWN
from tests.judged import Nights, given_verdicts, text, word_endpoint
from tests.nights import run_night, settings_of
from tests.pages import NU, elements, faults_of_style, loaded, told_by_nu

HOSTILE = (
    "</td></table><script>alert('x')</script><img src=http://example.com/x onerror=alert(1)> {{ 7 * 7 }} ]]> "
    "</style></svg>\x00\x07\ufffe \u202e\u05e9\u05dc\u05d5\u05dd & <!-- "
)
LONG = "x" * 50_000


# As a night has it; the others do without.
REPORT: dict[str, Any] = {"report": {"enabled": True}}


class History:
    """Three nights, a decision by day, and what the report says of each."""

    def __init__(self, nights: Nights) -> None:
        self.nights, self.warehouse = nights, Warehouse(str(nights.warehouse))
        self.pages: dict[tuple[str, str | None], str] = {}
        say = nights.verdicts.say
        say("a", "b")
        say("c", "d")
        self.first: Run = nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3), ("boreal", "z", 1))
        # e says what both groups say; f disagrees with a; g replaces c; nobody knows of h.
        say("a", "e")
        say("c", "e")
        say("a", "f", CONTRADICTORY)
        say("g", "z", SUPERSEDING, larger="g")
        say("a", "h", UNKNOWN, confidence=0.2, reading=0.9)
        self.second: Run = nights.run(
            ("acme", "d", 4), ("acme", "e", 5), ("acme", "f", 6), ("boreal", "g", 7), ("acme", "h", 8)
        )
        taken = unmerge(
            settings_of(nights.warehouse),
            nights.id_of("b"),
            by="ana",
            reason="other pumps",
            progress=Progress(quiet=True),
        )
        self.taken: Run = taken.run
        self.third: Run = nights.run(("acme", "i", 9))

    def page(self, run: Run, scope: str | None = None) -> str:
        key = (run.run_id, scope)
        if key not in self.pages:
            self.pages[key] = report_html(Facts(self.warehouse, run, ReportSettings(), scope))
        return self.pages[key]

    def changed(self, run: Run, scope: str | None = None) -> dict[str, int]:
        counts = Facts(self.warehouse, run, ReportSettings(), scope).since.counts
        return {name: count for name, count in counts.items() if count}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with word_endpoint() as endpoint, given_verdicts() as verdicts:
        yield History(Nights(tmp_path_factory.mktemp("history"), endpoint, verdicts, over=REPORT))


# ---- it is a page


def test_every_report_is_html_and_css_without_a_fault(history: History) -> None:
    runs = (history.first, history.second, history.taken, history.third)
    for page in (*map(history.page, runs), history.page(history.second, "boreal")):
        assert elements(page)
        assert faults_of_style(page) == []


@pytest.mark.skipif(NU is None, reason="the Nu checker needs a Java")
def test_the_nu_checker_has_nothing_against_a_report(history: History, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(history.page(history.second), encoding="utf-8")
    assert told_by_nu(tmp_path / "page.html") == ""


def test_a_report_loads_nothing_and_runs_nothing(history: History) -> None:
    page = history.page(history.second)
    assert loaded(page) == []
    assert "default-src 'none'" in page


def test_every_place_a_report_points_to_is_in_it_and_no_id_is_there_twice(history: History) -> None:
    found = elements(history.page(history.third))
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(ids) == len(set(ids))
    places = [attributes["href"] for _, attributes in found if attributes.get("href", "").startswith("#")]
    assert {place[1:] for place in places} <= set(ids)


def test_each_plot_is_an_image_with_a_title_and_a_description(history: History) -> None:
    page = history.page(history.third)
    plots = re.findall(r'<svg viewBox="[^"]*" role="img" aria-labelledby="(\S+) (\S+)">', page)
    assert [name for name, _ in plots] == [
        "similarity-title",
        "stages-title",
        "trend-rows-title",
        "trend-seconds-title",
    ]
    for title, about in plots:
        assert re.search(f'<title id="{title}">[^<]+</title><desc id="{about}">[^<]+</desc>', page)
    assert "#0" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).replace('href="#', "")


def test_the_same_run_gives_the_same_page_also_after_later_nights(history: History) -> None:
    folder = reports_folder(history.warehouse)
    for run in (history.first, history.second, history.third):
        assert (folder / f"{run.run_id}.html").read_text(encoding="utf-8") == history.page(run)
    assert (folder / LATEST).read_text(encoding="utf-8") == history.page(history.third)


# ---- what changed


def test_the_first_run_changes_everything(history: History) -> None:
    assert history.changed(history.first) == {"new_groups": 3}
    assert "this is the first run" in history.page(history.first)


def test_a_second_night_tells_what_truly_changed(history: History) -> None:
    assert history.changed(history.second) == {
        "new_groups": 3,
        "grown": 2,
        "superseded": 1,
        "questions_opened": 1,
        "contradictions_opened": 1,
    }
    assert history.changed(history.second, "boreal") == {"new_groups": 1, "superseded": 1}
    names = {int(chunk_id[:16], 16): name for chunk_id, name in history.nights.names.items()}
    groups = Facts(history.warehouse, history.second, ReportSettings()).since.groups
    assert sorted(names[row[0]] for row in groups.new.iter_rows()) == ["boreal/g", "f", "h"]
    assert sorted((names[row[0]], *row[2:]) for row in groups.grown.iter_rows()) == [("a", 3, 1), ("c", 2, 1)]


def test_a_group_that_another_chunk_stands_for_is_shown_with_both(tmp_path: Path) -> None:
    with word_endpoint() as endpoint, given_verdicts() as verdicts:
        nights = Nights(tmp_path, endpoint, verdicts, over={**REPORT, "judge": {"stands": "newest"}})
        nights.run(("acme", "old", 1))
        verdicts.say("old", "fresh")
        nights.run(("acme", "fresh", 2))
        page = (nights.warehouse / "reports" / LATEST).read_text(encoding="utf-8")
    changed = page[page.index("Another chunk stands") : page.index('id="came-in"')]
    assert text("fresh") in changed
    assert f'stood before: <p class="said" dir="auto">{text("old")}</p>' in changed


def test_a_decision_by_day_is_told_of_its_own_run_and_of_the_next_night(history: History) -> None:
    assert history.changed(history.taken) == {"shrunk": 1, "split": 1}
    by_night = history.changed(history.third)
    assert (by_night["shrunk"], by_night["split"]) == (1, 1)
    page = history.page(history.third)
    assert "In between" in page
    assert "other pumps" in page
    assert f"Since run <code>{history.second.run_id}</code>" in page


def test_what_is_wrong_with_two_texts_and_what_waits_is_shown_with_both(history: History) -> None:
    page = history.page(history.second)
    contradictions = page[page.index('id="contradictions"') : page.index('id="waiting"')]
    assert text("a") in contradictions
    assert text("f") in contradictions
    waiting = page[page.index('id="waiting"') : page.index('id="superseded"')]
    assert text("h") in waiting
    superseded = page[page.index('id="superseded"') : page.index('id="embeddings"')]
    assert text("z") in superseded
    assert text("g") in superseded


def test_rows_are_told_by_source_with_time_and_memory_of_every_stage(history: History) -> None:
    run = history.second
    assert run.sources == {"night2": {"known": 0, "new": 5, "rejected": 0}}
    assert set(run.stage_peak_mib) == set(run.stage_seconds)
    assert all(peak > 1 for peak in run.stage_peak_mib.values())
    assert '<bdi>night2</bdi></th><td class="n">5</td><td class="n">0</td><td class="n">0</td>' in history.page(run)


def test_a_night_without_news_says_so(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n")
    for _ in range(2):
        run_night(tmp_path / "out", {"path": str(tmp_path / "faq.csv"), "scope": "acme"}, **REPORT)
    page = (tmp_path / "out" / "reports" / LATEST).read_text(encoding="utf-8")
    for words in (
        "Nothing changed.",
        "Nothing asks for attention.",
        "No row was ever refused.",
        "No two chunks are near enough to be compared.",
        "Nothing has been merged by meaning.",
        "No two chunks disagree.",
        "No question is open.",
    ):
        assert words in page
    assert elements(page)


def test_a_rollback_tells_what_is_gone(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n")
    given = {"path": str(tmp_path / "faq.csv"), "scope": "acme"}
    first = run_night(tmp_path / "out", given).run
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n2,another\n")
    run_night(tmp_path / "out", given)
    settings = settings_of(tmp_path / "out")
    back = rollback(settings, first.run_id, progress=Progress(quiet=True))
    facts = facts_of(settings, back.run_id)
    assert facts.since.counts["gone"] == 1
    page = report_html(facts)
    assert "It went through no stage" in page or "went through no stage" in page
    assert elements(page)


# ---- the wall


def test_the_report_of_a_scope_holds_nothing_of_another(history: History) -> None:
    """As an attacker would look: texts, names, ids, sources, notes and counts of what is beyond the wall."""
    for run in (history.first, history.second, history.taken, history.third):
        page = history.page(run, "boreal")
        for name in "abcdefhi":
            assert text(name) not in page
        dataset = history.warehouse.open("chunks", run)
        assert dataset is not None
        others = dataset.to_table(columns=["chunk_id"], filter="scope != 'boreal'")["chunk_id"].to_pylist()
        assert others
        assert not [chunk_id for chunk_id in others if chunk_id[:8] in page]
        assert "acme" not in page
        assert "ana" not in re.findall(r"\w+", page)
        assert "stages" not in [each.get("id") for _, each in elements(page)]


def test_what_is_of_a_scope_alone_does_not_move_with_what_happens_beyond_it(tmp_path: Path) -> None:
    pages = []
    for others in (1, 40):
        rows = [f"{n},boreal,mine {n}" for n in range(3)] + [f"o{n},acme,other {n} secret" for n in range(others)]
        folder = tmp_path / str(others)
        folder.mkdir()
        (folder / "rows.csv").write_text("id,workspace_id,text\n" + "\n".join(rows) + "\nbad,,\n" * others)
        given = {"path": str(folder / "rows.csv"), "name": "rows"}
        outcome = run_night(folder / "out", given, guard={"allow": ["max_reject_share"]})
        settings = settings_of(folder / "out")
        page = report_html(facts_of(settings, None, scope="boreal"))
        # Only the run's own moments differ.
        pages.append(re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", page.replace(outcome.run.run_id, "")))
    assert pages[0] == pages[1]


def test_a_scope_that_would_break_out_of_its_filter_finds_nothing(history: History) -> None:
    settings = settings_of(history.nights.warehouse)
    for scope in ("x' or '1'='1", "boreal' --", "%", "", "BOREAL"):
        with pytest.raises(NoReport, match="no chunk in this scope"):
            facts_of(settings, None, scope=scope)


# ---- hostile text


def test_hostile_texts_names_and_scopes_stay_text(tmp_path: Path) -> None:
    with word_endpoint() as endpoint, given_verdicts() as verdicts:
        nights = Nights(tmp_path, endpoint, verdicts, over=REPORT)
        verdicts.say("<b>one</b>", "two")
        verdicts.say("two", "three", CONTRADICTORY, evidence=HOSTILE)
        hostile = {"id": "<script>alert(2)</script>", "text": f"{text('')} {HOSTILE} two"}
        nights.run(
            ("<i>a'c\"me</i>", "<b>one</b>", 1), ("<i>a'c\"me</i>", "two", 2, hostile), ("<i>a'c\"me</i>", "three", 3)
        )
        warehouse = Warehouse(str(nights.warehouse))
        run = warehouse.published()
        assert run is not None
        for scope in (None, "<i>a'c\"me</i>"):
            page = report_html(Facts(warehouse, replace(run, note=HOSTILE), ReportSettings(), scope))
            assert "script" not in [tag for tag, _ in elements(page)]
            assert loaded(page) == []
            assert "{{ 7 * 7 }}" in page
            assert "alert(" in page


def test_a_long_text_is_cut_and_says_so(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": ["1"], "text": [LONG]})
    rows.write_parquet(tmp_path / "rows.parquet")
    run_night(tmp_path / "out", {"path": str(tmp_path / "rows.parquet"), "scope": "acme"}, **REPORT)
    assert len((tmp_path / "out" / "reports" / LATEST).read_text(encoding="utf-8")) < 100_000
    assert cleaned(LONG, 280) == "x" * 279 + "…"


def test_texts_are_as_long_as_the_settings_say(history: History) -> None:
    for chars in (20, 500):
        page = report_html(Facts(history.warehouse, history.second, ReportSettings(text_chars=chars)))
        assert (text("a") in page) is (chars == 500)
        assert (text("a")[:19].rstrip() + "…" in page) is (chars == 20)


def test_a_text_to_be_read_from_the_right_says_its_own_direction(tmp_path: Path) -> None:
    with word_endpoint() as endpoint, given_verdicts() as verdicts:
        nights = Nights(tmp_path, endpoint, verdicts, over=REPORT)
        arabic = "\u0627\u0644\u0645\u0636\u062e\u0629"
        verdicts.say("one", arabic)
        nights.run(("acme", "one", 1), ("acme", arabic, 2))
        page = (nights.warehouse / "reports" / LATEST).read_text(encoding="utf-8")
        assert f'<p class="said" dir="auto">{text(arabic)}</p>' in page


# ---- runs that have none


def test_a_failed_run_has_no_report(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,\n")
    given = {"path": str(tmp_path / "faq.csv"), "scope": "acme"}
    with pytest.raises(Exception, match="rejected"):
        run_night(tmp_path / "out", given)
    settings = settings_of(tmp_path / "out")
    with pytest.raises(NoReport, match="no run is published"):
        facts_of(settings, None)
    with pytest.raises(NoReport, match="this run published nothing"):
        facts_of(settings, Warehouse(str(tmp_path / "out")).runs()[0].run_id)


def test_of_pruned_runs_no_report_is_made_and_no_change_is_claimed(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"warehouse": {"keep_runs": 1}}
    for n in (1, 2):
        (tmp_path / "faq.csv").write_text("id,text\n" + "\n".join(f"{row},row {row}" for row in range(n)))
        outcome = run_night(tmp_path / "out", {"path": str(tmp_path / "faq.csv"), "scope": "acme"}, **settings)
    # The night itself compared before it pruned.
    assert outcome.morning.changed["new_groups"] == 1
    warehouse = Warehouse(str(tmp_path / "out"))
    with pytest.raises(NoReport, match="have been pruned"):
        facts_of(settings_of(tmp_path / "out"), warehouse.runs()[0].run_id)
    again = facts_of(settings_of(tmp_path / "out"), None)
    assert again.since.counts == {}
    assert "have been pruned; there is nothing to compare with" in report_html(again)


def test_pages_of_more_runs_than_are_kept_are_dropped_and_nothing_else(history: History, tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "out"))
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n")
    given = {"path": str(tmp_path / "faq.csv"), "scope": "acme"}
    folder = reports_folder(warehouse)
    for _ in range(3):
        last = run_night(tmp_path / "out", given, report={"enabled": True, "keep": 2}).run
        (folder / "mine.html").write_text("mine")
    write_report(Facts(warehouse, last, ReportSettings(keep=2), "acme"))
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 5
    assert {"mine.html", LATEST, f"{last.run_id}.html"} <= set(names)
    assert [name for name in names if name.startswith(f"{last.run_id}-")]
