"""From a source's own columns to the input contract."""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import polars as pl
import polars.selectors as cs
from polars._typing import PolarsDataType

from schemas.rows import CORPUS_IS_PRESENT, ROWS, SCOPE_IS_UNJOINED, SCOPE_SEPARATOR, SPEC_FIELDS
from schemas.terms import FILE, MEMORY, SPEC_ROW
from transforms.spec_rows import spec_text

# Names a column goes by where none is configured, best first.
_USUAL_NAMES = {
    "text": ("text", "content", "body"),
    "row_id": ("id", "source_row_id", "parsed_spec_id"),
    "doc_id": ("doc_id", "source_doc_id", "document_id"),
    "parsed_spec_id": ("parsed_spec_id",),
    "force": ("force",),
}
_USUAL_BYTES = ("bytes", "raw_bytes", "content", "text")
_USUAL_TIMES = ("timestamp",)
_USUAL_CORPUS = ("corpus_id",)
# Whose a memory is; nobody else's is compared with it.
_USUAL_OWNER = "owner_key"
_USUAL_SPEC_NAMES = {
    "parent_category": ("parent_category", "parent", "category"),
    "sub_category": ("sub_category", "subcategory", "sub"),
    "specification": ("specification", "spec"),
    "value": ("value",),
    "additional": ("additional", "meta", "additional_info"),
}

SEEN_AT_PARSES = "seen_at_is_a_timestamp"
CHUNK_INDEX_PARSES = "chunk_index_is_a_whole_number"


class MissingColumn(ValueError):
    """A column that the mapping names, or needs, is not in the source."""


@dataclass(frozen=True)
class ColumnMap:
    """Which column of a source is what. None: the usual names are tried."""

    kind: str
    source: str
    scope: str | None = None
    scope_by: tuple[str, ...] = ()
    text: str | None = None
    row_id: str | None = None
    doc_id: str | None = None
    parsed_spec_id: str | None = None
    force: str | None = None
    seen_at: str | None = None
    metadata: tuple[str, ...] | None = None
    spec: dict[str, tuple[str, ...]] = field(default_factory=dict)
    corpus: str | None = None
    corpus_id: str | None = None
    has_corpora: bool = False
    """Whether there are corpora that a column of the usual name can mean."""
    scope_is_usual: bool = False
    """Whether `scope_by` is what holds where an input says nothing of its own."""

    @property
    def is_of_corpora(self) -> bool:
        """Whether the corpus of a row says its scope."""
        return self.corpus is not None or self.corpus_id is not None


def resolved(
    mapping: ColumnMap, columns: Sequence[str], *, default_scope: str | None, partitions: Set[str] = frozenset()
) -> ColumnMap:
    """The mapping with every name settled for a source of these columns, or MissingColumn saying what there is.

    `default_scope` is the scope of a source that has none of the scope columns; without it such a source is refused.
    Those of `partitions` are the same in all rows: by their usual names, they are no one's id, text or time.
    """
    own = [name for name in columns if name not in partitions]
    usual_corpus = _USUAL_CORPUS if mapping.has_corpora and mapping.corpus is None else ()
    corpus_id = _settled("corpus", mapping.corpus_id, usual_corpus, columns, columns)
    mapping = replace(mapping, corpus_id=corpus_id)
    if mapping.kind == MEMORY and mapping.scope_is_usual and _USUAL_OWNER in columns:
        # What else makes a scope still does: owners of one name in two workspaces are two.
        others = (name for name in mapping.scope_by if name in columns and name != _USUAL_OWNER)
        mapping = replace(mapping, scope_by=(*others, _USUAL_OWNER))
    scope, scope_by = (None, ()) if mapping.is_of_corpora else _settled_scope(mapping, columns, default_scope)
    for name in mapping.metadata or ():
        _settled("metadata", name, (), columns, own)
    return replace(
        mapping,
        scope=scope,
        scope_by=scope_by,
        text=_settled_text(mapping, columns, own),
        row_id=_settled("row id", mapping.row_id, _USUAL_NAMES["row_id"], columns, own),
        doc_id=_settled("document id", mapping.doc_id, _USUAL_NAMES["doc_id"], columns, own),
        parsed_spec_id=_settled("parsed spec id", mapping.parsed_spec_id, _USUAL_NAMES["parsed_spec_id"], columns, own),
        force=_settled("force", mapping.force, _USUAL_NAMES["force"], columns, own),
        seen_at=_settled("seen at", mapping.seen_at, _USUAL_TIMES if mapping.kind == MEMORY else (), columns, own),
        spec=_settled_spec(mapping, columns, own) if mapping.kind == SPEC_ROW else {},
    )


def _settled(
    role: str, given: str | None, usual: tuple[str, ...], columns: Sequence[str], own: Sequence[str]
) -> str | None:
    """The column that was given, which must be there, or the first of the usual names that the source itself has."""
    if given is None:
        return next((name for name in usual if name in own), None)
    if given not in columns:
        raise MissingColumn(f"no column {given!r} for {role}; there are {_listed(columns)}")
    return given


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "none"


def _settled_text(mapping: ColumnMap, columns: Sequence[str], own: Sequence[str]) -> str | None:
    if mapping.kind == SPEC_ROW:
        return None
    if mapping.kind == FILE:
        return _settled("text", mapping.text, _USUAL_BYTES, columns, own)
    text = _settled("text", mapping.text, _USUAL_NAMES["text"], columns, own)
    if text is None:
        raise MissingColumn(
            f"no text column (tried {', '.join(_USUAL_NAMES['text'])}); "
            f"name one with --text-column or text_column; there are {_listed(columns)}"
        )
    return text


def _settled_spec(mapping: ColumnMap, columns: Sequence[str], own: Sequence[str]) -> dict[str, tuple[str, ...]]:
    spec: dict[str, tuple[str, ...]] = {}
    for name in SPEC_FIELDS:
        if name in mapping.spec:
            spec[name] = tuple(str(_settled(name, column, (), columns, own)) for column in mapping.spec[name])
        else:
            usual = _settled(name, None, _USUAL_SPEC_NAMES[name], columns, own)
            spec[name] = (usual,) if usual else ()
    if not any(spec.values()):
        raise MissingColumn(
            f"none of the five spec columns ({', '.join(SPEC_FIELDS)}); "
            f"map them with spec_columns; there are {_listed(columns)}"
        )
    return spec


def _settled_scope(
    mapping: ColumnMap, columns: Sequence[str], default_scope: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """One scope for all rows, or the columns that make it."""
    if mapping.scope is not None:
        return mapping.scope, mapping.scope_by
    missing = [name for name in mapping.scope_by if name not in columns]
    if mapping.scope_by and not missing:
        return None, mapping.scope_by
    spelt = {name.lower(): name for name in columns}
    for name in missing:
        if name.lower() in spelt:
            raise MissingColumn(
                f"no scope column {name!r}, but one called {spelt[name.lower()]!r}; name it as it is spelt with "
                "--scope-column or scope_by"
            )
    # The default stands in for a source without scopes, never for a part of them: that would tear down the wall.
    if default_scope is not None and len(missing) == len(mapping.scope_by):
        return default_scope, ()
    raise MissingColumn(
        f"no scope column{' ' if missing else ''}{', '.join(map(repr, missing))}; name one with --scope-column or "
        f"scope_by, or one scope for all rows with --scope or scope; there are {_listed(columns)}"
    )


def mapped(
    source_rows: pl.DataFrame,
    mapping: ColumnMap,
    *,
    position: pl.Expr,
    id_prefix: str = "",
    as_json: Set[str] = frozenset(),
) -> pl.DataFrame:
    """The source's rows in the shape of ROWS, and `broken`: the rule that only the raw value can show to be broken.

    As many rows as the source has, in its order. `mapping` is resolved. `position` says where each row stands; a row
    without an id of its own goes by it, one with an id by that after `id_prefix`. The columns of `as_json` have JSON:
    it goes into the metadata as it is; elsewhere, a text is itself and the rest stays JSON.
    """
    names = source_rows.columns
    written = {name: source_rows[name] for name in as_json}
    source_rows = source_rows.with_columns(_unquoted(values) for values in written.values())
    is_window = "chunk_index" in names
    chunk_index = _as_index(source_rows, "chunk_index" if is_window else None)
    locator = pl.coalesce(position + pl.lit("#") + chunk_index.cast(pl.String), position)
    used = {mapping.text, mapping.row_id, mapping.doc_id, mapping.parsed_spec_id, mapping.force, mapping.seen_at}
    used |= {*mapping.scope_by, mapping.corpus_id, "content_hash", "chunk_index"}
    if mapping.kind == SPEC_ROW:
        fields = {name: _field(source_rows, mapping.spec[name]) for name in SPEC_FIELDS}
        by_number = {f"table_column_{n}": name for n, name in enumerate(names, 1)}
        extra = {number: _column(name) for number, name in by_number.items()} | fields
        written = {number: written[name] for number, name in by_number.items() if name in written}
    else:
        shown = [name for name in names if name not in used] if mapping.metadata is None else mapping.metadata
        extra = {name: _column(name) for name in shown}
    row_id = _as_text(source_rows, mapping.row_id)
    # An id of nothing stays one, so that its rule refuses it.
    row_id = pl.when(row_id != "").then(pl.lit(id_prefix) + row_id).otherwise(row_id)
    scope_values = _scope_values(source_rows, mapping)
    seen_at = _as_time(source_rows, mapping.seen_at)
    corpus_id = _as_text(source_rows, mapping.corpus_id)
    if mapping.corpus is not None:
        corpus_id = pl.lit(mapping.corpus)
    text = pl.lit(None, dtype=pl.String)
    if mapping.kind == SPEC_ROW:
        text = spec_text(fields)
    elif mapping.kind != FILE:
        text = _as_text(source_rows, mapping.text).str.strip_chars()
    columns = {
        "scope": _scope(scope_values),
        "kind": pl.lit(mapping.kind),
        "source": pl.lit(mapping.source),
        "source_row_id": pl.coalesce(row_id, position),
        "locator": locator,
        "source_doc_id": _as_text(source_rows, mapping.doc_id),
        "chunk_index": chunk_index,
        "parsed_spec_id": _as_text(source_rows, mapping.parsed_spec_id),
        "text": text,
        "metadata": _json(source_rows, extra, written=written),
        "force": _as_flag(source_rows, mapping.force),
        "seen_at": seen_at,
        "corpus_id": corpus_id,
    }
    is_joined = pl.any_horizontal(value.str.contains(SCOPE_SEPARATOR, literal=True) for value in scope_values)
    broken: pl.Expr = pl.when(is_joined).then(pl.lit(SCOPE_IS_UNJOINED))
    if mapping.is_of_corpora:
        is_named = corpus_id.str.contains(r"\S").fill_null(value=False)
        broken = pl.when(~is_named).then(pl.lit(CORPUS_IS_PRESENT))
    if mapping.seen_at is not None:
        bad_time = _column(mapping.seen_at).is_not_null() & seen_at.is_null()
        broken = pl.when(bad_time).then(pl.lit(SEEN_AT_PARSES)).otherwise(broken)
    if is_window:
        bad_index = pl.col("chunk_index").is_not_null() & chunk_index.is_null()
        broken = pl.when(bad_index).then(pl.lit(CHUNK_INDEX_PARSES)).otherwise(broken)
    # Not `select` alone: where all is constant it gives one row, however many the source has.
    mapped_rows = source_rows.with_columns(**columns, broken=broken).select(*columns, "broken")
    return ROWS.shaped(mapped_rows).with_columns(mapped_rows["broken"])


def _column(name: str) -> pl.Expr:
    """The column of exactly this name: to `pl.col`, `*` and `^...$` are patterns."""
    return cs.by_name(name).as_expr()


def _unquoted(values: pl.Series) -> pl.Series:
    """JSON with its texts as they are."""
    if not values.str.starts_with('"').any():
        return values
    said = [json.loads(value) if value is not None and value.startswith('"') else value for value in values]
    return pl.Series(values.name, said, dtype=pl.String)


def _as_text(rows: pl.DataFrame, name: str | None) -> pl.Expr:
    """A column as text: a whole number that was read as a float is written without its point, lists and structs as
    JSON. NaN and bytes that are no UTF-8 are null."""
    if name is None:
        return pl.lit(None, dtype=pl.String)
    column, dtype = _column(name), rows.schema[name]
    if dtype.is_float():
        column = column.fill_nan(None)
        whole = (column == column.round()) & column.is_finite() & (column.abs() < 2**53)
        return (
            pl.when(whole).then(column.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(column.cast(pl.String))
        )
    if dtype == pl.Binary:
        return column.map_batches(_decoded, return_dtype=pl.String, is_elementwise=True)
    if _holds_bytes(dtype):
        return pl.lit(None, dtype=pl.String)
    if dtype.is_nested():
        member = pl.struct(column.alias("v")).struct.json_encode()
        return pl.when(column.is_not_null()).then(member.str.slice(len('{"v":')).str.head(-1))
    return column.dt.to_string("iso") if dtype == pl.Duration else column.cast(pl.String)


def _decoded(values: pl.Series) -> pl.Series:
    """Bytes as UTF-8; null where they are none."""
    try:
        return values.cast(pl.String)
    except pl.exceptions.PolarsError:
        return pl.Series(values.name, [_utf8(value) for value in values], dtype=pl.String)


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _holds_bytes(dtype: PolarsDataType) -> bool:
    """True for bytes and for lists and structs with bytes somewhere in them: JSON has no word for those."""
    if isinstance(dtype, pl.Struct):
        return any(_holds_bytes(member.dtype) for member in dtype.fields)
    if isinstance(dtype, pl.List | pl.Array):
        return _holds_bytes(dtype.inner)
    return dtype == pl.Binary


def _as_index(rows: pl.DataFrame, name: str | None) -> pl.Expr:
    """A column as Int32; what is no whole number, or too large for one, is null."""
    if name is None:
        return pl.lit(None, dtype=pl.Int32)
    column = _column(name) if rows.schema[name].is_integer() else _as_text(rows, name)
    return column.cast(pl.Int32, strict=False)


def _as_flag(rows: pl.DataFrame, name: str | None) -> pl.Expr:
    if name is None:
        return pl.lit(value=False)
    column, dtype = _column(name), rows.schema[name]
    if dtype.is_float():
        column = column.fill_nan(None)
    if dtype.is_numeric() or dtype == pl.Boolean:
        return column.cast(pl.Boolean).fill_null(value=False)
    said = _as_text(rows, name).str.strip_chars().str.to_lowercase()
    return said.is_in(["true", "1", "yes", "t", "y"]).fill_null(value=False)


def _as_time(rows: pl.DataFrame, name: str | None) -> pl.Expr:
    """A column as a moment in UTC; what has no zone is read as UTC, what is no time is null."""
    if name is None:
        return pl.lit(None, dtype=pl.Datetime("us", "UTC"))
    column, dtype = _column(name), rows.schema[name]
    if isinstance(dtype, pl.Datetime):
        in_us = column.dt.cast_time_unit("us")
        return in_us.dt.replace_time_zone("UTC") if dtype.time_zone is None else in_us.dt.convert_time_zone("UTC")
    if dtype == pl.Date:
        return column.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    text = _as_text(rows, name).str.strip_chars()
    zoned = text.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
    formats = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M")
    plain = [text.str.to_datetime(f, time_unit="us", strict=False).dt.replace_time_zone("UTC") for f in formats]
    dated = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return pl.coalesce(zoned, *plain, dated)


def _scope_values(rows: pl.DataFrame, mapping: ColumnMap) -> list[pl.Expr]:
    """What makes the scope of each row: its name, or the values of the columns. Of rows in a corpus it is not known
    here."""
    if mapping.is_of_corpora:
        return [pl.lit(None, dtype=pl.String)]
    if mapping.scope is not None:
        return [pl.lit(mapping.scope)]
    return [_as_text(rows, name) for name in mapping.scope_by]


def _scope(values: list[pl.Expr]) -> pl.Expr:
    """A single value as it is, because it is hashed; several joined, null where one of them is null or blank."""
    if len(values) == 1:
        return values[0]
    present = pl.all_horizontal(value.str.contains(r"\S").fill_null(value=False) for value in values)
    return pl.when(present).then(pl.concat_str(values, separator=SCOPE_SEPARATOR))


def _field(rows: pl.DataFrame, names: tuple[str, ...]) -> pl.Expr:
    """A spec field: the one column's value, or `name: value; name: value` of several."""
    if not names:
        return pl.lit(None, dtype=pl.String)
    if len(names) == 1:
        return _as_text(rows, names[0])
    return pl.concat_str(
        [pl.lit(f"{name}: ") + _as_text(rows, name) for name in names], separator="; ", ignore_nulls=True
    )


def _json(rows: pl.DataFrame, values: dict[str, pl.Expr], *, written: Mapping[str, pl.Series]) -> pl.Expr:
    """The values as one JSON object a row, names in order; null where nothing is left.

    Left out are nulls and what JSON has no word for: bytes, NaN and infinities. Those of `written` are JSON already.
    """
    dtypes = rows.lazy().select(value.alias(name) for name, value in values.items()).collect_schema()
    members = []
    for name, dtype in sorted(dtypes.items()):
        if name in written:
            members.append(pl.lit(json.dumps(name, ensure_ascii=False) + ":") + pl.lit(written[name]))
            continue
        if _holds_bytes(dtype):
            continue
        value = values[name]
        if dtype.is_float():
            value = pl.when(value.is_finite()).then(value)
        elif dtype == pl.Duration:
            value = value.dt.to_string("iso")
        elif not (dtype.is_numeric() or dtype.is_nested() or dtype in (pl.String, pl.Boolean)):
            value = value.cast(pl.String)
        wrapped = pl.struct(value.alias(name)).struct.json_encode()
        members.append(pl.when(value.is_not_null()).then(wrapped.str.head(-1).str.slice(1)))
    if not members:
        return pl.lit(None, dtype=pl.String)
    inside = pl.concat_str(members, separator=",", ignore_nulls=True)
    return pl.when(inside.str.len_bytes() > 0).then(pl.lit("{") + inside + pl.lit("}"))
