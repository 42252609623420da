"""What the rows of `runs` have in common, whoever publishes them."""

from datetime import datetime
from typing import Any

from flows.errors import NightfoldError


class NothingPublished(NightfoldError):
    """The run's own figures do not hold; what was published before still stands."""


# What a run that reads no input says of its rows.
NOTHING_COUNTED: dict[str, Any] = {
    **dict.fromkeys(
        ("rows_in", "rows_rejected", "occurrences_new", "occurrences_known", "chunks_new", "chunks_touched"), 0
    ),
    "actions": {},
    "stage_seconds": {},
    "stage_peak_mib": {},
    "sources": {},
    "recall_measured": None,
    "decisions": None,
    "backfill": None,
}


def run_id_at(moment: datetime) -> str:
    """The id of the run that starts at this moment."""
    return f"{moment:%Y%m%dT%H%M%S.%fZ}"
