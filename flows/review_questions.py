"""The queue as it is read: the published mart, less what the journal has decided since."""

import base64
import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from flows.mart_reader import MartReader, Stamp
from flows.review_journal import Journal, Written, moment
from flows.review_terms import (
    Candidate,
    Contradiction,
    Contradictions,
    Decision,
    Filters,
    Item,
    NoSuchQuestion,
    Page,
    Question,
    Shown,
)
from schemas.terms import RESOLUTIONS, UNDO
from transforms.decisions import came_to_nothing

_ITEM = (
    "review_id, scope, chunk_id, kind, source, source_row_id, text, relation, confidence, similarity, candidates, "
    "reason, asked_us, best_chunk_id, best_canonical_id"
)
_SHOWN = (
    "chunk_id, canonical_id, scope, kind, text, metadata, source, source_row_id, source_doc_id, occurrences, "
    "epoch_us(first_seen_at) as first_us, epoch_us(last_seen_at) as last_us, "
    "superseded_by is null and deleted_at is null as is_current"
)
# Up to so many questions that were answered since are told apart by a scan, which keeps the order; more by a join.
_HIDDEN_ONE_BY_ONE = 200
# Up to so many keys are named one by one, so that only the rows they are of are read.
_NAMED = 64
_CURSOR_ID = re.compile(r"[0-9a-f]{1,64}")
_FARTHEST = 2**62
Scopes = frozenset[str] | None


@dataclass
class _Outstanding:
    """What the journal has and the mart has not, as of a mart and an entry of the journal. `hidden` are the questions,
    with the moment they were asked, that those entries answer."""

    stamp: Stamp
    seq: int
    applied: dict[str, str]
    entries: list[Written] = field(default_factory=list)
    hidden: dict[str, tuple[str, int]] = field(default_factory=dict)


class Questions:
    """Reads the questions that are open, and those that were answered."""

    def __init__(self, mart: MartReader, journal: Journal) -> None:
        self._mart, self._journal = mart, journal
        self._lock = threading.Lock()
        self._known: _Outstanding | None = None

    # ---- what is decided and not yet published

    def outstanding(self) -> _Outstanding:
        """The entries of the journal that the mart does not show yet."""
        with self._lock:
            stamp, last = self._mart.stamp(), self._journal.last_seq()
            known = self._known
            if known is None or known.stamp != stamp:
                applied = dict(self._mart.rows("select decision_id, coalesce(outcome, '') from mart.review_decisions"))
                missing = [each for each in self._journal.ids() if each not in applied]
                known = _Outstanding(stamp, 0, applied)
                self._take(known, self._journal.entries(missing))
                known.seq = last
            elif known.seq != last:
                self._take(known, self._journal.after(known.seq))
                known.seq = last
            self._known = known
            return known

    def _take(self, known: _Outstanding, entries: list[Written]) -> None:
        for entry in entries:
            known.entries.append(entry)
            if entry.decision == UNDO:
                known.hidden.pop(entry.undoes or "", None)
            elif entry.decision not in RESOLUTIONS:
                known.hidden[entry.decision_id] = (entry.review_id, entry.asked_us)

    def _without_hidden(self, scopes: Scopes, filters: Filters) -> tuple[str, list[Any]]:
        """The condition, and its values, of the items that are open to this reader."""
        where, given = ["true"], list[Any]()
        if scopes is not None:
            where.append("list_contains($n::varchar[], scope)")
            given.append(sorted(scopes))
        hidden = [_place(asked_us, review_id) for review_id, asked_us in self.outstanding().hidden.values()]
        if hidden:
            one_by_one = len(hidden) <= _HIDDEN_ONE_BY_ONE
            where.append(
                "not list_contains($n::hugeint[], place)"
                if one_by_one
                else "place not in (select unnest($n::hugeint[]))"
            )
            given.append(hidden)
        for name, value in (("scope", filters.scope), ("relation", filters.relation), ("source", filters.source)):
            if value is not None:
                where.append(f"{name} = $n")
                given.append(value)
        for bound, limit in (
            ("confidence >=", filters.min_confidence),
            ("confidence <=", filters.max_confidence),
            ("similarity >=", filters.min_similarity),
            ("similarity <=", filters.max_similarity),
        ):
            if limit is not None:
                where.append(f"{bound} $n")
                given.append(limit)
        if filters.older_than_days is not None:
            where.append("queued_at < now() - to_days($n::int)")
            given.append(filters.older_than_days)
        if filters.text is not None and filters.text.strip():
            where.append("chunk_id in (select chunk_id from mart.chunks where contains(lower(text), lower($n)))")
            given.append(filters.text.strip())
        return _numbered(" and ".join(where)), given

    # ---- the list

    def page(self, filters: Filters, *, scopes: Scopes, cursor: str | None, limit: int) -> Page:
        """Some open questions, oldest first."""
        where, given = self._without_hidden(scopes, filters)
        way, at = _read_cursor(cursor)
        if at is not None:
            where += f" and {_beyond(way, len(given))}"
            given.append(_place(*at))
        rows = self._mart.rows(
            f"select {_ITEM} from mart.review_items where {where} {_in_order(way, where)} limit {limit + 1}", given
        )
        more, rows = len(rows) > limit, rows[:limit]
        if way == "before":
            rows.reverse()
        items = [_item(row) for row in rows]
        has_before, has_after = (more, at is not None) if way == "before" else (at is not None, more)
        return Page(
            items,
            before=_cursor("before", rows[0]) if rows and has_before else None,
            after=_cursor("after", rows[-1]) if rows and has_after else None,
        )

    def every(self, filters: Filters, *, scopes: Scopes, where: str = "true") -> list[Item]:
        """All open questions for which it holds, oldest first."""
        condition, given = self._without_hidden(scopes, filters)
        return [
            _item(row)
            for row in self._mart.rows(
                f"select {_ITEM} from mart.review_items where {condition} and {where} order by place",
                given,
            )
        ]

    def counts(self, filters: Filters, *, scopes: Scopes) -> dict[str, Any]:
        """How many questions are open, by relation, scope and source."""
        where, given = self._without_hidden(scopes, filters)
        rows = self._mart.rows(
            "select relation, scope, source, count(*) from mart.review_items "
            f"where {where} group by grouping sets ((), (relation), (scope), (source))",
            given,
        )
        told: dict[str, Any] = {"open": 0, "by_relation": {}, "by_scope": {}, "by_source": {}}
        for relation, scope, source, count in rows:
            if scope is not None:
                told["by_scope"][scope] = count
            elif source is not None:
                told["by_source"][source] = count
            elif relation is not None:
                told["by_relation"][relation] = count
            else:
                told["open"] = count
        return {name: dict(sorted(each.items())) if isinstance(each, dict) else each for name, each in told.items()}

    def neighbours(self, review_id: str, filters: Filters, *, scopes: Scopes) -> tuple[str | None, str | None]:
        """The open question before it in the list, and the one after."""
        asked = self._asked(review_id, scopes=scopes)
        where, given = self._without_hidden(scopes, filters)
        found: list[str | None] = []
        for way in ("before", "after"):
            rows = self._mart.rows(
                f"select review_id from mart.review_items where {where} and {_beyond(way, len(given))} "
                f"{_in_order(way, where)} limit 1",
                [*given, _place(asked["asked_us"], review_id)],
            )
            found.append(rows[0][0] if rows else None)
        return found[0], found[1]

    # ---- one question

    def asked(self, review_ids: list[str], *, scopes: Scopes) -> dict[str, dict[str, Any]]:
        """The rows of `pending_reviews` of these ids that the reader may see, answered ones included."""
        where, given = _among("review_id", review_ids)
        if scopes is not None:
            where += f" and scope in (select unnest(${len(given) + 1}::varchar[]))"
            given.append(sorted(scopes))
        rows = self._mart.dicts(
            "select review_id, scope, chunk_id, candidates, reason, epoch_us(queued_at) as asked_us, "
            "epoch_us(reviewed_at) as reviewed_us, reviewed_by, decision, notes "
            f"from mart.pending_reviews where {where}",
            given,
        )
        return {row["review_id"]: row for row in rows}

    def beginning(self, beginning: str, *, scopes: Scopes) -> list[str]:
        """Some of the questions whose id begins so; the one alone that is it."""
        where, given = "starts_with(review_id, $1)", list[Any]([beginning])
        if scopes is not None:
            where += " and scope in (select unnest($2::varchar[]))"
            given.append(sorted(scopes))
        query = f"select review_id from mart.pending_reviews where {where} order by review_id limit 100"
        return [review_id for (review_id,) in self._mart.rows(query, given)]

    def _asked(self, review_id: str, *, scopes: Scopes) -> dict[str, Any]:
        found = self.asked([review_id], scopes=scopes).get(review_id)
        if found is None:
            raise no_such("question", review_id)
        return found

    def question(self, review_id: str, *, scopes: Scopes) -> Question:
        """The chunk beside its candidates."""
        asked = self._asked(review_id, scopes=scopes)
        told = [each for each in json.loads(asked["candidates"]) if isinstance(each, dict)]
        shown = self.shown([asked["chunk_id"], *(each["chunk_id"] for each in told)], scope=asked["scope"])
        candidates = [
            Candidate(
                shown[each["chunk_id"]],
                each.get("similarity"),
                each.get("reading"),
                each.get("relation"),
                each.get("confidence"),
                each.get("evidence"),
            )
            for each in told
            if each["chunk_id"] in shown
        ]
        return Question(
            review_id,
            shown[asked["chunk_id"]],
            candidates,
            asked["reason"],
            moment(asked["asked_us"]),
            self.answers([asked])[review_id],
        )

    def answers(self, asked: list[dict[str, Any]]) -> dict[str, Decision | None]:
        """How each of these questions is answered: by the decision that stands, else as the tables say."""
        standing = self._journal.standing([row["review_id"] for row in asked])
        entries = {entry.decision_id: entry for entry in self._journal.entries(standing.values())}
        known = self.outstanding()
        answers: dict[str, Decision | None] = {}
        for row in asked:
            decision_id = standing.get((row["review_id"], row["asked_us"]))
            if decision_id is not None and not came_to_nothing(known.applied.get(decision_id, "")):
                answers[row["review_id"]] = self._told(entries[decision_id], known)
            elif row["reviewed_us"] is None or self._is_reopened(row, known):
                answers[row["review_id"]] = None
            else:
                answers[row["review_id"]] = Decision(
                    decision_id="",
                    review_id=row["review_id"],
                    decision=row["decision"] or "closed",
                    target_canonical_id=None,
                    reviewer=row["reviewed_by"] or "a run",
                    notes=row["notes"],
                    decided_at=moment(row["reviewed_us"]),
                    is_applied=True,
                    scope=row["scope"],
                    chunk_id=row["chunk_id"],
                )
        return answers

    def refused(self, review_ids: list[str]) -> list[str]:
        """The decisions on these questions that came to nothing, and still bar the way to another."""
        known, standing = self.outstanding(), self._journal.standing(review_ids)
        return [each for each in standing.values() if came_to_nothing(known.applied.get(each, ""))]

    def _is_reopened(self, row: dict[str, Any], known: _Outstanding) -> bool:
        """Whether an undo that is still to be applied takes the answer of the tables back."""
        return any(
            entry.decision == UNDO and entry.review_id == row["review_id"] and entry.asked_us == row["asked_us"]
            for entry in known.entries
        )

    def _told(self, entry: Written, known: _Outstanding, undone_by: str | None = None) -> Decision:
        outcome = known.applied.get(entry.decision_id)
        return entry.told(is_applied=outcome is not None, outcome=outcome, undone_by=undone_by)

    def told(self, entries: list[Written]) -> list[Decision]:
        """Entries of the journal with what came of them."""
        known = self.outstanding()
        undone = self._journal.undone([entry.decision_id for entry in entries])
        return [self._told(entry, known, undone.get(entry.decision_id)) for entry in entries]

    def shown(self, chunk_ids: list[str], *, scope: str) -> dict[str, Shown]:
        """Chunks of a scope as a reviewer sees them."""
        where, given = _among("chunk_id", chunk_ids)
        query = f"select {_SHOWN} from mart.chunks where {where} and scope = ${len(given) + 1}"
        rows = self._mart.dicts(query, [*given, scope])
        where, given = _among("canonical_id", [row["canonical_id"] for row in rows])
        sizes = dict(self._mart.rows(f"select canonical_id, variants + 1 from mart.canonicals where {where}", given))
        return {row["chunk_id"]: _shown({**row, "group_size": sizes.get(row["canonical_id"], 1)}) for row in rows}

    def texts(self, chunk_ids: list[str]) -> dict[str, str | None]:
        """The whole texts of chunks."""
        query = "select chunk_id, text from mart.chunks where chunk_id in (select unnest($1::varchar[]))"
        return dict(self._mart.rows(query, [chunk_ids]))

    def occurrences(self, chunk_id: str, *, scopes: Scopes, limit: int) -> list[dict[str, Any]]:
        """The input rows that say a chunk, first seen first."""
        where, given = "chunk_id = $1", list[Any]([chunk_id])
        if scopes is not None:
            where += " and scope in (select unnest($2::varchar[]))"
            given.append(sorted(scopes))
        rows = self._mart.dicts(
            "select occurrence_id, source, source_row_id, source_doc_id, chunk_index, metadata, run_id, "
            f"epoch_us(seen_at) as seen_us from mart.occurrences where {where} "
            f"order by seen_at, source, source_row_id, chunk_index limit {int(limit)}",
            given,
        )
        return [{"seen_at": moment(row.pop("seen_us")), **row, "metadata": _json(row["metadata"])} for row in rows]

    # ---- contradictions

    def contradictions(
        self, *, scopes: Scopes, status: str, cursor: str | None, limit: int, pair_id: str | None = None
    ) -> Contradictions:
        """Contradictions of a status, less those that the journal has resolved since; or the one of an id."""
        where, given = ["status = $n" if pair_id is None else "pair_id = $n"], list[Any]([pair_id or status])
        if scopes is not None:
            where.append("scope in (select unnest($n::varchar[]))")
            given.append(sorted(scopes))
        resolved = [entry.review_id for entry in self.outstanding().entries if entry.decision in RESOLUTIONS]
        standing = {review_id for review_id, _ in self._journal.standing(resolved)}
        if standing and pair_id is None:
            where.append("pair_id not in (select unnest($n::varchar[]))")
            given.append(sorted(standing))
        way, at = _read_cursor(cursor)
        if at is not None:
            where.append(f"pair_id {'>' if way == 'after' else '<'} $n")
            given.append(at[1])
        order = "asc" if way == "after" else "desc"
        rows = self._mart.dicts(
            "select pair_id, scope, left_id, right_id, evidence, status from mart.contradictions "
            f"where {_numbered(' and '.join(where))} order by pair_id {order} limit {limit + 1}",
            given,
        )
        more, rows = len(rows) > limit, rows[:limit]
        if way == "before":
            rows.reverse()
        items = self._both_sides(rows)
        has_before, has_after = (more, at is not None) if way == "before" else (at is not None, more)
        return Contradictions(
            items,
            before=_encoded("before", 0, rows[0]["pair_id"]) if rows and has_before else None,
            after=_encoded("after", 0, rows[-1]["pair_id"]) if rows and has_after else None,
        )

    def _both_sides(self, rows: list[dict[str, Any]]) -> list[Contradiction]:
        shown: dict[str, Shown] = {}
        for scope in sorted({row["scope"] for row in rows}):
            ids = [row[side] for row in rows if row["scope"] == scope for side in ("left_id", "right_id")]
            shown |= self.shown(ids, scope=scope)
        standing = self._journal.standing([row["pair_id"] for row in rows])
        known = self.outstanding()
        stand = [each for each in standing.values() if not came_to_nothing(known.applied.get(each, ""))]
        entries = {entry.review_id: entry for entry in self._journal.entries(stand)}
        return [
            Contradiction(
                row["pair_id"],
                row["scope"],
                shown[row["left_id"]],
                shown[row["right_id"]],
                row["evidence"],
                row["status"],
                self._told(entries[row["pair_id"]], known) if row["pair_id"] in entries else None,
            )
            for row in rows
        ]


def no_such(what: str, name: str) -> NoSuchQuestion:
    """The one answer for what is not there and for what the reader may not see."""
    return NoSuchQuestion(f"{name}: no such {what}; `nightfold review list` shows what is open")


def _among(column: str, keys: list[str]) -> tuple[str, list[Any]]:
    """The condition that a column is one of these keys, and its values."""
    if 0 < len(keys) <= _NAMED:
        return f"{column} in ({', '.join(f'${n}' for n in range(1, len(keys) + 1))})", list(keys)
    return f"{column} in (select unnest($1::varchar[]))", [keys]


def _beyond(way: str, given: int) -> str:
    """The condition of the items before or after a place, which is the next value."""
    return f"place {'>' if way == 'after' else '<'} ${given + 1}::hugeint"


def _place(asked_us: int, review_id: str) -> int:
    """Where a question stands in the list, as the mart has it."""
    return (asked_us << 64) + int(review_id[:16], 16)


def _in_order(way: str, where: str) -> str:
    """Forward nothing is sorted: the table stands in this order, and a scan keeps it, so that it is read until the page
    is full. A condition that joins does not keep it."""
    if way == "before":
        return "order by place desc"
    return "order by place" if "(select " in where else ""


def _numbered(condition: str) -> str:
    """`$n` by its place: the first is $1."""
    parts = condition.split("$n")
    return "".join(part if n == 0 else f"${n}{part}" for n, part in enumerate(parts))


def _item(row: tuple[Any, ...]) -> Item:
    values = dict(zip(_ITEM.split(", "), row, strict=True))
    return Item(queued_at=moment(values.pop("asked_us")), **values)


def _shown(row: dict[str, Any]) -> Shown:
    first, last = moment(row.pop("first_us")), moment(row.pop("last_us"))
    return Shown(**{**row, "metadata": _json(row["metadata"])}, first_seen_at=first, last_seen_at=last)


def _json(text: str | None) -> dict[str, Any]:
    said = json.loads(text or "{}")
    return said if isinstance(said, dict) else {"value": said}


def _cursor(way: str, row: tuple[Any, ...]) -> str:
    values = dict(zip(_ITEM.split(", "), row, strict=True))
    return _encoded(way, values["asked_us"], values["review_id"])


def _encoded(way: str, number: int, name: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([way, number, name]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str | None) -> tuple[str, list[Any] | None]:
    """Which way it leads, and from where; a cursor that is none leads from the beginning."""
    if not cursor:
        return "after", None
    try:
        way, number, name = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if (
            way in ("before", "after")
            and isinstance(number, int)
            and isinstance(name, str)
            and _CURSOR_ID.fullmatch(name)
        ):
            return way, [max(-_FARTHEST, min(number, _FARTHEST)), name]
    except (ValueError, TypeError, RecursionError):
        pass
    return "after", None
