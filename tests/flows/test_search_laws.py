"""Whatever corpora, agents and rows there are: a search finds what is visible, and no group joins two owners."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.search import Searcher
from schemas.rows import PERSONAL_SCOPE
from tests.corpora import World, found, global_, personal, row
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import BASE, given_verdicts, word_endpoint

USERS = ("ana", "bo", "cy")
NAMES = "abcde"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


@st.composite
def worlds(draw: st.DrawFn) -> World:
    corpora = [
        draw(
            st.builds(
                global_, st.just(f"c{n}"), st.sampled_from(["w1", "w2"]), is_active=st.sampled_from([True, True, False])
            )
            | st.builds(
                personal,
                st.just(f"c{n}"),
                st.sampled_from(USERS),
                st.sampled_from([None, "w1"]),
                is_active=st.sampled_from([True, True, False]),
            )
        )
        for n in range(5)
    ]
    agents = [(name, draw(st.booleans()), draw(st.sampled_from([None, "w1"]))) for name in ("a1", "a2")]
    pairs = st.tuples(st.sampled_from([corpus[0] for corpus in corpora]), st.sampled_from(["a1", "a2"]))
    return World(Path(), None, corpora, agents, draw(st.lists(pairs, max_size=8)))


ROWS = st.lists(
    st.tuples(st.sampled_from(["c0", "c1", "c2", "c3", "c4"]), st.sampled_from(NAMES)), min_size=1, max_size=14
)
SAME = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda pair: pair[0] < pair[1]), max_size=4
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds(), rows=ROWS, same=SAME)
def test_a_search_finds_what_is_visible_and_no_group_joins_two_owners(
    endpoint: WordEndpoint, world: World, rows: list[tuple[str, str]], same: list[tuple[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, given_verdicts() as verdicts:
        world.folder, world.endpoint = Path(folder), endpoint
        world.over = {"neighbours": {"max_candidates": 100, "threshold": 0.5}, "guard": {"max_reject_share": 1}}
        for pair in same:
            verdicts.say(*pair)
        world.night(*(row(corpus, f"{n}", f"{BASE} {name}") for n, (corpus, name) in enumerate(rows)))
        searcher = Searcher(world.settings)
        owner = {corpus[0]: corpus[2] for corpus in world.corpora}
        for agent in ("a1", "a2"):
            for user in (*USERS, "stranger"):
                visible = world.sql(
                    "select canonical_id, chunk_id, text, occurrences from visible_chunks($1, $2)", agent, user
                )
                hits = found(searcher, f"{BASE} a", agent, user)
                # Every text is near enough: all that is visible is found, once.
                assert sorted((hit.canonical_id, hit.chunk_id, hit.text, hit.occurrences) for hit in hits) == visible
                assert all(owner[corpus] in (None, user) for hit in hits for corpus in hit.corpus_ids)
                some = searcher.search(f"{BASE} b", agent=agent, user=user, k=2, min_score=0)
                assert len(some) == min(2, len(visible))
        groups = world.table("occurrences").join(
            world.table("chunks").select("chunk_id", "canonical_id"), on="chunk_id"
        )
        owners = groups.with_columns(owner=pl.col("corpus_id").replace_strict(owner, return_dtype=pl.String))
        assert owners.group_by("canonical_id").agg(pl.col("owner").n_unique())["owner"].max() in (None, 1)
        is_personal = pl.col("scope").str.starts_with(PERSONAL_SCOPE)
        assert owners.filter(is_personal != pl.col("owner").is_not_null()).is_empty()
