"""A chunk taken out of its group stays out, whatever later nights see and judge, and the rest goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.console import Progress
from flows.errors import NightfoldError
from flows.night import rollback
from flows.run_rows import NothingPublished
from flows.tonight import Tonight
from flows.unmerge import NotAVariant, TakenOut, unmerge
from flows.warehouse import Warehouse
from schemas.contract import Contract
from schemas.tables import SEPARATIONS
from schemas.terms import MERGED, PUBLISHED, STORED_AS_NEW
from tests.flows.test_judge import check_mart_agrees
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import Nights, given_verdicts, word_endpoint
from tests.nights import run_night, settings_of


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def nights(tmp_path: Path, endpoint: WordEndpoint) -> Iterator[Nights]:
    with given_verdicts() as verdicts:
        yield Nights(tmp_path, endpoint, verdicts)


def take_out(nights: Nights, chunk: str, **over: Any) -> TakenOut:
    settings = settings_of(nights.warehouse, **nights.sections())
    return unmerge(settings, chunk, **{"by": "ana", "reason": None, "progress": Progress(quiet=True), **over})


def group_of_three(nights: Nights) -> None:
    nights.verdicts.say("a", "b", evidence="the same but for a comma")
    nights.verdicts.say("a", "c")
    nights.verdicts.say("b", "c")
    nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3), source="in")


def test_a_variant_that_is_taken_out_stands_for_itself_and_the_rest_adds_up(nights: Nights) -> None:
    group_of_three(nights)
    done = take_out(nights, nights.id_of("b"), reason="two different pumps")
    assert nights.groups == {"a": ("a", "a"), "b": ("b", "b"), "c": ("a", "a")}
    assert nights.actions["b"] == STORED_AS_NEW
    group, own = nights.row_of("canonicals", "a"), nights.row_of("canonicals", "b")
    assert (group["variants"], group["occurrences"], group["last_seen_at"].day) == (1, 2, 3)
    assert (own["variants"], own["occurrences"], own["first_seen_at"].day) == (0, 1, 2)
    (separation,) = nights.table("separations").rows(named=True)
    assert {separation["left_id"], separation["right_id"]} == {nights.id_of("a"), nights.id_of("b")}
    assert (separation["chunk_id"], separation["canonical_id"]) == (nights.id_of("b"), nights.id_of("a"))
    assert (separation["merged_because"], separation["decided_by"]) == ("the same but for a comma", "ana")
    run = Warehouse(str(nights.warehouse)).published()
    assert run == done.run
    assert (run.status, run.rows_in, run.actions) == (PUBLISHED, 0, {})
    assert run.note == f"ana took {nights.id_of('b')} out of group {nights.id_of('a')}: two different pumps"
    assert run.neighbours["embedding"]["model"] == "words"
    check_mart_agrees(nights)


def test_no_later_night_merges_the_two_again_even_if_it_judges_them_again(
    nights: Nights, endpoint: WordEndpoint
) -> None:
    group_of_three(nights)
    take_out(nights, nights.id_of("b"))
    nights.run(("acme", "a", 5), ("acme", "b", 6), source="in")
    assert nights.groups["b"] == ("b", "b")
    nights.verdicts.asked.clear()
    other = {**nights.sections(), "embedding": endpoint.settings(model="other")}
    run_night(nights.warehouse, pending="all", **other)
    assert frozenset("ab") in {frozenset(both) for both in nights.verdicts.asked}
    assert nights.groups == {"a": ("a", "a"), "b": ("b", "b"), "c": ("a", "a")}
    pair = nights.table("pairs").join(nights.table("separations"), on="pair_id", how="semi")
    assert pair["action"].to_list() == [STORED_AS_NEW]
    assert nights.table("pending_reviews").is_empty()


def test_what_was_taken_out_gathers_a_group_of_its_own(nights: Nights) -> None:
    group_of_three(nights)
    take_out(nights, nights.id_of("b"))
    nights.verdicts.say("b", "d")
    nights.run(("acme", "d", 9), source="later")
    assert nights.groups["d"] == ("b", "b")
    check_mart_agrees(nights)


def test_the_first_chunk_takes_its_id_along_and_the_rest_bears_that_of_its_own_first(nights: Nights) -> None:
    nights.over = {"judge": {"stands": "newest"}}
    group_of_three(nights)
    assert set(nights.groups.values()) == {("a", "c")}
    take_out(nights, nights.id_of("a"))
    assert nights.groups == {"a": ("a", "a"), "b": ("b", "c"), "c": ("b", "c")}
    assert nights.row_of("variants", "b")["canonical_id"] == nights.id_of("b")
    check_mart_agrees(nights)


def test_a_group_that_had_become_part_of_another_has_its_id_back(nights: Nights, endpoint: WordEndpoint) -> None:
    nights.verdicts.say("a", "b")
    nights.verdicts.say("a", "c")
    endpoint.bad = {"a": "400"}
    try:
        nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3))
    finally:
        endpoint.bad = {}
    run_night(nights.warehouse, pending="incomplete", **nights.sections())
    assert nights.table("forwards").height == 2
    take_out(nights, nights.id_of("c"))
    assert nights.groups["c"] == ("c", "c")
    assert nights.table("forwards")["canonical_id"].to_list() == [nights.id_of("b")]
    check_mart_agrees(nights)


def test_ids_that_led_to_a_group_lead_to_what_is_left_of_it(nights: Nights, endpoint: WordEndpoint) -> None:
    """b's group became part of a's; a leaves, under whose id all stood, and c stands for what is left."""
    nights.over = {"judge": {"stands": "newest"}}
    for one, other in (("a", "b"), ("a", "c"), ("b", "c")):
        nights.verdicts.say(one, other)
    endpoint.bad = {"a": "400"}
    try:
        nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3))
    finally:
        endpoint.bad = {}
    run_night(nights.warehouse, pending="incomplete", **nights.sections())
    assert set(nights.groups.values()) == {("a", "c")}
    take_out(nights, nights.id_of("a"))
    assert nights.groups["b"] == ("b", "c")
    assert nights.table("forwards").is_empty()
    check_mart_agrees(nights)


def test_going_back_brings_the_variants_back_too(nights: Nights) -> None:
    group_of_three(nights)
    merged = Warehouse(str(nights.warehouse)).published()
    assert merged is not None
    take_out(nights, nights.id_of("b"))
    settings = settings_of(nights.warehouse, **nights.sections())
    rollback(settings, merged.run_id, progress=Progress(quiet=True))
    assert set(nights.groups.values()) == {("a", "a")}
    assert nights.table("variants").height == 2
    assert nights.table("separations").is_empty()
    check_mart_agrees(nights)


def test_taken_out_twice_it_is_remembered_once(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    group_of_three(nights)
    take_out(nights, nights.id_of("b"), by="ana")
    read = Tonight.read

    def forgets(tonight: Tonight, contract: Contract, columns: list[str], where: str | None = None) -> pl.DataFrame:
        return contract.empty().select(columns) if contract is SEPARATIONS else read(tonight, contract, columns, where)

    with monkeypatch.context() as patch:
        # As if someone had merged the two again on purpose.
        patch.setattr(Tonight, "read", forgets)
        other = {**nights.sections(), "embedding": nights.endpoint.settings(model="other")}
        run_night(nights.warehouse, pending="all", **other)
    assert nights.groups["b"] == ("a", "a")
    take_out(nights, nights.id_of("b"), by="ben")
    assert nights.table("separations")["decided_by"].to_list() == ["ben"]
    check_mart_agrees(nights)


def test_asked_for_again_one_that_was_stopped_before_the_mart_ends(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_of_three(nights)

    def stopped(*_: Any, **__: Any) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("flows.mart.refresh", stopped)
        with pytest.raises(KeyboardInterrupt):
            take_out(nights, nights.id_of("b"))
    with pytest.raises(NotAVariant, match="is in no group"):
        take_out(nights, nights.id_of("b"))
    check_mart_agrees(nights)


def test_enough_of_the_beginning_of_an_id_is_enough(nights: Nights) -> None:
    group_of_three(nights)
    assert take_out(nights, nights.id_of("b")[:12]).chunk_id == nights.id_of("b")


def test_a_chunk_that_cannot_be_taken_out_is_told_why(nights: Nights) -> None:
    with pytest.raises(NotAVariant, match="no run is published; there is nothing to take apart"):
        take_out(nights, "abc")
    group_of_three(nights)
    nights.run(*[("acme", f"n{number}", 4) for number in range(20)], source="more")
    for unknown in ("0" * 32, "no such thing", "a' or 'a' = 'a", ""):
        with pytest.raises(NotAVariant, match=r"no such chunk; `nightfold sql \"from merged\"` shows"):
            take_out(nights, unknown)
    first = {chunk_id[0] for chunk_id in nights.names}
    several = next(each for each in first if sum(chunk_id[0] == each for chunk_id in nights.names) > 1)
    with pytest.raises(NotAVariant, match=rf"^{several}: \d+ chunks begin so, give more of the id"):
        take_out(nights, several)
    with pytest.raises(NotAVariant, match="it stands for a group of 3; take the others out of it"):
        take_out(nights, nights.id_of("a"))
    with pytest.raises(NotAVariant, match="it is in no group; there is nothing to take it out of"):
        take_out(nights, nights.id_of("n1"))


def test_a_run_that_does_not_add_up_takes_nothing_out(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    group_of_three(nights)
    before = nights.table("variants")

    def fails(warehouse: Warehouse) -> pl.DataFrame:
        raise NightfoldError("the disk is full")

    monkeypatch.setattr("flows.unmerge.check_written", fails)
    with pytest.raises(NothingPublished, match="the disk is full"):
        take_out(nights, nights.id_of("b"))
    assert nights.table("variants").equals(before)
    assert Warehouse(str(nights.warehouse)).rows()["variants"] == 2
    assert nights.actions["b"] == MERGED
