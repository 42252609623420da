"""The content contract in plain Python: what every column of `normalize` and `hashing` must agree with."""

import hashlib
import unicodedata

SPEC_LABELS = ("Category", "Sub-Category", "Specification", "Value", "Additional")


def normalize(text: str) -> str:
    """Unicode NFC, whitespace runs one space, trimmed; case stays."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def text_hash(scope: str, text: str) -> str:
    """`sha256(scope + ":" + normalize(text))`."""
    return _sha256(f"{scope}:{normalize(text)}".encode())


def file_hash(scope: str, raw: bytes) -> str:
    """`sha256(scope + ":" + raw)`, the bytes as they are."""
    return _sha256(f"{scope}:".encode() + raw)


def spec_text(fields: tuple[str, str, str, str, str]) -> str:
    """The five fields, each normalized by itself, under their labels."""
    return "\n".join(f"{label}: {normalize(value)}" for label, value in zip(SPEC_LABELS, fields, strict=True))


def spec_row_hash(fields: tuple[str, str, str, str, str]) -> str:
    """`sha256` of the spec row's text, without its scope."""
    return _sha256(spec_text(fields).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
