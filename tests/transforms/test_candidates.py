"""Which near pairs are kept: nights in any split keep the same as one night with all of them."""

from itertools import combinations
from random import Random

import numpy as np
import polars as pl
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from polars.testing import assert_frame_equal

from transforms.candidates import best_of_either, chunks_in, folded, pairs_of, with_pair_id
from transforms.grid import Grid, snapped
from transforms.neighbours import join_exactly

MOST = st.integers(1, 3)
SCHEMA = pl.Schema({"left_id": pl.String(), "right_id": pl.String(), "similarity": pl.Float32()})

Pair = tuple[str, str, float]


def near(*pairs: Pair) -> pl.DataFrame:
    """Pairs as the near stage has them, with their ids, in one scope."""
    named = with_pair_id(pl.DataFrame([*pairs], schema=SCHEMA, orient="row"))
    return named.select("pair_id", "left_id", "right_id", pl.lit("ws").alias("scope"), "similarity")


def said(pairs: pl.DataFrame) -> list[tuple[str, str]]:
    return pairs.select("left_id", "right_id").rows()


def oracle(pairs: list[Pair], *, most: int) -> list[tuple[str, str]]:
    """The cut in plain Python, in the order of the pairs given."""
    others: dict[str, list[tuple[float, str]]] = {}
    for left, right, similarity in pairs:
        others.setdefault(left, []).append((-similarity, right))
        others.setdefault(right, []).append((-similarity, left))
    best = {chunk: {other for _, other in sorted(known)[:most]} for chunk, known in others.items()}
    return [(left, right) for left, right, _ in pairs if right in best[left] or left in best[right]]


@st.composite
def nights(draw: st.DrawFn) -> tuple[list[Pair], dict[str, int]]:
    """Pairs between up to nine chunks, many as near as others, and the night on which each chunk comes."""
    chunks = "abcdefghi"[: draw(st.integers(0, 9))]
    night = {chunk: draw(st.integers(0, 3)) for chunk in chunks}
    similarities = st.sampled_from([None, 0.85, 0.9, 0.9, 0.95, 1.0])
    pairs = [(left, right, draw(similarities)) for left, right in combinations(chunks, 2)]
    return [(left, right, similarity) for left, right, similarity in pairs if similarity is not None], night


def known_to(found: pl.DataFrame, store: pl.DataFrame) -> pl.DataFrame:
    """The stored pairs of the chunks found, and those of the chunks that they are paired with."""
    paired = pairs_of(chunks_in(found), store)
    return pairs_of(chunks_in(pl.concat([found, paired])), store)


def after(store: pl.DataFrame, found: pl.DataFrame, *, most: int) -> pl.DataFrame:
    """The stored pairs after a night that found these."""
    added, gone = folded(known_to(found, store), found, most=most)
    assert said(added) == sorted(said(added))
    assert said(gone) == sorted(said(gone))
    assert set(gone.rows()) <= set(store.rows())
    return pl.concat([store.join(gone, on="pair_id", how="anti"), added])


@settings(deadline=None)
@given(nights(), MOST, st.randoms())
def test_the_best_of_either_agree_with_a_plain_loop_and_keep_their_order(
    drawn: tuple[list[Pair], dict[str, int]], most: int, random: Random
) -> None:
    pairs, _ = drawn
    random.shuffle(pairs)
    assert said(best_of_either(near(*pairs), most=most)) == oracle(pairs, most=most)


@settings(deadline=None)
@given(nights(), MOST)
def test_a_second_cut_changes_nothing(drawn: tuple[list[Pair], dict[str, int]], most: int) -> None:
    once = best_of_either(near(*drawn[0]), most=most)
    assert_frame_equal(best_of_either(once, most=most), once)


def test_of_chunks_as_near_the_lower_id_stays() -> None:
    pairs = near(("a", "b", 0.9), ("a", "c", 0.9), ("b", "c", 0.95))
    assert said(best_of_either(pairs, most=1)) == [("a", "b"), ("b", "c")]


def test_a_pair_stays_that_is_among_the_best_of_one_side_only() -> None:
    pairs = near(("a", "b", 1.0), ("a", "c", 0.9))
    assert said(best_of_either(pairs, most=1)) == [("a", "b"), ("a", "c")]


@settings(max_examples=120, deadline=None)
@given(nights(), MOST)
def test_nights_in_any_split_keep_the_same_pairs_as_one_night(
    drawn: tuple[list[Pair], dict[str, int]], most: int
) -> None:
    pairs, night = drawn
    store = near()
    for tonight in range(4):
        new = [pair for pair in pairs if max(night[pair[0]], night[pair[1]]) == tonight]
        store = after(store, best_of_either(near(*new), most=most), most=most)
        so_far = [pair for pair in pairs if max(night[pair[0]], night[pair[1]]) <= tonight]
        assert_frame_equal(store.sort("left_id", "right_id"), best_of_either(near(*so_far), most=most))


@settings(max_examples=50, deadline=None)
@given(nights(), MOST)
def test_pairs_found_again_are_neither_added_nor_dropped(drawn: tuple[list[Pair], dict[str, int]], most: int) -> None:
    kept = best_of_either(near(*drawn[0]), most=most)
    for found in (kept, kept.head(2), kept.clear()):
        added, gone = folded(known_to(found, kept), found, most=most)
        assert added.is_empty()
        assert gone.is_empty()


def joined(grid: Grid, is_new: NDArray[np.bool_], ids: list[str], *, most: int) -> pl.DataFrame:
    pairs = join_exactly(grid, is_new, most=most, threshold=0.85).pairs()
    rows = zip(pairs.left.tolist(), pairs.right.tolist(), pairs.similarity.tolist(), strict=True)
    return near(*((ids[left], ids[right], similarity) for left, right, similarity in rows))


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=20),
    width=st.sampled_from([0.001, 0.1, 1.0]),
    most=MOST,
)
def test_nights_of_the_real_join_keep_the_same_pairs_and_similarities_as_one(
    rows: list[tuple[int, int]], width: float, most: int
) -> None:
    tilt, night = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    tilts = tilt / 20 * width
    grid = snapped(np.stack([np.cos(tilts), np.sin(tilts)], axis=1).astype(np.float32))
    ids = [f"chunk-{place:02}" for place in range(len(rows))]
    store = near()
    for tonight in range(3):
        here = np.flatnonzero(night <= tonight)
        found = joined(grid[here], night[here] == tonight, [ids[place] for place in here], most=most)
        store = after(store, found, most=most)
    one_night = joined(grid, np.ones(len(rows), dtype=bool), ids, most=most)
    assert_frame_equal(store.sort("left_id", "right_id"), one_night)


def test_a_nearer_pair_drops_only_those_that_are_among_the_best_of_neither() -> None:
    store = near(("b", "c", 0.86), ("b", "e", 0.87), ("c", "d", 0.9), ("e", "f", 0.88))
    found = near(("a", "b", 0.95))
    added, gone = folded(store, found, most=1)
    assert said(added) == [("a", "b")]
    assert said(gone) == [("b", "c"), ("b", "e")]


def test_a_pair_of_chunks_that_no_pair_of_tonight_touches_is_left_alone() -> None:
    known = near(("b", "c", 0.9), ("c", "d", 0.86), ("c", "e", 0.85))
    _, gone = folded(known, near(("a", "b", 0.95)), most=1)
    assert said(gone) == []


def test_a_found_pair_that_the_known_ones_leave_no_room_for_is_not_added() -> None:
    known = near(("a", "c", 0.95), ("b", "d", 0.95))
    added, gone = folded(known, near(("a", "b", 0.9)), most=1)
    assert said(added) == said(gone) == []


def test_a_pair_has_the_id_of_its_two_chunks() -> None:
    assert near(("a", "b", 1.0))["pair_id"].item() == blake3(b"a\x1fb").hexdigest()[:32]


def test_the_pairs_of_some_chunks_have_one_of_them_on_either_side_and_come_once() -> None:
    pairs = near(("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0))
    chunks = chunks_in(near(("0", "b", 1.0), ("b", "c", 1.0)))
    assert sorted(chunks["chunk_id"]) == ["0", "b", "c"]
    assert sorted(said(pairs_of(chunks, pairs))) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert said(pairs_of(chunks_in(near(("0", "a", 1.0))), pairs)) == [("a", "b")]
    assert said(pairs_of(chunks_in(near(("d", "z", 1.0))), pairs)) == [("c", "d")]


@pytest.mark.parametrize("known", [near(), near(("a", "b", 0.9))])
def test_a_night_that_finds_nothing_adds_and_drops_nothing_in_the_same_shape(known: pl.DataFrame) -> None:
    added, gone = folded(known, near(), most=1)
    assert added.is_empty()
    assert gone.is_empty()
    assert added.schema == gone.schema == near().schema
    assert best_of_either(near(), most=1).schema == near().schema
