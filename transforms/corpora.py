"""Corpora, agents and assignments as they are given: which of them hold, and the scope that each corpus determines."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from schemas.contract import Contract
from schemas.rows import CORPUS_EXISTS, CORPUS_IS_PRESENT, PERSONAL_SCOPE
from schemas.tables import AGENTS, CORPORA, CORPUS_AGENT_ASSIGNMENTS, CORPUS_DOCUMENTS
from schemas.terms import PENDING, PERSONAL

TABLES: Mapping[str, Contract] = {
    each.name: each for each in (CORPORA, AGENTS, CORPUS_AGENT_ASSIGNMENTS, CORPUS_DOCUMENTS)
}
# What each table must have; its other columns may be missing.
NEEDED = {
    CORPORA.name: ("corpus_id", "type"),
    AGENTS.name: ("agent_id",),
    CORPUS_AGENT_ASSIGNMENTS.name: ("corpus_id", "agent_id"),
    CORPUS_DOCUMENTS.name: ("document_id", "corpus_id"),
}
# What a column is called elsewhere, best first.
ALSO_CALLED = {"source_doc_id": ("doc_id", "path")}
# Why a row of the tables is refused, beside the rules of their contracts.
REFUSED = pl.Schema(dict.fromkeys(("source", "source_row_id", "locator", "reason"), pl.String))


@dataclass(frozen=True)
class Corpora:
    """The four tables, each in the shape of its contract; of rows to be checked with the `locator` of each."""

    corpora: pl.DataFrame
    agents: pl.DataFrame
    assignments: pl.DataFrame
    documents: pl.DataFrame

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The frames by the name of their table."""
        return dict(zip(TABLES, (self.corpora, self.agents, self.assignments, self.documents), strict=True))


def as_given(rows: pl.DataFrame, contract: Contract, *, default_workspace: str) -> pl.DataFrame:
    """Rows of texts in the shape of the contract, with their `locator`: a blank is null, a column that is missing has
    its default.

    Without a column of workspaces, all global corpora are in one; without one of activity, all are active. What is
    neither true nor false stays null, and its rule refuses it.
    """
    blank_is_null = [
        pl.when(pl.col(name).str.contains(r"\S")).then(pl.col(name)).alias(name)
        for name in rows.columns
        if name != "locator"
    ]
    rows = rows.with_columns(blank_is_null)
    has = set(rows.columns)
    if contract is CORPORA:
        if "workspace_id" not in has:
            is_personal = pl.col("type").eq_missing(pl.lit(PERSONAL))
            rows = rows.with_columns(workspace_id=pl.when(~is_personal).then(pl.lit(default_workspace)))
        rows = rows.with_columns(
            name=pl.coalesce(*(["name"] if "name" in has else []), "corpus_id"),
            is_active=_flag("is_active") if "is_active" in has else pl.lit(value=True),
        )
    if contract is AGENTS:
        name = "allows_personal_corpus"
        rows = rows.with_columns((_flag(name) if name in has else pl.lit(value=False)).alias(name))
    if contract is CORPUS_DOCUMENTS:
        rows = rows.with_columns(
            source_doc_id=pl.coalesce(*(["source_doc_id"] if "source_doc_id" in has else []), "document_id"),
            status=pl.coalesce(*(["status"] if "status" in has else []), pl.lit(PENDING)),
        )
    return contract.shaped(rows).with_columns(rows["locator"])


def _flag(name: str) -> pl.Expr:
    said = pl.col(name).str.strip_chars().str.to_lowercase()
    return (
        pl.when(said.is_in(["true", "1", "yes", "t", "y"]))
        .then(pl.lit(value=True))
        .when(said.is_in(["false", "0", "no", "f", "n"]))
        .then(pl.lit(value=False))
    )


def checked(given: Corpora) -> tuple[Corpora, pl.DataFrame]:
    """The rows that keep every rule, each corpus with its scope, and what was refused (REFUSED), in order.

    Rows of one id that do not agree are all refused: nobody can tell which of them was meant. A corpus that is refused
    takes its assignments and documents along.
    """
    corpora = given.corpora.with_columns(
        scope=pl.when(pl.col("type") == PERSONAL)
        .then(pl.lit(PERSONAL_SCOPE) + pl.col("owner_id"))
        .otherwise(pl.col("workspace_id")),
        is_assigned=pl.col("corpus_id").is_in(given.assignments["corpus_id"].drop_nulls().implode()),
    )
    corpora, bad_corpora = _split(
        corpora, CORPORA, {"corpus_id_is_unique": _stands_alone(CORPORA, "corpus_id")}, named_by="corpus_id"
    )
    agents, bad_agents = _split(
        given.agents, AGENTS, {"agent_id_is_unique": _stands_alone(AGENTS, "agent_id")}, named_by="agent_id"
    )
    assignments, bad_assignments = _assigned(given.assignments, corpora, agents)
    documents, bad_documents = _split(
        given.documents,
        CORPUS_DOCUMENTS,
        {
            "document_corpus_exists": pl.col("corpus_id").is_in(corpora["corpus_id"].implode()),
            "document_id_is_unique": _stands_alone(CORPUS_DOCUMENTS, "corpus_id", "document_id"),
        },
        named_by="document_id",
    )
    refused = pl.concat([bad_corpora, bad_agents, bad_assignments, bad_documents])
    return Corpora(corpora, agents, assignments, documents), refused


def _stands_alone(contract: Contract, *key: str) -> pl.Expr:
    """The first row of its key, where all rows of that key say the same."""
    is_first = pl.int_range(pl.len()).over(key) == 0
    return is_first & (pl.struct(contract.columns).n_unique().over(key) == 1)


def _assigned(
    assignments: pl.DataFrame, corpora: pl.DataFrame, agents: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    of_corpus = corpora.select("corpus_id", "type", corpus_workspace="workspace_id")
    of_agent = agents.select("agent_id", "allows_personal_corpus", agent_workspace="workspace_id")
    both = assignments.join(of_corpus, on="corpus_id", how="left", maintain_order="left").join(
        of_agent, on="agent_id", how="left", maintain_order="left"
    )
    elsewhere = pl.col("corpus_workspace") != pl.col("agent_workspace")
    rules = {
        "assigned_corpus_exists": pl.col("type").is_not_null(),
        "assigned_agent_exists": pl.col("allows_personal_corpus").is_not_null(),
        "personal_corpus_goes_to_agents_that_allow_it": (pl.col("type") != PERSONAL) | pl.col("allows_personal_corpus"),
        "assigned_agent_is_of_its_workspace": ~elsewhere.fill_null(value=False),
        "assignment_is_unique": pl.int_range(pl.len()).over("corpus_id", "agent_id") == 0,
    }
    return _split(both, CORPUS_AGENT_ASSIGNMENTS, rules, named_by="corpus_id", beside="agent_id")


def _split(
    rows: pl.DataFrame, contract: Contract, rules: Mapping[str, pl.Expr], *, named_by: str, beside: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that keep the contract's rules and these, and the others under the first rule that each breaks."""
    every = Contract(contract.name, contract.shape, contract.key, {**contract.rules, **rules})
    # The rules look at all rows, so that one which breaks a rule still makes another of its id doubtful.
    judged = rows.with_columns(every.broken_rule().alias("reason"))
    name = pl.col(named_by) if beside is None else pl.concat_str(named_by, beside, separator=" ", ignore_nulls=True)
    refused = judged.filter(pl.col("reason").is_not_null()).select(
        source=pl.lit(contract.name), source_row_id=name, locator="locator", reason="reason"
    )
    return contract.shaped(judged.filter(pl.col("reason").is_null())), refused.cast(REFUSED)


def with_scope(rows: pl.DataFrame, corpora: pl.DataFrame) -> pl.DataFrame:
    """Rows that name a corpus with the scope it determines; `broken` where there is no such corpus."""
    of_corpus = corpora.select("corpus_id", corpus_scope="scope")
    both = rows.join(of_corpus, on="corpus_id", how="left", maintain_order="left")
    exists = pl.when(pl.col("corpus_id").is_not_null() & pl.col("corpus_scope").is_null()).then(pl.lit(CORPUS_EXISTS))
    return both.with_columns(
        scope=pl.col("corpus_scope"),
        broken=pl.coalesce("broken", exists, pl.when(pl.col("corpus_id").is_null()).then(pl.lit(CORPUS_IS_PRESENT))),
    ).drop("corpus_scope")


def moved(before: pl.DataFrame, now: pl.DataFrame) -> list[str]:
    """A line for each corpus that is behind another wall than it was."""
    both = before.select("corpus_id", was="scope").join(now, on="corpus_id", how="inner").sort("corpus_id")
    return [
        f"corpus {row['corpus_id']}: was {_whose(row['was'])} and is {_whose(row['scope'])} now; its rows from before "
        "stay behind the old wall and are shown to nobody, and rows that come again are stored anew"
        for row in both.filter(pl.col("was") != pl.col("scope")).iter_rows(named=True)
    ]


def _whose(scope: str) -> str:
    owner = scope.removeprefix(PERSONAL_SCOPE)
    return f"personal, of {owner!r}," if owner != scope else f"global, of workspace {scope!r},"
