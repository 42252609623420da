"""Nights for tests: run one in this process, and read what it published."""

from pathlib import Path
from typing import Any

import polars as pl

from flows.console import Progress
from flows.night import Outcome, night
from flows.settings import Settings, load_settings
from flows.warehouse import Warehouse

NO_FILE = Path("/dev/null")


def settings_of(folder: Path, /, *inputs: dict[str, Any], **sections: Any) -> Settings:
    """Settings of these inputs alone: no file, only what the environment of the tests sets."""
    warehouse = {"path": str(folder)} | sections.pop("warehouse", {})
    return load_settings(NO_FILE, over={"inputs": list(inputs), "warehouse": warehouse, **sections})


def run_night(folder: Path, /, *inputs: dict[str, Any], **sections: Any) -> Outcome:
    """One night over these inputs into the warehouse of this folder."""
    return night(settings_of(folder, *inputs, **sections), progress=Progress(quiet=True))


def published(folder: Path, table: str) -> pl.DataFrame:
    """The rows of a table as the latest published run has them."""
    dataset = Warehouse(str(folder)).open(table)
    assert dataset is not None, f"{table}: nothing is published"
    rows = pl.from_arrow(dataset.to_table())
    assert isinstance(rows, pl.DataFrame)
    return rows
