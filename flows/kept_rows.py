"""The rows of a vectors table as the join reads them, on the grid and with their codes, in files that are mapped.

Derived from the table's data files, which never change once they are written, one for one; what is missing or not
whole is made again. Every file can be deleted at any time.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import lance
import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from flows.errors import NightfoldError
from transforms.grid import Grid, snapped
from transforms.sieve import Axes, Coarse, Codes, axes_of, coarse

_BATCH_ROWS = 65_536
_AXES = "axes.npz"


@dataclass(frozen=True)
class Part:
    """Some rows in the table's order."""

    chunk_ids: pl.Series
    scopes: pl.Series
    row_ids: NDArray[np.uint64]
    grid: Grid
    codes: Codes


@dataclass(frozen=True)
class KeptRows:
    """All rows of a table, and what their codes say."""

    parts: list[Part]
    axes: Axes
    off: float
    reach: float

    def coarse_of(self, codes: Codes) -> Coarse:
        """Codes of some of these rows."""
        return Coarse(codes, self.axes, self.off, self.reach)


def kept_rows(dataset: lance.LanceDataset, folder: Path, *, threshold: float, threads: int) -> KeptRows | None:
    """The rows of the table, from the files in the folder, which afterwards holds those of this table and no others.

    None where rows have been deleted from the table, which nothing here does. `threshold` is what the codes are best
    for, should they be made now.
    """
    fragments = dataset.get_fragments()
    if any(fragment.deletion_file() is not None for fragment in fragments):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    known = _known_axes(folder)
    axes = known if known is not None and len(known.turn) == _dimensions(dataset) else None
    names = {_name(fragment): fragment for fragment in fragments}
    for path in folder.iterdir():
        if path.name not in names and path.name != _AXES:
            path.unlink()
    if axes is None:
        largest = max(fragments, key=lambda fragment: fragment.physical_rows)
        axes = axes_of(_sample(largest), threshold=threshold)
        _keep_axes(axes, folder)
    files = [
        _Kept.open(folder / name, fragment, axes) or _made(folder / name, fragment, axes, threads)
        for name, fragment in names.items()
    ]
    parts = [part for file in files for part in file.parts]
    return KeptRows(parts, axes, max(file.off for file in files), max(file.reach for file in files))


def drop_orphans(root: Path, warehouse: Path) -> None:
    """Removes what was derived from tables that are gone."""
    for folder in root.iterdir() if root.is_dir() else ():
        if not (warehouse / f"{folder.name}.lance").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _name(fragment: lance.LanceFragment) -> str:
    files = "-".join(Path(file.path).stem for file in fragment.data_files())
    return f"{fragment.fragment_id}-{files}.arrow"


def _dimensions(dataset: lance.LanceDataset) -> int:
    return int(dataset.schema.field("vector").type.list_size)


def _digest(axes: Axes) -> str:
    return hashlib.blake2b(axes.turn.tobytes() + f"{axes.step} {axes.rests}".encode(), digest_size=8).hexdigest()


def _known_axes(folder: Path) -> Axes | None:
    try:
        with (folder / _AXES).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return Axes(np.ascontiguousarray(stored["turn"]), float(stored["step"]), int(stored["rests"]))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def _keep_axes(axes: Axes, folder: Path) -> None:
    unfinished = folder / "axes.partial.npz"
    np.savez(unfinished, turn=axes.turn, step=axes.step, rests=axes.rests)
    unfinished.rename(folder / _AXES)


def _sample(fragment: lance.LanceFragment) -> Grid:
    """Rows at even distances."""
    rows = fragment.physical_rows
    places = np.arange(0, rows, max(1, rows // 16_384))
    vectors = fragment.take(places.tolist(), columns=["vector"])["vector"]
    return _on_grid(vectors)


def _on_grid(vectors: pa.Array | pa.ChunkedArray) -> Grid:
    frame = pl.from_arrow(vectors)
    assert isinstance(frame, pl.Series)  # a column never comes back as a frame
    return snapped(frame.to_numpy().reshape(len(frame), -1))


@dataclass(frozen=True)
class _Kept:
    """An open file."""

    parts: list[Part]
    off: float
    reach: float

    @classmethod
    def open(cls, path: Path, fragment: lance.LanceFragment, axes: Axes) -> Self | None:
        """The file, None where it is not there, not whole, or made with other axes."""
        try:
            with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
                made_with = (reader.schema.metadata or {}).get(b"axes", b"")
                read = [reader.get_batch_with_custom_metadata(n) for n in range(reader.num_record_batches)]
        except (OSError, pa.ArrowInvalid):
            return None
        if made_with != _digest(axes).encode() or sum(len(batch) for batch, _ in read) != fragment.physical_rows:
            return None
        off, reach = (max([0.0, *(float(about[name]) for _, about in read)]) for name in (b"off", b"reach"))
        return cls([_part(batch) for batch, _ in read], off, reach)


def _part(batch: pa.RecordBatch) -> Part:
    ids, scopes = (pl.Series(name, batch.column(name)) for name in ("chunk_id", "scope"))
    row_ids, grid, codes = batch.column("row_id").to_numpy(), batch.column("vector"), batch.column("code")
    return Part(ids, scopes, row_ids, _two_dimensional(grid), _two_dimensional(codes))


def _two_dimensional(lists: pa.FixedSizeListArray) -> NDArray[Any]:
    numbers: NDArray[Any] = lists.values.to_numpy()
    return numbers.reshape(len(lists), lists.type.list_size)


def _made(path: Path, fragment: lance.LanceFragment, axes: Axes, threads: int) -> _Kept:
    """The file of a fragment. It is complete under its name, and on disk before the run that wrote it is on record."""
    unfinished = path.with_suffix(".partial")
    shape = pa.schema(
        [
            ("chunk_id", pa.large_string()),
            ("scope", pa.large_string()),
            ("row_id", pa.uint64()),
            ("vector", pa.list_(pa.int16(), len(axes.turn))),
            ("code", pa.list_(pa.int8(), axes.width)),
        ],
        metadata={"axes": _digest(axes)},
    )
    with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_file(file, shape) as writer:
        for batch in fragment.to_batches(
            columns=["chunk_id", "scope", "vector"], batch_size=_BATCH_ROWS, with_row_id=True
        ):
            grid = _on_grid(batch["vector"])
            some = coarse(grid, axes, threads=threads)
            columns = [
                batch["chunk_id"].cast(pa.large_string()),
                batch["scope"].cast(pa.large_string()),
                batch["_rowid"],
                pa.FixedSizeListArray.from_arrays(pa.array(grid.ravel()), len(axes.turn)),
                pa.FixedSizeListArray.from_arrays(pa.array(some.codes.ravel()), axes.width),
            ]
            rows = pa.record_batch(columns, schema=shape)
            writer.write_batch(rows, custom_metadata={"off": repr(some.off), "reach": repr(some.reach)})
    unfinished.rename(path)
    made = _Kept.open(path, fragment, axes)
    if made is None:
        raise NightfoldError(f"{path}: does not hold what was written to it; see to the disk, and run again")
    return made
