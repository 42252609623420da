"""What a stage sees of the tables: tonight's files over what was published, also by a program that knew less."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import polars as pl
import pytest

from flows.run_rows import NOTHING_COUNTED
from flows.tonight import NOMINATED, Tonight
from flows.warehouse import Run, Warehouse
from schemas.tables import CHUNKS, PAIRS, SEPARATIONS
from schemas.terms import EQUIVALENT, LINKED, MERGED, PUBLISHED, STORED_AS_NEW
from tests.nights import run_night

A, B, C = (letter * 32 for letter in "abc")
JUDGED_LATER = ["reading", "stands", "evidence", "decided_by", "action"]


def pairs_of(*actions: tuple[str, str, str | None]) -> pl.DataFrame:
    """Pairs (left, right, action) that are equivalent; those without an action were never judged."""
    rows = [
        {
            "pair_id": f"{number:032d}",
            "left_id": left,
            "right_id": right,
            "scope": "acme",
            "similarity": 0.9,
            "relation": EQUIVALENT,
            "action": action,
            "decided_by": None if action is None else "rule",
        }
        for number, (left, right, action) in enumerate(actions)
    ]
    return PAIRS.shaped(pl.DataFrame(rows, schema_overrides={"action": pl.String, "decided_by": pl.String}))


def published_pairs(folder: Path, pairs: pl.DataFrame) -> Tonight:
    """A night after one that published these pairs, and found no new ones itself."""
    run_night(folder / "w", *_nothing_in(folder))
    warehouse = Warehouse(str(folder / "w"))
    run = warehouse.published()
    assert run is not None
    written = lance.write_dataset(pairs.to_arrow(), f"{warehouse.location}/pairs.lance", mode="overwrite")
    for name in ("near", "exact", "embed"):
        (folder / "s" / name).mkdir(parents=True)
    PAIRS.empty().write_parquet(folder / "s" / "near" / "pairs.parquet")
    PAIRS.empty().select("pair_id").write_parquet(folder / "s" / "near" / "pairs-cut.parquet")
    return Tonight(
        folder / "s", warehouse, replace(run, table_versions={**run.table_versions, "pairs": written.version})
    )


def _nothing_in(folder: Path) -> list[dict[str, str]]:
    pl.DataFrame({"id": ["1"], "text": ["one"]}).write_parquet(folder / "in.parquet")
    return [{"path": str(folder / "in.parquet"), "scope": "acme"}]


def test_pairs_that_no_night_judged_are_judged_tonight_but_for_those_that_were_cut(tmp_path: Path) -> None:
    tonight = published_pairs(tmp_path, pairs_of((A, B, MERGED), (A, C, None), (B, C, None)))
    pl.DataFrame({"pair_id": [f"{2:032d}"]}).write_parquet(tmp_path / "s" / "near" / "pairs-cut.parquet")
    waiting = tonight.pairs_to_judge()
    assert waiting.select("left_id", "right_id", "is_known").rows() == [(A, C, True)]


def test_pairs_of_a_program_that_judged_nothing_all_wait(tmp_path: Path) -> None:
    tonight = published_pairs(tmp_path, pairs_of((A, B, None), (A, C, None)).drop(JUDGED_LATER))
    assert tonight.pairs_to_judge().height == 2
    assert tonight.merge_edges(pl.DataFrame({"chunk_id": [A, B, C]})).is_empty()
    assert tonight.disagreements().is_empty()


def test_an_edge_is_a_merge_or_an_equivalent_that_was_linked_between_these_chunks(tmp_path: Path) -> None:
    tonight = published_pairs(tmp_path, pairs_of((A, B, MERGED), (A, C, LINKED), (B, C, STORED_AS_NEW)))
    every = tonight.merge_edges(pl.DataFrame({"chunk_id": [A, B, C]}))
    assert sorted(every.select("left_id", "right_id").rows()) == [(A, B), (A, C)]
    assert tonight.merge_edges(pl.DataFrame({"chunk_id": [A, B]})).select("right_id").rows() == [(B,)]


def test_a_column_that_a_table_has_not_gained_yet_is_null(tmp_path: Path) -> None:
    tonight = published_pairs(tmp_path, pairs_of((A, B, None)).drop(JUDGED_LATER))
    assert tonight.read(PAIRS, ["left_id", "evidence"]).rows() == [(A, None)]


@pytest.mark.parametrize("run", [None, "no such table"])
def test_before_there_is_a_table_there_are_no_rows_in_its_shape(tmp_path: Path, run: str | None) -> None:
    tonight = Tonight(tmp_path, Warehouse(str(tmp_path / "w")), None if run is None else _run_without_tables())
    assert tonight.read(SEPARATIONS, ["pair_id", "left_id"]).schema == {"pair_id": pl.String, "left_id": pl.String}
    assert tonight.merge_edges(CHUNKS.empty().select("chunk_id")).is_empty()
    assert tonight.lookup(PAIRS, pl.Series([A]), NOMINATED).columns == NOMINATED


def _run_without_tables() -> Run:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    nothing: dict[str, Any] = {**NOTHING_COUNTED, "restores": None, "table_versions": {}, "settings": {}, "note": None}
    return Run(run_id="r", started_at=now, published_at=now, status=PUBLISHED, **nothing)
