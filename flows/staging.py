"""Outputs of stages on their way to the warehouse: whole or not there at all.

A stage writes into a folder that gets its name only when the stage is done. After a crash, a rerun on the same
input finds the whole ones and goes on from there.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RESULT = "result.json"


@dataclass(frozen=True)
class Staging:
    """The staging folder of one run."""

    folder: Path

    def run(self, stage: str, work: Callable[[Path], dict[str, Any]]) -> tuple[Path, dict[str, Any], bool]:
        """The stage's folder, its result, and whether it was there already. `work` fills the folder it is given."""
        done, partial = self.folder / stage, self.folder / f"{stage}.partial"
        if (known := _result(done)) is not None:
            return done, known, True
        # Also what has the name of a whole one without its result: someone emptied it by hand, or the power failed.
        for remains in (done, partial):
            shutil.rmtree(remains, ignore_errors=True)
        partial.mkdir(parents=True)
        result = work(partial)
        (partial / _RESULT).write_text(json.dumps(result))
        partial.rename(done)
        return done, result, False

    def drop(self) -> None:
        """Remove what was staged: it is published, or was never to be."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _result(done: Path) -> dict[str, Any] | None:
    try:
        result: dict[str, Any] = json.loads((done / _RESULT).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return result


def drop_others(root: Path, *, keep: str) -> None:
    """Remove the staging of earlier runs that this run cannot go on from."""
    if root.is_dir():
        for folder in root.iterdir():
            if folder.name != keep:
                shutil.rmtree(folder, ignore_errors=True)
