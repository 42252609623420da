"""Where a model is found, and by what it is told apart."""

import os
from pathlib import Path

import pytest

from flows.model_files import EncoderUnavailable, folder_digest, model_folder, prepare_libraries, version_of

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OFFLINE:
        monkeypatch.setenv(name, "")  # so that the test's end puts back what was
        monkeypatch.delenv(name)


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_the_built_in_model_is_found_by_both_its_names(name: str) -> None:
    folder = model_folder(name, allow_hub=False)
    assert (folder / "model.safetensors").is_file()
    assert len(folder_digest(folder)) == 64


def test_a_folder_is_taken_as_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my model").mkdir()
    assert model_folder(str(tmp_path / "my model"), allow_hub=False) == tmp_path / "my model"
    assert model_folder("~/my model", allow_hub=False) == tmp_path / "my model"


@pytest.mark.parametrize("name", ["no-such-model", "nobody/no-such-model", "/no/such/folder", "what is this?"])
def test_a_model_that_is_not_there_is_told_with_its_setting_and_the_remedy(name: str) -> None:
    with pytest.raises(EncoderUnavailable) as refused:
        model_folder(name, allow_hub=False)
    assert str(refused.value) == (
        f"[embedding] model = {name!r}: no such folder, nor a model that is on this machine; "
        "name a folder that holds it, or set allow_hub = true"
    )


def test_a_hub_that_cannot_be_asked_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants  # noqa: PLC0415

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(EncoderUnavailable, match=r"on this machine \(\w+\); name a folder that holds it$"):
        model_folder("nobody/no-such-model", allow_hub=True)


def test_a_model_in_the_hubs_cache_is_found_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants  # noqa: PLC0415

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    stored = tmp_path / "models--sentence-transformers--some" / "snapshots" / ("0" * 40)
    stored.mkdir(parents=True)
    (stored / "config.json").write_text("{}")
    (stored.parents[1] / "refs").mkdir()
    (stored.parents[1] / "refs" / "main").write_text("0" * 40)
    assert model_folder("some", allow_hub=False) == stored


def test_the_hub_is_closed_unless_allowed_and_a_persons_own_setting_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_libraries(allow_hub=True)
    assert not any(name in os.environ for name in OFFLINE)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    prepare_libraries(allow_hub=False)
    assert [os.environ[name] for name in OFFLINE] == ["0", "1"]


def test_the_digest_of_a_folder_follows_names_and_contents_of_what_makes_the_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    digests = [folder_digest(tmp_path)]
    (tmp_path / "README.md").write_text("words")
    assert folder_digest(tmp_path) == digests[0]
    (tmp_path / "model.safetensors").write_bytes(b"1")
    digests.append(folder_digest(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"2")
    digests.append(folder_digest(tmp_path))
    (tmp_path / "model.safetensors").rename(tmp_path / "other.safetensors")
    digests.append(folder_digest(tmp_path))
    assert len(set(digests)) == 4


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderUnavailable, match=r"holds no model; name the folder of one with \[embedding\] model"):
        folder_digest(tmp_path)


def test_a_file_that_goes_away_while_it_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").symlink_to(tmp_path / "gone.json")
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    with pytest.raises(EncoderUnavailable, match=r"config.json: cannot be read: No such file"):
        folder_digest(tmp_path)


def test_a_version_tells_parts_apart() -> None:
    assert version_of(["a", "bc"]) != version_of(["ab", "c"])
    assert version_of(["a", 1]) == version_of([b"a", "1"])
    assert len(version_of([])) == 16
