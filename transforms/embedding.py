"""Vectors for texts: what an encoder is, and how one bad text is kept from taking its neighbours with it."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from transforms.vocabulary import Vectors, distinct_with_codes

# Asked for after a failed batch, to tell a bad text from an encoder that answers nobody.
_PROBE = pl.Series(["text"])


class EncodingFailed(Exception):
    """Some of these texts have no vector now; others, or a part of them, may."""


class EncoderDown(EncodingFailed):
    """No text can have a vector now, whatever it says."""


class Encoder(Protocol):
    """Turns texts into vectors. Handed in: what runs behind it is not known here."""

    @property
    def model(self) -> str:
        """Its name."""

    @property
    def version(self) -> str:
        """16 hex characters, a digest of weights and settings; another digest, another vector space."""

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""

    @property
    def batch_rows(self) -> int:
        """How many texts it takes well at once; a failure costs at most that many texts a second asking."""

    def encode(self, texts: pl.Series) -> Vectors:
        """float32 [n, dimensions], rows of unit length or zero; EncodingFailed where it has none."""


Report = Callable[[EncodingFailed, int], None]


def embedded(
    texts: pl.Series, *, encoder: Encoder, report: Report | None = None
) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    """A vector for each text, and whether it has one; a text without has zeros and is False.

    A text that stands several times is asked for once. A batch that fails, or comes back as something else than finite
    float32 vectors of the right shape, is halved until the failing texts stand alone; the others keep their vectors.
    When the encoder is down, the texts left are not asked for. A null has no vector; the vector of a blank text is
    zero, under every encoder. `report` is told why, and how many distinct texts it concerns.
    """
    # By their hashes: two texts that share one by chance only take the longer way.
    if texts.hash().is_duplicated().any():
        distinct, codes = distinct_with_codes(texts)
        vectors, has = _embedded_once(distinct, encoder=encoder, report=report)
        return vectors[codes], has[codes]
    return _embedded_once(texts, encoder=encoder, report=report)


def _embedded_once(
    distinct: pl.Series, *, encoder: Encoder, report: Report | None
) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    done = (distinct.is_null() | (distinct.str.strip_chars() == "")).fill_null(value=True)
    has = (done & distinct.is_not_null()).to_numpy().copy()
    asked = (~done).arg_true()
    vectors: Vectors = np.zeros((distinct.len(), encoder.dimensions), dtype=np.float32)
    for start in range(0, asked.len(), encoder.batch_rows):
        rows = asked.slice(start, encoder.batch_rows)
        try:
            vectors = _embed(distinct, rows, vectors, has, encoder=encoder, report=report)
        except EncoderDown as down:
            if report is not None:
                left = asked.slice(start)
                report(down, left.len() - int(has[left].sum()))
            break
    return vectors, has


def _embed(
    texts: pl.Series,
    rows: pl.Series,
    vectors: Vectors,
    has: npt.NDArray[np.bool_],
    *,
    encoder: Encoder,
    report: Report | None,
) -> Vectors:
    """The vectors with what the encoder has for these rows of the texts."""
    parts = [rows]
    while parts:
        part = parts.pop()
        try:
            if part.len() == texts.len():
                vectors = _asked(texts, encoder)  # all of them: not copied
            else:
                vectors[_at(part)] = _asked(texts.gather(part), encoder)
            has[_at(part)] = True
        except EncoderDown:
            raise
        except EncodingFailed as failed:
            if part is rows:
                _refuse_if_down(encoder, failed)
            middle = part.len() // 2
            if middle:
                parts += [part.slice(middle), part.slice(0, middle)]
            elif report is not None:
                report(failed, 1)
    return vectors


def _at(rows: pl.Series) -> slice | npt.NDArray[np.uint32]:
    """Sorted rows as an index; as a slice where they stand together, which copies several times as fast."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == rows.len() else rows.to_numpy()


def _refuse_if_down(encoder: Encoder, failed: EncodingFailed) -> None:
    """Without this, an encoder that fails on everything would be asked twice for every text."""
    try:
        _asked(_PROBE, encoder)
    except EncoderDown:
        raise
    except EncodingFailed:
        raise EncoderDown(str(failed)) from failed


def _asked(texts: pl.Series, encoder: Encoder) -> Vectors:
    vectors = encoder.encode(texts)
    wanted = (texts.len(), encoder.dimensions)
    if vectors.shape != wanted or vectors.dtype != np.float32:
        raise EncodingFailed(
            f"{encoder.model}: gave {vectors.dtype} of shape {vectors.shape}, not float32 of shape {wanted}"
        )
    if not np.isfinite(vectors).all():
        raise EncodingFailed(f"{encoder.model}: gave a vector that is not finite")
    return vectors


def unit(vectors: npt.NDArray[np.floating]) -> Vectors:
    """The rows as float32, at unit length; a row of zeros stays. A float32 array is changed in place."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    odd = ~np.isfinite(lengths) | (lengths < np.sqrt(np.finfo(vectors.dtype).tiny))
    if odd.any():
        # Squares that overflow or vanish: by the largest number first.
        rows = vectors[odd]
        peaks = np.abs(rows).max(axis=1, initial=0, keepdims=True)
        rows = np.divide(rows, peaks, out=np.zeros_like(rows), where=peaks > 0)
        vectors[odd] = rows
        lengths[odd] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    scaled: Vectors = np.divide(vectors, lengths[:, None], out=vectors).astype(np.float32, copy=False)
    return scaled
