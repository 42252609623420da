"""Where on this machine things are kept that can be made, or asked for, again."""

import os
from pathlib import Path


def cache_folder(configured: str | None, *, name: str) -> Path:
    """The configured folder, or `nightfold/<name>` in the user's cache folder."""
    if configured is not None:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules: a relative path there is to be ignored.
    home = Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()
    return home / "nightfold" / name
