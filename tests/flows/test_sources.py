"""From paths, globs and folders to files: each one once, under a name that no other file can change."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.errors import NightfoldError, UnreadableSource
from flows.settings import load_settings
from flows.sources import BYTES, Source, find_sources, shown

Lay = Callable[..., None]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to the folder of the test, whose name does not hang on the test."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def lay() -> Lay:
    """Lays down files with something in them, and the folders that they are in."""

    def write(*names: str) -> None:
        for name in names:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text("something")

    return write


def sources_of(*inputs: dict[str, Any], **sections: Any) -> list[Source]:
    return find_sources(load_settings(Path("/dev/null"), over={"inputs": list(inputs), **sections}))


def source_of(path: str | list[str], **said: Any) -> Source:
    (source,) = sources_of({"path": path, **said})
    return source


def names_in(path: str | list[str], **said: Any) -> list[str]:
    return [file.name for file in source_of(path, **said).files]


def why_not(path: str | list[str], **said: Any) -> str:
    with pytest.raises(UnreadableSource) as refused:
        source_of(path, **said)
    assert "\n" not in str(refused.value)
    return str(refused.value)


# --- files, globs, folders --------------------------------------------------------------------------------------------


def test_a_file_goes_by_its_name(lay: Lay) -> None:
    lay("corpus/faq.csv")
    source = source_of("corpus/faq.csv")
    assert (source.name, [file.name for file in source.files]) == ("faq.csv", ["faq.csv"])
    assert source.files[0].path == Path("corpus/faq.csv")


def test_only_a_file_that_is_named_outright_is_one_file(lay: Lay) -> None:
    lay("corpus/a.csv")
    assert source_of("corpus/a.csv").is_one_file
    assert source_of(["corpus/a.csv"]).is_one_file
    for path in ("corpus", "corpus/*.csv", ["corpus/a.csv", "corpus"]):
        assert not source_of(path).is_one_file


def test_a_glob_and_a_folder_go_by_their_folder_and_come_in_order(lay: Lay) -> None:
    lay("corpus/b.csv", "corpus/a.csv", "corpus/more/c.csv")
    assert source_of("corpus/*.csv").name == source_of("corpus").name == "corpus"
    assert names_in("corpus/*.csv") == ["a.csv", "b.csv"]
    assert names_in("corpus") == names_in("corpus/**/*.csv") == ["a.csv", "b.csv", "more/c.csv"]


def test_a_name_that_is_given_stands(lay: Lay) -> None:
    lay("a.csv")
    assert source_of("a.csv", name="faq").name == "faq"


def test_an_input_at_the_root_of_the_disk_still_has_a_name(lay: Lay) -> None:
    lay("a.csv")
    assert source_of([str(Path("a.csv").resolve()), "/proc/version"], format="csv").name == "input"


def test_a_name_made_of_a_file_name_has_no_control_characters_and_an_end(lay: Lay) -> None:
    lay("a\nb\x1f.csv", "x" * 230 + ".csv")
    assert source_of("a\nb\x1f.csv").name == "a_b_.csv"
    assert source_of("x" * 230 + ".csv").name == "x" * 200


def test_names_hang_on_the_pattern_and_not_on_what_else_lies_there(lay: Lay) -> None:
    lay("corpus/en/a.csv")
    before = names_in("corpus/*/*.csv")
    lay("corpus/pt/b.csv")
    assert before == ["en/a.csv"]
    assert names_in("corpus/*/*.csv") == ["en/a.csv", "pt/b.csv"]


def test_names_of_several_paths_are_relative_to_what_they_share(lay: Lay) -> None:
    lay("corpus/en/a.csv", "corpus/pt/a.csv", "corpus/pt/b.csv")
    assert names_in(["corpus/en/a.csv", "corpus/pt/*.csv"]) == ["en/a.csv", "pt/a.csv", "pt/b.csv"]


def test_a_glob_that_climbs_out_of_its_folder_still_names_its_files(lay: Lay) -> None:
    lay("corpus/en/a.csv", "b.csv")
    assert names_in("corpus/e*/../../b.csv") == ["../b.csv"]


def test_the_folder_of_a_file_is_the_first_of_its_name(lay: Lay) -> None:
    lay("corpus/en/deep/a.md", "corpus/b.md")
    assert [(file.name, file.folder) for file in source_of("corpus").files] == [("b.md", ""), ("en/deep/a.md", "en")]


def test_hidden_files_and_folders_are_not_input(lay: Lay) -> None:
    lay("corpus/a.csv", "corpus/.a.csv", "corpus/.git/b.csv")
    assert names_in("corpus") == names_in("corpus/*") == names_in("corpus/**/*.csv") == ["a.csv"]
    assert names_in("corpus", kind="file") == ["a.csv"]


def test_a_hidden_folder_that_is_named_is_input(lay: Lay) -> None:
    lay(".corpus/a.csv")
    assert names_in(".corpus") == names_in(".corpus/*.csv") == names_in(".corpus/**") == ["a.csv"]


def test_a_name_with_the_signs_of_a_glob_is_a_name_if_there_is_such_a_file(lay: Lay) -> None:
    lay("a[1].csv", "a1.csv", "b[2]/c.csv", "b[2]/d/e.csv")
    assert names_in("a[1].csv") == ["a[1].csv"]
    assert names_in("b[2]") == ["c.csv", "d/e.csv"]
    assert names_in("*/**/*.csv") == ["b[2]/c.csv", "b[2]/d/e.csv"]


def test_a_home_is_expanded_and_the_home_of_nobody_is_not(lay: Lay, monkeypatch: pytest.MonkeyPatch) -> None:
    lay("a.csv")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert names_in("~/a.csv") == names_in("~/*.csv") == ["a.csv"]
    assert why_not("~nobody-of-this-name/a.csv") == (
        "~nobody-of-this-name/a.csv: no such file, folder or glob with a match"
    )


# --- the same file in several ways ------------------------------------------------------------------------------------


def test_a_file_that_is_named_twice_is_read_once(lay: Lay) -> None:
    lay("corpus/a.csv", "corpus/b.csv")
    ways = ["corpus/a.csv", "./corpus/../corpus/a.csv", str(Path("corpus/a.csv").resolve()), "corpus/*.csv", "corpus"]
    assert names_in(ways) == ["a.csv", "b.csv"]


def test_a_link_beside_its_file_is_a_file_of_its_own_as_a_copy_would_be(lay: Lay) -> None:
    lay("corpus/z.csv", "corpus/zz/y.csv")
    Path("corpus/a.csv").symlink_to("z.csv")
    Path("corpus/b").symlink_to("zz")
    assert names_in("corpus") == names_in("corpus/**/*.csv") == ["a.csv", "b/y.csv", "z.csv", "zz/y.csv"]


def test_a_document_linked_into_the_folder_of_another_scope_is_in_both(lay: Lay) -> None:
    lay("docs/acme/h.txt")
    Path("docs/boreal").mkdir()
    Path("docs/boreal/h.txt").symlink_to("../acme/h.txt")
    files = source_of("docs", scope_by=["folder"]).files
    assert [(file.name, file.folder) for file in files] == [("acme/h.txt", "acme"), ("boreal/h.txt", "boreal")]


def test_a_link_to_a_file_elsewhere_goes_by_its_own_name(lay: Lay) -> None:
    lay("elsewhere/x.csv", "elsewhere/more/y.csv", "corpus/a.csv")
    Path("corpus/b.csv").symlink_to("../elsewhere/x.csv")
    Path("corpus/c").symlink_to("../elsewhere/more")
    assert names_in("corpus") == names_in("corpus/**") == ["a.csv", "b.csv", "c/y.csv"]


def test_a_hard_link_is_a_file_of_its_own(lay: Lay) -> None:
    lay("monday/a.csv")
    Path("tuesday").mkdir()
    Path("tuesday/a.csv").hardlink_to("monday/a.csv")
    assert names_in(["monday", "tuesday"]) == ["monday/a.csv", "tuesday/a.csv"]


def test_loops_of_links_end_and_no_folder_is_entered_from_inside_itself(lay: Lay) -> None:
    lay("corpus/a/x.csv", "corpus/b/y.csv")
    for link, target in {"a/self": ".", "a/up": "../..", "a/over": "../b", "b/over": "../a", "me": "."}.items():
        Path(f"corpus/{link}").symlink_to(target)
    names = ["a/over/y.csv", "a/x.csv", "b/over/x.csv", "b/y.csv"]
    assert names_in("corpus") == names_in("corpus/**/*.csv") == names_in("corpus/**") == names


@pytest.mark.parametrize("path", ["corpus", "corpus/*.csv", "corpus/b.csv"])
@pytest.mark.parametrize("target", ["nowhere.csv", "b.csv"], ids=["to nothing", "to itself"])
def test_a_link_that_leads_nowhere_is_refused(lay: Lay, path: str, target: str) -> None:
    lay("corpus/a.csv")
    Path("corpus/b.csv").symlink_to(target)
    assert why_not(path) == "corpus/b.csv: a link that leads to no file; mend it, or remove it"


def test_a_link_that_leads_nowhere_and_would_not_be_read_is_none_of_our_business(lay: Lay) -> None:
    lay("corpus/a.csv")
    Path("corpus/lock").symlink_to("nowhere")
    assert names_in("corpus") == names_in("corpus", format="csv") == ["a.csv"]


# --- where a run writes -----------------------------------------------------------------------------------------------


def found_beside(given: str, /, **warehouse: str) -> list[str]:
    """The names of a source that is read into this warehouse, which leaves nothing out."""
    (source,) = sources_of({"path": given, "kind": "file"}, warehouse=warehouse)
    assert source.left_out == ()
    return [file.name for file in source.files]


@pytest.mark.parametrize("path", [".", "**", "**/*", "*/*", "./*/*"])
def test_the_warehouse_and_the_staging_in_a_folder_are_not_input(lay: Lay, path: str) -> None:
    lay("in/a.csv", "out/mart.duckdb", "out/staging/x/rows.parquet", "out/chunks.lance/data.lance", "tmp/s/b.parquet")
    assert found_beside(path, path="out", staging="tmp") == ["in/a.csv"]
    assert found_beside(path, path=str(Path("out").resolve()), staging="./in/../tmp") == ["in/a.csv"]


def test_a_link_into_the_warehouse_is_not_input_either(lay: Lay) -> None:
    lay("in/a.csv", "out/mart.duckdb")
    Path("in/latest").symlink_to("../out")
    assert found_beside("in", path="out") == found_beside("in/**", path="out") == ["a.csv"]


def test_what_is_named_inside_the_warehouse_is_input(lay: Lay) -> None:
    lay("out/mart.duckdb", "out/in/a.csv", "out/staging/x/rows.parquet")
    assert found_beside("out/mart.duckdb", path="out") == ["mart.duckdb"]
    assert found_beside("out/in", path="out") == found_beside("out/in/*", path="out") == ["a.csv"]
    assert found_beside("out/*.duckdb", path="out") == ["mart.duckdb"]


@pytest.mark.parametrize("path", ["out", "./in/../out", "link"])
def test_the_warehouse_itself_is_refused_as_input(lay: Lay, path: str) -> None:
    lay("out/a.csv", "in/b.csv")
    Path("link").symlink_to("out")
    with pytest.raises(UnreadableSource) as refused:
        found_beside(path, path="out")
    assert str(refused.value) == f"{path}: is where the tables are written; keep the input in a folder of its own"


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "file_format"),
    [
        ("a.parquet", "parquet"),
        ("a.pq", "parquet"),
        ("A.CSV", "csv"),
        ("a.tsv", "csv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.arrow", "arrow"),
        ("a.ipc", "arrow"),
        ("a.feather", "arrow"),
        ("a.duckdb", "duckdb"),
        ("a.md", "documents"),
        ("a.PDF", "documents"),
    ],
)
def test_a_suffix_names_the_format(lay: Lay, name: str, file_format: str) -> None:
    lay(name)
    assert source_of(name).files[0].format == file_format


def test_a_format_that_is_set_stands_above_the_suffix(lay: Lay) -> None:
    lay("export.dat", "export.csv")
    assert source_of("export.dat", format="csv").files[0].format == "csv"
    assert source_of("export.csv", format="jsonl").files[0].format == "jsonl"


def test_an_unknown_suffix_is_refused_with_what_can_be_done(lay: Lay) -> None:
    lay("book.xlsx", "README")
    assert why_not("book.xlsx") == (
        "book.xlsx: unknown kind of file '.xlsx'; set format = arrow, csv, documents, duckdb, jsonl, parquet, "
        'or kind = "file" to take its raw bytes'
    )
    assert why_not("READ*").startswith("README: unknown kind of file ''")


def test_a_folder_gives_what_can_be_read_and_tells_what_it_left_out(lay: Lay) -> None:
    lay("corpus/a.csv", "corpus/b.md", "corpus/c.xlsx", "corpus/d.csv.GZ", "corpus/LICENSE")
    source = source_of("corpus")
    assert [file.name for file in source.files] == ["a.csv", "b.md"]
    assert source.left_out == ("corpus: 3 files of no known kind (.gz, .xlsx, no suffix)",)


def test_a_folder_with_a_format_gives_that_format_and_leaves_out_what_was_not_asked_for(lay: Lay) -> None:
    lay("corpus/a.csv", "corpus/b.md", "corpus/c.xlsx")
    source = source_of("corpus", format="csv")
    assert ([file.name for file in source.files], source.left_out) == (["a.csv"], ())


def test_of_a_folder_every_file_has_bytes_unless_a_format_is_asked_for(lay: Lay) -> None:
    lay("corpus/a.csv", "corpus/b.parquet", "corpus/c.xlsx", "corpus/d.md")
    whole = source_of("corpus", kind="file")
    assert [file.name for file in whole.files] == ["a.csv", "b.parquet", "c.xlsx", "d.md"]
    assert {file.format for file in whole.files} == {BYTES}
    tables = source_of("corpus", kind="file", format="parquet")
    assert [(file.name, file.format) for file in tables.files] == [("b.parquet", "parquet")]
    documents = source_of("corpus", kind="file", format="documents")
    assert [(file.name, file.format) for file in documents.files] == [("d.md", BYTES)]


# --- refused ----------------------------------------------------------------------------------------------------------


def test_no_input_at_all_is_refused() -> None:
    with pytest.raises(
        NightfoldError, match=r"^no input: name files with --input FILE_OR_GLOB, or write \[\[inputs\]\]"
    ):
        sources_of()


@pytest.mark.parametrize("path", ["missing.csv", "missing/*.csv", "**/missing.csv", "missing/**", "a\0b.csv", "file/x"])
def test_what_matches_nothing_is_refused(lay: Lay, path: str) -> None:
    lay("file")
    assert why_not(path) == f"{path}: no such file, folder or glob with a match"


def test_one_path_of_several_that_matches_nothing_is_refused(lay: Lay) -> None:
    lay("a.csv")
    Path("empty").mkdir()
    assert why_not(["a.csv", "b.csv"]) == "b.csv: no such file, folder or glob with a match"
    assert why_not(["a.csv", "empty"]) == "empty: no file in it can be read as text; it has nothing of it"


def test_a_folder_with_nothing_to_read_is_refused_with_what_it_has(lay: Lay) -> None:
    lay("corpus/a.xlsx", "corpus/b.gz")
    assert why_not("corpus") == (
        "corpus: no file in it can be read as text; it has 2 files of no known kind (.gz, .xlsx)"
    )


def test_a_path_that_is_too_long_is_refused() -> None:
    assert why_not("x" * 300) == f"{'x' * 300}: cannot be looked at (File name too long); check its name and rights"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_listed_is_refused(lay: Lay) -> None:
    lay("corpus/a.csv", "corpus/secret/b.csv")
    Path("corpus/secret").chmod(0)
    try:
        line = "corpus/secret: cannot be looked at (Permission denied); check its name and rights"
        assert why_not("corpus") == why_not("corpus/**/*.csv") == line
    finally:
        Path("corpus/secret").chmod(0o755)


def test_two_inputs_of_one_name_are_refused(lay: Lay) -> None:
    lay("en/faq.csv", "pt/faq.csv")
    with pytest.raises(NightfoldError) as refused:
        sources_of({"path": "en/faq.csv"}, {"path": "pt/faq.csv"})
    assert str(refused.value) == (
        "inputs: 2 inputs are called 'faq.csv'; give each a name of its own (name = ... or --source), "
        "or list their paths under one input"
    )
    sources = sources_of({"path": "en/faq.csv", "name": "en"}, {"path": "pt/faq.csv", "name": "pt"})
    assert [source.name for source in sources] == ["en", "pt"]


def test_a_file_name_of_other_bytes_can_be_shown(lay: Lay) -> None:
    assert shown(Path(os.fsdecode(b"caf\xe9"))) == "caf\\xe9"
    lay("corpus/" + os.fsdecode(b"caf\xe9.csv"))
    assert names_in("corpus") == ["caf\\xe9.csv"]
