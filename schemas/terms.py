"""The closed vocabularies of the tables."""

TEXT = "text"
FILE = "file"
SPEC_ROW = "spec_row"
MEMORY = "memory"
KINDS = (TEXT, FILE, SPEC_ROW, MEMORY)

STORED_AS_NEW = "stored_as_new"
ACTIONS = (
    STORED_AS_NEW,
    "merged_into_existing",
    "linked_to_existing",
    "flagged_as_contradiction",
    "queued_for_review",
    "superseded_existing",
)

UNKNOWN = "unknown"
RELATIONS = ("equivalent", "subset", "superseding", "contradictory", "complementary", "distinct", UNKNOWN)

COMPLETE = "complete"
INCOMPLETE = "incomplete"
RETRY_NEEDED = "retry-needed"
COMPLETION = (COMPLETE, INCOMPLETE, RETRY_NEEDED)

PUBLISHED = "published"
ROLLED_BACK = "rollback"
FAILED = "failed"
RUN_STATUS = (PUBLISHED, ROLLED_BACK, FAILED)
