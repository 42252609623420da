"""Vectors of an OpenAI-compatible endpoint: patient with one that is busy, plain about one that refuses."""

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from flows.endpoint import Endpoint, EndpointRefused, NoKey, TextsRefused, TryAgain, key_in
from flows.model_files import EncoderUnavailable, version_of
from flows.settings import EmbeddingSettings
from transforms.embedding import EncoderDown, EncodingFailed, unit
from transforms.vocabulary import Vectors


@dataclass
class EndpointEncoder:
    """Asks an endpoint for vectors, a batch a request."""

    settings: EmbeddingSettings
    dimensions: int
    endpoint: Endpoint

    def __post_init__(self) -> None:
        self._failed: frozenset[str] = frozenset()

    @property
    def model(self) -> str:
        """Its name at the endpoint."""
        return self.settings.model

    @property
    def version(self) -> str:
        """A digest of address, model and dimensions: the weights are not ours to see."""
        return version_of(["http 1", self.endpoint.url, self.model, self.dimensions])

    @property
    def batch_rows(self) -> int:
        """Texts in one request."""
        return self.settings.batch_size

    def encode(self, texts: pl.Series) -> Vectors:
        """A unit vector for each text. EncoderDown when the endpoint refuses, or is busy or away after all retries."""
        some = range(0, texts.len(), self.batch_rows)
        batches = [self._batch(texts[start : start + self.batch_rows].to_list()) for start in some]
        return np.concatenate(batches) if batches else np.zeros((0, self.dimensions), dtype=np.float32)

    def close(self) -> None:
        """Lets go of the connection."""
        self.endpoint.close()

    def _batch(self, texts: list[str]) -> Vectors:
        # A part of what has failed after all retries is not worth them again: it is asked to find the one bad text.
        is_part = self._failed.issuperset(texts)
        attempt = 0
        while True:
            try:
                answer = self.endpoint.ask({"model": self.model, "input": texts})
                return unit(self._vectors(answer, rows=len(texts)))
            except TextsRefused as refused:
                raise EncodingFailed(f"{self.endpoint.url}: {refused}") from refused
            except EndpointRefused as refused:
                raise EncoderDown(f"{self.endpoint.url}: {refused}") from refused
            except TryAgain as again:
                is_last = attempt == self.settings.retries or (is_part and again.of_the_texts)
                if is_last and again.of_the_texts:
                    self._failed = self._failed if is_part else frozenset(texts)
                    raise EncodingFailed(f"{self.endpoint.url}: {again}") from again
                if is_last or again.asks_for_too_long:
                    raise EncoderDown(f"{self.endpoint.url}: {again}; run `nightfold retry` when it is back") from again
                self.endpoint.wait(attempt, again)
                attempt += 1

    def _vectors(self, body: bytes, *, rows: int) -> npt.NDArray[np.float64]:
        """The vectors of an answer, in the order of the texts."""
        try:
            data = json.loads(body)["data"]
            by_index = {int(each["index"]): each["embedding"] for each in data}
            in_order = [by_index[index] for index in range(rows)]
            vectors = np.array(in_order, dtype=np.float64)
        except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
            raise TryAgain(f"gives no vector for each of {rows} texts", of_the_texts=True) from error
        if len(data) != rows or vectors.ndim != 2:
            raise TryAgain(f"gives {len(data)} answers for {rows} texts", of_the_texts=True)
        if vectors.shape[1] != self.dimensions:
            raise TryAgain(
                f"gives vectors of {vectors.shape[1]}, [embedding] dimensions is {self.dimensions}", of_the_texts=True
            )
        if not np.isfinite(vectors).all():
            raise TryAgain("gives a vector that is not finite", of_the_texts=True)
        return vectors


def open_endpoint(settings: EmbeddingSettings) -> EndpointEncoder:
    """The endpoint of the settings. Nothing is asked of it yet: rows are stored also while it is away."""
    try:
        key = key_in(settings.api_key_variable, section="embedding")
    except NoKey as error:
        raise EncoderUnavailable(str(error)) from error
    assert settings.dimensions is not None  # as the settings have checked
    endpoint = Endpoint(
        url=f"{(settings.url or '').rstrip('/')}/embeddings",
        section="embedding",
        key=key,
        api_key_variable=settings.api_key_variable,
        requests_per_minute=settings.requests_per_minute,
        timeout_seconds=settings.timeout_seconds,
    )
    return EndpointEncoder(settings=settings, dimensions=settings.dimensions, endpoint=endpoint)
