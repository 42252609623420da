"""Questions to the mart as an analyst asks them, and the runs on record."""

import csv
import io
import json
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.errors import NightfoldError
from flows.mart import NoMart
from flows.query import _csv_cell, query_mart, show_run, show_runs, split_statements
from flows.settings import Settings
from flows.warehouse import NoSuchRun, Run, Warehouse
from tests.nights import run_night, settings_of
from tests.terminal import CTRL_C, CTRL_D, NIGHTFOLD, Terminal

LONG_QUERY = "select sum(a.range * b.range) from range(1000000) a, range(1000000) b;"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of one night: two contents, three occurrences, one reject."""
    folder = tmp_path_factory.mktemp("query")
    (folder / "faq.csv").write_text("id,text\n1,hello\n2,hello\n3,other\n4,\n")
    run_night(folder / "out", {"path": str(folder / "faq.csv"), "scope": "acme"})
    return folder / "out"


@pytest.fixture
def settings(warehouse: Path) -> Settings:
    return settings_of(warehouse)


@pytest.fixture
def answer(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What is printed for a query."""

    def ask(query: str, *, as_csv: bool = False) -> str:
        query_mart(settings, query, as_csv=as_csv)
        return capsys.readouterr().out

    return ask


# ---- one query


def test_a_result_is_a_table_with_its_types(answer: Callable[..., str]) -> None:
    shown = answer("select scope, row_count, duplicate_rows from duplicate_rate_by_source")
    assert [cell.strip() for cell in shown.splitlines()[-3].strip("│").split("│")] == ["acme", "3", "1"]
    assert "varchar" in shown


def test_off_the_terminal_no_column_is_left_out_and_ids_are_whole(answer: Callable[..., str]) -> None:
    shown = answer("from chunks")
    [chunk_id, *_] = [row["chunk_id"] for row in csv.DictReader(io.StringIO(answer("from chunks", as_csv=True)))]
    assert chunk_id in shown
    assert "superseded_by" in shown


def test_each_statement_has_its_result(answer: Callable[..., str]) -> None:
    assert answer("select 1 as a; select 2 as b", as_csv=True) == "a\n1\nb\n2\n"


@pytest.mark.parametrize("query", ["", " ; ", "-- nothing asked", "set threads = 1"])
def test_what_has_no_result_prints_nothing(answer: Callable[..., str], query: str) -> None:
    assert answer(query) == ""


@pytest.mark.parametrize(
    "query",
    ["delete from chunks", "create table mine as select 1", "update runs set note = 'x'", "drop view duplicates"],
)
def test_a_query_that_writes_is_refused(answer: Callable[..., str], query: str) -> None:
    with pytest.raises(NightfoldError, match=r"^sql: Invalid Input Error: .*read-only mode"):
        answer(query)
    assert answer("select count(*) as n from chunks", as_csv=True) == "n\n2\n"


def test_an_unknown_table_is_told_in_one_line(answer: Callable[..., str]) -> None:
    with pytest.raises(NightfoldError) as error:
        answer("from chunk")
    assert str(error.value) == 'sql: Catalog Error: Table with name chunk does not exist! Did you mean "chunks"?'


def test_an_error_in_the_query_points_at_the_place(answer: Callable[..., str]) -> None:
    with pytest.raises(NightfoldError) as error:
        answer("selec 1")
    assert str(error.value).splitlines() == [
        'sql: Parser Error: syntax error at or near "selec"',
        "LINE 1: selec 1",
        "        ^",
    ]


def test_without_a_mart_the_remedy_is_told_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(NoMart, match=r"none/mart\.duckdb: there is no mart yet; `nightfold run` makes it"):
        query_mart(settings_of(tmp_path / "none"), "select 1", as_csv=False)
    assert not (tmp_path / "none").exists()


def test_a_mart_that_is_no_duckdb_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "mart.duckdb").write_text("not a database")
    with pytest.raises(NightfoldError, match=r"mart\.duckdb: cannot be opened: .* not a valid DuckDB database file!$"):
        query_mart(settings_of(tmp_path), "select 1", as_csv=False)


# ---- CSV


def test_csv_tells_null_from_an_empty_text_and_keeps_newlines(answer: Callable[..., str]) -> None:
    query = """select null as "a,b", '' as empty, 'x"y' as quote, 'l1\nl2' as lines, ['u', 'v'] as list, 1.5 as n"""
    assert answer(query, as_csv=True) == '"a,b",empty,quote,lines,list,n\n,"","x""y","l1\nl2","[u, v]",1.5\n'


def test_csv_of_no_rows_is_its_header(answer: Callable[..., str]) -> None:
    assert answer("select chunk_id from chunks where false", as_csv=True) == "chunk_id\n"


def test_csv_has_every_row(answer: Callable[..., str]) -> None:
    assert answer("select * from range(25000)", as_csv=True).count("\n") == 25_001


def test_csv_keeps_the_names_of_two_columns_of_one_name(answer: Callable[..., str]) -> None:
    assert answer("select 1 as a, 2 as a", as_csv=True) == "a,a\n1,2\n"


CELLS = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


@given(st.lists(CELLS, min_size=2, max_size=4))
def test_a_csv_reader_gets_every_text_back(cells: list[str | None]) -> None:
    written = ",".join(map(_csv_cell, cells)) + "\n"
    assert list(csv.reader(io.StringIO(written, newline=""))) == [[cell or "" for cell in cells]]


def test_duckdb_reads_back_what_was_written(answer: Callable[..., str], tmp_path: Path) -> None:
    rows = "(1, null, 'x'), (2, '', 'a,b'), (3, ' pad ', 'l1\nl2')"
    (tmp_path / "rows.csv").write_text(answer(f"select * from (values {rows}) t(id, a, b)", as_csv=True))
    file = str(tmp_path / "rows.csv")
    read = duckdb.execute("select * from read_csv($1, allow_quoted_nulls = false)", [file]).fetchall()
    assert read == [(1, None, "x"), (2, "", "a,b"), (3, " pad ", "l1\nl2")]


# ---- statements


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("select 1", [], "select 1"),
        ("select 1;", ["select 1"], ""),
        ("select 1; select 2", ["select 1"], "select 2"),
        ("select ';'; select ';", ["select ';'"], "select ';"),
        ("select 1; -- a; b", ["select 1"], "-- a; b"),
        ("select $$;$$; ;;", ["select $$;$$"], ""),
        ("select 'é;ü' as \"ñ\"; select 2;", ["select 'é;ü' as \"ñ\"", "select 2"], ""),
    ],
)
def test_a_semicolon_ends_a_statement_unless_it_is_text(text: str, statements: list[str], rest: str) -> None:
    assert split_statements(text) == (statements, rest)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00'")))
def test_any_text_in_quotes_stays_whole(text: str) -> None:
    assert split_statements(f"select '{text}'; select 2") == ([f"select '{text}'"], "select 2")


# ---- the prompt


def piped(text: str, warehouse: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [NIGHTFOLD, "sql", "--warehouse", str(warehouse), *options]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)


def test_a_pipe_runs_every_statement_and_an_error_in_the_middle_shows_in_the_exit_code(warehouse: Path) -> None:
    told = piped("select 1 as a;\nfrom nope; select\n2 as b;\nselect 3 as c", warehouse, "--csv")
    assert told.stdout == "a\n1\nb\n2\nc\n3\n"
    assert told.stderr.startswith("sql: Catalog Error: Table with name nope does not exist!")
    assert told.stderr.count("\n") == 1
    assert told.returncode == 1


def test_a_pipe_can_leave_early(warehouse: Path) -> None:
    told = piped("select 1 as a;\n.exit\nselect 2 as b;\n", warehouse, "--csv")
    assert (told.stdout, told.stderr, told.returncode) == ("a\n1\n", "", 0)


def test_a_pipe_that_says_nothing_is_no_error(warehouse: Path) -> None:
    told = piped("", warehouse)
    assert (told.stdout, told.stderr, told.returncode) == ("", "", 0)


def test_the_prompt_at_a_terminal(warehouse: Path) -> None:
    # Wide enough that no line which is typed is wrapped in its echo.
    with Terminal("sql", "--warehouse", "out", "--csv", folder=warehouse.parent, columns=200) as terminal:
        welcome = terminal.read_to("nightfold> ")
        assert welcome.startswith("out/mart.duckdb, read-only. A query ends with ;  Ctrl-D or exit leaves.\n")
        terminal.press("select 6 * 7\n")
        terminal.read_to("      ...> ")
        terminal.press("as answer;\n")
        assert "\nanswer\n42\n" in terminal.read_to("nightfold> ")
        # An error leaves the prompt open.
        terminal.press("from nope;\n")
        assert "sql: Catalog Error: Table with name nope" in terminal.read_to("nightfold> ")
        # Ctrl-C drops what was typed before, on this line and the one above.
        terminal.press("select bogus\n")
        terminal.read_to("      ...> ")
        terminal.press("half a line")
        terminal.read_to("half a line")
        # Python loses a Ctrl-C that comes in the moment between the echo of a key and the wait for the next.
        time.sleep(0.5)
        terminal.press(CTRL_C)
        terminal.read_to("nightfold> ")
        # Ctrl-C ends a query that runs.
        terminal.press(LONG_QUERY + "\n")
        terminal.read_to("b;\n")
        terminal.press(CTRL_C)
        assert "Traceback" not in terminal.read_to("nightfold> ")
        terminal.press("select 'still here' as x;\n")
        assert "\nx\nstill here\n" in terminal.read_to("nightfold> ")
        terminal.press(CTRL_D)
        rest, code = terminal.read_all()
    assert "Traceback" not in rest
    assert code == 1  # one of the statements failed


@pytest.mark.parametrize("word", ["quit;", ".EXIT"])
def test_a_word_leaves_the_prompt(warehouse: Path, word: str) -> None:
    with Terminal("sql", "--warehouse", "out", folder=warehouse.parent) as terminal:
        terminal.read_to("nightfold> ")
        terminal.press(word + "\n")
        rest, code = terminal.read_all()
    assert (rest.strip().endswith(word), code) == (True, 0)


def test_a_terminal_gets_a_table_that_fits(warehouse: Path) -> None:
    with Terminal("sql", "--warehouse", "out", "from chunks", folder=warehouse.parent, columns=80) as terminal:
        shown, code = terminal.read_all()
    assert code == 0
    assert max(map(len, shown.splitlines())) <= 80


def test_ctrl_c_ends_a_query_with_one_line(warehouse: Path) -> None:
    with Terminal("sql", "--warehouse", "out", "--csv", LONG_QUERY, folder=warehouse.parent) as terminal:
        terminal.read_to("\n")  # the header: the query runs
        terminal.press(CTRL_C)
        rest, code = terminal.read_all()
    assert rest.endswith("nightfold: stopped; what was published before still stands\n")
    assert ("Traceback" in rest, code) == (False, 130)


# ---- runs


def test_runs_are_listed_newest_first_with_whole_ids_and_no_blanks_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n2,hello\n3,\n")
    given = {"path": str(tmp_path / "faq.csv"), "scope": "acme"}
    first, second = run_night(tmp_path / "out", given).run, run_night(tmp_path / "out", given).run
    Warehouse(str(tmp_path / "out")).commit(_failed("20990101T000000.000000Z", "why it failed, " * 20 + "\nmore"))
    show_runs(settings_of(tmp_path / "out"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "   run                      status     rows in  rejected  chunks added  seconds  note"
    assert [line.split()[0] for line in lines[1:4]] == ["20990101T000000.000000Z", "*", first.run_id]
    assert lines[2].split()[1:6] == [second.run_id, "published", "3", "1", "0"]
    assert lines[3].split()[1:5] == ["published", "3", "1", "1"]
    assert lines[1].endswith("why it failed, why it failed,")
    assert lines[4:] == ["* what readers see"]
    assert all(line == line.rstrip() for line in lines)


def _failed(run_id: str, note: str) -> Run:
    return Run(
        run_id=run_id,
        started_at=datetime(2099, 1, 1, tzinfo=UTC),
        published_at=None,
        status="failed",
        restores=None,
        rows_in=0,
        rows_rejected=0,
        occurrences_new=0,
        occurrences_known=0,
        chunks_new=0,
        chunks_touched=0,
        actions={},
        stage_seconds={},
        recall_measured=None,
        table_versions={},
        settings={},
        note=note,
    )


def test_on_a_terminal_the_list_ends_at_its_edge_with_ids_whole(warehouse: Path) -> None:
    run = Warehouse(str(warehouse)).published()
    assert run is not None
    with Terminal("runs", "list", "--warehouse", "out", folder=warehouse.parent, columns=60) as terminal:
        shown, code = terminal.read_all()
    assert code == 0
    assert run.run_id in shown
    assert max(map(len, shown.splitlines())) == 60
    assert shown.splitlines()[1].endswith("…")


def test_a_mart_behind_the_published_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n")
    run_night(tmp_path / "out", {"path": str(tmp_path / "faq.csv"), "scope": "acme"})
    (tmp_path / "out" / "mart.duckdb").unlink()
    show_runs(settings_of(tmp_path / "out"))
    assert capsys.readouterr().out.endswith("the mart still shows nothing; the next run brings it up to date\n")


def test_a_warehouse_without_runs_says_so(tmp_path: Path) -> None:
    with pytest.raises(NightfoldError, match="none: no run yet; `nightfold run` makes the first"):
        show_runs(settings_of(tmp_path / "none"))


def test_a_run_is_shown_as_json_by_the_beginning_of_its_id(
    settings: Settings, warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = Warehouse(str(warehouse)).published()
    assert published is not None
    show_run(settings, published.run_id[:8])
    shown = json.loads(capsys.readouterr().out)
    assert (shown["run_id"], shown["rows_in"], shown["rows_rejected"]) == (published.run_id, 4, 1)
    assert set(shown["stage_seconds"]) >= {"load", "hash", "exact", "write"}


def test_a_run_that_is_not_there_is_named(settings: Settings) -> None:
    with pytest.raises(NoSuchRun, match="1999: no such run; `nightfold runs list` shows them"):
        show_run(settings, "1999")
