"""From the columns of a source to the input contract."""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rows import ROWS, SCOPE_SEPARATOR
from schemas.terms import FILE, MEMORY, SPEC_ROW, TEXT
from transforms.mapping import CHUNK_INDEX_PARSES, SEEN_AT_PARSES, ColumnMap, MissingColumn, mapped, resolved

WORDS = st.text(st.sampled_from("ab/%␟ ") | st.characters(exclude_categories=["Cs"]), max_size=5)

MIDNIGHT = pl.Series([datetime(2024, 3, 1, tzinfo=UTC)])
# Names that play a role where they are found, and so stay out of the metadata.
ROLES = {"text", "id", "source_row_id", "parsed_spec_id", "doc_id", "source_doc_id", "document_id", "force"}


def map_of(kind: str = TEXT, **given_columns: Any) -> ColumnMap:
    return ColumnMap(kind=kind, source="src", **({"scope": "ws"} | given_columns))


def rows_of(source_rows: pl.DataFrame, mapping: ColumnMap) -> pl.DataFrame:
    """The rows as the load stage maps them: settled, and located by their number."""
    settled = resolved(mapping, source_rows.columns, default_scope=None)
    numbers = pl.int_range(1, source_rows.height + 1, eager=True)
    return mapped(source_rows, settled, position=pl.lit("f.csv:") + pl.lit(numbers).cast(pl.String))


def said(values: pl.Series | list[Any], *, role: str, kind: str = TEXT) -> pl.DataFrame:
    """Rows of a text each, whose column `given` has the values and plays the role."""
    column = values if isinstance(values, pl.Series) else pl.Series(values)
    return rows_of(pl.DataFrame({"text": ["x"] * len(column), "given": column}), map_of(kind, **{role: "given"}))


# Scope


def scope_of(values: tuple[str, ...]) -> str | None:
    """The scope that the values of as many columns make; None where the row is refused."""
    names = tuple(f"k{n}" for n in range(len(values)))
    frame = pl.DataFrame([values], schema=names, orient="row").with_columns(text=pl.lit("x"))
    row = rows_of(frame, map_of(scope=None, scope_by=names))
    refused = row.select(pl.coalesce("broken", ROWS.broken_rule())).item()
    return None if refused else row["scope"].item()


LISTS = st.lists(WORDS, min_size=1, max_size=3).map(tuple)


@settings(deadline=None)
@given(left=LISTS, right=LISTS)
def test_no_two_lists_of_values_read_as_one_scope_and_no_list_as_a_single_value(
    left: tuple[str, ...], right: tuple[str, ...]
) -> None:
    # The values that would be mistaken for the list, if any could.
    for one, other in ((left, right), (left, (SCOPE_SEPARATOR.join(left),)), (left, ("/".join(left),))):
        first, second = scope_of(one), scope_of(other)
        assert first is None or second is None or (first == second) == (one == other)


@pytest.mark.parametrize("values", [("a␟b",), ("a␟b", "c"), ("a", "␟"), ("␟", "␟")])
def test_a_value_with_the_separator_is_refused_as_a_scope(values: tuple[str, ...]) -> None:
    names = tuple(f"k{n}" for n in range(len(values)))
    frame = pl.DataFrame([values], schema=names, orient="row").with_columns(text=pl.lit("x"))
    assert rows_of(frame, map_of(scope=None, scope_by=names))["broken"].to_list() == ["scope_has_no_separator"]


def test_a_scope_by_name_with_the_separator_is_refused_too() -> None:
    rows = rows_of(pl.DataFrame({"text": ["x", "y"]}), map_of(scope="a␟b"))
    assert rows["broken"].to_list() == ["scope_has_no_separator"] * 2


def test_the_values_of_a_scope_of_several_columns_stay_as_they_are() -> None:
    frame = pl.DataFrame({"a": ["a/b", "a", "a%2Fb"], "b": ["c", "b/c", "c"], "text": "x"})
    rows = rows_of(frame, map_of(scope=None, scope_by=("a", "b")))
    assert rows["scope"].to_list() == ["a/b␟c", "a␟b/c", "a%2Fb␟c"]
    assert rows["broken"].to_list() == [None] * 3


def test_a_scope_of_several_columns_is_null_where_a_part_is_null_or_blank() -> None:
    frame = pl.DataFrame({"a": ["t", None, "t", " ", None], "b": ["u", "u", None, "u", None], "text": "x"})
    assert rows_of(frame, map_of(scope=None, scope_by=("a", "b")))["scope"].to_list() == ["t␟u", None, None, None, None]


def test_a_scope_of_one_column_is_its_value_untouched() -> None:
    frame = pl.DataFrame({"ws": ["a/b", " 100%", None], "text": "x"})
    assert rows_of(frame, map_of(scope=None, scope_by=("ws",)))["scope"].to_list() == ["a/b", " 100%", None]


def test_a_scope_that_is_given_stands_above_the_columns() -> None:
    frame = pl.DataFrame({"ws": ["other"], "text": ["x"]})
    assert rows_of(frame, map_of(scope="mine", scope_by=("ws",)))["scope"].to_list() == ["mine"]


def test_a_source_without_scope_columns_goes_to_the_default_scope() -> None:
    settled = resolved(map_of(scope=None, scope_by=("tenant", "ws")), ["text"], default_scope="default")
    assert (settled.scope, settled.scope_by) == ("default", ())


@pytest.mark.parametrize("spelt", ["WS", "Ws"])
def test_a_scope_column_spelt_in_another_case_never_falls_back_to_the_default(spelt: str) -> None:
    with pytest.raises(MissingColumn, match=f"^no scope column 'ws', but one called '{spelt}'; name it as it is spelt"):
        resolved(map_of(scope=None, scope_by=("ws",)), ["text", spelt], default_scope="default")


def test_a_scope_that_is_there_in_part_never_falls_back_to_the_default() -> None:
    with pytest.raises(MissingColumn, match=r"no scope column 'ws'; .* there are tenant, text$"):
        resolved(map_of(scope=None, scope_by=("tenant", "ws")), ["tenant", "text"], default_scope="default")


@pytest.mark.parametrize("columns", [["text"], ["text", "team"]])
def test_a_missing_scope_without_a_default_names_what_is_missing_and_what_there_is(columns: list[str]) -> None:
    with pytest.raises(MissingColumn, match=f"no scope column 'ws'; .*--scope.* there are {', '.join(columns)}$"):
        resolved(map_of(scope=None, scope_by=("ws",)), columns, default_scope=None)


def test_a_mapping_without_any_scope_is_refused() -> None:
    with pytest.raises(MissingColumn, match="no scope column; name one"):
        resolved(map_of(scope=None, scope_by=()), ["text"], default_scope=None)


# Names


@pytest.mark.parametrize(
    ("columns", "text", "row_id", "doc_id"),
    [
        (["body", "content", "text", "id", "source_row_id", "doc_id"], "text", "id", "doc_id"),
        (
            ["body", "content", "source_row_id", "parsed_spec_id", "document_id"],
            "content",
            "source_row_id",
            "document_id",
        ),
        (["body", "parsed_spec_id", "source_doc_id"], "body", "parsed_spec_id", "source_doc_id"),
        (["body"], "body", None, None),
    ],
)
def test_usual_names_are_found_best_first(
    columns: list[str], text: str, row_id: str | None, doc_id: str | None
) -> None:
    settled = resolved(map_of(), columns, default_scope=None)
    assert (settled.text, settled.row_id, settled.doc_id) == (text, row_id, doc_id)


def test_a_name_that_is_given_stands_above_the_usual_ones() -> None:
    settled = resolved(map_of(text="say", row_id="key"), ["text", "say", "id", "key"], default_scope=None)
    assert (settled.text, settled.row_id) == ("say", "key")


@pytest.mark.parametrize("kind", [TEXT, MEMORY, FILE])
def test_what_folders_say_is_no_ones_id_text_or_time_unless_it_is_named(kind: str) -> None:
    said_by_folders = ["text", "id", "doc_id", "parsed_spec_id", "force", "timestamp", "bytes"]
    columns = ["body", "content", *said_by_folders]
    settled = resolved(map_of(kind), columns, default_scope=None, partitions=set(said_by_folders))
    assert settled == map_of(kind, text="content")
    named = resolved(map_of(kind, row_id="id"), columns, default_scope=None, partitions=set(said_by_folders))
    assert named.row_id == "id"


def test_what_folders_say_is_no_field_of_a_spec_row_unless_it_is_named() -> None:
    columns, partitions = ["spec", "category", "value"], {"category", "value"}
    settled = resolved(map_of(SPEC_ROW, spec={"value": ("value",)}), columns, default_scope=None, partitions=partitions)
    assert {name: used for name, used in settled.spec.items() if used} == {
        "specification": ("spec",),
        "value": ("value",),
    }


def test_what_folders_say_makes_the_scope() -> None:
    settled = resolved(map_of(scope=None, scope_by=("ws",)), ["text", "ws"], default_scope="default", partitions={"ws"})
    assert (settled.scope, settled.scope_by) == (None, ("ws",))


@pytest.mark.parametrize(("kind", "seen_at"), [(MEMORY, "timestamp"), (TEXT, None), (SPEC_ROW, None)])
def test_only_a_memory_is_timed_by_its_timestamp_unasked(kind: str, seen_at: str | None) -> None:
    assert resolved(map_of(kind), ["text", "value", "timestamp"], default_scope=None).seen_at == seen_at


def test_a_file_needs_no_column_of_bytes() -> None:
    assert resolved(map_of(FILE), ["path"], default_scope=None).text is None
    assert resolved(map_of(FILE), ["path", "content", "raw_bytes"], default_scope=None).text == "raw_bytes"


@pytest.mark.parametrize(
    ("given_columns", "role"),
    [
        ({"text": "gone"}, "text"),
        ({"row_id": "gone"}, "row id"),
        ({"doc_id": "gone"}, "document id"),
        ({"parsed_spec_id": "gone"}, "parsed spec id"),
        ({"force": "gone"}, "force"),
        ({"seen_at": "gone"}, "seen at"),
        ({"metadata": ("text", "gone")}, "metadata"),
    ],
)
def test_a_named_column_that_is_missing_is_named_with_its_role_and_what_there_is(
    given_columns: dict[str, Any], role: str
) -> None:
    with pytest.raises(MissingColumn, match=f"^no column 'gone' for {role}; there are text, id$"):
        resolved(map_of(**given_columns), ["text", "id"], default_scope=None)


def test_a_source_without_a_text_says_what_was_tried_and_what_there_is() -> None:
    with pytest.raises(MissingColumn, match=r"tried text, content, body\); .*--text-column.* there are title$"):
        resolved(map_of(), ["title"], default_scope=None)
    with pytest.raises(MissingColumn, match=r"there are none$"):
        resolved(map_of(), [], default_scope=None)


def test_a_spec_table_without_spec_columns_says_so_and_what_there_is() -> None:
    with pytest.raises(MissingColumn, match=r"none of the five spec columns .*spec_columns; there are a, b$"):
        resolved(map_of(SPEC_ROW), ["a", "b"], default_scope=None)
    with pytest.raises(MissingColumn, match="no column 'gone' for value; there are a, b"):
        resolved(map_of(SPEC_ROW, spec={"value": ("a", "gone")}), ["a", "b"], default_scope=None)


@pytest.mark.parametrize("name", ["*", "^t.*$", "", "a b", 'a"b', "ä\n"])
def test_a_column_is_found_by_its_exact_name(name: str) -> None:
    frame = pl.DataFrame({"tail": ["no"], name: ["yes"], "text": ["t"]})
    row = rows_of(frame, map_of(text=name, row_id=name, scope=None, scope_by=(name,), metadata=(name,)))
    assert row.select("text", "source_row_id", "scope").row(0) == ("yes", "yes", "yes")
    assert json.loads(row["metadata"].item()) == {name: "yes"}


# Rows


def test_rows_come_in_the_shape_of_the_contract_with_the_rule_they_break() -> None:
    for frame in (pl.DataFrame({"text": ["a", "b"]}), pl.DataFrame(schema={"text": pl.String})):
        rows = rows_of(frame, map_of())
        assert rows.schema == pl.Schema({**ROWS.dtypes, "broken": pl.String()})
        assert rows.height == frame.height


@pytest.mark.parametrize("height", [0, 1, 3])
def test_rows_of_constants_alone_are_as_many_as_the_source_has(height: int) -> None:
    files = pl.DataFrame({"bytes": [b"x"] * height}, schema={"bytes": pl.Binary})
    settled = resolved(map_of(FILE), files.columns, default_scope=None)
    assert mapped(files, settled, position=pl.lit("f.bin")).height == height


def test_a_row_without_an_id_goes_by_its_position() -> None:
    rows = said(["k", None, ""], role="row_id")
    assert rows["source_row_id"].to_list() == ["k", "f.csv:2", ""]
    assert rows["locator"].to_list() == ["f.csv:1", "f.csv:2", "f.csv:3"]


def test_an_id_stands_after_its_prefix_and_an_id_of_nothing_stays_one() -> None:
    frame = pl.DataFrame({"id": ["1", None, ""], "text": "x"})
    settled = resolved(map_of(), frame.columns, default_scope=None)
    rows = mapped(frame, settled, position=pl.lit("f.csv:2"), id_prefix="f.csv#")
    assert rows["source_row_id"].to_list() == ["f.csv#1", "f.csv:2", ""]


@pytest.mark.parametrize("kind", [TEXT, SPEC_ROW])
def test_json_of_the_source_is_text_where_it_plays_a_role_and_itself_in_the_metadata(kind: str) -> None:
    values = ['"a \\"b\\""', '{"b":[1]}', "2", None]
    frame = pl.DataFrame({"text": "x", "spec": "s", "it": values})
    settled = resolved(map_of(kind, doc_id="it", metadata=("it",)), frame.columns, default_scope=None)
    rows = mapped(frame, settled, position=pl.lit("p"), as_json={"it"})
    assert rows["source_doc_id"].to_list() == ['a "b"', '{"b":[1]}', "2", None]
    key = "table_column_3" if kind == SPEC_ROW else "it"
    shown = [strictly(cell).get(key) if cell else None for cell in rows["metadata"]]
    assert shown == ['a "b"', {"b": [1]}, 2, None]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, -2.0, 0.5, 1e300, None], ["1", "-2", "0.5", "1e+300", None]),
        ([float("nan"), float("inf")], [None, "inf"]),
        ([2.0**53 - 1], ["9007199254740991"]),
        ([7, None], ["7", None]),
        ([Decimal("1.20")], ["1.20"]),
        ([b"caf\xc3\xa9", b"\xff", None], ["café", None, None]),
        ([b"plain", None], ["plain", None]),
        ([["a", None], None, []], ['["a",null]', None, "[]"]),
        ([{"a": 1}, None], ['{"a":1}', None]),
        ([[b"\xff"]], [None]),
        ([date(2024, 2, 29)], ["2024-02-29"]),
        ([timedelta(days=1, seconds=2)], ["P1DT2S"]),
        ([True, None], ["true", None]),
        ([None, None], [None, None]),
    ],
)
def test_a_value_of_any_type_has_its_text_and_null_has_none(values: list[Any], texts: list[str | None]) -> None:
    assert said(values, role="doc_id")["source_doc_id"].to_list() == texts


def test_a_text_keeps_its_layout_inside_and_loses_it_outside() -> None:
    assert rows_of(pl.DataFrame({"text": ["\n a\n\n b \t"]}), map_of())["text"].item() == "a\n\n b"


def test_a_hash_that_the_source_claims_is_not_believed() -> None:
    rows = rows_of(pl.DataFrame({"text": ["a"], "content_hash": ["0" * 64]}), map_of())
    assert rows["content_hash"].item() is None


# Windows


def test_a_window_is_located_by_its_number_and_a_whole_row_by_its_position() -> None:
    rows = rows_of(pl.DataFrame({"text": ["a", "b", "c"], "chunk_index": [0, 1, None]}), map_of())
    assert rows["locator"].to_list() == ["f.csv:1#0", "f.csv:2#1", "f.csv:3"]
    assert rows["chunk_index"].to_list() == [0, 1, None]
    assert rows["broken"].to_list() == [None, None, None]


@pytest.mark.parametrize(
    ("numbers", "whole"),
    [
        (["0", "7", None], [True, True, True]),
        (["x", "1.5", ""], [False, False, False]),
        ([1.0, 0.5], [True, False]),
        ([2**31 - 1, 2**31], [True, False]),
        ([[1], [2]], [False, False]),
    ],
)
def test_a_window_number_that_is_no_whole_number_breaks_a_rule_and_stays_located(
    numbers: list[Any], whole: list[bool]
) -> None:
    rows = rows_of(pl.DataFrame({"text": ["x"] * len(numbers), "chunk_index": numbers}), map_of())
    assert rows["broken"].to_list() == [None if is_whole else CHUNK_INDEX_PARSES for is_whole in whole]
    assert rows["locator"].is_not_null().all()


# Times


@pytest.mark.parametrize(
    "moment",
    [
        "2024-03-01T12:30:00Z",
        "2024-03-01T14:30:00+02:00",
        "2024-03-01 14:30:00+0200",
        "2024-03-01T12:30:00",
        "2024-03-01 12:30:00.000",
        "2024-03-01 12:30",
        " 2024-03-01T12:30 ",
    ],
)
def test_a_time_with_a_zone_is_moved_to_utc_and_one_without_is_read_as_utc(moment: str) -> None:
    rows = said([moment], role="seen_at")
    assert rows["seen_at"].to_list() == [datetime(2024, 3, 1, 12, 30, tzinfo=UTC)]
    assert rows["broken"].to_list() == [None]


def test_times_of_all_spellings_stand_side_by_side_in_one_column() -> None:
    rows = said(["2024-03-01T02:00:00+02:00", "2024-03-01", None, "2024-03-01 00:00"], role="seen_at")
    midnight = MIDNIGHT.item()
    assert rows["seen_at"].to_list() == [midnight, midnight, None, midnight]


@pytest.mark.parametrize(
    "column",
    [
        MIDNIGHT.dt.replace_time_zone(None).dt.cast_time_unit("ns"),
        MIDNIGHT.dt.replace_time_zone(None).dt.cast_time_unit("ms"),
        MIDNIGHT.dt.convert_time_zone("America/Sao_Paulo"),
        MIDNIGHT.dt.date(),
    ],
)
def test_a_column_that_is_already_time_keeps_its_moment(column: pl.Series) -> None:
    assert said(column, role="seen_at")["seen_at"].to_list() == MIDNIGHT.to_list()


@pytest.mark.parametrize(
    "values",
    [["soon", "2024-02-30", "12/31/2024"], [1709251200], [1.5], [["2024-03-01"]], [b"\xff"], [time(3)], [True]],
)
def test_what_is_no_time_breaks_a_rule_and_does_not_stop_the_run(values: list[Any]) -> None:
    rows = said(values, role="seen_at")
    assert rows["broken"].to_list() == [SEEN_AT_PARSES] * len(values)
    assert rows["seen_at"].null_count() == len(values)


# Force


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ([True, False, None], [True, False, False]),
        ([1, 0, None], [True, False, False]),
        ([1.0, 0.0, float("nan"), None], [True, False, False, False]),
        (["true", " YES ", "1", "T", "y"], [True] * 5),
        (["false", "no", "0", "", "maybe", None], [False] * 6),
        ([b"true", b"\xff", None], [True, False, False]),
        ([date(2024, 1, 1)], [False]),
        ([["true"]], [False]),
        ([None], [False]),
    ],
)
def test_force_is_read_however_it_is_spelled(values: list[Any], flags: list[bool]) -> None:
    assert said(values, role="force")["force"].to_list() == flags


def test_force_spelled_as_a_category_is_read_too() -> None:
    assert said(pl.Series(["yes", "no"], dtype=pl.Categorical), role="force")["force"].to_list() == [True, False]


# Metadata


def told(values: pl.Series | list[Any], *, name: str = "k") -> list[Any]:
    """What the metadata says of a column; None where there is no metadata at all."""
    column = values if isinstance(values, pl.Series) else pl.Series(values)
    rows = rows_of(pl.DataFrame({"text": ["x"] * len(column), name: column}), map_of())
    return [None if cell is None else strictly(cell)[name] for cell in rows["metadata"]]


def strictly(cell: str) -> dict[str, Any]:
    """The object of a cell of JSON, without the words that only Python's reader takes for numbers."""

    def refused(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    read: dict[str, Any] = json.loads(cell, parse_constant=refused)
    return read


@settings(deadline=None)
@given(values=st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.none(), min_size=1, max_size=6))
def test_any_text_comes_back_from_the_metadata_as_it_was(values: list[str | None]) -> None:
    assert told(pl.Series(values, dtype=pl.String)) == values


@settings(deadline=None)
@given(name=st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name not in ROLES))
def test_any_column_name_comes_back_from_the_metadata_as_it_was(name: str) -> None:
    assert told(["v"], name=name) == (["v"] if name not in {"content_hash", "chunk_index"} else [None])


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([1, None, -(2**62)], [1, None, -(2**62)]),
        ([0.5, float("nan"), float("inf"), -float("inf"), 1e300], [0.5, None, None, None, 1e300]),
        ([True, False, None], [True, False, None]),
        ([date(2024, 1, 2)], ["2024-01-02"]),
        ([datetime(2024, 1, 2, 3, tzinfo=UTC)], ["2024-01-02 03:00:00.000000+00:00"]),
        ([time(3, 4)], ["03:04:00"]),
        ([timedelta(hours=1)], ["PT1H"]),
        ([Decimal("1.20"), None], ["1.20", None]),
        ([['a"\n', None], [], None], [['a"\n', None], [], None]),
        ([{"a": 1, "b": {"c": "é"}}, None], [{"a": 1, "b": {"c": "é"}}, None]),
        ([[1.0, float("nan")]], [[1.0, None]]),
        ([[date(2024, 1, 2)]], [["2024-01-02"]]),
        ([b"\xff", b"x"], [None, None]),
        ([[b"\xff"]], [None]),
        ([{"a": [{"b": b"\xff"}]}], [None]),
        ([None, None], [None, None]),
    ],
)
def test_a_value_of_any_type_is_valid_json_or_left_out(values: list[Any], read: list[Any]) -> None:
    assert told(values) == read


def test_metadata_has_the_columns_that_play_no_role_in_order_of_name_and_leaves_out_nulls() -> None:
    frame = pl.DataFrame({"z": [1, None], "id": ["1", "2"], "b": ["x", None], "text": ["t", "t"], "a": [None, None]})
    assert rows_of(frame, map_of())["metadata"].to_list() == ['{"b":"x","z":1}', None]
    shuffled = frame.select("a", "text", "b", "id", "z")
    assert rows_of(shuffled, map_of())["metadata"].to_list() == ['{"b":"x","z":1}', None]


def test_metadata_that_is_asked_for_is_all_there_is() -> None:
    frame = pl.DataFrame({"id": ["1"], "text": ["t"], "a": ["x"], "b": ["y"]})
    assert rows_of(frame, map_of(metadata=("b", "id", "b")))["metadata"].item() == '{"b":"y","id":"1"}'
    assert rows_of(frame, map_of(metadata=()))["metadata"].item() is None


# Spec rows


def test_a_spec_row_has_its_text_and_all_its_columns_by_number_and_its_fields_by_name() -> None:
    table = pl.DataFrame({"category": ["Engine"], "spec": ["Power "], "value": [90.0], "unit": ["kW"], "note": [None]})
    row = rows_of(table, map_of(SPEC_ROW))
    assert row["text"].item() == "Category: Engine\nSub-Category: \nSpecification: Power\nValue: 90\nAdditional: "
    assert json.loads(row["metadata"].item()) == {
        "parent_category": "Engine",
        "specification": "Power ",
        "value": "90",
        "table_column_1": "Engine",
        "table_column_2": "Power ",
        "table_column_3": 90.0,
        "table_column_4": "kW",
    }


def test_a_field_of_several_columns_names_each_and_leaves_out_nulls() -> None:
    table = pl.DataFrame({"v": ["90", "90", None], "unit": ["kW", None, None], "spec": ["P", "P", "P"]})
    rows = rows_of(table, map_of(SPEC_ROW, spec={"value": ("v", "unit"), "additional": ()}))
    lines = [text.splitlines()[3] for text in rows["text"]]
    assert lines == ["Value: v: 90; unit: kW", "Value: v: 90", "Value: "]


def test_a_mapped_field_stands_above_its_usual_name() -> None:
    table = pl.DataFrame({"value": ["no"], "reading": ["yes"]})
    row = rows_of(table, map_of(SPEC_ROW, spec={"value": ("reading",)}))
    assert "Value: yes" in row["text"].item()


def test_a_spec_row_goes_by_its_parsed_spec_id_where_it_has_no_other() -> None:
    row = rows_of(pl.DataFrame({"parsed_spec_id": [41.0], "value": ["x"]}), map_of(SPEC_ROW))
    assert row.select("source_row_id", "parsed_spec_id").row(0) == ("41", "41")


def test_a_spec_row_with_nothing_in_its_five_fields_breaks_the_rule_of_the_contract() -> None:
    rows = rows_of(pl.DataFrame({"value": [" ", None, "x"], "other": ["a", "b", "c"]}), map_of(SPEC_ROW))
    assert rows.select(ROWS.broken_rule())["literal"].to_list() == ["spec_row_is_not_empty"] * 2 + [None]
