"""Legacy columns: which table they are of, and what hashes and embeddings are worth."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.legacy import UnknownShape, checked_embeddings, hash_was, shape_of, usual_columns

CHUNKS = ["id", "workspace_id", "content", "content_hash", "embedding", "embedding_model", "metadata", "created_at"]
DOCUMENTS = ["id", "workspace_id", "title", "body", "file_hash", "created_at"]
MEMORIES = ["id", "owner_key", "session_id", "role", "content", "embedding", "timestamp"]


@pytest.mark.parametrize(
    ("columns", "shape"),
    [
        (CHUNKS, "knowledge_chunks"),
        (["id", "chunk_text", "source_doc_id", "chunk_index"], "knowledge_chunks"),
        (DOCUMENTS, "documents"),
        (["id", "user_id", "title", "file_name", "mime_type", "content", "content_hash"], "documents"),
        (MEMORIES, "memories"),
        (["id", "user_id", "memory", "created_at"], "memories"),
    ],
)
def test_a_table_is_known_by_its_columns(columns: list[str], shape: str) -> None:
    found, by = shape_of(columns)
    assert found.name == shape
    assert by
    assert set(by) <= set(columns)
    assert shape_of(["anything"], shape)[0] == found


def test_an_unknown_table_is_told_what_was_looked_for_and_what_there_is() -> None:
    with pytest.raises(UnknownShape) as refused:
        shape_of(["key", "payload"])
    told = str(refused.value)
    assert "knowledge_chunks: chunk_text/content/text beside one of chunk_text" in told
    assert told.endswith("There are key, payload")
    with pytest.raises(UnknownShape, match=r"may be knowledge_chunks or documents by its columns; say which with"):
        shape_of(["id", "content", "embedding", "title"])


def test_the_usual_names_are_taken_best_first() -> None:
    shape, _ = shape_of(CHUNKS)
    assert usual_columns(shape, [*CHUNKS, "chunk_text"])["text"] == "chunk_text"
    assert usual_columns(shape, ["id", "body"]) == {"id": "id"}


# ---- embeddings


def checked(values: list[Any] | pl.Series, *, models: list[str | None] | None = None, **over: Any) -> pl.DataFrame:
    rows = pl.DataFrame({"e": values, "m": models or ["words"] * len(values)}, strict=False)
    given = {"embedding": "e", "model_column": "m", "stated_model": None, "model": "words", "dimensions": 2}
    return checked_embeddings(rows, **{**given, **over})


WRITTEN = [
    ([[3.0, 4.0]], "usable"),
    ([[1e300, 1e300]], "usable"),
    (["[3, 4]"], "usable"),
    (["[3.0,4.0]"], "usable"),
    (["{3,4}"], "usable"),
    (pl.Series([[3.0, 4.0]], dtype=pl.Array(pl.Float32, 2)), "usable"),
    (pl.Series([[3, 4]], dtype=pl.List(pl.Int64)), "usable"),
    ([[0.0, 0.0]], "zero"),
    (["[0,0]"], "zero"),
    ([[1.0, float("nan")]], "not_finite"),
    ([[1.0, None]], "not_finite"),
    (["[1,null]"], "not_finite"),
    (["[inf,1]"], "not_finite"),
    ([[1.0]], "wrong_dimension"),
    (["[1,2,3]"], "wrong_dimension"),
    (["none of it"], "unreadable"),
    (["[]"], "unreadable"),
    ([b"\x00\x01"], "unreadable"),
    (pl.Series([None], dtype=pl.List(pl.Float32)), "none"),
    (pl.Series([None], dtype=pl.String), "none"),
    (pl.Series([None], dtype=pl.Null), "none"),
]


@pytest.mark.parametrize(("values", "was"), WRITTEN, ids=str)
def test_an_embedding_is_usable_or_refused_for_a_reason(values: list[Any] | pl.Series, was: str) -> None:
    told = checked(values)
    assert told["embedding_was"].to_list() == [was]
    vector = told["vector"].to_list()[0]
    assert (vector is not None) == (was == "usable")
    if vector is not None:
        assert np.linalg.norm(vector) == pytest.approx(1)


def test_an_embedding_of_another_model_or_of_none_is_refused() -> None:
    values, models = [[3.0, 4.0]] * 3, ["words", "other", None]
    assert checked(values, models=models)["embedding_was"].to_list() == ["usable", "other_model", "unknown_model"]
    stated = checked(values, models=models, stated_model="words")
    assert stated["embedding_was"].to_list() == ["usable", "other_model", "usable"]
    assert checked(values, model_column=None)["embedding_was"].unique().to_list() == ["unknown_model"]
    assert checked(values, model=None)["embedding_was"].unique().to_list() == ["other_model"]
    assert checked(values, embedding=None)["embedding_was"].unique().to_list() == ["none"]
    assert checked([], model_column=None, stated_model="words").height == 0


@given(st.lists(st.one_of(st.none(), st.lists(st.floats(allow_subnormal=False), min_size=1, max_size=3)), max_size=6))
def test_an_embedding_is_worth_the_same_as_a_list_and_as_text(values: list[list[float] | None]) -> None:
    as_lists = checked(pl.Series(values, dtype=pl.List(pl.Float64)))
    as_texts = checked(pl.Series([None if value is None else str(value) for value in values], dtype=pl.String))
    assert as_lists["embedding_was"].to_list() == as_texts["embedding_was"].to_list()
    for was, vector, value in zip(as_lists["embedding_was"], as_lists["vector"].to_list(), values, strict=True):
        finite = value is not None and bool(np.isfinite(value).all())
        good = value is not None and len(value) == 2 and finite and any(value)
        assert (was == "usable") == good
        assert (vector is None) != good
    assert as_lists["vector"].to_list() == as_texts["vector"].to_list()


def test_a_legacy_hash_is_missing_right_or_wrong() -> None:
    given = pl.DataFrame({"given": [None, "", " ", "AB ", "ab", "cd"]})
    assert given.select(was=hash_was(pl.col("given"), pl.lit("ab")))["was"].to_list() == [
        *("missing", "missing", "missing", "right", "right", "wrong"),
    ]
