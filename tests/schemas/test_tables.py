"""The tables others rely on: their names and columns stay, and every one says what it is."""

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from schemas.contract import Contract, ContractBroken
from schemas.rows import ROWS
from schemas.tables import (
    AGENTS,
    CANONICALS,
    CHUNKS,
    CONTRADICTIONS,
    CORPORA,
    CORPUS_AGENT_ASSIGNMENTS,
    CORPUS_DOCUMENTS,
    FORWARDS,
    LEGACY_ROWS,
    LINKS,
    OCCURRENCES,
    PAIRS,
    PARSED_FILES,
    PUBLISHED_TABLES,
    REJECTS,
    REVIEW_DECISIONS,
    RUNS,
    SEPARATIONS,
    VARIANTS,
    about_column,
)

ALL = (*PUBLISHED_TABLES, RUNS)
EACH = pytest.mark.parametrize("contract", ALL, ids=lambda contract: contract.name)
NOW = datetime(2026, 1, 31, tzinfo=UTC)
ID, OTHER, HASH = "0" * 32, "1" * 32, "a" * 64

# The columns other systems read. A table may gain some; to lose or rename one breaks them.
RELIED_ON = {
    "chunks": "chunk_id scope kind content_hash text metadata source_doc_id canonical_id action completion_status "
    "embedding_model embedding_version occurrences first_seen_at last_seen_at superseded_by",
    "occurrences": "occurrence_id chunk_id scope source source_row_id parsed_spec_id run_id seen_at",
    "canonicals": "canonical_id scope chunk_id variants occurrences first_seen_at last_seen_at",
    "variants": "chunk_id canonical_id relation similarity confidence decided_by reason run_id",
    "pairs": "pair_id left_id right_id scope similarity relation confidence evidence run_id",
    "links": "left_id right_id relation run_id",
    "contradictions": "left_id right_id evidence status run_id",
    "pending_reviews": "review_id chunk_id candidates reason queued_at reviewed_at reviewed_by decision notes",
    "review_decisions": "decision_id review_id decision target_canonical_id reviewer notes decided_at",
    "forwards": "canonical_id forwards_to scope run_id",
    "separations": "pair_id left_id right_id scope chunk_id canonical_id decided_by decided_at run_id",
    "corpora": "corpus_id type name owner_id workspace_id is_active scope",
    "agents": "agent_id allows_personal_corpus workspace_id",
    "corpus_agent_assignments": "corpus_id agent_id",
    "corpus_documents": "document_id corpus_id source source_doc_id status reason",
    "legacy_rows": "scope source old_id chunk_index chunk_id row_hash hash_was embedding_was run_id",
    "parsed_files": "file_key scope file_hash chunk_ids run_id",
    "rejects": "source source_row_id reason run_id",
    "runs": "run_id started_at published_at status rows_in actions stage_seconds recall_measured table_versions "
    "settings",
}
# A row that keeps every rule of its table, and changes that each break one.
KEPT: dict[str, dict[str, Any]] = {
    "chunks": {
        "chunk_id": ID, "scope": "acme", "kind": "text", "content_hash": HASH, "canonical_id": ID,
        "action": "stored_as_new", "completion_status": "incomplete", "occurrences": 1, "first_seen_at": NOW,
        "last_seen_at": NOW,
    },
    "occurrences": {
        "occurrence_id": ID, "chunk_id": ID, "scope": "acme", "source": "corpus", "source_row_id": "1",
    },
    "canonicals": {"canonical_id": ID, "chunk_id": ID, "variants": 0, "occurrences": 1},
    "variants": {"chunk_id": ID, "relation": "equivalent"},
    "pairs": {"pair_id": ID, "left_id": ID, "right_id": OTHER, "similarity": 1.0, "relation": "distinct"},
    "links": {"pair_id": ID, "left_id": ID, "right_id": OTHER, "relation": "complementary"},
    "contradictions": {"pair_id": ID, "left_id": ID, "right_id": OTHER},
    "forwards": {"canonical_id": ID, "forwards_to": OTHER},
    "separations": {"pair_id": ID, "left_id": ID, "right_id": OTHER},
    "review_decisions": {"decision_id": ID, "decision": "merge", "reviewer": "ana"},
    "corpora": {"corpus_id": "faq", "type": "global", "workspace_id": "acme", "is_active": True, "scope": "acme"},
    "agents": {"agent_id": "desk", "allows_personal_corpus": False},
    "corpus_agent_assignments": {"corpus_id": "faq", "agent_id": "desk"},
    "corpus_documents": {"document_id": "d", "corpus_id": "faq", "status": "pending"},
    "legacy_rows": {
        "legacy_id": ID, "chunk_id": ID, "row_hash": HASH, "hash_was": "missing", "embedding_was": "none",
    },
    "parsed_files": {"file_key": ID, "file_hash": HASH, "chunk_ids": [ID]},
    "rejects": {"reject_id": ID, "source": "corpus", "locator": "a.csv:1", "reason": "text_is_present"},
    "runs": {"run_id": "20260131T020000.000000Z", "status": "published"},
}  # fmt: skip
BROKEN = [
    (CHUNKS, {"chunk_id": "0" * 31}, "chunk_id_is_derived"),
    (CHUNKS, {"chunk_id": "G" * 32}, "chunk_id_is_derived"),
    (CHUNKS, {"chunk_id": ID + "\n"}, "chunk_id_is_derived"),
    (CHUNKS, {"scope": " "}, "scope_is_present"),
    (CHUNKS, {"scope": None}, "scope_is_present"),
    (CHUNKS, {"kind": "song"}, "kind_is_known"),
    (CHUNKS, {"content_hash": "A" * 64}, "content_hash_is_sha256"),
    (CHUNKS, {"canonical_id": None}, "canonical_id_is_present"),
    (CHUNKS, {"action": "lost"}, "action_is_known"),
    (CHUNKS, {"completion_status": "done"}, "completion_is_known"),
    (CHUNKS, {"occurrences": 0}, "has_an_occurrence"),
    (CHUNKS, {"last_seen_at": datetime(2025, 1, 1, tzinfo=UTC)}, "seen_in_order"),
    (OCCURRENCES, {"occurrence_id": "x"}, "occurrence_id_is_derived"),
    (OCCURRENCES, {"chunk_id": None}, "chunk_id_is_derived"),
    (OCCURRENCES, {"scope": ""}, "scope_is_present"),
    (OCCURRENCES, {"source": ""}, "source_is_present"),
    (OCCURRENCES, {"source_row_id": None}, "source_row_id_is_present"),
    (CANONICALS, {"canonical_id": "x"}, "canonical_id_is_derived"),
    (CANONICALS, {"chunk_id": "x"}, "chunk_id_is_derived"),
    (CANONICALS, {"variants": -1}, "variants_not_negative"),
    (CANONICALS, {"variants": 1}, "more_occurrences_than_variants"),
    (VARIANTS, {"relation": "alike"}, "relation_is_known"),
    (PAIRS, {"pair_id": ID[1:]}, "pair_id_is_derived"),
    (PAIRS, {"right_id": ID}, "left_below_right"),
    (PAIRS, {"similarity": -1.1}, "similarity_is_cosine"),
    (PAIRS, {"relation": None}, "relation_is_known"),
    (PAIRS, {"stands": "both"}, "side_is_known"),
    (PAIRS, {"action": "lost"}, "action_is_known"),
    (LINKS, {"pair_id": "x"}, "pair_id_is_derived"),
    (LINKS, {"left_id": OTHER, "right_id": ID}, "left_below_right"),
    (LINKS, {"relation": "alike"}, "relation_is_known"),
    (CONTRADICTIONS, {"pair_id": "x"}, "pair_id_is_derived"),
    (CONTRADICTIONS, {"left_id": OTHER}, "left_below_right"),
    (FORWARDS, {"canonical_id": "x"}, "canonical_id_is_derived"),
    (FORWARDS, {"forwards_to": ID}, "leads_elsewhere"),
    (SEPARATIONS, {"pair_id": "x"}, "pair_id_is_derived"),
    (SEPARATIONS, {"left_id": OTHER}, "left_below_right"),
    (REVIEW_DECISIONS, {"decision_id": "x"}, "decision_id_is_derived"),
    (REVIEW_DECISIONS, {"decision": "perhaps"}, "decision_is_known"),
    (REVIEW_DECISIONS, {"reviewer": " "}, "reviewer_is_present"),
    (CORPORA, {"corpus_id": None}, "corpus_id_is_present"),
    (CORPORA, {"type": "shared"}, "corpus_type_is_known"),
    (CORPORA, {"type": None}, "corpus_type_is_known"),
    (CORPORA, {"is_active": None}, "is_active_is_true_or_false"),
    (CORPORA, {"type": "personal"}, "personal_corpus_has_owner"),
    (CORPORA, {"owner_id": "ana"}, "global_corpus_has_no_owner"),
    (CORPORA, {"workspace_id": None}, "global_corpus_has_workspace"),
    (CORPORA, {"workspace_id": "a\u241fb"}, "owner_and_workspace_have_no_separator"),
    (CORPORA, {"type": "personal", "owner_id": "a\u241fb"}, "owner_and_workspace_have_no_separator"),
    (AGENTS, {"agent_id": None}, "agent_id_is_present"),
    (AGENTS, {"allows_personal_corpus": None}, "allows_personal_corpus_is_true_or_false"),
    (CORPUS_AGENT_ASSIGNMENTS, {"agent_id": None}, "assignment_names_both"),
    (CORPUS_AGENT_ASSIGNMENTS, {"corpus_id": None}, "assignment_names_both"),
    (CORPUS_DOCUMENTS, {"document_id": None}, "document_id_is_present"),
    (CORPUS_DOCUMENTS, {"status": "done"}, "document_status_is_known"),
    (LEGACY_ROWS, {"legacy_id": "x"}, "legacy_id_is_derived"),
    (LEGACY_ROWS, {"chunk_id": None}, "chunk_id_is_derived"),
    (LEGACY_ROWS, {"row_hash": None}, "row_hash_is_sha256"),
    (LEGACY_ROWS, {"hash_was": "fine"}, "hash_is_known"),
    (LEGACY_ROWS, {"embedding_was": None}, "embedding_is_known"),
    (PARSED_FILES, {"file_key": "x"}, "file_key_is_derived"),
    (PARSED_FILES, {"file_hash": "x"}, "file_hash_is_sha256"),
    (PARSED_FILES, {"chunk_ids": []}, "has_a_window"),
    (REJECTS, {"reject_id": None}, "reject_id_is_derived"),
    (REJECTS, {"source": ""}, "source_is_present"),
    (REJECTS, {"locator": None}, "locator_is_present"),
    (REJECTS, {"reason": ""}, "reason_is_present"),
    (RUNS, {"run_id": ""}, "run_id_is_present"),
    (RUNS, {"status": "running"}, "status_is_known"),
]


def row_of(contract: Contract, **changed: Any) -> pl.DataFrame:
    return contract.shaped(pl.DataFrame([{**KEPT[contract.name], **changed}]))


def test_every_table_of_the_design_is_there() -> None:
    assert {contract.name for contract in ALL} == set(RELIED_ON)


@EACH
def test_the_columns_others_rely_on_are_there(contract: Contract) -> None:
    assert set(RELIED_ON[contract.name].split()) <= set(contract.columns)


@EACH
def test_every_table_and_column_says_what_it_holds(contract: Contract) -> None:
    assert contract.about
    assert all(about_column(contract, column) for column in contract.columns)


@EACH
def test_a_key_is_of_the_table_and_no_column_is_there_twice(contract: Contract) -> None:
    assert set(contract.key) <= set(contract.columns)
    assert len(set(contract.columns)) == len(contract.columns)


@EACH
def test_every_column_may_be_null_so_that_a_table_can_gain_one(contract: Contract) -> None:
    assert all(field.nullable for field in contract.shape)


def test_a_column_without_a_word_about_it_says_nothing() -> None:
    assert about_column(ROWS, "scope") == ""


@pytest.mark.parametrize("name", KEPT)
def test_a_row_that_keeps_every_rule_passes(name: str) -> None:
    contract = next(contract for contract in ALL if contract.name == name)
    assert contract.check(row_of(contract)).height == 1


@pytest.mark.parametrize(("contract", "changed", "rule"), BROKEN)
def test_a_row_that_breaks_a_rule_is_refused_under_its_name(
    contract: Contract, changed: dict[str, Any], rule: str
) -> None:
    with pytest.raises(ContractBroken, match=f"^{contract.name}: 1 of 1 rows break the rule {rule}$"):
        contract.check(row_of(contract, **changed))


def test_every_rule_is_broken_by_a_test() -> None:
    rules = {(contract.name, rule) for contract in ALL for rule in contract.rules}
    assert rules == {(contract.name, rule) for contract, _, rule in BROKEN}
