"""The encoder that the settings ask for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from flows.embedding_endpoint import open_endpoint
from flows.model_files import EncoderUnavailable, folder_digest, model_folder, prepare_libraries, version_of
from flows.settings import EmbeddingSettings
from flows.static_model import open_static
from transforms.embedding import Encoder, EncodingFailed, unit
from transforms.vocabulary import Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["EncoderUnavailable", "open_encoder"]


def open_encoder(settings: EmbeddingSettings, *, tell: Callable[[str], None]) -> Encoder | None:
    """The encoder of the settings; None where embedding is switched off. `tell` hears of what takes long."""
    match settings.encoder:
        case "static":
            return open_static(settings, tell=tell)
        case "transformer":
            return _open_transformer(settings)
        case "http":
            return open_endpoint(settings)
        case "none":
            return None


@dataclass(frozen=True)
class TransformerEncoder:
    """A sentence-transformers model, on the device it chooses."""

    model: str
    version: str
    dimensions: int
    transformer: "SentenceTransformer"
    batch_size: int
    # The library sorts what it is given by length before it cuts batches: more at once is less padding.
    batch_rows: int = 4_096

    def encode(self, texts: pl.Series) -> Vectors:
        """A unit vector for each text; a text is read up to the model's own length."""
        try:
            vectors = self.transformer.encode(
                texts.to_list(), batch_size=self.batch_size, show_progress_bar=False, convert_to_numpy=True
            )
        except RuntimeError as error:  # as torch says that memory is short
            raise EncodingFailed(f"{self.model}: {error}") from error
        return unit(np.asarray(vectors, dtype=np.float32))


def _open_transformer(settings: EmbeddingSettings) -> TransformerEncoder:
    folder = model_folder(settings.model, allow_hub=settings.allow_hub)
    version = version_of(["transformer 1", folder_digest(folder), str(settings.dimensions)])
    transformer = _transformer(folder, settings)
    dimensions = transformer.get_embedding_dimension()
    if dimensions is None or dimensions != (settings.dimensions or dimensions):
        raise EncoderUnavailable(
            f"[embedding] dimensions = {settings.dimensions}: {settings.model} has vectors of {dimensions}; "
            "set at most that, or leave it unset"
        )
    return TransformerEncoder(
        model=settings.model,
        version=version,
        dimensions=dimensions,
        transformer=transformer,
        batch_size=settings.batch_size,
    )


def open_transformer(settings: EmbeddingSettings) -> "SentenceTransformer":
    """The sentence-transformers model that the settings name."""
    return _transformer(model_folder(settings.model, allow_hub=settings.allow_hub), settings)


def _transformer(folder: Path, settings: EmbeddingSettings) -> "SentenceTransformer":
    prepare_libraries(allow_hub=settings.allow_hub)
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        return SentenceTransformer(
            str(folder), truncate_dim=settings.dimensions, local_files_only=not settings.allow_hub
        )
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, ImportError) as error:
        why = " ".join(str(error).split())[:200]
        raise EncoderUnavailable(
            f"[embedding] model = {settings.model!r}: cannot be opened as a sentence-transformers model "
            f"({type(error).__name__}: {why}); name another folder or model"
        ) from error
