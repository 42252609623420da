"""What a search found, as lines for a person."""

from collections.abc import Sequence

from flows.console import in_columns, plain
from flows.search import Hit, grouped

_HEADS = ("score", "corpus", "row", "rows", "last seen", "text")
_TEXT, _NAME = 100, 40


def lines_of(hits: Sequence[Hit], *, by_group: bool) -> list[str]:
    """A line a hit, best first; by group under a line each with parent and sub category."""
    if not hits:
        return []
    if not by_group:
        return in_columns([_HEADS, *map(_cells, hits)], right=[3])
    lines: list[str] = []
    for group in grouped(hits):
        named = [part for part in (group.parent_category, group.sub_category) if part]
        lines += ["", plain(" / ".join(named) or "other", most=_TEXT)]
        lines += [f"  {line}" for line in in_columns([_HEADS, *map(_cells, group.hits)], right=[3])]
    return lines[1:]


def _cells(hit: Hit) -> tuple[str, ...]:
    corpus = hit.corpus_name or hit.corpus_id or hit.scope
    whose = f" ({hit.corpus_type})" if hit.corpus_type else ""
    return (
        f"{hit.score:.3f}",
        plain(corpus, most=_NAME) + whose,
        plain(f"{hit.source}:{hit.source_row_id}", most=_NAME),
        f"{hit.occurrences:,}",
        f"{hit.last_seen_at:%Y-%m-%d}",
        plain(hit.text or "", most=_TEXT),
    )
