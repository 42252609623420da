"""Files of pairs, judged: every row comes back in its place with its own columns, and bad files are told by name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from flows import judge_file as module
from flows.console import Progress
from flows.errors import NightfoldError
from flows.judge_file import judge_file, summary_lines
from flows.pair_files import NotWritten, read_pairs, whole_file, write_pairs
from flows.settings import LoadSettings, Settings
from schemas.terms import KINDS
from tests.flows.chat_endpoint import chatting, reply
from tests.flows.word_endpoint import WordEndpoint, serving
from tests.flows.word_judge import judge_by_words
from transforms.pair_rows import JUDGED

ADDED = list(JUDGED)
ALL_KINDS = ", ".join(KINDS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("flows.verdicts.judge_pairs", judge_by_words)
    return tmp_path


@pytest.fixture(scope="module")
def words() -> Iterator[WordEndpoint]:
    with serving() as endpoint:
        yield endpoint


def judged(path: str, out: str = "out.parquet", **sections: Any) -> pl.DataFrame:
    given: dict[str, Any] = {"embedding": {"encoder": "none"}, "judge": {"merge_similarity": 0.95}} | sections
    written = judge_file(Path(path), Path(out), settings=Settings(**given), progress=Progress(quiet=True))
    return read_pairs(Path(out), load=LoadSettings()).rows if not out.endswith(".parquet") else _same(out, written)


def _same(out: str, written: pl.DataFrame) -> pl.DataFrame:
    assert pl.read_parquet(out).equals(written)
    return written


def write(name: str, **columns: Any) -> str:
    pl.DataFrame(columns).write_parquet(name)
    return name


def refused(path: str, out: str = "out.parquet", **sections: Any) -> str:
    before = sorted(Path().iterdir())
    with pytest.raises(NightfoldError) as error:
        judged(path, out, **sections)
    assert sorted(Path().iterdir()) == before
    assert "\n" not in str(error.value)
    return str(error.value)


# ---- what a row becomes


def test_every_row_keeps_its_place_and_its_own_columns() -> None:
    given = pl.DataFrame(
        {
            "z": [1, 2, 3],
            "text_b": ["the pump", "x", "The  pump."],
            "text_a": ["The pump.", "y", "The pump."],
            "list": [[1], [], None],
            "similarity": [0.97, 0.5, 0.9],
        }
    )
    given.write_parquet("pairs.parquet")
    found = judged("pairs.parquet")
    assert found.columns == [*given.columns, *(name for name in ADDED if name != "similarity")]
    assert found.select(given.columns).equals(given)
    assert found["relation"].to_list() == ["equivalent", "unknown", "equivalent"]
    assert found["action"].to_list() == ["merged_into_existing", "queued_for_review", "merged_into_existing"]
    assert found["evidence"].to_list()[2] == "same text"


@pytest.mark.parametrize(
    ("text_a", "text_b", "evidence"),
    [
        (None, "b", "nothing to read in text_a"),
        ("a", " \n", "nothing to read in text_b"),
        ("", None, "nothing to read in text_a and text_b"),
    ],
)
def test_a_row_without_a_text_stays_as_it_is(text_a: str | None, text_b: str | None, evidence: str) -> None:
    pairs = write("pairs.parquet", text_a=[text_a, "The pump"], text_b=[text_b, "the pump"], similarity=[0.9, 0.96])
    found = judged(pairs).row(0, named=True)
    assert (found["relation"], found["action"], found["evidence"]) == ("unknown", "stored_as_new", evidence)
    assert (found["decided_by"], found["is_confirmed"]) == ("rule: no text", False)


def test_texts_that_are_the_same_in_their_normal_form_need_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "verdicts", lambda pairs, *_, **__: _no_verdicts(pairs))
    pairs = write(
        "pairs.parquet", text_a=["a\u0301  b", "x"], text_b=["\u00e1 b", "x"], version_a=[1, 1], version_b=[2, 1]
    )
    found = judged(pairs)
    assert found["action"].to_list() == ["merged_into_existing"] * 2
    assert found["similarity"].to_list() == [1.0, 1.0]
    assert found["decided_by"].to_list() == ["rule: same text"] * 2


def _no_verdicts(pairs: pl.DataFrame) -> pl.DataFrame:
    assert pairs.is_empty()
    return pairs.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in JUDGED.items())


def told_to_judge(monkeypatch: pytest.MonkeyPatch, **verdict: Any) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """What the judge is given; its verdict is the same for all."""
    given = []

    def judge(pairs: pl.DataFrame, chunks: pl.DataFrame, **_: Any) -> pl.DataFrame:
        given.append((pairs, chunks))
        usual = {"reading": 0.9, "relation": "unknown", "confidence": 0.9, "stands": None, "evidence": "e"}
        said = usual | {"decided_by": "model", "is_confirmed": False} | verdict
        values = {name: value if isinstance(value, pl.Expr) else pl.lit(value) for name, value in said.items()}
        return pairs.with_columns(values[name].cast(JUDGED[name]).alias(name) for name in values)

    monkeypatch.setattr(module, "verdicts", judge)
    return given


def test_the_judge_gets_each_pair_once_with_the_lower_id_at_the_left(monkeypatch: pytest.MonkeyPatch) -> None:
    given = told_to_judge(monkeypatch)
    texts_a, texts_b = ["a", "b", "a", "a"], ["b", "a", "b", "c"]
    found = judged(write("pairs.parquet", text_a=texts_a, text_b=texts_b, similarity=[0.9] * 4))
    ((pairs, chunks),) = given
    assert (pairs.height, chunks.height) == (3, 5)
    assert (pairs["left_id"] < pairs["right_id"]).all()
    assert pairs["pair_id"].is_unique().all()
    named = pl.concat([pairs["left_id"], pairs["right_id"]])
    assert set(named) == set(chunks["chunk_id"])
    assert found["evidence"].to_list() == ["e"] * 4
    # The text of side b was seen later, also where it is that of a side a elsewhere.
    seen = chunks.sort("first_seen_at", "text")["text"].to_list()
    assert seen == ["a", "b", "a", "b", "c"]


def test_two_similarities_of_the_same_texts_are_judged_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    given = told_to_judge(monkeypatch)
    judged(write("pairs.parquet", text_a=["a", "a"], text_b=["b", "b"], similarity=[0.9, 0.8]))
    assert sorted(given[0][0]["similarity"].to_list()) == pytest.approx([0.8, 0.9])


@pytest.mark.parametrize("count", [12])
def test_the_side_that_stands_goes_by_its_name_in_the_file(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    told_to_judge(monkeypatch, relation="subset", stands=pl.lit("left"))
    texts_a, texts_b = [f"a{n}" for n in range(count)], [f"b{n}" for n in range(count)]
    pairs = write("pairs.parquet", text_a=texts_a, text_b=texts_b, similarity=[0.9] * count)
    at_left = judged(pairs)["stands"].to_list()
    told_to_judge(monkeypatch, relation="subset", stands=pl.lit("right"))
    at_right = judged(pairs)["stands"].to_list()
    # Ids are hashes: of a dozen pairs some have side a at the left, and some side b.
    assert set(at_left) == {"a", "b"}
    assert [{"a": "b", "b": "a"}[side] for side in at_left] == at_right
    told_to_judge(monkeypatch)
    assert judged(pairs)["stands"].to_list() == [None] * count


def test_what_tells_the_age_of_a_text_is_its_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    given = told_to_judge(monkeypatch)
    ages = {"version_a": ["1.0"], "version_b": ["2.0"], "source_priority_b": [3], "effective_at_a": [None]}
    judged(write("pairs.parquet", text_a=["a"], text_b=["b"], similarity=[0.9], **ages))
    chunks = given[0][1]
    said = dict(zip(chunks["text"], map(json.loads, chunks["metadata"]), strict=True))
    assert said == {"a": {"version": "1.0"}, "b": {"version": "2.0", "source_priority": 3}}


def test_a_kind_goes_to_the_judge_and_none_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    given = told_to_judge(monkeypatch)
    judged(write("pairs.parquet", text_a=["a", "c"], text_b=["b", "d"], similarity=[0.9, 0.9], kind=["spec_row", None]))
    assert sorted(given[0][1].select("text", "kind").rows()) == [
        ("a", "spec_row"),
        ("b", "spec_row"),
        ("c", "text"),
        ("d", "text"),
    ]


# ---- similarity


def test_a_missing_similarity_is_the_cosine_of_the_encoder(words: WordEndpoint) -> None:
    pairs = write(
        "pairs.parquet", text_a=["a b", "x y", "p"], text_b=["b  a", "v w", "q"], similarity=[None, None, 0.5]
    )
    found = judged(pairs, embedding=words.settings())
    first, second, third = found["similarity"].to_list()
    assert first == pytest.approx(1.0)
    assert -1 <= second < 0.9
    assert third == 0.5


def test_without_the_column_every_row_gets_one(words: WordEndpoint) -> None:
    words.forget()
    found = judged(write("pairs.parquet", text_a=["a b"] * 3, text_b=["b a"] * 3), embedding=words.settings())
    assert found["similarity"].to_list() == pytest.approx([1.0] * 3)
    assert words.given.total() == 2


def test_without_an_encoder_the_column_is_asked_for() -> None:
    pairs = write("pairs.parquet", text_a=["a", "b"], text_b=["c", "d"], similarity=[0.9, None])
    assert refused(pairs) == (
        'pairs.parquet: 1 of 2 rows have no similarity, and [embedding] encoder = "none"; '
        "name an encoder, or add the column"
    )


def test_an_encoder_that_is_down_is_told(words: WordEndpoint) -> None:
    words.down = "503"
    try:
        told = refused(write("pairs.parquet", text_a=["a"], text_b=["b"]), embedding=words.settings())
    finally:
        words.down = None
    assert told.startswith("pairs.parquet: 1 of 1 rows have no similarity, and 2 of their texts get no vector (http")


# ---- formats


CSV = 'id,text_a,text_b,similarity,note\n1,The pump.,the pump,0.97,"a, b"\n2,,x,,\n3,Same,Same ,0.5,z\n'


@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out.jsonl", "out.NDJSON", "out.pq"])
def test_each_format_is_read_and_written(out: str) -> None:
    Path("pairs.csv").write_text(CSV)
    judge_file(Path("pairs.csv"), Path(out), settings=Settings(), progress=Progress(quiet=True))
    found = read_pairs(Path(out), load=LoadSettings()).rows
    assert found.columns == ["id", "text_a", "text_b", "similarity", "note", *ADDED[1:]]
    assert [str(value) for value in found["id"]] == ["1", "2", "3"]
    assert found["note"].to_list() == ["a, b", None, "z"]
    assert found["relation"].to_list() == ["equivalent", "unknown", "equivalent"]
    assert found["similarity"].cast(pl.Float32).cast(pl.String).to_list() == ["0.97", None, "0.5"]


def test_jsonl_keeps_its_order_of_columns_and_its_lists() -> None:
    rows = [
        {"z": 1, "text_b": "b", "text_a": "B", "tags": ["x", {"y": 1}], "similarity": 0.96},
        {"z": 2, "text_b": "b", "text_a": "B", "tags": None, "similarity": 0.96, "more": True},
    ]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged("pairs.jsonl", "out.jsonl")
    found = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert list(found[0])[:6] == ["z", "text_b", "text_a", "tags", "similarity", "more"]
    assert [row["tags"] for row in found] == [["x", {"y": 1}], None]
    assert [row["action"] for row in found] == ["merged_into_existing"] * 2


def test_folders_that_look_like_partitions_add_no_column(folder: Path) -> None:
    (folder / "team=a").mkdir()
    pl.DataFrame({"text_a": ["x"], "text_b": ["x"]}).write_parquet("team=a/pairs.parquet")
    assert "team" not in judged("team=a/pairs.parquet").columns


def test_a_file_without_rows_stays_one() -> None:
    pl.DataFrame(schema={"text_a": pl.String, "text_b": pl.String}).write_parquet("pairs.parquet")
    found = judged("pairs.parquet")
    assert (found.height, found.columns) == (0, ["text_a", "text_b", *ADDED])


def test_texts_that_are_all_null_are_texts() -> None:
    assert judged(write("pairs.parquet", text_a=[None], text_b=[None]))["relation"].item() == "unknown"


# ---- what is refused


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"text_a": ["x"]}, "no column text_b; give each row its two texts (there are text_a)"),
        ({"a": ["x"], "b": ["x"]}, "no column text_a or text_b; give each row its two texts (there are a, b)"),
        ({"text_a": [1], "text_b": ["x"]}, "column text_a is Int64, not text; write its texts as strings"),
        (
            {"text_a": ["x"], "text_b": ["y"], "relation": ["z"], "stands": [1]},
            "has a column relation and stands, which the judge writes; rename it, or leave it out",
        ),
        (
            {"text_a": ["x", "y"], "text_b": ["y", "x"], "kind": ["text", "poem"]},
            f"1 of 2 rows have a kind that is none of {ALL_KINDS}; leave it empty for text (the first is 'poem')",
        ),
        (
            {"text_a": ["x"], "text_b": ["y"], "similarity": ["near"]},
            "1 of 1 rows have a similarity that is no cosine from -1 to 1; leave it empty (the first is 'near')",
        ),
        (
            {"text_a": ["x"], "text_b": ["y"], "similarity": [95.0]},
            "1 of 1 rows have a similarity that is no cosine from -1 to 1; leave it empty (the first is '95.0')",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_told_in_one_line(columns: dict[str, Any], told: str) -> None:
    assert refused(write("pairs.parquet", **columns)) == f"pairs.parquet: {told}"


def test_lines_that_are_no_rows_are_told() -> None:
    Path("pairs.csv").write_text("text_a,text_b\nx,y\nx\nx,y,z\n")
    assert refused("pairs.csv") == (
        "pairs.csv: 2 of 3 lines are no row, the first at pairs.csv:3 (the header has 2 columns, the line has 1); "
        "mend them, or take them out"
    )


@pytest.mark.parametrize("name", ["pairs.xlsx", "pairs"])
def test_another_kind_of_file_is_refused(name: str) -> None:
    Path(name).write_text("x")
    assert refused(name).startswith(f"{name}: unknown kind of file ")
    assert refused(write("pairs.parquet", text_a=["x"], text_b=["x"]), name).startswith(f"{name}: unknown kind of file")


def test_a_file_that_is_not_there_is_told() -> None:
    assert refused("nope.parquet") == "nope.parquet: cannot be read as parquet: No such file or directory"


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("pairs.parquet", "pairs.parquet: is the file that is read; name another --out"),
        ("nope/out.csv", "nope: no such folder; make it, or name another --out"),
        ("folder.csv", "folder.csv: is a folder; name a file"),
    ],
)
def test_where_nothing_can_be_written_is_told_before_anything_is_read(out: str, told: str) -> None:
    Path("folder.csv").mkdir()
    assert refused(write("pairs.parquet", a=["x"]), out) == told


def test_a_csv_takes_no_lists() -> None:
    pairs = write("pairs.parquet", text_a=["x"], text_b=["x"], tags=[["a"]])
    assert refused(pairs, "out.csv") == (
        "out.csv: column tags is List(String), which a csv cannot hold; write a .parquet file"
    )


def test_a_file_that_cannot_be_written_to_its_end_leaves_the_old_one() -> None:
    Path("out.csv").write_text("old")

    def fill_the_disk() -> None:
        with whole_file(Path("out.csv")) as partial:
            partial.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(NotWritten, match=r"^out.csv: cannot be written: No space left on device; make room"):
        fill_the_disk()
    assert [path.name for path in Path().iterdir()] == ["out.csv"]
    assert Path("out.csv").read_text() == "old"


def test_a_stop_in_the_middle_leaves_nothing_behind() -> None:
    with pytest.raises(KeyboardInterrupt), whole_file(Path("out.csv")):
        raise KeyboardInterrupt
    assert list(Path().iterdir()) == []


def test_values_that_a_format_cannot_hold_are_told() -> None:
    with pytest.raises(NotWritten, match=r"^out.jsonl: cannot be written: "):
        write_pairs(Path("out.jsonl"), pl.DataFrame({"x": [object()]}, schema={"x": pl.Object}))


# ---- told as it goes


def test_the_llm_that_is_set_is_asked(tmp_path: Path) -> None:
    with chatting() as endpoint:
        endpoint.rule = lambda _: reply("distinct", reason="other pumps")
        llm = endpoint.settings(tmp_path / "llm").model_dump()
        pairs = write("pairs.parquet", text_a=["The pump."], text_b=["the pump"], similarity=[0.97])
        found = judged(pairs, llm=llm).row(0, named=True)
    assert found["action"] == "queued_for_review"
    assert found["evidence"].endswith("the second opinion of m is distinct: other pumps")


def test_the_summary_counts_pairs_by_relation_and_action() -> None:
    rows = pl.DataFrame(
        {
            "relation": ["unknown", "equivalent", "equivalent", "unknown"],
            "action": ["queued_for_review", "queued_for_review", "merged_into_existing", "queued_for_review"],
        }
    )
    assert summary_lines(rows) == [
        "relation    action                pairs",
        "equivalent  merged_into_existing      1",
        "equivalent  queued_for_review         1",
        "unknown     queued_for_review         2",
        "all                                   4",
    ]


def test_each_stage_has_its_line(words: WordEndpoint, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = write("pairs.parquet", text_a=["a b", "c"], text_b=["b a", "c"])
    progress = Progress(console=Console(force_terminal=False, soft_wrap=True))
    sections: dict[str, Any] = {"embedding": words.settings()}
    judge_file(Path(pairs), Path("out.csv"), settings=Settings(**sections), progress=progress)
    assert [line.split()[:4] for line in capsys.readouterr().out.splitlines()] == [
        ["embed", "2", "->", "2"],
        ["judge", "1", "->", "1"],
    ]
