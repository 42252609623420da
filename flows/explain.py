"""The story of a chunk in words."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from flows.console import plain
from flows.story import Story
from schemas.terms import ACTIONS, COMPLETE, FLAGGED, LINKED, MERGED, QUEUED, STORED_AS_NEW, SUPERSEDED

_TEXT, _OTHER_TEXT = 600, 120
_SHOWN = 20
_STRENGTH = {action: rank for rank, action in enumerate(ACTIONS)}
_BECAME = {
    MERGED: "merged into another chunk",
    SUPERSEDED: "replaces another chunk",
    FLAGGED: "contradicts another chunk",
    QUEUED: "waits for a person to decide",
    LINKED: "linked to another chunk",
    STORED_AS_NEW: "stored as new",
}


def told(story: Story) -> list[str]:
    """The story as lines, a heading before each part that there is."""
    lines = list(_itself(story))
    parts = {
        "said by": _occurrences(story),
        "group": _group(story),
        "judged against": _pairs(story),
        "links": _links(story),
        "contradictions": _contradictions(story),
        "review": _reviews(story),
        "validity": _validity(story),
        "taken apart": _separations(story),
        "ids that lead on": _forwards(story),
        "runs": _runs(story),
    }
    for head, part in parts.items():
        said = list(part)
        if said:
            lines += ["", head, *(f"  {line}" for line in said)]
    return lines


def _itself(story: Story) -> Iterator[str]:
    chunk = story.chunk
    yield f"chunk {chunk['chunk_id']}: {chunk['kind']} in {plain(chunk['scope'], most=_OTHER_TEXT)}"
    yield f"  {_text(chunk['text'], most=_TEXT)}"
    yield f"  {_BECAME[chunk['action']]} ({chunk['action']})"
    if chunk["keep_apart"]:
        yield "  never merged: its row said force, or its scope has dedup = false"
    if chunk["deleted_at"] is not None:
        yield f"  deleted by a reviewer on {_day(chunk['deleted_at'])}: no search finds it"
    if chunk["completion_status"] != COMPLETE:
        yield f"  has no vector yet ({chunk['completion_status']}), so that nothing is near it; `nightfold retry`"


def _occurrences(story: Story) -> Iterator[str]:
    rows = story.occurrences.iter_rows(named=True)
    yield from _some(f"{_row(row)}, seen {_day(row['seen_at'])}, came in with run {row['run_id']}" for row in rows)


def _group(story: Story) -> Iterator[str]:
    chunk, group = story.chunk, story.group
    is_standing = group["chunk_id"] == chunk["chunk_id"]
    size = f"{group['variants'] + 1:,} chunks and {group['occurrences']:,} rows"
    if not group["variants"]:
        yield "stands for itself; nothing is merged into it"
    elif is_standing:
        yield f"stands for group {group['canonical_id']}: {size}"
    else:
        yield f"is in group {group['canonical_id']}: {size}; {_other(story, group['chunk_id'])} stands for it"
    variants = sorted(
        story.variants.iter_rows(named=True), key=lambda row: (row["chunk_id"] != chunk["chunk_id"], row["chunk_id"])
    )
    yield from _some(_variant(story, row) for row in variants)


def _variant(story: Story, row: dict[str, Any]) -> str:
    is_mine = row["chunk_id"] == story.chunk["chunk_id"]
    how = f"{row['relation']}, confidence {_figure(row['confidence'])}, by {row['decided_by']} in run {row['run_id']}"
    lines = [f"{'it' if is_mine else _other(story, row['chunk_id'])} was merged as {how}"]
    lines += [] if is_mine else [_text_of(story, row["chunk_id"])]
    return _block([*lines, f"because: {_said(row['reason'])}"])


def _pairs(story: Story) -> Iterator[str]:
    rows = sorted(
        story.pairs.iter_rows(named=True),
        key=lambda row: (_STRENGTH.get(row["action"], len(_STRENGTH)), -row["similarity"], row["pair_id"]),
    )
    yield from _some(_pair(story, row) for row in rows)


def _pair(story: Story, row: dict[str, Any]) -> str:
    is_left = row["left_id"] == story.chunk["chunk_id"]
    other_id, side = _end(story, row), "right" if is_left else "left"
    near = f"similarity {_figure(row['similarity'])}"
    if row["decided_by"] is None:
        return _block([f"{_other(story, other_id)}: not judged yet, {near}", _text_of(story, other_id)])
    near += "" if row["reading"] is None else f" (as the transformer reads them {_figure(row['reading'])})"
    judged = f"{row['relation']}, confidence {_figure(row['confidence'])} -> {row['action']}"
    return _block(
        [
            f"{_other(story, other_id)}, on the {side}: {judged}",
            _text_of(story, other_id),
            _said(row["evidence"]),
            f"{near}, by {row['decided_by']}",
        ]
    )


def _links(story: Story) -> Iterator[str]:
    rows = story.links.iter_rows(named=True)
    yield from _some(f"{row['relation']} with {_other(story, _end(story, row))}" for row in rows)


def _contradictions(story: Story) -> Iterator[str]:
    rows = story.contradictions.iter_rows(named=True)
    yield from _some(f"{row['status']}, with {_other(story, _end(story, row))}" for row in rows)


def _reviews(story: Story) -> Iterator[str]:
    for row in story.reviews.iter_rows(named=True):
        mine = row["chunk_id"] == story.chunk["chunk_id"]
        count = len(json.loads(row["candidates"]))
        about = (
            f"with {count:,} to compare" if mine else f"about {_other(story, row['chunk_id'])}, which may be the same"
        )
        state = f"asked {_day(row['queued_at'])} and open" if row["reviewed_at"] is None else _answered(row)
        yield f"{state}, {about}: {_said(row['reason'])}"
    for row in story.decisions.iter_rows(named=True):
        words = f": {_said(row['notes'])}" if row["notes"] else ""
        taken_back = ", taken back since" if row["undone_by"] else ""
        yield f"{row['reviewer']} decided {row['decision']} on {_day(row['decided_at'])}{taken_back}{words}"


def _answered(row: dict[str, Any]) -> str:
    return f"answered {_day(row['reviewed_at'])} by {row['reviewed_by']} ({row['decision']})"


def _validity(story: Story) -> Iterator[str]:
    chunk = story.chunk
    if chunk["superseded_by"] is not None:
        held = f"it held from {_day(chunk['valid_from'])} to {_day(chunk['valid_to'])}"
        yield f"replaced by {_other(story, chunk['superseded_by'])}; {held}"
    elif chunk["valid_from"] is not None:
        yield f"holds since {_day(chunk['valid_from'])}"
    rows = story.replaced.iter_rows(named=True)
    yield from _some(f"replaces {_named(row)}, which held until {_day(row['valid_to'])}" for row in rows)


def _separations(story: Story) -> Iterator[str]:
    for row in story.separations.iter_rows(named=True):
        mine = row["chunk_id"] == story.chunk["chunk_id"]
        who = "it" if mine else _other(story, row["chunk_id"])
        rest = _other(story, _end(story, row)) if mine else "this one"
        if row["merged_because"] is None:
            yield f"{row['decided_by']} said on {_day(row['decided_at'])} that {who} and {rest} stay two, for good"
            continue
        yield (
            f"{row['decided_by']} took {who} out of the group of {rest} on {_day(row['decided_at'])}, for good; it was "
            f"merged because: {_said(row['merged_because'])}"
        )


def _forwards(story: Story) -> Iterator[str]:
    rows = story.forwards.iter_rows(named=True)
    yield from _some(f"{row['canonical_id']} leads to {row['forwards_to']} since run {row['run_id']}" for row in rows)


def _runs(story: Story) -> Iterator[str]:
    for run in story.runs:
        note = f": {plain(run.note, most=_OTHER_TEXT)}" if run.note else ""
        yield f"{run.run_id}, {run.status}{note}"


# --- words ------------------------------------------------------------------------------------------------------------


def _end(story: Story, row: dict[str, Any]) -> str:
    """The other chunk of a row that names two."""
    return str(row["right_id"] if row["left_id"] == story.chunk["chunk_id"] else row["left_id"])


def _other(story: Story, chunk_id: str) -> str:
    return _named(story.others[chunk_id])


def _named(chunk: dict[str, Any]) -> str:
    """A chunk by its id and its row."""
    return f"{chunk['chunk_id'][:12]} ({_row(chunk)})"


def _text_of(story: Story, chunk_id: str) -> str:
    return _text(story.others[chunk_id]["text"], most=_OTHER_TEXT)


def _block(lines: list[str]) -> str:
    """One item, its further lines under the first."""
    return "\n      ".join(lines)


def _row(row: dict[str, Any]) -> str:
    return plain(f"{row['source']}:{row['source_row_id']}", most=_OTHER_TEXT)


def _text(text: str | None, *, most: int) -> str:
    return "(bytes of a file)" if text is None else f"“{plain(text, most=most)}”"


def _said(text: str | None) -> str:
    return plain(text or "nothing is said", most=_TEXT)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _day(moment: datetime | None) -> str:
    return "an unknown day" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _some(lines: Iterable[str]) -> Iterator[str]:
    """The first lines, and how many there are besides."""
    every = list(lines)
    yield from every[:_SHOWN]
    if len(every) > _SHOWN:
        yield f"and {len(every) - _SHOWN:,} more"
