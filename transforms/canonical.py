"""Canonical groups: stars, not chains.

Chunks come in the order in which they were first seen. One that may be merged into the hub of a group joins it, the
earliest where there are several; another becomes the hub of a group of its own. So a chain of near chunks never becomes
one group, what came later never changes what earlier chunks became, and nights in the order of time end as one night
does. The chunk that stands for a group is one into which every other member may be merged.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from schemas.terms import LEFT, RIGHT, SUBSET

Stands = Literal["first_seen", "newest", "longest", "source_priority"]
Places = NDArray[np.int64]
_ALONE = -1


def grouped(chunks: pl.DataFrame, edges: pl.DataFrame, apart: pl.DataFrame, *, stands: Stands) -> pl.DataFrame:
    """chunk_id, canonical_id and stands_id of every chunk, in the order of `chunks`.

    `chunks` has chunk_id, scope, first_seen_at, canonical_id (null for a chunk in no group yet), is_standing (whether
    it stands for its group until now), length and priority; groups are there with all their members. `edges` has
    left_id, right_id, relation, stands and is_new: two chunks judged to be merged. Of a subset only the smaller may be
    merged into the larger. An edge between two scopes counts for nothing. `apart` has left_id and right_id of chunks
    that nothing brings into one group: they contradict each other, or were taken apart.
    """
    ordered = chunks.with_row_index("given").sort("first_seen_at", "chunk_id").with_row_index("place")
    arrows = _arrows(ordered, edges)
    stars = _Stars.of(ordered, arrows, _apart(ordered, apart))
    stars.join_known()
    stars.add_new()
    group = np.array(stars.group, dtype=np.int64)
    standing = _elected(ordered, group, arrows, stands=stands)
    ids = ordered["chunk_id"]
    return (
        ordered.select(
            "given",
            "chunk_id",
            canonical_id=pl.Series([stars.ids[g] for g in stars.group], dtype=pl.String),
            stands_id=ids[standing[group]] if len(group) else ids,
        )
        .sort("given")
        .drop("given")
    )


def forwards(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """canonical_id and forwards_to of every group that is part of another now. Both frames have chunk_id and
    canonical_id; a chunk without one before was in no group."""
    moved = before.drop_nulls("canonical_id").join(after, on="chunk_id", how="inner", suffix="_after")
    gone = moved.join(after.select("canonical_id").unique(), on="canonical_id", how="anti")
    return (
        gone.select("canonical_id", forwards_to="canonical_id_after")
        .unique("canonical_id", keep="any")
        .sort("canonical_id")
    )


@dataclass(frozen=True)
class _Arrows:
    """Which chunk may be merged into which, by places, without repeats."""

    source: Places
    target: Places
    is_new: NDArray[np.bool_]


def _arrows(ordered: pl.DataFrame, edges: pl.DataFrame) -> _Arrows:
    places = ordered.select(pl.col("place").cast(pl.Int64), "scope", "chunk_id", "canonical_id", "is_standing")
    at_left = places.select("scope", left="place", left_id="chunk_id")
    at_right = places.select("scope", right="place", right_id="chunk_id")
    both = (
        edges.select("left_id", "right_id", "relation", "stands", "is_new")
        .join(at_left, on="left_id", how="inner")
        .join(at_right, on=["right_id", "scope"], how="inner")
    )
    into_left = (pl.col("relation") != SUBSET) | pl.col("stands").eq_missing(pl.lit(LEFT))
    into_right = (pl.col("relation") != SUBSET) | pl.col("stands").eq_missing(pl.lit(RIGHT))
    # Every member of a known group was merged into the chunk that stands for it, whoever decided that.
    known = places.drop_nulls("canonical_id")
    standing = known.filter("is_standing").select("canonical_id", target="place")
    carried = known.filter(~pl.col("is_standing")).join(standing, on="canonical_id", how="inner")
    directed = [
        both.filter(into_left).select("is_new", source="right", target="left"),
        both.filter(into_right).select("is_new", source="left", target="right"),
        carried.select(is_new=pl.lit(value=False), source="place", target="target"),
    ]
    arrows = pl.concat(directed).group_by("source", "target").agg(pl.col("is_new").any()).sort("source", "target")
    return _Arrows(arrows["source"].to_numpy(), arrows["target"].to_numpy(), arrows["is_new"].to_numpy())


def _apart(ordered: pl.DataFrame, apart: pl.DataFrame) -> dict[int, set[int]]:
    """By place: the places of the chunks that it is never in one group with."""
    places = ordered.select("place", "chunk_id")
    both = (
        apart.select("left_id", "right_id")
        .join(places.rename({"chunk_id": "left_id", "place": "left"}), on="left_id", how="inner")
        .join(places.rename({"chunk_id": "right_id", "place": "right"}), on="right_id", how="inner")
    )
    others: dict[int, set[int]] = {}
    for left, right in both.select("left", "right").iter_rows():
        others.setdefault(left, set()).add(right)
        others.setdefault(right, set()).add(left)
    return others


class _Ends:
    """The other ends of each chunk's arrows, in order."""

    def __init__(self, chunks: int, mine: Places, other: Places) -> None:
        order = np.lexsort((other, mine))
        self._others: list[int] = other[order].tolist()
        self._starts: list[int] = np.searchsorted(mine[order], np.arange(chunks + 1)).tolist()

    def of(self, place: int) -> list[int]:
        return self._others[self._starts[place] : self._starts[place + 1]]


@dataclass
class _Stars:
    """Groups while they are made. A hub is a member into which all others of its group may be merged.

    By chunk: its group. By group: its members, hub and id; a group that became part of another has no members.
    """

    group: list[int]
    members: list[list[int]]
    hubs: list[int]
    ids: list[str]
    chunk_ids: list[str]
    known: int
    asked: list[int]
    into: _Ends
    out_of: _Ends
    apart: dict[int, set[int]]

    @classmethod
    def of(cls, ordered: pl.DataFrame, arrows: _Arrows, apart: dict[int, set[int]]) -> "_Stars":
        """The groups that are there already; `asked` are those with a new edge to another of them, earliest first."""
        known = ordered.select(pl.col("place").cast(pl.Int64), "canonical_id").drop_nulls("canonical_id")
        by_group = known.group_by("canonical_id").agg("place").sort(pl.col("place").list.min())
        members = [sorted(places) for places in by_group["place"].to_list()]
        group = [_ALONE] * ordered.height
        for number, places in enumerate(members):
            for place in places:
                group[place] = number
        of_chunk = np.array(group, dtype=np.int64)
        crosses = (of_chunk[arrows.source] != of_chunk[arrows.target]) & arrows.is_new
        crosses &= (of_chunk[arrows.source] != _ALONE) & (of_chunk[arrows.target] != _ALONE)
        asked = np.unique(of_chunk[np.concatenate([arrows.source[crosses], arrows.target[crosses]])])
        can_stand = _all_lead_to(of_chunk, arrows, len(members))
        hubs = [next((place for place in places if can_stand[place]), places[0]) for places in members]
        return cls(
            group=group,
            members=members,
            hubs=hubs,
            ids=by_group["canonical_id"].to_list(),
            chunk_ids=ordered["chunk_id"].to_list(),
            known=len(members),
            asked=asked.tolist(),
            into=_Ends(ordered.height, arrows.source, arrows.target),
            out_of=_Ends(ordered.height, arrows.target, arrows.source),
            apart=apart,
        )

    def join_known(self) -> None:
        """Two known groups become one where every member of one may be merged into the hub of the other."""
        for late in self.asked:
            members, hub = self.members[late], self.hubs[late]
            leads = Counter(self.group[to] for place in members for to in self._hubs_from(place))
            early = sorted(g for g, count in leads.items() if g < late and count == len(members))
            early = [g for g in early if self._may_join(late, g)][:1]
            self._join(early or self._led_to(hub, before=late), late)

    def add_new(self) -> None:
        """Chunks that are in no group yet, in order: into a group, or as the hub of one."""
        for place in range(len(self.group)):
            if self.group[place] != _ALONE:
                continue
            hubs = [hub for hub in self._hubs_from(place) if not self._is_apart(place, self.group[hub])]
            if hubs:
                # What was published before comes before what is new, whatever its time.
                first = min(hubs, key=lambda hub: (self.group[hub] >= self.known, hub))
                self.group[place] = self.group[first]
                self.members[self.group[first]].append(place)
                continue
            mine = len(self.members)
            self.group[place] = mine
            self.members.append([place])
            self.hubs.append(place)
            self.ids.append(self.chunk_ids[place])
            self._join(self._led_to(place, before=mine), mine)

    def _hubs_from(self, place: int) -> list[int]:
        """The hubs of other groups into which a chunk may be merged."""
        mine, of, hubs = self.group[place], self.group, self.hubs
        return [to for to in self.into.of(place) if of[to] not in (_ALONE, mine) and hubs[of[to]] == to]

    def _led_to(self, hub: int, *, before: int) -> list[int]:
        """The earlier groups all of whose members may be merged into this hub, earliest first."""
        leads = Counter(self.group[place] for place in self.out_of.of(hub) if self.group[place] != _ALONE)
        return sorted(g for g, count in leads.items() if g < before and count == len(self.members[g]))

    def _is_apart(self, place: int, group: int) -> bool:
        return any(self.group[other] == group for other in self.apart.get(place, ()))

    def _may_join(self, one: int, other: int) -> bool:
        return not any(self._is_apart(place, other) for place in self.members[one])

    def _join(self, wanted: list[int], mine: int) -> None:
        """Makes a group and those others that may be with it one, under the id of the earliest."""
        joined = [mine]
        for other in wanted:
            if all(self._may_join(each, other) for each in joined):
                joined.append(other)
        first, *others = sorted(joined)
        if not others:
            return
        for other in others:
            for place in self.members[other]:
                self.group[place] = first
            self.members[first] += self.members[other]
            self.members[other] = []
        members = self.members[first] = sorted(self.members[first])
        led = {to: sum(self.group[place] == first for place in self.out_of.of(to)) for to in members}
        self.hubs[first] = next(to for to in members if led[to] == len(members) - 1)


def _all_lead_to(group: Places, arrows: _Arrows, groups: int) -> NDArray[np.bool_]:
    """By chunk: whether every other member of its group may be merged into it."""
    inside = group[arrows.source] == group[arrows.target]
    inside &= group[arrows.source] != _ALONE
    led = np.bincount(arrows.target[inside], minlength=len(group))
    sizes = np.bincount(group[group != _ALONE], minlength=groups + 1)
    result: NDArray[np.bool_] = (group != _ALONE) & (led == sizes[group] - 1)
    return result


def _elected(ordered: pl.DataFrame, group: Places, arrows: _Arrows, *, stands: Stands) -> Places:
    """By group: the place of the chunk that stands for it. Of those as good, the first seen."""
    groups = int(group.max()) + 1 if len(group) else 0
    can_stand = ordered.select(pl.col("place").cast(pl.Int64), "length", "priority", group=group).filter(
        _all_lead_to(group, arrows, groups)
    )
    best = {
        "first_seen": [pl.col("place")],
        "newest": [-pl.col("place")],
        "longest": [-pl.col("length").fill_null(0).cast(pl.Int64), pl.col("place")],
        "source_priority": [-pl.col("priority").fill_null(float("-inf")), pl.col("place")],
    }[stands]
    chosen = can_stand.sort("group", *best).unique("group", keep="first", maintain_order=True)
    standing = np.full(groups, _ALONE, dtype=np.int64)
    standing[chosen["group"].to_numpy()] = chosen["place"].to_numpy()
    return standing
