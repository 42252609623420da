"""The story of a chunk: found by id or by row, and every part of it told."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from flows.console import Progress
from flows.explain import told
from flows.story import NoSuchChunk, Story, story_of
from flows.unmerge import unmerge
from schemas.terms import COMPLEMENTARY, CONTRADICTORY, SUPERSEDING, UNKNOWN
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import Nights, given_verdicts, text, word_endpoint
from tests.nights import run_night, settings_of


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def nights(tmp_path: Path, endpoint: WordEndpoint) -> Iterator[Nights]:
    with given_verdicts() as verdicts:
        yield Nights(tmp_path, endpoint, verdicts)


def story(nights: Nights, chunk: str | None = None, *, row: str | None = None) -> Story:
    return story_of(settings_of(nights.warehouse), chunk=chunk, row=row)


def parts(nights: Nights, name: str) -> dict[str, str]:
    """What is told of a chunk, by heading; what comes before the first one has none."""
    blocks = "\n".join(told(story(nights, nights.id_of(name)))).split("\n\n")
    return {"": blocks[0], **{head: said for head, _, said in (block.partition("\n") for block in blocks[1:])}}


def test_the_chunk_that_stands_and_its_variants_tell_of_each_other(nights: Nights) -> None:
    nights.verdicts.say("a", "b", evidence="the same but for a comma")
    nights.verdicts.say("a", "c")
    run = nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3), source="in")
    a, b = nights.id_of("a"), nights.id_of("b")
    stands = parts(nights, "a")
    assert stands[""].splitlines() == [
        f"chunk {a}: text in acme",
        f"  “{text('a')}”",
        "  stored as new (stored_as_new)",
    ]
    assert stands["said by"] == f"  in:acme-a, seen 2026-01-01 02:00, came in with run {run.run_id}"
    assert f"stands for group {a}: 3 chunks and 3 rows" in stands["group"]
    assert f"{b[:12]} (in:acme-b) was merged as equivalent, confidence 0.99, by test in run" in stands["group"]
    assert f"“{text('b')}”\n      because: the same but for a comma" in stands["group"]
    assert "-> merged_into_existing" in stands["judged against"]
    assert stands["runs"] == f"  {run.run_id}, published"
    variant = parts(nights, "b")
    assert "merged into another chunk (merged_into_existing)" in variant[""]
    assert f"is in group {a}: 3 chunks and 3 rows; {a[:12]} (in:acme-a) stands for it" in variant["group"]
    assert variant["group"].splitlines()[1].startswith("  it was merged as equivalent")


def test_every_other_relation_is_told_from_both_sides(nights: Nights) -> None:
    nights.verdicts.say("a", "link", COMPLEMENTARY)
    nights.verdicts.say("a", "no", CONTRADICTORY, evidence="two valves, three valves")
    nights.verdicts.say("link", "ask", UNKNOWN, confidence=0.4, reading=0.91)
    nights.verdicts.say("a", "new", SUPERSEDING, larger="new")
    nights.run(*[("acme", name, day) for day, name in enumerate(("a", "link", "no", "ask", "new"), 1)], source="in")
    rows = {name: f"{nights.id_of(name)[:12]} (in:acme-{name})" for name in ("a", "link", "no", "ask", "new")}
    old = parts(nights, "a")
    assert old["links"] == f"  complementary with {rows['link']}"
    assert old["contradictions"] == f"  open, with {rows['no']}"
    held = "it held from 2026-01-01 02:00 to 2026-01-05 02:00"
    assert old["validity"] == f"  replaced by {rows['new']}; {held}"
    assert old["group"] == "  stands for itself; nothing is merged into it"
    link = parts(nights, "link")
    assert link["links"] == f"  complementary with {rows['a']}"
    assert f"about {rows['ask']}, which may be the same" in link["review"]
    against = parts(nights, "no")["judged against"]
    assert "contradictory, confidence 0.99 -> flagged_as_contradiction" in against
    assert "two valves, three valves" in against
    asked = parts(nights, "ask")
    assert "and open, with 1 to compare: may or may not say the same" in asked["review"]
    assert "(as the transformer reads them 0.91), by test" in asked["judged against"]
    newer = parts(nights, "new")["validity"].splitlines()
    assert f"  replaces {rows['a']}, which held until 2026-01-05 02:00" in newer
    # The strongest comes first, and what is merely distinct last.
    assert old["judged against"].splitlines()[0].endswith("superseded_existing")
    assert parts(nights, "new")["judged against"].count("-> stored_as_new") == 3


def test_what_was_taken_out_and_what_leads_on_is_told(nights: Nights, endpoint: WordEndpoint) -> None:
    nights.verdicts.say("a", "b", evidence="the same but for a comma")
    nights.verdicts.say("a", "c")
    endpoint.bad = {"a": "400"}
    try:
        nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3), source="in")
        assert "has no vector yet (incomplete)" in parts(nights, "a")[""]
    finally:
        endpoint.bad = {}
    run_night(nights.warehouse, pending="incomplete", **nights.sections())
    a, b, c = (nights.id_of(name) for name in "abc")
    assert parts(nights, "a")["ids that lead on"].count(f"leads to {a}") == 2
    settings = settings_of(nights.warehouse, **nights.sections())
    unmerge(settings, b, by="ana", reason="two pumps", progress=Progress(quiet=True))
    apart = parts(nights, "b")
    assert f"ana took it out of the group of {a[:12]} (in:acme-a) on " in apart["taken apart"]
    assert "it was merged because: the same but for a comma" in apart["taken apart"]
    assert f"published: ana took {b} out of group {a}: two pumps" in apart["runs"]
    assert f"ana took {b[:12]} (in:acme-b) out of the group of this one" in parts(nights, "a")["taken apart"]
    assert c in parts(nights, "a")["ids that lead on"]


def test_a_question_that_a_later_merge_answered_says_so(nights: Nights, endpoint: WordEndpoint) -> None:
    nights.verdicts.say("a", "b", UNKNOWN, confidence=0.2)
    nights.verdicts.say("b", "c")
    endpoint.bad = {"c": "400"}
    try:
        nights.run(("acme", "a", 1), ("acme", "c", 1), ("acme", "b", 2))
    finally:
        endpoint.bad = {}
    run_night(nights.warehouse, pending="incomplete", **nights.sections())
    assert "(merged_into_existing), with 1 to compare" in parts(nights, "b")["review"]


def test_a_chunk_that_is_kept_apart_or_not_judged_says_so(nights: Nights) -> None:
    nights.run(("acme", "a", 1, {"force": True}), ("acme", "b", 2, {"force": False}), judge={"enabled": False})
    said = parts(nights, "a")
    assert "never merged: its row said force" in said[""]
    assert ": not judged yet, similarity 0.9" in said["judged against"]


def test_a_file_has_no_text_to_show(tmp_path: Path, nights: Nights) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x.bin").write_bytes(b"\x00")
    given = {"path": str(tmp_path / "files"), "kind": "file", "scope": "acme", "name": "files"}
    run_night(nights.warehouse, given)
    assert "(bytes of a file)" in "\n".join(told(story(nights, row="files:x.bin")))


def test_of_many_the_first_are_shown_and_the_others_counted(nights: Nights) -> None:
    rows = pl.DataFrame({"id": [str(n) for n in range(30)], "workspace_id": "acme", "text": text("a")})
    rows.write_csv(nights.folder / "many.csv")
    run_night(nights.warehouse, {"path": str(nights.folder / "many.csv")})
    said = parts(nights, "a")["said by"].splitlines()
    assert (len(said), said[-1]) == (21, "  and 10 more")


def test_a_chunk_is_found_by_its_beginning_and_by_its_row(nights: Nights) -> None:
    nights.run(("it's", "a", 1), ("acme", "b", 1), source="in:put")
    chunk_id = nights.id_of("it's/a")
    assert story(nights, chunk_id[:10]).chunk["chunk_id"] == chunk_id
    assert story(nights, row="in:put:it's-a").chunk["chunk_id"] == chunk_id


def test_what_cannot_be_found_is_told_why(nights: Nights) -> None:
    with pytest.raises(NoSuchChunk, match="no run is published; `nightfold run` makes the first"):
        story(nights, "abc")
    nights.run(*[("acme", f"n{number}", 1) for number in range(40)], source="in")
    pl.DataFrame({"id": ["1", "2"], "workspace_id": "acme", "text": ["one", None]}).write_csv(nights.folder / "bad.csv")
    window = " ".join(f"word{number}" for number in range(30))
    (nights.folder / "docs").mkdir()
    (nights.folder / "docs" / "long.txt").write_text(window)
    run_night(
        nights.warehouse,
        {"path": str(nights.folder / "bad.csv"), "name": "bad"},
        {"path": str(nights.folder / "docs"), "name": "docs", "scope": "acme"},
        chunking={"tokens": 10, "overlap": 0},
    )
    for neither in ({}, {"chunk": "abc", "row": "in:1"}):
        with pytest.raises(NoSuchChunk, match="name a chunk by its id, or a row with --row SOURCE:ROW_ID"):
            story_of(settings_of(nights.warehouse), **neither)
    for unknown in ("0" * 32, "a' or 'a' = 'a", ""):
        with pytest.raises(NoSuchChunk, match=r"no such chunk; `nightfold sql .* --row SOURCE:ROW_ID finds one"):
            story(nights, unknown)
    first = {chunk_id[0] for chunk_id in nights.names}
    several = next(each for each in first if sum(chunk_id[0] == each for chunk_id in nights.names) > 1)
    with pytest.raises(NoSuchChunk, match=rf"^{several}: \d+ chunks begin so, give more of the id"):
        story(nights, several)
    for unknown in ("in", "in:nothing", "other:acme-n1"):
        with pytest.raises(NoSuchChunk, match=rf"^{unknown}: no such row; `nightfold sql"):
            story(nights, row=unknown)
    with pytest.raises(NoSuchChunk, match=r"^bad:2: was refused by the rule text_is_present \(at bad.csv:"):
        story(nights, row="bad:2")
    with pytest.raises(NoSuchChunk, match=r"^docs:long.txt: says 3 chunks; name one of them: \w{32}, "):
        story(nights, row="docs:long.txt")
