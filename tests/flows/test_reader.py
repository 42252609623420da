"""The reader with a real transformer of a few kilobytes: pairs in any order, words it knows and words it does not."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from flows import reader as reader_module
from flows.model_files import EncoderUnavailable, prepare_libraries
from flows.reader import READING, Reader, open_reader
from tests.flows.tiny_model import write_tiny_model

pytestmark = pytest.mark.xdist_group("model")
TEXTS = pl.Series(
    ["the red car is fast", "the blue car is slow", "THE RED CAR IS FAST", "", "🙂 🙃", "a train", "the red car " * 60]
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    prepare_libraries(allow_hub=False)
    return open_reader(str(write_tiny_model(tmp_path_factory.mktemp("tiny"))), allow_hub=False)


def places(*at: int) -> NDArray[np.int64]:
    return np.array(at, dtype=np.int64)


def read(reader: Reader, left: NDArray[np.int64], right: NDArray[np.int64]) -> pl.DataFrame:
    return reader.read(TEXTS, left, right, tell_rows=lambda _: None)


def test_a_text_is_as_near_to_itself_as_can_be(tiny: Reader) -> None:
    found = read(tiny, places(0, 0, 6), places(0, 2, 6)).to_numpy()
    assert found == pytest.approx(np.ones((3, 4)), abs=2e-3)


def test_the_worst_word_is_further_than_the_three_worst_and_these_than_the_mean(tiny: Reader) -> None:
    row = read(tiny, places(0), places(1)).row(0, named=True)
    assert row["worst"] < row["worst_three"] < row["mean"] < 1
    assert -1 <= row["reading"] < 1


def test_left_and_right_swapped_read_the_same(tiny: Reader) -> None:
    left, right = places(0, 1, 5, 6), places(1, 5, 6, 0)
    assert read(tiny, left, right).to_numpy() == pytest.approx(read(tiny, right, left).to_numpy(), abs=1e-5)


def test_a_reading_stands_beside_its_pair_whatever_the_order_and_how_many_at_once(
    tiny: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = places(5, 0, 1, 0, 6), places(0, 1, 5, 2, 1)
    at_once = read(tiny, left, right).to_numpy()
    told: list[int] = []
    monkeypatch.setattr(reader_module, "_PAIRS_AT_ONCE", 2)
    in_parts = tiny.read(TEXTS, left, right, tell_rows=told.append).to_numpy()
    assert in_parts == pytest.approx(at_once, abs=1e-5)
    assert told == [2, 4, 5]
    for row in range(len(left)):
        alone = read(tiny, left[row : row + 1], right[row : row + 1]).to_numpy()
        assert alone[0] == pytest.approx(at_once[row], abs=1e-5)


def test_a_text_without_words_has_no_counterparts(tiny: Reader) -> None:
    found = read(tiny, places(3, 3, 0), places(3, 0, 3))
    assert found.select("mean", "worst", "worst_three").rows() == [(0.0, 0.0, 0.0)] * 3


def test_words_that_the_model_does_not_know_are_no_counterparts_of_each_other(tiny: Reader) -> None:
    texts = pl.Series(["the red zebra", "the red lion", "他喜欢猫", "他喜欢狗"])
    found = tiny.read(texts, places(0, 2), places(1, 3), tell_rows=lambda _: None)
    assert found["worst"].to_list() == pytest.approx([0, 0])


def test_no_pairs_have_the_shape_of_many(tiny: Reader) -> None:
    none = read(tiny, places(), places())
    assert none.schema == read(tiny, places(0), places(1)).schema == READING
    assert none.is_empty()


def test_a_model_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(EncoderUnavailable, match="nowhere"):
        open_reader(str(tmp_path / "nowhere"), allow_hub=False)
