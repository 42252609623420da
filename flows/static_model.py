"""The static model: one vector a token, distilled once from a transformer, kept in a folder, read in a second."""

import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from flows.cache_folder import cache_folder
from flows.model_files import EncoderUnavailable, folder_digest, model_folder, prepare_libraries, version_of
from flows.settings import EmbeddingSettings
from transforms.embedding import unit
from transforms.vocabulary import Bag, Indices, Tokenization, Vectors, text_vectors, tokenization

DEFAULT_DIMENSIONS = 256
# Part of every digest: another way of distilling is another model.
_RECIPE = "static 1"
_WEIGHTS, _TOKENIZER, _ABOUT = "model.safetensors", "tokenizer.json", "static.json"
_TABLE = "embedding.weight"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class StaticEncoder:
    """Sums of token vectors, by the vocabulary join."""

    model: str
    version: str
    dimensions: int
    tokens: Tokenization
    bag: Bag
    batch_rows: int = 65_536

    def encode(self, texts: pl.Series) -> Vectors:
        """A unit vector for each text; zero for one without a known token."""
        return unit(text_vectors(texts, tokens=self.tokens, bag=self.bag))


def open_static(settings: EmbeddingSettings, *, tell: Tell) -> StaticEncoder:
    """The static model of the configured one, from the cache or made now and cached."""
    dimensions = settings.dimensions or DEFAULT_DIMENSIONS
    source, folder = _source_and_folder(settings)
    name = f"{settings.model} static {dimensions}"
    encoder = _load(folder, name=name)
    if encoder is not None:
        return encoder
    with _only_maker(folder, tell=tell):
        encoder = _load(folder, name=name)
        if encoder is not None:
            return encoder
        tell(f"making a static model of {settings.model} ({dimensions} dimensions): once, about a minute ...")
        prepare_libraries(allow_hub=settings.allow_hub)
        _make(folder, source=source, dimensions=dimensions, model=settings.model)
        tell(f"static model kept in {folder}")
    encoder = _load(folder, name=name)
    if encoder is None:
        raise EncoderUnavailable(f"{folder}: does not hold what was written to it; name another [embedding] cache")
    return encoder


def static_folder(settings: EmbeddingSettings) -> Path:
    """Where the static model of the configured one is kept, made already or not."""
    return _source_and_folder(settings)[1]


def _source_and_folder(settings: EmbeddingSettings) -> tuple[Path, Path]:
    source = model_folder(settings.model, allow_hub=settings.allow_hub)
    key = version_of([_RECIPE, folder_digest(source), settings.dimensions or DEFAULT_DIMENSIONS])
    return source, cache_folder(settings.cache, name="models") / key


@contextmanager
def _only_maker(folder: Path, *, tell: Tell) -> Iterator[None]:
    """One process at a time makes this model; the kernel lets go when a process ends in any way."""
    lock = folder.with_suffix(".lock")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise EncoderUnavailable(
            f"{folder.parent}: cannot be written to: {error.strerror}; name a folder of yours with [embedding] cache"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another process that makes the same static model ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(folder: Path, *, source: Path, dimensions: int, model: str) -> None:
    """Writes the model beside its place and renames it in: it is there as a whole or not at all."""
    unfinished = f".{folder.name}-"
    for left in folder.parent.glob(f"{unfinished}*"):  # by a maker that was killed: the lock is ours
        shutil.rmtree(left, ignore_errors=True)
    table, tokenizer = _distilled(source, dimensions=dimensions, model=model)
    with tempfile.TemporaryDirectory(prefix=unfinished, dir=folder.parent, ignore_cleanup_errors=True) as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        _write(new, table, tokenizer)
        if folder.exists():  # and could not be read
            folder.rename(Path(temporary) / "old")
        new.rename(folder)


def _distilled(source: Path, *, dimensions: int, model: str) -> tuple[Vectors, bytes]:
    """The table of token vectors, that of the unknown token zero, and the tokenizer."""
    import torch  # noqa: PLC0415
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding  # noqa: PLC0415
    from transformers.utils import logging as transformers_logging  # noqa: PLC0415

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # The library's own progress bar is for people: it stays on a terminal.
    with Path(os.devnull).open("w") as nowhere, nullcontext() if sys.stderr.isatty() else redirect_stderr(nowhere):
        torch.manual_seed(0)
        try:
            static = StaticEmbedding.from_distillation(str(source), device="cpu", pca_dims=dimensions)
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, ImportError) as error:
            raise EncoderUnavailable(
                f"[embedding] model = {model!r}: cannot be made into a static model ({type(error).__name__}: "
                f'{_line(error)}); name another model, or set encoder = "transformer"'
            ) from error
    table = static.embedding.weight.detach().numpy().astype(np.float32)
    if table.shape[1] != dimensions:
        raise EncoderUnavailable(
            f"[embedding] dimensions = {dimensions}: {model} has vectors of {table.shape[1]}; set at most that"
        )
    static.tokenizer.no_truncation()
    static.tokenizer.no_padding()
    tokenizer = static.tokenizer.to_str().encode()
    unknown = _unknown_token(json.loads(tokenizer))
    if unknown is not None:
        table[unknown] = 0  # it says nothing of a text; model2vec leaves it out as well
    return table, tokenizer


def _unknown_token(tokenizer: dict[str, Any]) -> int | None:
    """The id of the token for what is unknown, where the tokenizer has one."""
    model = tokenizer["model"]
    if model["type"] == "Unigram":
        return None if model.get("unk_id") is None else int(model["unk_id"])
    token = model.get("unk_token")
    return None if token is None else int(model["vocab"][token])


def _write(folder: Path, table: Vectors, tokenizer: bytes) -> None:
    from safetensors.numpy import save_file  # noqa: PLC0415

    save_file({_TABLE: np.ascontiguousarray(table)}, folder / _WEIGHTS)
    (folder / _TOKENIZER).write_bytes(tokenizer)
    about = {"recipe": _RECIPE, "dimensions": table.shape[1], "version": _version(table, tokenizer)}
    (folder / _ABOUT).write_text(json.dumps(about))


def _version(table: Vectors, tokenizer: bytes) -> str:
    return version_of([_RECIPE, str(table.shape), table.tobytes(), tokenizer])


def _load(folder: Path, *, name: str) -> StaticEncoder | None:
    """The model in a folder; None where there is none, or not as it was written."""
    # Not by way of transformers or sentence-transformers, which take seconds to import.
    from safetensors import SafetensorError  # noqa: PLC0415
    from safetensors.numpy import load_file  # noqa: PLC0415

    try:
        about = json.loads((folder / _ABOUT).read_text())
        tokenizer = (folder / _TOKENIZER).read_bytes()
        table = load_file(folder / _WEIGHTS)[_TABLE]
    except (OSError, ValueError, KeyError, SafetensorError):
        return None
    version = _version(table, tokenizer)
    if about.get("version") != version:
        return None
    return StaticEncoder(
        model=name, version=version, dimensions=table.shape[1], tokens=_tokenization(tokenizer), bag=_bag(table)
    )


def _tokenization(content: bytes) -> Tokenization:
    from tokenizers import Tokenizer  # noqa: PLC0415

    tokenizer = Tokenizer.from_buffer(content)

    def ids(texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    return tokenization(ids, described=json.loads(content))


def _bag(tokens: Vectors) -> Bag:
    import torch  # noqa: PLC0415

    of_tokens = torch.from_numpy(tokens)

    def bag(ids: Indices, starts: Indices, table: Vectors | None) -> Vectors:
        rows = of_tokens if table is None else torch.from_numpy(table)
        with torch.inference_mode():
            sums = torch.nn.functional.embedding_bag(torch.from_numpy(ids), rows, torch.from_numpy(starts), mode="sum")
        found: Vectors = sums.numpy()
        return found

    return bag


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
