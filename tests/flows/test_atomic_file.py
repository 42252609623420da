"""A file is there whole, or as it was before."""

import stat
from pathlib import Path

import pytest

from flows.atomic_file import write_whole


def test_the_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    write_whole(path, "one")
    write_whole(path, "two\u2026")
    assert path.read_text(encoding="utf-8") == "two\u2026"
    assert [each.name for each in path.parent.iterdir()] == ["page.html"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flows.atomic_file.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "two")
    assert path.read_text() == "one"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_reader_who_has_the_old_file_open_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "one")
    with path.open() as reader:
        write_whole(path, "two")
        assert reader.read() == "one"


def test_a_mode_that_is_asked_for_holds_and_a_page_has_that_of_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.atomic_file._umask", lambda: 0o027)
    write_whole(tmp_path / "page.html", "one")
    write_whole(tmp_path / "night.prom", "one", mode=0o644)
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "night.prom").stat().st_mode) == 0o644
