"""A legacy source cut into slices: its rows behind the door already, with what their hashes and embeddings are worth.

The whole source goes through the door at once, so that its files have one scope rule and no id comes in twice; a
slice is then taken up as often as it must. One that is done is removed.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from flows.atomic_file import write_whole
from flows.errors import UnreadableSource
from flows.load import DefaultScope, Parts, ScopeComesLate, as_rejects, split
from flows.readers import Batch, read
from flows.settings import Settings
from flows.sources import Source, SourceFile
from flows.staging import Staging, keep
from schemas.rows import ID_IS_UNIQUE, ROWS
from schemas.tables import REJECTS
from schemas.terms import EMBEDDING_OF_SEVERAL, EMBEDDING_USABLE
from transforms.exact import repeats_of_an_id
from transforms.hashing import with_content_hash, with_ids
from transforms.legacy import checked_embeddings, legacy_id, row_digest

_SLICE = "slice.json"
_SLOT = ("scope", "source", "source_row_id", "chunk_index")
# What a row of a slice has beside the columns of the input contract.
EXTRAS = pl.Schema(
    {
        "at": pl.String,
        "hash_given": pl.String,
        "embedding_was": pl.String,
        "row_hash": pl.String,
        "legacy_id": pl.String,
        "row_digest": pl.String,
    }
)


@dataclass(frozen=True)
class Legacy:
    """What is known of a legacy source: its shape, the columns that no row keeps, and the embeddings that fit."""

    shape: str
    is_cut: bool
    hash_column: str | None
    embedding_column: str | None
    model_column: str | None
    stated_model: str | None
    model: str | None
    dimensions: int

    def among(self, columns: list[str]) -> "Legacy":
        """The same for a file that may lack some of the columns."""
        known = {None, *columns}
        return replace(
            self,
            hash_column=self.hash_column if self.hash_column in known else None,
            embedding_column=self.embedding_column if self.embedding_column in known else None,
            model_column=self.model_column if self.model_column in known else None,
        )

    @property
    def taken(self) -> list[str]:
        """The columns that are worked on, and are no metadata of a row."""
        return [name for name in (self.hash_column, self.embedding_column, self.model_column) if name is not None]


@dataclass(frozen=True)
class Slice:
    """One slice of a source, and what was counted in it."""

    folder: Path
    number: int
    rows: int
    rejects: int
    source_rows: int


def _in_at(one: Slice) -> Path:
    return one.folder.with_suffix(".run")


@dataclass(frozen=True)
class Cut:
    """A source in slices; those that are done are no longer among them."""

    folder: Path
    slices: tuple[Slice, ...]
    counts: dict[str, Any]

    def left(self) -> list[Slice]:
        """The slices that are still to be brought in."""
        return [one for one in self.slices if one.folder.exists()]

    def is_true_of(self, run_ids: set[str]) -> bool:
        """Whether every slice that is done came in with one of these runs."""
        done = [_in_at(one) for one in self.slices if not one.folder.exists()]
        return all(said.exists() and said.read_text() in run_ids for said in done)


def cut_source(
    source: Source,
    settings: Settings,
    legacy: Legacy,
    folder: Path,
    *,
    identity: str,
    slice_rows: int,
    tell_rows: Callable[[int], None],
) -> Cut:
    """The source in slices of so many of its rows, in `folder`; what is there already is taken up as it is."""
    done, counts, _ = Staging(folder).run(
        "cut", lambda partial: _Knife(source, settings, legacy, partial, identity, slice_rows, tell_rows).cut()
    )
    slices = tuple(Slice(done / f"slice-{one['number']:06d}", **one) for one in counts.pop("slices"))
    return Cut(folder, slices, counts)


def identity_of(folder: Path) -> str | None:
    """The identity of the source whose slices lie in a folder; None where there are none."""
    try:
        known: dict[str, Any] = json.loads((folder / "cut" / "result.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return str(known.get("identity"))


def drop_slice(one: Slice, *, run_id: str) -> None:
    """Removes a slice that is done: at once, and then what it held. The run that has its rows stays on record."""
    write_whole(_in_at(one), run_id)
    gone = one.folder.with_name(f"{one.folder.name}.done")
    shutil.rmtree(gone, ignore_errors=True)
    keep(one.folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def about_slice(folder: Path) -> dict[str, Any]:
    """What the slice in a folder says of itself."""
    about: dict[str, Any] = json.loads((folder / _SLICE).read_text())
    return about


def scan_rows(folder: Path) -> pl.LazyFrame:
    """The rows of a slice, those that repeat an id of another aside."""
    rows = pl.scan_parquet(sorted(folder.glob("rows-*.parquet")), glob=False)
    repeats = pl.scan_parquet([folder / "repeats.parquet"], glob=False).select("row")
    return rows.join(repeats, on="row", how="anti", maintain_order="left")


def scan_vectors(folder: Path) -> pl.LazyFrame | None:
    """The usable embeddings of a slice, by the place of their row in the source; None where it has none."""
    files = sorted(folder.glob("vectors-*.parquet"))
    return pl.scan_parquet(files, glob=False) if files else None


def rejects_of(folder: Path) -> pl.DataFrame:
    """The rejects of a slice, those that repeat an id of another row included."""
    repeats = pl.read_parquet(folder / "repeats.parquet", glob=False).drop("row")
    return pl.concat([pl.read_parquet(folder / "rejects.parquet", glob=False), repeats])


@dataclass
class _OneSlice:
    """The slice that is being written."""

    folder: Path
    number: int
    parts: Parts = field(init=False)
    rejects: list[pl.DataFrame] = field(default_factory=list)
    source_rows: int = 0
    vectors: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.parts = Parts(self.folder)

    def close(self, about: dict[str, Any]) -> dict[str, int]:
        self.parts.close()
        if not self.parts.rows:  # a slice of nothing but rejects
            for part in self.folder.glob("rows-*.parquet"):
                empty = pl.read_parquet(part, glob=False)
                empty.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in EXTRAS.items()).write_parquet(
                    part
                )
        rejects = pl.concat([REJECTS.empty(), *self.rejects])
        rejects.write_parquet(self.folder / "rejects.parquet")
        REJECTS.empty().with_columns(row=pl.lit(0, dtype=pl.UInt64)).clear().write_parquet(
            self.folder / "repeats.parquet"
        )
        counted = {"rows": self.parts.rows, "rejects": rejects.height, "source_rows": self.source_rows}
        (self.folder / _SLICE).write_text(json.dumps({**about, "number": self.number}))
        return {"number": self.number, **counted}


@dataclass
class _Knife:
    """Cuts one source."""

    source: Source
    settings: Settings
    legacy: Legacy
    folder: Path
    identity: str
    slice_rows: int
    tell_rows: Callable[[int], None]
    done: list[dict[str, int]] = field(default_factory=list)
    embeddings: dict[str, int] = field(default_factory=dict)
    rows_read: int = 0

    def cut(self) -> dict[str, Any]:
        try:
            self._cut(DefaultScope())
        except ScopeComesLate as late:
            for remains in self.folder.glob("slice-*"):
                shutil.rmtree(remains)
            self.done, self.embeddings, self.rows_read = [], {}, 0
            self._cut(DefaultScope(late.file))
        self._refuse_repeats()
        return {
            "identity": self.identity,
            "slices": self.done,
            "rows_read": self.rows_read,
            "embeddings": self.embeddings,
            "legacy": asdict(self.legacy),
        }

    def _cut(self, default_scope: DefaultScope) -> None:
        now = self._begin()
        for file in self.source.files:
            for batch in read(file, given=self.source.settings, load=self.settings.load):
                for piece in self._pieces(batch, now):
                    if now.source_rows >= self.slice_rows:
                        self._end(now)
                        now = self._begin()
                    self._take(piece, file, now, default_scope)
                    self.tell_rows(self.rows_read)
        self._end(now)

    def _begin(self) -> _OneSlice:
        return _OneSlice(self.folder / f"slice-{len(self.done):06d}", len(self.done))

    def _end(self, now: _OneSlice) -> None:
        about = {"identity": self.identity, "shape": self.legacy.shape, "kind": self.source.settings.kind}
        self.done.append(now.close({**about, "source": self.source.name}))

    def _pieces(self, batch: Batch, now: _OneSlice) -> Iterator[Batch]:
        """The batch cut where a slice is full; the lines it refused go with the first piece."""
        left, start, refused = self.slice_rows - now.source_rows, 0, batch.refused
        while start == 0 or start < batch.rows.height:
            size = left if left > 0 else self.slice_rows
            part = slice(start, start + size)
            yield replace(batch, rows=batch.rows[part], numbers=batch.numbers[part], refused=refused)
            start, left, refused = start + size, 0, []

    def _take(self, batch: Batch, file: SourceFile, now: _OneSlice, default_scope: DefaultScope) -> None:
        # Not every file of a source has every column.
        legacy, rows = self.legacy.among(batch.rows.columns), batch.rows
        text = self.source.settings.text_column if legacy.is_cut else None
        at = pl.select(pl.lit(f"{file.name}:") + pl.lit(batch.numbers).cast(pl.String)).to_series()
        hashes, whole = _as_text(rows, legacy.hash_column), _as_text(rows, text)
        facts = pl.DataFrame({"at": at, "hash_given": hashes, "whole": whole})
        embeddings = checked_embeddings(
            rows,
            embedding=legacy.embedding_column,
            model_column=legacy.model_column,
            stated_model=legacy.stated_model,
            model=legacy.model,
            dimensions=legacy.dimensions,
        )
        facts = facts.hstack(embeddings)
        others = replace(batch, rows=rows.drop(legacy.taken), as_json=batch.as_json - set(legacy.taken))
        good, refused = split(others, self.source, file, self.settings, default_scope)
        good = self._with_facts(good, facts)
        now.parts.add(good)
        now.rejects.append(refused)
        now.source_rows += rows.height + len(batch.refused)
        self.rows_read += rows.height + len(batch.refused)
        by_reason = good.unique("at")["embedding_was"].value_counts()
        for reason, rows in by_reason.iter_rows():
            self.embeddings[reason] = self.embeddings.get(reason, 0) + rows
        usable = good.filter(pl.col("embedding_was") == EMBEDDING_USABLE).select("at").unique()
        vectors = facts.select("at", "vector").join(usable, on="at", how="semi", maintain_order="left")
        if vectors.height:
            vectors.write_parquet(
                now.folder / f"vectors-{now.vectors:06d}.parquet", compression="uncompressed", statistics=False
            )
            now.vectors += 1

    def _with_facts(self, good: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
        """The rows with what is known of the legacy row that each is, or is a window of."""
        number = pl.format("#{}", "chunk_index").str.len_bytes().fill_null(0)
        place = pl.col("locator").str.head(pl.col("locator").str.len_chars() - number)
        rows = good.with_columns(at=place).join(facts.drop("vector"), on="at", how="left", maintain_order="left")
        is_one_of_several = (pl.len().over("at") > 1) & (pl.col("embedding_was") == EMBEDDING_USABLE)
        several = pl.when(is_one_of_several).then(pl.lit(EMBEDDING_OF_SEVERAL)).otherwise(pl.col("embedding_was"))
        rows = rows.with_columns(embedding_was=several)
        if self.legacy.is_cut:
            whole = rows.lazy().select("scope", text="whole").pipe(with_content_hash, kinds=[self.source.settings.kind])
            rows = rows.with_columns(row_hash=whole.collect()["content_hash"])
        else:
            rows = rows.with_columns(row_hash=pl.lit(None, dtype=pl.String))
        rows = rows.drop("whole").with_columns(legacy_id=legacy_id(), row_digest=row_digest())
        return rows.select(*ROWS.columns, *EXTRAS)

    def _refuse_repeats(self) -> None:
        """An id comes in once, whichever slices its rows are in; as in a night, its lowest content stays."""
        folders = [self.folder / f"slice-{one['number']:06d}" for one in self.done]
        slots = [scan_rows(folder).select(pl.struct(_SLOT).hash()).collect().to_series() for folder in folders]
        every = pl.concat(slots)
        repeated = every.filter(every.is_duplicated()).unique()
        if not repeated.len():
            return
        is_suspect = pl.struct(_SLOT).hash().is_in(repeated.implode())
        suspects = [
            scan_rows(folder).filter(is_suspect).with_columns(slice=pl.lit(number, dtype=pl.UInt32)).collect()
            for number, folder in enumerate(folders)
        ]
        rows = pl.concat(suspects).rename({"row": "row_there"}).with_row_index("row")
        keys = with_content_hash(rows.lazy(), kinds=[self.source.settings.kind])
        keys = keys.pipe(with_ids, unchecked_scopes=self.settings.unchecked_scopes)
        kept = keys.collect()
        repeats = kept.join(repeats_of_an_id(kept).select("row"), on="row", how="semi", maintain_order="left")
        refused = as_rejects(repeats.with_columns(reason=pl.lit(ID_IS_UNIQUE)))
        refused = refused.hstack(repeats.select("slice", row=pl.col("row_there")))
        for (number,), mine in refused.group_by("slice"):
            mine.drop("slice").write_parquet(folders[int(str(number))] / "repeats.parquet")
            one = self.done[int(str(number))]
            one["rows"], one["rejects"] = one["rows"] - mine.height, one["rejects"] + mine.height


def _as_text(rows: pl.DataFrame, column: str | None) -> pl.Series:
    """A column as text, bytes as hex; nothing in every row where there is no column."""
    if column is None or column not in rows.columns:
        return pl.Series([None] * rows.height, dtype=pl.String)
    values = rows[column]
    return values.bin.encode("hex") if values.dtype == pl.Binary else values.cast(pl.String)


def unreadable(source: Source) -> UnreadableSource | None:
    """Why the source is no legacy table, if it is none."""
    odd = next((file for file in source.files if file.format in ("documents", "bytes")), None)
    if odd is None:
        return None
    return UnreadableSource(
        f"{odd.path}: is a document; `nightfold backfill` takes rows of a table (parquet, csv, jsonl, arrow, duckdb), "
        "and `nightfold run` documents"
    )
