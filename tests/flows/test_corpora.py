"""[corpora] from the files to the tables: what is refused, what goes on, and what follows the run."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.backfill import backfill
from flows.console import Progress
from flows.errors import UnreadableSource
from flows.night import night, rollback
from flows.settings import SettingsRefused, load_settings
from schemas.rows import PERSONAL_SCOPE
from tests.corpora import World, global_, personal, row
from tests.flows.word_endpoint import serving
from tests.nights import NO_FILE, published, run_night, said_by_night, settings_of

TABLES = ("corpora", "agents", "corpus_agent_assignments", "corpus_documents")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(
        tmp_path,
        None,
        [global_("faq"), personal("anas", "ana"), ("bad", "personal", None, None, True)],
        [("desk", True, None), ("site", False, None)],
        [("faq", "desk"), ("anas", "site"), ("lost", "desk")],
    )


def test_what_breaks_a_rule_is_refused_by_name_and_the_run_goes_on(world: World) -> None:
    outcome = world.night(
        row("faq", "1", "said"),
        row("anas", "2", "said"),
        row("bad", "3", "x"),
        row("lost", "4", "x"),
        row(None, "5", "x"),
        *(row("faq", f"more {n}", "said") for n in range(5)),
    )
    assert world.rejected() == [
        ("corpora", "personal_corpus_has_owner"),
        ("corpus_agent_assignments", "assigned_corpus_exists"),
        ("corpus_agent_assignments", "personal_corpus_goes_to_agents_that_allow_it"),
        ("rows", "corpus_exists"),
        ("rows", "corpus_exists"),
        ("rows", "corpus_is_present"),
    ]
    assert (outcome.run.rows_in, outcome.run.rows_rejected, outcome.run.chunks_new) == (10, 3, 2)
    assert set(world.table("chunks")["scope"]) == {"acme", f"{PERSONAL_SCOPE}ana"}
    assert dict(world.table("occurrences").select("corpus_id", "scope").iter_rows()) == {
        "faq": "acme",
        "anas": f"{PERSONAL_SCOPE}ana",
    }
    said = world.said(row("faq", "1", "said"))
    assert "[corpora] 3 rows refused (1 " in said
    assert dict(world.sql("select source, tonight from rejects_by_rule where source = 'corpora'")) == {"corpora": 1}


def test_the_tables_are_of_their_run_and_go_back_with_it(world: World) -> None:
    first = world.night(row("faq", "1", "said")).run
    assert {name: world.table(name).height for name in TABLES} == {
        "corpora": 2, "agents": 2, "corpus_agent_assignments": 1, "corpus_documents": 0,
    }  # fmt: skip
    world.corpora, world.assignments = [global_("faq", is_active=False)], []
    world.night(row("faq", "1", "said"))
    assert world.table("corpora")["is_active"].to_list() == [False]
    assert world.sql("select count(*) from corpora") == [(1,)]
    assert world.sql("from visible_corpora('desk', 'ana')") == []
    rollback(world.settings, first.run_id, progress=Progress(quiet=True))
    assert world.table("corpora").height == 2
    assert world.sql("select corpus_id from visible_corpora('desk', 'x')") == [("faq",)]


def test_a_night_that_changes_no_corpus_makes_no_version_of_them(world: World) -> None:
    first = world.night(row("faq", "1", "said")).run.table_versions
    again = world.night(row("faq", "1", "said"), row("faq", "2", "more")).run.table_versions
    assert {name: first[name] for name in TABLES} == {name: again[name] for name in TABLES}


def test_corpora_that_are_no_longer_named_stay_in_force_and_that_is_told(world: World, tmp_path: Path) -> None:
    world.night(row("faq", "1", "said"))
    (tmp_path / "more.csv").write_text("id,text\n1,more\n")
    said = said_by_night(world.warehouse, {"path": str(tmp_path / "more.csv"), "scope": "acme"}, **world.over)
    assert "[corpora] is not set: the 2 corpora of the run before stay in force" in said
    assert world.table("corpora").height == 2
    assert world.table("occurrences").filter(pl.col("corpus_id").is_null()).height == 1


def test_the_same_row_in_two_corpora_of_a_workspace_is_one_chunk_with_two_occurrences(tmp_path: Path) -> None:
    world = World(tmp_path, None, [global_("one"), global_("two")])
    for _ in range(2):
        world.night(row("one", "1", "said"), row("two", "1", "said"), row("two", "1", "said"))
        assert world.table("chunks")["occurrences"].to_list() == [2]
        assert sorted(world.table("occurrences")["corpus_id"]) == ["one", "two"]
        assert world.rejected() == [("rows", "source_row_id_is_unique")]


@pytest.mark.parametrize("given", [{"corpus": "faq"}, {"corpus_id_column": "corpus_id"}, {}])
def test_an_input_names_its_corpus_or_the_column_of_it(world: World, given: dict[str, Any]) -> None:
    world.night(row("faq", "1", "said"), **given)
    assert world.table("occurrences")["corpus_id"].to_list() == ["faq"]
    assert world.table("chunks")["metadata"].to_list() == [None if "corpus" not in given else '{"corpus_id":"faq"}']


def test_an_input_that_names_a_scope_is_in_no_corpus(world: World) -> None:
    world.night(row("faq", "1", "said"), scope="acme")
    assert world.table("occurrences")["corpus_id"].to_list() == [None]


def test_all_files_of_an_input_name_a_corpus_or_none_does(world: World, tmp_path: Path) -> None:
    world.night(row("faq", "1", "said"))
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id,text,workspace_id,corpus_id\n1,x,acme,faq\n")
    (folder / "b.csv").write_text("id,text,workspace_id\n2,y,acme\n")
    with pytest.raises(UnreadableSource, match=r"b.csv: a.csv of this input has a column corpus_id and b.csv has none"):
        run_night(world.warehouse, {"path": str(folder)}, corpora={"corpora": str(tmp_path / "corpora.parquet")})


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({"corpora": {"agents": "a.csv"}}, "agents goes with corpora, the table of them"),
        ({"corpora": {"corpora": "a.csv", "assignments": "b.csv"}}, "assignments goes with agents"),
        ({"corpora": {"corpora": " "}}, "corpora: names no file"),
        ({"inputs": [{"path": "x", "corpus": "a"}]}, r"corpus and corpus_id_column go with \[corpora\] corpora"),
        ({"inputs": [{"path": "x", "corpus": "a", "scope": "b"}]}, "give a corpus or a scope, not both"),
        ({"inputs": [{"path": "x", "corpus": "a", "corpus_id_column": "b"}]}, "give corpus or corpus_id_column"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(over: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsRefused, match=told):
        load_settings(NO_FILE, over=over)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("c.csv", None, "no such file"),
        ("c.csv", "corpus_id\na\n", "no column type; there are corpus_id"),
        ("c.csv", "", "the file is empty"),
        ("c.txt", "x", "'.txt' is no parquet, csv, jsonl or arrow file"),
        ("c.parquet", "lists", "column 'type' holds List"),
    ],
)
def test_a_table_that_cannot_be_read_stops_the_run(tmp_path: Path, name: str, content: str | None, told: str) -> None:
    if content == "lists":
        pl.DataFrame({"corpus_id": ["a"], "type": [["global"]]}).write_parquet(tmp_path / name)
    elif content is not None:
        (tmp_path / name).write_text(content)
    (tmp_path / "rows.csv").write_text("id,text\n1,x\n")
    over: dict[str, Any] = {"corpora": {"corpora": str(tmp_path / name)}, "load": {"on_unreadable": "skip"}}
    with pytest.raises(UnreadableSource, match=told):
        run_night(tmp_path / "w", {"path": str(tmp_path / "rows.csv")}, **over)


def test_ids_are_the_same_in_every_format_and_lines_that_do_not_parse_are_refused(tmp_path: Path) -> None:
    columns = {"corpus_id": [1.0, 2.0, None], "type": ["global", "personal", "global"], "owner_id": [None, 42, None]}
    frame = pl.DataFrame(columns).with_columns(workspace_id=pl.lit("acme"))
    frame.write_parquet(tmp_path / "c.parquet")
    (tmp_path / "c.csv").write_text(
        "corpus_id,type,owner_id,workspace_id\n1,global,,acme\n2,personal,42,acme\n,global,,acme\nshort\n"
    )
    rows = tmp_path / "rows.csv"
    rows.write_text("id,text,corpus_id\n1,x,1\n2,y,2\n")
    for name, refused in (("c.parquet", 1), ("c.csv", 2)):
        folder = tmp_path / name.partition(".")[2]
        run_night(folder, {"path": str(rows)}, corpora={"corpora": str(tmp_path / name)})
        assert published(folder, "corpora").select("corpus_id", "owner_id").rows() == [("1", None), ("2", "42")]
        assert sorted(published(folder, "chunks")["scope"]) == ["acme", f"{PERSONAL_SCOPE}42"]
        assert published(folder, "rejects").height == refused


def test_the_status_of_documents_follows_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    named = {"source": None, "source_doc_id": None, "status": "processing", "reason": None}
    documents = [{"document_id": name, "corpus_id": "faq", **named} for name in ("good", "half", "poor", "none")]
    with serving() as endpoint:
        world = World(tmp_path, endpoint, [global_("faq")], documents=documents)
        endpoint.bad = {"broken": "500"}
        world.night(
            row("faq", "1", "one text", doc_id="good"),
            row("faq", "2", "two texts", doc_id="half"),
            row("faq", "3", "a broken text", doc_id="half"),
            row("faq", "4", "", doc_id="poor"),
            row("faq", "5", "the rest of it", doc_id="poor"),
        )

        def statuses() -> dict[str, tuple[str, str | None]]:
            rows = world.table("corpus_documents").select("document_id", "status", "reason").iter_rows()
            assert world.sql("select document_id, status, reason from document_status order by all") == sorted(
                world.table("corpus_documents").select("document_id", "status", "reason").rows()
            )
            return {name: (status, reason) for name, status, reason in rows}

        assert statuses() == {
            "good": ("indexed", None),
            "half": ("failed", "1 of 2 chunks have no vector"),
            "poor": ("failed", "1 rows refused: text_is_not_empty"),
            "none": ("processing", None),
        }
        endpoint.bad = {}
        run_night(world.warehouse, pending="incomplete", embedding=endpoint.settings(), **world.over)
        assert statuses()["half"] == ("indexed", None)
        assert statuses()["poor"] == ("failed", "1 rows refused: text_is_not_empty")
        # A backfill reads nothing of the inputs, nor does it say of its own rows whose corpus they are.
        old = world.folder / "old.parquet"
        pl.DataFrame(
            {"id": [1, 2], "workspace_id": ["acme", "acme"], "content": ["one text", "old"], "content_hash": None}
        ).write_parquet(old)
        sections = {"embedding": endpoint.settings(), "corpora": world._tables(), **world.over}
        given = settings_of(world.warehouse, {"path": str(old), "name": "old"}, backfill={"slice_rows": 1}, **sections)
        assert backfill(given, progress=Progress(quiet=True)).rows_new == 2
        assert statuses()["poor"] == ("failed", "1 rows refused: text_is_not_empty")
        assert world.sql("select count(*), count(corpus_id) from occurrences where source = 'old'") == [(2, 0)]
        run_night(world.warehouse, pending="incomplete", embedding=endpoint.settings(), **world.over)
        assert statuses()["poor"] == ("failed", "1 rows refused: text_is_not_empty")
        world.night(row("faq", "4", "better", doc_id="poor"))
        assert statuses()["poor"] == ("indexed", None)


def test_a_dry_run_checks_corpora_too_and_writes_nothing(world: World) -> None:
    inputs, sections = world._given((row("faq", "1", "said"), row("bad", "2", "x")), "rows")
    settings = load_settings(
        NO_FILE,
        over={
            "inputs": inputs,
            "warehouse": {"path": str(world.warehouse)},
            "embedding": {"encoder": "none"},
            **sections,
        },
    )
    outcome = night(settings, progress=Progress(quiet=True), dry_run=True)
    assert outcome.run.rows_rejected == 1
    assert not world.warehouse.exists()
