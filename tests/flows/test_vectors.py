"""The table of one embedding version: append-only, never doubled, with an index that follows its rows."""

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import lance
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from flows.vectors import Vectors
from flows.warehouse import Run, Warehouse
from tests.flows.word_endpoint import word_vector
from transforms.grid import snapped
from transforms.hashing import derived_id
from transforms.neighbours import assigned

VERSION = "0123456789abcdef"
DIMENSIONS = 16
NOW = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture
def vectors(tmp_path: Path) -> Vectors:
    (tmp_path / "w").mkdir()
    return Vectors(Warehouse(str(tmp_path / "w")), VERSION, DIMENSIONS)


def unit_vectors(texts: list[str]) -> NDArray[np.float32]:
    summed = np.array([word_vector(text, dimensions=DIMENSIONS) for text in texts]).reshape(len(texts), DIMENSIONS)
    scaled: NDArray[np.float32] = summed / np.maximum(np.linalg.norm(summed, axis=1, keepdims=True), 1)
    return scaled.astype(np.float32)


def clusters(start: int, stop: int) -> list[str]:
    """Texts around one of 25 kinds each."""
    return [f"k{n % 25} l{n % 25} m{n % 25} n{n % 25} o{n % 25} row{n}" for n in range(start, stop)]


def block(path: Path, texts: list[str | None], *, scope: str = "acme") -> Path:
    """A staged block: a row a text, without a vector where there is none."""
    rows = pl.DataFrame({"text": [text or f"none {n}" for n, text in enumerate(texts)], "scope": scope})
    made = unit_vectors(rows["text"].to_list())
    given = [made[n].tolist() if text is not None else None for n, text in enumerate(texts)]
    rows.select(
        "scope",
        chunk_id=derived_id(pl.col("scope"), pl.col("text")),
        text_key=derived_id(pl.col("text")),
        vector=pl.Series(given, dtype=pl.Array(pl.Float32, DIMENSIONS)),
    ).write_parquet(path)
    return path


def as_published(vectors: Vectors) -> Run:
    """A run that names the table as it stands."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("rows_in", "rows_rejected", "occurrences_new", "occurrences_known", "chunks_new", "chunks_touched"), 0
    )
    return Run(
        run_id="20260131T000000.000000Z",
        started_at=NOW,
        published_at=NOW,
        status="published",
        restores=None,
        **nothing,
        actions={},
        stage_seconds={},
        recall_measured=None,
        table_versions={vectors.table: vectors.warehouse.head(vectors.table).version},
        settings={},
        note=None,
    )


def index_of(vectors: Vectors) -> dict[str, Any]:
    stats: dict[str, Any] = vectors.warehouse.head(vectors.table).stats.index_stats("vector_idx")
    return stats


def test_rows_without_a_vector_are_not_in_the_table(tmp_path: Path, vectors: Vectors) -> None:
    vectors.replace_unpublished([block(tmp_path / "0.parquet", ["a", None, "b"])], run=None)
    assert vectors.rows() == 2


def test_what_no_run_names_is_replaced_and_what_a_run_names_is_added_to(tmp_path: Path, vectors: Vectors) -> None:
    first, second = block(tmp_path / "0.parquet", ["a", "b"]), block(tmp_path / "1.parquet", ["c"])
    vectors.replace_unpublished([first], run=None)
    vectors.replace_unpublished([first], run=None)
    assert vectors.rows() == 2
    vectors.replace_unpublished([second], run=as_published(vectors))
    assert vectors.rows() == 3


def test_a_chunk_that_the_run_has_is_not_added_again(tmp_path: Path, vectors: Vectors) -> None:
    vectors.replace_unpublished([block(tmp_path / "0.parquet", ["a", "b"])], run=None)
    vectors.replace_unpublished([block(tmp_path / "1.parquet", ["b", "c"])], run=as_published(vectors))
    ids = vectors.warehouse.head(vectors.table).to_table()["chunk_id"].to_pylist()
    assert len(ids) == len(set(ids)) == 3


def test_a_table_without_rows_is_as_good_as_any(tmp_path: Path, vectors: Vectors) -> None:
    vectors.replace_unpublished([], run=None)
    run = as_published(vectors)
    assert vectors.known(pl.Series(["0" * 32]), run=run).is_empty()
    assert vectors.tend_index(from_rows=1) == "nothing"
    assert vectors.load(["acme"]).grid.shape == (0, DIMENSIONS)
    vectors.replace_unpublished([block(tmp_path / "0.parquet", ["a"])], run=run)
    assert vectors.rows() == 1


def test_a_text_is_known_once_whatever_scopes_it_stands_in_and_only_when_published(
    tmp_path: Path, vectors: Vectors
) -> None:
    blocks = [block(tmp_path / f"{scope}.parquet", ["a", "b"], scope=scope) for scope in ("x", "y")]
    vectors.replace_unpublished(blocks, run=None)
    run = as_published(vectors)
    vectors.replace_unpublished([block(tmp_path / "z.parquet", ["c"], scope="z")], run=run)
    wanted = pl.DataFrame({"text": ["b", "c", "never"]}).select(text_key=derived_id(pl.col("text")))["text_key"]
    known = vectors.known(wanted, run=run)
    assert known["text_key"].to_list() == [wanted[0]]
    assert np.array_equal(known["vector"].to_numpy(), unit_vectors(["b"]))
    assert vectors.known(wanted, run=None).is_empty()


def test_vectors_are_loaded_by_scope_in_the_order_of_their_ids(tmp_path: Path, vectors: Vectors) -> None:
    texts: list[str | None] = [f"text {n}" for n in range(50)]
    blocks = [block(tmp_path / f"{scope}.parquet", texts, scope=scope) for scope in ("x", "y", "z")]
    vectors.replace_unpublished(blocks, run=None)
    loaded = vectors.load(["x", "z"])
    assert loaded.chunk_ids.is_sorted()
    assert set(loaded.scopes) == {"x", "z"}
    staged = pl.concat([pl.read_parquet(path) for path in (blocks[0], blocks[2])]).sort("chunk_id")
    assert loaded.chunk_ids.to_list() == staged["chunk_id"].to_list()
    assert np.array_equal(loaded.grid, snapped(staged["vector"].to_numpy()))


def test_the_index_is_made_extended_and_remade_as_the_table_grows(tmp_path: Path, vectors: Vectors) -> None:
    done, sizes = [], (0, 350, 400, 405, 460, 900)
    for number, (start, stop) in enumerate(pairwise(sizes)):
        run = as_published(vectors) if number else None
        staged = block(tmp_path / f"{number}.parquet", list(clusters(start, stop)))
        vectors.replace_unpublished([staged], run=run)
        done.append(vectors.tend_index(from_rows=400))
        if stop < 400:
            continue
        loaded = vectors.load(["acme"])
        partitions = vectors.partitions(loaded)
        # In the index or not yet, every row is where its nearest centroid is.
        assert np.array_equal(partitions.of_row, assigned(loaded.grid, partitions.centroids))
        assert len(partitions.of_row) == stop
        unindexed = {"nothing": 5, "made": 0, "extended": 0, "remade": 0}[done[-1]]
        assert index_of(vectors)["num_unindexed_rows"] == unindexed
    assert done == ["nothing", "made", "nothing", "extended", "remade"]
    assert len(index_of(vectors)["indices"][0]["partitions"]) == 30
    assert vectors.tend_index(from_rows=400) == "nothing"


def test_rows_of_one_vector_fill_one_partition_and_the_index_is_not_remade_for_that(
    tmp_path: Path, vectors: Vectors
) -> None:
    same = [block(tmp_path / f"{n}.parquet", ["always the same"], scope=f"s{n}") for n in range(5)]
    many = pl.concat([pl.read_parquet(same[0])] * 900).with_row_index()
    many = many.with_columns(chunk_id=derived_id(pl.col("index").cast(pl.String))).drop("index")
    many.write_parquet(tmp_path / "many.parquet")
    vectors.replace_unpublished([tmp_path / "many.parquet"], run=None)
    assert vectors.tend_index(from_rows=400) == "made"
    vectors.replace_unpublished(same, run=as_published(vectors))
    assert vectors.tend_index(from_rows=400) == "nothing"


def test_zero_vectors_are_indexed_as_well(tmp_path: Path, vectors: Vectors) -> None:
    texts = ["" if n % 10 == 0 else text for n, text in enumerate(clusters(0, 500))]
    staged = pl.read_parquet(block(tmp_path / "0.parquet", list(texts))).with_row_index()
    rows = pl.when(pl.col("index") % 10 == 0).then(pl.lit(0.0)).otherwise(pl.lit(1.0))
    zeroed = staged.with_columns(vector=(pl.col("vector").arr.to_list() * rows).list.to_array(DIMENSIONS))
    zeroed.drop("index").cast({"vector": pl.Array(pl.Float32, DIMENSIONS)}).write_parquet(tmp_path / "1.parquet")
    vectors.replace_unpublished([tmp_path / "1.parquet"], run=None)
    assert vectors.tend_index(from_rows=400) == "made"
    loaded = vectors.load(["acme"])
    assert (vectors.partitions(loaded).of_row >= 0).all()


def test_the_same_rows_make_the_same_index_in_whatever_order_they_came(tmp_path: Path, vectors: Vectors) -> None:
    other = Vectors(Warehouse(str(tmp_path / "other")), VERSION, DIMENSIONS)
    for each, texts in ((vectors, clusters(0, 500)), (other, clusters(0, 500)[::-1])):
        each.replace_unpublished([block(tmp_path / "b.parquet", list(texts))], run=None)
        each.tend_index(from_rows=400)
    one, two = (each.partitions(each.load(["acme"])) for each in (vectors, other))
    assert np.array_equal(one.centroids, two.centroids)
    assert np.array_equal(one.of_row, two.of_row)


def test_the_table_is_open_to_lance_as_it_is(tmp_path: Path, vectors: Vectors) -> None:
    vectors.replace_unpublished([block(tmp_path / "0.parquet", list(clusters(0, 500)))], run=None)
    vectors.tend_index(from_rows=400)
    dataset = lance.dataset(f"{tmp_path}/w/{vectors.table}.lance")
    query = unit_vectors([clusters(7, 8)[0]])[0]
    found = dataset.to_table(columns=["chunk_id"], nearest={"column": "vector", "q": query, "k": 1})
    wanted = pl.read_parquet(tmp_path / "0.parquet")["chunk_id"][7]
    assert found["chunk_id"].to_pylist() == [wanted]
