"""A warehouse with questions of every kind, and the page over it."""

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from httpx2 import Response
from starlette.testclient import TestClient

from flows.settings import Settings
from review.access import Access
from review.app import review_app
from review.doors import Address
from schemas.terms import CONTRADICTORY, EQUIVALENT, UNKNOWN
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import JANUARY, given_verdicts, sections, word_endpoint
from tests.nights import run_night, settings_of

HERE = "http://127.0.0.1:8765"
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&amp;"
# The scope of nearly all, and one behind the wall with a question of its own.
ACME, BOREAL = "acme", "boreal"
OF_EACH = 12
HIGH, LOW = ("h1", "h2", "h3"), ("l1", "l2")
_SPEC = {"parent_category": "Pumps", "sub_category": "Electric", "specification": "Weight", "additional": ""}


@dataclass
class Asked:
    """The folder of the warehouse, and what made it, so that another night can follow."""

    folder: Path
    inputs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def warehouse(self) -> Path:
        return self.folder / "w"

    def settings(self, **over: Any) -> Settings:
        return settings_of(self.warehouse, **over)

    def copied(self, folder: Path) -> "Asked":
        shutil.copytree(self.warehouse, folder / "w")
        return Asked(folder, self.inputs)


def ask(folder: Path) -> Asked:
    """Two nights: what is there, and what is new and may say the same."""
    asked = Asked(folder)
    with word_endpoint() as endpoint:
        _first_night(asked, endpoint)
        another_night(asked, endpoint, *_second_inputs(folder))
    return asked


def another_night(asked: Asked, endpoint: WordEndpoint, *inputs: dict[str, Any]) -> Any:
    """A night that judges as the second one did."""
    asked.inputs = list(inputs) or asked.inputs
    with given_verdicts() as verdicts:
        for n in range(1, OF_EACH + 1):
            verdicts.say(f"old{n}", f"new{n}", UNKNOWN, confidence=0.4 + n / 100, is_confirmed=False, reading=0.93)
        for name in HIGH:
            verdicts.say(f"old-{name}", f"new-{name}", EQUIVALENT, confidence=0.95, is_confirmed=False, reading=0.97)
        for name in LOW:
            verdicts.say(f"old-{name}", f"new-{name}", UNKNOWN, confidence=0.3, is_confirmed=False, reading=0.6)
        verdicts.say("old1", "two", UNKNOWN, confidence=0.5, is_confirmed=False, reading=0.9)
        verdicts.say("old2", "two", UNKNOWN, confidence=0.45, is_confirmed=False, reading=0.88)
        verdicts.say("kg-old", "kg-new", UNKNOWN, confidence=0.6, is_confirmed=False, reading=0.95)
        verdicts.say("said-yes", "said-no", CONTRADICTORY, evidence=f"a negation on one side; {HOSTILE}")
        verdicts.say("bad-old", "bad-new", UNKNOWN, confidence=0.5, is_confirmed=False, evidence=f"words: {HOSTILE}")
        verdicts.say("secret-old", "secret-new", UNKNOWN, confidence=0.5, is_confirmed=False)
        verdicts.say("secret-yes", "secret-no", CONTRADICTORY)
        verdicts.say("rtl-old", "rtl-new", UNKNOWN, confidence=0.5, is_confirmed=False)
        verdicts.say("long-old", "long-new", UNKNOWN, confidence=0.5, is_confirmed=False)
        over = sections(endpoint, guard={"max_removed_share": 1, "max_merge_jump": 1000})
        return run_night(asked.warehouse, *asked.inputs, **over)


def _first_night(asked: Asked, endpoint: WordEndpoint) -> None:
    rows = [
        _row(f"old{n}", f"The loading bay of hall {n} opens at {n} on every weekday, ask at the gate old{n}")
        for n in range(1, OF_EACH + 1)
    ]
    rows += [
        _row(f"old-{name}", f"Crate {name} stands on the upper shelf of the cold store, behind old-{name}")
        for name in HIGH + LOW
    ]
    rows += [
        _row("said-yes", "The night guard may open the north gate for late vans said-yes"),
        _row("bad-old", f"A row that means harm {HOSTILE} and more words so that it is near bad-old"),
        _row("secret-old", "The vault of boreal has the code written on the inside secret-old", BOREAL),
        _row("secret-yes", "The vault of boreal is open on sundays, they say so secret-yes", BOREAL),
        _row("rtl-old", "يفتح المستودع أبوابه في السابعة صباحا كل يوم عمل rtl-old"),
        _row("long-old", f"{_LONG} And so it ends with six pages long-old"),
    ]
    run_night(asked.warehouse, _texts(asked.folder / "handbook.parquet", rows, 5), **_given(endpoint))


_LONG = " ".join(f"Paragraph {n} of the agreement says what the carrier owes to the depot." for n in range(60))


def _second_inputs(folder: Path) -> list[dict[str, Any]]:
    rows = [
        _row(f"new{n}", f"The loading bay of hall {n} opens at {n} on every weekday; ask at the gate new{n}")
        for n in range(1, OF_EACH + 1)
    ]
    rows += [
        _row(f"new-{name}", f"Crate {name} stands on the upper shelf of the cold store, beside new-{name}")
        for name in HIGH
    ]
    rows += [
        _row(f"new-{name}", f"Crate {name} stands in the yard of the cold store with a red lid, see new-{name}")
        for name in LOW
    ]
    rows += [
        _row("two", "The loading bay of hall 1 or 2 opens at 2 on every weekday, ask at the gate two"),
        _row("said-no", "The night guard may not open the north gate for late vans said-no"),
        _row("bad-new", f"A row that means harm {HOSTILE} and other words so that it is near bad-new"),
        _row("secret-new", "The vault of boreal has the code written on the outside secret-new", BOREAL),
        _row("secret-no", "The vault of boreal is not open on sundays, they say so secret-no", BOREAL),
        _row("rtl-new", "يفتح المستودع أبوابه في الثامنة صباحا كل يوم عمل rtl-new"),
        _row("long-new", f"{_LONG} And so it ends with seven pages long-new"),
    ]
    specs = [
        {"id": "s1", "workspace_id": ACME, **_SPEC, "value": "12 kg dry", "additional": "without hose kg-old"},
        {"id": "s2", "workspace_id": ACME, **_SPEC, "value": "12.5 kg dry", "additional": "without hose kg-new"},
    ]
    pl.DataFrame(specs).write_parquet(folder / "pumps.parquet")
    return [
        _texts(folder / "notices.parquet", rows, 6),
        {"path": str(folder / "pumps.parquet"), "name": "pumps", "kind": "spec_row", "id_column": "id"},
    ]


def _given(endpoint: WordEndpoint) -> dict[str, Any]:
    return sections(endpoint, judge={"enabled": False})


def _row(name: str, text: str, scope: str = ACME) -> dict[str, Any]:
    is_bad = name.startswith("bad")
    return {
        "workspace_id": scope,
        "id": f"{name} {HOSTILE}" if is_bad else name,
        "text": text,
        "doc_id": f"doc {HOSTILE}" if is_bad else "doc",
        f"column {HOSTILE}": HOSTILE if is_bad else None,
    }


def _texts(path: Path, rows: list[dict[str, Any]], day: int) -> dict[str, Any]:
    pl.DataFrame(rows).with_columns(at=pl.lit(JANUARY.format(day))).write_parquet(path)
    return {"path": str(path), "name": f"{path.stem} {HOSTILE[:8]}", "id_column": "id", "seen_at_column": "at"}


# ---- a visitor without a browser


class Visitor:
    """Somebody at the page. Every form is sent as a browser sends it."""

    def __init__(self, asked: Asked, **over: Any) -> None:
        settings = asked.settings(**over)
        self.access = Access(asked.warehouse)
        self.app = review_app(settings, address=Address.of(host="127.0.0.1", port=8765, url=None), access=self.access)
        self.client = TestClient(self.app, base_url=HERE, follow_redirects=False)

    def signs_in(self, name: str = "ana", *, role: str = "admin", scopes: list[str] | None = None) -> "Visitor":
        token = self.access.create_token(name, role=role, scopes=scopes)
        assert self.send("/sign-in", token=token).status_code == 303
        return self

    def see(self, path: str) -> Response:
        return self.client.get(path)

    def send(self, path: str, /, **fields: str) -> Response:
        return self.send_from({"origin": HERE, "sec-fetch-site": "same-origin"}, path, **fields)

    def send_from(self, headers: dict[str, str], path: str, /, **fields: str) -> Response:
        """A form that comes with these headers."""
        return self.client.post(path, data=fields, headers=headers)

    def sends(self, path: str, **fields: str) -> Response:
        """A form of a page that this visitor has seen."""
        return self.send(path, form_token=self.form_token, **fields)

    @property
    def form_token(self) -> str:
        found = re.search(r'name="form_token" value="([0-9a-f]+)"', self.see("/help").text)
        assert found, "no form on the page"
        return found[1]

    def questions(self, query: str = "") -> list[str]:
        """The ids of the questions on the first page of the list."""
        return re.findall(r'href="/questions/([0-9a-f]{32})', self.see(f"/{query}").text)

    def question_of(self, name: str) -> str:
        return self.questions(f"?text={name}")[0]
