"""The exact path on a corpus of yours: rows/s and peak memory a stage, beside the same work in plain Python.

    python -m benchmarks.exact rows.parquet                     stages, then a first and a second night
    python -m benchmarks.exact rows.parquet --tile-rows 4000000 and the peak memory of a night on the tiled file

Read the ratios: both columns ran on the same machine in the same minute.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
from blake3 import blake3

from benchmarks.memory import peak_mib, reset_peak
from flows.console import Progress
from flows.night import night
from flows.settings import load_settings
from transforms.exact import group_by_content, repeats_of_an_id
from transforms.hashing import with_content_hash, with_ids
from transforms.normalize import normalized

_SCOPE, _SOURCE = "bench", "corpus"


def main() -> None:
    """Parses the command line and runs what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a parquet file with a text column")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side, the median counts")
    parser.add_argument("--new-share", type=float, default=0.01, help="share of new rows in the second night")
    parser.add_argument("--tile-rows", type=int, help="tile the corpus to so many rows and measure a night's memory")
    parser.add_argument("--night", type=Path, nargs=2, metavar=("CORPUS", "WAREHOUSE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.night:
        _night(*asked.night, text_column=asked.text_column)
        print(f"peak {peak_mib():.0f} MiB")
        return
    rows = _rows(asked.corpus, asked.text_column)
    _stages(rows, rounds=asked.rounds)
    with tempfile.TemporaryDirectory(prefix="nightfold-bench-") as folder:
        _nights(asked.corpus, Path(folder), text_column=asked.text_column, new_share=asked.new_share)
        if asked.tile_rows:
            _tiled(asked.corpus, Path(folder), text_column=asked.text_column, rows=asked.tile_rows)


def _rows(corpus: Path, text_column: str) -> pl.DataFrame:
    text = pl.read_parquet(corpus, columns=[text_column]).to_series().rename("text")
    return (
        pl.DataFrame(text)
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


def _stages(rows: pl.DataFrame, *, rounds: int) -> None:
    """Normalize, hash, exact: columns beside plain Python, turn by turn."""
    texts = rows["text"].to_list()
    ours: dict[str, list[float]] = {"normalize": [], "hash": [], "exact": []}
    theirs: dict[str, list[float]] = {"normalize": [], "hash": [], "exact": []}
    peaks: dict[str, float] = {}
    for _ in range(rounds):
        _ours(rows, ours, peaks)
        _plain(texts, theirs)
    print(f"{rows.height:,} rows, median of {rounds} rounds\n")
    print(f"{'stage':<12}{'rows/s':>14}{'plain Python':>16}{'ratio':>8}{'peak MiB':>10}")
    total_ours = total_theirs = 0.0
    for stage, rounds_of_ours in ours.items():
        mine, plain = _median(rounds_of_ours), _median(theirs[stage])
        total_ours, total_theirs = total_ours + mine, total_theirs + plain
        print(f"{stage:<12}{_rate(rows, mine)}{_rate(rows, plain):>16}{plain / mine:>7.1f}x{peaks[stage]:>10.0f}")
    print(
        f"{'together':<12}{_rate(rows, total_ours)}{_rate(rows, total_theirs):>16}{total_theirs / total_ours:>7.1f}x\n"
    )


def _rate(rows: pl.DataFrame, seconds: float) -> str:
    return f"{rows.height / seconds:>14,.0f}"


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _ours(rows: pl.DataFrame, seconds: dict[str, list[float]], peaks: dict[str, float]) -> None:
    def timed(stage: str, work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        reset_peak()
        started = time.perf_counter()
        result = work()
        seconds[stage].append(time.perf_counter() - started)
        peaks[stage] = max(peaks.get(stage, 0), peak_mib())
        return result

    # The night fuses the first two; apart, hashing normalizes again, so its own time is the difference.
    timed("normalize", lambda: rows.lazy().select(normalized(pl.col("text"))).collect(engine="streaming"))
    keys = timed(
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
    seconds["hash"][-1] -= min(seconds["normalize"][-1], seconds["hash"][-1] * 0.9)
    timed("exact", lambda: group_by_content(keys) if not repeats_of_an_id(keys).height else keys)


def _plain(texts: list[str], seconds: dict[str, list[float]]) -> None:
    """The same work as loops: normal form, SHA-256, the two BLAKE3 ids, one group a content with its lowest row."""
    started = time.perf_counter()
    normal = [" ".join(unicodedata.normalize("NFC", text).split()) for text in texts]
    seconds["normalize"].append(time.perf_counter() - started)

    started = time.perf_counter()
    keyed = []
    for row, text in enumerate(normal):
        content_hash = sha256(f"{_SCOPE}:{text}".encode()).hexdigest()
        chunk_id = blake3(f"{content_hash}\x1f\x1f{_SCOPE}".encode()).hexdigest()[:32]
        occurrence_id = blake3(f"{chunk_id}\x1f\x1f{_SOURCE}\x1f{row}".encode()).hexdigest()[:32]
        keyed.append((chunk_id, occurrence_id, str(row)))
    seconds["hash"].append(time.perf_counter() - started)

    started = time.perf_counter()
    seen_ids: set[tuple[str, str]] = set()
    groups: dict[str, tuple[str, int]] = {}
    for chunk_id, _, row_id in keyed:
        if (_SOURCE, row_id) in seen_ids:
            continue
        seen_ids.add((_SOURCE, row_id))
        lowest, count = groups.get(chunk_id, (row_id, 0))
        groups[chunk_id] = (min(lowest, row_id), count + 1)
    seconds["exact"].append(time.perf_counter() - started)


def _night(corpus: Path, warehouse: Path, *, text_column: str) -> dict[str, float]:
    given = {"path": str(corpus), "name": "corpus", "text_column": text_column, "scope": _SCOPE}
    over = {"inputs": [given], "warehouse": {"path": str(warehouse)}}
    return night(load_settings(Path("/dev/null"), over=over), progress=Progress(quiet=True)).run.stage_seconds


def _nights(corpus: Path, folder: Path, *, text_column: str, new_share: float) -> None:
    """A first night with the whole corpus, a second one with a few rows, half of them new contents."""
    first = _night(corpus, folder / "warehouse", text_column=text_column)
    rows = pl.read_parquet(corpus, columns=[text_column])
    some = rows.sample(max(1, int(rows.height * new_share)), seed=1).with_row_index("id")
    edited = pl.when(pl.col("id") % 2 == 0).then(pl.col(text_column) + " (a new row)").otherwise(pl.col(text_column))
    some.select(pl.lit("second-") + pl.col("id").cast(pl.String).alias("id"), edited).write_parquet(
        folder / "more.parquet"
    )
    second = _night(folder / "more.parquet", folder / "warehouse", text_column=text_column)
    print(f"{'night':<12}{'first s':>10}{'second s':>10}   ({rows.height:,} rows, then {some.height:,})")
    for stage, seconds in first.items():
        print(f"{stage:<12}{seconds:>10.2f}{second[stage]:>10.2f}")
    total, again = sum(first.values()), sum(second.values())
    print(f"{'together':<12}{total:>10.2f}{again:>10.2f}   second / first = {again / total:.3f}\n")


def _tiled(corpus: Path, folder: Path, *, text_column: str, rows: int) -> None:
    """The peak memory of a process that runs a night on the corpus, repeated up to `rows` rows."""
    tiled, written = folder / "tiled.parquet", 0
    with pq.ParquetFile(corpus) as given:
        schema = (
            given.schema_arrow.remove(given.schema_arrow.get_field_index("id"))
            if "id" in given.schema_arrow.names
            else given.schema_arrow
        )
        with pq.ParquetWriter(tiled, schema) as writer:
            while written < rows:
                for batch in given.iter_batches(131_072, columns=schema.names):
                    part = batch.slice(0, min(batch.num_rows, rows - written))
                    writer.write_batch(part)
                    written += part.num_rows
    started = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.exact",
            str(corpus),
            "--text-column",
            text_column,
            "--night",
            str(tiled),
            str(folder / "tiled"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    print(f"a night on {written:,} rows: {done.stdout.strip()}, {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
