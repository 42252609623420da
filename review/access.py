"""Who may: personal tokens, sessions and limits on signing in, in the warehouse's `review.sqlite`.

Of tokens and sessions only digests are stored: who reads the file can sign in as nobody. Both are 256 random bits, so a
plain digest is enough, and nothing is to be had from trying.
"""

import contextlib
import hashlib
import hmac
import json
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from flows.errors import NightfoldError

Role = Literal["admin", "viewer"]
ADMIN: Role = "admin"
_ROLES = get_args(Role)
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,80}")
_TOKEN = re.compile(r"nf_([0-9a-f]{12})_([0-9A-Za-z_-]{43})")
_FAILURES_KEPT = timedelta(minutes=15)
_MOST_OF_ONE, _MOST_OF_ALL = 5, 50
_SEEN_EVERY = timedelta(seconds=30)
_BUSY_SECONDS = 10

_TABLES = """
create table if not exists access_tokens (
    token_id text primary key,
    digest text not null,
    name text not null,
    role text not null,
    scopes text,            -- JSON; null: every scope
    created_at text not null,
    expires_at text,
    revoked_at text
);
create unique index if not exists access_token_names on access_tokens (name) where revoked_at is null;
create table if not exists access_sessions (
    digest text primary key,
    token_id text not null references access_tokens,
    created_at text not null,
    seen_at text not null,
    said text               -- JSON: what the next page says
);
create table if not exists access_failures (address text not null, at text not null);
create index if not exists access_failures_by_time on access_failures (at);
"""


class BadToken(NightfoldError):
    """A token that cannot be made or is not there to be revoked."""


class AccessDamaged(NightfoldError):
    """The file of tokens and sessions cannot be read or written."""


class NotSignedIn(NightfoldError):
    """A token that opens nothing."""


class TooManyFailures(NightfoldError):
    """Signing in failed too often; `wait_seconds` until it may be tried again."""

    def __init__(self, wait_seconds: int) -> None:
        minutes = max(1, -(-wait_seconds // 60))
        told = "a minute" if minutes == 1 else f"{minutes} minutes"
        super().__init__(f"Too many sign-ins have failed. Wait {told}, then try again.")
        self.wait_seconds = wait_seconds


@dataclass(frozen=True)
class Token:
    """A token as it is on record: whose, and what it opens. `scopes` is None for every scope."""

    token_id: str
    name: str
    role: Role
    scopes: frozenset[str] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"


@dataclass(frozen=True)
class Session:
    """Someone who is signed in. `secret` is what their browser holds."""

    secret: str
    token: Token

    @property
    def name(self) -> str:
        return self.token.name

    @property
    def scopes(self) -> frozenset[str] | None:
        return self.token.scopes

    @property
    def may_decide(self) -> bool:
        return self.token.role == ADMIN

    @property
    def form_token(self) -> str:
        """What every form of this session carries: made from its secret, which no other page can read."""
        return hmac.new(self.secret.encode(), b"form", "sha256").hexdigest()

    def made(self, form_token: str) -> bool:
        """Whether a form comes from a page of this session."""
        return hmac.compare_digest(self.form_token.encode(), form_token.encode())


class Access:
    """Tokens and sessions of a warehouse."""

    def __init__(
        self,
        warehouse: Path,
        *,
        session_hours: float = 12,
        idle_minutes: float = 60,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.file = warehouse / "review.sqlite"
        self._lasts = timedelta(hours=session_hours)
        self._idles = timedelta(minutes=idle_minutes)
        self._now = now
        if not warehouse.is_dir():
            raise BadToken(f"{warehouse}: no such warehouse; `nightfold run` makes one")
        self._has_tables = False

    @contextmanager
    def _open(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction. One that only reads waits for nobody: a bulk action may write for seconds."""
        try:
            with contextlib.closing(sqlite3.connect(self.file, timeout=_BUSY_SECONDS, isolation_level=None)) as opened:
                opened.row_factory = sqlite3.Row
                if not self._has_tables:
                    # Before anything is in it; the files beside it take its rights over.
                    self.file.chmod(0o600)
                    if opened.execute("pragma journal_mode").fetchone()[0] != "wal":
                        opened.execute("pragma journal_mode = wal")
                    opened.executescript(_TABLES)
                    self._has_tables = True
                opened.execute("begin immediate" if write else "begin")
                yield opened
                opened.execute("commit")
        except sqlite3.IntegrityError:
            raise
        except (sqlite3.Error, OSError) as error:
            raise AccessDamaged(
                f"{self.file}: cannot be used: {error}; see to who owns it and how much room there is, or restore it "
                "from a backup"
            ) from error

    # ---- tokens

    def create_token(
        self, name: str, *, role: str = "viewer", scopes: list[str] | None = None, expires_days: float | None = None
    ) -> str:
        """The new token: shown this once, never again. None as `scopes` opens every scope."""
        if not _NAME.fullmatch(name) or not name.strip():
            raise BadToken(f"{name!r}: a name has 1 to 80 characters, not all blank, and no control characters")
        if role not in _ROLES:
            raise BadToken(f"--role {role}: no such role; there are {' and '.join(_ROLES)}")
        if expires_days is not None and not 0 < expires_days <= 36_500:
            raise BadToken(f"--expires-days {expires_days:g}: more than 0 and at most 36500")
        now = self._now()
        expires_at = None if expires_days is None else now + timedelta(days=expires_days)
        token_id = secrets.token_hex(6)
        token = f"nf_{token_id}_{secrets.token_urlsafe(32)}"
        row = (
            token_id,
            _digest(token),
            name,
            role,
            None if scopes is None else json.dumps(sorted(set(scopes)), ensure_ascii=False),
            now.isoformat(),
            None if expires_at is None else expires_at.isoformat(),
        )
        try:
            with self._open() as connection:
                connection.execute(
                    "insert into access_tokens (token_id, digest, name, role, scopes, created_at, expires_at) "
                    "values (?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
        except sqlite3.IntegrityError:
            raise BadToken(
                f"{name}: has a token already; revoke it first (`nightfold review token revoke {name}`)"
            ) from None
        return token

    def tokens(self) -> list[Token]:
        """Every token on record, oldest first; of the tokens themselves nothing is kept."""
        if not self.file.exists():
            return []
        with self._open(write=False) as connection:
            return [_token(row) for row in connection.execute("select * from access_tokens order by created_at, name")]

    def revoke(self, name: str) -> None:
        """The token of that name opens nothing any more, and its sessions end."""
        with self._open() as connection:
            gone = connection.execute(
                "update access_tokens set revoked_at = ? where name = ? and revoked_at is null",
                (self._now().isoformat(), name),
            )
            if not gone.rowcount:
                raise BadToken(f"{name}: no token of that name is in use; `nightfold review token list` shows them")
            connection.execute(
                "delete from access_sessions where token_id in (select token_id from access_tokens where name = ?)",
                (name,),
            )

    # ---- sessions

    def sign_in(self, token: str, *, address: str) -> Session:
        """A session of who holds the token; NotSignedIn where nobody does, TooManyFailures after too many of those."""
        now = self._now()
        secret = secrets.token_urlsafe(32)
        with self._open() as connection:
            self._check_failures(connection, address, now)
            found = self._holder(connection, token.strip(), now)
            if found is None:
                connection.execute("insert into access_failures values (?, ?)", (address, now.isoformat()))
            else:
                connection.execute("delete from access_failures where address = ?", (address,))
                connection.execute(
                    "delete from access_sessions where created_at <= ?", ((now - self._lasts).isoformat(),)
                )
                connection.execute(
                    "insert into access_sessions (digest, token_id, created_at, seen_at) values (?, ?, ?, ?)",
                    (_digest(secret), found.token_id, now.isoformat(), now.isoformat()),
                )
        if found is None:
            raise NotSignedIn("This token opens nothing here: it is mistyped, expired or revoked.")
        return Session(secret, found)

    def _check_failures(self, connection: sqlite3.Connection, address: str, now: datetime) -> None:
        since = (now - _FAILURES_KEPT).isoformat()
        connection.execute("delete from access_failures where at <= ?", (since,))
        failures = connection.execute("select address, at from access_failures order by at").fetchall()
        of_one = [row["at"] for row in failures if row["address"] == address]
        for times, most in ((of_one, _MOST_OF_ONE), ([row["at"] for row in failures], _MOST_OF_ALL)):
            if len(times) >= most:
                until = datetime.fromisoformat(times[-most]) + _FAILURES_KEPT
                raise TooManyFailures(max(1, int((until - now).total_seconds())))

    @staticmethod
    def _holder(connection: sqlite3.Connection, token: str, now: datetime) -> Token | None:
        parts = _TOKEN.fullmatch(token)
        token_id = parts[1] if parts else ""
        row = connection.execute("select * from access_tokens where token_id = ?", (token_id,)).fetchone()
        # As much work for an id that nobody has.
        is_right = hmac.compare_digest(row["digest"] if row else _digest("nobody's"), _digest(token))
        if row is None or not is_right:
            return None
        held = _token(row)
        return held if held.state(now) == "active" else None

    def session(self, secret: str) -> Session | None:
        """Who holds this session, None where it never was, has ended, or its token opens nothing any more."""
        now = self._now()
        digest = _digest(secret)
        with self._open(write=False) as connection:
            row = connection.execute(
                "select t.*, s.created_at as began_at, s.seen_at from access_sessions s "
                "join access_tokens t on t.token_id = s.token_id where s.digest = ?",
                (digest,),
            ).fetchone()
        if row is None:
            return None
        token = _token(row)
        began, seen = datetime.fromisoformat(row["began_at"]), datetime.fromisoformat(row["seen_at"])
        if now >= began + self._lasts or now >= seen + self._idles or token.state(now) != "active":
            self._end(digest)
            return None
        if now >= seen + _SEEN_EVERY:
            with self._open() as connection:
                connection.execute("update access_sessions set seen_at = ? where digest = ?", (now.isoformat(), digest))
        return Session(secret, token)

    def _end(self, digest: str) -> None:
        with self._open() as connection:
            connection.execute("delete from access_sessions where digest = ?", (digest,))

    def sign_out(self, session: Session) -> None:
        """Ends the session."""
        self._end(_digest(session.secret))

    # ---- what the next page says

    def say(self, session: Session, said: dict[str, Any]) -> None:
        """Keeps what the next page of this session is to say."""
        with self._open() as connection:
            connection.execute(
                "update access_sessions set said = ? where digest = ?", (json.dumps(said), _digest(session.secret))
            )

    def take_said(self, session: Session) -> dict[str, Any] | None:
        """What this page is to say, once."""
        digest = _digest(session.secret)
        with self._open(write=False) as connection:
            row = connection.execute("select said from access_sessions where digest = ?", (digest,)).fetchone()
        if row is None or row["said"] is None:
            return None
        with self._open() as connection:
            connection.execute("update access_sessions set said = null where digest = ?", (digest,))
        said: dict[str, Any] = json.loads(row["said"])
        return said


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _token(row: sqlite3.Row) -> Token:
    return Token(
        token_id=row["token_id"],
        name=row["name"],
        role=row["role"],
        scopes=None if row["scopes"] is None else frozenset(json.loads(row["scopes"])),
        created_at=datetime.fromisoformat(row["created_at"]),
        expires_at=_time(row["expires_at"]),
        revoked_at=_time(row["revoked_at"]),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
