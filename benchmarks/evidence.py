"""How fast the evidence on candidate pairs is gathered, and in how much memory; the transformer's reading is left out.

python -m benchmarks.evidence rows.parquet                    100,000 pairs of a night on the rows
python -m benchmarks.evidence rows.parquet --pairs 400000     four times as many: the rate and the memory that stay
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.memory import peak_mib, reset_peak
from benchmarks.unjudged import unjudged
from flows.judging import judge_pairs
from flows.settings import Settings
from flows.warehouse import Warehouse

_READ = ["chunk_id", "kind", "text", "metadata", "first_seen_at"]


def main() -> None:
    """Parses the command line and prints pairs/s and memory of each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a parquet file with a text column")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--rows", type=int, default=120_000, help="most rows of the night whose pairs are judged")
    parser.add_argument("--pairs", type=int, default=100_000, help="most pairs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warehouse", type=Path, help="where the warehouse is kept; a temporary folder by default")
    asked = parser.parse_args()
    texts = pl.read_parquet(asked.corpus, columns=[asked.text_column]).to_series().head(asked.rows)
    with tempfile.TemporaryDirectory(prefix="nightfold-bench-") as folder:
        settings = unjudged(texts, Path(folder), asked.warehouse or Path(folder) / "warehouse")
        pairs, chunks = _read(settings, asked.pairs)
        _measure(pairs, chunks, settings, rounds=asked.rounds)


def _read(settings: Settings, most: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    warehouse = Warehouse(settings.warehouse.path)
    named = ["pair_id", "left_id", "right_id", "scope", "similarity"]
    pairs = pl.DataFrame(warehouse.head("pairs").to_table(columns=named)).head(most)
    chunks = pl.DataFrame(warehouse.head("chunks").to_table(columns=_READ))
    ends = pl.concat([pairs["left_id"], pairs["right_id"]]).unique()
    return pairs, chunks.filter(pl.col("chunk_id").is_in(ends.implode()))


def _measure(pairs: pl.DataFrame, chunks: pl.DataFrame, settings: Settings, *, rounds: int) -> None:
    """Evidence and verdict, as the judge stage has them, with no transformer to read what rules leave open."""
    without_reader = settings.judge.model_copy(update={"reader": None})
    judge = partial(judge_pairs, settings=without_reader, tell=lambda _: None, tell_rows=lambda _: None)
    judge(pairs.head(100), chunks)
    letters = int(chunks["text"].str.len_chars().sum()) // chunks.height
    print(f"{pairs.height:,} pairs of {chunks.height:,} texts of {letters} characters\n")
    rates = []
    for number in range(1, rounds + 1):
        reset_peak()
        before, started, cpu = peak_mib(), time.perf_counter(), time.process_time()
        judge(pairs, chunks)
        seconds = time.perf_counter() - started
        cpu = time.process_time() - cpu
        rates.append(pairs.height / seconds)
        memory = f"{peak_mib() - before:,.0f} MiB above the start"
        print(f"round {number}: {seconds:.2f} s ({cpu:.2f} s of processors), {rates[-1]:,.0f} pairs/s, {memory}")
    print(f"median {np.median(rates):,.0f} pairs/s")


if __name__ == "__main__":
    main()
