"""What a run changed, against sets in plain Python on random histories."""

from dataclasses import dataclass
from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.changes import (
    GroupChanges,
    chunks_of_the_run,
    group_changes,
    newly_superseded,
    open_changes,
)

FRAMES = ("new", "grown", "shrunk", "split", "joined", "gone", "restood")


@dataclass(frozen=True)
class State:
    """Groups of one version: by id, the chunk that stands and the chunks."""

    groups: dict[str, tuple[str, frozenset[str]]]

    @property
    def chunks(self) -> pl.DataFrame:
        rows = [(chunk, group) for group, (_, members) in self.groups.items() for chunk in members]
        return pl.DataFrame(rows, schema={"chunk_id": pl.String, "canonical_id": pl.String}, orient="row")

    @property
    def canonicals(self) -> pl.DataFrame:
        rows = [(group, f"scope-{group[0]}", stands) for group, (stands, _) in self.groups.items()]
        shape = {"canonical_id": pl.String, "scope": pl.String, "chunk_id": pl.String}
        return pl.DataFrame(rows, schema=shape, orient="row")

    def of(self, chunk: str) -> str | None:
        return next((group for group, (_, members) in self.groups.items() if chunk in members), None)


def state(**groups: str) -> State:
    """Groups by id, their chunks as letters; the first stands."""
    return State({group: (members[0], frozenset(members)) for group, members in groups.items()})


def changes(before: State, after: State) -> GroupChanges:
    return group_changes(before.chunks, after.chunks, before.canonicals, after.canonicals)


@st.composite
def states(draw: st.DrawFn) -> State:
    """Some of eight chunks in groups; every group bears the id of one of its chunks, as in the tables."""
    chunks = draw(st.lists(st.sampled_from("abcdefgh"), unique=True))
    labels = draw(st.lists(st.integers(0, 3), min_size=len(chunks), max_size=len(chunks)))
    groups = {}
    for label in sorted(set(labels)):
        members = [chunk for chunk, its in zip(chunks, labels, strict=True) if its == label]
        groups[draw(st.sampled_from(members))] = (draw(st.sampled_from(members)), frozenset(members))
    return State(groups)


def by_sets(before: State, after: State) -> dict[str, list[tuple[object, ...]]]:
    """The oracle."""
    told: dict[str, list[tuple[object, ...]]] = {name: [] for name in FRAMES}
    for group in sorted(before.groups.keys() | after.groups.keys()):
        scope = f"scope-{group[0]}"
        stood, had = before.groups.get(group, (None, frozenset()))
        stands, has = after.groups.get(group, (None, frozenset()))
        if stood is None and stands is not None:
            if any(before.of(chunk) for chunk in has):
                told["split"].append((group, scope, len(has), before.of(stands)))
            else:
                told["new"].append((group, scope, len(has)))
        elif stands is None and stood is not None:
            into = after.of(stood)
            told["joined" if into else "gone"].append((group, scope, into) if into else (group, scope))
        else:
            if has - had:
                told["grown"].append((group, scope, len(has), len(has - had)))
            if had - has:
                told["shrunk"].append((group, scope, len(has), len(had - has)))
            if stood != stands:
                told["restood"].append((group, scope, stood, stands))
    return told


@given(states(), states())
def test_groups_change_as_sets_in_plain_python_say(before: State, after: State) -> None:
    told = changes(before, after)
    assert {name: getattr(told, name).rows() for name in FRAMES} == by_sets(before, after)


@given(states(), states())
def test_the_groups_that_come_and_go_add_up(before: State, after: State) -> None:
    told = changes(before, after)
    came, went = told.new.height + told.split.height, told.joined.height + told.gone.height
    assert len(before.groups) + came - went == len(after.groups)


@given(states())
def test_nothing_has_changed_between_a_version_and_itself(one: State) -> None:
    told = changes(one, one)
    assert not any(getattr(told, name).height for name in FRAMES)


@given(states(), states(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_makes_no_difference(before: State, after: State, random: Random) -> None:
    seed = random.randint(0, 1_000)
    frames = [each.sample(fraction=1, shuffle=True, seed=seed) for each in (before.chunks, after.chunks)]
    frames += [each.sample(fraction=1, shuffle=True, seed=seed) for each in (before.canonicals, after.canonicals)]
    told, mixed = changes(before, after), group_changes(*frames)
    assert all(getattr(told, name).equals(getattr(mixed, name)) for name in FRAMES)


@given(states(), states())
def test_what_changed_in_a_scope_is_what_is_of_that_scope_in_all_that_changed(before: State, after: State) -> None:
    def in_scope(one: State, mine: bool) -> State:
        """Chunks up to d are in one scope, the others in another; a group is of the scope of its chunks."""
        groups: dict[str, tuple[str, frozenset[str]]] = {}
        for stands, members in one.groups.values():
            kept = sorted(chunk for chunk in members if (chunk <= "d") == mine)
            if kept:
                groups[kept[0]] = (stands if stands in kept else kept[0], frozenset(kept))
        return State(groups)

    parts = [[in_scope(one, mine) for one in (before, after)] for mine in (True, False)]
    both = [State({**parts[0][n].groups, **parts[1][n].groups}) for n in (0, 1)]
    told = changes(*both)
    of_parts = [changes(*part) for part in parts]
    for name in FRAMES:
        alone = pl.concat([getattr(each, name) for each in of_parts]).sort("canonical_id")
        assert getattr(told, name).equals(alone)


def test_a_chunk_that_comes_makes_its_group_grow() -> None:
    told = changes(state(a="ab"), state(a="abc", d="d"))
    assert told.grown.rows() == [("a", "scope-a", 3, 1)]
    assert told.new.rows() == [("d", "scope-d", 1)]


def test_a_group_that_joins_another_leads_to_it_and_makes_it_grow() -> None:
    told = changes(state(a="ab", c="cd"), state(a="abcd"))
    assert told.joined.rows() == [("c", "scope-c", "a")]
    assert told.grown.rows() == [("a", "scope-a", 4, 2)]
    assert not told.shrunk.height


def test_a_chunk_taken_out_leaves_a_group_shrunk_and_one_split_off() -> None:
    told = changes(state(a="abc"), state(a="ab", c="c"))
    assert told.shrunk.rows() == [("a", "scope-a", 2, 1)]
    assert told.split.rows() == [("c", "scope-c", 1, "a")]
    assert not told.new.height


def test_a_group_that_another_chunk_stands_for_has_not_changed_otherwise() -> None:
    told = changes(state(a="ab"), state(a="ba"))
    assert told.restood.rows() == [("a", "scope-a", "a", "b")]
    assert not told.grown.height
    assert not told.shrunk.height


def test_against_nothing_every_group_is_new() -> None:
    told = changes(state(), state(a="ab", c="c"))
    assert told.new.rows() == [("a", "scope-a", 2), ("c", "scope-c", 1)]


def test_a_rollback_shows_as_groups_that_are_gone() -> None:
    assert changes(state(a="a", b="b"), state(a="a")).gone.rows() == [("b", "scope-b")]


REPLACED = {"chunk_id": pl.String, "scope": pl.String, "superseded_by": pl.String}


def test_a_chunk_is_newly_superseded_once_and_again_when_another_replaces_it() -> None:
    before = pl.DataFrame([("a", "s", None), ("b", "s", "x"), ("c", "s", "x")], schema=REPLACED, orient="row")
    after = pl.DataFrame(
        [("a", "s", "x"), ("b", "s", "x"), ("c", "s", "y"), ("n", "s", "x"), ("o", "s", None)],
        schema=REPLACED,
        orient="row",
    )
    told = newly_superseded(before, after)
    assert told.rows() == [("a", "s", "x"), ("c", "s", "y"), ("n", "s", "x")]


@given(st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd")))
def test_what_is_opened_and_closed_leads_from_one_version_to_the_other(before: set[str], now: set[str]) -> None:
    told = open_changes(pl.Series(sorted(before), dtype=pl.String), pl.Series(sorted(now), dtype=pl.String))
    assert (before | set(told.opened)) - set(told.closed) == now
    assert not set(told.opened) & before
    assert set(told.closed) <= before


@pytest.mark.parametrize("known", [[], [("a", "stored_as_new")]])
def test_the_chunks_of_a_run_are_new_or_have_another_action(known: list[tuple[str, str]]) -> None:
    shape = {"chunk_id": pl.String, "action": pl.String}
    before = pl.DataFrame([*known, ("b", "stored_as_new")], schema=shape, orient="row")
    after = pl.DataFrame(
        [("a", "stored_as_new"), ("b", "merged_into_existing"), ("c", "stored_as_new")], schema=shape, orient="row"
    )
    wanted = ["b", "c"] if known else ["a", "b", "c"]
    assert chunks_of_the_run(before, after)["chunk_id"].to_list() == wanted
