"""What decisions of people change in the tables, one after the other, and how each is taken back.

What a decision changes and what was there before stands with it (`effects`), so that an undo restores it, whatever was
decided in between. A value that two decisions set is a chain: whoever undoes the lower one hands what was before it to
the one above.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas.terms import (
    BOTH_STAND,
    COMPLEMENTARY,
    CONTRADICTORY,
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
    RESOLUTIONS,
    RESOLVED,
    STORED_AS_NEW,
    SUBSET,
    SUPERSEDED,
    SUPERSEDING,
    UNDO,
)
from transforms.review_desk import Desk, Row, candidates_of, pair_id

APPLIED = "applied"
UNDONE_BEFORE = "undone before it was applied"
# How the outcome of a decision begins that could not be applied.
_NOTHING = "not applied: "
_REVIEWER = "reviewer "
# A link says that two are related and stay two; what would make them one is not how.
_LINKABLE = (SUBSET, SUPERSEDING, CONTRADICTORY, COMPLEMENTARY)
_PAIR_ACTION = {LINK: LINKED, FLAG_CONTRADICTION: FLAGGED}


@dataclass(frozen=True)
class Entry:
    """An entry of the journal: a decision, or the undo of one. `question` is what was asked: its candidates, the
    reason, and for a link or a contradiction the chunk that was chosen; of a resolution left_id and right_id."""

    decision_id: str
    seq: int
    review_id: str
    scope: str
    chunk_id: str
    decision: str
    target_canonical_id: str | None
    reviewer: str
    notes: str | None
    decided_at: datetime
    batch_id: str | None
    undoes: str | None
    asked_at: datetime
    question: Row

    @property
    def candidates(self) -> list[Row]:
        return list(candidates_of(self.question)) if "candidates" in self.question else []

    @property
    def chunk_ids(self) -> list[str]:
        """The chunks that it names."""
        ends = [self.question[side] for side in ("left_id", "right_id") if side in self.question]
        chosen = [self.question["chosen"]] if self.question.get("chosen") else []
        return list(dict.fromkeys([self.chunk_id, *ends, *chosen, *(each["chunk_id"] for each in self.candidates)]))


@dataclass
class Effects:
    """What a decision changed. `claims`: by table, key and column (or the whole row, by an empty column) what was there
    and what it set. `moved`: the group that became part of another. `taken_over`: who stands for the group of a deleted
    chunk, and its row as a variant before."""

    claims: dict[str, list[Any]] = field(default_factory=dict)
    moved: dict[str, Any] | None = None
    taken_over: dict[str, Any] | None = None

    def packed(self) -> str:
        return json.dumps(_packed({"claims": self.claims, "moved": self.moved, "taken_over": self.taken_over}))

    @classmethod
    def read(cls, text: str | None) -> "Effects":
        said = _unpacked(json.loads(text or "{}"))
        return cls(said.get("claims") or {}, said.get("moved"), said.get("taken_over"))


def _packed(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"at": value.isoformat()}
    if isinstance(value, dict):
        return {name: _packed(each) for name, each in value.items()}
    return [_packed(each) for each in value] if isinstance(value, list) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"at"}:
            return datetime.fromisoformat(value["at"])
        return {name: _unpacked(each) for name, each in value.items()}
    return [_unpacked(each) for each in value] if isinstance(value, list) else value


def came_to_nothing(outcome: str) -> bool:
    """Whether this is the outcome of a decision that could not be applied."""
    return outcome.startswith(_NOTHING)


def apply_entries(desk: Desk, entries: Sequence[Entry], *, run_id: str, at: datetime) -> list[Entry]:
    """Applies the entries in their order; returns those that wait, because chunks they name are not there (a rollback
    to before they came). What is on record already is left alone."""
    undone = {entry.undoes: entry for entry in entries if entry.undoes is not None}
    waiting: list[Entry] = []
    for entry in sorted(entries, key=lambda each: each.seq):
        if desk.get("review_decisions", entry.decision_id) is not None:
            continue
        if entry.decision == UNDO:
            done = desk.get("review_decisions", entry.undoes or "")
            if done is None:
                waiting.append(entry)
                continue
            if done["outcome"] == APPLIED:
                take_back(desk, done, run_id=run_id, at=at)
            desk.change("review_decisions", done["decision_id"], undone_by=entry.decision_id)
            _record(desk, entry, APPLIED, Effects(), run_id=run_id)
        elif entry.decision_id in undone:
            _record(desk, entry, UNDONE_BEFORE, Effects(), run_id=run_id)
        elif not all(each in desk.table("chunks") for each in entry.chunk_ids):
            waiting.append(entry)
        elif (why := why_not(desk, entry)) is not None:
            _record(desk, entry, f"{_NOTHING}{why}", Effects(), run_id=run_id)
        else:
            effects = _Applying(desk, entry, run_id, at).apply()
            _record(desk, entry, APPLIED, effects, run_id=run_id)
    return waiting


def _record(desk: Desk, entry: Entry, outcome: str, effects: Effects, *, run_id: str) -> None:
    names = ("decision_id", "seq", "review_id", "scope", "chunk_id", "decision", "target_canonical_id", "reviewer")
    row = {name: getattr(entry, name) for name in (*names, "notes", "decided_at", "batch_id", "undoes")}
    packed = effects.packed() if outcome == APPLIED and entry.decision != UNDO else None
    desk.put("review_decisions", {**row, "undone_by": None, "outcome": outcome, "effects": packed, "run_id": run_id})


# ---- what cannot be


def why_not(desk: Desk, entry: Entry) -> str | None:
    """Why a decision cannot be applied to the tables as they are, in words; None where it can."""
    if any(desk.chunk(each)["scope"] != entry.scope for each in entry.chunk_ids):
        return "it names chunks of another scope"
    if entry.decision in RESOLUTIONS:
        return _why_not_resolve(desk, entry)
    gone = None if entry.decision == DELETE else _gone(desk.chunk(entry.chunk_id), "the chunk in question")
    if gone is not None or entry.decision != MERGE:
        return gone
    return why_not_merge(desk, entry.chunk_id, entry.target_canonical_id or "")


def _gone(chunk: Row, what: str) -> str | None:
    if chunk["deleted_at"] is not None:
        return f"{what} was deleted"
    return None if chunk["superseded_by"] is None else f"{what} was replaced by {chunk['superseded_by']}"


def why_not_merge(desk: Desk, chunk_id: str, target: str) -> str | None:
    """Why the chunk, with the group it stands for, cannot join the group of that id."""
    group = desk.forwarded(target)
    row = desk.get("canonicals", group)
    if row is None or row["scope"] != desk.chunk(chunk_id)["scope"]:
        return f"there is no group {target} in its scope"
    if group == desk.group_of(chunk_id):
        return None
    gone = _gone(desk.chunk(row["chunk_id"]), f"group {group}")
    if gone is not None:
        return gone
    mine, theirs = _moving(desk, chunk_id), desk.members[group]
    met = desk.between("contradictions", mine, theirs)
    if met is not None:
        return f"chunk {met[0]} contradicts chunk {met[1]} of group {group}"
    met = desk.between("separations", mine, theirs)
    if met is not None:
        by = desk.table("separations")[pair_id(*met)]["decided_by"]
        return f"{by} set chunk {met[0]} apart from chunk {met[1]} of group {group}"
    return None


def _moving(desk: Desk, chunk_id: str) -> set[str]:
    """What joins another group with a chunk: all of the group it stands for; itself where another stands for it."""
    return {chunk_id} if desk.get("variants", chunk_id) is not None else desk.members_of(chunk_id)


def _why_not_resolve(desk: Desk, entry: Entry) -> str | None:
    row = desk.get("contradictions", entry.review_id)
    if row is None:
        return "the contradiction is no longer there"
    if row["status"] != OPEN:
        return "the contradiction was resolved before"
    if entry.decision == BOTH_STAND:
        return None
    stands, falls = _sides(entry)
    if desk.chunk(stands)["deleted_at"] is not None:
        return f"chunk {stands} was deleted, and cannot stand"
    at: str | None = stands
    while at is not None and (known := desk.get("chunks", at)) is not None:
        if at == falls:
            return f"chunk {stands} was itself replaced by {falls}"
        at = known["superseded_by"]
    return None


def _sides(entry: Entry) -> tuple[str, str]:
    left, right = entry.question["left_id"], entry.question["right_id"]
    return (left, right) if entry.decision == LEFT_STANDS else (right, left)


# ---- one decision


@dataclass
class _Applying:
    """Applies a decision that can be."""

    desk: Desk
    entry: Entry
    run_id: str
    at: datetime
    effects: Effects = field(default_factory=Effects)

    def apply(self) -> Effects:
        entry, desk = self.entry, self.desk
        touched = {entry.chunk_id, *entry.chunk_ids} & set(desk.table("chunks"))
        if entry.decision in RESOLUTIONS:
            self._resolve()
        else:
            if entry.decision == MERGE:
                touched |= self._merge()
            elif entry.decision == DELETE:
                touched |= self._delete()
            else:
                touched |= self._separate()
            self._answer()
        desk.settle_questions(touched, at=self.at, run_id=self.run_id)
        return self.effects

    @property
    def _by(self) -> str:
        return f"{_REVIEWER}{self.entry.reviewer}"

    @property
    def _words(self) -> str:
        return f": {self.entry.notes}" if self.entry.notes else ""

    def _set(self, table: str, key: str, **columns: Any) -> None:
        row = self.desk.table(table)[key]
        for column, value in columns.items():
            name = f"{table}/{key}/{column}"
            self.effects.claims[name] = [self.effects.claims.get(name, [row[column]])[0], value]
        self.desk.change(table, key, **columns)

    def _put(self, table: str, key: str, row: Row) -> None:
        self.effects.claims[f"{table}/{key}/"] = [self.desk.get(table, key), row]
        self.desk.put(table, row)

    def _pair_action(self, other: str, action: str) -> None:
        pair = pair_id(self.entry.chunk_id, other)
        if self.desk.get("pairs", pair) is not None:
            self._set("pairs", pair, action=action)

    def _answer(self) -> None:
        """The question as it is answered; where it has gained candidates that nobody has seen, it asks about those."""
        entry, row = self.entry, self.desk.get("pending_reviews", self.entry.review_id)
        answered = {
            "reviewed_at": entry.decided_at,
            "reviewed_by": entry.reviewer,
            "decision": entry.decision,
            "notes": entry.notes,
        }
        if row is None:
            asked = {"review_id": entry.review_id, "scope": entry.scope, "chunk_id": entry.chunk_id}
            asked |= {"candidates": entry.question["candidates"], "reason": entry.question["reason"]}
            self._put("pending_reviews", entry.review_id, {**asked, "queued_at": entry.asked_at, **answered})
            return
        seen = {each["chunk_id"] for each in entry.candidates}
        unseen = [each for each in candidates_of(row) if each["chunk_id"] not in seen]
        if entry.decision not in (MERGE, DELETE) and any(
            self.desk.is_left(entry.chunk_id, each["chunk_id"]) for each in unseen
        ):
            told = json.dumps(unseen, ensure_ascii=False)
            self._set("pending_reviews", entry.review_id, candidates=told, queued_at=self.at)
        else:
            self._set("pending_reviews", entry.review_id, **answered)

    def _merge(self) -> set[str]:
        desk, entry, chunk_id = self.desk, self.entry, self.entry.chunk_id
        into = desk.forwarded(entry.target_canonical_id or "")
        if into != desk.group_of(chunk_id):
            if desk.get("variants", chunk_id) is not None:
                split(desk, {chunk_id}, chunk_id, stands=chunk_id)
            self._join(into)
            self._set("chunks", chunk_id, action=MERGED)
        members = desk.members[into]
        for each in entry.candidates:
            other = each["chunk_id"]
            self._pair_action(other, MERGED if other in members else STORED_AS_NEW)
        stands = desk.stands_for(into)
        if stands not in {each["chunk_id"] for each in entry.candidates} and stands != chunk_id:
            self._pair_action(stands, MERGED)
        return set(members)

    def _join(self, into: str) -> None:
        desk, chunk_id, group = self.desk, self.entry.chunk_id, self.desk.group_of(self.entry.chunk_id)
        stands, moving = desk.stands_for(into), sorted(desk.members[group])
        led = desk.leading_to(group)
        before = {each: row for each in moving if (row := desk.get("variants", each)) is not None}
        moved = {"group": group, "into": into, "stands": stands, "chunks": moving, "variants": before, "led": led}
        self.effects.moved = moved
        told = {each["chunk_id"]: each for each in self.entry.candidates}
        for each in moving:
            pair = desk.get("pairs", pair_id(each, stands)) or (told.get(stands, {}) if each == chunk_id else {})
            relation = before[each]["relation"] if each in before else EQUIVALENT
            reason = f"{self.entry.reviewer} merged it{self._words}"
            if each in before:
                reason = f"{self.entry.reviewer} merged its group{self._words}; before: {before[each]['reason'] or ''}"
            desk.put(
                "variants",
                {
                    "chunk_id": each,
                    "scope": self.entry.scope,
                    "canonical_id": group,
                    "relation": relation,
                    "similarity": pair.get("similarity"),
                    "confidence": 1.0,
                    "decided_by": self._by,
                    "reason": reason,
                    "run_id": self.run_id,
                },
            )
        desk.move(moving, into)
        desk.count(group, stands=chunk_id)
        desk.count(into, stands=stands)
        for each in led:
            desk.change("forwards", each, forwards_to=into)
        forward = {"canonical_id": group, "forwards_to": into, "scope": self.entry.scope}
        desk.put("forwards", {**forward, "run_id": self.run_id, "forwarded_at": self.at})

    def _separate(self) -> set[str]:
        """Keeps the chunk apart from every candidate; for a link or a contradiction, with a row for the one chosen."""
        desk, entry, chunk_id = self.desk, self.entry, self.entry.chunk_id
        told = {each["chunk_id"]: each for each in entry.candidates}
        chosen = entry.question.get("chosen") or next(iter(told), None)
        touched = set(desk.members_of(chunk_id))
        for other in dict.fromkeys([*told, *([chosen] if chosen else [])]):
            if other == chunk_id or self._is_one_by_decision(chunk_id, other):
                continue
            touched |= self._apart(chunk_id, other)
            pair = pair_id(chunk_id, other)
            self._separation(pair, chunk_id, other)
            self._pair_action(
                other, _PAIR_ACTION.get(entry.decision, STORED_AS_NEW) if other == chosen else STORED_AS_NEW
            )
            if other == chosen and entry.decision != KEEP_SEPARATE:
                self._related(pair, other, told.get(other, {}))
        action = desk.chunk(chunk_id)["action"]
        if entry.decision == FLAG_CONTRADICTION:
            if action not in (MERGED, SUPERSEDED, FLAGGED):
                self._set("chunks", chunk_id, action=FLAGGED)
        elif action == QUEUED:
            self._set("chunks", chunk_id, action=desk.rest_of(chunk_id))
        elif action == STORED_AS_NEW and entry.decision == LINK:
            self._set("chunks", chunk_id, action=LINKED)
        return touched

    def _is_one_by_decision(self, chunk_id: str, other: str) -> bool:
        """Whether a person has put the two into one group: to part them again is to undo that."""
        if self.desk.group_of(chunk_id) != self.desk.group_of(other):
            return False
        rows = [self.desk.get("variants", each) for each in (chunk_id, other)]
        return any(row is not None and row["decided_by"].startswith(_REVIEWER) for row in rows)

    def _apart(self, chunk_id: str, other: str) -> set[str]:
        """Where a night has put the two into one group since, the one that does not stand for it leaves."""
        desk = self.desk
        if desk.group_of(chunk_id) != desk.group_of(other):
            return set()
        touched = set(desk.members_of(chunk_id))
        leaves = chunk_id if desk.get("variants", chunk_id) is not None else other
        split(desk, {leaves}, leaves, stands=leaves)
        if desk.chunk(leaves)["action"] == MERGED:
            desk.change("chunks", leaves, action=desk.rest_of(leaves))
        return touched

    def _ends(self, pair: str, one: str, other: str) -> Row:
        left, right = sorted([one, other])
        return {"pair_id": pair, "left_id": left, "right_id": right, "scope": self.entry.scope}

    def _separation(self, pair: str, chunk_id: str, other: str) -> None:
        known = self.desk.get("separations", pair)
        if known is not None and known["merged_because"] is not None:
            # Taken out of the other's group before: that stays on record.
            self._put("separations", pair, {**known, "decision": self.entry.decision})
            return
        row = self._ends(pair, chunk_id, other)
        row |= {"chunk_id": chunk_id, "canonical_id": self.desk.group_of(other), "merged_because": None}
        row |= {"decided_by": self.entry.reviewer, "decided_at": self.entry.decided_at, "run_id": self.run_id}
        self._put("separations", pair, {**row, "decision": self.entry.decision})

    def _related(self, pair: str, other: str, told: Row) -> None:
        row = self._ends(pair, self.entry.chunk_id, other)
        judged = self.desk.get("pairs", pair) or told
        if self.entry.decision == LINK:
            relation = judged.get("relation")
            relation = relation if relation in _LINKABLE else COMPLEMENTARY
            self._put("links", pair, {**row, "relation": relation, "run_id": self.run_id})
        else:
            evidence = judged.get("evidence") or ""
            words = f"{self.entry.reviewer} flagged it{self._words}" + (f"; {evidence}" if evidence else "")
            self._put("contradictions", pair, {**row, "evidence": words, "status": OPEN, "run_id": self.run_id})

    def _delete(self) -> set[str]:
        desk, chunk_id = self.desk, self.entry.chunk_id
        touched = set(desk.members_of(chunk_id))
        self._set("chunks", chunk_id, deleted_at=self.entry.decided_at)
        if desk.chunk(chunk_id)["action"] == QUEUED:
            self._set("chunks", chunk_id, action=desk.rest_of(chunk_id))
        for each in desk.replaced_by(chunk_id):
            # What it had replaced holds again: nothing that is said is hidden by what is not.
            self._set("chunks", each, superseded_by=None, valid_to=None)
            touched.add(each)
        for told in self.entry.candidates:
            self._pair_action(told["chunk_id"], STORED_AS_NEW)
        if desk.get("variants", chunk_id) is None and chunk_id == desk.stands_for(desk.group_of(chunk_id)):
            self.effects.taken_over = hand_over(desk, chunk_id, by=self._by, run_id=self.run_id)
        return touched

    def _resolve(self) -> None:
        desk, entry = self.desk, self.entry
        row = desk.table("contradictions")[entry.review_id]
        self._put("contradictions", entry.review_id, {**row, "status": RESOLVED})
        left, right = entry.question["left_id"], entry.question["right_id"]
        if pair_id(left, right) not in desk.table("separations"):
            self._separation(pair_id(left, right), left, right)
        if entry.decision == BOTH_STAND:
            return
        stands, falls = _sides(entry)
        if desk.chunk(falls)["superseded_by"] is None:
            since = desk.chunk(falls)["valid_from"] or desk.chunk(falls)["first_seen_at"]
            self._set("chunks", falls, superseded_by=stands, valid_from=since, valid_to=entry.decided_at)


def hand_over(desk: Desk, chunk_id: str, *, by: str, run_id: str) -> dict[str, Any] | None:
    """Another member stands for the group of a deleted chunk, which becomes its variant. Gives who, and its row as a
    variant before; None where nobody else is left."""
    group = desk.group_of(chunk_id)
    taker = desk.first_of(desk.members[group] - {chunk_id})
    if taker is None:
        return None
    row = desk.get("variants", taker)
    pair = desk.get("pairs", pair_id(chunk_id, taker)) or {}
    desk.put(
        "variants",
        {
            "chunk_id": chunk_id,
            "scope": desk.chunk(chunk_id)["scope"],
            "canonical_id": group,
            "relation": EQUIVALENT,
            "similarity": pair.get("similarity"),
            "confidence": 1.0,
            "decided_by": by,
            "reason": f"it stood for the group and was deleted by {by}; {taker} stands for it since",
            "run_id": run_id,
        },
    )
    desk.count(group, stands=taker)
    return {"by": taker, "row": row}


# ---- taking back


def split(desk: Desk, chunk_ids: set[str], group: str, *, stands: str, stood: str | None = None) -> None:
    """The chunks leave their group and are one of their own, under an id and stood for by one of them. Who stood for
    the rest goes on, or, gone along, who stood for it when they came (`stood`), else the first seen."""
    one = next(iter(chunk_ids))
    old = desk.group_of(one)
    stood_now, rest = desk.stands_for(old), desk.members[old] - chunk_ids
    rest_id = old
    if rest and (old == group or old in chunk_ids):
        # A group bears the id of one of its chunks. If that is the one to go, it takes the id along.
        rest_id = min(rest, key=lambda each: (desk.chunk(each)["first_seen_at"], each))
        desk.move(rest, rest_id)
    desk.move(chunk_ids, group)
    led_to = rest_id if rest else group
    for each in (group, led_to):
        desk.drop("forwards", each)
    for each in desk.leading_to(old) if led_to != old else ():
        desk.change("forwards", each, forwards_to=led_to)
    if rest:
        left = stood_now if stood_now in rest else _next_in_line(desk, rest, gone=stood_now, stood=stood)
        desk.count(rest_id, stands=left)
    if old not in (group, rest_id) or not rest:
        desk.count(old, stands=stood_now)
    desk.count(group, stands=stands)


def _next_in_line(desk: Desk, rest: set[str], *, gone: str, stood: str | None) -> str:
    """Who stands for the rest of a group that its standing chunk has left. One that had been deleted while it stood,
    and for which the one that is gone had taken over, hands over to another."""
    for done in standing_decisions(desk, rest):
        effects = Effects.read(done["effects"])
        if done["decision"] == DELETE and effects.taken_over is not None and effects.taken_over["by"] == gone:
            taker = desk.first_of(rest - {done["chunk_id"]})
            effects.taken_over = None if taker is None else {"by": taker, "row": desk.get("variants", taker)}
            desk.change("review_decisions", done["decision_id"], effects=effects.packed())
            return taker if taker is not None else str(done["chunk_id"])
    if stood is not None and stood in rest and desk.chunk(stood)["deleted_at"] is None:
        return stood
    return desk.first_of(rest) or min(rest)


def standing_decisions(desk: Desk, chunk_ids: Iterable[str]) -> list[Row]:
    """The decisions about these chunks that were applied and not taken back, in their order."""
    rows = [desk.table("review_decisions")[each] for each in desk.decisions_about(chunk_ids)]
    standing = [row for row in rows if row["outcome"] == APPLIED and row["decision"] != UNDO and not row["undone_by"]]
    return sorted(standing, key=_order)


def _order(decision: Row) -> tuple[str, int]:
    """Decisions in the order in which they were applied."""
    return decision["run_id"] or "", decision["seq"] or 0


def take_back(desk: Desk, done: Row, *, run_id: str, at: datetime) -> None:
    """Restores what was before a decision, as far as nothing else has changed it since."""
    effects, chunk_id = Effects.read(done["effects"]), done["chunk_id"]
    touched = {chunk_id}
    if effects.moved is not None and chunk_id in desk.table("chunks"):
        touched |= _move_back(desk, chunk_id, effects.moved)
    if done["decision"] == DELETE:
        touched |= _stand_again(desk, chunk_id, effects.taken_over)
    # Who replaces whom is set by decisions about either.
    replacing = {each for name, both in effects.claims.items() if name.endswith("/superseded_by") for each in both}
    about = {chunk_id, *(each for each in replacing if each is not None)}
    for name in effects.claims:
        touched |= _give_back(desk, done, effects, name, about=about)
    desk.settle_questions(touched & set(desk.table("chunks")), at=at, run_id=run_id)


def _move_back(desk: Desk, chunk_id: str, moved: dict[str, Any]) -> set[str]:
    now = desk.group_of(chunk_id)
    if now == moved["group"] or desk.get("canonicals", moved["group"]) is not None:
        return set()
    touched = set(desk.members[now])
    going = {each for each in moved["chunks"] if each in desk.members[now]}
    split(desk, going, moved["group"], stands=chunk_id, stood=moved["stands"])
    for each in sorted(going & set(moved["variants"])):
        desk.put("variants", {**moved["variants"][each], "canonical_id": moved["group"]})
    for each in moved["led"]:
        row = desk.get("forwards", each)
        if row is not None and desk.get("canonicals", each) is None:
            desk.change("forwards", each, forwards_to=moved["group"])
    desk.count(moved["group"], stands=chunk_id)
    return touched


def _stand_again(desk: Desk, chunk_id: str, taken_over: dict[str, Any] | None) -> set[str]:
    group = desk.group_of(chunk_id)
    if taken_over is None or group not in desk.members or desk.stands_for(group) != taken_over["by"]:
        return set()
    taker, row = taken_over["by"], taken_over["row"]
    desk.count(group, stands=chunk_id)
    desk.put("variants", {**row, "canonical_id": group})
    desk.count(group, stands=chunk_id)
    return set(desk.members[group]) | {taker}


def _give_back(desk: Desk, done: Row, effects: Effects, name: str, *, about: set[str]) -> set[str]:
    """What was before a claim of the decision is there again, or goes to the next decision that claims the same."""
    table, key, column = name.split("/")
    was, mine = effects.claims[name]
    ends = _ends_of(desk, table, key) | about
    for other in standing_decisions(desk, ends):
        if other["decision_id"] == done["decision_id"] or _order(other) < _order(done):
            continue
        theirs = Effects.read(other["effects"])
        if name in theirs.claims:
            theirs.claims[name][0] = was
            desk.change("review_decisions", other["decision_id"], effects=theirs.packed())
            return ends
    row = desk.get(table, key)
    if column:
        if row is not None and row[column] == mine:
            desk.change(table, key, **{column: was})
    elif row is not None and row == mine:
        if was is None:
            desk.drop(table, key)
        else:
            desk.put(table, was)
    return ends


def _ends_of(desk: Desk, table: str, key: str) -> set[str]:
    """The chunks that a row is about."""
    if table == "chunks":
        return {key}
    row = desk.get(table, key)
    if row is None:
        return set()
    return {row["chunk_id"]} if table == "pending_reviews" else {row["left_id"], row["right_id"]}
