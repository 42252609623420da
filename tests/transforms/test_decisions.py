"""What decisions of people change: each kind, what is refused, and the law that undoing all of them restores all."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.terms import (
    BOTH_STAND,
    COMPLEMENTARY,
    DECISIONS,
    DELETE,
    EQUIVALENT,
    FLAG_CONTRADICTION,
    FLAGGED,
    KEEP_SEPARATE,
    LEFT_STANDS,
    LINK,
    LINKED,
    MERGE,
    MERGED,
    OPEN,
    QUEUED,
    RESOLVED,
    RIGHT_STANDS,
    STORED_AS_NEW,
    UNDO,
    UNKNOWN,
)
from transforms.candidates import with_pair_id
from transforms.decisions import APPLIED, UNDONE_BEFORE, Entry, apply_entries, came_to_nothing, why_not_merge
from transforms.guards import check_forwards, check_groups
from transforms.review import review_id as review_id_of
from transforms.review_desk import TABLES, Desk, Row, pair_id, review_id

START = datetime(2026, 1, 1, tzinfo=UTC)
RUN = "20260201T020000.000000Z"
RECORD = ("review_decisions",)


def id_of(name: str) -> str:
    return f"{ord(name):032x}"


def chunk(name: str, group: str, action: str = STORED_AS_NEW, scope: str = "acme") -> Row:
    return {
        "chunk_id": id_of(name),
        "scope": scope,
        "canonical_id": id_of(group),
        "action": action,
        "occurrences": ord(name) % 3 + 1,
        "first_seen_at": START + timedelta(days=ord(name)),
        "last_seen_at": START + timedelta(days=ord(name) + 1),
        "superseded_by": None,
        "valid_from": None,
        "valid_to": None,
        "deleted_at": None,
    }


def pair(one: str, other: str, action: str = QUEUED) -> Row:
    left, right = sorted([id_of(one), id_of(other)])
    judged = {"similarity": 0.95, "relation": UNKNOWN, "confidence": 0.5, "evidence": f"{one} and {other}"}
    return {"pair_id": pair_id(left, right), "left_id": left, "right_id": right, "scope": "acme", **judged} | {
        "action": action
    }


def question(name: str, *candidates: str) -> Row:
    told = [{"chunk_id": id_of(each), "canonical_id": id_of(each), "similarity": 0.95} for each in candidates]
    return {
        "review_id": review_id(id_of(name)),
        "scope": "acme",
        "chunk_id": id_of(name),
        "candidates": json.dumps(told),
        "reason": "may or may not say the same",
        "queued_at": START,
        "reviewed_at": None,
        "reviewed_by": None,
        "decision": None,
        "notes": None,
    }


def desk_of(groups: dict[str, str], questions: dict[str, str], **more: list[Row]) -> Desk:
    """Groups by the name of their first chunk, which stands for them: its other members; questions: the candidates."""
    chunks, canonicals, variants = [], [], []
    for first, others in groups.items():
        members = [chunk(name, first, QUEUED if name in questions else STORED_AS_NEW) for name in first + others]
        chunks += members
        canonicals.append(
            {
                "canonical_id": id_of(first),
                "scope": "acme",
                "chunk_id": id_of(first),
                "variants": len(others),
                "occurrences": sum(each["occurrences"] for each in members),
                "first_seen_at": min(each["first_seen_at"] for each in members),
                "last_seen_at": max(each["last_seen_at"] for each in members),
            }
        )
        for name in others:
            row: Row = {"chunk_id": id_of(name), "scope": "acme", "canonical_id": id_of(first), "relation": EQUIVALENT}
            row |= {"similarity": 0.97, "confidence": 0.99, "decided_by": "model", "reason": "same", "run_id": "r"}
            variants.append(row)
    asked = [question(name, *candidates) for name, candidates in questions.items()]
    pairs = {row["pair_id"]: row for name, others in questions.items() for row in (pair(name, o) for o in others)}
    return Desk(
        {
            "chunks": chunks,
            "canonicals": canonicals,
            "variants": variants,
            "pending_reviews": asked,
            "pairs": list(pairs.values()),
            **more,
        }
    )


def entry(number: int, desk: Desk, name: str, decision: str, target: str | None = None, **over: Any) -> Entry:
    asked = desk.table("pending_reviews")[review_id(id_of(name))]
    told = {"candidates": asked["candidates"], "reason": asked["reason"]}
    if decision in (LINK, FLAG_CONTRADICTION):
        told["chosen"] = json.loads(asked["candidates"])[0]["chunk_id"]
    values: dict[str, Any] = {
        "decision_id": f"{number:032x}",
        "seq": number,
        "review_id": asked["review_id"],
        "scope": "acme",
        "chunk_id": id_of(name),
        "decision": decision,
        "target_canonical_id": None if target is None else id_of(target),
        "reviewer": "ana",
        "notes": None,
        "decided_at": START + timedelta(days=200, minutes=number),
        "batch_id": None,
        "undoes": None,
        "asked_at": START,
        "question": told,
    }
    return Entry(**{**values, **over})


def resolution(number: int, one: str, other: str, decision: str) -> Entry:
    left, right = sorted([id_of(one), id_of(other)])
    return Entry(
        f"{number:032x}", number, pair_id(left, right), "acme", left, decision, None, "ana", None,
        START + timedelta(days=200, minutes=number), None, None, START, {"left_id": left, "right_id": right},
    )  # fmt: skip


def undo_of(number: int, done: Entry) -> Entry:
    return Entry(
        f"{number:032x}", number, done.review_id, "acme", done.chunk_id, UNDO, None, "ben", None,
        START + timedelta(days=300), None, done.decision_id, START, done.question,
    )  # fmt: skip


def apply(desk: Desk, *entries: Entry, run: int = 0) -> list[Entry]:
    return apply_entries(desk, entries, run_id=f"{RUN}{run:06}", at=START + timedelta(days=250))


def outcome(desk: Desk, one: Entry) -> str:
    return str(desk.table("review_decisions")[one.decision_id]["outcome"])


def state(desk: Desk) -> dict[str, dict[str, Row]]:
    return {table: dict(sorted(desk.table(table).items())) for table in TABLES if table not in RECORD}


def check_adds_up(desk: Desk) -> None:
    frames = {}
    for table, columns in {
        "chunks": ["chunk_id", "canonical_id", "scope", "occurrences"],
        "canonicals": ["canonical_id", "chunk_id", "scope", "variants", "occurrences"],
        "variants": ["chunk_id", "canonical_id", "scope"],
        "forwards": ["canonical_id", "forwards_to", "scope"],
    }.items():
        rows = [{name: row[name] for name in columns} for row in desk.table(table).values()]
        counts = ("occurrences", "variants")
        shape = {name: pl.Int64 if name in counts else pl.String for name in columns}
        frames[table] = pl.DataFrame(rows, schema=shape)
    check_groups(frames["chunks"], frames["canonicals"], frames["variants"])
    check_forwards(frames["forwards"], frames["canonicals"])
    for group, row in desk.table("canonicals").items():
        is_deleted = {each: desk.chunk(each)["deleted_at"] is not None for each in desk.members[group]}
        assert not is_deleted[row["chunk_id"]] or all(is_deleted.values())


def test_ids_are_those_of_the_tables() -> None:
    frame = with_pair_id(pl.DataFrame({"left_id": [id_of("a")], "right_id": [id_of("b")]}))
    assert frame["pair_id"][0] == pair_id(id_of("b"), id_of("a"))
    ids = pl.DataFrame({"chunk_id": [id_of("a")]}).select(review_id_of(pl.col("chunk_id"))).to_series()
    assert ids[0] == review_id(id_of("a"))


# ---- each kind


def test_a_merge_takes_the_whole_group_along_and_leaves_a_forward() -> None:
    desk = desk_of({"a": "b", "x": "y"}, {"x": "a"})
    done = entry(1, desk, "x", MERGE, "a", notes="the same pump")
    apply(desk, done)
    assert {row["canonical_id"] for row in desk.table("chunks").values()} == {id_of("a")}
    row = desk.table("variants")[id_of("x")]
    assert (row["decided_by"], row["confidence"]) == ("reviewer ana", 1.0)
    assert row["reason"] == "ana merged it: the same pump"
    assert desk.table("variants")[id_of("y")]["reason"] == "ana merged its group: the same pump; before: same"
    assert desk.table("forwards")[id_of("x")]["forwards_to"] == id_of("a")
    assert desk.table("canonicals")[id_of("a")]["variants"] == 3
    assert desk.chunk(id_of("x"))["action"] == MERGED
    asked = desk.table("pending_reviews")[done.review_id]
    assert (asked["decision"], asked["reviewed_by"], asked["notes"]) == (MERGE, "ana", "the same pump")
    assert outcome(desk, done) == APPLIED
    check_adds_up(desk)


def test_a_merge_into_an_id_that_leads_on_goes_where_it_leads() -> None:
    desk = desk_of({"a": "", "b": "", "x": "", "y": ""}, {"b": "a", "x": "b"})
    apply(desk, entry(1, desk, "b", MERGE, "a"), entry(2, desk, "x", MERGE, "b"))
    assert desk.group_of(id_of("x")) == id_of("a")
    assert desk.table("forwards")[id_of("x")]["forwards_to"] == id_of("a")
    check_adds_up(desk)


@pytest.mark.parametrize(
    ("decision", "table", "action"),
    [
        (KEEP_SEPARATE, None, STORED_AS_NEW),
        (LINK, "links", LINKED),
        (FLAG_CONTRADICTION, "contradictions", FLAGGED),
    ],
)
def test_what_stays_two_is_set_apart_from_every_candidate(decision: str, table: str | None, action: str) -> None:
    desk = desk_of({"a": "", "b": "", "x": ""}, {"x": "ab"})
    apply(desk, entry(1, desk, "x", decision))
    both = {pair_id(id_of("x"), id_of(each)) for each in "ab"}
    assert set(desk.table("separations")) == both
    assert {row["decision"] for row in desk.table("separations").values()} == {decision}
    assert desk.chunk(id_of("x"))["action"] == action
    assert desk.table("pairs")[pair_id(id_of("x"), id_of("a"))]["action"] == action
    assert desk.table("pairs")[pair_id(id_of("x"), id_of("b"))]["action"] == STORED_AS_NEW
    if table is not None:
        (row,) = desk.table(table).values()
        assert row["pair_id"] == pair_id(id_of("x"), id_of("a"))
        if table == "links":
            assert row["relation"] == COMPLEMENTARY
        else:
            assert (row["status"], row["evidence"]) == (OPEN, "ana flagged it; x and a")


def test_another_member_stands_for_the_group_of_a_deleted_chunk_and_alone_it_has_nobody() -> None:
    desk = desk_of({"a": "", "x": "yz", "w": ""}, {"x": "a", "w": "a"})
    apply(desk, entry(1, desk, "x", DELETE), entry(2, desk, "w", DELETE))
    assert desk.stands_for(id_of("x")) == id_of("y")
    assert "deleted by reviewer ana" in desk.table("variants")[id_of("x")]["reason"]
    assert desk.chunk(id_of("x"))["deleted_at"] is not None
    assert desk.stands_for(id_of("w")) == id_of("w")
    assert desk.chunk(id_of("w"))["occurrences"] == chunk("w", "w")["occurrences"]
    check_adds_up(desk)


def test_what_a_deleted_chunk_had_replaced_holds_again() -> None:
    desk = desk_of({"a": "", "b": "", "x": ""}, {"x": "a"})
    desk.change("chunks", id_of("b"), superseded_by=id_of("x"), valid_to=START)
    before = state(desk)
    done = entry(1, desk, "x", DELETE)
    apply(desk, done)
    assert (desk.chunk(id_of("b"))["superseded_by"], desk.chunk(id_of("b"))["valid_to"]) == (None, None)
    apply(desk, undo_of(2, done), run=1)
    assert state(desk) == before


@pytest.mark.parametrize(("decision", "falls"), [(LEFT_STANDS, "b"), (RIGHT_STANDS, "a"), (BOTH_STAND, None)])
def test_a_contradiction_is_resolved_and_what_falls_is_replaced_not_deleted(decision: str, falls: str | None) -> None:
    desk = desk_of({"a": "", "b": ""}, {"b": "a"})
    apply(desk, entry(1, desk, "b", FLAG_CONTRADICTION))
    before = state(desk)
    done = resolution(2, "a", "b", decision)
    apply(desk, done, run=1)
    (row,) = desk.table("contradictions").values()
    assert row["status"] == RESOLVED
    replaced = {name: desk.chunk(id_of(name))["superseded_by"] for name in "ab"}
    assert replaced == {name: None if name != falls else id_of({"a": "b", "b": "a"}[name]) for name in "ab"}
    again = resolution(3, "a", "b", BOTH_STAND)
    apply(desk, again, run=2)
    assert outcome(desk, again) == "not applied: the contradiction was resolved before"
    apply(desk, undo_of(4, done), run=3)
    assert state(desk) == before


# ---- what is refused, what waits


def refused(desk: Desk, done: Entry) -> str:
    before = state(desk)
    apply(desk, done)
    assert came_to_nothing(outcome(desk, done))
    assert state(desk) == before
    return outcome(desk, done)


def test_a_merge_that_cannot_be_is_refused_with_the_reason() -> None:
    desk = desk_of({"a": "b", "x": "y", "z": ""}, {"x": "a"})
    assert "there is no group" in refused(desk, entry(1, desk, "x", MERGE, "q"))
    desk.put("chunks", chunk("t", "t", scope="boreal"))
    desk.put("canonicals", {**desk.table("canonicals")[id_of("z")], "canonical_id": id_of("t"), "scope": "boreal"})
    assert "in its scope" in refused(desk, entry(2, desk, "x", MERGE, "t"))
    ends = {"left_id": id_of("b"), "right_id": id_of("y"), "pair_id": pair_id(id_of("b"), id_of("y"))}
    desk.put("contradictions", {**ends, "scope": "acme", "evidence": "", "status": OPEN, "run_id": "r"})
    assert "contradicts" in refused(desk, entry(3, desk, "x", MERGE, "a"))
    desk.drop("contradictions", ends["pair_id"])
    desk.put("separations", {**ends, "scope": "acme", "decided_by": "eva", "merged_because": "", "decision": None})
    assert "eva set chunk" in refused(desk, entry(4, desk, "x", MERGE, "a"))
    desk.drop("separations", ends["pair_id"])
    desk.change("chunks", id_of("a"), superseded_by=id_of("z"))
    assert "was replaced by" in refused(desk, entry(5, desk, "x", MERGE, "a"))
    desk.change("chunks", id_of("a"), superseded_by=None, deleted_at=START)
    assert "was deleted" in refused(desk, entry(6, desk, "x", MERGE, "a"))
    desk.change("chunks", id_of("a"), deleted_at=None)
    desk.change("chunks", id_of("x"), superseded_by=id_of("z"))
    assert "the chunk in question was replaced" in refused(desk, entry(7, desk, "x", KEEP_SEPARATE))
    desk.change("chunks", id_of("x"), superseded_by=None, deleted_at=START)
    assert "the chunk in question was deleted" in refused(desk, entry(8, desk, "x", LINK))
    desk.change("chunks", id_of("x"), deleted_at=None)
    assert "another scope" in refused(desk, entry(9, desk, "x", LINK, scope="boreal"))
    assert "no longer there" in refused(desk, resolution(10, "a", "x", LEFT_STANDS))
    assert why_not_merge(desk, id_of("y"), id_of("x")) is None


def test_one_that_was_replaced_by_the_other_or_deleted_cannot_stand() -> None:
    desk = desk_of({"a": "", "b": ""}, {"b": "a"})
    apply(desk, entry(1, desk, "b", FLAG_CONTRADICTION))
    desk.change("chunks", id_of("b"), superseded_by=id_of("a"))
    assert "was itself replaced by" in refused(desk, resolution(2, "a", "b", RIGHT_STANDS))
    desk.change("chunks", id_of("b"), superseded_by=None, deleted_at=START)
    assert "cannot stand" in refused(desk, resolution(3, "a", "b", RIGHT_STANDS))


def test_a_decision_on_chunks_that_are_not_there_waits_and_one_undone_before_changes_nothing() -> None:
    desk = desk_of({"a": "", "x": ""}, {"x": "a"})
    away = entry(1, desk, "x", KEEP_SEPARATE, question={"candidates": json.dumps([{"chunk_id": id_of("q")}])})
    assert apply(desk, away) == [away]
    assert not desk.table("review_decisions")
    done, before = entry(2, desk, "x", KEEP_SEPARATE), state(desk)
    assert apply(desk, done, undo_of(3, done)) == []
    assert outcome(desk, done) == UNDONE_BEFORE
    assert state(desk) == before
    lost = undo_of(4, away)
    assert apply(desk, lost) == [lost]


def test_what_was_applied_is_not_applied_again() -> None:
    desk = desk_of({"a": "", "x": ""}, {"x": "a"})
    done = entry(1, desk, "x", MERGE, "a")
    apply(desk, done)
    before = state(desk)
    apply(desk, done, run=1)
    assert state(desk) == before
    assert desk.table("review_decisions")[done.decision_id]["run_id"] == f"{RUN}000000"


# ---- questions whose rows have changed or gone


def test_a_question_whose_candidates_are_gone_is_closed_with_a_note_and_open_again_when_they_are_back() -> None:
    desk = desk_of({"a": "", "x": "", "y": ""}, {"x": "a", "y": "x"})
    done = entry(1, desk, "x", DELETE)
    apply(desk, done)
    asked = desk.table("pending_reviews")[review_id(id_of("y"))]
    assert (asked["decision"], asked["reviewed_by"]) == ("closed", f"{RUN}000000")
    assert asked["notes"].startswith("no candidate is left to compare")
    apply(desk, undo_of(2, done), run=1)
    assert desk.table("pending_reviews")[review_id(id_of("y"))]["reviewed_at"] is None


def test_a_question_that_gained_candidates_since_goes_on_asking_about_those() -> None:
    desk = desk_of({"a": "", "b": "", "x": ""}, {"x": "a"})
    done = entry(1, desk, "x", KEEP_SEPARATE)
    desk.change("pending_reviews", done.review_id, candidates=question("x", "b", "a")["candidates"])
    apply(desk, done)
    asked = desk.table("pending_reviews")[done.review_id]
    assert asked["reviewed_at"] is None
    assert [each["chunk_id"] for each in json.loads(asked["candidates"])] == [id_of("b")]
    assert asked["queued_at"] == START + timedelta(days=250)


def test_a_question_that_is_no_longer_there_is_put_on_record_as_answered() -> None:
    desk = desk_of({"a": "", "x": ""}, {"x": "a"})
    done = entry(1, desk, "x", LINK)
    desk.drop("pending_reviews", done.review_id)
    apply(desk, done)
    assert desk.table("pending_reviews")[done.review_id]["decision"] == LINK
    apply(desk, undo_of(2, done), run=1)
    assert done.review_id not in desk.table("pending_reviews")


def test_what_a_night_put_into_one_group_while_a_person_said_otherwise_comes_apart() -> None:
    desk = desk_of({"a": "xb"}, {"x": "a"})
    apply(desk, entry(1, desk, "x", KEEP_SEPARATE))
    assert desk.group_of(id_of("x")) == id_of("x")
    assert desk.members[id_of("a")] == {id_of("a"), id_of("b")}
    check_adds_up(desk)
    other = desk_of({"a": "xb", "c": ""}, {"x": "ac"})
    apply(other, entry(1, other, "x", MERGE, "c"))
    assert other.members[id_of("c")] == {id_of("c"), id_of("x")}
    check_adds_up(other)


# ---- laws

GROUPS = {"a": "bc", "d": "", "e": "f", "x": "y", "w": "", "v": "", "u": ""}
ASKED = {"x": "ade", "w": "xa", "v": "xw", "u": "vd", "e": "a", "d": "a"}


def draw_entry(dice: random.Random, number: int, desk: Desk) -> Entry:
    if desk.table("contradictions") and dice.random() < 0.2:
        row = dice.choice(list(desk.table("contradictions").values()))
        one, other = (chr(int(row[side], 16)) for side in ("left_id", "right_id"))
        return resolution(number, one, other, dice.choice([LEFT_STANDS, RIGHT_STANDS, BOTH_STAND]))
    name = dice.choice(list(ASKED))
    decision = dice.choice(DECISIONS)
    return entry(number, desk, name, decision, dice.choice(list(GROUPS)) if decision == MERGE else None)


def run_sequence(seed: int, *, latest_first: bool) -> None:
    dice = random.Random(seed)
    desk = desk_of(GROUPS, ASKED)
    before = state(desk)
    standing: list[Entry] = []
    for number in range(1, dice.randint(2, 14)):
        if standing and dice.random() < 0.35:
            chosen = standing.pop(-1 if latest_first else dice.randrange(len(standing)))
            apply(desk, undo_of(number, chosen), run=number)
        else:
            done = draw_entry(dice, number, desk)
            if any(each.review_id == done.review_id for each in standing):
                continue  # somebody answered: theirs stands
            apply(desk, done, run=number)
            if outcome(desk, done) == APPLIED:
                standing.append(done)
        check_adds_up(desk)
    if not latest_first:
        dice.shuffle(standing)
    while standing:
        apply(desk, undo_of(1000 + len(standing), standing.pop()), run=1000 - len(standing))
        check_adds_up(desk)
    after = state(desk)
    for table in before:
        assert after[table] == before[table], table


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_whatever_is_decided_adds_up_and_undoing_all_of_it_restores_all(seed: int) -> None:
    run_sequence(seed, latest_first=True)


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_undone_in_any_order_it_restores_all_too(seed: int) -> None:
    run_sequence(seed, latest_first=False)
