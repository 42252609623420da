"""`nightfold search` and SQL on the Lance tables, as a person at a terminal has them."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from flows import cli
from flows.lance_sql import lance_extension, load_lance
from tests.corpora import World, global_, personal, row
from tests.flows.word_endpoint import WordEndpoint
from tests.judged import word_endpoint

WORDS = "the pump in hall nine"
Call = Callable[..., tuple[str, str, int]]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[WordEndpoint]:
    with word_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, endpoint: WordEndpoint) -> World:
    world = World(
        tmp_path_factory.mktemp("world"),
        endpoint,
        [global_("faq"), personal("own", "ana")],
        [("desk", True, None)],
        [("faq", "desk")],
    )
    specs = {"kind": "spec_row", "corpus": "faq"}
    world.night(row(None, "s", "", parent="Pumps", sub="Valves", spec="Number", value="2"), source="specs", **specs)
    world.night(row("faq", "1", f"{WORDS} is red\n\x1b[31m"), row("own", "2", f"{WORDS} is mine"))
    return world


@pytest.fixture
def call(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """Runs `nightfold search` in this process, against the world."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[str, str, int]:
        monkeypatch.setattr(sys, "argv", ["nightfold", *arguments, "--warehouse", str(world.warehouse)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return printed.out, printed.err, int(ended.value.code or 0)

    return run


ANA = ("--agent", "desk", "--user", "ana", "--min-score", "0")


def test_a_line_a_result_the_best_first_and_nothing_a_terminal_would_obey(call: Call) -> None:
    out, err, code = call("search", f"{WORDS} is red", *ANA)
    assert (err, code) == ("", 0)
    lines = out.splitlines()
    assert lines[0].split() == ["score", "corpus", "row", "rows", "last", "seen", "text"]
    assert [line.split("  ")[0] for line in lines[1:]] == sorted(
        (line.split("  ")[0] for line in lines[1:]), reverse=True
    )
    assert "faq (global)" in lines[1]
    assert "own (personal)" in out
    assert "\x1b" not in out


def test_json_has_all_of_each_hit_and_groups_where_they_are_asked_for(call: Call) -> None:
    hits = json.loads(call("search", f"{WORDS} Valves", *ANA, "--json")[0])
    assert {hit["corpus_id"] for hit in hits} == {"faq", "own"}
    groups = json.loads(call("search", f"{WORDS} Valves", *ANA, "--json", "--group")[0])
    assert {(group["parent_category"], group["sub_category"]) for group in groups} == {
        ("Pumps", "Valves"),
        (None, None),
    }
    assert sum(len(group["hits"]) for group in groups) == len(hits) == 3
    assert "\nPumps / Valves\n" in "\n" + call("search", f"{WORDS} Valves", *ANA, "--group")[0]


def test_a_block_for_a_prompt_and_nothing_else(call: Call) -> None:
    out, err, _ = call("search", WORDS, *ANA, "--context")
    assert out.startswith("[GLOBAL CORPUS]\n\n- faq: ")
    assert out.count("[PERSONAL CORPUS]") == 1
    assert err == ""
    assert call("search", WORDS, *ANA, "--context", "--budget", "25")[0].count("\n> ") == 1
    assert call("search", WORDS, *ANA, "--context", "--json")[1:] == (
        "nightfold: --context prints a block for a prompt: leave out --group and --json\n",
        1,
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("--agent", "desk", "--user", "ana", "--min-score", "1"),
            "nothing from a score of 1.0 on; a lower --min-score",
        ),
        (
            ("--agent", "lost", "--user", "ana"),
            "agent 'lost' shows user 'ana' no corpus; `nightfold sql \"from agents\"`",
        ),
        (("--scope", "nowhere"), "nothing from a score of 0.7 on"),
        (("--agent", "desk"), "nightfold: who asks? give an agent and its user"),
        (
            ("--agent", "desk", "--user", "a", "--scope", "b"),
            "nightfold: give a scope, or an agent and a user, not both",
        ),
    ],
)
def test_what_is_not_found_or_cannot_be_asked_is_told_in_a_line(
    call: Call, arguments: tuple[str, ...], told: str
) -> None:
    out, err, _ = call("search", f"{WORDS} elsewhere", *arguments)
    assert out == ""
    assert err.startswith(told)
    assert err.count("\n") == 1


def test_sql_searches_the_lance_tables_with_a_filter_before_the_search(call: Call, world: World) -> None:
    query = f"""
        set variable vectors = (select '{world.warehouse}/' || table_name || '.lance' from vector_tables
                                where kind = 'retrieval');
        set variable asked = (select vector::float[] from __lance_scan(getvariable('vectors')) where corpus_id = 'own');
        with hits as materialized (
          select chunk_id, corpus_id, list_cosine_similarity(vector::float[], getvariable('asked')) as score
          from lance_vector_search(getvariable('vectors'), 'vector', getvariable('asked'), k := 5, prefilter := true)
          where corpus_id = 'faq')
        select corpus_id, count(*), max(score) < 1 from hits group by all"""
    out, err, code = call("sql", "--csv", query)
    assert (err, code) == ("", 0)
    assert out.splitlines()[-1] == "faq,2,true"
    kinds = world.sql("select kind, count(*) from vector_tables group by all order by all")
    assert kinds == [("retrieval", 1), ("vectors", 1)]


def test_the_extension_is_loaded_for_what_needs_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with duckdb.connect() as connection:
        assert not load_lance(connection, "select 1")
        assert lance_extension() is not None
        monkeypatch.setattr("flows.lance_sql.find_spec", lambda _: None)
        assert not load_lance(connection, "from 'x.lance'")
