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
        done = self.folder / stage
        if (done / _RESULT).exists():
            return done, json.loads((done / _RESULT).read_text()), True
        partial = self.folder / f"{stage}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        result = work(partial)
        (partial / _RESULT).write_text(json.dumps(result))
        partial.rename(done)
        return done, result, False

    def path(self, stage: str) -> Path:
        return self.folder / stage

    def drop(self) -> None:
        """Remove what was staged: it is published, or was never to be."""
        shutil.rmtree(self.folder, ignore_errors=True)


def drop_others(root: Path, *, keep: str) -> None:
    """Remove the staging of earlier runs that this run cannot go on from."""
    if root.is_dir():
        for folder in root.iterdir():
            if folder.name != keep:
                shutil.rmtree(folder, ignore_errors=True)
