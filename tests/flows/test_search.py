"""Search: what an agent may show a user and nothing else, one result for each thing said, whatever others keep."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import polars as pl
import pytest

from flows.console import Progress
from flows.night import rollback
from flows.reviews import Choice, Filters, Reviews
from flows.search import CannotSearch, Searcher, _filter, context_of, grouped
from flows.unmerge import unmerge
from flows.warehouse import Warehouse
from schemas.rows import PERSONAL_SCOPE
from schemas.terms import SUPERSEDING, UNKNOWN
from tests.corpora import World, found, global_, personal, row, texts
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import BASE, given_verdicts, word_endpoint
from tests.nights import run_night, settings_of

CORPORA = [
    global_("shop"),
    global_("lost"),
    global_("shut", is_active=False),
    global_("north", "boreal"),
    personal("anas", "ana"),
    personal("anas-old", "ana", is_active=False),
    personal("bos", "bo"),
    personal("cys", "cy", "boreal"),
    personal("ids", "42"),
]
AGENTS: list[tuple[str, bool, str | None]] = [
    ("open", True, "acme"),
    ("open too", True, "acme"),
    ("closed", False, "acme"),
    ("anywhere", True, None),
    ("far", True, "boreal"),
]
ASSIGNED = [
    *(("shop", agent) for agent in ("open", "closed", "anywhere")),
    ("shut", "open"),
    ("north", "far"),
    ("bos", "open"),
]
# Which corpora an agent shows a user.
MATRIX: dict[tuple[str | None, str | None], set[str]] = {
    ("open", "ana"): {"shop", "anas"},
    ("open", "bo"): {"shop", "bos"},
    ("open", "cy"): {"shop"},
    ("open", "stranger"): {"shop"},
    ("open", "42"): {"shop", "ids"},
    ("open", "042"): {"shop"},
    ("open", ""): set(),
    ("open too", "ana"): {"anas"},
    ("open too", "bo"): set(),
    ("open too", "cy"): set(),
    ("open too", "stranger"): set(),
    ("closed", "ana"): {"shop"},
    ("closed", "bo"): {"shop"},
    ("closed", "stranger"): {"shop"},
    ("anywhere", "ana"): {"shop", "anas"},
    ("anywhere", "bo"): {"shop"},
    ("anywhere", "cy"): {"shop", "cys"},
    ("anywhere", "stranger"): {"shop"},
    ("far", "ana"): {"north", "anas"},
    ("far", "cy"): {"north", "cys"},
    ("far", "stranger"): {"north"},
    ("nobody", "ana"): set(),
    ("", "ana"): set(),
}
WORDS = "the pump in hall nine"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, endpoint: WordEndpoint) -> World:
    """Every kind of corpus with a text of its own and one that all of them have; and rows that are in none."""
    world = World(tmp_path_factory.mktemp("world"), endpoint, CORPORA, AGENTS, ASSIGNED)
    names = [corpus[0] for corpus in CORPORA]
    rows = [row(name, f"{name} own", f"{WORDS} says {name}", doc_id=name) for name in names]
    rows += [row(name, f"{name} all", f"{WORDS} is red", doc_id=name) for name in names]
    world.night(*rows)
    return world


@pytest.fixture(scope="module")
def searcher(world: World) -> Searcher:
    return Searcher(world.settings)


@pytest.fixture
def small(tmp_path: Path, endpoint: WordEndpoint) -> World:
    """Two global corpora of one workspace, one agent for each and one for both, and a personal corpus."""
    corpora = [global_("one"), global_("two"), personal("own", "ana")]
    agents: list[tuple[str, bool, str | None]] = [
        ("of one", True, None),
        ("of two", True, None),
        ("of both", True, None),
    ]
    assigned = [("one", "of one"), ("two", "of two"), ("one", "of both"), ("two", "of both")]
    return World(tmp_path, endpoint, corpora, agents, assigned)


# ---- who is shown what


@pytest.mark.parametrize(("agent", "user"), MATRIX, ids=repr)
def test_the_macro_the_function_and_the_search_show_the_same_and_no_more(
    world: World, searcher: Searcher, agent: str, user: str
) -> None:
    corpora = MATRIX[agent, user]
    assert {one for (one,) in world.sql("select corpus_id from visible_corpora($1, $2)", agent, user)} == corpora
    assert set(searcher.visible_corpora(agent=agent, user=user)["corpus_id"]) == corpora
    wanted = {(name, f"{WORDS} says {name}") for name in corpora} | {(name, f"{WORDS} is red") for name in corpora}
    shown = world.sql("select corpus_id, text, chunk_id from visible_chunks($1, $2)", agent, user)
    assert {(corpus, text) for corpus, text, _ in shown} == wanted
    assert len(shown) == len(wanted)
    assert set(searcher.visible_chunks(agent=agent, user=user)["chunk_id"]) == {chunk for _, _, chunk in shown}
    hits = found(searcher, WORDS, agent, user)
    assert {(hit.corpus_id, hit.text) for hit in hits} == wanted
    assert len(hits) == len(wanted)


def test_nobody_is_shown_nothing(world: World, searcher: Searcher) -> None:
    for agent, user in [(None, "ana"), ("open", None), (None, None)]:
        assert world.sql("from visible_chunks($1, $2)", agent, user) == []
        assert searcher.visible_chunks(agent=agent, user=user).is_empty()
        with pytest.raises(CannotSearch, match=r"^who asks"):
            searcher.search(WORDS, agent=agent, user=user)


def test_a_number_for_a_user_is_compared_as_the_text_it_is(world: World, searcher: Searcher) -> None:
    assert len(world.sql("from visible_corpora('open', 42)")) == 2
    assert len(world.sql("from visible_corpora('open', 042)")) == 2
    with pytest.raises(CannotSearch, match=r"^user = 42: an id is a text$"):
        searcher.search(WORDS, agent="open", user=42)  # type: ignore[arg-type]


def test_a_strangers_query_of_the_exact_private_text_finds_nothing_of_it(searcher: Searcher) -> None:
    private = f"{WORDS} says anas"
    assert texts(found(searcher, private, "open", "ana"))[0] == private
    for agent, user in [("open", "bo"), ("open", "stranger"), ("closed", "ana"), ("far", "cy")]:
        assert private not in texts(found(searcher, private, agent, user))


def test_a_personal_scope_cannot_be_asked_for(searcher: Searcher) -> None:
    with pytest.raises(CannotSearch, match="is one person's own; ask with an agent"):
        searcher.search(WORDS, scope=f"{PERSONAL_SCOPE}ana")
    with pytest.raises(CannotSearch, match=r"^give a scope, or an agent and a user, not both$"):
        searcher.search(WORDS, agent="open", user="ana", scope="acme")


# ---- what others keep makes no difference


def test_private_rows_of_others_change_no_score_count_order_or_group(tmp_path: Path, endpoint: WordEndpoint) -> None:
    mine = [row("shop", f"{n}", f"{WORDS} has {n} valves") for n in range(30)]
    mine += [row("anas", "a", f"{WORDS} has 3 valves"), row("anas", "b", f"{WORDS} is mine")]
    theirs = [row("bos", f"{n}", f"{WORDS} has {n} valves") for n in range(60)]
    theirs += [row("cys", f"{n}", f"{WORDS} has {n % 7} valves", force=True) for n in range(30)]
    seen = []
    for name, rows in (("without", mine), ("with", [*theirs[:40], *mine, *theirs[40:]])):
        world = World(tmp_path / name, endpoint, CORPORA, AGENTS, ASSIGNED)
        world.night(*rows, force_column="force" if name == "with" else None)
        searcher = Searcher(world.settings)
        asked = [(agent, user) for agent in ("open", "closed", "far") for user in ("ana", "stranger")]
        hits = [found(searcher, query, *who, k=7) for who in asked for query in (WORDS, f"{WORDS} has 3 valves")]
        shown = world.sql("select chunk_id, canonical_id, occurrences, source from visible_chunks('open', 'ana')")
        seen.append(
            ([[(hit.chunk_id, hit.canonical_id, hit.score, hit.occurrences) for hit in some] for some in hits], shown)
        )
    assert seen[0] == seen[1]


def test_counts_dates_and_sources_are_of_the_corpora_one_may_see(small: World) -> None:
    said = f"{WORDS} is red"
    small.night(row("two", "z", said, secret="of two", at="2026-01-01T00:00:00Z"), source="a", seen_at_column="at")
    small.night(
        *(row("one", f"{n}", said, secret="of one", at=f"2026-02-0{n}T00:00:00Z") for n in (1, 2)),
        source="b",
        seen_at_column="at",
    )
    (hit,) = found(Searcher(small.settings), said, "of one", "ana")
    assert (hit.source, hit.source_row_id, hit.metadata) == ("b", "1", {"secret": "of one"})
    assert (hit.occurrences, hit.corpus_ids) == (2, ("one",))
    assert (hit.first_seen_at, hit.last_seen_at) == (datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 2, 2, tzinfo=UTC))
    (both,) = found(Searcher(small.settings), said, "of both", "ana")
    assert (both.occurrences, both.corpus_ids, both.source) == (3, ("one", "two"), "a")
    sql = "select source, source_row_id, metadata, occurrences, corpus_ids from visible_chunks('of one', 'x')"
    assert small.sql(sql)[0] == ("b", "1", '{"secret":"of one"}', 2, ["one"])


# ---- one result for each thing said


@pytest.fixture
def judged(small: World) -> Iterator[tuple[World, Any]]:
    """The small world with a judge that says what the test does."""
    small.over = {"neighbours": {"max_candidates": 100, "threshold": 0.5}}
    with given_verdicts() as verdicts:
        yield small, verdicts


def test_three_that_say_the_same_are_one_result_found_by_any_of_their_words(judged: tuple[World, Any]) -> None:
    world, verdicts = judged
    for one, other in (("a", "b"), ("a", "c"), ("b", "c")):
        verdicts.say(one, other)
    world.night(
        *(row("one", name, f"{BASE} {name}", at=f"2026-01-0{n}") for n, name in enumerate("abcd", 1)),
        seen_at_column="at",
    )
    searcher = Searcher(world.settings)
    hits = found(searcher, f"{BASE} c", "of one", "ana")
    assert texts(hits) == [f"{BASE} a", f"{BASE} d"]
    assert (hits[0].score, hits[0].occurrences) == (1.0, 3)


def test_a_group_is_shown_by_a_chunk_that_one_may_see(judged: tuple[World, Any]) -> None:
    world, verdicts = judged
    verdicts.say("a", "b")
    world.night(
        row("one", "1", f"{BASE} a", at="2026-01-01"),
        row("two", "2", f"{BASE} b", at="2026-01-02"),
        seen_at_column="at",
    )
    searcher = Searcher(world.settings)
    for agent, shown in (("of one", "a"), ("of two", "b"), ("of both", "a")):
        (hit,) = found(searcher, f"{BASE} b", agent, "ana")
        assert hit.text == f"{BASE} {shown}"
        assert world.sql("select text, occurrences from visible_chunks($1, 'ana')", agent) == [
            (hit.text, hit.occurrences)
        ]
    # The text that only the other corpus has does not lend its nearness.
    assert found(searcher, f"{BASE} b", "of one", "ana")[0].score < 1
    assert found(searcher, f"{BASE} b", "of both", "ana")[0].score == 1


def test_what_was_superseded_never_comes_back(judged: tuple[World, Any]) -> None:
    world, verdicts = judged
    verdicts.say("old", "new", SUPERSEDING, larger="new")
    rows = [row("one", "1", f"{BASE} old", at="2026-01-01"), row("one", "2", f"{BASE} new", at="2026-01-02")]
    world.night(*rows, seen_at_column="at")
    assert world.sql("select count(*) from superseded") == [(1,)]
    assert texts(found(Searcher(world.settings), f"{BASE} old", "of both", "ana")) == [f"{BASE} new"]
    assert world.sql("select text from visible_chunks('of both', 'ana')") == [(f"{BASE} new",)]


def test_what_was_deleted_never_comes_back_nor_lends_its_score(judged: tuple[World, Any]) -> None:
    world, verdicts = judged
    verdicts.say("a", "b")
    rows = [row("one", name, f"{BASE} {name}", at=f"2026-01-0{n}") for n, name in enumerate(("a", "b", "c"), 1)]
    world.night(*rows, seen_at_column="at")
    # As a reviewer's answer does it: a run of its own in which the two are out.
    warehouse = Warehouse(str(world.warehouse))
    warehouse.begin()
    warehouse.head("chunks").update({"deleted_at": "last_seen_at"}, where="text like '% b' or text like '% c'")
    run = warehouse.published()
    assert run is not None
    again = {name: getattr(run, name) for name in vars(run)}
    warehouse.commit(
        type(run)(**{**again, "run_id": run.run_id + "x", "table_versions": warehouse.versions(*run.vector_tables)})
    )
    searcher = Searcher(world.settings)
    (hit,) = found(searcher, f"{BASE} b", "of one", "ana")
    assert hit.text == f"{BASE} a"
    assert hit.score < 1
    assert hit.occurrences == 1


def test_there_are_k_results_where_there_are_k_however_many_rows_say_each(small: World) -> None:
    rows = [row("one", f"{n}", f"{WORDS} is red", force=True) for n in range(150)]
    rows += [row("one", f"x{n}", f"{WORDS} has {n} valves", force=False) for n in range(5)]
    small.night(*rows)
    searcher = Searcher(small.settings)
    # 150 chunks of the same words: more than the first fetch takes in.
    assert len(found(searcher, f"{WORDS} is red", "of one", "ana", k=155)) == 155
    nearest = found(searcher, f"{WORDS} is red", "of one", "ana", k=3)
    assert [hit.canonical_id for hit in nearest] == sorted(
        hit.canonical_id for hit in found(searcher, f"{WORDS} is red", "of one", "ana", k=150)
    )[:3]


def test_a_limit_on_the_score_leaves_out_what_is_less_near(searcher: Searcher) -> None:
    near = searcher.search(f"{WORDS} is red", agent="open", user="ana", min_score=0.99)
    assert texts(near) == [f"{WORDS} is red"] * 2
    assert [hit.score for hit in near] == [1.0, 1.0]
    assert [hit.corpus_type for hit in near] != []
    assert searcher.search("unheard of", agent="open", user="ana", min_score=0.99) == []
    for wrong in ({"k": 0}, {"min_score": 1.5}):
        with pytest.raises(CannotSearch, match="k is at least 1"):
            searcher.search(WORDS, agent="open", user="ana", **wrong)


# ---- rows in no corpus, and corpora that move


def test_a_scope_is_searched_for_its_rows_that_are_in_no_corpus(small: World, tmp_path: Path) -> None:
    small.night(row("one", "1", f"{WORDS} is red"))
    loose = tmp_path / "loose.csv"
    loose.write_text(
        f"id,workspace_id,text\n1,acme,{WORDS} is loose\n2,boreal,{WORDS} is elsewhere\n3,acme,{WORDS} is red\n"
    )
    run_night(small.warehouse, {"path": str(loose)}, embedding=small.settings.embedding.model_dump(), **small.over)
    searcher = Searcher(small.settings)
    assert sorted(texts(searcher.search(WORDS, scope="acme", min_score=0))) == [f"{WORDS} is loose", f"{WORDS} is red"]
    (hit,) = found(searcher, WORDS, "of one", "ana")
    assert (hit.text, hit.occurrences) == (f"{WORDS} is red", 1)
    assert searcher.search(WORDS, scope="nowhere", min_score=0) == []


def test_a_warehouse_without_corpora_is_searched_by_scope(tmp_path: Path, endpoint: WordEndpoint) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(f"id,workspace_id,text\n1,acme,{WORDS} is red\n")
    run_night(tmp_path / "w", {"path": str(rows)}, embedding=endpoint.settings())
    searcher = Searcher(tmp_path / "w")
    assert texts(searcher.search(WORDS, scope="acme", min_score=0)) == [f"{WORDS} is red"]
    with pytest.raises(CannotSearch, match="has no corpora, which agents and users go by"):
        searcher.search(WORDS, agent="open", user="ana")


@pytest.mark.parametrize(
    ("moved", "shown"),
    [(personal("one", "ana"), "ana"), (personal("one", "bo"), "bo"), (global_("one", "boreal"), None)],
)
def test_a_corpus_that_changes_hands_takes_no_row_across_the_wall(small: World, moved: Any, shown: str | None) -> None:
    said = f"{WORDS} is red"
    small.night(row("one", "1", said))
    small.corpora[0] = moved
    small.assignments = [("one", "of both")]
    assert f"corpus one: was global, of workspace 'acme', and is {moved[1]}, of " in small.said(
        row("two", "2", "another")
    )
    for agent in ("of one", "of both"):
        for user in ("ana", "bo"):
            assert said not in texts(found(Searcher(small.settings), said, agent, user))
            assert not small.sql("from visible_chunks($1, $2) where text = $3", agent, user, said)
    small.night(row("one", "1", said))
    finds = {user for user in ("ana", "bo") if said in texts(found(Searcher(small.settings), said, "of both", user))}
    assert finds == ({shown} if shown else {"ana", "bo"})
    chunks = small.table("chunks").filter(pl.col("text") == said)
    assert chunks.height == 2
    assert chunks["canonical_id"].n_unique() == 2


# ---- runs


def test_a_searcher_that_is_open_follows_what_is_published(small: World) -> None:
    small.night(row("one", "1", f"{WORDS} is red"))
    first = Warehouse(str(small.warehouse)).published()
    assert first is not None
    searcher = Searcher(small.settings)
    assert len(found(searcher, WORDS, "of one", "ana")) == 1
    small.night(row("one", "1", f"{WORDS} is red"), row("one", "2", f"{WORDS} is blue"))
    assert len(found(searcher, WORDS, "of one", "ana")) == 2
    small.assignments = []
    small.night(row("one", "1", f"{WORDS} is red"))
    assert found(searcher, WORDS, "of one", "ana") == []
    rollback(small.settings, first.run_id, progress=Progress(quiet=True))
    assert len(found(searcher, WORDS, "of one", "ana")) == 1


def test_many_threads_ask_while_nights_are_published(small: World) -> None:
    small.over = {**small.over, "warehouse": {"keep_runs": 1}}
    small.night(*(row("one", f"{n}", f"{WORDS} has {n} valves") for n in range(20)))
    searcher, ended = Searcher(small.settings), threading.Event()

    def ask(_: int) -> set[int]:
        counts = set()
        while not ended.is_set():
            counts.add(len(found(searcher, WORDS, "of one", "ana")))
        return counts

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask, n) for n in range(4)]
        try:
            for night in (1, 2):
                small.night(*(row("one", f"{n}", f"{WORDS} has {n} valves") for n in range(20 + 5 * night)))
        finally:
            ended.set()
        assert set().union(*(one.result() for one in asking)) <= {20, 25, 30}
    assert len(found(searcher, WORDS, "of one", "ana")) == 30


def test_a_chunk_that_gets_its_vector_later_is_found_then(small: World, endpoint: WordEndpoint) -> None:
    endpoint.bad = {"broken": "500"}
    try:
        small.night(row("one", "1", f"{WORDS} is broken"), row("one", "2", f"{WORDS} is red"))
    finally:
        endpoint.bad = {}
    assert texts(found(Searcher(small.settings), WORDS, "of one", "ana")) == [f"{WORDS} is red"]
    run_night(small.warehouse, pending="incomplete", embedding=endpoint.settings(), **small.over)
    assert len(found(Searcher(small.settings), WORDS, "of one", "ana")) == 2


def test_a_known_chunk_that_comes_in_another_corpus_is_found_there_too(small: World) -> None:
    small.night(row("one", "1", f"{WORDS} is red"))
    assert found(Searcher(small.settings), WORDS, "of two", "ana") == []
    small.night(row("two", "1", f"{WORDS} is red"))
    assert texts(found(Searcher(small.settings), WORDS, "of two", "ana")) == [f"{WORDS} is red"]
    run = Warehouse(str(small.warehouse)).published()
    assert run is not None
    (table,) = [name for name in run.vector_tables if name.startswith("retrieval_")]
    assert small.table(table).height == 2


def test_a_query_is_read_by_the_model_of_the_published_vectors(small: World, endpoint: WordEndpoint) -> None:
    said = f"{WORDS} is red"
    small.night(row("one", "1", said))
    newer = endpoint.settings(model="other words", batch_size=100)
    sections: dict[str, Any] = {**small.over, "embedding": newer}
    other = settings_of(small.warehouse, **sections)
    assert found(Searcher(other), said, "of one", "ana")[0].score == 1
    # New chunks wait for the new model, and what is in use stays in use.
    small.over, before = {**small.over, "embedding": newer}, small.over
    endpoint_before, small.endpoint = small.endpoint, None
    small.night(row("one", "1", said), row("two", "1", said), row("one", "2", f"{WORDS} waits"))
    assert texts(found(Searcher(other), said, "of both", "ana")) == [said]
    assert texts(found(Searcher(other), said, "of two", "ana")) == [said]
    run_night(small.warehouse, pending="all", **sections)
    assert len(found(Searcher(small.warehouse), said, "of both", "ana")) == 2
    assert found(Searcher(small.warehouse), said, "of both", "ana")[0].score == 1
    small.over, small.endpoint = before, endpoint_before


def test_what_cannot_be_searched_is_told(tmp_path: Path, endpoint: WordEndpoint) -> None:
    with pytest.raises(CannotSearch, match=r"no run is published; `nightfold run` makes the first$"):
        Searcher(tmp_path / "none").search(WORDS, scope="acme")
    rows = tmp_path / "rows.csv"
    rows.write_text(f"id,workspace_id,text\n1,acme,{WORDS}\n")
    run_night(tmp_path / "bare", {"path": str(rows)})
    with pytest.raises(CannotSearch, match=r"has no vectors to search; name an \[embedding\] encoder"):
        Searcher(tmp_path / "bare").search(WORDS, scope="acme")
    run_night(tmp_path / "w", {"path": str(rows)}, embedding=endpoint.settings())
    searcher = Searcher(tmp_path / "w")
    endpoint.down = "500"
    try:
        with pytest.raises(CannotSearch, match=r"^the query gets no vector: "):
            searcher.search(WORDS, scope="acme")
    finally:
        endpoint.down = None
    assert searcher.search("  ", scope="acme") == []


# ---- what comes of hits


def test_spec_rows_are_grouped_by_category_and_others_stand_apart(small: World) -> None:
    fields = {"parent": "Powertrain", "sub": "Motor", "spec": "Power", "value": "90 kW"}
    specs = [
        row("one", "1", "", **fields),
        row("one", "2", "", **fields | {"value": "95 kW"}),
        row("one", "3", "", **fields | {"sub": "Battery"}),
    ]
    small.night(*specs, source="specs", kind="spec_row")
    small.night(row("one", "4", "Power of the motor"))
    hits = found(Searcher(small.settings), "Specification: Power Value: 90 kW", "of one", "ana")
    groups = {(group.parent_category, group.sub_category): len(group.hits) for group in grouped(hits)}
    assert groups == {("Powertrain", "Motor"): 2, ("Powertrain", "Battery"): 1, (None, None): 1}
    assert next(hit.as_dict()["score"] for group in grouped(hits) for hit in group.hits) == hits[0].score
    assert json.dumps(hits[0].as_dict())


def test_the_block_for_a_prompt_has_whole_texts_of_both_kinds(searcher: Searcher) -> None:
    hits = found(searcher, WORDS, "open", "ana")
    block = context_of(hits)
    assert (
        block.index("[GLOBAL CORPUS]")
        < block.index("says shop")
        < block.index("[PERSONAL CORPUS]")
        < block.index("says anas")
    )
    assert context_of(hits, budget=1) == ""


def test_the_retrieval_table_goes_with_its_run_and_is_pruned_with_it(small: World, endpoint: WordEndpoint) -> None:
    small.over = {**small.over, "warehouse": {"keep_runs": 1}}
    small.night(row("one", "1", f"{WORDS} is red"))
    before = sorted(path.name for path in small.warehouse.glob("retrieval_*"))
    assert len(before) == 1
    other = endpoint.settings(model="other words", batch_size=100)
    run_night(small.warehouse, pending="all", **{**small.over, "embedding": other})
    after = sorted(path.name for path in small.warehouse.glob("retrieval_*"))
    assert len(after) == 1
    assert after != before
    # What a night that was killed left is not taken up.
    lance.write_dataset(
        lance.dataset(str(small.warehouse / after[0])).to_table(), str(small.warehouse / after[0]), mode="append"
    )
    run_night(small.warehouse, pending="incomplete", **{**small.over, "embedding": other})
    assert small.table(after[0].removesuffix(".lance")).height == 1


def test_a_search_is_right_after_decisions_an_unmerge_a_rollback_and_a_killed_write(judged: tuple[World, Any]) -> None:
    world, verdicts = judged
    verdicts.say("a", "b")
    verdicts.say("a", "c", UNKNOWN, confidence=0.4, reading=0.9)
    rows = [row("one", name, f"{BASE} {name}", at=f"2026-01-0{n}") for n, name in enumerate("abc", 1)]
    first = world.night(*rows, seen_at_column="at").run
    (retrieval,) = [name for name in first.vector_tables if name.startswith("retrieval_")]
    searcher = Searcher(world.settings)

    def seen() -> set[str]:
        run = Warehouse(str(world.warehouse)).published()
        assert run is not None
        assert run.vector_tables == first.vector_tables
        pairs = world.table(retrieval).select("corpus_id", "chunk_id")
        wanted = world.table("occurrences").filter(pl.col("corpus_id").is_not_null())
        assert set(pairs.rows()) == set(wanted.select("corpus_id", "chunk_id").rows())
        assert pairs.height == pairs.unique().height
        return {text.removeprefix(f"{BASE} ") for text in texts(found(searcher, BASE, "of one", "ana"))}

    assert seen() == {"a", "c"}
    # A night that was killed has written rows that no run names; whoever comes next takes none of them along.
    path = str(world.warehouse / f"{retrieval}.lance")
    lance.write_dataset(lance.dataset(path).to_table(), path, mode="append")
    reviews = Reviews(world.settings)
    (item,) = reviews.page(Filters(), scopes=None).items
    reviews.decide([Choice(item.review_id, "delete")], by="ana", scopes=None)
    assert reviews.apply_outstanding() == 1
    assert seen() == {"a"}
    merged = world.table("variants")["chunk_id"][0]
    unmerge(world.settings, merged, by="ana", reason=None, progress=Progress(quiet=True))
    assert seen() == {"a", "b"}
    world.night(*rows, row("one", "d", f"{BASE} d", at="2026-01-04"), seen_at_column="at")
    assert seen() == {"a", "b", "d"}
    rollback(world.settings, first.run_id, progress=Progress(quiet=True))
    assert seen() == {"a", "c"}
    assert reviews.apply_outstanding() == 1
    assert seen() == {"a"}
    world.night(*rows, row("one", "d", f"{BASE} d", at="2026-01-04"), seen_at_column="at")
    assert seen() == {"a", "d"}


def test_a_warehouse_from_before_there_were_corpora_is_searched_by_them_once_a_night_has_seen_them(
    small: World, endpoint: WordEndpoint
) -> None:
    path = small.folder / "rows.parquet"
    pl.DataFrame({"id": ["1"], "workspace_id": ["acme"], "text": [f"{WORDS} is red"]}).write_parquet(path)
    before = run_night(small.warehouse, {"path": str(path)}, embedding=endpoint.settings(batch_size=100)).run
    assert not [name for name in before.vector_tables if name.startswith("retrieval_")]
    small.night(row("one", "1", f"{WORDS} is red"))
    searcher = Searcher(small.settings)
    assert texts(found(searcher, WORDS, "of one", "ana")) == [f"{WORDS} is red"]
    assert small.table("chunks").height == 1
    rollback(small.settings, before.run_id, progress=Progress(quiet=True))
    with pytest.raises(CannotSearch, match="has no corpora"):
        found(searcher, WORDS, "of one", "ana")
    small.night(row("one", "1", f"{WORDS} is red"))
    assert texts(found(searcher, WORDS, "of one", "ana")) == [f"{WORDS} is red"]


def test_names_with_quotes_are_names_and_the_filter_is_by_corpus_and_wall(
    tmp_path: Path, endpoint: WordEndpoint
) -> None:
    corpora = [global_("o'ne' or true --", "ac'me"), personal("own", "an'a"), personal("bos", "bo")]
    world = World(tmp_path, endpoint, corpora, [("de'sk", True, None)], [(corpora[0][0], "de'sk")])
    world.night(*(row(corpus[0], "1", f"{WORDS} is in {n}") for n, corpus in enumerate(corpora)))
    searcher = Searcher(world.settings)
    assert sorted(texts(found(searcher, WORDS, "de'sk", "an'a"))) == [f"{WORDS} is in 0", f"{WORDS} is in 1"]
    assert _filter(searcher.visible_corpora(agent="de'sk", user="an'a")) == (
        "(scope = 'ac''me' and corpus_id in ('o''ne'' or true --')) or "
        "(scope = '\u241fpersonal\u241fan''a' and corpus_id in ('own'))"
    )
