"""What the page calls things."""

from typing import Final

from schemas.terms import (
    BOTH_STAND,
    COMPLEMENTARY,
    CONTRADICTORY,
    DELETE,
    DISTINCT,
    EQUIVALENT,
    FILE,
    FLAG_CONTRADICTION,
    KEEP_SEPARATE,
    LEFT_STANDS,
    LINK,
    MEMORY,
    MERGE,
    MERGED,
    RIGHT_STANDS,
    SPEC_ROW,
    SUBSET,
    SUPERSEDING,
    TEXT,
    UNDO,
    UNKNOWN,
)

# Beside each relation's name, so that no colour has to be told apart.
SIGNS: Final = {
    EQUIVALENT: "=",
    SUBSET: "⊂",
    SUPERSEDING: "→",
    CONTRADICTORY: "≠",
    COMPLEMENTARY: "+",
    DISTINCT: "∥",
    UNKNOWN: "?",
}
KINDS: Final = {TEXT: "text", SPEC_ROW: "spec row", FILE: "file", MEMORY: "memory"}
KIND_OF: Final = {TEXT: "this text", SPEC_ROW: "this spec row", FILE: "this file", MEMORY: "this memory"}
# Key, decision, button, and what it does.
OFFERED: Final = (
    ("1", MERGE, "Merge", "the same thing, one group"),
    ("2", KEEP_SEPARATE, "Keep separate", "two things, both stay"),
    ("3", LINK, "Link", "related, both stay"),
    ("4", FLAG_CONTRADICTION, "Flag contradiction", "they cannot both hold"),
    ("5", DELETE, "Delete", "the new one is found no more"),
)
NEEDS_TARGET: Final = (MERGE, LINK, FLAG_CONTRADICTION)
STANDS: Final = (
    ("1", "left", "The first stands", "it replaces the second, which is kept"),
    ("2", "right", "The second stands", "it replaces the first, which is kept"),
    ("3", "both", "Both stand", "they hold side by side"),
)
DECIDED: Final = {
    MERGE: "merged",
    MERGED: "merged by a run",
    KEEP_SEPARATE: "kept separate",
    LINK: "linked",
    FLAG_CONTRADICTION: "flagged as a contradiction",
    DELETE: "deleted",
    LEFT_STANDS: "settled: the first stands",
    RIGHT_STANDS: "settled: the second stands",
    BOTH_STAND: "settled: both stand",
    UNDO: "took a decision back",
    "closed": "closed: its rows have changed or gone",
}
HEARD: Final = {
    "new": "only in the new chunk",
    "there": "only in the candidate",
    "first": "only in the first",
    "second": "only in the second",
}
