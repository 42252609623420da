"""Decisions as a file and by hand: what goes out can be filled in anywhere, what comes in is checked line by line."""

import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from flows import cli
from flows.errors import NightfoldError
from flows.review_files import BadLines, Taken, export_questions, guarded, import_decisions, unguarded
from flows.reviews import BadChoice, Choice, Filters, Reviews
from flows.settings import Settings
from flows.warehouse import Warehouse
from tests.flows.review_warehouse import make_queue
from tests.nights import published, settings_of

TABLES = ("chunks", "canonicals", "variants", "pairs", "links", "separations", "contradictions", "pending_reviews")
OF_THE_RUN = ("run_id", "decided_at", "reviewed_at", "deleted_at", "forwarded_at")


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of a thousand open questions."""
    folder = tmp_path_factory.mktemp("thousand")
    make_queue(folder / "w", questions=1_000)
    return folder


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    make_queue(folder / "w", questions=6)
    return folder


def copy_of(folder: Path, to: Path) -> Settings:
    shutil.copytree(folder / "w", to)
    return settings_of(to)


def answered(
    path: Path, out: Path, *answers: dict[str, str], every: Callable[[int], dict[str, str]] = lambda _: {}
) -> Path:
    """The file with answers filled in, line by line."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    rows = [{**row, **(answers[n] if n < len(answers) else every(n))} for n, row in enumerate(rows)]
    with out.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return out


KINDS = ("merge", "keep_separate", "link", "flag_contradiction", "delete")


def state(folder: Path) -> dict[str, pl.DataFrame]:
    return {name: published(folder, name).drop(OF_THE_RUN, strict=False).sort(pl.first()) for name in TABLES}


def test_a_thousand_decisions_of_a_file_are_those_decisions_of_the_page(thousand: Path, tmp_path: Path) -> None:
    by_file, by_page = copy_of(thousand, tmp_path / "file"), copy_of(thousand, tmp_path / "page")
    reviews = Reviews(by_file)
    out = tmp_path / "answers.csv"
    assert export_questions(reviews, out, Filters()) == 1_000
    filled = answered(out, tmp_path / "filled.csv", every=lambda n: {"decision": KINDS[n % 5], "notes": f"n{n}"})
    taken = import_decisions(reviews, filled, by="ana", partial=False)
    assert (len(taken.decisions), taken.blank, taken.refused) == (1_000, 0, [])
    assert reviews.apply_outstanding() == 1_000
    page = Reviews(by_page)
    items = page.every(Filters(), scopes=None)
    for start in range(0, 1_000, 250):
        choices = [
            Choice(
                item.review_id,
                KINDS[(start + n) % 5],
                item.best_canonical_id if KINDS[(start + n) % 5] not in ("keep_separate", "delete") else None,
                f"n{start + n}",
            )
            for n, item in enumerate(items[start : start + 250])
        ]
        page.decide(choices, by="ana", scopes=None)
    page.apply_outstanding()
    wanted, got = state(tmp_path / "page"), state(tmp_path / "file")
    for name, rows in wanted.items():
        assert_frame_equal(got[name], rows)
    # The same file again: all of it stands already.
    again = import_decisions(reviews, filled, by="ana", partial=False)
    assert (len(again.decisions), again.repeated) == (0, 1_000)
    run = Warehouse(str(tmp_path / "file")).published()
    assert run is not None
    assert run.note == "1,000 decisions by ana"


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_other_formats_go_the_same_way(few: Path, tmp_path: Path, suffix: str) -> None:
    reviews = Reviews(copy_of(few, tmp_path / "w"))
    path = tmp_path / f"answers{suffix}"
    export_questions(reviews, path, Filters())
    frame = pl.read_parquet(path) if suffix == ".parquet" else pl.read_ndjson(path)
    frame = frame.with_columns(decision=pl.lit("Keep separate"))
    if suffix == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_ndjson(path)
    assert len(import_decisions(reviews, path, by="ana", partial=False).decisions) == 6


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_what_was_written_can_be_read_whatever_the_texts_hold(tmp_path: Path, suffix: str) -> None:
    make_queue(tmp_path / "w", questions=1, text="One\u2028two\x85three\x1c\x0bfour " + "long " * 40_000)
    reviews = Reviews(settings_of(tmp_path / "w"))
    path = tmp_path / f"answers{suffix}"
    export_questions(reviews, path, Filters())
    assert import_decisions(reviews, path, by="ana", partial=False) == Taken([], 1, 0, [])


def test_bad_lines_are_refused_by_number_and_reason_and_the_rest_goes_through_only_with_partial(
    few: Path, tmp_path: Path
) -> None:
    reviews = Reviews(copy_of(few, tmp_path / "w"))
    out = tmp_path / "answers.csv"
    export_questions(reviews, out, Filters())
    filled = answered(
        out,
        tmp_path / "filled.csv",
        {"decision": "merge"},
        {"decision": "perhaps"},
        {"decision": "merge", "target_canonical_id": "0" * 32},
        {"decision": "link", "review_id": ""},
        {"decision": "delete", "review_id": "1" * 32},
        {},
    )
    with pytest.raises(BadLines) as told:
        import_decisions(reviews, filled, by="ana", partial=False)
    lines = str(told.value).splitlines()
    assert lines[0].startswith("4 of 5 answers were refused, and none was taken")
    assert lines[1].startswith(f"{filled}:3: 'perhaps' is no decision; there are merge, keep_separate")
    assert f"{filled}:4: " in lines[2]
    assert "there is no group" in lines[2]
    assert lines[3] == f"{filled}:5: has a decision and no review_id"
    assert "no such question" in lines[4]
    assert reviews.history(scopes=None) == []
    taken = import_decisions(reviews, filled, by="ana", partial=True)
    assert (len(taken.decisions), len(taken.refused), taken.blank) == (1, 4, 1)
    # Another's answer stands: the file is told so.
    with pytest.raises(BadLines, match="ana answered merge"):
        import_decisions(reviews, answered(out, tmp_path / "ben.csv", {"decision": "delete"}), by="ben", partial=False)


def test_a_file_with_semicolons_and_texts_over_several_lines_is_read_as_it_was_meant(few: Path, tmp_path: Path) -> None:
    reviews = Reviews(copy_of(few, tmp_path / "w"))
    first, second = (item.review_id for item in reviews.page(Filters(), scopes=None, limit=2).items)
    path = tmp_path / "a.csv"
    path.write_text(
        f'review_id;decision;notes\r\n{first};keep_separate;"two\r\nlines"\r\n\r\n{second};nonsense;\r\n', newline=""
    )
    with pytest.raises(BadLines, match=r"a\.csv:5: 'nonsense'"):
        import_decisions(reviews, path, by="ana", partial=False)
    (done,) = import_decisions(reviews, path, by="ana", partial=True).decisions
    assert done.notes == "two\r\nlines"


def test_a_file_that_is_none_is_refused_in_a_line(few: Path, tmp_path: Path) -> None:
    reviews = Reviews(copy_of(few, tmp_path / "w"))
    for name, content, why in (
        ("a.txt", b"", "name a file that ends in"),
        ("a.csv", b"text\nx\n", "has no column review_id nor decision"),
        ("b.csv", b"review_id,decision\n\xff\xfe,x\n", "save it as UTF-8"),
        ("a.jsonl", b"[1]\n", r"a\.jsonl:1: is no JSON object"),
        ("c.jsonl", b"{\n", r"c\.jsonl:1: is no JSON object"),
        ("a.parquet", b"none", "cannot be read"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises((NightfoldError, BadChoice), match=why):
            import_decisions(reviews, tmp_path / name, by="ana", partial=False)
    with pytest.raises(NightfoldError, match="name a file that ends in"):
        export_questions(reviews, tmp_path / "out.xlsx", Filters())


# ---- spreadsheets


@hypothesis_given(st.text())
def test_no_cell_is_a_formula_and_every_text_comes_back_as_it_was(text: str) -> None:
    cell = guarded(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert unguarded(cell) == text


def test_what_is_no_text_is_left_alone() -> None:
    assert [guarded(value) for value in (None, -1.5, 3)] == [None, -1.5, 3]


# ---- the commands


Call = Callable[..., tuple[str, str, int]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[str, str, int]:
        monkeypatch.setattr(sys, "argv", ["nightfold", "review", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return printed.out, printed.err, int(ended.value.code or 0)

    return run


def test_a_reviewer_without_a_browser_lists_shows_decides_and_undoes(few: Path, tmp_path: Path, call: Call) -> None:
    copy_of(few, tmp_path / "w")
    there = ("--warehouse", "w")
    out, _, code = call("list", *there, "--limit", "2")
    lines = out.splitlines()
    assert (code, len(lines), lines[-1]) == (0, 4, "2 of 6 open (6 unknown)")
    review = lines[1].split()[0]
    shown = call("show", review, *there)[0]
    assert f"question {review}" in shown
    assert "1. " in shown
    assert "group " in shown
    out, err, code = call("decide", review, "merge", "--notes", "the same", "--by", "ana", *there)
    assert (err, code) == ("", 0)
    assert out.startswith("merge into ")
    assert out.endswith("; the mart shows it\n")
    assert "answered merge by ana" in call("show", review, *there)[0]
    err = call("decide", review, "delete", "--by", "ben", *there)[1]
    assert "ana answered merge" in err
    log = call("log", *there)[0].splitlines()
    assert log[1].split()[3:5] == ["ana", "merge"]
    done = log[1].split()[0]
    assert call("undo", done, "--by", "ana", *there)[0].endswith("taken back; the mart shows it\n")
    told = call("log", "--by", "ana", *there)[0]
    assert f"undo of {done}" in told
    assert "undone" in told
    assert "6 open" in call("list", *there)[0]
    assert call("list", "--text", "nowhere", *there)[0] == "nothing is open\n"
    assert call("log", "--by", "nobody", *there)[0] == "nothing was decided yet\n"


def test_a_file_goes_out_and_comes_back_by_command_and_is_taken_back_as_one(
    few: Path, tmp_path: Path, call: Call
) -> None:
    copy_of(few, tmp_path / "w")
    there = ("--warehouse", "w")
    out = call("export", "answers.csv", *there)[0]
    assert out == "6 open questions in answers.csv; fill in decision, then: nightfold review import answers.csv\n"
    answered(Path("answers.csv"), Path("filled.csv"), {"decision": "link"}, {"decision": "x"}, {"decision": "delete"})
    _, err, code = call("import", "filled.csv", "--by", "ana", *there)
    assert code == 1
    assert err.startswith("nightfold: 1 of 3 answers were refused")
    out, err, code = call("import", "filled.csv", "--by", "ana", "--partial", *there)
    assert (err.startswith("refused  filled.csv:3: 'x'"), code) == (True, 1)
    assert out.startswith("2 decisions taken, 3 lines without one; the mart shows it\n")
    assert "4 open" in call("list", *there)[0]
    batch = out.split()[-1]
    assert call("undo", batch[:14], *there)[0] == "2 decisions taken back; the mart shows it\n"
    assert "6 open" in call("list", *there)[0]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("show", "0" * 32), "no such question"),
        (("show", "x'); drop"), "no such question"),
        (("show", ""), "no such question"),
        (("undo", "abc"), "no such decision"),
        (("decide", "0" * 32, "delete"), "no such question"),
    ],
)
def test_what_is_not_there_is_said_in_a_line(
    few: Path, tmp_path: Path, call: Call, arguments: tuple[str, ...], why: str
) -> None:
    copy_of(few, tmp_path / "w")
    _, err, code = call(*arguments, "--warehouse", "w")
    assert (code, why in err, err.count("\n")) == (1, True, 1)


def test_a_beginning_that_fits_several_asks_for_more_and_a_target_is_named_by_its_beginning(
    tmp_path: Path, call: Call
) -> None:
    make_queue(tmp_path / "w", questions=40)
    there = ("--warehouse", "w")
    reviews = Reviews(settings_of(tmp_path / "w"))
    ids = [item.review_id for item in reviews.every(Filters(), scopes=None)]
    several = next(each[0] for each in ids if sum(other[0] == each[0] for other in ids) > 1)
    assert "questions begin so, give more of the id" in call("show", several, *there)[1]
    question = reviews.question(ids[0], scopes=None)
    target = question.candidates[-1].chunk
    out = call("decide", ids[0], "merge", "--into", target.chunk_id[:20], "--by", "ana", *there)[0]
    assert f"merge into {target.canonical_id}" in out
    assert "there is no group 123" in call("decide", ids[1], "merge", "--into", "123", *there)[1]


def test_a_hostile_text_is_shown_without_what_a_terminal_would_obey(tmp_path: Path, call: Call) -> None:
    make_queue(tmp_path / "w", questions=1, text="=cmd|' /C calc'!A0 \x1b[31mred")
    assert "\x1b" not in call("list", "--warehouse", "w")[0]
    call("export", "a.csv", "--warehouse", "w")
    with Path("a.csv").open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["text"].startswith("'=cmd")
    with duckdb.connect() as mart:
        assert mart.execute("select count(*) from 'a.csv'").fetchall() == [(1,)]
    call("export", "a.jsonl", "--warehouse", "w")
    assert json.loads(Path("a.jsonl").read_text())["text"].startswith("=cmd")


def test_the_list_is_whole_where_the_mart_has_many_chunks(tmp_path: Path) -> None:
    """More of them than a row group of DuckDB has rows."""
    make_queue(tmp_path / "w", questions=42_000)
    assert Reviews(settings_of(tmp_path / "w")).counts(Filters(), scopes=None)["open"] == 42_000


def test_a_file_row_without_text_is_listed_as_what_it_is(tmp_path: Path, call: Call) -> None:
    make_queue(tmp_path / "w", questions=1, text=None)
    assert "(bytes of a file)" in call("list", "--warehouse", "w")[0]
    review = Reviews(settings_of(tmp_path / "w")).page(Filters(), scopes=None).items[0].review_id
    assert "(bytes of a file)" in call("show", review, "--warehouse", "w")[0]
