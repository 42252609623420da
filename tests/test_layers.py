"""The rooms and their doors: flows -> transforms -> schemas, never upward, seen in what a fresh interpreter loads."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What a room may not bring in, however indirectly.
CLOSED = {
    "schemas": {
        "flows",
        "review",
        "transforms",
        "lance",
        "lancedb",
        "duckdb",
        "prefect",
        "torch",
        "pydantic",
        "rich",
        "starlette",
        "typer",
    },
    "transforms": {
        "flows",
        "review",
        "lance",
        "lancedb",
        "duckdb",
        "prefect",
        "torch",
        "pydantic",
        "rich",
        "starlette",
        "typer",
    },
}
MODULES = [
    f"{room}.{path.stem}" for room in CLOSED for path in sorted((ROOT / room).glob("*.py")) if path.stem != "__init__"
]


@pytest.mark.parametrize("module", MODULES)
def test_a_lower_room_loads_nothing_from_above(module: str) -> None:
    code = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert CLOSED[module.split(".", maxsplit=1)[0]].isdisjoint(loaded.stdout.split())


def test_the_flows_do_without_the_page() -> None:
    """A command loads it when it serves it, and no night ever does."""
    names = ["flows.cli", *(f"flows.{path.stem}" for path in sorted((ROOT / "flows").glob("*.py")))]
    code = f"import sys, {', '.join(names)}; print(*{{name.split('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert "review" not in loaded.stdout.split()


def test_every_module_is_in_a_room_that_the_package_ships() -> None:
    strays = [path.name for path in ROOT.glob("*.py")]
    assert not strays


def test_no_file_is_called_after_nothing() -> None:
    nameless = {"utils", "helpers", "common", "manager", "misc"}
    found = [path for room in ("flows", "review", "transforms", "schemas") for path in (ROOT / room).rglob("*.py")]
    assert not [path.name for path in found if path.stem in nameless]
