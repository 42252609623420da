"""A file written whole or not at all, for others to read."""

import os
import tempfile
from pathlib import Path

_FOR_ALL_TO_READ = 0o644


def write_whole(path: Path, text: str, *, mode: int | None = None) -> None:
    """Writes the file beside its place and renames it there: a reader finds the old one or the new one. `mode` is that
    of the file whatever the umask; without it, the umask's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            os.fchmod(file.fileno(), _FOR_ALL_TO_READ & ~_umask() if mode is None else mode)
            file.flush()
            os.fsync(file.fileno())
        Path(unfinished).replace(path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The umask, which can only be read by setting it."""
    now = os.umask(0o077)
    os.umask(now)
    return now
