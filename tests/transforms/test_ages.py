"""Which of two chunks is the newer: by date, version and what the text says, and never where these disagree."""

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.terms import LEFT, RIGHT
from transforms.ages import ages_of, newer_of

SCHEMA = {"chunk_id": pl.String, "text": pl.String, "metadata": pl.String}
FLIPPED = {LEFT: RIGHT, RIGHT: LEFT, None: None}


def ages(*rows: tuple[str | None, str | None]) -> pl.DataFrame:
    named = [(f"c{number}", *row) for number, row in enumerate(rows)]
    return ages_of(pl.DataFrame(named, schema=SCHEMA, orient="row")).drop("chunk_id")


def compared(left: tuple[str | None, str | None], right: tuple[str | None, str | None]) -> tuple[Any, ...]:
    return newer_of(ages(left), ages(right)).row(0)


def by_metadata(left: dict[str, Any], right: dict[str, Any]) -> tuple[Any, ...]:
    return compared(("a", json.dumps(left)), ("a", json.dumps(right)))


@pytest.mark.parametrize(
    ("name", "older", "newer", "by"),
    [
        ("effective_at", "2023-01-01", "2024-01-01", "its effective date"),
        ("effective_at", "2024-01-01", "2024-01-01T08:00:00", "its effective date"),
        ("effective_at", "2024-01-01T00:30:00+02:00", "2024-01-01T00:00:00Z", "its effective date"),
        ("effective_at", "2024-01-01 10:00", "2024-01-01T10:00:01.5", "its effective date"),
        ("effective_at", "2023", "2024-01", "its effective date"),
        ("version", "2", "3", "its version"),
        ("version", 2, 3, "its version"),
        ("version", "9", "10", "its version"),
        ("version", "2.9", "2.10", "its version"),
        ("version", "v2.1", "v2.1.1", "its version"),
        ("version", "20240101120000", "20240101120001", "its version"),
    ],
)
def test_the_later_date_and_the_higher_version_are_newer(name: str, older: Any, newer: Any, by: str) -> None:
    assert by_metadata({name: older}, {name: newer}) == (RIGHT, by, False)
    assert by_metadata({name: newer}, {name: older}) == (LEFT, by, False)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("effective_at", "2024-01-01", "2024-01-01T00:00:00"),
        ("effective_at", "2024-01-01T02:00:00+02:00", "2024-01-01T00:00:00+00:00"),
        ("effective_at", "2024-01-01T00:00:00", "2024-01-01 00:00:00.000000+00:00"),
        ("effective_at", "soon", "2024-01-01"),
        ("effective_at", "31/12/2023", "01/01/2024"),
        ("effective_at", "2024-13-45", "2024-01-01"),
        ("effective_at", None, "2024-01-01"),
        ("version", "2", "2.0"),
        ("version", "v2", "2"),
        ("version", "draft", "2"),
        ("version", None, "2"),
        ("source_priority", "high", 1),
        ("source_priority", 1, 1.0),
    ],
)
def test_the_same_age_in_other_words_and_what_is_none_make_nothing_newer(name: str, one: Any, other: Any) -> None:
    assert by_metadata({name: one}, {name: other}) == (None, None, False)
    assert by_metadata({name: other}, {name: one}) == (None, None, False)


@pytest.mark.parametrize(
    ("older", "newer", "by"),
    [
        ("Handbook version 2.1", "Handbook version 2.2", "the version in its text"),
        ("Manual, versión 9", "Manual, versión 10", "the version in its text"),
        ("Manual, versão 1.9", "Manual, versão 1.10", "the version in its text"),
        ("Segunda revisión: revisión 2", "Segunda revisión: revisión 3", "the version in its text"),
        ("3 edição 3", "3 edição 4", "the version in its text"),
        ("Rev. 3 of it", "REV 4 of it", "the version in its text"),
        ("Effective from 1 January 2023.", "Effective from 1 January 2024.", "the date in its text"),
        ("Vigente desde 2023", "Vigente desde 2024", "the date in its text"),
        ("Em vigor desde 2023", "Em vigor desde 2024", "the date in its text"),
        ("Válida a partir de 2023", "Válido a partir de 2024", "the date in its text"),
    ],
)
def test_a_text_that_says_its_version_or_date_is_believed(older: str, newer: str, by: str) -> None:
    assert compared((older, None), (newer, None)) == (RIGHT, by, False)
    assert compared((newer, None), (older, None)) == (LEFT, by, False)


def test_a_year_that_is_no_date_of_validity_is_none() -> None:
    assert compared(("In 2023 it rained", None), ("In 2024 it rained", None)) == (None, None, False)


def test_all_that_agree_are_named() -> None:
    older, newer = {"version": "1", "effective_at": "2020-01-01"}, {"version": "2", "effective_at": "2021-01-01"}
    assert by_metadata(older, newer)[:2] == (RIGHT, "its effective date and its version")


def test_where_two_disagree_nothing_is_newer_not_even_by_priority() -> None:
    one = {"version": "1", "effective_at": "2021-01-01", "source_priority": 1}
    other = {"version": "2", "effective_at": "2020-01-01", "source_priority": 9}
    assert by_metadata(one, other) == (None, None, False)


def test_a_priority_speaks_only_where_nothing_else_does() -> None:
    low, high = {"source_priority": 1}, {"source_priority": 10}
    assert by_metadata(low, high) == (RIGHT, None, True)
    assert by_metadata(high, low) == (LEFT, None, True)
    assert by_metadata(high | {"version": "1"}, low | {"version": "2"}) == (RIGHT, "its version", False)


METADATA = st.fixed_dictionaries(
    {},
    optional={
        "effective_at": st.sampled_from(["2023-01-01", "2024-01-01T00:00:00Z", "x", 5, None, []]),
        "version": st.sampled_from(["1", "1.0", "1.10", 2, True, {}]),
        "source_priority": st.sampled_from([1, 2.5, "3", "x", None]),
    },
).map(json.dumps)
ROWS = st.tuples(
    st.sampled_from(["version 1", "version 2", "valid 2023", "", None, "🙂"]),
    METADATA | st.sampled_from([None, "", "{", "[]", "null"]),
)


@settings(deadline=None)
@given(st.lists(st.tuples(ROWS, ROWS), max_size=5))
def test_left_and_right_swapped_turn_the_newer_round(pairs: list[tuple[Any, Any]]) -> None:
    left, right = ages(*[pair[0] for pair in pairs]), ages(*[pair[1] for pair in pairs])
    there, back = newer_of(left, right), newer_of(right, left)
    assert [FLIPPED[side] for side in there["newer"]] == back["newer"].to_list()
    assert there["newer_by"].to_list() == back["newer_by"].to_list()
    assert there["is_by_priority"].to_list() == back["is_by_priority"].to_list()
    assert [compared(*pair) for pair in pairs] == there.rows()


def test_no_chunks_have_the_shape_of_many() -> None:
    some = ages(("version 1", '{"version": 2}'))
    assert ages().schema == some.schema
    assert newer_of(ages(), ages()).schema == newer_of(some, some).schema
