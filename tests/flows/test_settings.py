"""File, environment and command line over each other, and what each is told when a key or value does not hold."""

import json
import os
import re
import tomllib
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flows.settings import (
    ChunkingSettings,
    InputSettings,
    OneScopeSettings,
    Settings,
    SettingsRefused,
    load_settings,
)
from schemas.rows import SPEC_FIELDS

EXAMPLE = Path(__file__).parents[2] / "flows" / "nightfold.example.toml"
Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, and nothing set."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("NIGHTFOLD_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Write:
    """Writes nightfold.toml."""

    def save(text: str) -> Path:
        (folder / "nightfold.toml").write_text(text, encoding="utf-8")
        return folder / "nightfold.toml"

    return save


def refused(over: dict[str, Any] | None = None, file: Path | None = None) -> str:
    with pytest.raises(SettingsRefused) as error:
        load_settings(file, over=over)
    return str(error.value)


# ---- who stands above whom


def test_without_a_file_the_defaults_hold() -> None:
    assert load_settings() == Settings()


def test_the_environment_stands_above_the_file_and_the_command_line_above_both(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write('[warehouse]\npath = "of-file"\nkeep_runs = 5\nlock_wait_seconds = 1')
    monkeypatch.setenv("NIGHTFOLD_WAREHOUSE__PATH", "of-environment")
    monkeypatch.setenv("NIGHTFOLD_WAREHOUSE__KEEP_RUNS", "6")
    settings = load_settings(over={"warehouse": {"path": "of-command-line"}})
    assert settings.warehouse.path == "of-command-line"
    assert settings.warehouse.keep_runs == 6
    assert settings.warehouse.lock_wait_seconds == 1


def test_inputs_of_the_command_line_replace_those_of_the_file(write: Write) -> None:
    write('[[inputs]]\npath = "a.csv"\n[[inputs]]\npath = "b.csv"')
    settings = load_settings(over={"inputs": [{"path": ["c.csv"]}]})
    assert [given.paths for given in settings.inputs] == [["c.csv"]]


def test_a_named_file_is_read_instead_of_the_one_in_the_folder(write: Write, folder: Path) -> None:
    write("[warehouse]\nkeep_runs = 5")
    (folder / "other.toml").write_text("[warehouse]\nkeep_runs = 7")
    assert load_settings(folder / "other.toml").warehouse.keep_runs == 7


def test_a_variable_for_one_key_stands_above_the_one_for_its_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTFOLD_CHUNKING", '{"tokens": 50, "overlap": 5}')
    monkeypatch.setenv("NIGHTFOLD_CHUNKING__TOKENS", "60")
    assert load_settings().chunking == ChunkingSettings(tokens=60, overlap=5)


def test_lists_inputs_and_scopes_come_from_the_environment_as_json(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("[scopes.boreal]\ndedup = false")
    monkeypatch.setenv("NIGHTFOLD_SCOPE__BY", '["tenant", "owner"]')
    monkeypatch.setenv("NIGHTFOLD_INPUTS", '[{"path": "faq.csv"}]')
    monkeypatch.setenv("NIGHTFOLD_SCOPES", '{"Acme": {"dedup": false}}')
    settings = load_settings()
    assert settings.scope.by == ["tenant", "owner"]
    assert settings.inputs == [InputSettings(path="faq.csv")]
    assert settings.unchecked_scopes == ["Acme", "boreal"]


def test_a_variable_may_be_written_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("nightfold_warehouse__keep_runs", "4")
    assert load_settings().warehouse.keep_runs == 4


def test_a_scope_with_dedup_on_is_checked() -> None:
    assert load_settings(over={"scopes": {"a": {"dedup": True}, "b": {"dedup": False}}}).unchecked_scopes == ["b"]


# ---- files as people write them


def test_a_byte_order_mark_is_no_part_of_the_file(folder: Path) -> None:
    (folder / "nightfold.toml").write_bytes(b"\xef\xbb\xbf[warehouse]\r\nkeep_runs = 5\r\n")
    assert load_settings().warehouse.keep_runs == 5


def test_paths_stay_relative_to_the_folder_one_stands_in(folder: Path) -> None:
    (folder / "conf").mkdir()
    (folder / "conf" / "n.toml").write_text('[warehouse]\npath = "out"\n[[inputs]]\npath = "in/*.csv"')
    settings = load_settings(Path("conf/n.toml"))
    assert (settings.warehouse.path, settings.inputs[0].paths) == ("out", ["in/*.csv"])


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    settings = load_settings(over={"warehouse": {"path": "~/out", "staging": "~/tmp"}})
    assert (settings.warehouse.path, settings.warehouse.staging) == ("/home/ana/out", "/home/ana/tmp")


def test_the_uri_of_an_object_store_stays_as_it_is() -> None:
    assert load_settings(over={"warehouse": {"path": "s3://bucket/wh"}}).warehouse.path == "s3://bucket/wh"


def test_one_path_and_a_list_of_paths_are_both_taken(write: Write) -> None:
    write('[[inputs]]\npath = "a.csv"\n[[inputs]]\npath = ["b.csv", "c.csv"]')
    assert [given.paths for given in load_settings().inputs] == [["a.csv"], ["b.csv", "c.csv"]]


def test_a_file_that_is_not_there_is_named() -> None:
    assert refused(file=Path("nope.toml")).startswith("nope.toml: no such settings file; ")


def test_a_folder_instead_of_a_file_is_named(folder: Path) -> None:
    (folder / "nightfold.toml").mkdir()
    assert refused() == "nightfold.toml: cannot be read: Is a directory"


def test_what_is_not_toml_is_told_with_its_line(write: Write) -> None:
    write("[warehouse]\nkeep_runs 5")
    assert re.fullmatch(r"nightfold\.toml: not a TOML file: .*\(at line 2, column 11\)", refused())


def test_bytes_that_are_not_utf_8_are_not_toml(folder: Path) -> None:
    (folder / "nightfold.toml").write_bytes("path = 'ü'".encode("utf-16"))
    assert refused().startswith("nightfold.toml: not a TOML file: 'utf-8' codec can't decode")


# ---- wrong keys and values, by name and by who set them


def test_an_unknown_key_is_named_with_the_one_that_was_meant(write: Write) -> None:
    write("[warehouse]\nkeep_run = 5")
    assert refused() == "nightfold.toml: warehouse.keep_run: no such setting; did you mean keep_runs? (got 5)"


def test_an_unknown_key_like_none_is_told_which_there_are(write: Write) -> None:
    write("[chunking]\nx = 5")
    assert refused() == "nightfold.toml: chunking.x: no such setting; there are tokens, overlap (got 5)"


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ("bogus = 1", "bogus"),
        ("[bogus]\nx = 1", "bogus"),
        ("[load]\nbogus = 1", "load.bogus"),
        ('[scopes."a b"]\nbogus = 1', "scopes.a b.bogus"),
        ("[scopes.str]\nbogus = 1", "scopes.str.bogus"),
        ('[[inputs]]\npath = "a"\n[[inputs]]\npath = "b"\nbogus = 1', "inputs.#2.bogus"),
        ('[[inputs]]\npath = "a"\nstr = 1', "inputs.#1.str"),
    ],
)
def test_an_unknown_key_is_refused_wherever_it_stands(write: Write, toml: str, key: str) -> None:
    write(toml)
    assert refused().startswith(f"nightfold.toml: {key}: no such setting; ")


NAME = (
    "a name has 1 to 200 characters, not all blank, and no line breaks or control characters, nor \u241f, which joins "
    "the columns of a scope"
)
INPUT = '[[inputs]]\npath = "a"\n'


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("warehouse = 3", "warehouse: is a section with keys of its own (got 3)"),
        ("inputs = 3", "inputs: Input should be a valid list (got 3)"),
        ('[warehouse]\npath = " "', "warehouse.path: names no folder (got ' ')"),
        ('[warehouse]\nstaging = ""', "warehouse.staging: names no folder (got '')"),
        ("[warehouse]\nkeep_runs = 0", "warehouse.keep_runs: Input should be greater than or equal to 1 (got 0)"),
        ("[warehouse]\nkeep_runs = true", "warehouse.keep_runs: a number, not true or false (got True)"),
        (
            "[warehouse]\nlock_wait_seconds = inf",
            "warehouse.lock_wait_seconds: Input should be a finite number (got inf)",
        ),
        ("[scope]\nby = []", "scope.by: List should have at least 1 item after validation, not 0 (got [])"),
        ("[scope]\nby = [3]", "scope.by.#1: Input should be a valid string (got 3)"),
        ('[scope]\ndefault = "a\u241fb"', f"scope.default: {NAME} (got 'a\u241fb')"),
        ('[scope]\ndefault = "a\\nb"', f"scope.default: {NAME} (got 'a\\nb')"),
        ('[load]\non_unreadable = "x"', "load.on_unreadable: Input should be 'fail' or 'skip' (got 'x')"),
        ("[guard]\nmax_reject_share = 2", "guard.max_reject_share: Input should be less than or equal to 1 (got 2)"),
        ("[chunking]\noverlap = 800", "chunking: overlap 800 must be below tokens 800"),
        ('[[inputs]]\nkind = "text"', "inputs.#1.path: must be set"),
        ("[[inputs]]\npath = 3", "inputs.#1.path: Input should be a valid string, or a valid list (got 3)"),
        ('[[inputs]]\npath = ["a", 3]', "inputs.#1.path.#2: Input should be a valid string (got 3)"),
        ('[[inputs]]\npath = ""', "inputs.#1: path: names no file"),
        ("[[inputs]]\npath = []", "inputs.#1: path: names no file"),
        (INPUT + 'name = " "', f"inputs.#1.name: {NAME} (got ' ')"),
        (INPUT + f'scope = "{"x" * 201}"', f"inputs.#1.scope: {NAME} (got '{'x' * 199} ...)"),
        (
            INPUT + 'delimiter = "||"',
            "inputs.#1.delimiter: one character, and neither a quote nor a line break (got '||')",
        ),
        (
            INPUT + "delimiter = '\"'",
            "inputs.#1.delimiter: one character, and neither a quote nor a line break (got '\"')",
        ),
        (
            "[embedding]\nencoder = 'magic'",
            "embedding.encoder: Input should be 'static', 'transformer', 'http' or 'none' (got 'magic')",
        ),
        ("[embedding]\nbatch_size = 101", "embedding.batch_size: Input should be less than or equal to 100 (got 101)"),
        ("[embedding]\ndimensions = 0", "embedding.dimensions: Input should be greater than or equal to 1 (got 0)"),
        ("[embedding]\ntimeout_seconds = 0", "embedding.timeout_seconds: Input should be greater than 0 (got 0)"),
        ("[embedding]\nurl = 'http://h'", 'embedding: url and api_key_variable go with encoder = "http"'),
        ("[embedding]\napi_key_variable = 'K'", 'embedding: url and api_key_variable go with encoder = "http"'),
        (
            "[embedding]\nencoder = 'http'\nurl = 'http://h'",
            'embedding: encoder = "http" needs url and dimensions (the length of the vectors it answers)',
        ),
        (
            "[embedding]\nencoder = 'http'\ndimensions = 3",
            'embedding: encoder = "http" needs url and dimensions (the length of the vectors it answers)',
        ),
        (
            "[embedding]\nencoder = 'http'\ndimensions = 3\nurl = 'h/v1'",
            "embedding: url: begins with http:// or https:// and a host (got 'h/v1')",
        ),
        (
            "[embedding]\nencoder = 'http'\ndimensions = 3\nurl = 'http://me:word@h/v1'",
            "embedding: url: holds a name or password; name the key's variable in api_key_variable instead",
        ),
        ("[llm]\nmodel = 'm'", "llm: model and api_key_variable go with url, the endpoint that is asked"),
        ("[llm]\napi_key_variable = 'K'", "llm: model and api_key_variable go with url, the endpoint that is asked"),
        ("[llm]\nurl = 'http://h/v1'", "llm: url needs model, its name at the endpoint"),
        (
            "[llm]\nmodel = 'm'\nurl = 'h/v1'",
            "llm: url: begins with http:// or https:// and a host (got 'h/v1')",
        ),
        (
            "[llm]\nmodel = 'm'\nurl = 'http://me:word@h/v1'",
            "llm: url: holds a name or password; name the key's variable in api_key_variable instead",
        ),
        (
            "[llm]\nrequests_per_minute = 0",
            "llm.requests_per_minute: Input should be greater than or equal to 1 (got 0)",
        ),
        ("[llm]\nmax_text_chars = 10", "llm.max_text_chars: Input should be greater than or equal to 100 (got 10)"),
        ("[llm]\ncache = ''", "llm.cache: names no folder (got '')"),
        (INPUT + 'scope = "a"\nscope_by = ["b"]', "inputs.#1: give scope or scope_by, not both"),
        (INPUT + 'kind = "file"\nchunk = true', 'inputs.#1: chunk = true goes with kind = "text" or "memory"'),
        (INPUT + 'spec_columns = {value = "v"}', 'inputs.#1: spec_columns goes with kind = "spec_row"'),
        (
            INPUT + 'kind = "spec_row"\nspec_columns = {colour = "c"}',
            f"inputs.#1: spec_columns: unknown field 'colour'; the five are {', '.join(SPEC_FIELDS)}",
        ),
        (
            INPUT + 'kind = "spec_row"\nspec_columns = {value = 3}',
            "inputs.#1.spec_columns.value: Input should be a valid string, or a valid list (got 3)",
        ),
    ],
)
def test_a_wrong_value_is_told_in_one_line(write: Write, toml: str, told: str) -> None:
    write(toml)
    assert refused() == f"nightfold.toml: {told}"


def test_every_fault_has_its_line(write: Write) -> None:
    write("[warehouse]\nkeep_runs = 0\n[load]\nbatch_rows = 0")
    assert [line.split(": ")[1] for line in refused().splitlines()] == ["warehouse.keep_runs", "load.batch_rows"]


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("NIGHTFOLD_WAREHOUSE__KEEP_RUNS", "few", "warehouse.keep_runs: Input should be a valid integer"),
        ("NIGHTFOLD_WAREHOUSE__BOGUS", "1", "warehouse.bogus: no such setting; there are path, "),
        ("NIGHTFOLD_WAREHOUSE__PATH", "", "warehouse.path: names no folder (got '')"),
        ("NIGHTFOLD_CHUNKING__TOKENS", "50", "chunking: overlap 100 must be below tokens 50"),
        ("NIGHTFOLD_CHUNKING", '{"tokens": 0}', "chunking.tokens: Input should be greater than or equal to 1 (got 0)"),
        ("NIGHTFOLD_INPUTS", '[{"path": "{}", "kind": "{}"}]', "inputs.#1.kind: Input should be 'text', 'file',"),
        (
            "NIGHTFOLD_BOGUS",
            "1",
            (
                "no such setting; sections are "
                "BACKFILL, CHUNKING, CORPORA, EMBEDDING, GUARD, INPUTS, JUDGE, LLM, LOAD, LOG, METRICS, NEIGHBOURS, "
                "REPORT, REVIEW, SCOPE, SCOPES, WAREHOUSE"
            ),
        ),
        ("NIGHTFOLD_", "1", "no such setting; sections are"),
        ("NIGHTFOLD_SCOPE__BY", "tenant", "lists and whole sections are written as JSON, as in NIGHTFOLD_SCOPE__BY='["),
        ("NIGHTFOLD_LOAD", "skip", "lists and whole sections are written as JSON"),
        ("NIGHTFOLD_SCOPES__ACME__DEDUP", "false", "inputs and scopes are set as a whole, as in NIGHTFOLD_SCOPES='{"),
        ("NIGHTFOLD_INPUTS__0__PATH", "a.csv", "inputs and scopes are set as a whole"),
    ],
)
def test_a_wrong_variable_is_named(
    write: Write, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    write("[warehouse]\nkeep_runs = 3\n[chunking]\noverlap = 100")
    monkeypatch.setenv(variable, value)
    assert refused().startswith(f"environment variable {variable}: {told}")
    assert "\n" not in refused()


def test_a_wrong_value_of_the_command_line_is_told_to_be_of_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("[load]\non_unreadable = 'fail'")
    monkeypatch.setenv("NIGHTFOLD_LOAD__ON_UNREADABLE", "fail")
    assert refused({"load": {"on_unreadable": "x"}}).startswith("command line: load.on_unreadable: ")
    assert refused({"inputs": [{"path": "a", "kind": "x"}]}).startswith("command line: inputs.#1.kind: ")
    assert refused({"chunking": {"tokens": 9}}).startswith("command line: chunking: overlap 100 must be below")


def test_the_last_who_set_a_wrong_value_is_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("[warehouse]\nkeep_runs = 0\nlock_wait_seconds = -1")
    monkeypatch.setenv("NIGHTFOLD_WAREHOUSE__KEEP_RUNS", "0")
    assert [line.split(":")[0] for line in refused().splitlines()] == [
        "environment variable NIGHTFOLD_WAREHOUSE__KEEP_RUNS",
        "nightfold.toml",
    ]


def test_a_long_value_is_cut_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTFOLD_SCOPE__BY", "x" * 5000)
    assert len(refused()) < 400


# ---- the example


def uncommented() -> dict[str, Any]:
    """The example with every key that it names set."""
    return tomllib.loads(re.sub(r"^# (?=\[|[a-z_]+ = )", "", EXAMPLE.read_text(), flags=re.MULTILINE))


def comments() -> dict[str, str]:
    """What the example says of each key of an input."""
    of_inputs = EXAMPLE.read_text().partition("# [[inputs]]\n")[2]
    return dict(re.findall(r"^# ([a-z_]+) = .*?  *# (.*)$", of_inputs, flags=re.MULTILINE))


def sections(model: type[BaseModel], given: dict[str, Any], at: str = "") -> Iterator[tuple[str, type[BaseModel], Any]]:
    """Every settings class below the model with what the example has of it: in lists the first, in dicts the only."""
    yield at, model, given
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                inner = given[name]
                if typing.get_origin(field.annotation) is list:
                    inner = inner[0]
                elif typing.get_origin(field.annotation) is dict:
                    inner = next(iter(inner.values()))
                yield from sections(kind, inner, f"{at}{name}.")


def test_the_example_as_it_is_printed_changes_nothing(write: Write) -> None:
    write(EXAMPLE.read_text())
    assert load_settings() == Settings()


def test_the_example_names_every_key_and_no_other() -> None:
    walked = list(sections(Settings, uncommented()))
    assert {model for _, model, _ in walked} >= {InputSettings, OneScopeSettings, ChunkingSettings}
    for at, model, given in walked:
        assert (at, set(given)) == (at, set(model.model_fields))
    assert set(uncommented()["inputs"][0]["spec_columns"]) == set(SPEC_FIELDS)


def test_the_example_shows_the_true_default_or_says_what_holds_where_there_is_none() -> None:
    text = EXAMPLE.read_text()
    for at, model, given in sections(Settings, uncommented()):
        for name, field in model.model_fields.items():
            default = field.get_default(call_default_factory=True)
            if default is None:
                of_section = text.partition(f"[{at.strip('.')}]")[2]
                line = next(line for line in of_section.splitlines() if line.startswith(f"# {name} = "))
                assert "unset: " in line, f"{at}{name}"
            elif not (field.is_required() or isinstance(default, BaseModel) or default in ([], {})):
                assert given[name] == default, f"{at}{name}"


def test_the_example_names_every_word_that_a_key_of_an_input_takes() -> None:
    for name, field in InputSettings.model_fields.items():
        if typing.get_origin(field.annotation) is typing.Literal:
            words = set(re.findall(r"[\w-]+", comments()[name]))
            assert set(typing.get_args(field.annotation)) <= words, name


def test_every_key_of_an_input_in_the_example_can_be_taken_as_it_stands() -> None:
    given = uncommented()["inputs"][0]
    for key, value in given.items():
        kind = {"kind": "spec_row"} if key == "spec_columns" else {}
        assert InputSettings(**{"path": "a", **kind, key: value})


# ---- what settings become


def test_columns_are_mapped_as_the_input_names_them() -> None:
    given = InputSettings(
        path="a",
        kind="spec_row",
        id_column="id",
        scope_by=["tenant"],
        spec_columns={"value": "v", "additional": ["unit", "note"]},
        metadata_columns=["rfc"],
    )
    mapping = given.column_map(source="specs", scope_by=["workspace_id"])
    assert (mapping.kind, mapping.source, mapping.row_id) == ("spec_row", "specs", "id")
    assert (mapping.scope_by, mapping.metadata) == (("tenant",), ("rfc",))
    assert mapping.spec == {"value": ("v",), "additional": ("unit", "note")}


def test_an_input_without_scope_columns_takes_the_usual_ones() -> None:
    mapping = InputSettings(path="a").column_map(source="a", scope_by=["workspace_id"])
    assert (mapping.scope_by, mapping.metadata) == (("workspace_id",), None)


def test_an_endpoint_is_set_with_its_address_and_the_length_of_its_vectors() -> None:
    given = {"encoder": "http", "url": "https://h:1/v1", "dimensions": 3, "api_key_variable": "K"}
    settings = load_settings(over={"embedding": given})
    assert settings.embedding.model_dump(include=set(given)) == given
    assert Settings(**json.loads(settings.model_dump_json())) == settings


def test_an_llm_is_set_with_its_address_and_model() -> None:
    given = {"url": "https://h:1/v1", "model": "m", "api_key_variable": "K", "max_text_chars": 500}
    settings = load_settings(over={"llm": given})
    assert settings.llm.model_dump(include=set(given)) == given
    assert Settings(**json.loads(settings.model_dump_json())) == settings
    assert load_settings().llm.url is None


def test_settings_come_back_from_their_json() -> None:
    settings = load_settings(over={"inputs": [{"path": ["a", "b"]}], "scopes": {"x": {"dedup": False}}})
    assert Settings(**json.loads(settings.model_dump_json())) == settings
