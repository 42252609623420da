"""A warehouse to measure on: a night on a corpus, whose candidate pairs nobody has judged."""

from pathlib import Path

import polars as pl

from flows.console import Progress
from flows.night import night
from flows.settings import Settings, load_settings

SCOPE = "bench"


def unjudged(texts: pl.Series, folder: Path, warehouse: Path) -> Settings:
    """The settings of the warehouse, made now where it is not there yet, with the judge switched on as by default."""
    settings = load_settings(Path("/dev/null"), over={"warehouse": {"path": str(warehouse)}})
    if not warehouse.exists():
        pl.DataFrame(texts.rename("text")).with_row_index("id").write_parquet(folder / "rows.parquet")
        given = {"path": str(folder / "rows.parquet"), "name": "corpus", "scope": SCOPE}
        over = {"inputs": [given], "warehouse": {"path": str(warehouse)}, "judge": {"enabled": False}}
        night(load_settings(Path("/dev/null"), over=over), progress=Progress(quiet=True))
    return settings
