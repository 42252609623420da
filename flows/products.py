"""Products of rows by the processor's own instructions for 8-bit numbers, where it has any."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from transforms.grid import Floats, Places
from transforms.sieve import Codes, Products


def products() -> Products | None:
    """Exact dot products; None where the processor would take longer than for float32.

    Without these instructions, sums of two products can also overflow on the way.
    """
    import torch  # noqa: PLC0415  takes a second, which a night without vectors does not have to wait

    # Neither has a public name; constraints.txt pins the version that has them.
    if not torch.cpu._is_vnni_supported():  # noqa: SLF001
        return None
    with warnings.catch_warnings():
        # The library says once a process that sparse matrices may change: constraints.txt pins them.
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0], [], [], size=(0, 0), check_invariants=False)

    def of_all(left: Codes, right: Codes, into: NDArray[np.int32]) -> None:
        # Rows of a mapped file are copied: the library warns of those that it could not write to.
        some, others = (torch.from_numpy(rows if rows.flags.writeable else rows.copy()) for rows in (left, right))
        torch._int_mm(some, others.T, out=torch.from_numpy(into))  # noqa: SLF001

    def of_pairs(left: Floats, right: Floats, row: Places, column: Places) -> Floats:
        # The pairs as the places of a sparse matrix: rows are multiplied where they lie, and never gathered.
        starts = np.searchsorted(row, np.arange(len(left) + 1))
        pairs = torch.sparse_csr_tensor(
            torch.from_numpy(starts),
            torch.from_numpy(column),
            torch.zeros(len(row)),
            size=(len(left), len(right)),
            check_invariants=False,
        )
        found = torch.sparse.sampled_addmm(pairs, torch.from_numpy(left), torch.from_numpy(right).T, beta=0)
        dots: Floats = found.values().numpy()
        return dots

    return Products(of_all, of_pairs)


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
