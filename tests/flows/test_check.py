"""What would become of rows: the same as a night makes of them, from the same scope, with nothing written."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from flows.check import CHECKED, Checker, check_inputs
from flows.checked_table import show, summary_lines
from flows.lock import writer_lock
from flows.warehouse import Warehouse
from schemas.rows import ROWS
from schemas.terms import (
    COMPLEMENTARY,
    CONTRADICTORY,
    DISTINCT,
    EQUIVALENT,
    FLAGGED,
    LINKED,
    MERGED,
    QUEUED,
    STORED_AS_NEW,
    SUBSET,
    SUPERSEDED,
    SUPERSEDING,
    UNKNOWN,
)
from tests.flows.chat_endpoint import chatting, reply
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import Nights, Row, given_verdicts, text, word_endpoint
from tests.judged import given as rows_of
from tests.nights import settings_of


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def nights(tmp_path: Path, endpoint: WordEndpoint) -> Iterator[Nights]:
    with given_verdicts() as verdicts:
        yield Nights(tmp_path, endpoint, verdicts)


def opened(
    nights: Nights, *inputs: dict[str, Any], tell: Callable[[str], None] = lambda _: None, **over: Any
) -> Checker:
    return Checker(settings_of(nights.warehouse, *inputs, **nights.sections(**over)), tell=tell)


def checked(nights: Nights, *rows: Row, **over: Any) -> pl.DataFrame:
    given = rows_of(nights.folder / "new.parquet", *rows)
    with opened(nights, given, **over) as checker:
        return check_inputs(checker.settings, checker=checker)[0]


def row(name: str, scope: str = "acme", **over: Any) -> pl.DataFrame:
    """A row as the door lets it in."""
    said = {"scope": scope, "kind": "text", "source": "s", "source_row_id": name, "locator": name, "text": text(name)}
    return ROWS.shaped(pl.DataFrame([said | {"metadata": "{}"} | over]))


def delete(nights: Nights, name: str) -> None:
    """As a reviewer's answer does it: a run of its own in which the chunk is out."""
    warehouse, chunk_id = Warehouse(str(nights.warehouse)), nights.id_of(name)
    warehouse.begin()
    warehouse.head("chunks").update({"deleted_at": "first_seen_at"}, where=f"chunk_id = '{chunk_id}'")
    run = warehouse.published()
    assert run is not None
    warehouse.commit(replace(run, run_id=f"{run.run_id}x", table_versions=warehouse.versions(*run.vector_tables)))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


RELATIONS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "same": (EQUIVALENT, {}, MERGED, "merged"),
    "unsure": (EQUIVALENT, {"confidence": 0.8}, QUEUED, "none"),
    "open": (UNKNOWN, {"confidence": 0.3}, QUEUED, "none"),
    "no": (CONTRADICTORY, {}, FLAGGED, "none"),
    "link": (COMPLEMENTARY, {}, LINKED, "none"),
    "newer": (SUPERSEDING, {"larger": "newer"}, SUPERSEDED, "none"),
    "older": (SUPERSEDING, {"larger": "a"}, STORED_AS_NEW, "none"),
    "part": (SUBSET, {"larger": "a"}, LINKED, "none"),
    "other": (DISTINCT, {}, STORED_AS_NEW, "none"),
}


@pytest.mark.parametrize("name", RELATIONS)
def test_every_relation_is_told_with_its_action_and_what_is_there(nights: Nights, name: str) -> None:
    relation, over, action, kind = RELATIONS[name]
    nights.run(("acme", "a", 1))
    nights.verdicts.say("a", name, relation, **over)
    (found,) = checked(nights, ("acme", name, 2)).rows(named=True)
    assert (found["relation"], found["action"], found["duplicate_kind"]) == (relation, action, kind)
    assert found["is_duplicate"] == (kind == "merged")
    assert (found["existing_chunk_id"], found["existing_canonical_id"]) == (nights.id_of("a"),) * 2
    assert (found["existing_text"], found["evidence"]) == (text("a"), f"a and {name}")
    assert (found["source_row_id"], found["text"]) == (f"acme-{name}", text(name))


def test_a_night_with_the_rows_does_what_was_foretold(nights: Nights) -> None:
    nights.run(("acme", "a", 1))
    for name, (relation, over, _, _) in RELATIONS.items():
        nights.verdicts.say("a", name, relation, **over)
    rows: list[Row] = [("acme", name, day) for day, name in enumerate(RELATIONS, 2)]
    foretold = checked(nights, *rows)
    nights.run(*rows, source="new")
    assert {
        name.removeprefix("acme-"): action for name, action in foretold.select("source_row_id", "action").rows()
    } == {name: action for name, action in nights.actions.items() if name != "a"}
    judged = nights.table("pairs").filter(pl.any_horizontal(pl.col("left_id", "right_id") == nights.id_of("a")))
    assert sorted(judged["similarity"]) == sorted(foretold["similarity"])


def test_the_same_content_is_an_exact_duplicate_and_the_row_itself_is_known(nights: Nights) -> None:
    nights.run(("acme", "a", 1), source="new")
    found = checked(nights, ("acme", "a", 2))
    assert found.select("duplicate_kind", "action", "similarity", "relation", "confidence").rows() == [
        ("exact", MERGED, 1.0, EQUIVALENT, 1.0)
    ]
    assert found["evidence"].item() == "same content hash: this very row is known"
    with opened(nights) as checker:
        assert checker.check(row("a"))["evidence"].item() == "same content hash"
    assert nights.verdicts.asked == []


def test_only_the_scope_of_a_row_is_searched(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1), ("o'brien", "x", 1))
    found = checked(nights, ("acme", "b", 2), ("boreal", "b", 2), ("boreal", "a", 2), ("o'brien", "a", 2))
    assert found.select("scope", "duplicate_kind").rows() == [
        ("acme", "merged"),
        ("boreal", "none"),
        ("boreal", "none"),
        ("o'brien", "none"),
    ]
    assert found["existing_chunk_id"].to_list()[1:3] == [None, None]
    assert found["existing_text"].to_list()[3] == text("x")


def test_a_row_that_is_merged_with_a_variant_alone_is_linked(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.verdicts.say("b", "c")
    nights.run(("acme", "a", 1), ("acme", "b", 2))
    assert checked(nights, ("acme", "c", 3))["action"].item() == LINKED
    nights.verdicts.say("a", "c")
    (found,) = checked(nights, ("acme", "c", 3)).rows(named=True)
    assert (found["action"], found["existing_chunk_id"]) == (MERGED, nights.id_of("a"))


def test_what_is_kept_apart_is_never_a_duplicate_in_other_words(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1))
    forced: dict[str, Any] = {"force": True}
    assert checked(nights, ("acme", "b", 2, forced))["action"].item() == STORED_AS_NEW
    (alone,) = checked(nights, ("acme", "b", 2), scopes={"acme": {"dedup": False}}).rows(named=True)
    assert (alone["action"], alone["existing_chunk_id"]) == (STORED_AS_NEW, None)


def test_nothing_comes_of_a_chunk_that_was_deleted_and_it_is_said(nights: Nights) -> None:
    nights.run(("acme", "a", 1), ("acme", "b", 1))
    delete(nights, "a")
    told = "deleted by a reviewer on 2026-01-01: no search finds it"
    (again,) = checked(nights, ("acme", "a", 2)).rows(named=True)
    assert (again["duplicate_kind"], again["evidence"]) == ("exact", f"same content hash; {told}")
    names = {"same": EQUIVALENT, "newer": SUPERSEDING, "open": UNKNOWN, "no": CONTRADICTORY}
    for name, relation in names.items():
        larger = "newer" if name == "newer" else None
        nights.verdicts.say("a", name, relation, larger=larger, confidence=0.3 if name == "open" else 0.95)
        nights.verdicts.say("b", name, DISTINCT)
    found = checked(nights, *[("acme", name, 2) for name in names])
    assert found.select("action", "is_duplicate").unique().rows() == [(STORED_AS_NEW, False)]
    assert set(found["existing_chunk_id"]) == {nights.id_of("b")}
    nights.verdicts.say("b", "same", EQUIVALENT)
    (live,) = checked(nights, ("acme", "same", 2)).rows(named=True)
    assert (live["action"], live["existing_chunk_id"]) == (MERGED, nights.id_of("b"))


def test_the_only_candidate_of_a_row_being_deleted_is_said(nights: Nights) -> None:
    nights.run(("acme", "a", 1))
    delete(nights, "a")
    nights.verdicts.say("a", "same")
    (found,) = checked(nights, ("acme", "same", 2)).rows(named=True)
    assert (found["action"], found["is_duplicate"], found["existing_chunk_id"]) == (
        STORED_AS_NEW,
        False,
        nights.id_of("a"),
    )
    assert found["evidence"] == "a and same; deleted by a reviewer on 2026-01-01: no search finds it"


def test_bad_rows_are_shown_with_the_rule_that_they_break(nights: Nights) -> None:
    nights.run(("acme", "a", 1))
    pl.DataFrame({"id": ["1", "2", "2"], "workspace_id": ["acme"] * 3, "text": ["  ", "one", "two"]}).write_csv(
        nights.folder / "bad.csv"
    )
    with opened(nights, {"path": str(nights.folder / "bad.csv")}) as checker:
        found, skipped = check_inputs(checker.settings, checker=checker)
    assert skipped == []
    assert found.select("source_row_id", "rejected_by", "action", "is_duplicate").rows() == [
        ("2", None, STORED_AS_NEW, False),
        ("1", "text_is_not_empty", None, None),
        ("2", "source_row_id_is_unique", None, None),
    ]


def test_nothing_is_written_and_a_night_under_way_is_not_waited_for(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1))
    given = rows_of(nights.folder / "new.parquet", ("acme", "b", 2))
    before = tree(nights.warehouse)
    lock = writer_lock(nights.warehouse, doing="a night", wait_seconds=0, tell=print)
    with opened(nights, given) as checker, lock:
        assert check_inputs(checker.settings, checker=checker)[0]["action"].item() == MERGED
    after = tree(nights.warehouse)
    assert {path for path in after if "lock" not in path} == {path for path in before if "lock" not in path}
    assert all(after[path] == content for path, content in before.items() if "lock" not in path)


def test_one_that_stays_open_asks_for_vectors_of_new_rows_only_and_follows_the_nights(
    nights: Nights, endpoint: WordEndpoint
) -> None:
    nights.verdicts.say("a", "c")
    nights.verdicts.say("b", "c")
    nights.run(("acme", "b", 1))
    with opened(nights) as checker:
        assert checker.check(row("c"))["existing_chunk_id"].item() == nights.id_of("b")
        endpoint.forget()
        assert checker.check(row("d"))["existing_chunk_id"].item() == nights.id_of("b")
        assert endpoint.given == {text("d"): 1}
        nights.run(("acme", "d", 2), source="later")
        assert checker.check(row("d"))["duplicate_kind"].item() == "exact"


@pytest.mark.parametrize("others", [[], [("boreal", "new near", 1)]], ids=["all there is", "beside another"])
def test_a_large_scope_is_searched_through_the_index(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], others: list[Row]
) -> None:
    near = {"max_candidates": 3, "threshold": 0.5, "exact_up_to_rows": 20}
    nights.run(*[("acme", f"n{number}", 1) for number in range(60)], *others, neighbours=near)
    exact = checked(nights, ("acme", "new", 2), neighbours=near | {"exact_up_to_rows": 1000})
    monkeypatch.setattr("flows.check._PROBES", 1000)
    by_index = checked(nights, ("acme", "new", 2), neighbours=near)
    assert by_index.equals(exact)
    assert by_index["existing_chunk_id"].item() is not None
    assert capfd.readouterr().err == ""
    assert len(nights.verdicts.asked) >= 6


def test_with_the_judge_off_the_nearest_is_shown_and_the_row_is_new(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1))
    (found,) = checked(nights, ("acme", "b", 2), judge={"enabled": False}).rows(named=True)
    assert (found["relation"], found["action"], found["existing_text"]) == (None, STORED_AS_NEW, text("a"))


def test_a_second_opinion_that_refuses_makes_it_a_question(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1))
    with chatting() as llm:
        llm.rule = lambda _: reply("distinct", reason="another pump")
        section = llm.settings(tmp_path / "llm").model_dump(exclude_none=True)
        (found,) = checked(nights, ("acme", "b", 2), llm=section).rows(named=True)
    assert (found["action"], found["is_duplicate"]) == (QUEUED, False)
    assert found["evidence"].endswith("the second opinion of m is distinct: another pump")


# ---- where only exact duplicates can be found


def test_before_the_first_night_every_row_is_new_and_no_folder_is_made(nights: Nights) -> None:
    with opened(nights) as checker:
        assert checker.check(row("a"))["action"].item() == STORED_AS_NEW
        assert checker.note == f"{nights.warehouse}: no run is published yet, so that every row is new"
    assert not nights.warehouse.exists()


def test_without_vectors_exact_duplicates_are_found_and_it_says_why_no_others(
    nights: Nights, endpoint: WordEndpoint
) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1), embedding={"encoder": "none"})
    with opened(nights) as checker:
        assert checker.check(pl.concat([row("a"), row("b")]))["duplicate_kind"].to_list() == ["exact", "none"]
        assert checker.note is not None
        assert checker.note.endswith(
            "has no vectors; only exact duplicates are looked for (`nightfold retry` makes them)"
        )
    nights.run(("acme", "c", 1), source="more")
    with opened(nights, embedding={"encoder": "none"}) as checker:
        assert checker.check(row("a"))["duplicate_kind"].item() == "exact"
        assert checker.note == '[embedding] encoder = "none"; only exact duplicates are looked for'
    with opened(nights, embedding=endpoint.settings(model="other")) as checker:
        assert checker.check(row("c"))["duplicate_kind"].item() == "exact"
        assert checker.note is not None
        assert checker.note.startswith(
            "[embedding] is other now, and the vectors in use are of another version of words"
        )


def test_a_row_that_gets_no_vector_is_told_of(nights: Nights, endpoint: WordEndpoint) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1))
    told: list[str] = []
    endpoint.bad = {"bad": "400"}
    try:
        with opened(nights, tell=told.append) as checker:
            found = checker.check(pl.concat([row("bad"), row("b")]))
    finally:
        endpoint.bad = {}
    assert found["duplicate_kind"].to_list() == ["none", "merged"]
    assert len(told) == 1
    assert told[0].startswith("1 of 2 rows get no vector (")
    assert told[0].endswith("); of these only exact duplicates are found")


# ---- the table


def shown(rows: pl.DataFrame, *, terminal: bool) -> str:
    said = StringIO()
    show(rows, Console(file=said, width=100, force_terminal=terminal, highlight=False, color_system=None))
    return said.getvalue()


def test_the_table_says_of_each_row_what_it_becomes_and_why(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1))
    found = checked(nights, ("acme", "b", 2))
    rejected = pl.DataFrame({"locator": ["f:3"], "rejected_by": ["text_is_present"]})
    nothing = checked(nights, ("boreal", "z", 2))
    rows = pl.concat([found, nothing, rejected], how="diagonal").select(CHECKED.names())
    for terminal in (True, False):
        said = shown(rows, terminal=terminal)
        for words in ("acme-b", MERGED, "f:3", "rejected", "text_is_present", nights.id_of("a")[:12], STORED_AS_NEW):
            assert words in said
    assert "equivalent 0.99, similarity" in shown(rows, terminal=False)
    assert "nothing like it in its scope" in shown(rows, terminal=False)
    assert summary_lines(rows) == [
        "rows                                  3",
        "merged_into_existing, in other words  1",
        "stored_as_new                         1",
        "rejected                              1",
    ]
    many = pl.concat([found] * 201)
    assert "and 1 more; --out FILE writes all of them" in shown(many, terminal=False)


def test_a_row_cannot_steer_the_terminal_that_it_is_shown_on(nights: Nights) -> None:
    nights.run(("acme", "a", 1))
    found = checked(nights, ("acme", "b", 2)).with_columns(
        source_row_id=pl.lit("\x1b[2J[red]x"), existing_text=pl.lit("one\x07\r\ntwo")
    )
    for terminal in (True, False):
        said = shown(found, terminal=terminal)
        assert "\x1b[2J" not in said
        assert "\x07" not in said
        assert "[red]x" in said
