"""The judge at work with the model it ships with and the transformer of the package."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from flows import judging
from flows.judging import VERDICT, judge_pairs
from flows.reader import Reader, open_reader
from flows.settings import JudgeSettings
from schemas.terms import CONTRADICTORY, DISTINCT, EQUIVALENT, RIGHT, SPEC_ROW, SUPERSEDING, UNKNOWN
from tests.verdicts import Chunk, Side, aged, tables
from transforms.judge import FEATURES, model_of

pytestmark = pytest.mark.xdist_group("model")
MODEL = Path(judging.__file__).with_name("judge_model.json")


@pytest.fixture(scope="session")
def minilm() -> Reader:
    return open_reader("all-MiniLM-L6-v2", allow_hub=False)


@pytest.fixture
def opened(minilm: Reader, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The models that are opened; the real one stays open from test to test."""
    judging._reader.cache_clear()  # another test of this process may have left one open
    asked: list[str] = []

    def opens(model: str, *, allow_hub: bool) -> Reader:
        assert not allow_hub
        asked.append(model)
        return minilm

    monkeypatch.setattr(judging, "open_reader", opens)
    yield asked
    judging._reader.cache_clear()


def judge(*pairs: tuple[Side, Side], similarity: float = 0.97, **settings: Any) -> pl.DataFrame:
    named, chunks = tables(pairs, similarity=similarity)
    named = named.with_columns(pair_id=pl.col("left_id"), scope=pl.lit("s"), note=pl.lit("carried"))
    silent = lambda _: None  # noqa: E731
    return judge_pairs(named, chunks, settings=JudgeSettings(**settings), tell=silent, tell_rows=silent)


SCENE: list[tuple[Side, Side, str]] = [
    ("Wash the filter every week.", "wash the filter, every week", EQUIVALENT),
    ("The purchase was approved by the board.", "The acquisition was approved by the board.", EQUIVALENT),
    ("Wash the filter every week.", "Never wash the filter every week.", CONTRADICTORY),
    ("La bomba consume 5 kW en uso.", "La bomba consume 6 kW en uso.", CONTRADICTORY),
    ("A porta da sala está aberta.", "A porta da sala está fechada.", CONTRADICTORY),
    ("The dog bites the man.", "The man bites the dog.", UNKNOWN),
    (aged("The fee is 5 euros.", version=1), aged("The fee is 6 euros.", version=2), SUPERSEDING),
    (Chunk("Category: a\nValue: 5", SPEC_ROW), Chunk("Category: a\nValue: 6", SPEC_ROW), CONTRADICTORY),
    ("他喜欢猫", "他喜欢狗", UNKNOWN),
    ("", "🙂", DISTINCT),
]


def test_a_scene_of_pairs_each_in_its_relation(opened: list[str]) -> None:
    found = judge(*[(left, right) for left, right, _ in SCENE])
    assert found["relation"].to_list()[:8] == [wanted for _, _, wanted in SCENE[:8]]
    assert EQUIVALENT not in found["relation"].to_list()[8:]
    assert found["stands"][6] == RIGHT
    assert opened == ["all-MiniLM-L6-v2"]


def test_pairs_keep_their_order_and_columns_and_gain_the_verdict(opened: list[str]) -> None:
    found = judge(*[(left, right) for left, right, _ in SCENE[:4]])
    assert found["left_id"].to_list() == ["c0000", "c0002", "c0004", "c0006"]
    assert found["note"].to_list() == ["carried"] * 4
    assert dict(list(found.schema.items())[-len(VERDICT) :]) == dict(VERDICT)


def test_slices_do_not_change_a_verdict(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(left, right) for left, right, _ in SCENE]
    whole = judge(*pairs)
    monkeypatch.setattr(judging, "_PAIRS_AT_ONCE", 3)
    assert_frame_equal(judge(*pairs), whole, abs_tol=1e-4)


def test_rows_are_told_as_they_are_done(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_PAIRS_AT_ONCE", 2)
    named, chunks = tables([("a red door", "a red gate")] * 3)
    rows: list[int] = []
    said: list[str] = []
    judge_pairs(named, chunks, settings=JudgeSettings(), tell=said.append, tell_rows=rows.append)
    assert rows == [2, 2, 3, 3]
    assert said == ["all-MiniLM-L6-v2 reads the pairs that rules leave open"]


def test_pairs_are_read_as_they_are_asked_for_and_the_others_are_judged_without(opened: list[str]) -> None:
    texts: list[tuple[Side, Side]] = [
        ("The purchase was approved by the board.", "The acquisition was approved by the board."),
        ("The buyer signed the contract in the hall.", "The purchaser signed the contract in the hall."),
        ("a red door", "a blue door"),
    ]
    named, chunks = tables(texts)
    told: list[pl.DataFrame] = []

    def to_read(judged: pl.DataFrame) -> pl.Series:
        told.append(judged)
        return pl.Series([True, False, True])

    silent: Any = {"settings": JudgeSettings(), "tell": lambda _: None, "tell_rows": lambda _: None}
    found = judge_pairs(named, chunks, to_read=to_read, **silent)
    assert found["reading"].is_not_null().to_list() == [True, False, False]
    assert [judged["is_open"].to_list() for judged in told] == [[True, True, False], [False, True, False]]
    assert told[0]["at_best"].to_list() == [EQUIVALENT, EQUIVALENT, UNKNOWN]
    whole = judge_pairs(named, chunks, **silent)
    assert_frame_equal(found[0], whole[0], abs_tol=1e-4)


def test_a_chunk_that_is_there_twice_counts_once(opened: list[str]) -> None:
    named, chunks = tables([("a red door", "A red door")])
    twice = pl.concat([chunks, chunks.with_columns(text=pl.lit("something else"))])
    told: Any = {"settings": JudgeSettings(), "tell": print, "tell_rows": print}
    assert_frame_equal(judge_pairs(named, twice, **told), judge_pairs(named, chunks, **told))


def test_no_model_is_opened_where_rules_suffice_or_none_is_set(opened: list[str]) -> None:
    assert judge(("a red door", "A RED DOOR"), ("a red door", "a blue door"))["reading"].null_count() == 2
    unread = judge(("The purchase was approved.", "The acquisition was approved."), reader=None)
    assert opened == []
    assert (unread["reading"][0], unread["is_confirmed"][0]) == (None, False)


def test_a_priority_supersedes_where_the_settings_say_so(opened: list[str]) -> None:
    pair = aged("The fee is 5 euros.", source_priority=1), aged("The fee is 6 euros.", source_priority=2)
    assert judge(pair)["relation"].to_list() == [CONTRADICTORY]
    assert judge(pair, priority_supersedes=True)["relation"].to_list() == [SUPERSEDING]


def test_no_pairs_have_the_shape_of_many(opened: list[str]) -> None:
    assert judge().schema == judge(("a red door", "a blue door")).schema
    assert judge().is_empty()


# ---- the model as it is written down


def test_the_shipped_model_is_plain_json_that_the_program_reads() -> None:
    described = json.loads(MODEL.read_text(encoding="utf-8"))
    model = model_of(described)
    assert list(model.features) == list(FEATURES)
    assert len(model.mean) == len(model.scale) == len(model.weight) == len(FEATURES)
    assert all(scale > 0 for scale in model.scale)
    assert judging._model() == model


@pytest.mark.parametrize("curve", ["confirmed", "other"])
def test_its_curves_rise_and_are_never_quite_sure(curve: str) -> None:
    knots = json.loads(MODEL.read_text(encoding="utf-8"))[curve]
    at, share = zip(*knots, strict=True)
    assert list(at) == sorted(set(at))
    assert list(share) == sorted(share)
    assert share[0] > 0
    assert share[-1] < 1


def test_only_what_the_reading_confirms_can_be_sure_enough_to_merge() -> None:
    model = model_of(json.loads(MODEL.read_text(encoding="utf-8")))
    assert min(share for _, share in model.confirmed) >= JudgeSettings().merge_confidence
    assert max(share for _, share in model.other) < JudgeSettings().merge_confidence


def test_nothing_that_we_ship_is_a_pickle() -> None:
    root = MODEL.parents[1]
    ours = [path for folder in ("flows", "transforms", "schemas", "benchmarks") for path in (root / folder).rglob("*")]
    assert not [path for path in ours if path.suffix in {".pkl", ".pickle", ".joblib", ".pt", ".bin"}]
