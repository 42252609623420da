"""The most memory this process holds while something goes on."""

import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_SAMPLE_SECONDS = 0.05


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Gives what says the peak since the block began, in MiB.

    The kernel counts it where its count may be reset. Where not, the memory held is looked at twenty times a second;
    and where there is no /proc, it is the peak of the whole process so far.
    """
    try:
        _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        if _STATUS.exists():
            with _sampled() as peak:
                yield peak
        else:
            yield _peak_of_process
    else:
        yield lambda: _in_status("VmHWM")


def _in_status(name: str) -> float:
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return round(int(line.split()[1]) / 1024, 1)
    return _peak_of_process()


def _peak_of_process() -> float:
    per_mib = 1 << 20 if sys.platform == "darwin" else 1 << 10  # bytes there, KiB elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib, 1)


@contextmanager
def _sampled() -> Iterator[Callable[[], float]]:
    seen, is_over = [_in_status("VmRSS")], threading.Event()

    def look() -> None:
        while not is_over.wait(_SAMPLE_SECONDS):
            seen[0] = max(seen[0], _in_status("VmRSS"))

    def peak() -> float:
        seen[0] = max(seen[0], _in_status("VmRSS"))
        return seen[0]

    sampler = threading.Thread(target=look, name="peak-memory", daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        is_over.set()
        sampler.join()
