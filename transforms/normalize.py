"""Normal form of a text: Unicode NFC, every whitespace run one space, trimmed. Case stays."""

import unicodedata

import polars as pl

# What Python's `str.split()` splits on, as a regex class. Rust's `\s` lacks U+001C..U+001F.
_BREAKS = r"\t-\r\x1c-\x1f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"

# Only what must change: a run of two or more, or a single break that is not a space. Replacing every
# `\s+` would rewrite each word gap and is several times slower.
_TO_COLLAPSE = rf"[ {_BREAKS}]{{2,}}|[{_BREAKS}]"

# Characters that are in NFC wherever they stand: no combining class, no decomposition that NFC changes,
# never the second half of a composition. A text of only these needs no normalization; a test proves it
# for every one of them. Any other text takes the exact path.
_NFC_SAFE = (
    r"\x00-\x{2ff}\x{370}-\x{373}\x{375}-\x{37d}\x{37f}-\x{386}\x{388}-\x{482}\x{488}-\x{52f}\x{531}-\x{587}"
    r"\x{5d0}-\x{5ea}\x{620}-\x{64a}\x{2002}-\x{206f}\x{20a0}-\x{20c0}\x{2190}-\x{2328}\x{232b}-\x{2adb}"
    r"\x{3001}-\x{3029}\x{3041}-\x{3096}\x{309b}-\x{30ff}\x{4e00}-\x{9fff}\x{ac00}-\x{d7a3}\x{ff01}-\x{ffef}"
    r"\x{1f300}-\x{1faff}"
)
_MAY_NOT_BE_NFC = rf"[^{_NFC_SAFE}]"


# An ASCII text without these is in normal form but for spaces at its ends. Each is a search that runs at the speed of
# memory; `_TO_COLLAPSE` does not.
_ASCII_BREAKS = r"[\t-\r\x1c-\x1f]"
_TWO_SPACES = "  "


def _nfc(texts: pl.Series) -> pl.Series:
    """Each text in NFC, as `unicodedata` has it: other libraries carry other Unicode versions."""
    unsafe = texts.str.contains(_MAY_NOT_BE_NFC).arg_true()
    if not unsafe.len():
        return texts
    exact = [unicodedata.normalize("NFC", text) for text in texts.gather(unsafe)]
    return texts.scatter(unsafe, pl.Series(exact, dtype=pl.String))


def _changed(texts: pl.Series) -> pl.Series:
    """The texts in NFC with their whitespace runs collapsed; only those that may need it are looked at closely."""
    suspects = (
        (texts.str.len_bytes() != texts.str.len_chars())
        | texts.str.contains(_TWO_SPACES, literal=True)
        | texts.str.contains(_ASCII_BREAKS)
    ).arg_true()
    if not suspects.len():
        return texts
    return texts.scatter(suspects, _nfc(texts.gather(suspects)).str.replace_all(_TO_COLLAPSE, " "))


def normalized(text: pl.Expr) -> pl.Expr:
    """The normal form of each text; null stays null. Equal to `" ".join(nfc(text).split())` for every string."""
    return text.map_batches(_changed, return_dtype=pl.String, is_elementwise=True).str.strip_chars(" ")
