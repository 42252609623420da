"""The tables of the warehouse. Their names and columns are what other systems rely on."""

import polars as pl
import pyarrow as pa

from schemas.contract import Contract
from schemas.rows import SCOPE_SEPARATOR
from schemas.terms import (
    ACTIONS,
    COMPLETION,
    CORPUS_TYPES,
    DECISIONS,
    DOCUMENT_STATUS,
    EMBEDDING_WAS,
    HASH_WAS,
    KINDS,
    PERSONAL,
    RELATIONS,
    RESOLUTIONS,
    RUN_STATUS,
    SIDES,
    UNDO,
)

_TEXT = pa.large_string()
_TIME = pa.timestamp("us", tz="UTC")


def _shape(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Columns with one line each of what they hold; the mart shows it as the column's comment."""
    return pa.schema([pa.field(name, dtype, metadata={"about": about}) for name, dtype, about in columns])


def about_column(contract: Contract, column: str) -> str:
    """What a column holds, in one line."""
    metadata = contract.shape.field(column).metadata or {}
    about: bytes = metadata.get(b"about", b"")
    return about.decode()


def _is_id(column: str) -> pl.Expr:
    return pl.col(column).str.contains(r"^[0-9a-f]{32}$")


def _is_hash(column: str) -> pl.Expr:
    return pl.col(column).str.contains(r"^[0-9a-f]{64}$")


CHUNKS = Contract(
    name="chunks",
    about="A distinct content in a scope: every row said the same here, once.",
    shape=_shape(
        ("chunk_id", _TEXT, "Id derived from scope and content hash"),
        ("scope", _TEXT, "The wall: rows are compared inside one scope only"),
        ("kind", _TEXT, "text, file, spec_row or memory"),
        ("content_hash", _TEXT, "SHA-256 of the content contract, lower-case hex"),
        ("text", _TEXT, "The text of the occurrence that represents the chunk, layout kept; null for a file"),
        ("metadata", _TEXT, "JSON: the other columns of the representing row"),
        ("source", _TEXT, "Source of the representing row"),
        ("source_row_id", _TEXT, "Row of that source"),
        ("source_doc_id", _TEXT, "Document the representing row belongs to"),
        ("chunk_index", pa.int32(), "Position of the window in its document, from 0; null for a row that is whole"),
        ("layout_digest", pa.uint64(), "Digest of the text as it is laid out; breaks ties between layouts"),
        ("parsed_spec_ids", pa.large_list(_TEXT), "The parsed_spec_id of every occurrence, sorted"),
        ("canonical_id", _TEXT, "The group this chunk belongs to"),
        ("action", _TEXT, "What became of the chunk"),
        ("keep_apart", pa.bool_(), "Never merged: its row said force, or its scope has dedup = false"),
        ("completion_status", _TEXT, "complete (has its vector), incomplete or retry-needed"),
        ("embedding_model", _TEXT, "Model of its vector; null until embedded"),
        ("embedding_version", _TEXT, "Version of its vector; null until embedded"),
        ("occurrences", pa.int64(), "How many input rows said it"),
        ("first_seen_at", _TIME, "When it was first seen"),
        ("last_seen_at", _TIME, "When it was last seen"),
        ("superseded_by", _TEXT, "The chunk that replaced it; null while it holds"),
        ("valid_from", _TIME, "Since when it holds, where its row or a replacement says so"),
        ("valid_to", _TIME, "Until when it held; null while it holds"),
        ("deleted_at", _TIME, "When a reviewer took it out of what is found; null while it is in"),
    ),
    key=("chunk_id",),
    rules={
        "chunk_id_is_derived": _is_id("chunk_id"),
        "scope_is_present": pl.col("scope").str.contains(r"\S"),
        "kind_is_known": pl.col("kind").is_in(KINDS),
        "content_hash_is_sha256": _is_hash("content_hash"),
        "canonical_id_is_present": _is_id("canonical_id"),
        "action_is_known": pl.col("action").is_in(ACTIONS),
        "completion_is_known": pl.col("completion_status").is_in(COMPLETION),
        "has_an_occurrence": pl.col("occurrences") >= 1,
        "seen_in_order": pl.col("first_seen_at") <= pl.col("last_seen_at"),
    },
)

OCCURRENCES = Contract(
    name="occurrences",
    about="An input row, as it came. Appended, never changed.",
    shape=_shape(
        ("occurrence_id", _TEXT, "Id derived from chunk, source, source row and window"),
        ("chunk_id", _TEXT, "The chunk it says"),
        ("scope", _TEXT, "The wall"),
        ("source", _TEXT, "Name of the input it came from"),
        ("source_row_id", _TEXT, "Its id there, or file:row where it has none"),
        ("source_doc_id", _TEXT, "The document it belongs to"),
        ("chunk_index", pa.int32(), "Position of the window in its document, from 0"),
        ("parsed_spec_id", _TEXT, "Id of the parsed spec row, where it is one"),
        ("metadata", _TEXT, "JSON: the row's other columns"),
        ("run_id", _TEXT, "The run that first saw it"),
        ("seen_at", _TIME, "When it was first seen"),
        ("corpus_id", _TEXT, "The corpus it came in; null where it came in none"),
    ),
    key=("occurrence_id",),
    rules={
        "occurrence_id_is_derived": _is_id("occurrence_id"),
        "chunk_id_is_derived": _is_id("chunk_id"),
        "scope_is_present": pl.col("scope").str.contains(r"\S"),
        "source_is_present": pl.col("source").str.len_bytes() > 0,
        "source_row_id_is_present": pl.col("source_row_id").str.len_bytes() > 0,
    },
)

CANONICALS = Contract(
    name="canonicals",
    about="A group of chunks that say one thing, and the chunk that stands for it.",
    shape=_shape(
        ("canonical_id", _TEXT, "Id of the group: that of its first chunk, kept for life"),
        ("scope", _TEXT, "The wall"),
        ("chunk_id", _TEXT, "The chunk that stands for the group"),
        ("variants", pa.int64(), "Chunks merged into it"),
        ("occurrences", pa.int64(), "Input rows of the whole group"),
        ("first_seen_at", _TIME, "When the group was first seen"),
        ("last_seen_at", _TIME, "When the group was last seen"),
    ),
    key=("canonical_id",),
    rules={
        "canonical_id_is_derived": _is_id("canonical_id"),
        "chunk_id_is_derived": _is_id("chunk_id"),
        "variants_not_negative": pl.col("variants") >= 0,
        "more_occurrences_than_variants": pl.col("occurrences") > pl.col("variants"),
    },
)

_below = pl.col("left_id") < pl.col("right_id")
_relation = pl.col("relation").is_in(RELATIONS)

VARIANTS = Contract(
    name="variants",
    about="A chunk merged into a canonical, with the reason.",
    shape=_shape(
        ("chunk_id", _TEXT, "The merged chunk"),
        ("scope", _TEXT, "The wall"),
        ("canonical_id", _TEXT, "The group it was merged into"),
        ("relation", _TEXT, "equivalent or subset"),
        ("similarity", pa.float32(), "Cosine to the canonical"),
        ("confidence", pa.float32(), "Of the judgement, 0 to 1"),
        ("decided_by", _TEXT, "Rule, model or reviewer"),
        ("reason", _TEXT, "The evidence in words"),
        ("run_id", _TEXT, "The run that merged it"),
    ),
    key=("chunk_id",),
    rules={"relation_is_known": _relation},
)

PAIRS = Contract(
    name="pairs",
    about="A candidate pair of one scope: near enough that a judge must look.",
    shape=_shape(
        ("pair_id", _TEXT, "Id derived from the two chunks"),
        ("left_id", _TEXT, "The lower chunk_id"),
        ("right_id", _TEXT, "The higher chunk_id"),
        ("scope", _TEXT, "The wall"),
        ("similarity", pa.float32(), "Cosine of the vectors that nominated it"),
        ("reading", pa.float32(), "Cosine as the transformer reads the two; null where it was not asked"),
        ("relation", _TEXT, "What the two are to each other"),
        ("confidence", pa.float32(), "Of the judgement, 0 to 1"),
        ("stands", _TEXT, "left or right: the larger of a subset, the newer of a superseding pair; else null"),
        ("evidence", _TEXT, "The evidence in words"),
        ("decided_by", _TEXT, "The rule, model or endpoint that judged it; null until it is judged"),
        ("action", _TEXT, "What it led to for the later of the two chunks; null until it is judged"),
        ("run_id", _TEXT, "The run that found it, or last judged it"),
    ),
    key=("pair_id",),
    rules={
        "pair_id_is_derived": _is_id("pair_id"),
        "left_below_right": _below,
        "similarity_is_cosine": pl.col("similarity").abs() <= 1.0 + 1e-5,
        "relation_is_known": _relation,
        "side_is_known": pl.col("stands").is_in(SIDES) | pl.col("stands").is_null(),
        "action_is_known": pl.col("action").is_in(ACTIONS) | pl.col("action").is_null(),
    },
)

LINKS = Contract(
    name="links",
    about="Two chunks that are related and stay two.",
    shape=_shape(
        ("pair_id", _TEXT, "Id derived from the two chunks"),
        ("left_id", _TEXT, "The lower chunk_id"),
        ("right_id", _TEXT, "The higher chunk_id"),
        ("scope", _TEXT, "The wall"),
        ("relation", _TEXT, "How they are related"),
        ("run_id", _TEXT, "The run that linked them"),
    ),
    key=("pair_id",),
    rules={"pair_id_is_derived": _is_id("pair_id"), "left_below_right": _below, "relation_is_known": _relation},
)

CONTRADICTIONS = Contract(
    name="contradictions",
    about="Two chunks that disagree.",
    shape=_shape(
        ("pair_id", _TEXT, "Id derived from the two chunks"),
        ("left_id", _TEXT, "The lower chunk_id"),
        ("right_id", _TEXT, "The higher chunk_id"),
        ("scope", _TEXT, "The wall"),
        ("evidence", _TEXT, "What they disagree on, in words"),
        ("status", _TEXT, "open or resolved"),
        ("run_id", _TEXT, "The run that flagged them"),
    ),
    key=("pair_id",),
    rules={"pair_id_is_derived": _is_id("pair_id"), "left_below_right": _below},
)

PENDING_REVIEWS = Contract(
    name="pending_reviews",
    about="A question to a person.",
    shape=_shape(
        ("review_id", _TEXT, "Id derived from the question"),
        ("scope", _TEXT, "The wall"),
        ("chunk_id", _TEXT, "The chunk in question"),
        ("candidates", _TEXT, "JSON: the chunks it may be the same as, best first"),
        ("reason", _TEXT, "Why a person is asked"),
        ("queued_at", _TIME, "When it was asked"),
        ("reviewed_at", _TIME, "When it was answered; null while open"),
        ("reviewed_by", _TEXT, "Who answered; of a question that closed by itself the run that closed it"),
        ("decision", _TEXT, "The answer; closed where its rows have changed or gone; merged_into_existing by a night"),
        ("notes", _TEXT, "The reviewer's words, or why it closed"),
    ),
    key=("review_id",),
)

REVIEW_DECISIONS = Contract(
    name="review_decisions",
    about="A reviewer's answer, kept for ever.",
    shape=_shape(
        ("decision_id", _TEXT, "Id derived from the answer"),
        ("review_id", _TEXT, "The question it answers; of a contradiction the pair_id"),
        ("decision", _TEXT, "merge, keep_separate, link, flag_contradiction or delete; the side that stands; or undo"),
        ("target_canonical_id", _TEXT, "The group chosen, for a merge, link or contradiction"),
        ("reviewer", _TEXT, "Who decided"),
        ("notes", _TEXT, "The reviewer's words"),
        ("decided_at", _TIME, "When"),
        ("seq", pa.int64(), "Its place in the order of all decisions"),
        ("scope", _TEXT, "The wall"),
        ("chunk_id", _TEXT, "The chunk in question"),
        ("batch_id", _TEXT, "The bulk action or file it came with; null for one by itself"),
        ("undoes", _TEXT, "The decision that an undo takes back"),
        ("undone_by", _TEXT, "The undo that took it back; null while it stands"),
        ("outcome", _TEXT, "applied, or why it came to nothing"),
        ("effects", _TEXT, "JSON: what it changed, and what was there before, so that an undo can restore it"),
        ("run_id", _TEXT, "The run that applied it"),
    ),
    key=("decision_id",),
    rules={
        "decision_id_is_derived": _is_id("decision_id"),
        "decision_is_known": pl.col("decision").is_in((*DECISIONS, *RESOLUTIONS, UNDO)),
        "reviewer_is_present": pl.col("reviewer").str.contains(r"\S"),
    },
)

FORWARDS = Contract(
    name="forwards",
    about="A group that became part of another: its id leads on to the one that is left.",
    shape=_shape(
        ("canonical_id", _TEXT, "The id that is no longer in `canonicals`"),
        ("forwards_to", _TEXT, "The group it became part of"),
        ("scope", _TEXT, "The wall"),
        ("run_id", _TEXT, "The run that joined the two"),
        ("forwarded_at", _TIME, "When"),
    ),
    key=("canonical_id",),
    rules={
        "canonical_id_is_derived": _is_id("canonical_id"),
        "leads_elsewhere": _is_id("forwards_to") & (pl.col("forwards_to") != pl.col("canonical_id")),
    },
)

SEPARATIONS = Contract(
    name="separations",
    about="Two chunks that are never merged by themselves: a person took one out of the other's group, or said so.",
    shape=_shape(
        ("pair_id", _TEXT, "Id derived from the two chunks"),
        ("left_id", _TEXT, "The lower chunk_id"),
        ("right_id", _TEXT, "The higher chunk_id"),
        ("scope", _TEXT, "The wall"),
        ("chunk_id", _TEXT, "The one that was taken out, or in question"),
        ("canonical_id", _TEXT, "The group it was taken out of, or that it is kept apart from"),
        ("merged_because", _TEXT, "The reason of the merge that was undone; null where they were never merged"),
        ("decided_by", _TEXT, "Who decided it"),
        ("decided_at", _TIME, "When"),
        ("run_id", _TEXT, "The run that did it"),
        ("decision", _TEXT, "keep_separate, link or flag_contradiction; null for one taken out of a group"),
    ),
    key=("pair_id",),
    rules={"pair_id_is_derived": _is_id("pair_id"), "left_below_right": _below},
)

REJECTS = Contract(
    name="rejects",
    about="A row refused at the door, with the rule it broke.",
    shape=_shape(
        ("reject_id", _TEXT, "Id derived from source, locator, rule and what the row said"),
        ("source", _TEXT, "Name of the input it came from"),
        ("source_row_id", _TEXT, "Its id there, where it has one"),
        ("locator", _TEXT, "Where it stands: file:row, rows from 1"),
        ("reason", _TEXT, "The name of the rule it broke"),
        ("detail", _TEXT, "What was found, where there is more to say"),
        ("run_id", _TEXT, "The run that first refused it"),
        ("last_run_id", _TEXT, "The run that last refused it; the latest one, while it is still broken"),
        ("corpus_id", _TEXT, "The corpus it came in, where it came in one"),
        ("source_doc_id", _TEXT, "The document it belongs to, where it names one"),
    ),
    key=("reject_id",),
    rules={
        "reject_id_is_derived": _is_id("reject_id"),
        "source_is_present": pl.col("source").str.len_bytes() > 0,
        "locator_is_present": pl.col("locator").str.len_bytes() > 0,
        "reason_is_present": pl.col("reason").str.len_bytes() > 0,
    },
)

LEGACY_ROWS = Contract(
    name="legacy_rows",
    about="A row that `nightfold backfill` brought in, under its id in the legacy system.",
    shape=_shape(
        ("legacy_id", _TEXT, "Id derived from scope, source, old id and window"),
        ("scope", _TEXT, "The wall"),
        ("source", _TEXT, "Name of the source it came from"),
        ("old_id", _TEXT, "Its id in the legacy system, or file:row where it has none"),
        ("chunk_index", pa.int32(), "Position of the window in its document, from 0; null for a row that is whole"),
        ("shape", _TEXT, "What it was read as: knowledge_chunks, documents or memories"),
        ("chunk_id", _TEXT, "The chunk it says"),
        ("row_hash", _TEXT, "SHA-256 of the content contract over the whole legacy row, all of its windows together"),
        ("hash_was", _TEXT, "The legacy hash: missing, right or wrong"),
        ("embedding_was", _TEXT, "The legacy embedding: none, usable, or why it was refused"),
        ("row_digest", _TEXT, "Digest of the row as it was mapped: one that is here already is skipped"),
        ("run_id", _TEXT, "The run that brought it in, or last changed it"),
    ),
    key=("legacy_id",),
    rules={
        "legacy_id_is_derived": _is_id("legacy_id"),
        "chunk_id_is_derived": _is_id("chunk_id"),
        "row_hash_is_sha256": _is_hash("row_hash"),
        "hash_is_known": pl.col("hash_was").is_in(HASH_WAS),
        "embedding_is_known": pl.col("embedding_was").is_in(EMBEDDING_WAS),
    },
)

PARSED_FILES = Contract(
    name="parsed_files",
    about="A document file as it was parsed: one with the same bytes in the same scope need not be parsed again.",
    shape=_shape(
        ("file_key", _TEXT, "Id derived from scope, bytes, parser and chunking"),
        ("scope", _TEXT, "The wall"),
        ("file_hash", _TEXT, "SHA-256 of the file contract: of the scope and the raw bytes"),
        ("chunk_ids", pa.large_list(_TEXT), "The chunks of its windows, in their order"),
        ("layout_digests", pa.large_list(pa.uint64()), "Digest of each window as it is laid out in this file"),
        ("texts", pa.large_list(_TEXT), "Each window's text, where its chunk shows another layout of it; else null"),
        ("run_id", _TEXT, "The run that last parsed it"),
    ),
    key=("file_key",),
    rules={
        "file_key_is_derived": _is_id("file_key"),
        "file_hash_is_sha256": _is_hash("file_hash"),
        "has_a_window": pl.col("chunk_ids").list.len() >= 1,
    },
)


def _is_named(column: str) -> pl.Expr:
    """Blank ids are read as null: no null and no blank ever equals another."""
    return pl.col(column).is_not_null()


def _is_plain(column: str) -> pl.Expr:
    """What goes into a scope holds nothing that joins scopes."""
    return ~pl.col(column).fill_null("").str.contains(SCOPE_SEPARATOR, literal=True)


_is_personal = pl.col("type") == PERSONAL

CORPORA = Contract(
    name="corpora",
    about="A body of documents: a workspace's (global), or one person's alone (personal).",
    shape=_shape(
        ("corpus_id", _TEXT, "Its id"),
        ("type", _TEXT, "global or personal"),
        ("name", _TEXT, "What people call it"),
        ("owner_id", _TEXT, "Whose it is, of a personal one; null of a global one"),
        ("workspace_id", _TEXT, "The workspace it belongs to; of a personal one it may be null"),
        ("is_active", pa.bool_(), "False: nobody is shown anything of it"),
        ("scope", _TEXT, "The wall its rows are behind: its workspace, or its owner's own"),
        ("is_assigned", pa.bool_(), "Some assignment names it, a refused one included: then only its agents show it"),
    ),
    key=("corpus_id",),
    rules={
        "corpus_id_is_present": _is_named("corpus_id"),
        "corpus_type_is_known": pl.col("type").is_in(CORPUS_TYPES),
        "is_active_is_true_or_false": pl.col("is_active").is_not_null(),
        "personal_corpus_has_owner": ~_is_personal | _is_named("owner_id"),
        "global_corpus_has_no_owner": _is_personal | pl.col("owner_id").is_null(),
        "global_corpus_has_workspace": _is_personal | _is_named("workspace_id"),
        "owner_and_workspace_have_no_separator": _is_plain("owner_id") & _is_plain("workspace_id"),
    },
)

AGENTS = Contract(
    name="agents",
    about="An assistant that is asked, and whether it may be shown what is personal.",
    shape=_shape(
        ("agent_id", _TEXT, "Its id"),
        ("allows_personal_corpus", pa.bool_(), "True: it also shows its user what is theirs"),
        ("workspace_id", _TEXT, "The workspace whose corpora it may show; null: any that it is assigned"),
    ),
    key=("agent_id",),
    rules={
        "agent_id_is_present": _is_named("agent_id"),
        "allows_personal_corpus_is_true_or_false": pl.col("allows_personal_corpus").is_not_null(),
    },
)

CORPUS_AGENT_ASSIGNMENTS = Contract(
    name="corpus_agent_assignments",
    about="A corpus that an agent shows.",
    shape=_shape(("corpus_id", _TEXT, "The corpus"), ("agent_id", _TEXT, "The agent that shows it")),
    key=("corpus_id", "agent_id"),
    rules={"assignment_names_both": _is_named("corpus_id") & _is_named("agent_id")},
)

CORPUS_DOCUMENTS = Contract(
    name="corpus_documents",
    about="A document of a corpus, and how far it has come.",
    shape=_shape(
        ("document_id", _TEXT, "Its id"),
        ("corpus_id", _TEXT, "The corpus it is in"),
        ("source", _TEXT, "The input its rows come from; null: any"),
        ("source_doc_id", _TEXT, "The source_doc_id of its rows"),
        ("status", _TEXT, "pending, processing, indexed or failed"),
        ("reason", _TEXT, "Why, where it is failed or waits"),
    ),
    key=("corpus_id", "document_id"),
    rules={
        "document_id_is_present": _is_named("document_id"),
        "document_status_is_known": pl.col("status").is_in(DOCUMENT_STATUS),
    },
)

RUNS = Contract(
    name="runs",
    about="A run. The latest one that is published or a rollback names the versions readers open.",
    shape=_shape(
        ("run_id", _TEXT, "Start of the run, UTC"),
        ("started_at", _TIME, "When it started"),
        ("published_at", _TIME, "When it was committed; null for a failed run"),
        ("status", _TEXT, "published, rollback or failed"),
        ("restores", _TEXT, "The run a rollback went back to"),
        ("rows_in", pa.int64(), "Rows read from the sources"),
        ("rows_rejected", pa.int64(), "Rows refused at the door"),
        ("occurrences_new", pa.int64(), "Rows not seen before"),
        ("occurrences_known", pa.int64(), "Rows seen on an earlier night"),
        ("chunks_new", pa.int64(), "Contents not seen before"),
        ("chunks_touched", pa.int64(), "Known contents that were seen again"),
        ("actions", _TEXT, "JSON: chunks by action"),
        ("stage_seconds", _TEXT, "JSON: seconds by stage"),
        ("recall_measured", pa.float64(), "Share of true pairs found; null when not measured"),
        ("table_versions", _TEXT, "JSON: the version of each table this run published"),
        ("settings", _TEXT, "JSON: the settings of the run"),
        ("note", _TEXT, "Why it failed, or what was skipped"),
        ("neighbours", _TEXT, "JSON: embedding model and version, pairs found, kept and cut, probes by scope"),
        ("sources", _TEXT, "JSON: rows by source: new, known and rejected"),
        ("stage_peak_mib", _TEXT, "JSON: the most memory held in each stage, in MiB"),
        ("decisions", pa.int64(), "Decisions of people that the run applied and nothing else; null for a night"),
        ("backfill", _TEXT, "The backfill of which it brought in a slice; null for any other run"),
    ),
    key=("run_id",),
    rules={
        "run_id_is_present": pl.col("run_id").str.len_bytes() > 0,
        "status_is_known": pl.col("status").is_in(RUN_STATUS),
    },
)

VECTORS_PREFIX = "vectors_"
RETRIEVAL_PREFIX = "retrieval_"
# Tables of one embedding version each: a run names those it published.
OF_A_VERSION = (VECTORS_PREFIX, RETRIEVAL_PREFIX)


def vectors_of(version: str, dimensions: int) -> Contract:
    """The table of one embedding version: append-only, so that updates of `chunks` never disturb its index."""
    return Contract(
        name=f"{VECTORS_PREFIX}{version}",
        about="A chunk's vector in one embedding version.",
        shape=_shape(
            ("chunk_id", _TEXT, "The chunk"),
            ("scope", _TEXT, "The wall"),
            ("text_key", _TEXT, "Digest of its normal form, whatever its scope: the same text is embedded once"),
            ("vector", pa.list_(pa.float32(), dimensions), "Of unit length, or zero for a text without a known word"),
        ),
        key=("chunk_id",),
        rules={"chunk_id_is_derived": _is_id("chunk_id"), "vector_is_present": pl.col("vector").is_not_null()},
    )


def retrieval_of(version: str, dimensions: int) -> Contract:
    """What a search of corpora asks, of one embedding version: append-only, a row for a chunk and a corpus it is in."""
    return Contract(
        name=f"{RETRIEVAL_PREFIX}{version}",
        about="A chunk in a corpus, with its vector in one embedding version.",
        shape=_shape(
            ("chunk_id", _TEXT, "The chunk"),
            ("scope", _TEXT, "The wall"),
            ("corpus_id", _TEXT, "The corpus it is in"),
            ("vector", pa.list_(pa.float32(), dimensions), "As in the vectors of the version"),
        ),
        key=("corpus_id", "chunk_id"),
        rules={
            "chunk_id_is_derived": _is_id("chunk_id"),
            "corpus_is_named": _is_named("corpus_id"),
            "vector_is_present": pl.col("vector").is_not_null(),
        },
    )


# Every table a run publishes, but for its vectors; `runs` itself is the commit and stands apart.
PUBLISHED_TABLES = (
    CHUNKS,
    OCCURRENCES,
    CANONICALS,
    VARIANTS,
    PAIRS,
    LINKS,
    CONTRADICTIONS,
    PENDING_REVIEWS,
    REVIEW_DECISIONS,
    FORWARDS,
    SEPARATIONS,
    LEGACY_ROWS,
    PARSED_FILES,
    CORPORA,
    AGENTS,
    CORPUS_AGENT_ASSIGNMENTS,
    CORPUS_DOCUMENTS,
    REJECTS,
)
