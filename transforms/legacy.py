"""Legacy rows: which table they are an export of, which column is what, and what their hashes and embeddings are
worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from polars._typing import PolarsDataType

from schemas.terms import (
    EMBEDDING_NONE,
    EMBEDDING_NOT_FINITE,
    EMBEDDING_OTHER_MODEL,
    EMBEDDING_UNKNOWN_MODEL,
    EMBEDDING_UNREADABLE,
    EMBEDDING_USABLE,
    EMBEDDING_WRONG_DIMENSION,
    EMBEDDING_ZERO,
    HASH_MISSING,
    HASH_RIGHT,
    HASH_WRONG,
    MEMORY,
    TEXT,
)
from transforms.embedding import unit
from transforms.hashing import derived_id

DOCUMENTS = "documents"
# What a column of a legacy table is for. `scope` is the owner of a memory; elsewhere [scope] by names the wall.
ROLES = ("text", "id", "scope", "doc_id", "seen_at", "hash", "embedding", "model")
_EMBEDDING = {"embedding": ("embedding", "vector"), "model": ("embedding_model", "model_name", "model")}
# What a text embedding may be wrapped in: of JSON, of pgvector, of an array as PostgreSQL writes it.
_WRAPPING = " \t\r\n[]{}()"


class UnknownShape(ValueError):
    """Columns that are those of none of the shapes, or of more than one."""


@dataclass(frozen=True)
class Shape:
    """A legacy table: the names its columns go by, best first, and the columns that tell it from the others."""

    name: str
    kind: str
    columns: Mapping[str, tuple[str, ...]]
    needs: tuple[str, ...]
    telling: tuple[str, ...]
    is_cut: bool = False


SHAPES = (
    Shape(
        name="knowledge_chunks",
        kind=TEXT,
        columns={
            "text": ("chunk_text", "content", "text"),
            "id": ("id", "chunk_id"),
            "doc_id": ("source_doc_id", "document_id", "doc_id"),
            "seen_at": ("created_at",),
            "hash": ("content_hash",),
            **_EMBEDDING,
        },
        needs=("text",),
        telling=(
            *("chunk_text", "chunk_index", "source_doc_id", "document_id", "doc_id"),
            *("content_hash", "embedding", "embedding_model"),
        ),
    ),
    Shape(
        name=DOCUMENTS,
        kind=TEXT,
        columns={
            "text": ("content", "body", "text"),
            "id": ("id", "document_id"),
            "doc_id": ("document_id", "doc_id", "id"),
            "seen_at": ("created_at", "uploaded_at"),
            "hash": ("content_hash",),
            **_EMBEDDING,
        },
        needs=("text",),
        telling=("title", "body", "file_hash", "file_name", "filename", "file_path", "mime_type", "uploaded_at"),
        is_cut=True,
    ),
    Shape(
        name="memories",
        kind=MEMORY,
        columns={
            "text": ("content", "text", "memory"),
            "id": ("id", "memory_id"),
            "scope": ("owner_key", "user_id", "owner_id"),
            "seen_at": ("created_at", "timestamp"),
            "hash": ("content_hash",),
            **_EMBEDDING,
        },
        needs=("text", "scope"),
        telling=("owner_key", "user_id", "owner_id", "session_id", "session", "role", "memory", "timestamp"),
    ),
)
_BY_NAME = {shape.name: shape for shape in SHAPES}


def shape_of(columns: Sequence[str], given: str | None = None) -> tuple[Shape, list[str]]:
    """The shape of a table with these columns, and the columns that told it; the one that is given, where one is.

    UnknownShape names the columns that were looked for.
    """
    if given is not None:
        return _BY_NAME[given], []
    told = {
        shape.name: [name for name in shape.telling if name in columns]
        for shape in SHAPES
        if all(any(name in columns for name in shape.columns[role]) for role in shape.needs)
    }
    # A memory's owner is among what it needs, so that columns of chunks beside it do not make it one.
    most = max(map(len, told.values()), default=0)
    best = [name for name, telling in told.items() if len(telling) == most]
    if most and len(best) == 1:
        return _BY_NAME[best[0]], told[best[0]]
    there = ", ".join(columns) or "none"
    if most:
        raise UnknownShape(f"may be {' or '.join(best)} by its columns; say which with --shape. There are {there}")
    looked_for = "; ".join(
        f"{shape.name}: " + " and ".join("/".join(shape.columns[role]) for role in shape.needs) + " beside one of "
        f"{', '.join(shape.telling)}"
        for shape in SHAPES
    )
    raise UnknownShape(
        f"columns of no known table; say which it is with --shape, and name its columns. Looked for {looked_for}. "
        f"There are {there}"
    )


def usual_columns(shape: Shape, columns: Sequence[str]) -> dict[str, str]:
    """The column of each role that the table has, by the names that the shape knows; the text is left out where there
    is none, so that the mapping tells of it."""
    found = {role: next((name for name in names if name in columns), None) for role, names in shape.columns.items()}
    return {role: name for role, name in found.items() if name is not None}


def checked_embeddings(
    rows: pl.DataFrame,
    *,
    embedding: str | None,
    model_column: str | None,
    stated_model: str | None,
    model: str | None,
    dimensions: int,
) -> pl.DataFrame:
    """`vector` (of unit length, null where it is not usable) and `embedding_was` of each row, in their order.

    Usable is a finite vector other than zero, of `dimensions`, and of `model` by the row's own word or, for a row
    that does not say, by `stated_model`.
    """
    dtype = pl.Array(pl.Float32, dimensions)
    if embedding is None:
        return pl.DataFrame(
            {"vector": pl.Series([None] * rows.height, dtype=dtype), "embedding_was": [EMBEDDING_NONE] * rows.height},
            schema={"vector": dtype, "embedding_was": pl.String},
        )
    numbers, is_unreadable = _as_numbers(rows[embedding])
    own = pl.lit(None, dtype=pl.String) if model_column is None else pl.col(model_column).cast(pl.String)
    said = rows.select(pl.coalesce(own, pl.lit(stated_model, dtype=pl.String)).alias("said"))["said"]
    if said.len() != rows.height:  # all of it is constant
        said = said.new_from_index(0, rows.height) if rows.height else said.clear()
    told = pl.DataFrame({"numbers": numbers, "is_unreadable": is_unreadable, "said": said})
    values = pl.col("numbers")
    finite = values.list.eval(pl.element().is_finite().fill_null(value=False)).list.all()
    # The first that holds; what is left is usable.
    reasons = (
        (pl.col("is_unreadable"), EMBEDDING_UNREADABLE),
        (values.is_null(), EMBEDDING_NONE),
        (pl.col("said").is_null(), EMBEDDING_UNKNOWN_MODEL),
        (pl.col("said") != pl.lit(model, dtype=pl.String).fill_null(""), EMBEDDING_OTHER_MODEL),
        (values.list.len() != dimensions, EMBEDDING_WRONG_DIMENSION),
        (~finite, EMBEDDING_NOT_FINITE),
        (values.list.eval(pl.element() == 0).list.all(), EMBEDDING_ZERO),
    )
    was = pl.lit(EMBEDDING_USABLE)
    for holds, reason in reversed(reasons):
        was = pl.when(holds).then(pl.lit(reason)).otherwise(was)
    told = told.select("numbers", embedding_was=was)
    is_usable = told["embedding_was"] == EMBEDDING_USABLE
    usable = told["numbers"].filter(is_usable).explode().to_numpy().reshape(-1, dimensions)
    at = is_usable.arg_true()
    units = pl.DataFrame({"at": at, "vector": pl.Series(unit(usable.copy()), dtype=dtype)})
    placed = pl.DataFrame({"at": pl.arange(rows.height, eager=True, dtype=pl.UInt32)})
    vectors = placed.join(units.cast({"at": pl.UInt32}), on="at", how="left", maintain_order="left")["vector"]
    return pl.DataFrame({"vector": vectors, "embedding_was": told["embedding_was"]})


def _as_numbers(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The embeddings as lists of numbers, and which of them say no numbers at all."""
    dtype = values.dtype
    if isinstance(dtype, pl.Array) and len(dtype.shape) == 1 and dtype.inner.is_numeric():
        return values.arr.to_list().cast(pl.List(pl.Float64)), _no(values)
    if isinstance(dtype, pl.List) and _is_number(dtype.inner):
        return values.cast(pl.List(pl.Float64)), _no(values)
    if dtype != pl.String:
        return pl.Series([None] * values.len(), dtype=pl.List(pl.Float64)), values.is_not_null()
    # JSON has no word for NaN, and null takes its place.
    parts = values.str.strip_chars(_WRAPPING).str.replace_all("null", "NaN", literal=True).str.split(",")
    numbers = parts.list.eval(pl.element().str.strip_chars().cast(pl.Float64, strict=False))
    is_unreadable = numbers.list.eval(pl.element().is_null()).list.any().fill_null(value=False)
    return numbers.set(is_unreadable, None), is_unreadable


def _is_number(dtype: PolarsDataType) -> bool:
    return dtype.is_numeric() if isinstance(dtype, pl.DataType) else False


def _no(values: pl.Series) -> pl.Series:
    return pl.repeat(value=False, n=values.len(), eager=True, dtype=pl.Boolean)


def hash_was(given: pl.Expr, contract: pl.Expr) -> pl.Expr:
    """What a legacy hash is worth beside the one of the contract. Case aside: hex is written in either."""
    said = given.str.strip_chars().str.to_lowercase()
    return (
        pl.when(said.is_null() | (said == ""))
        .then(pl.lit(HASH_MISSING))
        .when(said == contract)
        .then(pl.lit(HASH_RIGHT))
        .otherwise(pl.lit(HASH_WRONG))
    )


def legacy_id() -> pl.Expr:
    """The key of a legacy row: where it came from, whatever it says."""
    return derived_id(pl.col("chunk_index"), pl.col("source"), derived_id(pl.col("scope")), pl.col("source_row_id"))


def row_digest() -> pl.Expr:
    """All that a row says, of itself and for its hash and embedding: a row with the same digest changes nothing."""
    free = [derived_id(pl.col(name)) for name in ("scope", "source_row_id", "source_doc_id", "text", "metadata")]
    plain = [pl.col(name) for name in ("chunk_index", "kind", "force", "hash_given", "embedding_was")]
    return derived_id(*free, *plain, pl.col("seen_at").dt.epoch("us"))
