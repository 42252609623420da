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
    ("1", MERGE, "Merge", "The same thing: the new chunk joins the candidate's group."),
    ("2", KEEP_SEPARATE, "Keep separate", "Two things: both stay, and are not asked about again."),
    ("3", LINK, "Link", "Related: both stay, with a link between them."),
    ("4", FLAG_CONTRADICTION, "Flag contradiction", "They disagree: both stay, on the list of contradictions."),
    ("5", DELETE, "Delete", "The new chunk is no longer found; its rows stay on record."),
)
NEEDS_TARGET: Final = (MERGE, LINK, FLAG_CONTRADICTION)
STANDS: Final = (
    ("1", "left", "The first stands", "The second is replaced by it and kept in the archive."),
    ("2", "right", "The second stands", "The first is replaced by it and kept in the archive."),
    ("3", "both", "Both stand", "They hold side by side, and the contradiction is settled."),
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
