"""Outputs of stages on their way to the warehouse: whole or not there at all.

A stage writes into a folder that gets its name only when the stage is done. After a crash, a rerun on the same
input finds the whole ones and goes on from there.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from blake3 import blake3

from flows.errors import NightfoldError

_RESULT = "result.json"
_NAME = re.compile(r"[0-9a-f]{16}")


class NotStaged(NightfoldError):
    """What a stage made could not be kept, or what an earlier one kept cannot be read."""


def staging_root(configured: str | None, warehouse: Path) -> Path:
    """Where the runs of a warehouse stage: a folder of its own, also where several share the configured one."""
    if configured is None:
        return warehouse / "staging"
    return Path(configured) / f"nightfold-{blake3(str(warehouse.resolve()).encode()).hexdigest()[:12]}"


def staging_name(identity: str) -> str:
    """The name of the staging folder of a run with this identity."""
    return blake3(identity.encode()).hexdigest()[:16]


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
        try:
            partial.mkdir(parents=True)
            result = work(partial)
            (partial / _RESULT).write_text(json.dumps(result))
            for file in partial.iterdir():
                _to_disk(file)
            keep(partial, done)
        except (OSError, pa.ArrowException, pl.exceptions.ComputeError) as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise NotStaged(
                f"{self.folder}: stage {stage} could not be kept: {why}; make room, and run again"
            ) from error
        return done, result, False

    def result(self, stage: str) -> dict[str, Any]:
        """What a stage that is done has counted."""
        known = _result(self.folder / stage)
        if known is None:
            raise NotStaged(f"{self.folder}: stage {stage} has not run; run again")
        return known

    def drop(self) -> None:
        """Remove what was staged: it is published, or was never to be."""
        shutil.rmtree(self.folder, ignore_errors=True)


def keep(unfinished: Path, done: Path) -> None:
    """Gives a whole file or folder its name, and not before it is on disk: a power failure leaves no half of it."""
    _to_disk(unfinished)
    unfinished.rename(done)
    _to_disk(done.parent)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _result(done: Path) -> dict[str, Any] | None:
    try:
        result: dict[str, Any] = json.loads((done / _RESULT).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return result


def drop_others(root: Path, *, keep: str) -> None:
    """Remove the staging of earlier runs that this run cannot go on from, and nothing else that lies there."""
    if root.is_dir():
        for folder in root.iterdir():
            if folder.name != keep and _NAME.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
