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

RELATIONS = ("equivalent", "subset", "superseding", "contradictory", "complementary", "distinct", "unknown")

COMPLETE = "complete"
INCOMPLETE = "incomplete"
COMPLETION = (COMPLETE, INCOMPLETE, "retry-needed")

PUBLISHED = "published"
ROLLED_BACK = "rollback"
FAILED = "failed"
RUN_STATUS = (PUBLISHED, ROLLED_BACK, FAILED)
