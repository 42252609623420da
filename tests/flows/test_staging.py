"""What a stage leaves behind is whole, or not there at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.staging import Staging, drop_others


def write(folder: Path) -> dict[str, Any]:
    (folder / "rows.parquet").write_text("rows")
    return {"rows": 3}


def never(folder: Path) -> dict[str, Any]:
    raise AssertionError(f"{folder}: the stage ran again")


class Killed(BaseException):
    """As the process ends, whatever handles errors."""


def crash_half_way(folder: Path) -> dict[str, Any]:
    (folder / "half.parquet").write_text("ro")
    raise Killed


def test_a_stage_that_is_done_is_taken_up_and_not_run_again(tmp_path: Path) -> None:
    done, result, reused = Staging(tmp_path / "run").run("load", write)
    assert (result, reused) == ({"rows": 3}, False)
    assert (done / "rows.parquet").read_text() == "rows"
    assert Staging(tmp_path / "run").run("load", never) == (done, {"rows": 3}, True)


def test_work_is_done_under_another_name_until_it_is_whole(tmp_path: Path) -> None:
    def look(folder: Path) -> dict[str, Any]:
        assert folder.is_dir()
        assert not (tmp_path / "load").exists()
        return {}

    done, _, _ = Staging(tmp_path).run("load", look)
    assert [path.name for path in tmp_path.iterdir()] == [done.name] == ["load"]


def test_a_crash_in_the_work_leaves_nothing_that_looks_done(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    with pytest.raises(Killed):
        staging.run("load", crash_half_way)
    assert not (tmp_path / "load").exists()
    done, result, reused = staging.run("load", write)
    assert (result, reused) == ({"rows": 3}, False)
    assert sorted(path.name for path in done.iterdir()) == ["result.json", "rows.parquet"]


def test_a_result_that_cannot_be_written_leaves_nothing_that_looks_done(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        Staging(tmp_path).run("load", lambda _: {"rows": object()})
    assert Staging(tmp_path).run("load", write)[2] is False


@pytest.mark.parametrize("result", [None, "", '{"rows": '], ids=["missing", "empty", "cut short"])
def test_a_folder_without_its_result_is_made_anew(tmp_path: Path, result: str | None) -> None:
    staging = Staging(tmp_path)
    done, _, _ = staging.run("load", crash_but_named(tmp_path, result))
    assert json.loads((done / "result.json").read_text()) == {"rows": 3}
    assert sorted(path.name for path in done.iterdir()) == ["result.json", "rows.parquet"]


def crash_but_named(folder: Path, result: str | None) -> Any:
    """The name of a whole stage without what makes it one, as after a power cut; then the work that mends it."""
    (folder / "load").mkdir()
    (folder / "load" / "half.parquet").write_text("ro")
    if result is not None:
        (folder / "load" / "result.json").write_text(result)
    return write


def test_dropped_staging_is_gone_and_may_be_dropped_again(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "run")
    staging.run("load", write)
    staging.drop()
    assert not (tmp_path / "run").exists()
    staging.drop()


def test_only_the_staging_of_this_night_is_kept(tmp_path: Path) -> None:
    Staging(tmp_path / "tonight").run("load", write)
    Staging(tmp_path / "before").run("load", write)
    drop_others(tmp_path, keep="tonight")
    assert [path.name for path in tmp_path.iterdir()] == ["tonight"]


def test_there_may_be_no_staging_at_all(tmp_path: Path) -> None:
    drop_others(tmp_path / "nowhere", keep="tonight")
