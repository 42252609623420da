"""What the report says, as figures and rows: all of it from what is on record, so that any run's can be made again."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import polars as pl

from flows.report.since import IS_OPEN_CONTRADICTION, IS_OPEN_REVIEW, Since, since_the_last
from flows.report.version import Version, beginning_of
from flows.settings import ReportSettings
from flows.warehouse import Run, Warehouse
from schemas.tables import CANONICALS, CHUNKS, CONTRADICTIONS, OCCURRENCES, PAIRS, PENDING_REVIEWS, REJECTS, VARIANTS
from schemas.terms import ACTIONS, COMPLETE, MERGED, RELATIONS
from transforms.headroom import Headroom, removed_shares

Row = dict[str, Any]
_NAMES_SHOWN = 30
_TREND_RUNS = 30
_BUCKETS = 100


@dataclass(frozen=True)
class Facts:
    """The figures of one run, of all scopes or of one; in the latter nothing of another scope is in any of them."""

    warehouse: Warehouse
    run: Run
    settings: ReportSettings
    scope: str | None = None

    @cached_property
    def version(self) -> Version:
        return Version(self.warehouse, self.run, self.scope)

    @cached_property
    def since(self) -> Since:
        return since_the_last(self.warehouse, self.run, scope=self.scope)

    @property
    def at(self) -> datetime:
        """The moment that ages are counted from."""
        return self.run.published_at or self.run.started_at

    @property
    def is_whole(self) -> bool:
        """Whether figures of the run as a whole may be told: they count rows of every scope."""
        return self.scope is None

    # ---- what came in

    @cached_property
    def new_rows(self) -> list[Row]:
        """Rows that the run saw for the first time, by source, the most first."""
        where = f"run_id = '{self.run.run_id}'"
        query = "select source, count(*) as rows, count(distinct scope) as scopes from occurrences group by all"
        rows = self.version.sql(query, OCCURRENCES.name, ["source", "scope"], where=where)
        return sorted(rows, key=lambda row: (-row["rows"], row["source"]))

    @cached_property
    def sources(self) -> list[Row]:
        """Tonight's rows by source: new, known and rejected. Of one scope, and of runs that did not count them, only
        the new ones are known."""
        if self.is_whole and self.run.sources:
            rows = [{"source": name, **counts} for name, counts in self.run.sources.items()]
        else:
            rows = [{"source": row["source"], "new": row["rows"]} for row in self.new_rows]
        return sorted(rows, key=lambda row: (-sum(row.get(what, 0) for what in _OF_SOURCE), row["source"]))

    @cached_property
    def rejects(self) -> list[Row]:
        """Rows refused, by rule: tonight and ever, and one place to look. None in the report of a scope: a row is
        refused before anyone knows whose it is."""
        query = (
            f"select reason as rule, count(*) filter (last_run_id = '{self.run.run_id}') as tonight, count(*) as ever, "
            f"coalesce(min(struct_pack(source, locator, detail)) filter (last_run_id = '{self.run.run_id}'), "
            "min(struct_pack(source, locator, detail))) as example from rejects group by all"
        )
        columns = ["source", "locator", "reason", "detail", "last_run_id"]
        rows = self.version.sql(query, REJECTS.name, columns)
        return sorted(rows, key=lambda row: (-row["tonight"], -row["ever"], row["rule"]))

    # ---- what became of it

    @cached_property
    def actions(self) -> list[Row]:
        """Chunks by action: of the run, and of all."""
        tonight, ever = _counted(self.since.tonight, "action"), _counted(self.since.chunks, "action")
        return [
            {"action": name, "tonight": tonight.get(name, 0), "ever": ever.get(name, 0)}
            for name in ACTIONS
            if ever.get(name) or tonight.get(name)
        ]

    def by_name(self, what: str) -> tuple[list[Row], int]:
        """Chunks by source or scope: all, tonight's and each action of these; and how many names are not shown."""
        ever, cross = _counted(self.since.chunks, what), _cross(self.since.tonight, what)
        rows: list[Row] = [
            {"name": name, "chunks": count, "tonight": sum(acted.values()), "actions": acted}
            for name, count in ever.items()
            for acted in [cross.get(name, {})]
        ]
        rows.sort(key=lambda row: (-row["tonight"], -row["chunks"], row["name"]))
        return rows[:_NAMES_SHOWN], max(0, len(rows) - _NAMES_SHOWN)

    @property
    def merged_tonight(self) -> int:
        return next((row["tonight"] for row in self.actions if row["action"] == MERGED), 0)

    # ---- pairs

    @cached_property
    def similarities(self) -> list[Row]:
        """Pairs on record by hundredth of similarity and by what they led to."""
        query = (
            f"select least(floor(similarity * {_BUCKETS} + 1e-4), {_BUCKETS - 1})::int as bucket, action, "
            "count(*) as pairs from pairs group by all order by all"
        )
        return self.version.sql(query, PAIRS.name, ["similarity", "action"])

    @cached_property
    def relations(self) -> list[Row]:
        """Pairs by what they were judged to be: of the run, and of all."""
        query = (
            f"select relation, count(*) filter (run_id = '{self.run.run_id}') as tonight, count(*) as ever, "
            "avg(confidence) as confidence, avg(similarity) as similarity from pairs group by all"
        )
        rows = self.version.sql(query, PAIRS.name, ["relation", "run_id", "confidence", "similarity"])
        return sorted(rows, key=lambda row: RELATIONS.index(row["relation"]))

    # ---- samples

    @cached_property
    def largest_groups(self) -> list[Row]:
        """The groups of the most chunks, with some of those merged into them, the least alike first."""
        most, few = self.settings.samples, self.settings.variants
        query = f"from canonicals order by variants desc, occurrences desc, canonical_id limit {most}"
        columns = ["canonical_id", "scope", "chunk_id", "variants", "occurrences"]
        groups = self.version.sql(query, CANONICALS.name, columns, where="variants > 0")
        listed = ",".join(f"'{group['canonical_id']}'" for group in groups) or "''"
        query = (
            "from variants qualify row_number() over (partition by canonical_id order by similarity, chunk_id) <= "
            f"{few} order by canonical_id, similarity, chunk_id"
        )
        columns = ["chunk_id", "canonical_id", "scope", "relation", "similarity", "confidence", "reason", "decided_by"]
        variants = self.version.sql(query, VARIANTS.name, columns, where=f"canonical_id in ({listed})")
        of_group: dict[str, list[Row]] = {}
        for variant in variants:
            of_group.setdefault(variant["canonical_id"], []).append(variant)
        return [{**group, "merged": of_group.get(group["canonical_id"], [])} for group in groups]

    @cached_property
    def contradictions(self) -> list[Row]:
        """Open ones, those of this run first."""
        is_mine = f"(run_id = '{self.run.run_id}')"
        query = f"select *, {is_mine} as is_new from contradictions order by is_new desc, run_id desc, pair_id"
        columns = ["pair_id", "left_id", "right_id", "scope", "evidence", "run_id"]
        query += f" limit {self.settings.samples}"
        return self.version.sql(query, CONTRADICTIONS.name, columns, where=IS_OPEN_CONTRADICTION)

    @cached_property
    def open_contradictions(self) -> int:
        return self.version.count(CONTRADICTIONS.name, IS_OPEN_CONTRADICTION)

    @cached_property
    def waiting(self) -> list[Row]:
        """Open questions, the oldest first, each with the best of its candidates."""
        query = f"from pending_reviews order by queued_at, review_id limit {self.settings.samples}"
        columns = ["review_id", "scope", "chunk_id", "candidates", "reason", "queued_at"]
        rows = self.version.sql(query, PENDING_REVIEWS.name, columns, where=IS_OPEN_REVIEW)
        for row in rows:
            candidates = json.loads(row.pop("candidates") or "[]")
            row["candidates"] = len(candidates)
            row["best_id"] = candidates[0]["chunk_id"] if candidates else None
            row["days"] = max(0, (self.at - row["queued_at"]).days)
        return rows

    @cached_property
    def open_questions(self) -> int:
        return self.version.count(PENDING_REVIEWS.name, IS_OPEN_REVIEW)

    @cached_property
    def without_vector(self) -> list[Row]:
        """Chunks without a vector, by status and source."""
        query = "select completion_status as status, source, count(*) as chunks from chunks group by all"
        where = f"completion_status != '{COMPLETE}'"
        rows = self.version.sql(query, CHUNKS.name, ["completion_status", "source"], where=where)
        return sorted(rows, key=lambda row: (-row["chunks"], row["status"], row["source"] or ""))

    @property
    def embeds(self) -> bool:
        """Whether the run's settings wanted vectors at all."""
        return bool(self.run.settings.get("embedding", {}).get("encoder") != "none")

    @cached_property
    def superseded(self) -> list[Row]:
        """The newly superseded chunks, as many as are shown."""
        rows = self.since.superseded.head(self.settings.samples).select("chunk_id", "superseded_by").to_dicts()
        ids = self.version.chunk_ids(digest for row in rows for digest in row.values())
        return [{name: ids.get(digest) for name, digest in row.items()} for row in rows]

    @property
    def superseded_in_all(self) -> int:
        return self.since.chunks["superseded_by"].drop_nulls().len()

    @cached_property
    def texts(self) -> dict[str, Row]:
        """The chunks that the report shows, by id, with the beginning of each text."""
        return self.version.said(self._shown_ids(), chars=self.settings.text_chars)

    def _shown_ids(self) -> Iterable[str | None]:
        for group in self.largest_groups:
            yield from (group["chunk_id"], *(variant["chunk_id"] for variant in group["merged"]))
        for pair in self.contradictions:
            yield from (pair["left_id"], pair["right_id"])
        for question in self.waiting:
            yield from (question["chunk_id"], question["best_id"])
        for chunk in self.superseded:
            yield from (chunk["chunk_id"], chunk["superseded_by"])
        for rows in self.changed_groups.values():
            for row in rows:
                yield from (row.get("stands"), row.get("stood"))

    @cached_property
    def changed_groups(self) -> dict[str, list[Row]]:
        """The largest of the groups that changed, by what became of them, with the chunk that stands for each."""
        groups, most = self.since.groups, self.settings.samples
        if not self.since.is_known:
            return {}
        frames = {
            "new": groups.new.filter(pl.col("chunks") > 1).sort("chunks", "canonical_id", descending=[True, False]),
            "grown": groups.grown.sort("gained", "canonical_id", descending=[True, False]),
            "shrunk": groups.shrunk.sort("lost", "canonical_id", descending=[True, False]),
            "split": groups.split,
            "joined": groups.joined,
            "gone": groups.gone,
            "restood": groups.restood,
        }
        shown = {name: frame.head(most).to_dicts() for name, frame in frames.items()}
        stands_for = self._stands_for(row.get("into") or row["canonical_id"] for rows in shown.values() for row in rows)
        for row in (row for rows in shown.values() for row in rows):
            row.setdefault("stands", stands_for.get(row.get("into") or row["canonical_id"]))
        told = [row for rows in shown.values() for row in rows]
        ids = self.version.chunk_ids(digest for row in told for digest in (row["stands"], row.get("stood")))
        for row in told:
            row |= {name: ids.get(row[name]) for name in ("stands", "stood") if name in row}
            row |= {name: beginning_of(row[name]) for name in ("canonical_id", "was_in") if row.get(name) is not None}
        return shown

    def _stands_for(self, groups: Iterable[int]) -> dict[int, int]:
        """Which chunk stands for each of these groups."""
        wanted = pl.Series(sorted(set(groups)), dtype=pl.UInt64)
        mine = self.since.canonicals.filter(pl.col("canonical_id").is_in(wanted.implode()))
        return dict(mine.select("canonical_id", "chunk_id").iter_rows())

    # ---- the run itself

    @cached_property
    def headroom(self) -> list[Headroom]:
        """How near the run came to each guard's limit."""
        guard, run = self.run.settings.get("guard", {}), self.run
        if not guard or not self.is_whole or not run.is_night:
            return []
        least = guard["from_chunks"]
        variants = self.version.rows(VARIANTS.name, ["chunk_id", "canonical_id", "run_id"])
        tonight = variants.filter(pl.col("run_id") == run.run_id)
        before = variants.filter(pl.col("run_id") != run.run_id)
        shares = removed_shares(self.since.chunks, before["chunk_id"], tonight["chunk_id"])
        worst = next(shares.filter(pl.col("chunks") >= least).iter_rows(named=True), None)
        where = f"largest share taken of a {worst['what']}: {worst['name']}" if worst else "no source is large enough"
        sizes = variants.join(tonight, on="canonical_id", how="semi").group_by("canonical_id").len()["len"].to_list()
        merged, usual = run.actions.get(MERGED, 0), self._usual_merge_share(least)
        jump = merged / run.chunks_new / usual if usual and run.chunks_new >= least else None
        return [
            Headroom(
                "max_reject_share",
                "share of tonight's rows refused",
                run.rows_rejected / run.rows_in if run.rows_in else 0.0,
                guard["max_reject_share"],
            ),
            Headroom("max_removed_share", where, worst["share"] if worst else None, guard["max_removed_share"]),
            Headroom(
                "max_group_chunks",
                "chunks in the largest group tonight made or added to",
                max(sizes, default=-1) + 1,
                guard["max_group_chunks"],
            ),
            Headroom("max_merge_jump", "times the usual share of new chunks merged", jump, guard["max_merge_jump"]),
        ]

    def _usual_merge_share(self, from_chunks: int) -> float | None:
        shares = [
            run.actions.get(MERGED, 0) / run.chunks_new
            for run in self._runs_before
            if run.is_night and run.chunks_new >= from_chunks
        ][-7:]
        return max(sum(shares) / len(shares), 1 / from_chunks) if len(shares) >= 3 else None

    @cached_property
    def _runs_before(self) -> list[Run]:
        runs = self.warehouse.runs()
        place = next(n for n, each in enumerate(runs) if each.run_id == self.run.run_id)
        return runs[:place]

    @cached_property
    def trend(self) -> list[Run]:
        """The last nights on record up to this run, failed ones too."""
        if not self.is_whole:
            return []
        return [run for run in [*self._runs_before, self.run] if run.is_night or not run.is_readable][-_TREND_RUNS:]

    @cached_property
    def canonicals(self) -> int:
        return self.version.count(CANONICALS.name)

    @cached_property
    def occurrences(self) -> int:
        return self.version.count(OCCURRENCES.name)


_OF_SOURCE = ("new", "known", "rejected")


def _counted(rows: pl.DataFrame, what: str) -> dict[str, int]:
    counted = rows.group_by(what).len().with_columns(pl.col(what).cast(pl.String)).sort(what)
    return dict(counted.iter_rows())


def _cross(rows: pl.DataFrame, what: str) -> dict[str, dict[str, int]]:
    """Rows by name, and of each by action."""
    counted: dict[str, dict[str, int]] = {}
    by_both = rows.group_by(what, "action").len().cast({what: pl.String, "action": pl.String}).sort(what, "action")
    for name, action, count in by_both.iter_rows():
        counted.setdefault(name, {})[action] = count
    return counted
