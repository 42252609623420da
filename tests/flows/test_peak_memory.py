"""Peak memory of a block: by the kernel's count, by looking, and where neither can be had."""

from pathlib import Path

import numpy as np
import pytest

from flows import peak_memory as of_process
from flows.peak_memory import peak_memory

MIB = 1 << 20


def filled(mib: int) -> int:
    """Holds so much for a moment."""
    return int(np.ones(mib * MIB, dtype=np.uint8).sum()) // MIB


@pytest.mark.parametrize("is_reset", [True, False])
def test_the_peak_is_that_of_the_block(is_reset: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_reset:
        monkeypatch.setattr(of_process, "_CLEAR", tmp_path / "nowhere" / "clear_refs")
        monkeypatch.setattr(of_process, "_SAMPLE_SECONDS", 0.001)
    with peak_memory() as peak:
        before = peak()
    with peak_memory() as peak:
        held = np.ones(300 * MIB, dtype=np.uint8)
        assert held[-1] == 1
        large = peak()
    del held
    with peak_memory() as peak:
        after = peak()
    assert large - before > 200
    assert large - after > 200


def test_without_proc_it_is_the_peak_of_the_process_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_process, "_CLEAR", tmp_path / "clear_refs" / "no")
    monkeypatch.setattr(of_process, "_STATUS", tmp_path / "status")
    with peak_memory() as peak:
        assert filled(8) == 8
    assert peak() > 8
