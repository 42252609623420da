"""Vectors and near pairs on a corpus of yours, beside what one would pick instead, in one run.

    python -m benchmarks.near rows.parquet                    embedding, join, and how cost grows
    python -m benchmarks.near rows.parquet --semhash-rows 100000   and semhash's self-deduplication, if it is installed
    python -m benchmarks.near rows.parquet --only tile --tile-rows 1600000   the peak memory of many rows
    python -m benchmarks.near rows.parquet --only scopes --scopes 1000       many small scopes beside one large

Read the ratios: both sides ran on the same machine in the same minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.memory import peak_mib, reset_peak
from benchmarks.plot import stacked
from flows.console import Progress
from flows.embed import BLOCK_ROWS
from flows.encoders import open_encoder
from flows.night import night
from flows.plan import Plan, Stage, StageReport
from flows.products import one_thread_each, products
from flows.settings import EmbeddingSettings, Settings, load_settings
from flows.vectors import Vectors
from flows.warehouse import Warehouse
from transforms.embedding import embedded
from transforms.neighbours import Sieve, search_exactly
from transforms.sieve import axes_of, coarse

_SCOPE = "bench"
_SEARCHED = 2_000
_CHECKED = 20_000


def main() -> None:
    """Parses the command line and runs what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a parquet file with a text column")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--embed-rows", type=int, default=400_000, help="most texts given to both encoders")
    parser.add_argument("--sizes", type=int, nargs="*", default=[50_000, 100_000, 200_000, 400_000])
    parser.add_argument("--new-share", type=float, default=0.01, help="share of new rows in the second night")
    parser.add_argument("--semhash-rows", type=int, default=0, help="rows given to semhash; 0: without it")
    parser.add_argument("--tile-rows", type=int, default=0, help="rows of a night on the corpus tiled with small edits")
    parser.add_argument("--scopes", type=int, default=0, help="scopes that the corpus is dealt out to")
    parser.add_argument("--only", nargs="*", choices=list(_PARTS), default=list(_PARTS))
    parser.add_argument("--plot", type=Path, help="an SVG of how cost grows")
    parser.add_argument("--night", type=Path, metavar="WAREHOUSE", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.night:
        print(json.dumps(_night_here(asked.corpus, asked.night)))
        return
    texts = pl.read_parquet(asked.corpus, columns=[asked.text_column]).to_series().rename("text")
    for name in asked.only:
        with tempfile.TemporaryDirectory(prefix="nightfold-bench-") as folder:
            _PARTS[name](texts, asked, Path(folder))


def _encoders(texts: pl.Series, asked: argparse.Namespace, folder: Path) -> None:
    """The vocabulary join beside the library's own encode, with the same weights."""
    texts = texts.unique(maintain_order=True).head(asked.embed_rows)
    encoder = open_encoder(EmbeddingSettings(), tell=print)
    assert encoder is not None  # the default names one
    library = as_library(encoder)
    for warm in (lambda some: embedded(some, encoder=encoder), lambda some: library.encode(some.to_list())):
        warm(texts.head(BLOCK_ROWS // 2))  # both sides have loaded what they load
    started = time.perf_counter()
    # In blocks, as the embed stage does it; and of no text twice, as it comes from the exact stage.
    blocks = [embedded(block, encoder=encoder)[0] for block in _blocks(texts)]
    mine = time.perf_counter() - started
    ours = np.concatenate(blocks)
    started = time.perf_counter()
    theirs = library.encode(texts.to_list(), max_length=None)
    plain = time.perf_counter() - started
    lengths = np.linalg.norm(theirs, axis=1)
    cosine = (ours * theirs).sum(axis=1)[lengths > 0] / lengths[lengths > 0]
    print(
        f"embedding {len(texts):,} texts: {len(texts) / mine:,.0f}/s, StaticModel.encode {len(texts) / plain:,.0f}/s, ",
        end="",
    )
    print(f"ratio {plain / mine:.1f}x, lowest cosine between the two {cosine.min():.5f}\n")


def _blocks(texts: pl.Series) -> Iterator[pl.Series]:
    for start in range(0, len(texts), BLOCK_ROWS):
        yield texts[start : start + BLOCK_ROWS]


def as_library(encoder: Any) -> Any:
    from model2vec import StaticModel
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    from flows.static_model import static_folder

    folder = static_folder(EmbeddingSettings())
    weights = load_file(folder / "model.safetensors")["embedding.weight"]
    return StaticModel(weights.astype(np.float32), Tokenizer.from_file(str(folder / "tokenizer.json")), normalize=True)


def _settings(corpus: Path, warehouse: Path) -> Settings:
    given = {"path": str(corpus), "name": "corpus", "scope_by": ["scope"]}
    # Up to the pairs: judging them has its own benchmark.
    over = {"inputs": [given], "warehouse": {"path": str(warehouse)}, "judge": {"enabled": False}}
    return load_settings(Path(os.devnull), over=over)


def _night_here(corpus: Path, warehouse: Path) -> dict[str, Any]:
    measured: dict[str, Any] = {}

    def measuring(name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport:
        reset_peak()
        started = time.process_time()
        report = stage(plan, progress)
        measured[name] = {
            "seconds": report.seconds,
            "processor": time.process_time() - started,
            "peak": peak_mib(),
        }
        return report

    open_encoder(EmbeddingSettings(), tell=lambda _: None)  # start-up: loading torch and the model is not the night's
    run = night(_settings(corpus, warehouse), progress=Progress(quiet=True), run_stage=measuring).run
    return {"stages": measured, "neighbours": run.neighbours, "rows": run.rows_in}


def _night(rows: pl.DataFrame, folder: Path, name: str) -> dict[str, Any]:
    """A night on these rows in a process of its own; the warehouse is `name` in the folder."""
    rows = rows if "scope" in rows.columns else rows.with_columns(scope=pl.lit(_SCOPE))
    rows.write_parquet(folder / "rows.parquet")
    line = [sys.executable, "-m", "benchmarks.near", str(folder / "rows.parquet"), "--night", str(folder / name)]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _rows(texts: pl.Series) -> pl.DataFrame:
    return pl.DataFrame(texts).with_row_index("id")


_STAGES = ("load", "hash", "exact", "embed", "index", "near", "write", "mart")


def _head(first: str) -> None:
    stages = "".join(f"{stage:>8}" for stage in _STAGES)
    print(f"{first:>14}{stages}{'together':>10}{'peak MiB':>10}{'pairs':>11}{'recall':>8}")


def _line(first: str, measured: dict[str, Any]) -> list[float]:
    seconds = [measured["stages"][stage]["seconds"] for stage in _STAGES]
    peak = max(stage["peak"] for stage in measured["stages"].values())
    near = measured["neighbours"]
    recall = "exact" if near["recall"] is None else f"{near['recall']:.4f}"
    columns = "".join(f"{each:>8.2f}" for each in seconds)
    print(f"{first:>14}{columns}{sum(seconds):>10.1f}{peak:>10,.0f}{near['added']:>11,}{recall:>8}", flush=True)
    return seconds


def _growth(texts: pl.Series, asked: argparse.Namespace, folder: Path) -> None:
    sizes = [size for size in asked.sizes if size <= len(texts)]
    _head("rows")
    seen = []
    for size in sizes:
        measured = _night(_rows(texts.head(size)), folder, f"w{size}")
        seen.append(_line(f"{size:,}", measured))
    if asked.plot and sizes:
        asked.plot.write_text(stacked(sizes, dict(zip(_STAGES, zip(*seen, strict=True), strict=True))))
    print()
    for size in sizes:
        _recall(folder / f"w{size}", size)
    if sizes:
        _batched_search(folder / f"w{sizes[-1]}", near_seconds=measured["stages"]["near"]["seconds"])


def _tile(texts: pl.Series, asked: argparse.Namespace, folder: Path) -> None:
    """Every copy ends in words of its own: no text is there twice, and every one has near ones."""
    if not asked.tile_rows:
        return
    copies = -(-asked.tile_rows // len(texts))
    edited = [pl.DataFrame(texts).select(pl.format("{} Copy {}.", "text", pl.lit(n))) for n in range(copies)]
    _head("tiled rows")
    _line(
        f"{asked.tile_rows:,}",
        _night(_rows(pl.concat(edited).to_series().rename("text").head(asked.tile_rows)), folder, "tiled"),
    )
    print()


def _scopes(texts: pl.Series, asked: argparse.Namespace, folder: Path) -> None:
    """The same rows in one scope, and dealt out to many."""
    if not asked.scopes:
        return
    rows = _rows(texts)
    _head("scopes")
    _line("1", _night(rows, folder, "one"))
    dealt = rows.with_columns(scope=pl.format("s{}", pl.col("id") // -(-len(texts) // asked.scopes)))
    _line(f"{asked.scopes:,}", _night(dealt, folder, "many"))
    print()


def _recall(warehouse: Path, rows: int) -> None:
    """The candidates of a sample, searched exactly, and the share of them that the run has published as pairs."""
    vectors = _vectors(warehouse)
    loaded = vectors.load([_SCOPE])
    sample = np.arange(0, len(loaded.grid), max(1, len(loaded.grid) // _CHECKED))[:_CHECKED]
    by_codes = products()
    with one_thread_each():
        axes = axes_of(loaded.grid, threshold=0.85)
        sieve = None if by_codes is None else Sieve(coarse(loaded.grid, axes, threads=2), by_codes)
        truth = search_exactly(loaded.grid, sample, most=5, threshold=0.85, sieve=sieve, threads=2)
    left, right = np.minimum(truth.rows, truth.others()), np.maximum(truth.rows, truth.others())
    wanted = pl.DataFrame({"left_id": loaded.chunk_ids.gather(left), "right_id": loaded.chunk_ids.gather(right)})
    published = Warehouse(str(warehouse)).open("pairs")
    assert published is not None
    pairs = pl.from_arrow(published.to_table(columns=["left_id", "right_id"]))
    assert isinstance(pairs, pl.DataFrame)
    kept = wanted.join(pairs, on=["left_id", "right_id"], how="semi").height
    share, of = kept / max(1, wanted.height), f"{wanted.height:,} candidates of {len(sample):,} rows"
    print(f"{rows:,} rows: {share:.4f} of {of}, by exact search, are pairs")


def _vectors(warehouse: Path) -> Vectors:
    run = Warehouse(str(warehouse)).published()
    assert run is not None
    embedding = run.neighbours["embedding"]
    return Vectors(Warehouse(str(warehouse)), embedding["version"], embedding["dimensions"])


def _batched_search(warehouse: Path, *, near_seconds: float) -> None:
    """LanceDB's own batched search on the same table and index, for a sample of rows, as the join would need it."""
    import lancedb

    vectors = _vectors(warehouse)
    loaded = vectors.load([_SCOPE])
    sample = np.arange(0, len(loaded.grid), max(1, len(loaded.grid) // _SEARCHED))[:_SEARCHED]
    truth = search_exactly(loaded.grid, sample, most=5, threshold=0.85)
    wanted = set(zip(truth.rows.tolist(), truth.others().tolist(), strict=True))
    table = lancedb.connect(str(warehouse)).open_table(vectors.table)
    places = {chunk: place for place, chunk in enumerate(loaded.chunk_ids)}
    queries = loaded.grid[sample].astype(np.float32)
    queries /= np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), 1e-12)
    for probes in (20, 40):
        found: set[tuple[int, int]] = set()
        started = time.perf_counter()
        for start in range(0, len(sample), 500):
            some = sample[start : start + 500]
            search: Any = table.search(list(queries[start : start + 500]))
            hits = search.distance_type("dot").nprobes(probes).limit(6)
            rows = pl.from_arrow(hits.select(["chunk_id", "_distance"]).to_arrow())
            assert isinstance(rows, pl.DataFrame)
            found |= {(int(some[q]), places[c]) for q, c in rows.select("query_index", "chunk_id").iter_rows()}
        seconds = (time.perf_counter() - started) * len(loaded.grid) / len(sample)
        recall = len(wanted & found) / max(1, len(wanted))
        print(
            f"LanceDB batched search, {probes} probes: {seconds:,.0f} s for all rows (from {len(sample):,}), recall "
            f"{recall:.4f}; the near stage {near_seconds:.1f} s, ratio {seconds / near_seconds:.1f}x"
        )
    print()


def _semhash(texts: pl.Series, asked: argparse.Namespace, folder: Path) -> None:
    if not asked.semhash_rows:
        return
    texts = texts.head(asked.semhash_rows)
    try:
        from semhash import SemHash
    except ImportError:
        print("semhash is not installed: pip install semhash\n")
        return
    library = as_library(None)
    started, of_processor = time.perf_counter(), time.process_time()
    kept = SemHash.from_records(texts.to_list(), model=library).self_deduplicate(threshold=0.85)
    theirs, their_processor = time.perf_counter() - started, time.process_time() - of_processor
    measured = _night(_rows(texts), folder, "beside-semhash")
    stages = ("load", "hash", "exact", "embed", "index", "near")
    ours, processor = (sum(measured["stages"][stage][what] for stage in stages) for what in ("seconds", "processor"))
    print(f"{len(texts):,} rows, load to pairs: {ours:.1f} s, {measured['neighbours']['added']:,} pairs")
    print(
        f"semhash, index and self-deduplicate: {theirs:.1f} s, {len(kept.selected):,} rows kept; "
        f"ratio {theirs / ours:.1f}x; of the processors {their_processor:.1f} s and {processor:.1f} s, "
        f"ratio {their_processor / processor:.1f}x\n"
    )


def _second_night(texts: pl.Series, asked: argparse.Namespace, folder: Path) -> None:
    """A first night without a few rows, a second one with them, and one with all: the same pairs?"""
    rows = _rows(texts)
    is_new = pl.col("id").hash(seed=1) % 10_000 < asked.new_share * 10_000
    _head("night")
    whole = _night(rows, folder, "whole")
    _line("all at once", whole)
    _line("all but a few", _night(rows.filter(~is_new), folder, "split"))
    second = _night(rows.filter(is_new), folder, "split")
    _line("the few", second)
    compute = ("hash", "exact", "embed", "index", "near")
    for what, name in (("seconds", "hash to near"), ("processor", "of the processors")):
        seconds = [sum(measured["stages"][stage][what] for stage in compute) for measured in (whole, second)]
        ratio = seconds[1] / seconds[0]
        print(f"{name}: all at once {seconds[0]:.2f} s, the few {seconds[1]:.2f} s, ratio {ratio:.3f}")
    pairs = [_pairs(folder / name) for name in ("split", "whole")]
    common = len(pairs[0] & pairs[1])
    print(f"pairs: {len(pairs[0]):,} over two nights, {len(pairs[1]):,} in one, {common:,} the same")


def _pairs(warehouse: Path) -> set[str]:
    dataset = Warehouse(str(warehouse)).open("pairs")
    assert dataset is not None
    return set(dataset.to_table(columns=["pair_id"])["pair_id"].to_pylist())


_PARTS = {
    "encoders": _encoders,
    "growth": _growth,
    "semhash": _semhash,
    "nights": _second_night,
    "tile": _tile,
    "scopes": _scopes,
}

if __name__ == "__main__":
    main()
