"""Verdicts on pairs of texts. The reading is made up, and takes all texts for near: what tells them apart is the rest."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import flows
from flows.judging import evidence_of
from flows.reader import READING
from schemas.terms import TEXT
from transforms.judge import Model, judged, model_of

NEAR = (0.97, 0.95, 0.9, 0.92)
FAR = (0.3, 0.3, 0.1, 0.1)
UNREAD = (None, None, None, None)
Reading = tuple[float | None, float | None, float | None, float | None]


@dataclass(frozen=True)
class Chunk:
    """One side of a pair."""

    text: str | None
    kind: str = TEXT
    metadata: str | None = "{}"


Side = str | None | Chunk


def aged(text: str | None, *, kind: str = TEXT, **metadata: Any) -> Chunk:
    return Chunk(text, kind, json.dumps(metadata))


def the_model() -> Model:
    written = Path(flows.__path__[0]) / "judge_model.json"
    return model_of(json.loads(written.read_text(encoding="utf-8")))


def tables(pairs: Sequence[tuple[Side, Side]], *, similarity: float = 0.97) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The pairs and their chunks, as the night has them."""
    sides = [side if isinstance(side, Chunk) else Chunk(side) for pair in pairs for side in pair]
    names = [f"c{number:04}" for number in range(len(sides))]
    chunks = pl.DataFrame(
        {
            "chunk_id": names,
            "kind": [side.kind for side in sides],
            "text": [side.text for side in sides],
            "metadata": [side.metadata for side in sides],
        },
        schema=dict.fromkeys(("chunk_id", "kind", "text", "metadata"), pl.String),
    )
    rows = {"left_id": names[::2], "right_id": names[1::2], "similarity": [similarity] * len(pairs)}
    schema = {"left_id": pl.String, "right_id": pl.String, "similarity": pl.Float32}
    return pl.DataFrame(rows, schema=schema), chunks


def evidence(*pairs: tuple[Side, Side], similarity: float = 0.97, reading: Reading = NEAR) -> pl.DataFrame:
    """All evidence on the pairs."""
    read = pl.DataFrame([reading] * len(pairs), schema=READING, orient="row")
    return pl.concat([evidence_of(*tables(pairs, similarity=similarity)), read], how="horizontal")


def verdicts(
    *pairs: tuple[Side, Side], similarity: float = 0.97, reading: Reading = NEAR, priority_supersedes: bool = False
) -> pl.DataFrame:
    """The verdicts on the pairs, in their order."""
    found = evidence(*pairs, similarity=similarity, reading=reading)
    return judged(found, the_model(), priority_supersedes=priority_supersedes)


def relation(left: Side, right: Side, **over: Any) -> str:
    return str(verdicts((left, right), **over)["relation"][0])
