"""Trains the judge's model on labelled pairs, and writes it down as plain JSON.

    python -m benchmarks.judge_training eval/pairs.parquet --out flows/judge_model.json

Only sets whose licence allows it take part (`TRAINED_ON`). The curves that turn the model's figure into a confidence
are drawn from predictions on families of sets that the predicting model had not seen.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from flows.encoders import open_encoder
from flows.judging import evidence_of
from flows.reader import open_reader
from flows.settings import EmbeddingSettings, JudgeSettings
from transforms.hashing import derived_id
from transforms.judge import FEATURES, features_of, model_of
from transforms.normalize import normalized

# Sets by family: translations of one set, and tables of one kind, are left out together.
FAMILY = {
    "stsb_en": "stsb",
    "stsb_es": "stsb",
    "stsb_pt": "stsb",
    "vehicle_displ": "vehicle",
    "vehicle_trans": "vehicle",
}
TRAINED_ON = (
    "one_word_changed",
    "fever_symmetric",
    "paws_fr",
    "stsb_en",
    "stsb_es",
    "stsb_pt",
    "vehicle_displ",
    "vehicle_trans",
)
_KNOTS = 12
Floats = NDArray[np.float64]


def main() -> None:
    """Parses the command line, trains and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path, help="a parquet file with set, text_a, text_b, mergeable, relation")
    parser.add_argument("--out", type=Path, required=True, help="where the model is written")
    parser.add_argument("--cache", type=Path, help="a file that keeps the evidence between calls")
    asked = parser.parse_args()
    evidence = evidence_on(asked.pairs, cache=asked.cache)
    asked.out.write_text(json.dumps(fitted(evidence), indent=1) + "\n")
    print(f"{asked.out}: {len(FEATURES)} features")


def evidence_on(pairs: Path, *, cache: Path | None = None) -> pl.DataFrame:
    """The labelled pairs with all evidence, the transformer's reading included."""
    if cache is not None and cache.exists():
        return pl.read_parquet(cache)
    given = pl.read_parquet(pairs).with_columns(family=pl.col("set").replace(FAMILY))
    named = given.with_columns(
        left_id=derived_id(pl.col("text_a")),
        right_id=derived_id(pl.col("text_b")),
        pair_id="pair_id",
        scope=pl.lit("eval"),
    )
    chunks = pl.concat(
        [named.select(chunk_id="left_id", text="text_a"), named.select(chunk_id="right_id", text="text_b")]
    ).unique("chunk_id", keep="first", maintain_order=True)
    chunks = chunks.with_columns(kind=pl.lit("text"), metadata=pl.lit("{}"))
    encoder = open_encoder(EmbeddingSettings(), tell=print)
    assert encoder is not None  # the default names one
    vectors = encoder.encode(chunks.select(normalized(pl.col("text"))).to_series())
    at = {name: place for place, name in enumerate(chunks["chunk_id"])}
    left = np.array([at[name] for name in named["left_id"]])
    right = np.array([at[name] for name in named["right_id"]])
    named = named.with_columns(similarity=pl.Series(np.einsum("ij,ij->i", vectors[left], vectors[right])))
    reader = open_reader(str(JudgeSettings().reader), allow_hub=False)
    reading = reader.read(chunks["text"], left, right, tell_rows=lambda rows: print(f"read {rows:,}", flush=True))
    evidence = pl.concat([named.drop("similarity"), evidence_of(named, chunks), reading], how="horizontal")
    if cache is not None:
        evidence.write_parquet(cache)
    return evidence


def fitted(evidence: pl.DataFrame, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """The model of the sets it may learn from, but for some families, as it is written down."""
    rows = evidence.filter(
        pl.col("set").is_in(TRAINED_ON) & pl.col("mergeable").is_not_null() & ~pl.col("family").is_in(list(without))
    )
    names = list(FEATURES)
    features, labels = features_of(rows, names), rows["mergeable"].to_numpy()
    families = rows["family"].to_numpy()
    unseen = np.zeros(rows.height)
    for family in sorted(set(families)):
        others = families != family
        unseen[~others] = _raw(_linear(features[others], labels[others], names), features[~others])
    is_confirmed = features[:, [names.index("is_close"), names.index("is_long_and_near")]].any(axis=1)
    described = _linear(features, labels, names)
    described["confirmed"] = _curve(unseen[is_confirmed], labels[is_confirmed])
    described["other"] = _curve(unseen[~is_confirmed], labels[~is_confirmed])
    described["trained_on"] = sorted(set(rows["set"]))
    return described


def _linear(features: Floats, labels: NDArray[np.bool_], names: list[str]) -> dict[str, Any]:
    scaler = StandardScaler().fit(features)
    model = LogisticRegression(C=0.3, max_iter=3000).fit(scaler.transform(features), labels)
    return {
        "name": "model 1",
        "features": names,
        "mean": _rounded(scaler.mean_),
        "scale": _rounded(scaler.scale_),
        "weight": _rounded(model.coef_[0]),
        "intercept": round(float(model.intercept_[0]), 6),
        "confirmed": [[0, 0], [1, 1]],
        "other": [[0, 0], [1, 1]],
    }


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 6) for value in values]


def _raw(described: dict[str, Any], features: Floats) -> Floats:
    return model_of(described).raw(features)


def _curve(raw: Floats, labels: NDArray[np.bool_]) -> list[list[float]]:
    """How often pairs of a figure were one: rising, at some knots, and never quite 0 or 1."""
    knots = np.unique(np.quantile(raw, np.linspace(0, 1, _KNOTS + 1)))
    middle, share = [], []
    for low, high in pairwise(knots):
        here = (raw >= low) & ((raw < high) | (high == knots[-1]))
        middle.append(float(raw[here].mean()))
        share.append((float(labels[here].sum()) + 1) / (int(here.sum()) + 2))
    rising = IsotonicRegression().fit(middle, share).predict(middle)
    return [[round(at, 6), round(float(is_), 4)] for at, is_ in zip(middle, rising, strict=True)]


if __name__ == "__main__":
    main()
