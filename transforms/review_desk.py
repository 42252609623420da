"""The rows that decisions of people touch, while they are changed: whole groups, what joins and parts their chunks, and
the questions that name them. Rows are never changed in place; what is no longer as it came is what changed."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from blake3 import blake3

from schemas.terms import CLOSED, LINKED, STORED_AS_NEW

Row = dict[str, Any]
TABLES = (
    "chunks",
    "canonicals",
    "variants",
    "pairs",
    "links",
    "contradictions",
    "separations",
    "forwards",
    "pending_reviews",
    "review_decisions",
)
_KEYS = {
    "chunks": "chunk_id",
    "canonicals": "canonical_id",
    "variants": "chunk_id",
    "pairs": "pair_id",
    "links": "pair_id",
    "contradictions": "pair_id",
    "separations": "pair_id",
    "forwards": "canonical_id",
    "pending_reviews": "review_id",
    "review_decisions": "decision_id",
}
# Of these tables two chunks a row, looked up from either.
_JOINING = ("links", "contradictions", "separations")


def pair_id(one: str, other: str) -> str:
    """The id of the pair of two chunks, as `with_pair_id` has it."""
    return blake3("\x1f".join(sorted([one, other])).encode()).hexdigest()[:32]


def review_id(chunk_id: str) -> str:
    """The id of the question about a chunk, as `transforms.review` has it."""
    return blake3(f"review\x1f{chunk_id}".encode()).hexdigest()[:32]


@dataclass
class Changes:
    """What became of the rows of a table, by key: new ones, others that changed, and those that are gone."""

    appended: list[Row] = field(default_factory=list)
    updated: list[Row] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.appended or self.updated or self.deleted)


class Desk:
    """Rows by table and key. A chunk whose group is in `canonicals` is there with all of that group."""

    def __init__(self, rows: Mapping[str, Iterable[Row]]) -> None:
        self._rows: dict[str, dict[str, Row]] = {
            table: {row[_KEYS[table]]: row for row in rows.get(table, ())} for table in TABLES
        }
        self._came = {table: dict(rows) for table, rows in self._rows.items()}
        self.members: dict[str, set[str]] = {group: set() for group in self._rows["canonicals"]}
        for chunk_id, chunk in self._rows["chunks"].items():
            if chunk["canonical_id"] in self.members:
                self.members[chunk["canonical_id"]].add(chunk_id)
        self._others: dict[str, dict[str, set[str]]] = {table: defaultdict(set) for table in _JOINING}
        for table in _JOINING:
            for row in self._rows[table].values():
                self._join(table, row)
        self._about: dict[str, set[str]] = defaultdict(set)
        for row in self._rows["review_decisions"].values():
            self._about[row["chunk_id"]].add(row["decision_id"])
        self._replacing: dict[str, set[str]] = defaultdict(set)
        for row in self._rows["chunks"].values():
            self._replacing[row["superseded_by"]].add(row["chunk_id"])
        self._leading: dict[str, set[str]] = defaultdict(set)
        for row in self._rows["forwards"].values():
            self._leading[row["forwards_to"]].add(row["canonical_id"])
        self._naming: dict[str, set[str]] = defaultdict(set)
        for row in self._rows["pending_reviews"].values():
            self._name(row)

    # ---- rows

    def table(self, table: str) -> Mapping[str, Row]:
        return self._rows[table]

    def get(self, table: str, key: str) -> Row | None:
        return self._rows[table].get(key)

    def chunk(self, chunk_id: str) -> Row:
        return self._rows["chunks"][chunk_id]

    def put(self, table: str, row: Row) -> None:
        """The row in place of the one of its key."""
        key = row[_KEYS[table]]
        self.drop(table, key)
        self._rows[table][key] = row
        if table in _JOINING:
            self._join(table, row)
        elif table == "pending_reviews":
            self._name(row)
        elif table == "review_decisions":
            self._about[row["chunk_id"]].add(key)
        elif table == "chunks" and row["superseded_by"] is not None:
            self._replacing[row["superseded_by"]].add(key)
        elif table == "forwards":
            self._leading[row["forwards_to"]].add(key)

    def change(self, table: str, key: str, **columns: Any) -> None:
        """The row with other values in some columns."""
        self.put(table, {**self._rows[table][key], **columns})

    def drop(self, table: str, key: str) -> None:
        """No row of this key."""
        row = self._rows[table].pop(key, None)
        if row is not None and table in _JOINING:
            self._others[table][row["left_id"]].discard(row["right_id"])
            self._others[table][row["right_id"]].discard(row["left_id"])

    def _join(self, table: str, row: Row) -> None:
        self._others[table][row["left_id"]].add(row["right_id"])
        self._others[table][row["right_id"]].add(row["left_id"])

    def _name(self, question: Row) -> None:
        for chunk_id in (question["chunk_id"], *(each["chunk_id"] for each in candidates_of(question))):
            self._naming[chunk_id].add(question["review_id"])

    def changes(self, table: str) -> Changes:
        """What is no longer as it came."""
        came, now, changes = self._came[table], self._rows[table], Changes()
        for key in sorted(now):
            if key not in came:
                changes.appended.append(now[key])
            elif now[key] is not came[key] and now[key] != came[key]:
                changes.updated.append(now[key])
        changes.deleted = sorted(set(came) - set(now))
        return changes

    # ---- groups

    def group_of(self, chunk_id: str) -> str:
        group: str = self.chunk(chunk_id)["canonical_id"]
        return group

    def stands_for(self, group: str) -> str:
        stands: str = self._rows["canonicals"][group]["chunk_id"]
        return stands

    def members_of(self, chunk_id: str) -> set[str]:
        """All of its group, itself included; of a group that is not here, itself."""
        return self.members.get(self.group_of(chunk_id)) or {chunk_id}

    def forwarded(self, group: str) -> str:
        """The group that this id leads to now."""
        seen = {group}
        while (onward := self.get("forwards", group)) is not None and onward["forwards_to"] not in seen:
            group = onward["forwards_to"]
            seen.add(group)
        return group

    def move(self, chunk_ids: Iterable[str], to: str) -> None:
        """The chunks, and their rows as variants, into a group. Its figures follow with `count`."""
        self.members.setdefault(to, set())
        for chunk_id in chunk_ids:
            self.members[self.group_of(chunk_id)].discard(chunk_id)
            self.members[to].add(chunk_id)
            self.change("chunks", chunk_id, canonical_id=to)
            if self.get("variants", chunk_id) is not None:
                self.change("variants", chunk_id, canonical_id=to)

    def count(self, group: str, *, stands: str) -> None:
        """The row of a group from its members, gone where it has none. Who stands for it is no variant."""
        members = [self.chunk(chunk_id) for chunk_id in self.members.get(group, ())]
        if not members:
            self.members.pop(group, None)
            self.drop("canonicals", group)
            return
        self.drop("variants", stands)
        self.put(
            "canonicals",
            {
                "canonical_id": group,
                "scope": members[0]["scope"],
                "chunk_id": stands,
                "variants": len(members) - 1,
                "occurrences": sum(member["occurrences"] for member in members),
                "first_seen_at": min(member["first_seen_at"] for member in members),
                "last_seen_at": max(member["last_seen_at"] for member in members),
            },
        )

    def first_of(self, chunk_ids: Iterable[str]) -> str | None:
        """The first seen of them that holds; of none that does, the first that is not deleted; else None."""
        there = [self.chunk(each) for each in chunk_ids if self.chunk(each)["deleted_at"] is None]
        there.sort(key=lambda row: (row["superseded_by"] is not None, row["first_seen_at"], row["chunk_id"]))
        return there[0]["chunk_id"] if there else None

    def leading_to(self, group: str) -> list[str]:
        """The ids that lead on to a group."""
        known = self._rows["forwards"]
        return sorted(each for each in self._leading.get(group, ()) if known.get(each, {}).get("forwards_to") == group)

    # ---- chunks

    def replaced_by(self, chunk_id: str) -> list[str]:
        """The chunks that it replaced."""
        known = self._replacing.get(chunk_id, ())
        return sorted(each for each in known if self.chunk(each)["superseded_by"] == chunk_id)

    def decisions_about(self, chunk_ids: Iterable[str]) -> list[str]:
        """The decisions about these chunks, whatever came of them."""
        return sorted({each for chunk_id in chunk_ids for each in self._about.get(chunk_id, ())})

    # ---- what parts chunks

    def others(self, table: str, chunk_id: str) -> set[str]:
        """The chunks that a row of the table joins with this one."""
        return self._others[table][chunk_id]

    def between(self, table: str, some: Iterable[str], others: set[str]) -> tuple[str, str] | None:
        """A row's two chunks, one of either group; the first in the order of ids."""
        for one in sorted(some):
            met = self.others(table, one) & others
            if met:
                return one, min(met)
        return None

    # ---- questions

    def questions_naming(self, chunk_ids: Iterable[str]) -> list[str]:
        """The questions about these chunks, and those that have one of them for a candidate."""
        naming = {each for chunk_id in chunk_ids for each in self._naming.get(chunk_id, ())}
        return sorted(naming & set(self._rows["pending_reviews"]))

    def is_left(self, chunk_id: str, candidate: str) -> bool:
        """Whether a candidate is still one to compare with the chunk in question."""
        other = self.get("chunks", candidate)
        if other is None or other["superseded_by"] is not None or other["deleted_at"] is not None:
            return False
        if self.group_of(candidate) == self.group_of(chunk_id):
            return False
        return self.between("separations", self.members_of(chunk_id), self.members_of(candidate)) is None

    def why_closed(self, question: Row) -> str | None:
        """Why nobody needs to answer; None where somebody must."""
        chunk = self.chunk(question["chunk_id"])
        if chunk["deleted_at"] is not None:
            return "the chunk was deleted since"
        if chunk["superseded_by"] is not None:
            return f"the chunk was replaced by {chunk['superseded_by']} since"
        if self.get("variants", chunk["chunk_id"]) is not None:
            return f"the chunk was merged into group {chunk['canonical_id']} since"
        told = [each["chunk_id"] for each in candidates_of(question)]
        if not any(self.is_left(chunk["chunk_id"], each) for each in told):
            return (
                "no candidate is left to compare: each was replaced, deleted, merged with it or set apart from it since"
            )
        return None

    def settle_questions(self, chunk_ids: Iterable[str], *, at: datetime, run_id: str) -> None:
        """Closes what nobody needs to answer any more of the questions that name these chunks, and opens again what was
        closed so and is a question after all."""
        for each in self.questions_naming(chunk_ids):
            question = self._rows["pending_reviews"][each]
            is_open, was_closed = question["reviewed_at"] is None, question["decision"] == CLOSED
            if question["chunk_id"] not in self._rows["chunks"] or not (is_open or was_closed):
                continue
            why = self.why_closed(question)
            if is_open and why is not None:
                self.change("pending_reviews", each, reviewed_at=at, reviewed_by=run_id, decision=CLOSED, notes=why)
            elif was_closed and why is None:
                self.reopen(each)

    def reopen(self, review: str) -> None:
        """The question as it was before anybody answered."""
        self.change("pending_reviews", review, reviewed_at=None, reviewed_by=None, decision=None, notes=None)

    def rest_of(self, chunk_id: str) -> str:
        """What became of a chunk that was queued, without the question."""
        return LINKED if self.others("links", chunk_id) else STORED_AS_NEW


def candidates_of(question: Row) -> Iterator[Row]:
    """The candidates of a question, best first."""
    for each in json.loads(question["candidates"] or "[]"):
        if isinstance(each, dict) and isinstance(each.get("chunk_id"), str):
            yield each
