"""The report as one HTML file: what `Facts` knows, in the page's template."""

import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flows.report.facts import Facts
from flows.report.plots import similarity_histogram, stage_bars, trend_lines
from flows.report.since import CHANGES
from flows.warehouse import Run
from schemas.terms import FLAGGED, LINKED, MERGED, QUEUED, STORED_AS_NEW, SUPERSEDED

WORDS = {
    MERGED: ("Merged into another", "Merged"),
    SUPERSEDED: ("Replace another", "Replace"),
    FLAGGED: ("Contradict another", "Contradict"),
    QUEUED: ("Wait for a person", "Wait"),
    LINKED: ("Linked to another", "Linked"),
    STORED_AS_NEW: ("Stored as new", "New"),
}
_GROUP_HEADS = (
    ("new", "New groups", "Groups of more than one chunk that were not there before."),
    ("grown", "Grown", "Groups that chunks were merged into."),
    ("shrunk", "Shrunk", "Groups that have lost chunks."),
    ("split", "Split off", "Chunks that were in another group, and stand for one of their own."),
    ("joined", "Joined", "Groups that became part of another; their ids lead on to it."),
    ("gone", "Gone", "Groups that are there no longer."),
    ("restood", "Another chunk stands", "Groups that another chunk stands for now."),
)
_CONTENTS = (
    ("what-it-did", "At a glance"),
    ("changed", "What changed"),
    ("came-in", "What came in"),
    ("became", "What became of it"),
    ("near", "Near pairs"),
    ("groups", "Largest groups"),
    ("contradictions", "Contradictions"),
    ("waiting", "Waiting"),
    ("superseded", "Superseded"),
    ("embeddings", "Embeddings"),
    ("guards", "Guards"),
    ("stages", "Time and memory"),
    ("trend", "The last nights"),
)
_OF_WHOLE_RUNS = {"guards", "stages", "trend"}
# Colours of the histogram's stack, and which actions each takes; pairs that nobody has judged have none.
_STACK = (
    ("merged", "a", (MERGED,)),
    ("for a person", "b", (QUEUED,)),
    ("contradict or replace", "c", (FLAGGED, SUPERSEDED)),
    ("linked", "d", (LINKED,)),
    ("kept apart", "e", (STORED_AS_NEW, None)),
)
_THRESHOLDS = (("compared from", "neighbours", "threshold"), ("merged from", "judge", "merge_similarity"))
_NOT_CHARACTERS = {0xFFFE, 0xFFFF}


def report_html(facts: Facts) -> str:
    """The page: HTML that loads nothing and holds no script."""
    environment = Environment(
        loader=PackageLoader("flows.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "num": number,
        "text": cleaned,
        "moment": moment,
        "share": lambda value: "" if value is None else f"{value:.3f}",
        "figure": lambda value: f"{value:,.0f}" if value >= 10 else f"{value:,.3g}",
        "seconds": _duration,
    }
    page = environment.get_template("page.html.j2")
    return page.render(_context(facts, style=_source(environment, "page.css")))


def _source(environment: Environment, name: str) -> Markup:
    assert environment.loader is not None  # it was made with one
    return Markup(environment.loader.get_source(environment, name)[0])  # noqa: S704  our own file


def number(value: float) -> str:
    """A count with separators of thousands."""
    return f"{value:,}"


def moment(at: datetime | None) -> str:
    return "never" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def cleaned(text: object, most: int = 280) -> str:
    """A text of at most so many characters, without those that no page may hold."""
    shown = "".join(character if _is_shown(character) else "\ufffd" for character in str(text))
    return shown if len(shown) <= most else shown[: most - 1].rstrip() + "…"


def _is_shown(character: str) -> bool:
    if character in "\n\t":
        return True
    code = ord(character)
    if unicodedata.category(character) in ("Cc", "Cs") or code & 0xFFFF in _NOT_CHARACTERS:
        return False
    return not 0xFDD0 <= code <= 0xFDEF


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def _context(facts: Facts, *, style: Markup) -> dict[str, Any]:
    run, since = facts.run, facts.since
    counts = since.counts
    names = ("source", "scope") if facts.is_whole else ("source",)
    changed = facts.changed_groups
    return {
        "style": style,
        "made_by": version("nightfold"),
        "run": run,
        "day": f"{facts.at.astimezone(UTC):%A, %-d %B %Y}",
        "scope": facts.scope,
        "whole": facts.is_whole,
        "since": since,
        "contents": [each for each in _CONTENTS if facts.is_whole or each[0] not in _OF_WHOLE_RUNS],
        "cards": _cards(facts),
        "attention": list(_attention(facts)),
        "change_counts": [{"words": CHANGES[name], "count": count} for name, count in counts.items()],
        "changed": changed,
        "changed_in_all": {
            name: since.groups.new.filter(since.groups.new["chunks"] > 1).height if name == "new" else counts[name]
            for name in changed
        },
        "group_heads": _GROUP_HEADS if changed else (),
        "texts": {
            chunk_id: {**chunk, "text": _begun(chunk["text"], facts.settings.text_chars)}
            for chunk_id, chunk in facts.texts.items()
        },
        "sources": facts.sources,
        "source_columns": ("new", "known", "rejected") if facts.is_whole and run.sources else ("new",),
        "rejects": facts.rejects,
        "actions": [
            {**row, "words": WORDS[row["action"]][0], "short": WORDS[row["action"]][1]} for row in facts.actions
        ],
        "chunks_in_all": facts.since.chunks.height,
        "by_name": [(what, *facts.by_name(what)) for what in names],
        "relations": facts.relations,
        "histogram": Markup(_histogram(facts)) if facts.relations else "",  # noqa: S704  our own, its words escaped
        "largest": facts.largest_groups,
        "contradictions": facts.contradictions,
        "open_contradictions": facts.open_contradictions,
        "waiting": facts.waiting,
        "open_questions": facts.open_questions,
        "superseded": facts.superseded,
        "superseded_in_all": facts.superseded_in_all,
        "without_vector": facts.without_vector,
        "embeds": facts.embeds,
        "headroom": facts.headroom,
        "stages": _stages(run) if facts.is_whole and run.is_night else "",
        "trend": facts.trend,
        "trend_plots": _trend_plots(facts.trend),
    }


def _begun(text: str | None, most: int) -> str | None:
    return None if text is None else cleaned(text, most)


def _cards(facts: Facts) -> list[dict[str, Any]]:
    run, new_rows = facts.run, sum(row["rows"] for row in facts.new_rows)
    new_chunks = run.chunks_new if facts.is_whole else _new_chunks(facts)
    cards = [
        _card("Rows in", run.rows_in, f"{new_rows:,} for the first time")
        if facts.is_whole
        else _card("New rows", new_rows, f"of {facts.occurrences:,} on record"),
        _card("New chunks", new_chunks, f"of {facts.since.chunks.height:,} in all"),
        _card("Exact duplicates", max(0, new_rows - new_chunks), "new rows that repeat a content"),
        _card("Merged", facts.merged_tonight, f"{facts.canonicals:,} canonicals stand"),
        _card("Contradictions", facts.open_contradictions, "open"),
        _card("Waiting", facts.open_questions, "for a person"),
        _card("Superseded", facts.superseded_in_all, "no longer hold"),
    ]
    if facts.is_whole:
        cards.append(_card("Refused", run.rows_rejected, "rows that break a rule"))
    return cards


def _new_chunks(facts: Facts) -> int:
    """Tonight's contents of a scope that were not there before: those that are not merely judged anew."""
    before = 0 if facts.since.before is None else facts.since.chunks_before
    return facts.since.chunks.height - before


def _card(word: str, figure: int, note: str, kind: str = "") -> dict[str, Any]:
    return {"word": word, "figure": number(figure), "note": note, "kind": kind}


def _attention(facts: Facts) -> Iterator[dict[str, str]]:
    """What a person may want to do something about, and the section that tells more."""
    run = facts.run
    if facts.is_whole:
        for each in facts.headroom:
            if each.is_near:
                yield {"at": "guards", "words": f"{each.guard} is at {each.used or 0:.0%} of its limit"}
        wanted = run.settings.get("neighbours", {}).get("recall_min")
        if run.recall_measured is not None and wanted is not None and run.recall_measured < wanted:
            yield {"at": "near", "words": f"{run.recall_measured:.1%} of the true pairs found, below {wanted:.1%}"}
        if run.rows_rejected:
            yield {"at": "came-in", "words": _counted(run.rows_rejected, "row was refused", "rows were refused")}
        if run.note and "skipped" in run.note:
            yield {"at": "what-it-did", "words": "an input was skipped: see the note above"}
    missing = sum(row["chunks"] for row in facts.without_vector)
    if missing and facts.embeds:
        yield {"at": "embeddings", "words": _counted(missing, "chunk has no vector", "chunks have no vector")}
    opened = facts.since.counts.get("contradictions_opened", 0)
    if opened:
        yield {"at": "contradictions", "words": _counted(opened, "new contradiction", "new contradictions")}
    if facts.open_questions:
        yield {"at": "waiting", "words": _counted(facts.open_questions, "question waits", "questions wait")}


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _histogram(facts: Facts) -> str:
    kind_of = {action: word for word, _, actions in _STACK for action in actions}
    counted: dict[tuple[int, str], int] = {}
    for row in facts.similarities:
        key = (row["bucket"], kind_of[row["action"]])
        counted[key] = counted.get(key, 0) + row["pairs"]
    settings = facts.run.settings
    thresholds = [
        (word, settings[section][key]) for word, section, key in _THRESHOLDS if key in settings.get(section, {})
    ]
    return similarity_histogram(
        [(bucket, kind, pairs) for (bucket, kind), pairs in sorted(counted.items())],
        kinds=[(word, colour) for word, colour, _ in _STACK],
        thresholds=thresholds,
    )


def _stages(run: Run) -> Markup:
    return Markup(stage_bars(run.stage_seconds, run.stage_peak_mib))  # noqa: S704  our own, its words escaped


def _trend_plots(runs: list[Run]) -> list[tuple[Markup, str]]:
    nights = [run for run in runs if run.is_readable]
    if len(nights) < 2:
        return []
    days = [f"{run.started_at:%d %b}" for run in nights]
    rows = trend_lines(
        days,
        [
            ("rows in", "e", [run.rows_in for run in nights]),
            ("new rows", "a", [run.occurrences_new for run in nights]),
            ("new chunks", "b", [run.chunks_new for run in nights]),
            ("merged", "c", [run.actions.get(MERGED, 0) for run in nights]),
        ],
        name="trend-rows",
        title="Rows and chunks by night",
    )
    took = trend_lines(
        days,
        [("seconds", "a", [round(sum(run.stage_seconds.values()), 1) for run in nights])],
        name="trend-seconds",
        title="Seconds by night",
    )
    return [
        (Markup(rows), "Rows that came in, and what of them was new."),  # noqa: S704  our own, its words escaped
        (Markup(took), "Seconds of work up to the commit."),  # noqa: S704  our own, its words escaped
    ]
