"""The encoder that the settings ask for, and the transformer among them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from flows.encoders import EncoderUnavailable, TransformerEncoder, open_encoder
from flows.model_files import prepare_libraries
from flows.settings import EmbeddingSettings
from tests.flows.tiny_model import write_tiny_model
from transforms.embedding import EncodingFailed, embedded

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.xdist_group("model")


def opened(**settings: Any) -> TransformerEncoder:
    encoder = open_encoder(EmbeddingSettings(encoder="transformer", **settings), tell=print)
    assert isinstance(encoder, TransformerEncoder)
    return encoder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prepare_libraries(allow_hub=False)
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


def test_embedding_can_be_switched_off() -> None:
    assert open_encoder(EmbeddingSettings(encoder="none"), tell=print) is None


def test_naming_an_encoder_loads_no_model_library() -> None:
    code = "import sys, flows.encoders; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    heavy = {"torch", "transformers", "sentence_transformers", "model2vec", "huggingface_hub", "tokenizers"}
    assert heavy.isdisjoint(done.stdout.split())


def test_the_transformer_reads_meaning_and_order(capfd: pytest.CaptureFixture[str]) -> None:
    encoder = opened()
    assert (encoder.model, encoder.dimensions, len(encoder.version)) == ("all-MiniLM-L6-v2", 384, 16)
    texts = pl.Series(["a man is playing a guitar on the street", "someone plays guitar outside", "boil water", ""])
    vectors, has = embedded(texts, encoder=encoder)
    assert has.all()
    assert np.allclose(np.linalg.norm(vectors[:3], axis=1), 1, atol=1e-5)
    assert not vectors[3].any()
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]
    assert capfd.readouterr() == ("", "")


def test_vectors_come_back_in_the_order_of_the_texts_whatever_their_lengths(tiny: Path) -> None:
    encoder = opened(model=str(tiny), batch_size=2)
    texts = ["the red car is fast", "car", "two train road", "a", "the house is not blue one"]
    together = encoder.encode(pl.Series(texts))
    alone = np.concatenate([encoder.encode(pl.Series([text])) for text in texts])
    assert together.dtype == np.float32
    assert np.allclose(together, alone, atol=1e-5)


def test_fewer_dimensions_are_another_version_and_still_unit_length(tiny: Path) -> None:
    whole, short = opened(model=str(tiny)), opened(model=str(tiny), dimensions=4)
    assert (whole.dimensions, short.dimensions) == (16, 4)
    assert whole.version != short.version
    assert np.allclose(np.linalg.norm(short.encode(pl.Series(["red car"])), axis=1), 1)


def test_more_dimensions_than_the_model_has_are_refused(tiny: Path) -> None:
    with pytest.raises(EncoderUnavailable) as refused:
        opened(model=str(tiny), dimensions=17)
    assert str(refused.value) == (
        f"[embedding] dimensions = 17: {tiny} has vectors of 16; set at most that, or leave it unset"
    )


def test_a_folder_that_is_no_model_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EncoderUnavailable) as refused:
        opened(model=str(tmp_path))
    assert str(refused.value).startswith(
        f"[embedding] model = '{tmp_path}': cannot be opened as a sentence-transformers"
    )
    assert "\n" not in str(refused.value)


def test_a_batch_that_does_not_fit_into_memory_has_failed_and_is_halved(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = opened(model=str(tiny))
    encode = encoder.transformer.encode

    def with_little_memory(texts: list[str], **how: Any) -> Any:
        if len(texts) > 2:
            raise RuntimeError("out of memory")
        return encode(texts, **how)

    monkeypatch.setattr(encoder.transformer, "encode", with_little_memory)
    texts = pl.Series(["red", "blue", "car", "train", "road"])
    with pytest.raises(EncodingFailed, match=r"out of memory$"):
        encoder.encode(texts)
    assert embedded(texts, encoder=encoder)[1].all()
