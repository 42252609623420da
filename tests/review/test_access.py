"""Tokens, sessions, and what failing to sign in leads to."""

import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from review.access import Access, AccessDamaged, BadToken, NotSignedIn, Session, TooManyFailures

AT = "10.0.0.7"


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def goes_on(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(tmp_path: Path, clock: Clock) -> Access:
    return Access(tmp_path, session_hours=12, idle_minutes=60, now=clock)


def signed_in(access: Access, **token: object) -> Session:
    return access.sign_in(access.create_token("ana", **token), address=AT)  # type: ignore[arg-type]


def test_nothing_that_opens_anything_is_on_disk(access: Access, tmp_path: Path) -> None:
    token = access.create_token("ana")
    session = access.sign_in(token, address=AT)
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (token, token.rpartition("_")[2], session.secret, session.form_token):
        assert secret.encode() not in written
    assert (tmp_path / "review.sqlite").stat().st_mode & 0o077 == 0


def test_a_token_opens_what_it_was_made_for(access: Access) -> None:
    session = signed_in(access, role="viewer", scopes=["b", "a"])
    assert (session.name, session.scopes, session.may_decide) == ("ana", frozenset({"a", "b"}), False)
    assert access.session(session.secret) == session


def test_a_token_without_scopes_opens_all_and_one_with_none_opens_nothing(access: Access) -> None:
    assert access.sign_in(access.create_token("all"), address=AT).scopes is None
    assert access.sign_in(access.create_token("none", scopes=[]), address=AT).scopes == frozenset()


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1], lambda t: t + "x", lambda t: t.swapcase(), lambda _: "", lambda _: "\ud800"]
)
def test_anything_but_the_token_opens_nothing(access: Access, change: object) -> None:
    token = access.create_token("ana")
    with pytest.raises(NotSignedIn, match="opens nothing"):
        access.sign_in(change(token), address=AT)  # type: ignore[operator]
    assert access.sign_in(f" {token}\n", address=AT).name == "ana"


def test_the_id_of_one_token_with_the_secret_of_another_opens_nothing(access: Access) -> None:
    one, other = (access.create_token(name).split("_", 2) for name in ("ana", "ben"))
    with pytest.raises(NotSignedIn):
        access.sign_in("_".join([*one[:2], other[2]]), address=AT)


def test_a_revoked_token_opens_nothing_and_ends_what_it_had_opened(access: Access) -> None:
    token = access.create_token("ana")
    session = access.sign_in(token, address=AT)
    access.revoke("ana")
    assert access.session(session.secret) is None
    with pytest.raises(NotSignedIn):
        access.sign_in(token, address=AT)
    assert [each.state(datetime.now(UTC)) for each in access.tokens()] == ["revoked"]
    assert access.create_token("ana") != token


def test_an_expired_token_opens_nothing_and_ends_what_it_had_opened(access: Access, clock: Clock) -> None:
    token = access.create_token("ana", expires_days=0.01)
    session = access.sign_in(token, address=AT)
    clock.goes_on(minutes=15)
    assert access.session(session.secret) is None
    with pytest.raises(NotSignedIn):
        access.sign_in(token, address=AT)
    assert access.tokens()[0].state(clock.now) == "expired"


def test_a_session_ends_when_nothing_is_done_for_long(access: Access, clock: Clock) -> None:
    session = signed_in(access)
    for _ in range(3):
        clock.goes_on(minutes=59)
        assert access.session(session.secret)
    clock.goes_on(minutes=60)
    assert access.session(session.secret) is None


def test_a_session_ends_after_its_hours_whatever_is_done(access: Access, clock: Clock) -> None:
    session = signed_in(access)
    for _ in range(23):
        clock.goes_on(minutes=30)
        assert access.session(session.secret)
    clock.goes_on(minutes=30)
    assert access.session(session.secret) is None


def test_who_signs_out_is_out_and_nobody_else(access: Access) -> None:
    token = access.create_token("ana")
    here, there = (access.sign_in(token, address=AT) for _ in range(2))
    access.sign_out(here)
    assert access.session(here.secret) is None
    assert access.session(there.secret)


def test_a_form_of_another_session_is_not_one_of_this(access: Access) -> None:
    token = access.create_token("ana")
    here, there = (access.sign_in(token, address=AT) for _ in range(2))
    assert here.made(here.form_token)
    assert not here.made(there.form_token)
    assert not here.made("")
    assert not here.made("ä")


def test_after_five_failures_an_address_waits_and_others_do_not(access: Access, clock: Clock) -> None:
    token = access.create_token("ana")
    for _ in range(5):
        with pytest.raises(NotSignedIn):
            access.sign_in("wrong", address=AT)
        clock.goes_on(minutes=1)
    with pytest.raises(TooManyFailures, match="Wait 10 minutes") as refused:
        access.sign_in(token, address=AT)
    assert refused.value.wait_seconds == 600
    assert access.sign_in(token, address="10.0.0.8")
    clock.goes_on(minutes=10)
    assert access.sign_in(token, address=AT)


def test_after_fifty_failures_everybody_waits(access: Access, clock: Clock) -> None:
    token = access.create_token("ana")
    for n in range(50):
        with pytest.raises(NotSignedIn):
            access.sign_in("wrong", address=f"10.0.1.{n}")
    with pytest.raises(TooManyFailures, match="Wait 15 minutes"):
        access.sign_in(token, address=AT)
    clock.goes_on(minutes=15)
    assert access.sign_in(token, address=AT)


def test_failures_outlive_the_program(tmp_path: Path, clock: Clock) -> None:
    for _ in range(5):
        with pytest.raises(NotSignedIn):
            Access(tmp_path, now=clock).sign_in("wrong", address=AT)
    with pytest.raises(TooManyFailures):
        Access(tmp_path, now=clock).sign_in("wrong", address=AT)


def test_a_right_token_forgets_the_failures_of_its_address(access: Access) -> None:
    token = access.create_token("ana")
    for _ in range(3):
        for _ in range(4):
            with pytest.raises(NotSignedIn):
                access.sign_in("wrong", address=AT)
        assert access.sign_in(token, address=AT)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 81])
def test_a_name_is_one_that_can_be_shown(access: Access, name: str) -> None:
    with pytest.raises(BadToken, match="a name has 1 to 80 characters"):
        access.create_token(name)


def test_what_cannot_be_made_or_revoked_is_told(access: Access, tmp_path: Path) -> None:
    access.create_token("ana")
    with pytest.raises(BadToken, match="ana: has a token already; revoke it first"):
        access.create_token("ana")
    with pytest.raises(BadToken, match="--role king: no such role; there are admin and viewer"):
        access.create_token("ben", role="king")
    with pytest.raises(BadToken, match="--expires-days 0: more than 0"):
        access.create_token("ben", expires_days=0)
    with pytest.raises(BadToken, match="ben: no token of that name is in use"):
        access.revoke("ben")
    with pytest.raises(BadToken, match="no such warehouse"):
        Access(tmp_path / "nowhere")


def test_looking_for_tokens_where_there_are_none_writes_nothing(access: Access, tmp_path: Path) -> None:
    assert access.tokens() == []
    assert list(tmp_path.iterdir()) == []


def test_what_a_page_says_it_says_once(access: Access) -> None:
    session = signed_in(access)
    assert access.take_said(session) is None
    access.say(session, {"text": "Merged."})
    assert access.take_said(session) == {"text": "Merged."}
    assert access.take_said(session) is None


def test_who_is_signed_in_is_seen_while_somebody_writes(access: Access, tmp_path: Path) -> None:
    session = signed_in(access)
    with contextlib.closing(sqlite3.connect(tmp_path / "review.sqlite", isolation_level=None)) as bulk:
        bulk.execute("begin immediate")
        bulk.execute("create table held (a)")
        assert access.session(session.secret) == session
        assert access.take_said(session) is None
        bulk.execute("rollback")


def test_a_file_that_is_none_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "review.sqlite").write_bytes(b"no database at all, but text that is long enough to be read as one" * 20)
    with pytest.raises(
        AccessDamaged, match=r"review.sqlite: cannot be used: file is not a database; see to who owns it"
    ):
        Access(tmp_path).tokens()
