"""A night that would take too much is stopped before anyone sees it, and let through only by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import polars as pl
import pytest

from flows.run_rows import NothingPublished
from flows.warehouse import Warehouse
from schemas.terms import FAILED, MERGED, STORED_AS_NEW
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import Nights, Row, given_verdicts, word_endpoint
from tests.nights import run_night


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def nights(tmp_path: Path, endpoint: WordEndpoint) -> Iterator[Nights]:
    with given_verdicts() as verdicts:
        yield Nights(tmp_path, endpoint, verdicts)


def rows_of(name: str, count: int, *, day: int = 1) -> list[Row]:
    return [("acme", f"{name}{number}", day) for number in range(count)]


def merge_each(nights: Nights, one: str, other: str, count: int) -> None:
    for number in range(count):
        nights.verdicts.say(f"{one}{number}", f"{other}{number}")


def last_run(nights: Nights) -> Any:
    return Warehouse(str(nights.warehouse)).runs()[-1]


def test_a_source_that_would_lose_nine_tenths_of_its_rows_is_stopped_and_let_through_by_name(nights: Nights) -> None:
    nights.run(*rows_of("a", 49), source="manual")
    before = nights.table("chunks")
    merge_each(nights, "a", "b", 45)
    with pytest.raises(NothingPublished) as refused:
        nights.run(*rows_of("b", 50, day=2), source="faq")
    assert str(refused.value).startswith(
        "[guard] max_removed_share = 0.5: tonight's merges would take 45 of the 50 chunks of source 'faq' (90%); "
        "nothing was published."
    )
    assert "`nightfold run --allow max_removed_share`" in str(refused.value)
    failed = last_run(nights)
    assert (failed.status, failed.note) == (FAILED, str(refused.value))
    assert nights.table("chunks").equals(before)
    assert nights.table("variants").is_empty()
    allowed = nights.run(*rows_of("b", 50, day=2), source="faq", guard={"allow": ["max_removed_share"]})
    assert allowed.actions == {STORED_AS_NEW: 5, MERGED: 45}
    assert allowed.settings["guard"]["allow"] == ["max_removed_share"]
    # What was let through once does not stop the nights after it.
    nights.run(*rows_of("c", 3, day=3), source="more")


def test_a_group_that_would_grow_too_large_is_stopped(nights: Nights) -> None:
    for number in range(4):
        nights.verdicts.say("hub", f"a{number}")
    nights.run(("acme", "hub", 1))
    limits = {"max_group_chunks": 3, "max_removed_share": 1}
    with pytest.raises(NothingPublished, match=r"max_group_chunks = 3: group .* of scope 'acme' would have 5 chunks"):
        nights.run(*rows_of("a", 4, day=2), guard=limits)
    nights.run(*rows_of("a", 4, day=2), guard={**limits, "allow": ["max_group_chunks"]})
    assert nights.table("canonicals")["variants"].to_list() == [4]
    nights.run(*rows_of("b", 2, day=3), guard=limits)


def test_a_night_that_merges_far_more_than_the_nights_before_is_stopped(nights: Nights) -> None:
    limits = {"from_chunks": 5, "max_merge_jump": 2, "max_removed_share": 1}
    for night in range(3):
        nights.run(*rows_of(f"n{night}-", 5, day=night + 1), guard=limits)
    merge_each(nights, "n0-", "x", 4)
    with pytest.raises(
        NothingPublished, match=r"max_merge_jump = 2: tonight 4 of 5 new chunks would be merged \(80.0%\)"
    ):
        nights.run(*rows_of("x", 5, day=5), guard=limits)
    nights.run(*rows_of("x", 5, day=5), guard={**limits, "allow": ["max_merge_jump"]})
    assert nights.table("variants").height == 4


def test_too_many_rejects_can_be_let_through_by_name(tmp_path: Path) -> None:
    pl.DataFrame({"id": ["1", "2", "3"], "text": ["", " ", "kept"]}).write_parquet(tmp_path / "in.parquet")
    given = {"path": str(tmp_path / "in.parquet"), "scope": "acme"}
    with pytest.raises(NothingPublished, match="--allow max_reject_share"):
        run_night(tmp_path / "v", given)
    assert run_night(tmp_path / "v", given, guard={"allow": ["max_reject_share"]}).run.rows_rejected == 2


@pytest.mark.parametrize(
    ("table", "change", "told"),
    [
        (
            "variants",
            {"canonical_id": "'ffffffffffffffffffffffffffffffff'"},
            "variants: 1 of 1 rows do not have the group",
        ),
        ("pairs", {"scope": "'boreal'"}, "pairs: 3 of 3 rows have a left_id that is no chunk of their scope"),
        ("canonicals", {"variants": "variants + 1"}, "canonicals: 2 of 2 rows do not add up to their chunks"),
        ("chunks", {"superseded_by": "'ffffffffffffffffffffffffffffffff'"}, "chunks: 3 of 3 rows have a superseded_by"),
    ],
)
def test_a_table_that_does_not_hold_together_is_not_published(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, table: str, change: dict[str, str], told: str
) -> None:
    nights.verdicts.say("a0", "a1")
    tend = Warehouse.tend

    def damage(warehouse: Warehouse) -> None:
        tend(warehouse)
        lance.dataset(f"{warehouse.location}/{table}.lance").update(change)

    monkeypatch.setattr(Warehouse, "tend", damage)
    with pytest.raises(NothingPublished) as refused:
        nights.run(*rows_of("a", 3))
    assert str(refused.value).startswith(told)
    assert Warehouse(str(nights.warehouse)).published() is None
