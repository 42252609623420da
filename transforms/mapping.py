"""From a source's own columns to the input contract."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from schemas.rows import ROWS, SPEC_FIELDS
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
_USUAL_SPEC_NAMES = {
    "parent_category": ("parent_category", "parent", "category"),
    "sub_category": ("sub_category", "subcategory", "sub"),
    "specification": ("specification", "spec"),
    "value": ("value",),
    "additional": ("additional", "meta", "additional_info"),
}

SEEN_AT_PARSES = "seen_at_is_a_timestamp"


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


def resolved(mapping: ColumnMap, columns: Sequence[str], *, default_scope: str | None) -> ColumnMap:
    """The mapping with every name settled for a source of these columns, or MissingColumn saying what there is."""

    def settle(role: str, given: str | None, usual: tuple[str, ...]) -> str | None:
        if given is not None:
            if given not in columns:
                raise MissingColumn(f"no column {given!r} for {role}; there are {', '.join(columns) or 'none'}")
            return given
        return next((name for name in usual if name in columns), None)

    text = None
    if mapping.kind != SPEC_ROW:
        text = settle("text", mapping.text, _USUAL_BYTES if mapping.kind == FILE else _USUAL_NAMES["text"])
        if text is None and mapping.kind != FILE:
            raise MissingColumn(
                f"no text column (tried {', '.join(_USUAL_NAMES['text'])}); "
                f"name one with --text-column or text_column; there are {', '.join(columns) or 'none'}"
            )
    spec: dict[str, tuple[str, ...]] = {}
    if mapping.kind == SPEC_ROW:
        for name in SPEC_FIELDS:
            given = mapping.spec.get(name)
            if given is None:
                usual = settle(name, None, _USUAL_SPEC_NAMES[name])
                spec[name] = (usual,) if usual else ()
            else:
                spec[name] = tuple(str(settle(name, column, ())) for column in given)
        if not any(spec.values()):
            raise MissingColumn(
                f"none of the five spec columns ({', '.join(SPEC_FIELDS)}); "
                f"map them with spec_columns; there are {', '.join(columns) or 'none'}"
            )
    scope, scope_by = mapping.scope, mapping.scope_by
    if scope is None:
        missing = [name for name in scope_by if name not in columns]
        if missing and default_scope is None:
            raise MissingColumn(
                f"no scope column {', '.join(map(repr, missing))}; name one with --scope-column or scope_by, "
                f"or one scope for all rows with --scope or scope; there are {', '.join(columns) or 'none'}"
            )
        if missing:
            scope, scope_by = default_scope, ()
    if mapping.metadata is not None:
        for name in mapping.metadata:
            settle("metadata", name, ())
    return replace(
        mapping,
        scope=scope,
        scope_by=scope_by,
        text=text,
        row_id=settle("row id", mapping.row_id, _USUAL_NAMES["row_id"]),
        doc_id=settle("document id", mapping.doc_id, _USUAL_NAMES["doc_id"]),
        parsed_spec_id=settle("parsed spec id", mapping.parsed_spec_id, _USUAL_NAMES["parsed_spec_id"]),
        force=settle("force", mapping.force, _USUAL_NAMES["force"]),
        seen_at=settle("seen at", mapping.seen_at, _USUAL_TIMES if mapping.kind == MEMORY else ()),
        spec=spec,
    )


def mapped(source_rows: pl.DataFrame, mapping: ColumnMap, *, position: pl.Expr) -> pl.DataFrame:
    """The source's rows in the shape of ROWS, and `broken`: the rule that only the raw value can show to be broken.

    `mapping` is resolved. `position` says where each row stands; a row without an id of its own goes by it.
    """
    names = source_rows.columns
    is_window = "chunk_index" in names
    locator = position + pl.lit("#") + pl.col("chunk_index").cast(pl.String) if is_window else position
    used = {mapping.text, mapping.row_id, mapping.doc_id, mapping.parsed_spec_id, mapping.force, mapping.seen_at}
    used |= {*mapping.scope_by, "content_hash", "chunk_index"}
    if mapping.kind == SPEC_ROW:
        fields = {name: _field(source_rows, mapping.spec[name]) for name in SPEC_FIELDS}
        extra = [pl.col(name).alias(f"table_column_{n}") for n, name in enumerate(names, 1)]
        extra += [value.alias(name) for name, value in fields.items()]
    else:
        extra = [pl.col(n) for n in (mapping.metadata or names) if n not in used or mapping.metadata is not None]
    row_id = _as_text(source_rows, mapping.row_id)
    seen_at = _as_time(source_rows, mapping.seen_at)
    text = pl.lit(None, dtype=pl.String)
    if mapping.kind == SPEC_ROW:
        text = spec_text(fields)
    elif mapping.kind != FILE:
        text = _as_text(source_rows, mapping.text).str.strip_chars()
    columns = {
        "scope": _scope(source_rows, mapping),
        "kind": pl.lit(mapping.kind),
        "source": pl.lit(mapping.source),
        "source_row_id": pl.coalesce(row_id, position),
        "locator": locator,
        "source_doc_id": _as_text(source_rows, mapping.doc_id),
        "parsed_spec_id": _as_text(source_rows, mapping.parsed_spec_id),
        "text": text,
        "metadata": _json(source_rows, extra),
        "force": _as_flag(source_rows, mapping.force),
        "seen_at": seen_at,
    }
    if is_window:
        columns["chunk_index"] = pl.col("chunk_index").cast(pl.Int32)
    broken = pl.lit(None, dtype=pl.String)
    if mapping.seen_at is not None:
        bad_time = pl.col(mapping.seen_at).is_not_null() & seen_at.is_null()
        broken = pl.when(bad_time).then(pl.lit(SEEN_AT_PARSES)).otherwise(broken)
    mapped_rows = source_rows.select(**columns, broken=broken)
    return ROWS.shaped(mapped_rows).with_columns(mapped_rows["broken"])


def _as_text(rows: pl.DataFrame, name: str | None) -> pl.Expr:
    """A column as text: a whole number that was read as a float is written without its point."""
    if name is None:
        return pl.lit(None, dtype=pl.String)
    column, dtype = pl.col(name), rows.schema[name]
    if dtype.is_float():
        whole = (column == column.round()) & column.is_finite() & (column.abs() < 2**53)
        return pl.when(whole).then(column.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(column.cast(pl.String))
    if dtype == pl.Binary:
        return column.cast(pl.String, strict=False)
    if dtype.is_nested():
        return pl.struct(column.alias("v")).struct.json_encode()
    return column.cast(pl.String)


def _as_flag(rows: pl.DataFrame, name: str | None) -> pl.Expr:
    if name is None:
        return pl.lit(value=False)
    column = pl.col(name)
    if rows.schema[name] == pl.String:
        return column.str.strip_chars().str.to_lowercase().is_in(["true", "1", "yes", "t", "y"]).fill_null(value=False)
    return column.cast(pl.Boolean).fill_null(value=False)


def _as_time(rows: pl.DataFrame, name: str | None) -> pl.Expr:
    """A column as a moment in UTC; what has no zone is read as UTC, what is no time is null."""
    if name is None:
        return pl.lit(None, dtype=pl.Datetime("us", "UTC"))
    column, dtype = pl.col(name), rows.schema[name]
    if isinstance(dtype, pl.Datetime):
        in_us = column.dt.cast_time_unit("us")
        return in_us.dt.replace_time_zone("UTC") if dtype.time_zone is None else in_us.dt.convert_time_zone("UTC")
    if dtype == pl.Date:
        return column.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    text = column.cast(pl.String)
    zoned = text.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)
    formats = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M")
    plain = [text.str.to_datetime(f, time_unit="us", strict=False).dt.replace_time_zone("UTC") for f in formats]
    dated = text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return pl.coalesce(zoned, *plain, dated)


def _scope(rows: pl.DataFrame, mapping: ColumnMap) -> pl.Expr:
    """The scope of each row. Of several columns, each is escaped so that no two lists of values read the same."""
    if mapping.scope is not None:
        return pl.lit(mapping.scope)
    parts = [_as_text(rows, name) for name in mapping.scope_by]
    if len(parts) == 1:
        return parts[0]
    escaped = [part.str.replace_all("%", "%25", literal=True).str.replace_all("/", "%2F", literal=True) for part in parts]
    present = pl.all_horizontal(part.str.contains(r"\S").fill_null(value=False) for part in parts)
    return pl.when(present).then(pl.concat_str(escaped, separator="/"))


def _field(rows: pl.DataFrame, names: tuple[str, ...]) -> pl.Expr:
    """A spec field: the one column's value, or `name: value; name: value` of several."""
    if not names:
        return pl.lit(None, dtype=pl.String)
    if len(names) == 1:
        return _as_text(rows, names[0])
    return pl.concat_str([pl.lit(f"{name}: ") + _as_text(rows, name) for name in names], separator="; ", ignore_nulls=True)


def _json(rows: pl.DataFrame, columns: list[pl.Expr]) -> pl.Expr:
    """The columns as one JSON object a row, names in order, nulls left out; null where nothing is left."""
    if not columns:
        return pl.lit(None, dtype=pl.String)
    shown = rows.lazy().select(columns).collect_schema()
    members = []
    for name in sorted(shown):
        dtype = shown[name]
        if dtype == pl.Binary:
            continue
        value = next(column for column in columns if column.meta.output_name() == name)
        plain = dtype.is_numeric() or dtype.is_nested() or dtype in (pl.String, pl.Boolean)
        wrapped = pl.struct((value if plain else value.cast(pl.String)).alias(name)).struct.json_encode()
        members.append(pl.when(value.is_not_null()).then(wrapped.str.head(-1).str.slice(1)))
    if not members:
        return pl.lit(None, dtype=pl.String)
    inside = pl.concat_str(members, separator=",", ignore_nulls=True)
    return pl.when(inside.str.len_bytes() > 0).then(pl.lit("{") + inside + pl.lit("}"))

