"""The static model: the library's vectors, made once, whole or not at all."""

import fcntl
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import static_model
from flows.cache_folder import cache_folder
from flows.encoders import EncoderUnavailable, open_encoder
from flows.model_files import prepare_libraries
from flows.settings import EmbeddingSettings
from flows.static_model import StaticEncoder, open_static
from tests.flows.tiny_model import write_tiny_model
from transforms.vocabulary import Vectors

ROOT = Path(__file__).parents[2]
# One worker makes the model, once a machine.
pytestmark = pytest.mark.xdist_group("model")

Open = Callable[..., StaticEncoder]


def say_nothing(line: str) -> None:
    pass


@pytest.fixture(scope="session")
def encoder() -> StaticEncoder:
    """The static model of the defaults."""
    return open_static(EmbeddingSettings(), tell=say_nothing)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prepare_libraries(allow_hub=False)
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def opened(tiny: Path, tmp_path: Path, told: list[str]) -> Open:
    """Opens the static model of the tiny one."""

    def make(tell: Callable[[str], None] = told.append, **given: Any) -> StaticEncoder:
        defaults: dict[str, Any] = {"model": str(tiny), "dimensions": 8, "cache": str(tmp_path / "cache")}
        return open_static(EmbeddingSettings(**(defaults | given)), tell=tell)

    return make


def made_in(cache: Path) -> Path:
    (folder,) = [path for path in cache.iterdir() if path.is_dir()]
    return folder


def library_vectors(encoder: StaticEncoder, texts: list[str]) -> Vectors:
    """What model2vec itself makes of the same weights."""
    from model2vec import StaticModel  # noqa: PLC0415
    from safetensors.numpy import load_file  # noqa: PLC0415
    from tokenizers import Tokenizer  # noqa: PLC0415

    cache = cache_folder(None, name="models")
    folder = next(path.parent for path in cache.glob("*/static.json") if encoder.version in path.read_text())
    model = StaticModel(
        load_file(folder / "model.safetensors")["embedding.weight"],
        Tokenizer.from_file(str(folder / "tokenizer.json")),
        normalize=True,
        max_length=None,
    )
    return np.asarray(model.encode(texts, max_length=None), dtype=np.float32)


def assert_agreement(encoder: StaticEncoder, texts: list[str]) -> None:
    ours, theirs = encoder.encode(pl.Series(texts, dtype=pl.String)), library_vectors(encoder, texts)
    has = np.linalg.norm(theirs, axis=1) > 0.5
    assert (np.linalg.norm(ours, axis=1) > 0.5).tolist() == has.tolist()
    assert not ours[~has].any()
    cosines = np.einsum("ij,ij->i", ours[has], theirs[has])
    assert cosines.min(initial=1.0) >= 0.9999


# ---- the model of the defaults


def test_the_default_is_all_minilm_at_256_dimensions(encoder: StaticEncoder) -> None:
    assert (encoder.model, encoder.dimensions) == ("all-MiniLM-L6-v2 static 256", 256)
    assert re.fullmatch("[0-9a-f]{16}", encoder.version)
    assert encoder.tokens.continues is not None


@settings(deadline=None, max_examples=50)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=20))
def test_vectors_agree_with_the_library_on_any_text(encoder: StaticEncoder, texts: list[str]) -> None:
    assert_agreement(encoder, texts)


def test_vectors_agree_with_the_library_on_the_sample(encoder: StaticEncoder) -> None:
    files = [path for path in (ROOT / "data" / "sample").rglob("*") if path.suffix in {".csv", ".jsonl", ".md", ".txt"}]
    assert_agreement(encoder, [line for path in files for line in path.read_text(errors="replace").splitlines()])


def test_what_means_the_same_is_nearer_than_what_does_not(encoder: StaticEncoder) -> None:
    same, like, other = encoder.encode(pl.Series(["a fast red car", "the quick red automobile", "boil the potatoes"]))
    assert same @ like > 0.5 > same @ other


def test_texts_of_unknown_tokens_have_zero_vectors(encoder: StaticEncoder) -> None:
    vectors = encoder.encode(pl.Series(["", "[UNK]", "x" * 101, "car"]))
    assert vectors.any(axis=1).tolist() == [False, False, False, True]
    assert vectors.dtype == np.float32


def test_a_model_in_the_cache_is_opened_without_the_libraries_that_made_it(encoder: StaticEncoder) -> None:
    code = (
        "import sys; from flows.encoders import open_encoder; from flows.settings import EmbeddingSettings;"
        "before = set(sys.modules); encoder = open_encoder(EmbeddingSettings(), tell=print); print(encoder.version);"
        "print(*{name.split('.')[0] for name in before}); print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    version, before, after = done.stdout.splitlines()
    assert version == encoder.version
    assert {"torch", "tokenizers", "sentence_transformers", "transformers", "model2vec"}.isdisjoint(before.split())
    assert {"sentence_transformers", "transformers", "model2vec"}.isdisjoint(after.split())


# ---- made once


def test_a_model_is_made_once_and_says_so(opened: Open, told: list[str], tmp_path: Path, tiny: Path) -> None:
    first = opened()
    assert told == [
        f"making a static model of {tiny} (8 dimensions): once, about a minute ...",
        f"static model kept in {made_in(tmp_path / 'cache')}",
    ]
    again = opened()
    assert (len(told), again.version) == (2, first.version)
    texts = pl.Series(["the red car", "", "un-ed!"])
    assert np.array_equal(again.encode(texts), first.encode(texts))


def test_nothing_but_our_lines_is_said_while_a_model_is_made(opened: Open, capfd: pytest.CaptureFixture[str]) -> None:
    opened()
    assert capfd.readouterr() == ("", "")


def test_weights_are_kept_as_safetensors_and_nothing_half_made_stays(opened: Open, tmp_path: Path) -> None:
    opened()
    folder = made_in(tmp_path / "cache")
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "tokenizer.json", "static.json"}
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {folder.name, f"{folder.name}.lock"}


def test_the_same_source_gives_the_same_version_in_another_cache(opened: Open, tmp_path: Path) -> None:
    assert opened().version == opened(cache=str(tmp_path / "other")).version


def test_another_source_or_another_length_is_another_version(opened: Open, tmp_path: Path) -> None:
    other = write_tiny_model(tmp_path / "other", seed=2)
    assert len({opened().version, opened(dimensions=4).version, opened(model=str(other)).version}) == 3


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "static.json"])
@pytest.mark.parametrize("fault", ["gone", "cut", "changed"])
def test_a_model_that_is_not_as_it_was_written_is_made_again(
    opened: Open, told: list[str], tmp_path: Path, name: str, fault: str
) -> None:
    version = opened().version
    file = made_in(tmp_path / "cache") / name
    content = file.read_bytes()
    damaged = {"cut": content[: len(content) // 2], "changed": content.replace(content[-9:-5], b"9999")}
    if fault == "gone":
        file.unlink()
    else:
        file.write_bytes(damaged[fault])
    told.clear()
    assert opened().version == version
    assert len(told) == 2
    assert file.read_bytes() == content


def test_a_maker_that_is_interrupted_leaves_no_model(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(folder: Path, table: Vectors, tokenizer: bytes) -> None:
        (folder / "tokenizer.json").write_bytes(tokenizer)
        raise KeyboardInterrupt

    monkeypatch.setattr(static_model, "_write", half)
    with pytest.raises(KeyboardInterrupt):
        opened()
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    monkeypatch.undo()
    assert opened().dimensions == 8


def test_what_a_killed_maker_left_is_cleared_away(opened: Open, tmp_path: Path) -> None:
    opened()
    folder = made_in(tmp_path / "cache")
    left = folder.with_name(f".{folder.name}-killed")
    folder.rename(left)
    assert opened().dimensions == 8
    assert not left.exists()


def test_a_second_maker_waits_for_the_first_and_takes_its_model(opened: Open, told: list[str], tmp_path: Path) -> None:
    version = opened().version
    told.clear()
    folder = made_in(tmp_path / "cache")
    folder.rename(tmp_path / "made")
    found: list[StaticEncoder] = []
    is_waiting = threading.Event()
    with folder.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def tell(line: str) -> None:
            told.append(line)
            is_waiting.set()

        second = threading.Thread(target=lambda: found.append(opened(tell=tell)))
        second.start()
        assert is_waiting.wait(60)
        (tmp_path / "made").rename(folder)
    second.join()
    assert [each.version for each in found] == [version]
    assert told == ["waiting for another process that makes the same static model ..."]


# ---- what cannot be opened


def test_a_cache_that_cannot_be_written_is_told(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        EncoderUnavailable, match=r"cannot be written to: .*; name a folder of yours with \[embedding\]"
    ):
        opened(cache=str(tmp_path / "file" / "cache"))


def test_a_cache_that_does_not_keep_what_is_written_is_told(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_model, "_write", lambda folder, table, tokenizer: None)
    with pytest.raises(EncoderUnavailable, match=r"does not hold what was written to it; name another \[embedding\]"):
        opened()


def test_more_dimensions_than_the_model_has_are_refused(opened: Open, tiny: Path) -> None:
    with pytest.raises(EncoderUnavailable) as refused:
        opened(dimensions=20)
    assert str(refused.value) == f"[embedding] dimensions = 20: {tiny} has vectors of 16; set at most that"


def test_a_folder_that_is_no_transformer_is_told_in_one_line(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EncoderUnavailable) as refused:
        opened(model=str(tmp_path))
    assert str(refused.value).startswith(f"[embedding] model = '{tmp_path}': cannot be made into a static model (")
    assert str(refused.value).endswith('; name another model, or set encoder = "transformer"')
    assert "\n" not in str(refused.value)


# ---- small things


@pytest.mark.parametrize(
    ("variable", "cache"),
    [("/c", "/c/nightfold/models"), ("", "/home/x/.cache/nightfold/models"), ("c", "/home/x/.cache/nightfold/models")],
)
def test_models_are_kept_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, variable: str, cache: str) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    monkeypatch.setenv("XDG_CACHE_HOME", variable)
    assert cache_folder(None, name="models") == Path(cache)


@pytest.mark.parametrize(
    ("model", "unknown"),
    [
        ({"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"a": 0, "[UNK]": 1}}, 1),
        ({"type": "BPE", "unk_token": None, "vocab": {}}, None),
        ({"type": "Unigram", "unk_id": 2, "vocab": [["a", 0.0]]}, 2),
        ({"type": "Unigram", "unk_id": None, "vocab": []}, None),
    ],
)
def test_the_unknown_token_is_found_where_there_is_one(model: dict[str, Any], unknown: int | None) -> None:
    assert static_model._unknown_token(json.loads(json.dumps({"model": model}))) == unknown


def test_the_static_encoder_is_what_the_settings_give_by_default(encoder: StaticEncoder) -> None:
    opened = open_encoder(EmbeddingSettings(), tell=say_nothing)
    assert isinstance(opened, StaticEncoder)
    assert opened.version == encoder.version
