"""Vectors for texts, and what is left of a batch in which some fail."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transforms.embedding import EncoderDown, EncodingFailed, embedded, unit
from transforms.vocabulary import Vectors


def of(text: str) -> list[float]:
    return [float(len(text)), 1.0]


def vectors_of(texts: pl.Series) -> Vectors:
    return np.array([of(text) for text in texts], dtype=np.float32).reshape(texts.len(), 2)


@dataclass
class Scripted:
    """An encoder that does as it is told, and remembers what it was asked."""

    answer: Callable[[pl.Series], Vectors] = vectors_of
    batch_rows: int = 4
    model: str = "scripted"
    version: str = "0" * 16
    dimensions: int = 2
    asked: list[list[str]] = field(default_factory=list)

    def encode(self, texts: pl.Series) -> Vectors:
        self.asked.append(texts.to_list())
        return self.answer(texts)


def failing_on(bad: str, how: Callable[[pl.Series], Vectors]) -> Callable[[pl.Series], Vectors]:
    def answer(texts: pl.Series) -> Vectors:
        return how(texts) if texts.str.contains(bad, literal=True).any() else vectors_of(texts)

    return answer


def refuses(texts: pl.Series) -> Vectors:
    raise EncodingFailed(f"refused {texts.len()}")


def not_finite(texts: pl.Series) -> Vectors:
    return np.full((texts.len(), 2), np.nan, dtype=np.float32)


def infinite(texts: pl.Series) -> Vectors:
    return np.full((texts.len(), 2), -np.inf, dtype=np.float32)


def too_few(texts: pl.Series) -> Vectors:
    return vectors_of(texts)[1:]


def too_long(texts: pl.Series) -> Vectors:
    return np.ones((texts.len(), 3), dtype=np.float32)


def doubles(texts: pl.Series) -> Vectors:
    return vectors_of(texts).astype(np.float64)


FAULTS = [refuses, not_finite, infinite, too_few, too_long, doubles]


def series(texts: list[str | None]) -> pl.Series:
    return pl.Series(texts, dtype=pl.String)


@pytest.mark.parametrize("fault", FAULTS)
@given(texts=st.lists(st.sampled_from(["a", "bb", "ccc", "bad", "so bad", "", " \n"]) | st.none(), max_size=20))
def test_only_the_texts_that_fail_have_no_vector(
    fault: Callable[[pl.Series], Vectors], texts: list[str | None]
) -> None:
    vectors, has = embedded(series(texts), encoder=Scripted(failing_on("bad", fault)))
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(texts), 2)
    assert has.tolist() == [text is not None and "bad" not in text for text in texts]
    wanted = [of(text) if text and text.strip() and "bad" not in text else [0.0, 0.0] for text in texts]
    assert vectors.tolist() == wanted


def test_a_text_that_stands_several_times_is_asked_for_once_and_blank_ones_never() -> None:
    encoder = Scripted(batch_rows=100)
    vectors, has = embedded(series(["a", "bb", "a", None, "", "bb", " "]), encoder=encoder)
    assert encoder.asked == [["a", "bb"]]
    assert vectors[:, 0].tolist() == [1, 2, 1, 0, 0, 2, 0]
    assert has.tolist() == [True, True, True, False, True, True, True]


def test_texts_are_asked_for_in_batches_and_a_good_batch_once() -> None:
    encoder = Scripted(failing_on("bad", refuses))
    embedded(series(["a", "b", "c", "d", "e", "bad", "g", "h", "i"]), encoder=encoder)
    assert encoder.asked == [
        ["a", "b", "c", "d"],
        ["e", "bad", "g", "h"],
        ["text"],
        ["e", "bad"],
        ["e"],
        ["bad"],
        ["g", "h"],
        ["i"],
    ]


def test_the_reason_is_told_for_each_text_that_stands_alone() -> None:
    told: list[tuple[str, int]] = []
    encoder = Scripted(failing_on("bad", too_long))
    embedded(
        series(["a", "bad 1", "b", "bad 2"]), encoder=encoder, report=lambda why, rows: told.append((str(why), rows))
    )
    assert told == [("scripted: gave float32 of shape (1, 3), not float32 of shape (1, 2)", 1)] * 2


def test_nothing_is_asked_of_an_encoder_that_is_down() -> None:
    def down(texts: pl.Series) -> Vectors:
        raise EncoderDown("no route")

    told: list[tuple[type, int]] = []
    encoder = Scripted(down)
    vectors, has = embedded(
        series([str(n) for n in range(50)]), encoder=encoder, report=lambda why, rows: told.append((type(why), rows))
    )
    assert len(encoder.asked) == 1
    assert not vectors.any()
    assert not has.any()
    assert told == [(EncoderDown, 50)]


@pytest.mark.parametrize("fault", FAULTS)
def test_an_encoder_that_fails_on_everything_is_taken_for_down_after_two_requests(
    fault: Callable[[pl.Series], Vectors],
) -> None:
    encoder = Scripted(fault, batch_rows=10)
    told: list[tuple[type, int]] = []
    _, has = embedded(
        series([str(n) for n in range(1000)]), encoder=encoder, report=lambda why, rows: told.append((type(why), rows))
    )
    assert len(encoder.asked) == 2
    assert not has.any()
    assert told == [(EncoderDown, 1000)]


def test_an_encoder_that_goes_down_on_the_way_leaves_what_it_gave() -> None:
    def answer(texts: pl.Series) -> Vectors:
        if "bad" in texts:
            return refuses(texts)
        if texts.len() == 1 and texts[0] in {"text", "c"}:
            raise EncoderDown("gone") if texts[0] == "c" else EncodingFailed("odd")
        return vectors_of(texts)

    told: list[int] = []
    encoder = Scripted(answer, batch_rows=2)
    _, has = embedded(series(["a", "b", "bad", "c", "d"]), encoder=encoder, report=lambda _, rows: told.append(rows))
    assert has.tolist() == [True, True, False, False, False]
    assert told == [3]


def test_an_encoder_that_goes_down_while_a_batch_is_split_keeps_the_good_half() -> None:
    def answer(texts: pl.Series) -> Vectors:
        if texts.len() > 1:
            return refuses(texts)
        if texts[0] == "b":
            raise EncoderDown("gone")
        return vectors_of(texts)

    _, has = embedded(series(["a", "b", "c"]), encoder=Scripted(answer))
    assert has.tolist() == [True, False, False]


def test_the_probe_of_an_encoder_that_says_it_is_down_is_believed() -> None:
    def answer(texts: pl.Series) -> Vectors:
        if texts.to_list() == ["text"]:
            raise EncoderDown("gone")
        return refuses(texts)

    told: list[str] = []
    embedded(series(["a", "b"]), encoder=Scripted(answer), report=lambda why, _: told.append(str(why)))
    assert told == ["gone"]


def test_without_texts_there_is_nothing_to_ask() -> None:
    encoder = Scripted()
    vectors, has = embedded(series([]), encoder=encoder)
    assert (vectors.shape, has.shape, encoder.asked) == ((0, 2), (0,), [])


# ---- unit length


@given(vectors=arrays(np.float64, (3, 4), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_every_finite_row_comes_to_unit_length_or_stays_zero(vectors: npt.NDArray[np.float64]) -> None:
    is_zero = ~vectors.any(axis=1)
    lengths = np.linalg.norm(unit(vectors.copy()).astype(np.float64), axis=1)
    assert np.allclose(lengths, np.where(is_zero, 0, 1), atol=1e-6)


@given(vectors=arrays(np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_so_does_every_row_of_float32(vectors: npt.NDArray[np.float32]) -> None:
    is_zero = ~vectors.any(axis=1)
    scaled = unit(vectors.copy())
    assert scaled.dtype == np.float32
    assert np.allclose(np.linalg.norm(scaled.astype(np.float64), axis=1), np.where(is_zero, 0, 1), atol=1e-5)
