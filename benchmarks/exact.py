"""The exact path on a corpus of yours: rows/s and peak memory a stage, beside the same work in plain Python.

    python -m benchmarks.exact rows.parquet                      the columns, then three nights
    python -m benchmarks.exact rows.parquet --tile-rows 4000000  and a night on the corpus tiled to so many rows

Read the ratios: both sides ran on the same machine, turn by turn.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import median

import polars as pl
import pyarrow.parquet as pq
from blake3 import blake3

from benchmarks.memory import peak_mib, reset_peak
from flows.console import Progress
from flows.night import night
from flows.plan import Plan, Stage, StageReport
from flows.settings import load_settings
from transforms.exact import group_by_content, repeats_of_an_id
from transforms.hashing import with_content_hash, with_ids
from transforms.normalize import normalized

_SCOPE, _SOURCE = "bench", "corpus"
_COLUMN_STAGES = ("normalize", "hash", "exact")


def main() -> None:
    """Parses the command line and runs what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a parquet file with a text column")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each side, the median counts")
    parser.add_argument("--new-share", type=float, default=0.01, help="share of new rows in the second night")
    parser.add_argument("--tile-rows", type=int, help="tile the corpus to so many rows and run a night on that")
    parser.add_argument("--night", type=Path, metavar="WAREHOUSE", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.night:
        print(json.dumps(_night_here(asked.corpus, asked.night, asked.text_column)))
        return
    texts = pl.read_parquet(asked.corpus, columns=[asked.text_column]).to_series().rename("text")
    _columns(texts, rounds=asked.rounds)
    with tempfile.TemporaryDirectory(prefix="nightfold-bench-") as folder:
        _nights(texts, Path(folder), new_share=asked.new_share)
        if asked.tile_rows:
            _tiled(asked.corpus, Path(folder), text_column=asked.text_column, rows=asked.tile_rows)


# --- the columns beside plain Python ----------------------------------------------------------------------------------


@dataclass
class _Side:
    """Seconds of each round, and the highest memory, by stage."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in _COLUMN_STAGES})
    peaks: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_COLUMN_STAGES, 0.0))

    def timed(self, stage: str, work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        reset_peak()
        started = time.perf_counter()
        result = work()
        self.seconds[stage].append(time.perf_counter() - started)
        self.peaks[stage] = max(self.peaks[stage], peak_mib())
        return result


def _columns(texts: pl.Series, *, rounds: int) -> None:
    """Normalize, hash, exact: columns beside plain Python, turn by turn."""
    rows, plain_texts = _rows(texts), texts.to_list()
    ours, plain = _Side(), _Side()
    for _ in range(rounds):
        _in_columns(rows, ours)
        _in_plain_python(plain_texts, plain)
    print(f"{rows.height:,} rows, median of {rounds} rounds\n")
    print(f"{'stage':<12}{'rows/s':>14}{'plain Python':>16}{'ratio':>8}{'peak MiB':>10}")
    mine = {stage: median(ours.seconds[stage]) for stage in _COLUMN_STAGES}
    theirs = {stage: median(plain.seconds[stage]) for stage in _COLUMN_STAGES}
    for stage in _COLUMN_STAGES:
        _print_ratio(stage, rows.height, mine[stage], theirs[stage], f"{ours.peaks[stage]:>10.0f}")
    _print_ratio("together", rows.height, sum(mine.values()), sum(theirs.values()), "\n")


def _print_ratio(stage: str, rows: int, mine: float, theirs: float, rest: str) -> None:
    print(f"{stage:<12}{rows / mine:>14,.0f}{rows / theirs:>16,.0f}{theirs / mine:>7.1f}x{rest}")


def _rows(texts: pl.Series) -> pl.DataFrame:
    return (
        pl.DataFrame(texts)
        .with_row_index("row")
        .select(
            pl.col("row").cast(pl.UInt64),
            "text",
            scope=pl.lit(_SCOPE),
            kind=pl.lit("text"),
            source=pl.lit(_SOURCE),
            source_row_id=pl.col("row").cast(pl.String),
            chunk_index=pl.lit(None, dtype=pl.Int32),
            parsed_spec_id=pl.lit(None, dtype=pl.String),
            force=pl.lit(value=False),
            seen_at=pl.lit(None, dtype=pl.Datetime("us", "UTC")),
        )
    )


def _in_columns(rows: pl.DataFrame, side: _Side) -> None:
    side.timed("normalize", lambda: rows.lazy().select(normalized(pl.col("text"))).collect(engine="streaming"))
    keys = side.timed(
        "hash",
        lambda: (
            rows.lazy()
            .pipe(with_content_hash, kinds=["text"])
            .pipe(with_ids, unchecked_scopes=[])
            .drop("text")
            .with_columns(is_new=pl.lit(value=True))
            .collect(engine="streaming")
        ),
    )
    # A night fuses the two: what was timed as `hash` has normalized once more.
    side.seconds["hash"][-1] -= min(side.seconds["normalize"][-1], side.seconds["hash"][-1] * 0.9)
    side.timed("exact", lambda: group_by_content(keys) if not repeats_of_an_id(keys).height else keys)


def _in_plain_python(texts: list[str], side: _Side) -> None:
    """The same work as loops: normal form, SHA-256, the two BLAKE3 ids, one group a content with its lowest row."""
    started = time.perf_counter()
    normal = [" ".join(unicodedata.normalize("NFC", text).split()) for text in texts]
    side.seconds["normalize"].append(time.perf_counter() - started)

    started = time.perf_counter()
    keyed = []
    for row, text in enumerate(normal):
        content_hash = sha256(f"{_SCOPE}:{text}".encode()).hexdigest()
        chunk_id = blake3(f"{content_hash}\x1f\x1f{_SCOPE}".encode()).hexdigest()[:32]
        occurrence_id = blake3(f"{chunk_id}\x1f\x1f{_SOURCE}\x1f{row}".encode()).hexdigest()[:32]
        keyed.append((chunk_id, occurrence_id, str(row)))
    side.seconds["hash"].append(time.perf_counter() - started)

    started = time.perf_counter()
    seen_ids: set[tuple[str, str]] = set()
    groups: dict[str, tuple[str, int]] = {}
    for chunk_id, _, row_id in keyed:
        if (_SOURCE, row_id) in seen_ids:
            continue
        seen_ids.add((_SOURCE, row_id))
        lowest, count = groups.get(chunk_id, (row_id, 0))
        groups[chunk_id] = (min(lowest, row_id), count + 1)
    side.seconds["exact"].append(time.perf_counter() - started)


# --- whole nights -----------------------------------------------------------------------------------------------------

_Measured = dict[str, dict[str, float]]


def _night_here(corpus: Path, warehouse: Path, text_column: str) -> _Measured:
    """A night in this process: seconds, rows in and peak memory by stage."""
    measured: _Measured = {}

    def measuring(name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport:
        reset_peak()
        report = stage(plan, progress)
        measured[name] = {"seconds": report.seconds, "rows": report.rows_in, "peak": peak_mib()}
        return report

    given = {"path": str(corpus), "name": _SOURCE, "text_column": text_column, "scope": _SCOPE}
    over = {"inputs": [given], "warehouse": {"path": str(warehouse)}, "embedding": {"encoder": "none"}}
    night(load_settings(Path("/dev/null"), over=over), progress=Progress(quiet=True), run_stage=measuring)
    return measured


def _night(corpus: Path, warehouse: Path, *, text_column: str = "text") -> _Measured:
    """A night in a process of its own, as it runs in production."""
    line = [sys.executable, "-m", "benchmarks.exact", str(corpus)]
    line += ["--text-column", text_column, "--night", str(warehouse)]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    measured: _Measured = json.loads(done.stdout)
    return measured


def _nights(texts: pl.Series, folder: Path, *, new_share: float) -> None:
    """A first night, a second one with only a few new rows, a third one with all of it again."""
    rows = pl.DataFrame(texts).with_row_index("id")
    is_new = pl.col("id").hash(seed=1) % 10_000 < new_share * 10_000
    new, old = rows.filter(is_new), rows.filter(~is_new)
    for name, part in (("first", old), ("second", new), ("third", rows)):
        part.write_parquet(folder / f"{name}.parquet")
    nights = {name: _night(folder / f"{name}.parquet", folder / "warehouse") for name in ("first", "second", "third")}
    print(f"seconds, first night {old.height:,} rows, second {new.height:,} new ones, third all {rows.height:,} again")
    print(f"{'stage':<12}{'first':>8}{'rows/s':>12}{'peak MiB':>10}{'second':>9}{'third':>8}")
    for stage, first in nights["first"].items():
        speed, peak = first["rows"] / max(first["seconds"], 1e-9), first["peak"]
        later = f"{nights['second'][stage]['seconds']:>9.2f}{nights['third'][stage]['seconds']:>8.2f}"
        print(f"{stage:<12}{first['seconds']:>8.2f}{speed:>12,.0f}{peak:>10,.0f}{later}")
    totals = [sum(stage["seconds"] for stage in measured.values()) for measured in nights.values()]
    print(f"{'together':<12}{totals[0]:>8.2f}{'':>22}{totals[1]:>9.2f}{totals[2]:>8.2f}")
    print(f"second / first = {totals[1] / totals[0]:.3f}, third / first = {totals[2] / totals[0]:.3f}\n")


def _tiled(corpus: Path, folder: Path, *, text_column: str, rows: int) -> None:
    """A night on the corpus repeated up to `rows` rows, each tile under ids of its own."""
    tiled, written = folder / "tiled.parquet", 0
    with pq.ParquetFile(corpus) as given:
        text_only = given.schema_arrow.empty_table().select([text_column]).schema
        with pq.ParquetWriter(tiled, text_only) as writer:
            while written < rows:
                for batch in given.iter_batches(131_072, columns=[text_column]):
                    part = batch.slice(0, rows - written)
                    writer.write_batch(part)
                    written += part.num_rows
    measured = _night(tiled, folder / "tiled", text_column=text_column)
    print(f"a night on {written:,} rows (the corpus tiled)")
    print(f"{'stage':<12}{'seconds':>9}{'rows/s':>12}{'peak MiB':>10}")
    for stage, of_stage in measured.items():
        speed = of_stage["rows"] / max(of_stage["seconds"], 1e-9)
        print(f"{stage:<12}{of_stage['seconds']:>9.2f}{speed:>12,.0f}{of_stage['peak']:>10,.0f}")
    print(f"highest peak {max(of_stage['peak'] for of_stage in measured.values()):,.0f} MiB")


if __name__ == "__main__":
    main()
