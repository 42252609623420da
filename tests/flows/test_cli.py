"""The command as a newcomer, an analyst and a shell script use it."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from flows import cli
from flows.commands.review import review_app
from flows.commands.review_page import token_app
from flows.commands.runs import runs_app
from flows.commands.settings import settings_app
from flows.lock import writer_lock
from flows.settings import Settings
from flows.warehouse import Warehouse
from tests.flows.word_endpoint import serving
from tests.judged import Nights, given_verdicts, word_endpoint
from tests.nights import published
from tests.terminal import CTRL_C, NIGHTFOLD, Terminal

FAQ = "key,body,tenant\na,Opening hours?,acme\nb,Opening   hours?,acme\nc,Opening hours?,boreal\nd,,boreal\n"
COMMANDS = [
    (),
    ("run",),
    ("retry",),
    ("backfill",),
    ("unmerge",),
    ("sql",),
    ("search",),
    ("check",),
    ("explain",),
    ("report",),
    ("judge",),
    ("calibrate",),
    ("review",),
    ("review", "list"),
    ("review", "show"),
    ("review", "decide"),
    ("review", "undo"),
    ("review", "log"),
    ("review", "export"),
    ("review", "import"),
    ("runs",),
    ("runs", "list"),
    ("runs", "show"),
    ("runs", "rollback"),
    ("review", "serve"),
    ("review", "token"),
    ("review", "token", "create"),
    ("review", "token", "list"),
    ("review", "token", "revoke"),
    ("settings",),
    ("settings", "show"),
    ("settings", "example"),
]


class Told(NamedTuple):
    """What a command printed, and how it ended."""

    out: str
    err: str
    code: int


Call = Callable[..., Told]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a csv of four rows (two of one content in a scope, a third in another, and one bad)
    and one that has no column of a usual name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faq.csv").write_text(FAQ)
    (tmp_path / "bare.csv").write_text("question\nOpening hours?\n")
    return tmp_path


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs `nightfold` in this process."""

    def run(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["nightfold", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return Told(printed.out, printed.err, int(ended.value.code or 0))

    return run


FAQ_COLUMNS = ("--text-column", "body", "--id-column", "key")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


# ---- run


def test_a_newcomer_without_a_settings_file_runs_from_the_command_line(call: Call, folder: Path) -> None:
    told = call(
        *("run", "--direct", "--input", "faq.csv", "--warehouse", "out", "--scope-column", "tenant", *FAQ_COLUMNS)
    )
    assert (told.err, told.code) == ("", 0)
    assert sorted(published(folder / "out", "chunks")["scope"]) == ["acme", "boreal"]
    assert sorted(published(folder / "out", "occurrences")["source_row_id"]) == ["a", "b", "c"]


def test_the_end_of_a_run_says_what_it_did_and_where_to_look(call: Call) -> None:
    told = call("run", "--direct", "-i", "faq.csv", "--warehouse", "out", "--scope", "acme", *FAQ_COLUMNS)
    stages, summary, hints = told.out.split("\n\n")
    assert [line.split()[0] for line in stages.splitlines()] == ["load", "hash", "exact", "write", "mart"]
    run_id = summary.splitlines()[0].removeprefix("published run ")
    assert summary.splitlines() == [
        f"published run {run_id}",
        "rows in                   4",
        "seen for the first time   3",
        "seen on an earlier night  0",
        "rejected                  1  1 text_is_present",
        "chunks added              1",
        "known chunks seen again   0",
        "exact duplicates tonight  2",
        "chunks in all             1",
        "occurrences in all        3",
        "canonicals in all         1",
        "pairs in all              0",
        "rejects in all            1",
    ]
    assert hints.splitlines() == [
        "tables   out",
        "mart     out/mart.duckdb   (opens in any DuckDB)",
        'look     nightfold sql --warehouse out "from duplicate_rate_by_source"',
        'rejects  nightfold sql --warehouse out "from rejects_by_rule"',
        "runs     nightfold runs list --warehouse out",
    ]


def test_a_second_run_says_that_it_added_nothing(call: Call) -> None:
    run = ("run", "--direct", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS)
    assert ": nothing new" not in call(*run).out
    again = call(*run).out
    assert ": nothing new, 0 chunks added\n" in again
    assert "\nchunks added              0\n" in again


def test_run_alone_uses_the_settings_of_the_folder(call: Call, folder: Path) -> None:
    (folder / "nightfold.toml").write_text(
        '[warehouse]\npath = "wh"\n[[inputs]]\npath = "faq.csv"\ntext_column = "body"\nscope = "acme"\n'
    )
    told = call("run", "--direct")
    assert told.code == 0
    assert published(folder / "wh", "chunks").height == 1
    # The folder's own settings say where: the hints need not.
    assert 'look     nightfold sql "from duplicate_rate_by_source"' in told.out


def test_every_hint_is_a_command_that_works_as_printed(call: Call, folder: Path) -> None:
    (folder / "my settings.toml").write_text('[[inputs]]\npath = "faq.csv"\ntext_column = "body"\n')
    told = call("run", "--direct", "--settings", "my settings.toml", "--warehouse", "it's out")
    assert told.code == 0
    hints = [line.split(maxsplit=1)[1] for line in told.out.splitlines() if " nightfold " in line]
    assert len(hints) == 3
    for hint in hints:
        assert "--settings 'my settings.toml'" in hint
        words = shlex.split(hint)
        assert words[0] == "nightfold"
        assert call(*words[1:]).code == 0


def test_a_dry_run_says_what_would_happen_and_writes_nothing(call: Call, folder: Path) -> None:
    before = tree(folder)
    told = call("run", "--dry-run", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS)
    assert (told.err, told.code) == ("", 0)
    assert "\ndry run: nothing was written to out; a run would do this\nrows in " in told.out
    assert "\nchunks added              1\n" in told.out
    assert "nightfold sql" not in told.out
    assert tree(folder) == before


def test_a_dry_run_over_a_warehouse_leaves_it_byte_for_byte(call: Call, folder: Path) -> None:
    run = ("-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS)
    call("run", "--direct", *run)
    before = tree(folder)
    assert "\nchunks added              0\n" in call("run", "--dry-run", *run).out
    assert tree(folder) == before


@pytest.mark.parametrize("kind", ["text", "file", "spec_row", "memory"])
def test_every_kind_can_be_asked_for(call: Call, folder: Path, kind: str) -> None:
    pl.DataFrame({"text": ["a"], "value": ["b"]}).write_csv(folder / "rows.csv")
    assert call("run", "--direct", "-i", "rows.csv", "--warehouse", "out", "--kind", kind).code == 0
    assert published(folder / "out", "chunks")["kind"].to_list() == [kind]


def test_several_inputs_a_source_name_and_skipping_are_taken(call: Call, folder: Path) -> None:
    (folder / "more.csv").write_text("body,key\nother,e\n")
    (folder / "broken.parquet").write_bytes(b"PAR1")
    told = call(
        *("run", "--direct", "-i", "faq.csv", "-i", "more.csv", "-i", "broken.parquet", "--on-unreadable", "skip"),
        *("--warehouse", "out", "--source", "help", "--scope", "acme", *FAQ_COLUMNS),
    )
    assert told.code == 0
    assert "\nskipped " in told.out
    assert set(published(folder / "out", "occurrences")["source"]) == {"help"}
    assert published(folder / "out", "chunks").height == 2


# ---- what goes wrong: one line on stderr, and an exit code


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "no input: name files with --input FILE_OR_GLOB, or write [[inputs]] into nightfold.toml "),
        (["run", "-i", "nope.csv"], "nope.csv: no such file, folder or glob with a match"),
        (["run", "--source", "x"], "--source: goes with --input; without it, set it in nightfold.toml"),
        (["run", "--scope-column", "x"], "--scope-column: goes with --input; "),
        (["run", "--direct", "-i", "faq.csv", "--scope", "a", "--scope-column", "b"], "command line: inputs.#1: give "),
        (["run", "--direct", "-i", "faq.csv", "--warehouse", ""], "command line: warehouse.path: names no folder"),
        (["run", "--direct", "-i", "bare.csv"], "bare.csv: no text column (tried text, content, body); name one with "),
        (["run", "--direct", "-i", "faq.csv", "--warehouse", "faq.csv"], "faq.csv: "),
        (["run", "--settings", "nope.toml"], "nope.toml: no such settings file"),
        (["sql", "select 1"], "data/warehouse/mart.duckdb: there is no mart yet; `nightfold run` makes it"),
        (["sql", "--warehouse", "", "select 1"], "command line: warehouse.path: names no folder (got '')"),
        (["runs", "list"], "data/warehouse: no run yet; `nightfold run` makes the first"),
        (["runs", "show", "2026"], "2026: no such run; `nightfold runs list` shows them"),
        (["judge", "nope.csv", "--out", "o.csv"], "nope.csv: cannot be read as csv: No such file or directory"),
        (["judge", "faq.csv", "--out", "o.csv"], "faq.csv: no column text_a or text_b; give each row its two texts"),
        (["judge", "faq.csv", "--out", "faq.csv"], "faq.csv: is the file that is read; name another --out"),
        (["calibrate", "faq.csv"], "faq.csv: no column mergeable; say of each pair, true or false, whether "),
        (["calibrate", "faq.csv", "--precision", "2"], "--precision 2: a share above 0 and up to 1, as in 0.95"),
        (["calibrate", "faq.csv", "--plot", "o.png"], "--plot o.png: the plot is an SVG; name a .svg file"),
    ],
)
def test_an_error_is_one_line_that_names_its_subject(call: Call, arguments: list[str], told: str) -> None:
    got = call(*arguments)
    assert got.err.startswith(f"nightfold: {told}")
    assert (got.err.count("\n"), got.out, got.code) == (1, "", 1)


@pytest.mark.parametrize(
    "arguments",
    [["bogus"], ["run", "--bogus"], ["run", "-i", "faq.csv", "--kind", "poem"], ["runs", "show"]],
)
def test_a_command_that_is_mistyped_is_told_with_the_way_to_its_help(call: Call, arguments: list[str]) -> None:
    told = call(*arguments)
    assert (told.out, told.code) == ("", 2)
    assert told.err.startswith("Usage: nightfold")
    assert "Traceback" not in told.err


def test_a_fault_of_the_disk_is_one_line_with_its_path(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTFOLD_WAREHOUSE__STAGING", "faq.csv")
    told = call("run", "--direct", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS)
    assert told.err.startswith("nightfold: faq.csv")
    assert "Not a directory" in told.err
    assert (told.err.count("\n"), told.code) == (1, 1)


def test_a_mistyped_input_makes_no_warehouse_and_starts_no_server(call: Call, folder: Path) -> None:
    before = tree(folder)
    assert call("run", "-i", "nope.csv", "--warehouse", "out").out == ""
    assert tree(folder) == before


def test_a_prefect_server_of_a_profile_that_does_not_answer_is_named_with_the_way_around(folder: Path) -> None:
    (folder / "profiles.toml").write_text(
        'active = "office"\n[profiles.office]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n'
    )
    told = _nightfold(
        *("run", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS),
        folder=folder,
        PREFECT_PROFILES_PATH=str(folder / "profiles.toml"),
    )
    assert told.err.startswith("nightfold: http://127.0.0.1:9/api: Prefect's server does not answer (")
    assert told.err.endswith("); start it, or run with --direct\n")
    assert (told.err.count("\n"), told.out, told.code) == (1, "", 1)
    assert not (folder / "out").exists()


def test_no_server_at_all_is_told_with_the_way_around(folder: Path) -> None:
    told = _nightfold(
        *("run", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS),
        folder=folder,
        PREFECT_SERVER_ALLOW_EPHEMERAL_MODE="false",
    )
    assert told.err.startswith("nightfold: Prefect: no server is configured and its temporary one is switched off; ")
    assert (told.err.count("\n"), told.code) == (1, 1)


def _nightfold(*arguments: str, folder: Path, **environment: str) -> Told:
    """The command in a process of its own."""
    # Prefect keeps its things at home, and the tests' own server is not for this command.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    ended = subprocess.run(
        [NIGHTFOLD, *arguments],
        cwd=folder,
        env={**kept, "PREFECT_HOME": str(folder / ".prefect"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Told(ended.stdout, ended.stderr, ended.returncode)


@pytest.fixture
def waiting_run(call: Call, folder: Path) -> Iterator[list[str]]:
    """A run that waits, for the lock of the warehouse that a run before it has published to."""
    run = ["run", "--direct", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS]
    assert call(*run).code == 0
    with writer_lock(folder / "out", doing="a test", wait_seconds=0, tell=print):
        yield run


def test_ctrl_c_stops_a_run_with_one_line(waiting_run: list[str], folder: Path) -> None:
    with Terminal(*waiting_run, folder=folder) as terminal:
        terminal.read_to("waiting up to 60 s for a test")
        terminal.press(CTRL_C)
        rest, code = terminal.read_all()
    assert rest.endswith("nightfold: stopped; what was published before still stands\n")
    assert ("Traceback" in rest, code) == (False, 130)
    assert len(Warehouse("out").runs()) == 1


def test_a_signal_without_a_terminal_stops_a_run_in_the_same_way(waiting_run: list[str], folder: Path) -> None:
    with subprocess.Popen(
        [NIGHTFOLD, *waiting_run], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("waiting up to 60 s for a test")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (out, err) == ("", "nightfold: stopped; what was published before still stands\n")
    assert running.returncode == 130


def test_a_terminal_shows_the_rows_of_the_stage_under_way(folder: Path) -> None:
    with Terminal("run", "--dry-run", "-i", "faq.csv", *FAQ_COLUMNS, folder=folder) as terminal:
        shown, code = terminal.read_all()
    assert code == 0
    assert "load                3 rows ..." in shown
    assert "\x1b[2Kload                4 -> 3 rows" in shown


# ---- retry and backfill


@pytest.mark.parametrize("command", [("retry",), ("backfill", "--embeddings")], ids=" ".join)
def test_without_an_encoder_there_is_nothing_to_embed_with(call: Call, command: tuple[str, ...]) -> None:
    told = call(*command, "--warehouse", "out")
    assert told.err == ('nightfold: [embedding] encoder = "none": there is nothing to embed with; name an encoder\n')
    assert told.code == 1


def test_a_backfill_is_told_what_of(call: Call) -> None:
    told = call("backfill", "--warehouse", "out")
    assert (told.err, told.code) == (
        "nightfold: backfill: name a SOURCE of legacy rows, or say --embeddings; one of the two\n",
        1,
    )


OLD = (
    "id,workspace_id,content,content_hash,embedding\n1,acme,Opening hours?,,\n"
    "2,acme,Opening   hours?,00,\n3,acme,Closing hours?,,\n4,acme,,,\n"
)


def test_legacy_rows_are_rehearsed_brought_in_and_told_of(call: Call, folder: Path) -> None:
    (folder / "old.csv").write_text(OLD)
    told = call("backfill", "old.csv", "--dry-run", "--warehouse", "out")
    assert (told.err, told.code) == ("", 0)
    assert not (folder / "out").exists()
    _, said = told.out.split("\n\n")
    assert said.splitlines()[0] == "dry run: nothing was written to out; a backfill would do this"
    assert [" ".join(line.split()) for line in said.splitlines()[2:]] == [
        "rows of knowledge_chunks 4",
        "in already 0",
        "to bring in 3",
        "rejected 1 1 text_is_present",
        "new chunks 2",
        "exact duplicates inside 1",
        "exact duplicates with the warehouse 0",
        "content hash computed 2",
        "content hash wrong, replaced 1",
        "no embedding 3",
    ]
    told = call("backfill", "old.csv", "--warehouse", "out", "--slice-rows", "2", "--emit-updates", "up")
    assert (told.err, told.code) == ("", 0)
    slices, _, hints = told.out.split("\n\n")
    assert [line.split("   ")[0] for line in slices.splitlines()] == ["cut", "slice 1 of 2", "slice 2 of 2"]
    assert hints.splitlines() == [
        'old ids  nightfold sql --warehouse out "from legacy_ids"',
        "updates  up   (3 rows)",
    ]
    query = "select old_id, rejected_by from legacy_ids order by all"
    assert (
        call("sql", "--warehouse", "out", "--csv", query).out == "old_id,rejected_by\n1,\n2,\n3,\n4,text_is_present\n"
    )


def test_a_backfill_that_cannot_be_meant_is_told_at_once(call: Call, folder: Path) -> None:
    (folder / "old.csv").write_text(OLD)
    told = call("backfill", "old.csv", "--scope", "acme", "--scope-column", "workspace_id")
    assert told.err == "nightfold: backfill: give --scope or --scope-column, not both\n"
    told = call("backfill", "old.csv", "--embeddings")
    assert told.err.endswith("or say --embeddings; one of the two\n")
    told = call("backfill", "bare.csv", "--warehouse", "out")
    assert told.err.startswith("nightfold: bare.csv: columns of no known table; say which it is with --shape")
    assert not (folder / "out").exists()


def test_a_retry_embeds_what_came_in_without_a_vector(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("run", "--direct", "-i", "faq.csv", "--warehouse", "out", "--scope", "acme", *FAQ_COLUMNS)
    with serving() as endpoint:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        for name, value in endpoint.settings().items():
            monkeypatch.setenv(f"NIGHTFOLD_EMBEDDING__{name.upper()}", str(value))
        told = call("retry", "--warehouse", "out")
        assert (told.err, told.code) == ("", 0)
        assert endpoint.given == {"Opening hours?": 1}
    assert published(folder / "out", "chunks")["completion_status"].to_list() == ["complete"]


# ---- judging files of pairs


PAIRS = "id,text_a,text_b,mergeable\n1,Opening hours?,Opening   hours?,true\n2,,Opening hours?,false\n"


def test_pairs_are_judged_from_file_to_file(call: Call, folder: Path) -> None:
    (folder / "pairs.csv").write_text(PAIRS)
    told = call("judge", "pairs.csv", "--out", "judged.parquet")
    assert (told.err, told.code) == ("", 0)
    assert told.out.splitlines()[-6:] == [
        "relation    action                pairs",
        "equivalent  merged_into_existing      1",
        "unknown     stored_as_new             1",
        "all                                   2",
        "",
        "written  judged.parquet",
    ]
    assert pl.read_parquet(folder / "judged.parquet")["id"].to_list() == ["1", "2"]
    assert not (folder / "data").exists()


def test_judged_pairs_with_labels_are_calibrated_and_drawn(call: Call, folder: Path) -> None:
    (folder / "pairs.csv").write_text(PAIRS)
    call("judge", "pairs.csv", "--out", "judged.parquet")
    for pairs in ("pairs.csv", "judged.parquet"):
        told = call("calibrate", pairs, "--precision", "0.9", "--plot", "curve.svg")
        assert (told.err, told.code) == ("", 0)
        judge = Settings().judge
        pasted = f"merge_confidence = {judge.merge_confidence:g}\nmerge_similarity = {judge.merge_similarity:g}"
        assert told.out.endswith(f"[judge]\n{pasted}\n\nplot     curve.svg\n")
        assert (folder / "curve.svg").read_text().startswith("<svg ")


# ---- checking rows


def test_rows_are_checked_against_the_warehouse_and_nothing_is_written(call: Call, folder: Path) -> None:
    options = ("--scope-column", "tenant", *FAQ_COLUMNS, "--warehouse", "out")
    call("run", "--direct", "--input", "faq.csv", *options)
    (folder / "new.csv").write_text("key,body,tenant\na,Opening hours?,acme\ne,Closing hours?,acme\nf,,acme\n")
    before = tree(folder / "out")
    told = call("check", "new.csv", *options)
    assert (told.err, told.code) == ("", 0)
    assert [line.split()[:2] for line in told.out.splitlines()] == [
        ["out:", "has"],
        ["row", "becomes"],
        ["a", "merged_into_existing"],
        ["e", "stored_as_new"],
        ["f", "rejected"],
        ["rows", "3"],
        ["exact", "duplicates"],
        ["stored_as_new", "1"],
        ["rejected", "1"],
    ]
    told = call("check", "new.csv", *options, "--out", "checked.csv")
    assert told.out.splitlines()[-1] == "written  checked.csv"
    assert pl.read_csv(folder / "checked.csv")["duplicate_kind"].to_list() == ["exact", "none", None]
    assert tree(folder / "out") == before


def test_a_result_that_could_not_be_written_is_told_before_anything_is_read(call: Call) -> None:
    told = call("check", "nothing.csv", "--out", "checked.txt")
    assert told == (
        "",
        "nightfold: checked.txt: unknown kind of file '.txt'; name a .parquet, .pq, .csv, .jsonl or .ndjson file\n",
        1,
    )
    told = call("check", "nothing.csv", "--warehouse", "out")
    assert (told.err, told.code) == ("nightfold: nothing.csv: no such file, folder or glob with a match\n", 1)


def test_a_row_is_explained_in_words(call: Call) -> None:
    call("run", "--direct", "-i", "faq.csv", "--warehouse", "out", "--scope", "acme", "--source", "faq", *FAQ_COLUMNS)
    told = call("explain", "--row", "faq:a", "--warehouse", "out")
    assert (told.err, told.code) == ("", 0)
    assert [line for line in told.out.splitlines() if line and line[0] != " "][1:] == ["said by", "group", "runs"]
    told = call("explain", "--warehouse", "out")
    assert (told.out, told.code) == ("", 1)
    assert told.err == "nightfold: explain: name a chunk by its id, or a row with --row SOURCE:ROW_ID\n"


# ---- help and version


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_has_an_example_that_fits_its_line(call: Call, command: tuple[str, ...]) -> None:
    told = call(*command, "--help")
    assert (told.err, told.code) == ("", 0)
    assert "Example" in told.out
    assert f"{' '.join(['nightfold', *command])} " in told.out.partition("Example")[2]


def test_no_command_is_left_out_of_these_tests() -> None:
    groups = {
        (): cli.app,
        ("runs",): runs_app,
        ("review",): review_app,
        ("review", "token"): token_app,
        ("settings",): settings_app,
    }
    found = set(groups)
    for above, app in groups.items():
        for command in app.registered_commands:
            assert command.callback is not None
            found.add((*above, command.name or command.callback.__name__))
    assert found == set(COMMANDS)


def test_help_loads_nothing_heavy(folder: Path) -> None:
    code = (
        "import sys, flows.cli as cli\n"
        "sys.argv = ['nightfold', 'run', '--help']\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    loaded = set(ended.stderr.split())
    assert "flows" in loaded
    assert loaded.isdisjoint({"prefect", "lance", "lancedb", "duckdb", "torch", "fastapi", "starlette", "review"})


def test_looking_at_the_mart_and_the_runs_loads_no_prefect(call: Call, folder: Path) -> None:
    call("run", "--direct", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS)
    code = (
        "import sys, flows.cli as cli\n"
        "for words in (['sql', 'select 1'], ['runs', 'list']):\n"
        "    sys.argv = ['nightfold', *words, '--warehouse', 'out']\n"
        "    try:\n        cli.main()\n    except SystemExit as ended:\n        assert not ended.code\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
    assert set(ended.stderr.split()).isdisjoint({"prefect", "lancedb", "torch", "fastapi"})


def test_the_version_is_that_of_the_package(call: Call) -> None:
    assert call("--version") == (f"nightfold {version('nightfold')}\n", "", 0)


# ---- the other commands


def test_sql_prints_a_table_or_csv(call: Call) -> None:
    call("run", "--direct", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS)
    query = "select count(*) as n from duplicates"
    assert call("sql", "--warehouse", "out", "--csv", query) == ("n\n2\n", "", 0)
    assert "│ int64 │" in call("sql", "--warehouse", "out", query).out


def test_a_reader_that_stops_early_is_no_error_to_see(call: Call, folder: Path) -> None:
    call("run", "--direct", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS)
    command = [NIGHTFOLD, "sql", "--warehouse", "out", "--csv", "from range(1000000)"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == b"range\n"
        running.stdout.close()
        assert running.stderr.read() == b""


def test_a_run_can_be_rolled_back_to(call: Call, folder: Path) -> None:
    run = ("run", "--direct", "-i", "faq.csv", "--warehouse", "out", *FAQ_COLUMNS)
    call(*run)
    first = Warehouse("out").runs()[0].run_id
    (folder / "faq.csv").write_text(FAQ + "e,Something new,acme\n")
    call(*run)
    assert published(folder / "out", "chunks").height == 2
    told = call("runs", "rollback", first, "--warehouse", "out")
    last = Warehouse("out").runs()[-1].run_id
    assert told == (f"run {last} publishes run {first} again; the mart shows it\n", "", 0)
    assert published(folder / "out", "chunks").height == 1
    assert call("sql", "--warehouse", "out", "--csv", "select count(*) as n from chunks").out == "n\n1\n"
    listed = call("runs", "list", "--warehouse", "out").out
    assert f"*  {last}  rollback " in listed
    assert f"went back to {first}" in listed
    assert json.loads(call("runs", "show", first, "--warehouse", "out").out)["chunks_new"] == 1


def test_a_merged_chunk_can_be_taken_out_by_the_beginning_of_its_id(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with word_endpoint() as endpoint, given_verdicts() as verdicts:
        verdicts.say("a", "b")
        nights = Nights(folder, endpoint, verdicts)
        nights.run(("acme", "a", 1), ("acme", "b", 2))
        merged, stands = nights.id_of("b"), nights.id_of("a")
        monkeypatch.setattr("getpass.getuser", lambda: "ana")
        told = call("unmerge", merged[:16], "--reason", "two pumps", "--warehouse", "w")
        last = Warehouse("w").runs()[-1]
        line = f"run {last.run_id}: {merged} stands for itself again, apart from {stands}; the mart shows it\n"
        assert told == (line, "", 0)
        assert last.note == f"ana took {merged} out of group {stands}: two pumps"
        assert nights.table("variants").is_empty()
        again = call("unmerge", merged, "--by", "ben", "--warehouse", "w")
        assert (again.out, again.code) == ("", 1)
        assert again.err.startswith(f"nightfold: {merged} (")
        assert "it is in no group; there is nothing to take it out of" in again.err


def test_a_guard_that_stops_a_run_is_let_through_by_its_name(call: Call, folder: Path) -> None:
    (folder / "bad.csv").write_text("id,text\n1,\n2,\n3,kept\n")
    run = ("run", "--direct", "-i", "bad.csv", "--warehouse", "out")
    stopped = call(*run)
    assert stopped.code == 1
    assert "--allow max_reject_share" in stopped.err
    wrong = call(*run, "--allow", "max_rejects")
    assert (wrong.out, wrong.code) == ("", 1)
    assert wrong.err.startswith("nightfold: command line: guard.allow.#1: Input should be 'max_reject_share', ")
    allowed = call(*run, "--allow", "max_reject_share", "--allow", "max_group_chunks")
    assert (allowed.err, allowed.code) == ("", 0)
    recorded = Warehouse("out").runs()[-1].settings["guard"]["allow"]
    assert recorded == ["max_reject_share", "max_group_chunks"]


def test_the_settings_in_force_are_shown(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "nightfold.toml").write_text("[warehouse]\nkeep_runs = 5\n")
    monkeypatch.setenv("NIGHTFOLD_WAREHOUSE__PATH", "elsewhere")
    shown = json.loads(call("settings", "show").out)
    assert (shown["warehouse"]["keep_runs"], shown["warehouse"]["path"]) == (5, "elsewhere")
    (folder / "other.toml").write_text("")
    assert json.loads(call("settings", "show", "--settings", "other.toml").out)["warehouse"]["keep_runs"] == 30


def test_the_example_can_be_saved_and_used_at_once(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NIGHTFOLD_EMBEDDING__ENCODER")
    monkeypatch.delenv("NIGHTFOLD_REPORT__ENABLED")
    (folder / "nightfold.toml").write_text(call("settings", "example").out)
    assert tomllib.loads((folder / "nightfold.toml").read_text())
    assert json.loads(call("settings", "show").out) == Settings().model_dump(mode="json")


def test_a_name_that_the_terminal_cannot_show_does_not_end_a_run(folder: Path) -> None:
    told = _nightfold(
        *("run", "--direct", "-i", "faq.csv", "--warehouse", "größe", *FAQ_COLUMNS),
        folder=folder,
        PYTHONIOENCODING="ascii",
    )
    assert (told.err, told.code) == ("", 0)
    assert "tables   gr\\xf6\\xdfe\n" in told.out
