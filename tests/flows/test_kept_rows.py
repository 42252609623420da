"""Rows kept as the join reads them: the pairs are those of the table itself, whatever is left of the files."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from polars.testing import assert_frame_equal

from flows import near, vectors
from flows.near import join_scopes
from flows.settings import NeighbourSettings
from flows.vectors import Vectors
from flows.warehouse import Warehouse
from tests.flows.test_vectors import as_published, block, clusters
from transforms.grid import Floats, Places
from transforms.sieve import Codes, Products

DIMENSIONS = 16


def products_of_all(left: Codes, right: Codes, into: NDArray[np.int32]) -> None:
    np.matmul(left.astype(np.int32), right.astype(np.int32).T, out=into)


def products_of_pairs(left: Floats, right: Floats, row: Places, column: Places) -> Floats:
    dots: Floats = np.einsum("ij,ij->i", left[row], right[column])
    return dots


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vectors:
    """A table whose rows are kept from the first on."""
    monkeypatch.setattr(vectors, "_KEPT_FROM_ROWS", 1)
    monkeypatch.setattr(near, "_SIEVED_FROM_ROWS", 1)
    monkeypatch.setattr(near, "products", lambda: Products(products_of_all, products_of_pairs))
    (tmp_path / "w").mkdir()
    return Vectors(Warehouse(str(tmp_path / "w")), "0123456789abcdef", DIMENSIONS)


def with_nights(table: Vectors, folder: Path, *nights: dict[str, list[str]]) -> pl.DataFrame:
    """Appends these texts by scope, a block a scope and night; returns the chunks of the last night."""
    run = None
    for number, night in enumerate(nights):
        staged = [
            block(folder / f"{number}-{n}.parquet", list(texts), scope=scope)
            for n, (scope, texts) in enumerate(night.items())
        ]
        table.replace_unpublished(staged, run=run)
        run = as_published(table)
    return pl.concat(pl.read_parquet(path, columns=["chunk_id", "scope"]) for path in staged)


def joined(table: Vectors, new: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    settings = NeighbourSettings(threshold=0.8, max_candidates=3)
    pairs, measured = join_scopes(table, new, settings=settings, probes_before={}, threads=2, tell_rows=lambda _: None)
    return pairs, measured.found


def from_the_table(table: Vectors, new: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """As it would be without what is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near, "products", lambda: None)
        return joined(table, new)


def check_as_from_the_table(table: Vectors, new: pl.DataFrame) -> None:
    pairs, found = joined(table, new)
    expected, expected_found = from_the_table(table, new)
    assert_frame_equal(pairs, expected)
    assert found == expected_found > 0


def files(table: Vectors) -> list[Path]:
    return sorted((table.warehouse.folder / "kept" / table.table).glob("*.arrow"))


@pytest.mark.parametrize("narrowed_from", [1, 10_000])
def test_pairs_are_those_of_the_table_on_a_first_night_and_on_later_ones(
    table: Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrowed_from: int
) -> None:
    monkeypatch.setattr(near, "_NARROWED_FROM", narrowed_from)
    first = {"acme": clusters(0, 400), "o'neil": clusters(100, 300), "quiet": clusters(0, 50)}
    check_as_from_the_table(table, with_nights(table, tmp_path, first))
    new = with_nights(table, tmp_path, first, {"acme": clusters(400, 420), "o'neil": clusters(0, 5), "late": ["a b"]})
    check_as_from_the_table(table, new)
    assert len(files(table)) == len(table.warehouse.head(table.table).get_fragments()) == 2


def test_a_night_of_few_new_rows_joins_only_what_lies_near_them(table: Vectors, tmp_path: Path) -> None:
    new = with_nights(table, tmp_path, {"acme": clusters(0, 500)}, {"acme": clusters(500, 502)})
    loaded, sieve = near._load(table, new, settings=NeighbourSettings(threshold=0.8), threads=1)
    kinds = pl.DataFrame({"text": clusters(0, 502)}).filter(pl.int_range(pl.len()) % 25 < 2).height
    assert sieve is not None
    assert new.height < len(loaded.grid) <= kinds


def test_what_is_missing_damaged_or_of_other_axes_is_made_again(table: Vectors, tmp_path: Path) -> None:
    new = with_nights(table, tmp_path, {"acme": clusters(0, 300)}, {"acme": clusters(300, 310)})
    expected = joined(table, new)
    first, second = files(table)
    whole = first.read_bytes()
    axes = first.parent / "axes.npz"
    for damage in (
        first.unlink,
        lambda: first.write_bytes(b""),
        lambda: first.write_bytes(whole[: len(whole) // 2]),
        lambda: first.write_bytes(second.read_bytes()),
        axes.unlink,
        lambda: axes.write_bytes(b"no axes"),
        lambda: axes.write_bytes(axes.read_bytes()[:-1]),
        lambda: np.savez(axes, turn=np.eye(DIMENSIONS, 4, dtype=np.float32), step=50.0, rests=3),
        lambda: np.savez(axes, turn=np.eye(4, dtype=np.float32), step=50.0, rests=1),
    ):
        damage()
        pairs, found = joined(table, new)
        assert_frame_equal(pairs, expected[0])
        assert found == expected[1]
        assert [path.name for path in files(table)] == [first.name, second.name]


def test_files_of_rows_that_were_never_published_and_of_tables_that_are_gone_are_dropped(
    table: Vectors, tmp_path: Path
) -> None:
    first = {"acme": clusters(0, 100)}
    joined(table, with_nights(table, tmp_path, first, {"acme": clusters(100, 110)}))
    before = files(table)
    gone = table.warehouse.folder / "kept" / "vectors_of_another_model"
    gone.mkdir()
    (gone / "axes.npz").touch()
    check_as_from_the_table(table, with_nights(table, tmp_path, first, {"acme": clusters(110, 130)}))
    assert not gone.exists()
    assert len(files(table)) == 2
    assert set(before).isdisjoint(files(table))


def test_a_table_that_rows_were_deleted_from_is_read_itself(table: Vectors, tmp_path: Path) -> None:
    new = with_nights(table, tmp_path, {"acme": clusters(0, 100)}, {"acme": clusters(100, 110)})
    table.warehouse.head(table.table).delete(f"chunk_id = '{new['chunk_id'][0]}'")
    assert table.kept(threshold=0.8, threads=1) is None
    check_as_from_the_table(table, new[1:])
