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

# What a legacy row had for a content hash.
HASH_MISSING = "missing"
HASH_RIGHT = "right"
HASH_WRONG = "wrong"
HASH_WAS = (HASH_MISSING, HASH_RIGHT, HASH_WRONG)
# What a legacy row had for an embedding; all but the first two were refused for what they say.
EMBEDDING_NONE = "none"
EMBEDDING_USABLE = "usable"
EMBEDDING_UNREADABLE = "unreadable"
EMBEDDING_NOT_FINITE = "not_finite"
EMBEDDING_ZERO = "zero"
EMBEDDING_WRONG_DIMENSION = "wrong_dimension"
EMBEDDING_OTHER_MODEL = "other_model"
EMBEDDING_UNKNOWN_MODEL = "unknown_model"
EMBEDDING_OF_SEVERAL = "of_several_chunks"
EMBEDDING_WAS = (
    EMBEDDING_NONE,
    EMBEDDING_USABLE,
    EMBEDDING_UNREADABLE,
    EMBEDDING_NOT_FINITE,
    EMBEDDING_ZERO,
    EMBEDDING_WRONG_DIMENSION,
    EMBEDDING_OTHER_MODEL,
    EMBEDDING_UNKNOWN_MODEL,
    EMBEDDING_OF_SEVERAL,
)
# Whose a corpus is: its workspace's, or its owner's alone.
GLOBAL = "global"
PERSONAL = "personal"
CORPUS_TYPES = (GLOBAL, PERSONAL)

# How far a document has come.
PENDING = "pending"
PROCESSING = "processing"
INDEXED = "indexed"
DOCUMENT_STATUS = (PENDING, PROCESSING, INDEXED, FAILED)

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
