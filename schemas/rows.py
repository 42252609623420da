"""The input contract: what a row must be to come in. A row that breaks a rule goes to `rejects` under its name."""

import polars as pl
import pyarrow as pa

from schemas.contract import Contract
from schemas.terms import FILE, KINDS, SPEC_ROW

# Between the values of a scope of several columns. No value may hold it: then no two lists of values read the same, and
# none reads as a single value or as the name of a scope.
SCOPE_SEPARATOR = "\u241f"
# Before an owner's name, in the scope of what is theirs alone. Values that make a scope are not blank and hold no
# separator: none that is given, of one column or several, begins with it.
PERSONAL_SCOPE = f"{SCOPE_SEPARATOR}personal{SCOPE_SEPARATOR}"
SPEC_FIELDS = ("parent_category", "sub_category", "specification", "value", "additional")

_has_ink = pl.col("text").str.contains(r"[^\s\x1c-\x1f\x{85}]")

ROWS = Contract(
    name="rows",
    shape=pa.schema(
        [
            ("scope", pa.large_string()),
            ("kind", pa.large_string()),
            ("source", pa.large_string()),
            ("source_row_id", pa.large_string()),
            ("locator", pa.large_string()),
            ("source_doc_id", pa.large_string()),
            ("chunk_index", pa.int32()),
            ("parsed_spec_id", pa.large_string()),
            ("text", pa.large_string()),
            ("metadata", pa.large_string()),
            ("content_hash", pa.large_string()),
            ("force", pa.bool_()),
            ("seen_at", pa.timestamp("us", tz="UTC")),
            ("corpus_id", pa.large_string()),
        ]
    ),
    key=("scope", "source", "source_row_id", "chunk_index", "corpus_id"),
    rules={
        "scope_is_present": pl.col("scope").str.contains(r"\S"),
        "kind_is_known": pl.col("kind").is_in(KINDS),
        "source_row_id_is_present": pl.col("source_row_id").str.len_bytes() > 0,
        "spec_row_is_not_empty": (pl.col("kind") != SPEC_ROW) | pl.col("text").is_not_null(),
        "text_is_present": (pl.col("kind") == FILE) | pl.col("text").is_not_null(),
        "text_is_not_empty": (pl.col("kind") == FILE) | _has_ink,
        "file_has_bytes": (pl.col("kind") != FILE) | pl.col("content_hash").is_not_null(),
    },
    about="an input row, mapped, before it is hashed",
)

# Rules that only the whole input, a reader, or the values that make the scope can show to be broken.
ID_IS_UNIQUE = "source_row_id_is_unique"
TEXT_FITS = "text_fits_max_text_bytes"
LINE_PARSES = "line_parses"
SCOPE_IS_UNJOINED = "scope_has_no_separator"

# Rules of rows that come in a corpus.
CORPUS_IS_PRESENT = "corpus_is_present"
CORPUS_EXISTS = "corpus_exists"
