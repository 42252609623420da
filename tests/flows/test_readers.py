"""Every format as a stream of frames: the same rows however they come, and each way a file or a line is refused."""

import codecs
import json
import os
import uuid
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from flows.errors import UnreadableSource
from flows.readers import Batch, Refused, read
from flows.settings import InputSettings, LoadSettings
from flows.sources import BYTES, SourceFile
from schemas.rows import LINE_PARSES, TEXT_FITS

Save = Callable[[str, bytes | str], Path]

ROWS = pl.DataFrame(
    {"id": ["1", "2", "3"], "text": ["plain", "Größe, 漢字 😀", None], "note": ['say "no"', None, "a\nb"]}
)
FORMATS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".duckdb": "duckdb", ".arrow": "arrow", ".ipc": "arrow"}


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a file of that name and gives its path."""

    def write(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def batches(
    path: Path, *, file_format: str | None = None, load: dict[str, Any] | None = None, **said: Any
) -> list[Batch]:
    """The file as it is read, by its suffix and under its own name."""
    file = SourceFile(path, path.name, file_format or FORMATS.get(path.suffix, "parquet"))
    return list(read(file, given=InputSettings(path=str(path), **said), load=LoadSettings(**load or {})))


def rows_in(path: Path, **said: Any) -> pl.DataFrame:
    return pl.concat([batch.rows for batch in batches(path, **said)])


def numbers_in(path: Path, **said: Any) -> list[int]:
    return pl.concat([batch.numbers for batch in batches(path, **said)]).to_list()


def refused_in(path: Path, **said: Any) -> list[Refused]:
    return [refused for batch in batches(path, **said) for refused in batch.refused]


def why_not(path: Path, **said: Any) -> str:
    """The one line that a file which cannot be read is refused with, without the path it begins with."""
    with pytest.raises(UnreadableSource) as refused:
        batches(path, **said)
    line = str(refused.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    return line.removeprefix(f"{path}: ")


def write(rows: pl.DataFrame, path: Path, *, table: str = "rows") -> Path:
    """The rows in the format that the suffix names: `.arrow` as an IPC file, `.ipc` as a stream."""
    match path.suffix:
        case ".parquet":
            rows.write_parquet(path, row_group_size=2)
        case ".csv":
            rows.write_csv(path)
        case ".tsv":
            rows.write_csv(path, separator="\t")
        case ".jsonl":
            rows.write_ndjson(path)
        case ".arrow":
            rows.write_ipc(path, record_batch_size=2)
        case ".ipc":
            rows.write_ipc_stream(path)
        case ".duckdb":
            with closing(duckdb.connect(str(path))) as connection:
                connection.register("given", rows)
                connection.execute(f'create table "{table}" as from given')
    return path


def arrow(path: Path, **columns: pa.Array) -> Path:
    with pa.OSFile(str(path), "wb") as opened:
        table = pa.table(columns)
        with pa.ipc.new_file(opened, table.schema) as writer:
            writer.write_table(table)
    return path


# --- all formats ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", *FORMATS])
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    path = write(ROWS, tmp_path / f"rows{suffix}")
    read_back = rows_in(path, table="rows" if suffix == ".duckdb" else None)
    assert_frame_equal(read_back, ROWS, check_column_order=suffix != ".jsonl")


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), min_size=1),
    "whole": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False, allow_infinity=False),
    "flag": st.booleans(),
}
DTYPES = {"text": pl.String, "whole": pl.Int64, "real": pl.Float64, "flag": pl.Boolean}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), min_size=1, max_size=12
    ),
    st.integers(1, 15),
    st.sampled_from([".parquet", *FORMATS]),
)
def test_rows_and_types_do_not_hang_on_where_a_batch_ends(rows: list[dict[str, Any]], most: int, suffix: str) -> None:
    with TemporaryDirectory() as folder:
        path = write(pl.DataFrame(rows, schema=DTYPES), Path(folder) / f"rows{suffix}")
        said: dict[str, Any] = {"table": "rows"} if suffix == ".duckdb" else {}
        whole, parts = batches(path, **said), batches(path, load={"batch_rows": most}, **said)
        assert max(batch.rows.height for batch in parts) <= most
        assert {tuple(batch.rows.schema.items()) for batch in parts} == {tuple(whole[0].rows.schema.items())}
        assert_frame_equal(pl.concat([batch.rows for batch in parts]), pl.concat([batch.rows for batch in whole]))
        numbers = pl.concat([batch.numbers for batch in parts]).to_list()
        assert numbers == pl.concat([batch.numbers for batch in whole]).to_list() == sorted(set(numbers))
        assert len(numbers) == len(rows)


@pytest.mark.parametrize("suffix", [".parquet", *FORMATS])
def test_an_empty_file_is_refused(save: Save, suffix: str) -> None:
    assert why_not(save(f"a{suffix}", b"")) == "the file is empty (0 bytes)"


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow", ".ipc", ".duckdb"])
def test_a_table_without_rows_shows_its_columns(tmp_path: Path, suffix: str) -> None:
    path = write(ROWS.clear(), tmp_path / f"rows{suffix}")
    (batch,) = batches(path, table="rows" if suffix == ".duckdb" else None)
    assert (batch.rows.height, batch.rows.columns, batch.numbers.len()) == (0, ROWS.columns, 0)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".arrow"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(ROWS, tmp_path / f"rows{suffix}")
    file = SourceFile(path, path.name, FORMATS.get(suffix, "parquet"))
    stream = read(file, given=InputSettings(path=str(path)), load=LoadSettings(batch_rows=1))
    next(stream)
    with path.open("ab") as opened:
        opened.write(b"\n")
    with pytest.raises(UnreadableSource, match="changed while it was read; run again when it is written to its end"):
        list(stream)


def test_a_file_that_goes_away_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = write(ROWS, tmp_path / "rows.csv")
    stream = read(
        SourceFile(path, path.name, "csv"), given=InputSettings(path=str(path)), load=LoadSettings(batch_rows=1)
    )
    next(stream)
    path.unlink()
    with pytest.raises(UnreadableSource, match=r"rows\.csv: cannot be read as csv: No such file or directory$"):
        list(stream)


@pytest.mark.parametrize("suffix", [".parquet", *FORMATS])
def test_a_file_that_is_not_there_is_refused(tmp_path: Path, suffix: str) -> None:
    file_format = FORMATS.get(suffix, "parquet")
    assert why_not(tmp_path / f"a{suffix}") == f"cannot be read as {file_format}: No such file or directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
@pytest.mark.parametrize("suffix", [".parquet", *FORMATS])
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(ROWS, tmp_path / f"a{suffix}")
    path.chmod(0)
    assert "ermission denied" in why_not(path)


def test_a_pipe_is_refused_and_not_waited_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert why_not(tmp_path / "pipe.csv") == "not a regular file; save what it gives to one, and name that"


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    assert why_not(tmp_path / "a.csv").startswith("not a regular file")


def test_a_name_that_is_not_utf_8_is_refused_and_can_be_printed(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    path.write_text("text\nx\n")
    with pytest.raises(UnreadableSource) as refused:
        batches(path)
    assert str(refused.value) == f"{tmp_path}/caf\\xe9.csv: the name of the file is not UTF-8; rename it"


@pytest.mark.parametrize("suffix", [".parquet", *FORMATS])
def test_what_the_folders_of_a_file_say_is_a_column_of_its_rows(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "workspace_id=acme%2Fnorth" / "day=2024-03-01" / "team=__HIVE_DEFAULT_PARTITION__" / "id=9"
    folder.mkdir(parents=True)
    path = write(ROWS, folder / f"a=b{suffix}")
    rows = rows_in(path, table="rows" if suffix == ".duckdb" else None, load={"batch_rows": 2})
    assert rows.select("id", "workspace_id", "day", "team").rows() == [
        (number, "acme/north", "2024-03-01", None) for number in ("1", "2", "3")
    ]
    assert set(rows.columns) == {*ROWS.columns, "workspace_id", "day", "team"}


def test_folders_say_the_same_from_inside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "workspace_id=acme"
    folder.mkdir()
    path = write(ROWS, folder / "a.csv")
    monkeypatch.chdir(folder)
    assert_frame_equal(rows_in(Path("a.csv")), rows_in(path))
    assert rows_in(Path("a.csv"))["workspace_id"].to_list() == ["acme"] * 3


def test_a_folder_without_a_value_says_null_and_one_without_a_key_says_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "workspace_id=" / "=acme" / "==" / "=a=b" / "plain" / "rule=a=b"
    folder.mkdir(parents=True)
    rows = rows_in(write(ROWS, folder / "a.csv"))
    assert rows.select(pl.exclude(ROWS.columns)).rows() == [(None, "a=b")] * 3


def test_what_folders_say_is_told_apart_from_the_columns_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "note=x" / "day=1" / "chunk_index=0"
    folder.mkdir(parents=True)
    (batch,) = batches(write(ROWS, folder / "a.csv"))
    assert batch.partitions == {"day"}
    assert "chunk_index" not in batch.rows.columns


def test_a_file_without_rows_has_none_whatever_its_folders_say(tmp_path: Path) -> None:
    (tmp_path / "w=acme").mkdir()
    assert rows_in(write(ROWS.clear(), tmp_path / "w=acme" / "a.csv")).shape == (0, 4)
    (tmp_path / "w=acme" / "a.jsonl").write_text("no JSON\n")
    assert rows_in(tmp_path / "w=acme" / "a.jsonl").shape == (0, 0)


# --- parquet and Arrow ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".ipc", ".duckdb"])
def test_a_file_of_another_kind_under_that_suffix_is_refused(save: Save, suffix: str) -> None:
    assert why_not(save(f"a{suffix}", "id,text\n1,x\n" * 500)).startswith("cannot be read as ")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".ipc"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_a_truncated_file_is_refused(tmp_path: Path, suffix: str, share: float) -> None:
    rows = pl.DataFrame({"id": range(1000), "text": [f"text {n}" for n in range(1000)]})
    path = write(rows, tmp_path / f"a{suffix}")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert why_not(path).startswith("cannot be read as ")


def test_strings_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    text = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\4\0\0\0"), pa.py_buffer(b"caf\xe9"))
    assert "Invalid UTF8" in why_not(arrow(tmp_path / "a.arrow", text=text))


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_column_name_that_is_not_utf_8_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(ROWS.rename({"note": "columnname"}), tmp_path / f"a{suffix}")
    path.write_bytes(path.read_bytes().replace(b"columnname", b"column\xff\xffme"))
    assert why_not(path).startswith("cannot be read as ")


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({}), tmp_path / "a.parquet")
    assert why_not(tmp_path / "a.parquet") == "cannot be read as parquet: the table has no columns"


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    line = "cannot be read as parquet: the table has 'text' more than once; rename one of them"
    assert why_not(tmp_path / "a.parquet") == line


def test_long_rows_come_in_small_batches(tmp_path: Path) -> None:
    rows = pl.DataFrame({"text": [os.urandom(256 * 1024).hex() for _ in range(160)]})
    rows.write_parquet(tmp_path / "a.parquet", row_group_size=20)
    assert max(batch.rows.height for batch in batches(tmp_path / "a.parquet")) < 160
    assert_frame_equal(rows_in(tmp_path / "a.parquet"), rows)


MOMENT = datetime(2024, 3, 1, tzinfo=UTC)
ONE_UUID = uuid.UUID("12345678-1234-5678-9abc-def012345678")


@pytest.mark.parametrize(
    ("values", "held"),
    [
        (pa.array([ONE_UUID.bytes, None], pa.uuid()), [str(ONE_UUID), None]),
        (pa.array(['{"a":1}', None], pa.json_()), ['{"a":1}', None]),
        (pa.array([["[]"], None], pa.list_(pa.string())).cast(pa.list_(pa.json_())), [["[]"], None]),
        (pa.array([{"a": "1"}, None]).cast(pa.struct([("a", pa.json_())])), [{"a": "1"}, None]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None], pa.int8())), [1, None]),
        (pa.array([Decimal("1" * 50), None], pa.decimal256(60, 2)), ["1" * 50 + ".00", None]),
        (pa.array([MOMENT, None], pa.timestamp("us", "+05:30")), [MOMENT, None]),
        (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())), [{"a": 1}, None]),
        (pa.array(["a", None]).dictionary_encode(), ["a", None]),
        (pa.nulls(2), [None, None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_types_that_only_arrow_has_are_held_in_others(tmp_path: Path, values: pa.Array, held: list[Any]) -> None:
    rows = rows_in(arrow(tmp_path / "a.arrow", value=values, text=pa.array(["x", "y"])))
    assert rows["value"].to_list() == held
    assert rows_in(arrow(tmp_path / "b.arrow", value=values[:0])).schema["value"] == rows.schema["value"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["a"])),
        pa.array([["a"]], pa.list_view(pa.string())),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"]), pa.array([1])]),
        pa.StructArray.from_arrays([pa.array([(1, 2, 3)], pa.month_day_nano_interval())], ["inner"]),
    ],
    ids=lambda values: str(values.type),
)
def test_a_type_that_no_column_holds_is_refused_by_the_name_of_its_column(tmp_path: Path, values: pa.Array) -> None:
    line = why_not(arrow(tmp_path / "a.arrow", text=pa.array(["x"]), odd=values))
    assert line.startswith("cannot be read as arrow: column 'odd' is ")
    assert line.endswith("; cast it to text, or leave it out")


# --- DuckDB -----------------------------------------------------------------------------------------------------------


def test_a_table_of_another_schema_and_a_view_are_read_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute('create schema raw; create table raw."odd ""name" as select \'x\' as text')
        connection.execute('create view shown as select text || \'!\' as text from raw."odd ""name"')
    assert rows_in(path, table='raw.odd "name')["text"].to_list() == ["x"]
    assert rows_in(path, table="shown")["text"].to_list() == ["x!"]


def test_a_table_that_is_not_there_or_not_named_is_told_with_those_that_are(tmp_path: Path) -> None:
    path = write(ROWS, tmp_path / "a.duckdb", table="one")
    write(ROWS, path, table="two")
    assert why_not(path, table="three") == "no table 'three'; there are one, two"
    assert why_not(path) == "set table = ...; there are one, two"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute("drop table one; drop table two")
    assert why_not(path) == "set table = ...; there are none"


# --- csv --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_that_the_header_shows(save: Save, delimiter: str) -> None:
    lines = [["id", "text", "note"], ["1", '"a,b;c|d"', ""]]
    path = save("a.csv", "\n" + "\n".join(delimiter.join(values) for values in lines))
    assert rows_in(path).rows() == [("1", "a,b;c|d", None)]


def test_a_delimiter_that_is_set_stands_above_the_header(save: Save) -> None:
    assert rows_in(save("a.csv", "a;b,text\n1;2,x\n"), delimiter=",").columns == ["a;b", "text"]


def test_a_tsv_is_cut_at_tabs_whatever_its_header_shows(save: Save) -> None:
    assert rows_in(save("a.tsv", "text\nyes, no\n")).rows() == [("yes, no",)]
    assert rows_in(save("b.tsv", "text\ta,b,c\nx\ty\n")).columns == ["text", "a,b,c"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_on_any_system_and_rows_go_by_the_line_they_begin_on(save: Save, end: str) -> None:
    path = save("a.csv", end.join(["id,text", "1,x", "", '2,"y', 'z"', "3,w", ""]))
    assert rows_in(path).rows() == [("1", "x"), ("2", f"y{end}z"), ("3", "w")]
    assert numbers_in(path) == [2, 4, 6]


def test_a_line_with_too_few_or_too_many_values_is_refused_and_the_rest_goes_on(save: Save) -> None:
    path = save("a.csv", "id,text\n1,x\n2\n3,y,z\n4,w\n")
    assert rows_in(path)["id"].to_list() == ["1", "4"]
    assert numbers_in(path) == [2, 5]
    assert refused_in(path) == [
        Refused("a.csv:3", "the header has 2 columns, the line has 1", LINE_PARSES),
        Refused("a.csv:4", "the header has 2 columns, the line has 3", LINE_PARSES),
    ]
    assert refused_in(path, load={"batch_rows": 1}) == refused_in(path)


@pytest.mark.parametrize(
    "broken",
    ['1,"open\n2,y\n', '1,"open" and more\n2,y\n', '1,"open\n2,"y"\n', '1,x\n2,"'],
    ids=["never closed", "text after it", "closed by another", "at the end"],
)
def test_a_quote_that_would_swallow_rows_makes_the_file_unreadable(save: Save, broken: str) -> None:
    line = 3 if broken.startswith("1,x") else 2
    assert why_not(save("a.csv", "id,text\n" + broken)) == (
        f"line {line}: a quote is opened and never closed, or text follows a closed one; "
        'put the whole value in quotes, and write a quote inside it twice ("")'
    )


def test_a_quote_inside_a_value_without_quotes_is_a_letter(save: Save) -> None:
    assert rows_in(save("a.csv", 'text\n19" screen\nsay "no"\n'))["text"].to_list() == ['19" screen', 'say "no"']


SMALL = {"max_text_bytes": 10}
LONGEST = 1024 * 1024 + 20


def test_a_huge_value_on_its_line_is_refused_and_the_rest_goes_on(save: Save) -> None:
    path = save("a.csv", f'id,text\n1,{"x" * LONGEST}y\n2,"{"x" * LONGEST}y"\n3,z\n')
    assert rows_in(path, load=SMALL).rows() == [("3", "z")]
    detail = f"a value has more than {LONGEST:,} characters"
    assert refused_in(path, load=SMALL) == [
        Refused("a.csv:2", detail, TEXT_FITS),
        Refused("a.csv:3", detail, TEXT_FITS),
    ]


@pytest.mark.parametrize(
    "value", ["x\n" * LONGEST, "x" * LONGEST + "y\n4,not a row\n"], ids=["many lines", "one and more"]
)
def test_a_huge_value_over_several_lines_makes_the_file_unreadable(save: Save, value: str) -> None:
    assert why_not(save("a.csv", f'id,text\n1,x\n2,"{value}"\n3,z\n'), load=SMALL) == (
        f"line 3: a value of more than {LONGEST:,} characters begins here; "
        "close its quote, or raise [load] max_text_bytes"
    )


def test_a_limit_above_what_the_machine_counts_to_is_no_limit(save: Save) -> None:
    assert rows_in(save("a.csv", "text\nx\n"), load={"max_text_bytes": 10**30}).rows() == [("x",)]


def test_a_column_without_a_name_goes_by_its_place(save: Save) -> None:
    assert rows_in(save("a.csv", ",text, \n0,x,y\n")).columns == ["column_1", "text", "column_3"]


@pytest.mark.parametrize(
    "header", ["\n\n", " , \n1,x\n", "x" * 2 * LONGEST + ",text\n1,x\n"], ids=["blank", "no names", "huge"]
)
def test_a_csv_without_a_header_is_refused(save: Save, header: str) -> None:
    assert why_not(save("a.csv", header), load=SMALL) == "no header; the first line must name the columns"


def test_a_header_that_names_a_column_twice_is_refused(save: Save) -> None:
    path = save("a.csv", "text,id, text\nx,1,y\n")
    assert why_not(path) == "the header names 'text' more than once; rename one of them"


# --- encodings --------------------------------------------------------------------------------------------------------

ENCODED = {
    "utf-8": "id,text\n1,naïve “€”\n".encode(),
    "latin-1": "id,text\n1,naïve\n".encode("latin-1"),
    "cp1252": "id,text\n1,naïve “€”\n".encode("cp1252"),
    "utf-16": "id,text\n1,naïve “€”\n".encode("utf-16"),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_a_csv_and_a_jsonl_are_read_in_their_encoding(save: Save, encoding: str) -> None:
    text = "naïve" if encoding == "latin-1" else "naïve “€”"
    assert rows_in(save("a.csv", ENCODED[encoding]), encoding=encoding).rows() == [("1", text)]
    line = json.dumps({"text": text}, ensure_ascii=False).encode(encoding)
    assert rows_in(save("a.jsonl", line), encoding=encoding).rows() == [(text,)]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_column(save: Save, suffix: str) -> None:
    content = "text\nx\n" if suffix == ".csv" else '{"text":"x"}'
    assert rows_in(save(f"a{suffix}", codecs.BOM_UTF8 + content.encode())).to_dicts() == [{"text": "x"}]
    for mark, codec in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        path = save(f"b{suffix}", mark + content.encode(codec))
        assert rows_in(path, encoding="utf-16").to_dicts() == [{"text": "x"}]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_the_line_that_is_not_in_the_encoding_is_told(save: Save, suffix: str) -> None:
    row = "x\n" if suffix == ".csv" else '{"text":"x"}\n'
    lines = ("text\n" if suffix == ".csv" else row) + row * 3
    path = save(f"a{suffix}", lines.encode() + "é\n".encode("latin-1") + row.encode())
    assert why_not(path) == (
        'line 5 is not utf-8; set encoding = "latin-1" or "cp1252" or "utf-16" for this input, '
        "or save the file as UTF-8"
    )


def test_a_file_that_ends_inside_a_character_is_refused(save: Save) -> None:
    assert why_not(save("a.csv", "text\nxé".encode()[:-1])).startswith("line 2 is not utf-8")
    assert why_not(save("b.csv", "text\nx".encode("utf-16")[:-1]), encoding="utf-16").startswith("line 2 is not utf-16")


@pytest.mark.parametrize(
    ("content", "encoding", "line"),
    [
        ("text\n".encode("utf-8-sig"), "latin-1", 'the byte order mark of utf-8, not latin-1; set encoding = "utf-8"'),
        ("text\n".encode("utf-16"), "cp1252", 'the byte order mark of utf-16, not cp1252; set encoding = "utf-16"'),
        ("text\n".encode("utf-16"), "utf-8", 'the byte order mark of utf-16, not utf-8; set encoding = "utf-16"'),
        ("text\n".encode("utf-32"), "utf-16", "the byte order mark of utf-32, not utf-16; save the file as UTF-8"),
    ],
)
def test_the_mark_of_another_encoding_is_refused(save: Save, content: bytes, encoding: str, line: str) -> None:
    assert why_not(save("a.csv", content), encoding=encoding).startswith(f"begins with {line}")


def test_utf_16_without_its_mark_is_refused(save: Save) -> None:
    path = save("a.csv", "text\nx\n".encode("utf-16-le"))
    assert why_not(path, encoding="utf-16") == "has no byte order mark, so it is not utf-16; save the file as UTF-8"


# --- JSON lines -------------------------------------------------------------------------------------------------------


def lines(*values: Any) -> str:
    return "".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values)


def test_a_line_that_is_no_object_is_refused_and_the_rest_goes_on(save: Save) -> None:
    path = save("a.jsonl", lines({"text": "x"}, '{"text": "cut', "", "[1]", "{}", "null", {"text": "y"}))
    assert rows_in(path)["text"].to_list() == ["x", "y"]
    assert numbers_in(path) == [1, 7]
    refused = refused_in(path)
    assert [(one.locator, one.reason) for one in refused] == [(f"a.jsonl:{n}", LINE_PARSES) for n in (2, 4, 5, 6)]
    details = [one.detail for one in refused]
    assert details[0] == "EOF while parsing a string at column 13"
    assert details[1:] == [f"expected an object, got {what}" for what in ("list", "an empty one", "NoneType")]
    assert refused_in(path, load={"batch_rows": 1}) == refused


@pytest.mark.parametrize(
    "line",
    ['{"text": "\\ud800"}', '{"text": "a\0b"}', '{"text": NaN,}', "{'text': 'x'}", '{"n": ' + "9" * 5000 + "}"],
    ids=["a lone surrogate", "a raw NUL", "a comma too many", "single quotes", "a number of 5,000 digits"],
)
def test_a_line_that_json_does_not_allow_is_refused(save: Save, line: str) -> None:
    path = save("a.jsonl", lines({"text": "x"}, line))
    assert [refused.locator for refused in refused_in(path)] == ["a.jsonl:2"]
    assert rows_in(path).height == 1


def test_values_nested_too_deep_are_refused_and_those_nested_deep_are_read(save: Save) -> None:
    deep, too_deep = ("[" * depth + "1" + "]" * depth for depth in (150, 50_000))
    path = save("a.jsonl", lines(f'{{"text": "x", "deep": {deep}}}', f'{{"text": "y", "deep": {too_deep}}}'))
    assert rows_in(path)["text"].to_list() == ["x"]
    assert "recursion limit exceeded" in refused_in(path)[0].detail


def test_only_blank_lines_are_refused(save: Save) -> None:
    assert why_not(save("a.jsonl", "\n \n\t\n")) == "nothing but blank lines; write one JSON object a line"


def test_a_file_of_refused_lines_has_no_rows(save: Save) -> None:
    (batch,) = batches(save("a.jsonl", "x\ny\n"))
    assert (batch.rows.shape, batch.numbers.len(), len(batch.refused)) == ((0, 0), 0, 2)


def test_lines_end_at_a_line_feed_and_nowhere_else(save: Save) -> None:
    path = save("a.jsonl", '{"text":"a\u2028b\x85"}\r\n{"text":"c"}\r\n')
    assert rows_in(path)["text"].to_list() == ["a\u2028b\x85", "c"]
    assert numbers_in(path) == [1, 2]


@pytest.mark.parametrize(
    ("values", "dtype", "read_as"),
    [
        (["a", None], pl.String(), ["a", None]),
        ([1, None], pl.Int64(), [1, None]),
        ([1, 2.5], pl.Float64(), [1.0, 2.5]),
        ([True, None], pl.Boolean(), [True, None]),
        ([None, None], pl.String(), [None, None]),
        ([1, "a", 2.0, True, float("inf")], pl.String(), ["1", "a", "2", "true", None]),
        ([2**63, 1], pl.String(), [str(2**63), "1"]),
        ([2**53 + 1, 0.5], pl.String(), [str(2**53 + 1), "0.5"]),
    ],
)
def test_a_column_has_the_one_type_that_holds_all_its_values(
    save: Save, values: list[Any], dtype: pl.DataType, read_as: list[Any]
) -> None:
    path = save("a.jsonl", lines(*({"n": n, "value": value} for n, value in enumerate(values))))
    for most in (1, 100):
        column = rows_in(path, load={"batch_rows": most})["value"]
        assert (column.dtype, column.to_list()) == (dtype, read_as)


def test_a_column_with_lists_or_objects_has_json_for_every_value(save: Save) -> None:
    values: list[Any] = [
        {"b": 1, "a": "é"},
        [1, "x", []],
        {},
        "a",
        2.0,
        True,
        None,
        [float("nan"), {"n": -float("inf")}],
    ]
    path = save("a.jsonl", lines(*({"n": n, "value": value} for n, value in enumerate(values))))
    written = ['{"a":"é","b":1}', '[1,"x",[]]', "{}", '"a"', "2", "true", None, '[null,{"n":null}]']
    for most in (1, 100):
        read_back = batches(path, load={"batch_rows": most})
        assert {batch.as_json for batch in read_back} == {frozenset({"value"})}
        assert pl.concat([batch.rows for batch in read_back])["value"].to_list() == written


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
TREES = st.lists(NESTED, max_size=3) | st.dictionaries(st.sampled_from("abc"), NESTED, max_size=3)


@settings(max_examples=50, deadline=None)
@given(TREES, st.lists(NESTED, max_size=4))
def test_what_a_list_or_object_reads_as_does_not_hang_on_its_neighbours(value: Any, neighbours: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text(lines({"value": value}))
        (alone,) = rows_in(path)["value"]
        path.write_text(lines({"value": value}, *({"value": neighbour} for neighbour in neighbours)))
        assert rows_in(path)["value"][0] == alone
        assert json.loads(alone) == value


def test_nan_and_infinity_are_null_also_among_texts(save: Save) -> None:
    path = save("a.jsonl", '{"a":NaN,"b":Infinity}\n{"a":1.5,"b":"x"}\n')
    assert rows_in(path).rows() == [(None, None), (1.5, "x")]


def test_any_key_can_be_a_column(save: Save) -> None:
    path = save("a.jsonl", lines({"": 1, "column_0": 2, "*": 3, "^x$": 4}))
    assert rows_in(path).to_dicts() == [{"": 1, "*": 3, "^x$": 4, "column_0": 2}]


def test_too_many_different_keys_are_refused(save: Save) -> None:
    path = save("a.jsonl", lines(*({f"key {n}": 1} for n in range(4097))))
    assert why_not(path) == "more than 4,096 different keys; put them under one key"


# --- documents and files ----------------------------------------------------------------------------------------------


def test_a_document_is_one_row_with_what_is_known_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<p>Hello</p>")
    file = SourceFile(path, "manuals/en/page.html", "documents")
    (batch,) = read(file, given=InputSettings(path=str(path)), load=LoadSettings())
    assert batch.rows.to_dicts() == [
        {
            "path": "manuals/en/page.html",
            "folder": "manuals",
            "name": "page.html",
            "size_bytes": 12,
            "id": "manuals/en/page.html",
            "doc_id": "manuals/en/page.html",
            "text": "Hello",
        }
    ]
    assert batch.numbers.to_list() == [1]


def test_a_document_that_cannot_be_read_says_so_itself(save: Save) -> None:
    assert (
        why_not(save("a.txt", b"caf\xe9"), file_format="documents")
        == "byte 3 (0xe9) is not UTF-8; save the file as UTF-8"
    )


def test_a_file_of_raw_bytes_is_one_row_without_a_text(save: Save) -> None:
    (row,) = rows_in(save("logo.bin", b"\xff\x00"), file_format=BYTES).to_dicts()
    assert row == {
        "path": "logo.bin",
        "folder": "",
        "name": "logo.bin",
        "size_bytes": 2,
        "id": "logo.bin",
        "doc_id": "logo.bin",
    }


@pytest.mark.parametrize("file_format", ["documents", BYTES])
def test_an_empty_document_and_an_empty_file_are_rows_too(save: Save, file_format: str) -> None:
    assert rows_in(save("a.txt", b""), file_format=file_format)["size_bytes"].to_list() == [0]
