"""The judge stage through real nights: every action, the groups and tables that come of it, and what a later night,
another order or a second run changes of that: nothing."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import lance
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import flows.judge as stage
from flows.judge import limits_of
from flows.settings import JudgeSettings
from flows.warehouse import Warehouse
from schemas.terms import (
    COMPLEMENTARY,
    CONTRADICTORY,
    EQUIVALENT,
    FLAGGED,
    LINKED,
    MERGED,
    PUBLISHED,
    QUEUED,
    STORED_AS_NEW,
    SUBSET,
    SUPERSEDED,
    SUPERSEDING,
    UNKNOWN,
)
from tests.flows.chat_endpoint import ChatEndpoint, chatting, reply
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import Nights, Row, given_verdicts, sections, word_endpoint
from tests.judged import given as rows_of
from tests.nights import run_night, said_by_night
from transforms.decide import Limits

JUDGED_TABLES = ("chunks", "canonicals", "variants", "pairs", "links", "contradictions", "pending_reviews", "forwards")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def nights(tmp_path: Path, endpoint: WordEndpoint) -> Iterator[Nights]:
    with given_verdicts() as verdicts:
        yield Nights(tmp_path, endpoint, verdicts)


def state(nights: Nights, *, but: tuple[str, ...] = ()) -> dict[str, pl.DataFrame]:
    """Every table that judging writes, but for the run that wrote a row."""
    left_out = ["run_id", "forwarded_at", *but]
    return {name: nights.table(name).drop(left_out, strict=False).sort(pl.first()) for name in JUDGED_TABLES}


def ask(nights: Nights, query: str) -> list[Any]:
    with duckdb.connect(str(nights.warehouse / "mart.duckdb"), read_only=True) as mart:
        return mart.sql(query).fetchall()


def check_mart_agrees(nights: Nights) -> None:
    """The mart, which followed the changes, holds what the tables do."""
    for name in JUDGED_TABLES:
        with duckdb.connect(str(nights.warehouse / "mart.duckdb"), read_only=True) as mart:
            shown = pl.from_arrow(mart.sql(f"from {name}").to_arrow_table())
        assert isinstance(shown, pl.DataFrame)
        table = nights.table(name)
        assert_frame_equal(shown.select(table.columns).cast(table.schema).sort(pl.first()), table.sort(pl.first()))


def test_three_that_say_the_same_become_one_canonical_with_two_variants_and_their_reasons(nights: Nights) -> None:
    nights.verdicts.say("a", "b", evidence="the same but for a comma")
    nights.verdicts.say("a", "c")
    run = nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3), ("acme", "d", 4))
    assert nights.groups == {"a": ("a", "a"), "b": ("a", "a"), "c": ("a", "a"), "d": ("d", "d")}
    assert run.actions == {STORED_AS_NEW: 2, MERGED: 2}
    variant = nights.row_of("variants", "b")
    assert (variant["relation"], variant["reason"], variant["decided_by"]) == (
        EQUIVALENT,
        "the same but for a comma",
        "test",
    )
    assert variant["run_id"] == run.run_id
    group = nights.row_of("canonicals", "a")
    assert (group["variants"], group["occurrences"]) == (2, 3)
    assert (group["first_seen_at"].day, group["last_seen_at"].day) == (1, 3)
    shown = ask(nights, "select text, variants from canonical_chunks order by text")
    assert [(said.split()[-1], variants) for said, variants in shown] == [("a", 2), ("d", 0)]
    beside = ask(nights, "select text, merged_text, reason from merged order by merged_text")
    assert [(one.split()[-1], other.split()[-1]) for one, other, _ in beside] == [("a", "b"), ("a", "c")]
    check_mart_agrees(nights)


def test_a_merge_on_a_later_night_moves_the_figures_of_the_group(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1), ("acme", "x", 1))
    second = nights.run(("acme", "b", 9), source="later")
    assert second.actions == {STORED_AS_NEW: 0, MERGED: 1}
    group = nights.row_of("canonicals", "a")
    assert (group["variants"], group["occurrences"], group["last_seen_at"].day) == (1, 2, 9)
    # Seen once more, the variant counts for its group.
    nights.run(("acme", "b", 12), source="again")
    group = nights.row_of("canonicals", "a")
    assert (group["variants"], group["occurrences"], group["last_seen_at"].day) == (1, 3, 12)
    assert nights.table("canonicals").height == 2
    check_mart_agrees(nights)


def test_every_relation_leaves_its_row_and_its_view(nights: Nights) -> None:
    nights.verdicts.say("a", "link", COMPLEMENTARY)
    nights.verdicts.say("a", "no", CONTRADICTORY, evidence="two valves, three valves")
    nights.verdicts.say("link", "ask", UNKNOWN, confidence=0.4, reading=0.91)
    nights.verdicts.say("a", "new", SUPERSEDING, larger="new")
    nights.verdicts.say("link", "same")
    nights.verdicts.say("no", "part", SUBSET, larger="no")
    rows: list[Row] = [
        ("acme", name, day) for day, name in enumerate(("a", "link", "no", "ask", "new", "same", "part"), 1)
    ]
    run = nights.run(*rows)
    assert nights.actions == {
        "a": STORED_AS_NEW,
        "link": LINKED,
        "no": FLAGGED,
        "ask": QUEUED,
        "new": SUPERSEDED,
        "same": MERGED,
        "part": LINKED,
    }
    assert run.actions == {STORED_AS_NEW: 1, LINKED: 2, FLAGGED: 1, QUEUED: 1, SUPERSEDED: 1, MERGED: 1}
    assert sorted(nights.table("links")["relation"]) == [COMPLEMENTARY, SUBSET]
    assert nights.table("contradictions").select("evidence", "status").rows() == [("two valves, three valves", "open")]
    assert ask(nights, "select evidence from open_contradictions") == [("two valves, three valves",)]
    (question,) = nights.table("pending_reviews").rows(named=True)
    assert question["chunk_id"] == nights.id_of("ask")
    (candidate,) = json.loads(question["candidates"])
    assert (candidate["chunk_id"], candidate["canonical_id"]) == (nights.id_of("link"), nights.id_of("link"))
    assert (candidate["reading"], candidate["relation"], candidate["confidence"]) == (0.91, UNKNOWN, 0.4)
    assert ask(nights, "select reason, best_chunk_id from review_queue") == [(question["reason"], nights.id_of("link"))]
    old = nights.row_of("chunks", "a")
    assert old["superseded_by"] == nights.id_of("new")
    assert (old["valid_from"].day, old["valid_to"].day) == (1, 5)
    assert ask(nights, "select superseded_by from superseded") == [(nights.id_of("new"),)]
    assert nights.id_of("a") not in {each for (each,) in ask(nights, "select chunk_id from canonical_chunks")}
    by_action = nights.table("pairs")["action"].value_counts().rows()
    assert dict(by_action)[STORED_AS_NEW] == 21 - 6
    check_mart_agrees(nights)


def test_the_summary_and_the_line_of_the_stage_say_what_became_of_the_chunks(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    with given_verdicts() as verdicts:
        verdicts.say("a", "b")
        verdicts.say("a", "c", UNKNOWN, confidence=0.1)
        nights = Nights(tmp_path, endpoint, verdicts)
        said = said_by_night(
            nights.warehouse,
            rows_of(tmp_path / "in.parquet", ("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3)),
            **nights.sections(),
        )
        assert "judge               3 -> 1 rows" in said


# ---- settings


def test_every_limit_of_the_settings_reaches_the_decision() -> None:
    given_limits = JudgeSettings(
        merge_similarity=0.1,
        merge_confidence=0.2,
        review_confidence=0.3,
        require_confirmation=False,
        subset="merge",
        flag_contradictions=False,
        queue_unknown=False,
    )
    assert limits_of(given_limits) == Limits(0.1, 0.2, 0.3, False, True, False, False)
    assert limits_of(JudgeSettings()) == Limits(merge_similarity=0.9)


def test_a_judge_that_is_switched_off_judges_nothing_and_catches_up_when_it_is_on(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    off = nights.run(("acme", "a", 1), ("acme", "b", 2), judge={"enabled": False})
    assert "judge" not in off.stage_seconds
    assert nights.table("pairs")["decided_by"].to_list() == [None]
    on = nights.run(("acme", "a", 1), source="again")
    assert on.actions == {STORED_AS_NEW: 0, MERGED: 1}
    assert nights.groups["b"] == ("a", "a")
    assert nights.actions["b"] == MERGED
    assert nights.table("pairs").select("decided_by", "action", "run_id").rows() == [("test", MERGED, on.run_id)]
    check_mart_agrees(nights)


@pytest.mark.parametrize(
    ("stands", "standing"), [("first_seen", "a"), ("newest", "c"), ("longest", "bbbbbbbb"), ("source_priority", "a")]
)
def test_who_stands_for_a_group_is_a_setting_and_its_id_stays(nights: Nights, stands: str, standing: str) -> None:
    for one, other in (("a", "bbbbbbbb"), ("a", "c"), ("bbbbbbbb", "c")):
        nights.verdicts.say(one, other)
    judge: dict[str, Any] = {"judge": {"stands": stands}}
    priority: dict[str, Any] = {"source_priority": 7}
    nights.run(("acme", "a", 1, priority), ("acme", "bbbbbbbb", 2, {"source_priority": 3}), **judge)
    nights.run(("acme", "c", 3, {"source_priority": None}), source="later", **judge)
    assert set(nights.groups.values()) == {("a", standing)}
    merged = {nights.names[each] for each in nights.table("variants")["chunk_id"]}
    assert merged == {"a", "bbbbbbbb", "c"} - {standing}
    for name in merged:
        assert nights.row_of("variants", name)["reason"] in {
            f"{one} and {other}" for one, other in _both_ways(name, standing)
        }
    check_mart_agrees(nights)


def _both_ways(one: str, other: str) -> list[tuple[str, str]]:
    return [(one, other), (other, one)]


def test_a_part_is_merged_into_the_whole_whichever_came_first(nights: Nights) -> None:
    nights.verdicts.say("part", "whole", SUBSET, larger="whole")
    nights.verdicts.say("later", "whole", SUBSET, larger="whole")
    judge: dict[str, Any] = {"judge": {"subset": "merge"}}
    nights.run(("acme", "part", 1), **judge)
    nights.run(("acme", "whole", 2), ("acme", "later", 3), source="second", **judge)
    assert nights.groups == {"part": ("part", "whole"), "whole": ("part", "whole"), "later": ("part", "whole")}
    assert set(nights.table("variants")["relation"]) == {SUBSET}
    check_mart_agrees(nights)


# ---- stars, walls, and what is kept apart


def test_a_chain_is_linked_where_it_is_not_merged(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.verdicts.say("b", "c")
    nights.verdicts.say("c", "d")
    nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3), ("acme", "d", 4))
    assert {name: group for name, (group, _) in nights.groups.items()} == {"a": "a", "b": "a", "c": "c", "d": "c"}
    assert nights.actions == {"a": STORED_AS_NEW, "b": MERGED, "c": LINKED, "d": MERGED}
    assert nights.table("links")["relation"].to_list() == [EQUIVALENT]


def test_a_chunk_that_contradicts_a_variant_is_not_merged_beside_it(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.verdicts.say("a", "c")
    nights.verdicts.say("b", "c", CONTRADICTORY)
    nights.run(("acme", "a", 1), ("acme", "b", 2))
    nights.run(("acme", "c", 3), source="later")
    assert {name: group for name, (group, _) in nights.groups.items()} == {"a": "a", "b": "a", "c": "c"}
    assert nights.actions["c"] == FLAGGED
    assert nights.table("links")["relation"].to_list() == [EQUIVALENT]


def test_the_same_texts_in_two_scopes_are_judged_and_merged_apart(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    rows: list[Row] = [(scope, name, day) for scope in ("acme", "boreal") for day, name in enumerate("ab", 1)]
    nights.run(*rows)
    assert {name: group for name, (group, _) in nights.groups.items()} == {
        "a": "a",
        "b": "a",
        "boreal/a": "boreal/a",
        "boreal/b": "boreal/a",
    }
    for table in ("variants", "pairs"):
        assert sorted(nights.table(table)["scope"]) == ["acme", "boreal"]


def test_a_row_that_says_force_is_never_merged_and_the_judgement_stays_on_record(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.run(("acme", "a", 1, {"force": False}), ("acme", "b", 2, {"force": True}))
    assert nights.groups == {"a": ("a", "a"), "b": ("b", "b")}
    assert nights.table("pairs").select("relation", "action").rows() == [(EQUIVALENT, STORED_AS_NEW)]
    assert nights.table("pending_reviews").is_empty()


def test_rows_of_a_scope_that_is_not_checked_are_never_judged(nights: Nights) -> None:
    nights.run(("acme", "a", 1), ("acme", "b", 2), scopes={"acme": {"dedup": False}})
    assert nights.verdicts.asked == []


# ---- time


def test_a_second_run_of_the_same_night_changes_nothing_and_judges_nothing(nights: Nights) -> None:
    nights.verdicts.say("a", "b")
    nights.verdicts.say("a", "c", UNKNOWN, confidence=0.1)
    nights.verdicts.say("a", "d", CONTRADICTORY)
    nights.verdicts.say("a", "e", SUPERSEDING, larger="e")
    rows: list[Row] = [("acme", name, day) for day, name in enumerate("abcde", 1)]
    nights.run(*rows, source="in")
    before, asked = state(nights), len(nights.verdicts.asked)
    again = nights.run(*rows, source="in")
    assert again.actions == {STORED_AS_NEW: 0}
    assert len(nights.verdicts.asked) == asked
    for name, rows_before in before.items():
        assert_frame_equal(state(nights)[name], rows_before)
    check_mart_agrees(nights)


NAMES = ["a", "b", "c", "d", "e", "f", "g"]
RELATIONS = [EQUIVALENT, EQUIVALENT, SUBSET, SUPERSEDING, CONTRADICTORY, COMPLEMENTARY, UNKNOWN]


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_pieces_in_the_order_of_time_and_any_order_of_rows_end_as_one_night(
    endpoint: WordEndpoint, data: st.DataObject
) -> None:
    seed = data.draw(st.integers(0, 2**32), label="seed")
    dice = random.Random(seed)
    judge: dict[str, Any] = {"judge": {"stands": dice.choice(["first_seen", "newest", "longest"]), "subset": "merge"}}
    rows: list[Row] = [(scope, name, day) for scope in ("acme", "boreal") for day, name in enumerate(NAMES, 1)]
    with TemporaryDirectory() as folder, given_verdicts() as verdicts:
        for at, one in enumerate(NAMES):
            for other in NAMES[at + 1 :]:
                if dice.random() < 0.5:
                    relation = dice.choice(RELATIONS)
                    # What holds since later replaces what holds since earlier.
                    larger = other if relation == SUPERSEDING else dice.choice([one, other])
                    verdicts.say(one, other, relation, larger=larger, confidence=dice.choice([0.3, 0.8, 0.95]))
        once = Nights(Path(folder) / "once", endpoint, verdicts)
        pieces = Nights(Path(folder) / "pieces", endpoint, verdicts)
        once.run(*rows, source="in", **judge)
        cuts = sorted(dice.choices(range(9), k=2))
        for number, (low, high) in enumerate(zip([0, *cuts], [*cuts, 9], strict=True)):
            piece = [row for row in rows if low <= row[2] < high]
            if piece:
                pieces.run(*dice.sample(piece, len(piece)), source=f"in{number}", **judge)
        moments = ("queued_at", "source", "reviewed_at", "reviewed_by", "decision", "notes")
        wanted, got = state(once, but=moments), state(pieces, but=moments)
        # A question of an early night that a later one settled or closed is on record as such.
        for nights, tables in ((once, wanted), (pieces, got)):
            still_open = nights.table("pending_reviews").filter(pl.col("reviewed_at").is_null())
            tables["pending_reviews"] = tables["pending_reviews"].join(still_open, on="review_id", how="semi")
        for name in JUDGED_TABLES:
            assert_frame_equal(got[name], wanted[name])


def test_a_question_gains_the_candidates_of_later_nights_and_ends_when_its_chunk_is_merged(
    nights: Nights, endpoint: WordEndpoint
) -> None:
    nights.verdicts.say("a", "b", UNKNOWN, confidence=0.2)
    nights.verdicts.say("b", "c")
    endpoint.bad = {"c": "400"}
    try:
        nights.run(("acme", "a", 1), ("acme", "c", 1), ("acme", "b", 2))
    finally:
        endpoint.bad = {}
    assert nights.row_of("pending_reviews", "b")["reviewed_at"] is None
    run_night(nights.warehouse, pending="incomplete", **nights.sections())
    assert nights.groups["b"] == ("c", "c")
    question = nights.row_of("pending_reviews", "b")
    assert (question["decision"], question["reviewed_by"]) == (
        MERGED,
        Warehouse(str(nights.warehouse)).runs()[-1].run_id,
    )
    assert ask(nights, "select count(*) from review_queue") == [(0,)]
    check_mart_agrees(nights)


def test_two_groups_that_a_late_vector_joins_become_one_and_the_old_id_leads_there(
    nights: Nights, endpoint: WordEndpoint
) -> None:
    """b and c are groups of their own until a, which came first, has its vector; then c's id leads to a's."""
    for one, other in (("a", "b"), ("a", "c")):
        nights.verdicts.say(one, other)
    endpoint.bad = {"a": "400"}
    try:
        nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3))
    finally:
        endpoint.bad = {}
    assert nights.table("canonicals").height == 3
    retried = run_night(nights.warehouse, pending="incomplete", **nights.sections()).run
    assert {group for group, _ in nights.groups.values()} == {"a"}
    forwards = nights.table("forwards")
    names = nights.names
    led = {(names[one], names[other]) for one, other in forwards.select("canonical_id", "forwards_to").iter_rows()}
    assert led == {("b", "a"), ("c", "a")}
    assert set(forwards["run_id"]) == {retried.run_id}
    assert retried.actions == {STORED_AS_NEW: 0, MERGED: 2}
    check_mart_agrees(nights)


def test_a_pair_on_which_a_merge_stands_is_kept_when_nearer_ones_come(nights: Nights) -> None:
    nights.verdicts.say("a", "b b")
    near_one: dict[str, Any] = {"neighbours": {"max_candidates": 1, "threshold": 0.5}}
    nights.verdicts.say("far", "b")
    nights.run(("acme", "far", 1), ("acme", "x y z b", 2), **near_one)
    (pair,) = nights.table("pairs").rows(named=True)
    assert pair["action"] == MERGED
    nights.run(("acme", "x y z c", 3), ("acme", "farther far2", 3), ("acme", "far far3", 3), source="more", **near_one)
    assert pair["pair_id"] in nights.table("pairs")["pair_id"].to_list()
    assert nights.groups["b"] == ("far", "far")


def test_a_change_of_model_keeps_the_merges_and_judges_the_other_pairs_anew(
    nights: Nights, endpoint: WordEndpoint
) -> None:
    nights.verdicts.say("a", "b")
    nights.verdicts.say("a", "c", CONTRADICTORY)
    nights.verdicts.say("a", "d", COMPLEMENTARY)
    nights.run(*[("acme", name, day) for day, name in enumerate("abcd", 1)])
    nights.verdicts.asked.clear()
    nights.verdicts.say("a", "d", CONTRADICTORY)
    other = {**sections(endpoint), "embedding": endpoint.settings(model="other")}
    run_night(nights.warehouse, pending="all", **other)
    assert nights.groups["b"] == ("a", "a")
    assert {frozenset(both) for both in nights.verdicts.asked} & {frozenset("ab")} == set()
    assert nights.table("links").is_empty()
    assert nights.table("contradictions").height == 2
    assert nights.table("pairs").height == 6
    check_mart_agrees(nights)


def test_a_contradiction_that_a_person_resolved_is_not_opened_again(nights: Nights, endpoint: WordEndpoint) -> None:
    nights.verdicts.say("a", "b", CONTRADICTORY)
    nights.verdicts.say("a", "c", CONTRADICTORY)
    nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3))
    warehouse = Warehouse(str(nights.warehouse))
    run = warehouse.published()
    assert run is not None
    table = lance.dataset(f"{warehouse.location}/contradictions.lance")
    table.update({"status": "'resolved'"}, where=f"left_id = '{nights.id_of('b')}' or right_id = '{nights.id_of('b')}'")
    versions = {**run.table_versions, "contradictions": warehouse.head("contradictions").version}
    warehouse.commit(replace(run, run_id="99990101T000000.000000Z", table_versions=versions))
    other = {**nights.sections(), "embedding": endpoint.settings(model="other")}
    run_night(nights.warehouse, pending="all", **other)
    assert sorted(nights.table("contradictions")["status"]) == ["open", "resolved"]


def test_verdicts_of_slices_that_are_done_are_not_asked_for_again(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "SLICE_PAIRS", 2)
    nights.verdicts.say("a", "b")
    judge, calls = nights.verdicts.judge, []

    def fails_third(pairs: pl.DataFrame, *args: Any, **kwargs: Any) -> pl.DataFrame:
        calls.append(pairs.height)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return judge(pairs, *args, **kwargs)

    rows: list[Row] = [("acme", name, day) for day, name in enumerate("abcd", 1)]
    monkeypatch.setattr("flows.verdicts.judge_pairs", fails_third)
    given_once = rows_of(nights.folder / "in.parquet", *rows)
    with pytest.raises(KeyboardInterrupt):
        run_night(nights.warehouse, given_once, **nights.sections())
    assert len(nights.verdicts.asked) == 4
    run_night(nights.warehouse, given_once, **nights.sections())
    assert (calls, len(nights.verdicts.asked)) == ([2, 2, 2, 2], 6)
    assert nights.groups["b"] == ("a", "a")


# ---- the second opinion


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatEndpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with chatting() as llm:
        yield llm


def asking(llm: ChatEndpoint, folder: Path) -> dict[str, Any]:
    return {"llm": llm.settings(folder / "llm").model_dump(exclude_none=True)}


def evidence_asked_about(nights: Nights, name: str) -> str:
    """What the question about a chunk says of the best candidate."""
    question = nights.row_of("pending_reviews", name)
    assert question["reason"].endswith(", and no second opinion confirms it")
    return str(json.loads(question["candidates"])[0]["evidence"])


def test_a_merge_that_the_second_opinion_refuses_is_queued_with_its_reason(nights: Nights, llm: ChatEndpoint) -> None:
    nights.verdicts.say("a", "b", evidence="the same but for a comma")
    nights.verdicts.say("a", "c", UNKNOWN, confidence=0.1)
    llm.rule = lambda _: reply("complementary", reason="two valves and a hose")
    run = nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3), **asking(llm, nights.folder))
    assert run.actions == {STORED_AS_NEW: 1, QUEUED: 2}
    assert nights.groups["b"] == ("b", "b")
    assert evidence_asked_about(nights, "b") == (
        "the same but for a comma; the second opinion of m is complementary: two valves and a hose"
    )
    assert len(llm.asked) == 1


def test_a_merge_that_the_second_opinion_shares_is_made(nights: Nights, llm: ChatEndpoint) -> None:
    nights.verdicts.say("a", "b")
    llm.rule = lambda _: reply("equivalent")
    nights.run(("acme", "a", 1), ("acme", "b", 2), **asking(llm, nights.folder))
    assert nights.groups["b"] == ("a", "a")


def test_while_the_second_opinion_is_out_of_reach_merges_wait_in_the_queue_and_the_night_is_published(
    nights: Nights, llm: ChatEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "SLICE_PAIRS", 1)
    names = "abcdef"
    for other in names[1:]:
        nights.verdicts.say("a", other)
    llm.rule = lambda _: (500, {}, b"")
    rows: list[Row] = [("acme", name, day) for day, name in enumerate(names, 1)]
    run = nights.run(*rows, **asking(llm, nights.folder))
    assert run.status == PUBLISHED
    assert run.actions == {STORED_AS_NEW: 1, QUEUED: 5}
    assert evidence_asked_about(nights, "b").endswith("the endpoint of [llm] was not reached")
    # Three failures, a probe, and no word more for the slices after that.
    assert len(llm.asked) == 4
