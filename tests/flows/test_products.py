"""Products of rows: exact, whatever the shape."""

import numpy as np
import pytest
import torch

from flows.products import one_thread_each, products


@pytest.mark.parametrize("shape", [(0, 3, 4), (1, 1, 1), (3, 5, 7), (17, 1, 33), (300, 200, 256), (5, 4, 2048)])
def test_products_are_exact_up_to_the_highest_there_are(shape: tuple[int, int, int]) -> None:
    by_processor = products()
    if by_processor is None:
        pytest.skip("this processor has no instructions for it")
    rows, others, dimensions = shape
    random = np.random.default_rng(rows)
    left, right = (random.integers(-127, 128, size=(n, dimensions), dtype=np.int8) for n in (rows, others))
    left[: rows // 2], right[: others // 2] = 127, -127
    into = np.empty((rows, others), dtype=np.int32)
    by_processor.of_all(left, right, into)
    assert np.array_equal(into, left.astype(np.int32) @ right.astype(np.int32).T)


@pytest.mark.parametrize("pairs", [0, 1, 500])
def test_products_of_pairs_on_the_grid_are_exact(pairs: int) -> None:
    by_processor = products()
    if by_processor is None:
        pytest.skip("this processor has no instructions for it")
    random = np.random.default_rng(pairs)
    left, right = (random.integers(-200, 201, size=(n, 33)).astype(np.float32) for n in (20, 30))
    row, column = np.sort(random.integers(0, 20, size=pairs)), random.integers(0, 30, size=pairs)
    dots = by_processor.of_pairs(left, right, row, column)
    assert dots.dtype == np.float32
    assert np.array_equal(dots, (left @ right.T)[row, column])


def test_a_processor_without_the_instructions_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert products() is None


def test_threads_are_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    with one_thread_each():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
