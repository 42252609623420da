"""Taking a chunk out of its group: a small run of its own, remembered so that no night merges the two again."""

import re
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from flows import mart
from flows.after import follow_metrics
from flows.console import Progress
from flows.errors import NightfoldError
from flows.guard import check_written
from flows.lock import writer_lock
from flows.run_rows import NOTHING_COUNTED, NothingPublished, run_id_at
from flows.settings import Settings
from flows.warehouse import Change, Run, Warehouse
from schemas.contract import Contract, ContractBroken
from schemas.tables import CANONICALS, CHUNKS, FORWARDS, PAIRS, SEPARATIONS, VARIANTS
from schemas.terms import PUBLISHED, STORED_AS_NEW
from transforms.candidates import with_pair_id
from transforms.reconcile import DoesNotAddUp

_ID = re.compile(r"[0-9a-f]{1,32}")
_SHOWN = 60


class NotAVariant(NightfoldError):
    """A chunk that cannot be taken out: it is not there, or in nobody's group but its own."""


@dataclass(frozen=True)
class TakenOut:
    """What was done: the run, the chunk, and the one that stood for it."""

    run: Run
    chunk_id: str
    stood_for_by: str


def unmerge(settings: Settings, chunk: str, *, by: str, reason: str | None, progress: Progress) -> TakenOut:
    """Publishes a run in which the chunk is its own canonical again, and the mart shows it."""
    warehouse = Warehouse(settings.warehouse.path)
    wait = settings.warehouse.lock_wait_seconds
    published = warehouse.published()
    try:
        _find(warehouse, published, chunk)  # a mistyped one is told before the lock makes a folder
    except NotAVariant:
        if published is not None and mart.shown_run(mart.mart_path(warehouse)) != published.run_id:
            # An unmerge was stopped after it was published: asked for again, it ends.
            with writer_lock(warehouse.folder, doing="nightfold unmerge", wait_seconds=wait, tell=progress.tell):
                mart.refresh(warehouse, published, before=None, changes=[])
        raise
    with (
        writer_lock(warehouse.folder, doing="nightfold unmerge", wait_seconds=wait, tell=progress.tell),
        tempfile.TemporaryDirectory(prefix="nightfold-unmerge-") as folder,
    ):
        before = warehouse.begin()
        variant = _find(warehouse, before, chunk)
        assert before is not None  # a chunk was found in it
        now = datetime.now(UTC)
        taking = _Taking(warehouse, before, Path(folder), variant, by=by, at=now, run_id=run_id_at(now))
        try:
            changes = taking.write()
            for change in changes:
                warehouse.apply(change)
            check_written(warehouse)
        except (NightfoldError, DoesNotAddUp, ContractBroken) as error:
            warehouse.begin()
            raise NothingPublished(str(error)) from error
        why = f": {reason}" if reason else ""
        run = replace(
            before,
            **{**NOTHING_COUNTED, "decisions": 1},
            run_id=taking.run_id,
            started_at=now,
            published_at=datetime.now(UTC),
            status=PUBLISHED,
            restores=None,
            table_versions=warehouse.versions(*before.vector_tables),
            settings=settings.model_dump(mode="json"),
            note=f"{by} took {variant['chunk_id']} out of group {variant['canonical_id']}{why}",
            neighbours={name: before.neighbours.get(name) for name in ("embedding", "probes")},
        )
        warehouse.commit(run)
        try:
            mart.refresh(warehouse, run, before=before, changes=changes)
        finally:
            follow_metrics(settings, warehouse, tell=progress.tell)
            warehouse.prune(keep_runs=settings.warehouse.keep_runs)
        return TakenOut(run, variant["chunk_id"], variant["stands_id"])


def _find(warehouse: Warehouse, run: Run | None, chunk: str) -> dict[str, str]:
    """The variant of that id, or the only one whose id begins so, and the chunk that stands for its group."""
    dataset = warehouse.open(CHUNKS.name, run) if run else None
    if dataset is None:
        raise NotAVariant(f"{warehouse.location}: no run is published; there is nothing to take apart")
    columns = ["chunk_id", "canonical_id", "scope", "text"]
    where = f"chunk_id like '{chunk}%'" if _ID.fullmatch(chunk) else "false"
    found = dataset.to_table(columns=columns, filter=where, limit=100).to_pylist()
    if len(found) != 1:
        what = "no such chunk" if not found else f"{len(found)} chunks begin so, give more of the id"
        raise NotAVariant(f'{chunk}: {what}; `nightfold sql "from merged"` shows the merged ones and their ids')
    only = found[0]
    group = warehouse.lookup(CANONICALS.name, pl.Series([only["canonical_id"]]), CANONICALS.columns, run=run).row(
        0, named=True
    )
    if group["chunk_id"] == only["chunk_id"]:
        said = " ".join((only["text"] or "").split())[:_SHOWN]
        in_group = f"stands for a group of {group['variants'] + 1:,}" if group["variants"] else "is in no group"
        remedy = "take the others out of it" if group["variants"] else "there is nothing to take it out of"
        raise NotAVariant(f"{only['chunk_id']} ({said!r}): was not merged into another, it {in_group}; {remedy}")
    return {**only, "stands_id": group["chunk_id"]}


@dataclass(frozen=True)
class _Taking:
    """Writes the changes that take one variant out."""

    warehouse: Warehouse
    run: Run
    folder: Path
    variant: dict[str, str]
    by: str
    at: datetime
    run_id: str

    def write(self) -> list[Change]:
        chunk_id, group_id = self.variant["chunk_id"], self.variant["canonical_id"]
        variants = self._read(VARIANTS).filter(pl.col("canonical_id") == group_id)
        because = variants.filter(pl.col("chunk_id") == chunk_id)
        others = variants.filter(pl.col("chunk_id") != chunk_id)
        ids = pl.concat([others["chunk_id"], pl.Series([self.variant["stands_id"]])])
        columns = ["chunk_id", "scope", "occurrences", "first_seen_at", "last_seen_at"]
        members = self._lookup(CHUNKS, pl.concat([ids, pl.Series([chunk_id])]), columns)
        rest, mine = members.filter(pl.col("chunk_id") != chunk_id), members.filter(pl.col("chunk_id") == chunk_id)
        # A group bears the id of its first chunk. If that is the one to go, it takes the id along.
        rest_id = group_id if group_id != chunk_id else rest.sort("first_seen_at", "chunk_id")["chunk_id"][0]
        moved = pl.DataFrame({"chunk_id": rest["chunk_id"], "canonical_id": rest_id})
        canonicals = pl.concat(
            [_group(mine, chunk_id, stands=chunk_id), _group(rest, rest_id, stands=self.variant["stands_id"])]
        )
        own = pl.DataFrame({"chunk_id": [chunk_id], "canonical_id": [chunk_id], "action": [STORED_AS_NEW]})
        return [
            Change(
                CHUNKS.name,
                updates=(
                    self._file(own, "own"),
                    self._file(moved if rest_id != group_id else moved.clear(), "chunks-moved"),
                ),
            ),
            self._upsert(CANONICALS, canonicals, pl.DataFrame({"canonical_id": [group_id]})),
            Change(
                VARIANTS.name,
                updates=(self._file(others.with_columns(canonical_id=pl.lit(rest_id)), "variants-moved"),),
                deletes=self._file(because.select("chunk_id"), "variants-gone"),
            ),
            self._separation(because),
            self._pair(),
            self._forwards(rest_id),
        ]

    def _read(self, contract: Contract) -> pl.DataFrame:
        dataset = self.warehouse.head(contract.name)
        rows = pl.from_arrow(dataset.to_table())
        assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
        return contract.shaped(rows)

    def _lookup(self, contract: Contract, keys: pl.Series, columns: list[str] | None = None) -> pl.DataFrame:
        return self.warehouse.lookup(contract.name, keys, columns or contract.columns, run=self.run)

    def _file(self, rows: pl.DataFrame, name: str) -> Path:
        path = self.folder / f"{name}.parquet"
        rows.write_parquet(path)
        return path

    def _upsert(self, contract: Contract, rows: pl.DataFrame, known: pl.DataFrame) -> Change:
        rows, key = contract.shaped(rows), list(contract.key)
        return Change(
            contract.name,
            appends=self._file(rows.join(known, on=key, how="anti"), contract.name),
            updates=(self._file(rows.join(known, on=key, how="semi"), f"{contract.name}-known"),),
        )

    def _both(self) -> pl.DataFrame:
        left, right = sorted([self.variant["chunk_id"], self.variant["stands_id"]])
        return with_pair_id(pl.DataFrame({"left_id": [left], "right_id": [right], "scope": [self.variant["scope"]]}))

    def _separation(self, because: pl.DataFrame) -> Change:
        rows = self._both().with_columns(
            chunk_id=pl.lit(self.variant["chunk_id"]),
            canonical_id=pl.lit(self.variant["canonical_id"]),
            merged_because=pl.lit(because["reason"][0]),
            decided_by=pl.lit(self.by),
            decided_at=self.at,
            run_id=pl.lit(self.run_id),
        )
        return self._upsert(SEPARATIONS, rows, self._lookup(SEPARATIONS, rows["pair_id"], ["pair_id"]))

    def _pair(self) -> Change:
        """The pair stays on record as it was judged, with what is left of it."""
        rows = self._both().select("pair_id", action=pl.lit(STORED_AS_NEW))
        return Change(PAIRS.name, updates=(self._file(rows, "pairs"),))

    def _forwards(self, rest_id: str) -> Change:
        """An id that is a group's again leads nowhere; those that led to a group go on doing so."""
        chunk_id, group_id = self.variant["chunk_id"], self.variant["canonical_id"]
        rows = self._read(FORWARDS)
        led = rows.filter((pl.col("forwards_to") == group_id) & (pl.col("canonical_id") != chunk_id))
        gone = rows.filter(pl.col("canonical_id").is_in([chunk_id, rest_id]))
        led = led.join(gone, on="canonical_id", how="anti").with_columns(forwards_to=pl.lit(rest_id))
        return Change(
            FORWARDS.name,
            updates=(self._file(led, "forwards-moved"),),
            deletes=self._file(gone.select("canonical_id"), "forwards-gone"),
        )


def _group(members: pl.DataFrame, canonical_id: str, *, stands: str) -> pl.DataFrame:
    return CANONICALS.shaped(
        members.select(
            pl.lit(canonical_id).alias("canonical_id"),
            pl.col("scope").first(),
            pl.lit(stands).alias("chunk_id"),
            variants=pl.len() - 1,
            occurrences=pl.col("occurrences").sum(),
            first_seen_at=pl.col("first_seen_at").min(),
            last_seen_at=pl.col("last_seen_at").max(),
        )
    )
