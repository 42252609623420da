"""Groups are stars whatever the graph: against networkx on random graphs, in any order, in one night or in ten."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import networkx as nx
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from schemas.terms import EQUIVALENT, LEFT, RIGHT, SUBSET
from transforms.canonical import Stands, forwards
from transforms.canonical import grouped as grouped_apart

START = datetime(2026, 1, 1, tzinfo=UTC)
CHUNKS = pl.Schema(
    {
        "chunk_id": pl.String(),
        "scope": pl.String(),
        "first_seen_at": pl.Datetime("us", "UTC"),
        "canonical_id": pl.String(),
        "is_standing": pl.Boolean(),
        "length": pl.Int64(),
        "priority": pl.Float64(),
    }
)
EDGES = {
    "left_id": pl.String,
    "right_id": pl.String,
    "relation": pl.String,
    "stands": pl.String,
    "is_new": pl.Boolean,
}
ALL_STANDS = get_args(Stands)
# (left, right, the side that is larger where one is part of the other)
Edge = tuple[int, int, str | None]


def name(number: int) -> str:
    return f"{number:04d}"


def chunks_of(numbers: list[int], **columns: Any) -> pl.DataFrame:
    """Chunks in no group yet, seen a day apart, in the order of their numbers; lengths and priorities repeat."""
    rows = {
        "chunk_id": [name(n) for n in numbers],
        "scope": "acme",
        "first_seen_at": [START + timedelta(days=n) for n in numbers],
        "canonical_id": None,
        "is_standing": False,
        "length": [n * 7 % 5 for n in numbers],
        "priority": [float(n * 3 % 4) or None for n in numbers],
    }
    return pl.DataFrame({**rows, **columns}, schema=CHUNKS)


def edges_of(edges: list[Edge], *, is_new: bool = True) -> pl.DataFrame:
    rows = [(name(a), name(b), SUBSET if side else EQUIVALENT, side, is_new) for a, b, side in edges]
    return pl.DataFrame(rows, schema=EDGES, orient="row")


def apart_of(pairs: Iterable[tuple[int, int]] = ()) -> pl.DataFrame:
    rows = [(name(a), name(b)) for a, b in pairs]
    return pl.DataFrame(rows, schema={"left_id": pl.String, "right_id": pl.String}, orient="row")


def grouped(chunks: pl.DataFrame, edges: pl.DataFrame, *, stands: Stands) -> pl.DataFrame:
    """Where nothing is kept apart."""
    return grouped_apart(chunks, edges, apart_of(), stands=stands)


def arrows_of(edges: list[Edge]) -> "nx.DiGraph[str]":
    """Which chunk may be merged into which."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for left, right, side in edges:
        if side != RIGHT:
            graph.add_edge(name(right), name(left))
        if side != LEFT:
            graph.add_edge(name(left), name(right))
    return graph


@st.composite
def graphs(draw: st.DrawFn, *, subsets: bool = True, most: int = 14) -> tuple[int, list[Edge]]:
    count = draw(st.integers(1, most))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda both: both[0] < both[1])
    sides = st.sampled_from([None, None, LEFT, RIGHT]) if subsets else st.none()
    if count == 1:
        return count, []
    drawn = draw(st.dictionaries(ends, sides, max_size=count * 3))
    return count, [(a, b, side) for (a, b), side in drawn.items()]


@settings(deadline=None)
@given(graphs(subsets=False))
def test_the_hubs_are_the_first_maximal_independent_set(graph: tuple[int, list[Edge]]) -> None:
    count, edges = graph
    groups = grouped(chunks_of(list(range(count))), edges_of(edges), stands="first_seen")
    undirected: nx.Graph[str] = nx.Graph()
    undirected.add_nodes_from(name(n) for n in range(count))
    undirected.add_edges_from((name(a), name(b)) for a, b, _ in edges)
    hubs = set(groups["canonical_id"])
    assert undirected.subgraph(hubs).number_of_edges() == 0
    assert nx.is_dominating_set(undirected, hubs)
    for chunk_id, canonical_id, stands_id in groups.iter_rows():
        assert stands_id == canonical_id
        if chunk_id not in hubs:
            assert canonical_id == min(hubs & set(undirected[chunk_id]))


@settings(deadline=None)
@given(graphs(), st.sampled_from(ALL_STANDS))
def test_every_chunk_has_one_canonical_and_its_own_edge_to_the_one_that_stands(
    graph: tuple[int, list[Edge]], stands: Stands
) -> None:
    count, edges = graph
    chunks, arrows = chunks_of(list(range(count))), arrows_of(edges)
    groups = grouped(chunks, edges_of(edges), stands=stands)
    assert groups["chunk_id"].to_list() == chunks["chunk_id"].to_list()
    assert groups.group_by("canonical_id").agg(pl.col("stands_id").n_unique())["stands_id"].max() == 1
    for chunk_id, canonical_id, stands_id in groups.iter_rows():
        assert chunk_id == stands_id or arrows.has_edge(chunk_id, stands_id)
        assert canonical_id == groups.filter(pl.col("stands_id") == stands_id)["chunk_id"].min()


@settings(deadline=None)
@given(graphs(), st.sampled_from(ALL_STANDS), st.randoms())
def test_the_order_of_chunks_and_edges_changes_nothing(
    graph: tuple[int, list[Edge]], stands: Stands, dice: Any
) -> None:
    count, edges = graph
    numbers = list(range(count))
    once = grouped(chunks_of(numbers), edges_of(edges), stands=stands)
    dice.shuffle(numbers)
    dice.shuffle(edges)
    again = grouped(chunks_of(numbers), edges_of(edges), stands=stands)
    assert_frame_equal(again.sort("chunk_id"), once)


Pair = tuple[int, int]


def over_nights(count: int, edges: list[Edge], apart: list[Pair], cuts: list[int], *, stands: Stands) -> pl.DataFrame:
    """The groups after as many nights as there are cuts, each with the chunks up to its own."""
    before = grouped(chunks_of([]), edges_of([]), stands=stands)
    seen = 0
    for cut in [*cuts, count]:
        chunks = (
            chunks_of(list(range(cut)))
            .drop("canonical_id", "is_standing")
            .join(before, on="chunk_id", how="left", maintain_order="left")
            .with_columns(is_standing=(pl.col("chunk_id") == pl.col("stands_id")).fill_null(value=False))
        )
        known = edges_of([edge for edge in edges if edge[1] < seen], is_new=False)
        new = edges_of([edge for edge in edges if seen <= edge[1] < cut])
        apart_by_now = apart_of((a, b) for a, b in apart if b < cut)
        before, seen = grouped_apart(chunks, pl.concat([known, new]), apart_by_now, stands=stands), cut
    return before


numbers = st.integers(0, 13)
pairs_apart = st.lists(st.tuples(numbers, numbers).filter(lambda both: both[0] < both[1]), max_size=10)


@settings(max_examples=300, deadline=None)
@given(graphs(), pairs_apart, st.sampled_from(ALL_STANDS), st.lists(numbers, max_size=10))
def test_pieces_in_the_order_of_time_end_as_one_night(
    graph: tuple[int, list[Edge]], apart: list[Pair], stands: Stands, cuts: list[int]
) -> None:
    count, edges = graph
    cuts = sorted(min(cut, count) for cut in cuts)
    once = grouped_apart(chunks_of(list(range(count))), edges_of(edges), apart_of(apart), stands=stands)
    assert_frame_equal(over_nights(count, edges, apart, cuts, stands=stands), once)


@settings(deadline=None)
@given(graphs(), pairs_apart, st.sampled_from(ALL_STANDS))
def test_two_that_are_kept_apart_are_never_in_one_group_and_groups_are_stars_all_the_same(
    graph: tuple[int, list[Edge]], apart: list[Pair], stands: Stands
) -> None:
    count, edges = graph
    arrows = arrows_of(edges)
    groups = grouped_apart(chunks_of(list(range(count))), edges_of(edges), apart_of(apart), stands=stands)
    group_of = dict(groups.select("chunk_id", "canonical_id").iter_rows())
    for a, b in apart:
        if b < count:
            assert group_of[name(a)] != group_of[name(b)]
    for chunk_id, _, stands_id in groups.iter_rows():
        assert chunk_id == stands_id or arrows.has_edge(chunk_id, stands_id)


def test_a_chunk_that_contradicts_a_member_stays_out_of_the_group() -> None:
    edges = edges_of([(0, 1, None), (0, 2, None)])
    groups = grouped_apart(chunks_of([0, 1, 2]), edges, apart_of([(1, 2)]), stands="first_seen")
    assert groups["canonical_id"].to_list() == ["0000", "0000", "0002"]


def test_a_whole_does_not_bring_together_parts_that_were_taken_apart() -> None:
    edges = edges_of([(0, 2, RIGHT), (1, 2, RIGHT)])
    groups = grouped_apart(chunks_of([0, 1, 2]), edges, apart_of([(0, 1)]), stands="first_seen")
    assert groups["canonical_id"].to_list() == ["0000", "0001", "0000"]


def test_known_groups_that_hold_what_was_taken_apart_do_not_become_one() -> None:
    edges = edges_of([(0, 2, None), (0, 3, None)])
    groups = grouped_apart(known_groups(), edges, apart_of([(1, 3)]), stands="first_seen")
    assert groups["canonical_id"].to_list() == KNOWN["canonical_id"]


@settings(deadline=None)
@given(graphs(subsets=False), st.data())
def test_no_group_crosses_a_scope_even_if_an_edge_does(graph: tuple[int, list[Edge]], data: st.DataObject) -> None:
    count, edges = graph
    scopes = data.draw(st.lists(st.sampled_from("ab"), min_size=count, max_size=count))
    chunks = chunks_of(list(range(count)), scope=scopes)
    groups = grouped(chunks, edges_of(edges), stands="first_seen").join(chunks, on="chunk_id")
    assert groups.group_by("canonical_id").agg(pl.col("scope").n_unique())["scope"].max() == 1


def test_a_chain_of_a_thousand_does_not_become_one_group() -> None:
    edges: list[Edge] = [(n, n + 1, None) for n in range(999)]
    groups = grouped(chunks_of(list(range(1_000))), edges_of(edges), stands="first_seen")
    assert groups["canonical_id"].n_unique() == 500
    assert groups["canonical_id"].value_counts()["count"].max() == 2


@pytest.mark.parametrize(
    ("stands", "standing"),
    [("first_seen", "0000"), ("newest", "0002"), ("longest", "0001"), ("source_priority", "0001")],
)
def test_each_setting_elects_its_own_of_those_that_all_others_lead_to(stands: Stands, standing: str) -> None:
    clique: list[Edge] = [(0, 1, None), (0, 2, None), (1, 2, None)]
    chunks = chunks_of([0, 1, 2], length=[2, 3, 3], priority=[None, 5.0, -1.0])
    groups = grouped(chunks, edges_of(clique), stands=stands)
    assert set(groups["stands_id"]) == {standing}
    assert set(groups["canonical_id"]) == {"0000"}


def test_the_newest_does_not_stand_where_a_member_has_no_edge_to_it() -> None:
    groups = grouped(chunks_of([0, 1, 2]), edges_of([(0, 1, None), (0, 2, None)]), stands="newest")
    assert groups["stands_id"].to_list() == ["0000"] * 3


def test_a_larger_text_that_comes_later_stands_under_the_id_of_the_smaller() -> None:
    groups = grouped(chunks_of([0, 1]), edges_of([(0, 1, RIGHT)]), stands="first_seen")
    assert groups.rows() == [("0000", "0000", "0001"), ("0001", "0000", "0001")]


def test_two_larger_texts_are_not_one_because_they_hold_the_same_part() -> None:
    groups = grouped(chunks_of([0, 1, 2]), edges_of([(0, 1, RIGHT), (0, 2, RIGHT)]), stands="first_seen")
    assert groups["canonical_id"].to_list() == ["0000", "0000", "0002"]


KNOWN = {"canonical_id": ["0000", "0000", "0002", "0002"], "is_standing": [True, False, True, False]}


def known_groups() -> pl.DataFrame:
    return chunks_of([0, 1, 2, 3], **KNOWN)


def test_two_known_groups_become_one_where_all_of_the_later_lead_to_the_earlier() -> None:
    chunks = known_groups()
    half = grouped(chunks, edges_of([(0, 2, None)]), stands="first_seen")
    assert half["canonical_id"].to_list() == KNOWN["canonical_id"]
    assert forwards(chunks, half).is_empty()
    both = grouped(chunks, edges_of([(0, 2, None), (0, 3, None)]), stands="first_seen")
    assert set(both["canonical_id"]) == {"0000"}
    assert forwards(chunks, both).rows() == [("0002", "0000")]


def test_known_groups_are_not_joined_by_edges_that_were_known_before() -> None:
    edges = edges_of([(0, 2, None), (0, 3, None)], is_new=False)
    assert grouped(known_groups(), edges, stands="first_seen")["canonical_id"].to_list() == KNOWN["canonical_id"]


def test_a_known_larger_text_takes_the_group_of_its_part_under_the_earlier_id() -> None:
    chunks = chunks_of([0, 1], canonical_id=["0000", "0001"], is_standing=[True, True])
    groups = grouped(chunks, edges_of([(0, 1, RIGHT)]), stands="first_seen")
    assert groups.rows() == [("0000", "0000", "0001"), ("0001", "0000", "0001")]


def test_three_known_groups_become_one_when_each_leads_to_the_first() -> None:
    chunks = chunks_of([0, 1, 2], canonical_id=["0000", "0001", "0002"], is_standing=[True] * 3)
    groups = grouped(chunks, edges_of([(0, 1, None), (0, 2, None), (1, 2, None)]), stands="first_seen")
    assert set(groups["canonical_id"]) == {"0000"}
    assert forwards(chunks, groups).rows() == [("0001", "0000"), ("0002", "0000")]


def test_a_chunk_with_an_older_date_joins_what_was_published_before() -> None:
    chunks = chunks_of([5, 1, 2], canonical_id=["0005", None, None], is_standing=[True, False, False])
    groups = grouped(chunks, edges_of([(1, 5, None), (2, 5, None), (1, 2, None)]), stands="first_seen")
    assert groups["canonical_id"].to_list() == ["0005"] * 3
    # The first seen of those that all lead to stands, the id stays.
    assert groups["stands_id"].to_list() == ["0001"] * 3


def test_a_merge_that_a_person_made_without_an_edge_holds() -> None:
    chunks = chunks_of([0, 1, 2], canonical_id=["0000", "0000", None], is_standing=[True, False, False])
    groups = grouped(chunks, edges_of([(1, 2, None)]), stands="first_seen")
    assert groups["canonical_id"].to_list() == ["0000", "0000", "0002"]
