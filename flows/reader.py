"""The reader: a transformer that reads the two texts of a pair, each word in its sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.encoders import open_transformer
from flows.settings import EmbeddingSettings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Floats = NDArray[np.float32]
# The words of both texts of so many pairs are held in memory at once: some 80 kB a text.
_PAIRS_AT_ONCE = 4_096
READING = pl.Schema({"reading": pl.Float32, "mean": pl.Float32, "worst": pl.Float32, "worst_three": pl.Float32})


def open_reader(model: str, *, allow_hub: bool) -> "Reader":
    """The reader of that model."""
    return Reader(open_transformer(EmbeddingSettings(encoder="transformer", model=model, allow_hub=allow_hub)))


@dataclass(frozen=True)
class Reader:
    """Reads pairs of texts."""

    transformer: "SentenceTransformer"
    batch_size: int = 64

    def read(
        self, texts: pl.Series, left: NDArray[np.int64], right: NDArray[np.int64], *, tell_rows: Callable[[int], None]
    ) -> pl.DataFrame:
        """How near the two texts of each pair are, as wholes and word by word: the mean, the worst and the three worst
        of the words' nearest counterparts, of the side on which they are worse."""
        found = np.zeros((len(left), 4), dtype=np.float32)
        order = np.lexsort((right, left))
        for start in range(0, len(order), _PAIRS_AT_ONCE):
            some = order[start : start + _PAIRS_AT_ONCE]
            needed = np.unique(np.concatenate([left[some], right[some]]))
            whole, words = self._words(texts.gather(needed).to_list())
            at = np.searchsorted(needed, np.stack([left[some], right[some]]))
            found[some, 0] = np.einsum("ij,ij->i", whole[at[0]], whole[at[1]])
            for row, one, other in zip(some, at[0], at[1], strict=True):
                found[row, 1:] = _counterparts(words[one], words[other])
            tell_rows(start + len(some))
        return pl.DataFrame(found, schema=READING)

    def _words(self, texts: list[str]) -> tuple[Floats, list[NDArray[np.float16]]]:
        outputs: list[dict[str, Any]] = self.transformer.encode(  # type: ignore[assignment]
            texts, output_value=None, batch_size=self.batch_size, show_progress_bar=False
        )
        whole = np.stack([_unit(output["sentence_embedding"].numpy(force=True)) for output in outputs])
        unknown = self.transformer.tokenizer.unk_token_id
        words = []
        for output in outputs:
            is_there = output["attention_mask"].numpy(force=True) > 0
            tokens = _unit(output["token_embeddings"].numpy(force=True)[is_there])
            # Words that the model does not know all look alike to it: they have no counterpart.
            tokens[output["input_ids"].numpy(force=True)[is_there] == unknown] = 0
            # The first and the last stand for no word.
            words.append(tokens[1:-1].astype(np.float16))
        return whole, words


def _unit(vectors: NDArray[np.float32]) -> Floats:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Floats = vectors / np.maximum(lengths, 1e-12)
    return unit


def _counterparts(one: NDArray[np.float16], other: NDArray[np.float16]) -> tuple[float, float, float]:
    if not len(one) or not len(other):
        return 0.0, 0.0, 0.0
    near = one.astype(np.float32) @ other.astype(np.float32).T
    mean = worst = three = 1.0
    for best in (near.max(axis=1), near.max(axis=0)):
        lowest = np.sort(best)[:3]
        mean, worst, three = min(mean, best.mean()), min(worst, lowest[0]), min(three, lowest.mean())
    return mean, worst, three
