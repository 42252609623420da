"""The journal of reviews: every decision as it was taken, and the audit record. It takes them at any time, also while
a night holds the warehouse; the tables follow as soon as nobody does.

Decisions are appended and never changed; an undo is one too. Of two decisions on one question only the first can
stand: `standing` has one row for each time a question was asked.
"""

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from blake3 import blake3

from flows.errors import NightfoldError
from flows.review_terms import AlreadyDecided, Decision, Entry, NoSuchQuestion
from schemas.terms import UNDO

FILE_NAME = "review.sqlite"
_BUSY_SECONDS = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SOME = 500
_COLUMNS = (
    "seq, decision_id, review_id, asked_us, scope, chunk_id, decision, target_canonical_id, reviewer, notes, "
    "decided_us, batch_id, undoes, question"
)
_SCHEMA = """
create table if not exists decisions (
  seq integer primary key autoincrement,
  decision_id text not null unique,
  review_id text not null,
  asked_us integer not null,
  scope text not null,
  chunk_id text not null,
  decision text not null,
  target_canonical_id text,
  reviewer text not null,
  notes text,
  decided_us integer not null,
  batch_id text,
  undoes text unique,
  question text not null
) strict;
create index if not exists decisions_by_question on decisions (review_id);
create index if not exists decisions_by_batch on decisions (batch_id) where batch_id is not null;
create table if not exists standing (
  review_id text not null,
  asked_us integer not null,
  decision_id text not null unique,
  primary key (review_id, asked_us)
) strict, without rowid;
create table if not exists audit (
  seq integer primary key autoincrement,
  at_us integer not null,
  who text not null,
  what text not null,
  about text,
  scope text,
  allowed integer not null,
  detail text not null
) strict;
create trigger if not exists decisions_stay before update on decisions
begin select raise(abort, 'decisions are never changed'); end;
create trigger if not exists decisions_are_kept before delete on decisions
begin select raise(abort, 'decisions are never deleted'); end;
create trigger if not exists audit_stays before update on audit
begin select raise(abort, 'the audit record is never changed'); end;
create trigger if not exists audit_is_kept before delete on audit
begin select raise(abort, 'the audit record is never deleted'); end;
"""


class JournalDamaged(NightfoldError):
    """The journal is there and cannot be read or written."""


@dataclass(frozen=True)
class Written:
    """An entry of the journal. `question` is what was asked, as the tables had it when it was answered."""

    seq: int
    decision_id: str
    review_id: str
    asked_us: int
    scope: str
    chunk_id: str
    decision: str
    target_canonical_id: str | None
    reviewer: str
    notes: str | None
    decided_us: int
    batch_id: str | None
    undoes: str | None
    question: dict[str, Any]

    @property
    def decided_at(self) -> datetime:
        return moment(self.decided_us)

    def told(self, *, is_applied: bool = False, undone_by: str | None = None, outcome: str | None = None) -> Decision:
        """The entry as the page and the command line see it."""
        return Decision(
            decision_id=self.decision_id,
            review_id=self.review_id,
            decision=self.decision,
            target_canonical_id=self.target_canonical_id,
            reviewer=self.reviewer,
            notes=self.notes,
            decided_at=self.decided_at,
            is_applied=is_applied,
            undone_by=undone_by,
            batch_id=self.batch_id,
            undoes=self.undoes,
            scope=self.scope,
            chunk_id=self.chunk_id,
            outcome=outcome,
        )


@dataclass(frozen=True)
class New:
    """A decision to be written."""

    review_id: str
    asked_us: int
    scope: str
    chunk_id: str
    decision: str
    target_canonical_id: str | None
    notes: str | None
    question: dict[str, Any]


def moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


class Journal:
    """The file `review.sqlite` of a warehouse. Made when it is first written; every call has its own connection, so
    that threads and processes share it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    @contextmanager
    def _open(self, *, write: bool) -> Iterator[sqlite3.Connection | None]:
        """A transaction; None where there is no journal yet and nothing is to be written: no file, or one that has
        only the tokens of the page."""
        if not write and not self.path.exists():
            yield None
            return
        try:
            if write:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            journal = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            with contextlib.closing(journal):
                journal.execute("pragma synchronous = full")
                if write and journal.execute("pragma journal_mode").fetchone()[0] != "wal":
                    _to_wal(journal)
                if write:
                    journal.executescript(_SCHEMA)
                journal.execute("begin immediate" if write else "begin")
                try:
                    yield journal if write or _is_whole(journal) else None
                except BaseException:
                    journal.execute("rollback")
                    raise
                journal.execute("commit")
        except (sqlite3.Error, OSError) as error:
            raise JournalDamaged(
                f"{self.path}: cannot be {'written' if write else 'read'}: {error}; see to who owns it and how "
                "much room there is, or restore it from a backup"
            ) from error

    # ---- reading

    def last_seq(self) -> int:
        """The number of the latest entry; 0 where there is none."""
        with self._open(write=False) as journal:
            if journal is None:
                return 0
            return int(journal.execute("select coalesce(max(seq), 0) from decisions").fetchone()[0])

    def after(self, seq: int) -> list[Written]:
        """The entries after this one, in order."""
        return self._entries("seq > ? order by seq", [seq])

    def ids(self) -> list[str]:
        """Every decision_id, in order."""
        with self._open(write=False) as journal:
            if journal is None:
                return []
            return [each for (each,) in journal.execute("select decision_id from decisions order by seq")]

    def entries(self, decision_ids: Iterable[str]) -> list[Written]:
        """The entries of these ids, in order."""
        found = []
        wanted = list(decision_ids)
        for start in range(0, len(wanted), _SOME):
            some = wanted[start : start + _SOME]
            found += self._entries(f"decision_id in ({','.join('?' * len(some))})", some)
        return sorted(found, key=lambda entry: entry.seq)

    def of_question(self, review_id: str) -> list[Written]:
        """The entries about a question, in order."""
        return self._entries("review_id = ? order by seq", [review_id])

    def of_batch(self, batch_id: str) -> list[Written]:
        """The entries that came together, in order."""
        return self._entries("batch_id = ? order by seq", [batch_id])

    def latest(self, *, scopes: frozenset[str] | None, by: str | None, limit: int) -> list[Written]:
        """The latest entries, latest first."""
        where, given = ["true"], []
        if scopes is not None:
            where.append("scope in (select value from json_each(?))")
            given.append(json.dumps(sorted(scopes)))
        if by is not None:
            where.append("reviewer = ?")
            given.append(by)
        return self._entries(f"{' and '.join(where)} order by seq desc limit {int(limit)}", given)

    def standing(self, review_ids: Sequence[str]) -> dict[tuple[str, int], str]:
        """The decision that stands on these questions, by question and when it was asked."""
        found: dict[tuple[str, int], str] = {}
        with self._open(write=False) as journal:
            for start in range(0, len(review_ids) if journal is not None else 0, _SOME):
                assert journal is not None  # nothing is asked of a journal that is not there
                some = list(review_ids[start : start + _SOME])
                rows = journal.execute(
                    f"select review_id, asked_us, decision_id from standing where review_id in "
                    f"({','.join('?' * len(some))})",
                    some,
                )
                found |= {(review_id, asked): decision_id for review_id, asked, decision_id in rows}
        return found

    def undone(self, decision_ids: Sequence[str]) -> dict[str, str]:
        """Of these decisions those that were taken back, and the entry that did it."""
        found: dict[str, str] = {}
        with self._open(write=False) as journal:
            for start in range(0, len(decision_ids) if journal is not None else 0, _SOME):
                assert journal is not None  # nothing is asked of a journal that is not there
                some = list(decision_ids[start : start + _SOME])
                rows = journal.execute(
                    f"select undoes, decision_id from decisions where undoes in ({','.join('?' * len(some))})", some
                )
                found |= dict(rows.fetchall())
        return found

    def beginning(self, beginning: str, *, scopes: frozenset[str] | None) -> list[tuple[str, bool]]:
        """Some of the decisions and batches whose id begins so, and whether it is a batch."""
        where, given = "true", list[Any]([f"{beginning}*"])
        if scopes is not None:
            where = "scope in (select value from json_each(?2))"
            given.append(json.dumps(sorted(scopes)))
        with self._open(write=False) as journal:
            if journal is None:
                return []
            rows = journal.execute(
                f"select decision_id, 0 from decisions where decision_id glob ?1 and undoes is null and {where} "
                f"union select batch_id, 1 from decisions where batch_id glob ?1 and {where} limit 100",
                given,
            )
            return [(name, bool(is_batch)) for name, is_batch in rows]

    def _entries(self, where: str, given: Sequence[Any]) -> list[Written]:
        with self._open(write=False) as journal:
            if journal is None:
                return []
            return [_entry(row) for row in journal.execute(f"select {_COLUMNS} from decisions where {where}", given)]

    # ---- writing: durable when it returns

    def write(self, decisions: Sequence[New], *, by: str, batch_id: str | None) -> list[Written]:
        """Appends the decisions, all of them; or none and AlreadyDecided, where somebody was first on a question."""
        with self._open(write=True) as journal:
            assert journal is not None  # opened to be written
            return [_append(journal, each, by=by, batch_id=batch_id) for each in decisions]

    def undo(self, entries: Sequence[Written], *, by: str) -> list[Written]:
        """Appends an undo for each of the decisions, which must stand."""
        with self._open(write=True) as journal:
            assert journal is not None  # opened to be written
            written = []
            for entry in entries:
                gone = journal.execute(
                    "delete from standing where decision_id = ? returning asked_us", [entry.decision_id]
                ).fetchall()
                if not gone:
                    who = journal.execute(
                        "select reviewer from decisions where undoes = ?", [entry.decision_id]
                    ).fetchone()
                    why = f"{who[0]} has undone it already" if who else "it came to nothing and does not stand"
                    raise NoSuchQuestion(f"{entry.decision_id}: {why}; `nightfold review log` shows what stands")
                back = New(
                    entry.review_id, entry.asked_us, entry.scope, entry.chunk_id, UNDO, None, None, entry.question
                )
                written.append(_append(journal, back, by=by, batch_id=None, undoes=entry.decision_id))
            return written

    def release(self, decision_ids: Sequence[str]) -> None:
        """Those decisions came to nothing when they were to be applied: their questions may be answered again."""
        with self._open(write=True) as journal:
            assert journal is not None  # opened to be written
            journal.executemany("delete from standing where decision_id = ?", [[each] for each in decision_ids])

    def audit(self, who: str, what: str, about: str | None, *, allowed: bool, detail: str, scope: str | None) -> None:
        """Appends a line to the audit record."""
        with self._open(write=True) as journal:
            assert journal is not None  # opened to be written
            _audit(journal, who, what, about, allowed=allowed, detail=detail, scope=scope)

    def audit_entries(
        self, *, scopes: frozenset[str] | None, before: int | None, limit: int, who: str | None = None
    ) -> list[Entry]:
        """Lines of the audit record, latest first."""
        where, given = ["true"], []
        if scopes is not None:
            where.append("scope in (select value from json_each(?))")
            given.append(json.dumps(sorted(scopes)))
        if before is not None:
            where.append(f"seq < {int(before)}")
        if who is not None:
            where.append("who = ?")
            given.append(who)
        with self._open(write=False) as journal:
            if journal is None:
                return []
            rows = journal.execute(
                "select seq, at_us, who, what, about, scope, allowed, detail from audit "
                f"where {' and '.join(where)} order by seq desc limit {int(limit)}",
                given,
            )
            return [
                Entry(seq, moment(at), who_, what, about, scope, bool(allowed), detail)
                for seq, at, who_, what, about, scope, allowed, detail in rows
            ]


def _is_whole(journal: sqlite3.Connection) -> bool:
    """Whether the tables of the journal are there: they are made before anything is written into them."""
    named = "select count(*) from sqlite_master where type = 'table' and name in ('decisions', 'standing', 'audit')"
    return bool(journal.execute(named).fetchone()[0] == 3)


def _to_wal(journal: sqlite3.Connection) -> None:
    """A new journal keeps a log of its own. SQLite does not wait for another process that does the same just now."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            journal.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _append(
    journal: sqlite3.Connection, new: New, *, by: str, batch_id: str | None, undoes: str | None = None
) -> Written:
    before = journal.execute("select count(*) from decisions where review_id = ?", [new.review_id]).fetchone()[0]
    said = json.dumps([new.review_id, new.asked_us, before, new.decision, new.target_canonical_id, by, undoes])
    decision_id = blake3(said.encode()).hexdigest()[:32]
    if undoes is None:
        taken = journal.execute(
            f"select {_COLUMNS} from decisions where decision_id in "
            "(select decision_id from standing where review_id = ? and asked_us = ?)",
            [new.review_id, new.asked_us],
        ).fetchone()
        if taken:
            raise already(_entry(taken).told())
        journal.execute("insert into standing values (?, ?, ?)", [new.review_id, new.asked_us, decision_id])
    now = microseconds(datetime.now(UTC))
    row = journal.execute(
        f"insert into decisions ({_COLUMNS.removeprefix('seq, ')}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        f"returning {_COLUMNS}",
        [
            decision_id,
            new.review_id,
            new.asked_us,
            new.scope,
            new.chunk_id,
            new.decision,
            new.target_canonical_id,
            by,
            new.notes,
            now,
            batch_id,
            undoes,
            json.dumps(new.question, ensure_ascii=False),
        ],
    ).fetchone()
    about = undoes or new.review_id
    _audit(journal, by, new.decision, about, allowed=True, detail=new.notes or "", scope=new.scope, at=now)
    return _entry(row)


def _entry(row: tuple[Any, ...]) -> Written:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    return Written(**{**values, "question": json.loads(values["question"])})


def _audit(
    journal: sqlite3.Connection,
    who: str,
    what: str,
    about: str | None,
    *,
    allowed: bool,
    detail: str,
    scope: str | None,
    at: int | None = None,
) -> None:
    journal.execute(
        "insert into audit (at_us, who, what, about, scope, allowed, detail) values (?, ?, ?, ?, ?, ?, ?)",
        [at if at is not None else microseconds(datetime.now(UTC)), who, what, about, scope, int(allowed), detail],
    )


def already(standing: Decision) -> AlreadyDecided:
    """Who decided what, and when."""
    into = f" into {standing.target_canonical_id[:12]}" if standing.target_canonical_id else ""
    return AlreadyDecided(
        f"{standing.review_id}: {standing.reviewer} answered {standing.decision}{into} on "
        f"{standing.decided_at:%Y-%m-%d %H:%M:%S} UTC, and that stands; undo it first to decide otherwise",
        standing,
    )
