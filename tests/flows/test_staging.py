"""What a stage leaves behind is whole, or not there at all."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from flows.staging import NotStaged, Staging, drop_others, staging_name, staging_root


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


def test_only_the_staging_of_this_night_is_kept_and_nothing_of_others_is_touched(tmp_path: Path) -> None:
    tonight, before = staging_name("tonight"), staging_name("before")
    for name in (tonight, before, "precious", "nightfold-0123456789ab"):
        Staging(tmp_path / name).run("load", write)
    drop_others(tmp_path, keep=tonight)
    assert {path.name for path in tmp_path.iterdir()} == {tonight, "precious", "nightfold-0123456789ab"}


def test_warehouses_that_share_a_staging_folder_stage_apart(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    roots = {staging_root(shared, tmp_path / name) for name in ("one", "two")} | {staging_root(None, tmp_path / "one")}
    assert len(roots) == 3
    assert staging_root(shared, tmp_path / "one") == staging_root(shared, tmp_path / "one" / ".." / "one")


@pytest.mark.parametrize(
    "fault",
    [OSError(28, "No space left on device"), pa.ArrowInvalid("not parquet"), pl.exceptions.ComputeError("full")],
)
def test_what_cannot_be_kept_is_told_in_one_line(tmp_path: Path, fault: Exception) -> None:
    def fails(folder: Path) -> dict[str, Any]:
        raise fault

    with pytest.raises(NotStaged, match=r"stage load could not be kept: .*; make room, and run again$"):
        Staging(tmp_path / "s").run("load", fails)


def test_a_stage_that_has_not_run_has_no_result(tmp_path: Path) -> None:
    with pytest.raises(NotStaged, match="stage load has not run"):
        Staging(tmp_path).result("load")


def test_there_may_be_no_staging_at_all(tmp_path: Path) -> None:
    drop_others(tmp_path / "nowhere", keep="tonight")
