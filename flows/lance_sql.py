"""SQL straight on the Lance tables, by DuckDB's `lance` extension where its package is installed."""

from importlib.util import find_spec
from pathlib import Path

import duckdb

_PACKAGE = "duckdb_extension_lance"
# What a statement says that needs it.
_WORDS = ("lance_", ".lance")


def load_lance(connection: duckdb.DuckDBPyConnection, statement: str) -> bool:
    """Loads the extension for a statement that needs it; False where it does not, or the package is not there."""
    said = statement.lower()
    if not any(word in said for word in _WORDS):
        return False
    path = lance_extension()
    if path is None:
        return False
    connection.load_extension(str(path))
    return True


def lance_extension() -> Path | None:
    """The file of the extension for this DuckDB; `load '...'` takes it in any connection."""
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "extensions" / f"v{duckdb.__version__}" / "lance.duckdb_extension"
    return path if path.exists() else None
