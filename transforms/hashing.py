"""The content hash that other systems compute too, and the ids derived from it."""

import hashlib
from collections.abc import Iterable

import polars as pl
from polars_hash import CryptographicHashingNameSpace, NonCryptographicHashingNameSpace

from schemas.terms import FILE, SPEC_ROW
from transforms.normalize import normalized

# Ids are the first 16 bytes of BLAKE3, in hex: short enough to read out, and no two contents will ever share one.
_ID_CHARACTERS = 32
# Parts of an id's preimage are set apart by a character that no part but the last can hold.
_BETWEEN = "\x1f"


def _sha256(text: pl.Expr) -> pl.Expr:
    return CryptographicHashingNameSpace(text).sha2_256()


def derived_id(*parts: pl.Expr) -> pl.Expr:
    """An id made of its parts alone. A part that is null reads as empty."""
    preimage = pl.concat_str([part.cast(pl.String).fill_null("") for part in parts], separator=_BETWEEN)
    return CryptographicHashingNameSpace(preimage).blake3().str.head(_ID_CHARACTERS)


def file_hash(scope: str, blocks: Iterable[bytes]) -> str:
    """SHA-256 of `scope:` and the raw bytes, which may come in blocks."""
    digest = hashlib.sha256(f"{scope}:".encode())
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def with_content_hash(rows: pl.LazyFrame, *, kinds: Iterable[str]) -> pl.LazyFrame:
    """Adds `content_hash` by each row's kind. A file row brings its hash along; it was made from the bytes.

    `kinds` are those the rows may have: a kind that is not there costs nothing.
    """
    kinds = set(kinds)
    content = pl.concat_str(pl.col("scope"), pl.lit(":"), normalized(pl.col("text")))
    if kinds == {SPEC_ROW}:
        content = pl.col("text")
    elif SPEC_ROW in kinds:
        content = pl.when(pl.col("kind") == SPEC_ROW).then(pl.col("text")).otherwise(content)
    content_hash = _sha256(content)
    if FILE in kinds:
        content_hash = pl.when(pl.col("kind") == FILE).then(pl.col("content_hash")).otherwise(content_hash)
    return rows.with_columns(content_hash=content_hash)


def with_ids(rows: pl.LazyFrame, *, unchecked_scopes: Iterable[str]) -> pl.LazyFrame:
    """Adds `keep_apart`, `chunk_id`, `occurrence_id` and `layout_digest`.

    Rows of one (scope, content_hash) share a `chunk_id`, but a row that is kept apart (it says `force`, or its scope
    is in `unchecked_scopes`) has one of its own, derived from where it came from. So has a row without a hash:
    two unknown contents are not the same. `layout_digest` is null where there is no text.
    """
    keep_apart = pl.col("force").fill_null(value=False) | pl.col("scope").is_in(list(unchecked_scopes))
    origin = derived_id(pl.col("chunk_index"), pl.col("source"), pl.col("source_row_id"))
    apart = pl.when(pl.col("keep_apart") | pl.col("content_hash").is_null()).then(origin).otherwise(pl.lit(""))
    # The same row in another corpus is another occurrence.
    place = pl.concat_str(
        pl.col("chunk_index").cast(pl.String).fill_null(""), pl.lit("@") + pl.col("corpus_id"), ignore_nulls=True
    )
    return (
        rows.with_columns(keep_apart=keep_apart)
        # A content hash and an origin have fixed lengths, so no scope can imitate another's preimage.
        .with_columns(chunk_id=derived_id(pl.col("content_hash"), apart, pl.col("scope")))
        .with_columns(
            occurrence_id=derived_id(pl.col("chunk_id"), place, pl.col("source"), pl.col("source_row_id")),
            layout_digest=NonCryptographicHashingNameSpace(pl.col("text")).xxh3_64(),
        )
    )
