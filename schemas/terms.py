"""The closed vocabularies of the tables."""

TEXT = "text"
FILE = "file"
SPEC_ROW = "spec_row"
MEMORY = "memory"
KINDS = (TEXT, FILE, SPEC_ROW, MEMORY)

# What became of a chunk, strongest first: a chunk with several pairs bears the first that one of them led to.
MERGED = "merged_into_existing"
SUPERSEDED = "superseded_existing"
FLAGGED = "flagged_as_contradiction"
QUEUED = "queued_for_review"
LINKED = "linked_to_existing"
STORED_AS_NEW = "stored_as_new"
ACTIONS = (MERGED, SUPERSEDED, FLAGGED, QUEUED, LINKED, STORED_AS_NEW)

EQUIVALENT = "equivalent"
SUBSET = "subset"
SUPERSEDING = "superseding"
CONTRADICTORY = "contradictory"
COMPLEMENTARY = "complementary"
DISTINCT = "distinct"
UNKNOWN = "unknown"
RELATIONS = (EQUIVALENT, SUBSET, SUPERSEDING, CONTRADICTORY, COMPLEMENTARY, DISTINCT, UNKNOWN)

# The side of a pair that stands for both: the larger of a subset, the newer of a superseding one.
LEFT = "left"
RIGHT = "right"
SIDES = (LEFT, RIGHT)

COMPLETE = "complete"
INCOMPLETE = "incomplete"
RETRY_NEEDED = "retry-needed"
COMPLETION = (COMPLETE, INCOMPLETE, RETRY_NEEDED)

PUBLISHED = "published"
ROLLED_BACK = "rollback"
FAILED = "failed"
RUN_STATUS = (PUBLISHED, ROLLED_BACK, FAILED)

# What a person can answer to a question, and to a contradiction; and the entry that takes either back.
MERGE = "merge"
KEEP_SEPARATE = "keep_separate"
LINK = "link"
FLAG_CONTRADICTION = "flag_contradiction"
DELETE = "delete"
DECISIONS = (MERGE, KEEP_SEPARATE, LINK, FLAG_CONTRADICTION, DELETE)
LEFT_STANDS = "left_stands"
RIGHT_STANDS = "right_stands"
BOTH_STAND = "both_stand"
RESOLUTIONS = (LEFT_STANDS, RIGHT_STANDS, BOTH_STAND)
UNDO = "undo"
# A question that nobody answered: its rows have changed or gone.
CLOSED = "closed"

OPEN = "open"
RESOLVED = "resolved"
