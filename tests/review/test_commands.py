"""The commands that give people tokens and serve the page."""

import re
import subprocess
from collections.abc import Callable

import pytest

from flows.reviews import Reviews
from flows.settings import SettingsRefused, load_settings
from review.access import Access
from tests.nights import NO_FILE
from tests.review.asked import Asked
from tests.terminal import NIGHTFOLD

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def call(asked: Asked) -> Call:
    """Runs `nightfold review` on the warehouse."""

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [NIGHTFOLD, "review", *words, "--warehouse", str(asked.warehouse)]
        return subprocess.run(command, cwd=asked.folder, check=False, capture_output=True, text=True)

    return run


def test_a_token_is_made_shown_once_listed_and_revoked(call: Call, asked: Asked) -> None:
    told = call("token", "ana", "--role", "admin", "--scope", "b", "--scope", "a", "--expires-days", "30")
    assert re.fullmatch(r"nf_[0-9a-f]{12}_[\w-]{43}\n", told.stdout)
    assert told.stderr == "admin of the scopes a, b; it is not shown again\n"
    assert Access(asked.warehouse).sign_in(told.stdout, address="here").scopes == frozenset({"a", "b"})
    made = call("token", "create", "list")  # somebody's name may be that of a command
    assert made.stderr == "viewer of every scope; it is not shown again\n"
    listed = call("token", "list").stdout
    assert [line.split()[:2] for line in listed.splitlines()] == [
        ["name", "role"],
        ["ana", "admin"],
        ["list", "viewer"],
    ]
    assert "nf_" not in listed
    assert call("token", "revoke", "ana").stdout == "ana: revoked\n"
    again = call("token", "revoke", "ana")
    assert (again.returncode, again.stderr.startswith("nightfold: ana: no token of that name")) == (1, True)
    lines = Reviews(asked.settings()).audit_page(scopes=None, limit=5)
    assert [(line.what, line.about, line.detail) for line in lines] == [
        ("revoke_token", "ana", ""),
        ("give_token", "list", "viewer of every scope"),
        ("give_token", "ana", "admin of a, b"),
    ]


def test_what_cannot_be_served_is_told_in_a_line(call: Call) -> None:
    told = call("serve", "--host", "0.0.0.0")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("nightfold: --host 0.0.0.0: others would reach the page without TLS.")
    assert told.stderr.count("\n") == 1


def test_an_option_before_the_command_is_told(asked: Asked) -> None:
    command = [NIGHTFOLD, "review", "--warehouse", str(asked.warehouse), "list"]
    told = subprocess.run(command, cwd=asked.folder, check=False, capture_output=True, text=True)
    said = "nightfold: --warehouse: goes after the command, as in `review list ...`\n"
    assert (told.returncode, told.stderr) == (1, said)


def test_an_address_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(SettingsRefused, match=r"command line: review: url: begins with http"):
        load_settings(NO_FILE, over={"review": {"url": "review.example.com"}})
