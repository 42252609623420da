"""Products of 8-bit rows by the processor's own instructions for them, where it has any."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from transforms.neighbours import Codes, Products


def products() -> Products | None:
    """Exact dot products of 8-bit rows; None where the processor would take longer than for float32.

    Without these instructions, sums of two products can also overflow on the way.
    """
    import torch  # noqa: PLC0415  takes a second, which a night without vectors does not have to wait

    # Neither has a public name; constraints.txt pins the version that has them.
    if not torch.cpu._is_vnni_supported():  # noqa: SLF001
        return None

    def fill(left: Codes, right: Codes, into: NDArray[np.int32]) -> None:
        torch._int_mm(torch.from_numpy(left), torch.from_numpy(right).T, out=torch.from_numpy(into))  # noqa: SLF001

    return fill


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Inside, a product takes the one thread that asks for it: the threads are the caller's."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    try:
        if torch:
            torch.set_num_threads(1)
        with threadpool_limits(1):
            yield
    finally:
        if torch:
            torch.set_num_threads(before)
