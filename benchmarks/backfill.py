"""A backfill of many legacy rows, killed on its way, beside one that nobody disturbs: both must end the same.

    python -m benchmarks.backfill rows.parquet --rows 200000 --slice-rows 50000 --kills 3

The corpus has a column `text`. Of the legacy rows made from it a third has no hash, a third no embedding, a tenth says
what another says, and some embeddings are of no use. The times are those of the undisturbed one.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from flows.encoders import open_encoder
from flows.settings import EmbeddingSettings
from flows.warehouse import Run, Warehouse
from transforms.embedding import embedded
from transforms.hashing import with_content_hash

NIGHTFOLD = Path(sys.executable).with_name("nightfold")
TABLES = (
    "chunks",
    "occurrences",
    "canonicals",
    "variants",
    "links",
    "contradictions",
    "pairs",
    "legacy_rows",
    "rejects",
)
# What tells the moment of a run, and no more.
OF_THE_RUN = ("run_id", "last_run_id")


def legacy_rows(corpus: Path, rows: int, *, seed: int) -> pl.DataFrame:
    """Rows of an older store, made of the texts of a corpus."""
    texts = pl.read_parquet(corpus, columns=["text"])["text"].drop_nulls().unique(maintain_order=True)
    dice = np.random.default_rng(seed)
    said = texts.head(rows * 9 // 10)
    again = said.gather(dice.integers(0, said.len(), rows - said.len()))
    table = pl.DataFrame({"content": pl.concat([said, again]).shuffle(seed)}).with_row_index("id", offset=1)
    table = table.with_columns(
        workspace_id=pl.when(pl.col("id") % 5 == 0).then(pl.lit("boreal")).otherwise(pl.lit("acme")),
        created_at=pl.datetime(2024, 1, 1, time_zone="UTC") + pl.duration(minutes="id"),
    )
    hashed = table.lazy().select(scope="workspace_id", text="content").pipe(with_content_hash, kinds=["text"])
    encoder = open_encoder(EmbeddingSettings(), tell=print)
    assert encoder is not None
    vectors, _ = embedded(table["content"], encoder=encoder)
    vectors[::1_000] = 0
    vectors[1::1_000] = np.nan
    return table.with_columns(
        content_hash=pl.when(pl.col("id") % 3 != 0).then(hashed.collect()["content_hash"]),
        embedding=pl.when(pl.col("id") % 3 != 1).then(pl.Series(vectors, dtype=pl.Array(pl.Float32, vectors.shape[1]))),
        embedding_model=pl.lit(encoder.model),
    )


def state(warehouse: Path) -> dict[str, pl.DataFrame]:
    """The published tables, without what tells the moment of a run."""
    found = {}
    for name in TABLES:
        dataset = Warehouse(str(warehouse)).open(name)
        assert dataset is not None
        rows = pl.from_arrow(dataset.to_table())
        assert isinstance(rows, pl.DataFrame)
        found[name] = rows.select(pl.exclude(OF_THE_RUN)).sort(rows.columns[0])
    return found


def last(warehouse: Path) -> list[Run]:
    return [run for run in Warehouse(str(warehouse)).runs() if run.is_readable]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--slice-rows", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-judge", action="store_true", help="leave the pairs unjudged")
    given = parser.parse_args()
    dice = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="nightfold-backfill-") as at:
        folder = Path(at)
        source = folder / "knowledge_chunks.parquet"
        legacy_rows(given.corpus, given.rows, seed=given.seed).write_parquet(source)
        settings = folder / "nightfold.toml"
        judged = "false" if given.no_judge else "true"
        settings.write_text(f"[judge]\nenabled = {judged}\n")

        def command(warehouse: Path) -> list[str]:
            slices = ["--slice-rows", str(given.slice_rows)]
            where = ["--settings", str(settings), "--warehouse", str(warehouse)]
            return [str(NIGHTFOLD), "backfill", str(source), *slices, *where]

        started = time.perf_counter()
        subprocess.run(command(folder / "calm"), check=True)
        whole = time.perf_counter() - started
        print(f"undisturbed: {given.rows:,} rows in {whole:.0f} s, {given.rows / whole:,.0f} rows/s")
        for run in last(folder / "calm"):
            print(run.run_id, run.rows_in, run.chunks_new, run.actions, run.stage_seconds)
        for number in range(given.kills):
            # Each time at another part of the way, which the time since the last start leads to.
            moment = dice.uniform(0.1, 0.9) * whole / given.kills + 2
            process = subprocess.Popen(command(folder / "stormy"), stdout=subprocess.PIPE, text=True)
            time.sleep(moment)
            process.kill()
            said = (process.communicate()[0].strip().splitlines() or ["(nothing)"])[-1]
            print(f"kill {number + 1}: after {moment:.0f} s, last said: {said}", flush=True)
        subprocess.run(command(folder / "stormy"), check=True)
        wanted, got = state(folder / "calm"), state(folder / "stormy")
        for name, rows in wanted.items():
            assert_frame_equal(got[name], rows)
            print(f"{name}: {rows.height:,} rows, the same")
        places = wanted["legacy_rows"].join(wanted["chunks"].select("chunk_id", "canonical_id"), on="chunk_id")
        assert places.height == given.rows, "an old id leads nowhere"
        print(f"old ids with a canonical: {places['old_id'].n_unique():,} of {given.rows:,}")
        started = time.perf_counter()
        subprocess.run(command(folder / "calm"), check=True)
        print(f"again, all of it in already: {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
