"""Which corpora hold, under which rule the others are refused, and that no scope imitates a person's own."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.rows import PERSONAL_SCOPE, ROWS, SCOPE_IS_UNJOINED
from schemas.tables import AGENTS, CORPORA, CORPUS_AGENT_ASSIGNMENTS, CORPUS_DOCUMENTS
from schemas.terms import KINDS
from transforms.corpora import NEEDED, Corpora, as_given, checked, moved, with_scope
from transforms.mapping import ColumnMap, mapped, resolved

FAQ = {"corpus_id": "faq", "type": "global", "workspace_id": "acme", "is_active": "true"}
NOTES = {"corpus_id": "notes", "type": "personal", "owner_id": "ana", "is_active": "true"}
DESK = {"agent_id": "desk", "allows_personal_corpus": "yes", "workspace_id": "acme"}
SITE = {"agent_id": "site", "allows_personal_corpus": "no", "workspace_id": "acme"}
TABLES = {"corpora": CORPORA, "agents": AGENTS, "assignments": CORPUS_AGENT_ASSIGNMENTS, "documents": CORPUS_DOCUMENTS}


def frame(rows: list[dict[str, Any]], table: str) -> pl.DataFrame:
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(NEEDED[TABLES[table].name])
    texts = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))
    located = texts.with_columns(locator=pl.format("f:{}", pl.int_range(1, pl.len() + 1)))
    return as_given(located, TABLES[table], default_workspace="default")


def check(**tables: list[dict[str, Any]]) -> tuple[Corpora, list[tuple[str, str, str]]]:
    """What holds of the tables, and (table, place, rule) of what does not."""
    usual = {"corpora": [FAQ, NOTES], "agents": [DESK, SITE], "assignments": [], "documents": []}
    good, refused = checked(Corpora(**{name: frame(rows, name) for name, rows in {**usual, **tables}.items()}))
    return good, [(row["source"], row["locator"], row["reason"]) for row in refused.iter_rows(named=True)]


@pytest.mark.parametrize(
    ("table", "rows", "broken"),
    [
        ("corpora", [NOTES | {"owner_id": None}], {1: "personal_corpus_has_owner"}),
        ("corpora", [NOTES | {"owner_id": " "}], {1: "personal_corpus_has_owner"}),
        ("corpora", [FAQ | {"owner_id": "ana"}], {1: "global_corpus_has_no_owner"}),
        ("corpora", [FAQ | {"workspace_id": ""}], {1: "global_corpus_has_workspace"}),
        ("corpora", [FAQ | {"type": "shared"}], {1: "corpus_type_is_known"}),
        ("corpora", [FAQ | {"is_active": "perhaps"}], {1: "is_active_is_true_or_false"}),
        ("corpora", [FAQ | {"is_active": ""}], {1: "is_active_is_true_or_false"}),
        ("corpora", [NOTES | {"owner_id": "a\u241fb"}], {1: "owner_and_workspace_have_no_separator"}),
        ("corpora", [FAQ, FAQ], {2: "corpus_id_is_unique"}),
        ("corpora", [FAQ, FAQ | {"name": "other"}], {1: "corpus_id_is_unique", 2: "corpus_id_is_unique"}),
        ("corpora", [FAQ, NOTES | {"corpus_id": "faq", "owner_id": None}],
         {1: "corpus_id_is_unique", 2: "personal_corpus_has_owner"}),
        ("agents", [DESK, DESK | {"allows_personal_corpus": "no"}],
         {1: "agent_id_is_unique", 2: "agent_id_is_unique"}),
        ("agents", [DESK | {"allows_personal_corpus": "maybe"}], {1: "allows_personal_corpus_is_true_or_false"}),
        ("assignments", [{"corpus_id": "faq", "agent_id": "desk"}] * 2, {2: "assignment_is_unique"}),
        ("assignments", [{"corpus_id": "lost", "agent_id": "desk"}], {1: "assigned_corpus_exists"}),
        ("assignments", [{"corpus_id": "faq", "agent_id": "lost"}], {1: "assigned_agent_exists"}),
        ("assignments", [{"corpus_id": None, "agent_id": "desk"}], {1: "assignment_names_both"}),
        ("assignments", [{"corpus_id": "notes", "agent_id": "site"}],
         {1: "personal_corpus_goes_to_agents_that_allow_it"}),
        ("documents", [{"document_id": "d", "corpus_id": "lost"}], {1: "document_corpus_exists"}),
        ("documents", [{"document_id": "d", "corpus_id": "faq", "status": "done"}], {1: "document_status_is_known"}),
        ("documents", [{"document_id": "d", "corpus_id": "faq"}] * 2, {2: "document_id_is_unique"}),
        ("documents", [{"document_id": "d", "corpus_id": "faq"}, {"document_id": "d", "corpus_id": "notes"}], {}),
    ],
)  # fmt: skip
def test_a_row_is_refused_under_the_rule_that_it_breaks(
    table: str, rows: list[dict[str, Any]], broken: dict[int, str]
) -> None:
    good, refused = check(**{table: rows})
    assert refused == [(TABLES[table].name, f"f:{place}", rule) for place, rule in broken.items()]
    assert good.tables[TABLES[table].name].height == len(rows) - len(broken)
    for name, contract in TABLES.items():
        contract.check(getattr(good, name))


def test_an_agent_of_another_workspace_is_not_given_a_corpus() -> None:
    far = DESK | {"agent_id": "far", "workspace_id": "boreal"}
    _, refused = check(agents=[far], assignments=[{"corpus_id": "faq", "agent_id": "far"}])
    assert refused == [("corpus_agent_assignments", "f:1", "assigned_agent_is_of_its_workspace")]


def test_a_corpus_that_is_refused_takes_what_refers_to_it_along() -> None:
    _, refused = check(
        corpora=[NOTES | {"owner_id": None}],
        assignments=[{"corpus_id": "notes", "agent_id": "desk"}],
        documents=[{"document_id": "d", "corpus_id": "notes"}],
    )
    assert [rule for _, _, rule in refused] == [
        "personal_corpus_has_owner",
        "assigned_corpus_exists",
        "document_corpus_exists",
    ]


def test_a_corpus_that_a_refused_assignment_names_counts_as_assigned() -> None:
    good, _ = check(assignments=[{"corpus_id": "notes", "agent_id": "site"}])
    assert dict(good.corpora.select("corpus_id", "is_assigned").iter_rows()) == {"faq": False, "notes": True}


def test_what_is_not_said_has_its_default() -> None:
    good, refused = check(
        corpora=[{"corpus_id": "a", "type": "global"}, {"corpus_id": "b", "type": "personal", "owner_id": "7"}],
        agents=[{"agent_id": "desk"}],
        documents=[{"document_id": "d", "corpus_id": "a"}],
    )
    assert refused == []
    assert good.corpora.select("name", "workspace_id", "is_active", "scope").rows() == [
        ("a", "default", True, "default"),
        ("b", None, True, f"{PERSONAL_SCOPE}7"),
    ]
    assert good.agents.select("allows_personal_corpus", "workspace_id").rows() == [(False, None)]
    assert good.documents.select("source_doc_id", "status").rows() == [("d", "pending")]


SCOPE_VALUES = st.text(st.sampled_from("ab\u241f ") | st.characters(exclude_categories=["Cs"]), max_size=12)


@given(values=st.lists(SCOPE_VALUES, min_size=1, max_size=3), owner=SCOPE_VALUES, other=SCOPE_VALUES)
def test_no_scope_that_is_given_is_a_persons_own_and_no_two_persons_share_one(
    values: list[str], owner: str, other: str
) -> None:
    names = [f"c{number}" for number in range(len(values))]
    rows = pl.DataFrame([values], schema=dict.fromkeys(names, pl.String), orient="row").with_columns(text=pl.lit("x"))
    settled = resolved(ColumnMap(kind=KINDS[0], source="s", scope_by=tuple(names)), rows.columns, default_scope=None)
    row = mapped(rows, settled, position=pl.lit("p"))
    let_in = row.filter(pl.coalesce("broken", ROWS.broken_rule()).is_null())
    assert row["broken"][0] in (None, SCOPE_IS_UNJOINED)
    corpora = [NOTES | {"corpus_id": "1", "owner_id": owner}, NOTES | {"corpus_id": "2", "owner_id": other}]
    own = check(corpora=corpora)[0].corpora["scope"]
    assert not set(own) & set(let_in["scope"])
    assert own.n_unique() == len({name for name in (owner, other) if name.strip() and "\u241f" not in name})
    assert not [scope for scope in own if not scope.startswith(PERSONAL_SCOPE)]


def test_rows_take_the_scope_of_their_corpus_and_are_refused_without_one() -> None:
    good, _ = check()
    rows = pl.DataFrame(
        {"corpus_id": ["faq", "notes", "lost", None], "scope": [None] * 4, "broken": [None] * 4},
        schema=dict.fromkeys(("corpus_id", "scope", "broken"), pl.String),
    )
    assert with_scope(rows, good.corpora).select("scope", "broken").rows() == [
        ("acme", None),
        (f"{PERSONAL_SCOPE}ana", None),
        (None, "corpus_exists"),
        (None, "corpus_is_present"),
    ]


def test_a_corpus_behind_another_wall_is_told_of_and_others_are_not() -> None:
    before, now = check()[0].corpora, check(corpora=[FAQ | {"name": "FAQ"}, NOTES | {"owner_id": "bo"}])[0].corpora
    (line,) = moved(before, now)
    assert line.startswith(
        "corpus notes: was personal, of 'ana', and is personal, of 'bo', now; its rows from before stay "
    )
    to_global = check(corpora=[FAQ | {"corpus_id": "notes"}])[0].corpora
    assert "was personal, of 'ana', and is global, of workspace 'acme', now" in moved(before, to_global)[0]
    assert moved(before, before) == []
