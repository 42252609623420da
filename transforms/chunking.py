"""Documents to chunks: a sliding window over tokens that no embedding model can move."""

import re
from itertools import islice

import polars as pl

# Scripts written without spaces: kana, ideographs and Hangul, each character a token of its own.
_CHARACTER_SCRIPTS = (
    "\u1100-\u11ff"  # Hangul jamo
    "\u3005-\u30ff"  # ideographic marks, Hiragana, Katakana
    "\u3130-\u318f"  # Hangul compatibility jamo
    "\u31f0-\u31ff"  # Katakana phonetic extensions
    "\u3400-\u4dbf\u4e00-\u9fff"  # CJK ideographs
    "\ua960-\ua97f\uac00-\ud7ff"  # Hangul jamo extended, syllables
    "\uf900-\ufaff"  # CJK compatibility ideographs
    "\uff66-\uffdc"  # halfwidth Katakana and Hangul
    "\U0001aff0-\U0001b16f"  # kana supplement and extensions
    "\U00020000-\U0003fffd"  # the ideographic planes
)

# Not the embedding model's tokens: the borders of chunks, and with them their hashes, must stay where they are when
# the model changes. The cap of 24 bounds a window of text without spaces (base64, long identifiers, Thai).
# What the first branch leaves to `\S` is one character of the scripts above, or one that belongs to no word.
TOKEN = re.compile(rf"[^\W{_CHARACTER_SCRIPTS}]{{1,24}}|\S")


def windows(text: str, *, tokens: int, overlap: int) -> list[str]:
    """Slices of the text, `tokens` tokens each and the last at most that, neighbours sharing `overlap` tokens.

    Every token is in some window, and every window ends after the one before it. A text of at most `tokens` tokens
    is one window, stripped; a text without tokens has none.
    """
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: a window holds at least 1 token; raise tokens")
    if not 0 <= overlap < tokens:
        raise ValueError(f"overlap={overlap}: must be at least 0 and below tokens={tokens}; change one of the two")
    step = tokens - overlap
    # One pass for the starts and one for the ends, both skipping in C: no list of tokens is ever held.
    starts = (token.start() for token in islice(TOKEN.finditer(text), 0, None, step))
    ends = (token.end() for token in islice(TOKEN.finditer(text), tokens - 1, None, step))
    slices: list[str] = []
    covered, text_end = 0, len(text.rstrip())
    # The ends come first: when they run out, the start of the unfinished window has not been taken yet.
    for end, start in zip(ends, starts, strict=False):
        slices.append(text[start:end])
        covered = end
    if covered < text_end:
        slices.append(text[next(starts) : text_end])
    return slices


def chunk_documents(documents: pl.DataFrame, *, tokens: int, overlap: int, text: str = "text") -> pl.DataFrame:
    """One row per window of a document's `text`, in the order of documents, then of `chunk_index` (Int32, from 0).

    The other columns are repeated. A text that is null or has no token stays one row as it is, so that the input
    contract can reject it by name.
    """
    if "chunk_index" in documents.columns:
        raise ValueError("documents: already has a column chunk_index; chunk each document once, or rename the column")
    whole = documents[text].cast(pl.String)
    pieces = [(one and windows(one, tokens=tokens, overlap=overlap)) or [one] for one in whole]
    return (
        documents.with_columns(pl.Series(text, pieces, dtype=pl.List(pl.String)))
        .with_columns(pl.int_ranges(pl.col(text).list.len(), dtype=pl.Int32).alias("chunk_index"))
        .explode(text, "chunk_index")
    )
