"""Nights for tests: run one in this process, and read what it published. They embed nothing unless told to."""

from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from flows.console import Progress
from flows.night import Outcome, night
from flows.plan import Pending
from flows.settings import Settings, load_settings
from flows.warehouse import Warehouse

NO_FILE = Path("/dev/null")


def settings_of(folder: Path, /, *inputs: dict[str, Any], **sections: Any) -> Settings:
    """Settings of these inputs alone: no file, only what the environment of the tests sets."""
    warehouse = {"path": str(folder)} | sections.pop("warehouse", {})
    return load_settings(
        NO_FILE, over={"embedding": {"encoder": "none"}, "inputs": list(inputs), "warehouse": warehouse, **sections}
    )


def run_night(folder: Path, /, *inputs: dict[str, Any], pending: Pending = "new", **sections: Any) -> Outcome:
    """One night over these inputs into the warehouse of this folder."""
    return night(settings_of(folder, *inputs, **sections), progress=Progress(quiet=True), pending=pending)


def said_by_night(folder: Path, /, *inputs: dict[str, Any], pending: Pending = "new", **sections: Any) -> str:
    """What one night says on its way."""
    said = StringIO()
    progress = Progress(console=Console(file=said, highlight=False, soft_wrap=True, emoji=False))
    night(settings_of(folder, *inputs, **sections), progress=progress, pending=pending)
    return said.getvalue()


def published(folder: Path, table: str) -> pl.DataFrame:
    """The rows of a table as the latest published run has them."""
    dataset = Warehouse(str(folder)).open(table)
    assert dataset is not None, f"{table}: nothing is published"
    rows = pl.from_arrow(dataset.to_table())
    assert isinstance(rows, pl.DataFrame)
    return rows
