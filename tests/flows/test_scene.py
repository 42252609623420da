"""The sample as a reader runs it: a real night with the real judge, every action for a reason that can be told."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flows.check import Checker, check_inputs
from flows.console import Progress
from flows.explain import told
from flows.night import night
from flows.reader import Reader
from flows.settings import Settings, load_settings
from flows.story import story_of
from schemas.rows import ROWS
from schemas.terms import ACTIONS, FLAGGED, LINKED, MERGED, QUEUED, STORED_AS_NEW, SUPERSEDED
from tests.nights import published

ROOT = Path(__file__).parents[2]
LANGUAGES = ("English", "Spanish", "Portuguese")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The settings of the sample, after its night."""
    folder = tmp_path_factory.mktemp("scene")
    shutil.copytree(ROOT / "data" / "sample", folder / "data" / "sample")
    shutil.copy(ROOT / "nightfold.toml", folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.delenv("NIGHTFOLD_EMBEDDING__ENCODER")
        settings = load_settings()
        night(settings, progress=Progress(quiet=True))
        yield settings


def table(settings: Settings, name: str) -> pl.DataFrame:
    return published(Path(settings.warehouse.path), name)


def ask(query: str) -> list[tuple[object, ...]]:
    with duckdb.connect("data/warehouse/mart.duckdb", read_only=True) as mart:
        return mart.sql(query).fetchall()


def action_of(settings: Settings, row: str) -> str:
    chunks = table(settings, "chunks").filter(pl.col("source_row_id") == row)
    return str(chunks["action"].item())


def story(settings: Settings, row: str) -> str:
    return "\n".join(told(story_of(settings, row=row)))


@pytest.mark.parametrize("first", ["nt-01", "nt-04", "nt-07"], ids=LANGUAGES)
def test_three_that_say_the_same_are_one_canonical_with_two_variants(settings: Settings, first: str) -> None:
    three = [f"nt-{int(first[3:]) + number:02d}" for number in range(3)]
    listed = ", ".join(f"'{row}'" for row in three)
    assert ask(f"select source_row_id, variants from canonical_chunks where source_row_id in ({listed})") == [
        (first, 2)
    ]
    assert sorted(ask(f"select merged_row from merged where source_row_id = '{first}'")) == [
        (row,) for row in three[1:]
    ]
    assert [action_of(settings, row) for row in three] == [STORED_AS_NEW, MERGED, MERGED]
    for variant in three[1:]:
        assert "it was merged as equivalent" in story(settings, f"notices:{variant}")
    assert ": 3 chunks and 3 rows" in story(settings, f"notices:{first}")


@pytest.mark.parametrize("row", ["nt-11", "nt-13", "nt-15", "nt-17"])
def test_a_synonym_and_another_unit_of_the_same_figure_are_merged(settings: Settings, row: str) -> None:
    assert action_of(settings, row) == MERGED
    assert "it was merged as equivalent" in story(settings, f"notices:{row}")


@pytest.mark.parametrize(
    ("row", "why"),
    [("nt-19", "a negation on one side"), ("nt-21", "figures differ: "), ("nt-23", "figures differ: ")],
    ids=LANGUAGES,
)
def test_a_contradiction_is_flagged_with_what_differs(settings: Settings, row: str, why: str) -> None:
    assert action_of(settings, row) == FLAGGED
    evidence = ask(f"select evidence from open_contradictions where '{row}' in (left_row, right_row)")
    assert len(evidence) == 1
    assert why in str(evidence[0][0])
    said = story(settings, f"notices:{row}")
    assert "contradictions\n  open, with " in said
    assert why in said


@pytest.mark.parametrize("row", ["nt-25", "nt-27", "nt-29"], ids=LANGUAGES)
def test_a_newer_version_replaces_the_older_one_which_stays_with_its_time(settings: Settings, row: str) -> None:
    older = f"nt-{int(row[3:]) - 1:02d}"
    assert (action_of(settings, row), action_of(settings, older)) == (SUPERSEDED, STORED_AS_NEW)
    assert ask(f"select source_row_id from canonical_chunks where source_row_id in ('{row}', '{older}')") == [(row,)]
    since = ask(f"select valid_from::date, valid_to::date from superseded where source_row_id = '{older}'")
    assert [tuple(map(str, dates)) for dates in since] == [("2025-01-01", "2026-03-01")]
    assert "which held until 2026-03-01" in story(settings, f"notices:{row}")
    assert "it held from 2025-01-01 00:00 to 2026-03-01 00:00" in story(settings, f"notices:{older}")


@pytest.mark.parametrize(
    "rows",
    [
        ("notices:nt-30", "notices:nt-31"),
        ("notices:nt-32", "notices:nt-33"),
        ("manual_pt:pt-007", "manual_pt:pt-008"),
    ],
    ids=LANGUAGES,
)
def test_one_subject_with_two_facts_is_linked(settings: Settings, rows: tuple[str, str]) -> None:
    for mine, other in (rows, rows[::-1]):
        links = story(settings, mine).partition("\nlinks\n")[2].partition("\n\n")[0]
        assert f"({other})" in links
    assert LINKED in {action_of(settings, row.partition(":")[2]) for row in rows}


@pytest.mark.parametrize("row", ["nt-35", "nt-37", "nt-39"], ids=LANGUAGES)
def test_an_unsure_paraphrase_waits_for_a_person(settings: Settings, row: str) -> None:
    assert action_of(settings, row) == QUEUED
    asked = ask(f"select text, best_candidate from review_queue where source_row_id = '{row}'")
    assert len(asked) == 1
    assert "and open, with 1 to compare: may or may not say the same" in story(settings, f"notices:{row}")


def test_all_six_actions_occur(settings: Settings) -> None:
    assert set(table(settings, "chunks")["action"]) == set(ACTIONS)
    assert set(table(settings, "pairs")["action"]) == set(ACTIONS)


def test_rows_that_come_next_are_foretold(settings: Settings, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text(
        "id,workspace_id,text\n"
        "a,acme-fleet,The spare car for visitors is parked  beside gate 4. Its key hangs at the front desk.\n"
        'b,acme-fleet,"The spare car for visitors is parked beside gate 5, and its key hangs at the front desk."\n'
        'c,boreal-motors,"The spare car for visitors is parked beside gate 4, and its key hangs at the front desk."\n'
        'd,acme-fleet,"The spare car  for visitors is parked beside gate 4, and its key hangs at the front desk."\n'
    )
    asked = settings.model_copy(update={"inputs": [settings.inputs[0].model_copy(update={"path": str(new)})]})
    with Checker(asked, tell=lambda _: None) as checker:
        found, _ = check_inputs(asked, checker=checker)
    assert found.sort("source_row_id").select("duplicate_kind", "action").rows() == [
        ("merged", MERGED),
        ("none", FLAGGED),
        ("none", STORED_AS_NEW),
        ("exact", MERGED),
    ]


def test_what_is_left_unread_changes_nothing_that_is_told(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    known = table(settings, "chunks").filter(pl.col("text").is_not_null() & (pl.col("kind") == "text"))
    some = known.sort("chunk_id").gather_every(known.height // 90).select("scope", "kind", "chunk_id", "text")
    # One word of each is another: near to what is there, and to what that is near to.
    rows = ROWS.shaped(
        some.select(
            "scope",
            "kind",
            source=pl.lit("new"),
            source_row_id="chunk_id",
            locator="chunk_id",
            text=pl.col("text").str.replace(r"\p{L}{5,}", "elsewhere"),
            metadata=pl.lit("{}"),
        )
    )
    read: list[int] = []
    reads = Reader.read

    def counted(self: Reader, texts: Any, left: Any, right: Any, **told: Any) -> pl.DataFrame:
        read.append(len(left))
        return reads(self, texts, left, right, **told)

    monkeypatch.setattr(Reader, "read", counted)
    found, pairs = [], []
    for leaves_out in (True, False):
        monkeypatch.setattr(Checker, "_knows_what_leads_furthest", leaves_out)
        with Checker(settings, tell=lambda _: None) as checker:
            found.append(checker.check(rows))
        pairs.append(sum(read))
        read.clear()
    assert_frame_equal(found[0], found[1], abs_tol=1e-4)
    assert pairs[0] < pairs[1]
    assert {MERGED, QUEUED} <= set(found[0]["action"])


def test_the_counts_of_the_sample_are_those_that_its_page_gives() -> None:
    page = (ROOT / "data/sample/README.md").read_text(encoding="utf-8")
    rows = (ROOT / "data/sample/corpus/notices.jsonl").read_text(encoding="utf-8").splitlines()
    assert f"`corpus/notices.jsonl`, {len(rows)} rows" in page
    assert f"| notices | {len(rows)} | {len(rows)} |" in page
