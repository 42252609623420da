"""Figures of the warehouse and its last run as a file for the node exporter's textfile collector.

What ends in `_total` adds up all runs on record, and so only grows, over rollbacks too. The rest says how things stand
after the last run. Labels are closed lists, and the sources of the settings: never scopes.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from flows.atomic_file import write_whole
from flows.settings import MetricsSettings
from flows.warehouse import Run, Warehouse
from schemas.tables import CHUNKS, CONTRADICTIONS, PENDING_REVIEWS, PUBLISHED_TABLES, REJECTS
from schemas.terms import ACTIONS, COMPLETE, COMPLETION, MERGED, RUN_STATUS

FILE_NAME = "nightfold.prom"
_READABLE = 0o644
_SUCCESS, _ENDED_AT = "nightfold_run_success", "nightfold_last_run_timestamp_seconds"
_MIB = 1 << 20


def metrics_path(settings: MetricsSettings, warehouse: Warehouse) -> Path:
    """Where the file is."""
    return warehouse.folder / "metrics" / FILE_NAME if settings.path is None else Path(settings.path)


def write_metrics(path: Path, warehouse: Warehouse, *, succeeded: bool, ended_at: datetime) -> None:
    """Writes the file anew, whole, for everyone to read."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(warehouse, succeeded=succeeded, ended_at=ended_at))
    write_whole(path, generate_latest(registry).decode(), mode=_READABLE)


def refresh_metrics(path: Path, warehouse: Warehouse) -> None:
    """Writes the file anew after a run that is no night: how the last one ended stays as it says. Where no night has
    left a file, none is made."""
    if not path.exists():
        return
    said = {
        sample.name: sample.value
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8"))
        for sample in family.samples
        if sample.name in (_SUCCESS, _ENDED_AT)
    }
    if set(said) != {_SUCCESS, _ENDED_AT}:
        raise ValueError(f"no {_SUCCESS} or no {_ENDED_AT} in it")
    ended_at = datetime.fromtimestamp(said[_ENDED_AT], UTC)
    write_metrics(path, warehouse, succeeded=said[_SUCCESS] == 1, ended_at=ended_at)


class _Figures:
    """Every metric, from what is on record."""

    def __init__(self, warehouse: Warehouse, *, succeeded: bool, ended_at: datetime) -> None:
        self._warehouse = warehouse
        self._runs = warehouse.runs()
        self._nights = [run for run in self._runs if run.is_readable and run.is_night]
        self._succeeded, self._ended_at = succeeded, ended_at

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client asks for it."""
        yield from self._outcome()
        yield from self._totals()
        yield from self._tables()
        if self._nights:
            yield from self._last_night(self._nights[-1])

    def _outcome(self) -> Iterator[Metric]:
        yield _gauge(_SUCCESS, "1 if the last run ended well, else 0", float(self._succeeded))
        yield _gauge(_ENDED_AT, "When the last run ended, well or not", self._ended_at.timestamp())
        published = self._nights[-1].published_at if self._nights else None
        if published is not None:
            about = "When the last night was published"
            yield _gauge("nightfold_last_success_timestamp_seconds", about, published.timestamp())
        runs = CounterMetricFamily("nightfold_runs", "Runs on record, by status", labels=["status"])
        for status in RUN_STATUS:
            runs.add_metric([status], sum(run.status == status for run in self._runs))
        yield runs

    def _totals(self) -> Iterator[Metric]:
        """What all nights on record have done."""
        hits = CounterMetricFamily(
            "rag_dedup_hit",
            "New rows that said nothing new: the same content (exact), or merged by meaning (merged)",
            labels=["kind"],
        )
        hits.add_metric(["exact"], sum(max(0, run.occurrences_new - run.chunks_new) for run in self._nights))
        hits.add_metric(["merged"], sum(run.actions.get(MERGED, 0) for run in self._nights))
        yield hits
        rows = CounterMetricFamily(
            "nightfold_rows", "Rows that came in, by source and by what they were", labels=_OF_ROWS
        )
        by_source: dict[tuple[str, str], int] = {}
        for run in self._nights:
            for source, counts in run.sources.items():
                for outcome, count in counts.items():
                    by_source[source, outcome] = by_source.get((source, outcome), 0) + count
        for (source, outcome), count in sorted(by_source.items()):
            rows.add_metric([source, outcome], count)
        yield rows
        actions = CounterMetricFamily("nightfold_actions", "Chunks by what became of them", labels=["action"])
        for action in ACTIONS:
            actions.add_metric([action], sum(run.actions.get(action, 0) for run in self._nights))
        yield actions
        seconds = CounterMetricFamily("nightfold_stage_seconds", "Seconds of work by stage", labels=["stage"])
        for stage in sorted({stage for run in self._nights for stage in run.stage_seconds}):
            seconds.add_metric([stage], round(sum(run.stage_seconds.get(stage, 0) for run in self._nights), 3))
        yield seconds

    def _tables(self) -> Iterator[Metric]:
        """How the published tables stand."""
        run, count = self._warehouse.published(), self._count
        rows = GaugeMetricFamily("nightfold_table_rows", "Rows of each table as published", labels=["table"])
        for contract in PUBLISHED_TABLES:
            rows.add_metric([contract.name], count(contract.name, run))
        yield rows
        yield _gauge(
            "nightfold_pending_reviews",
            "Questions that wait for a person",
            count(PENDING_REVIEWS.name, run, "reviewed_at is null"),
        )
        about = "Contradictions that nobody has resolved"
        yield _gauge("nightfold_open_contradictions", about, count(CONTRADICTIONS.name, run, "status = 'open'"))
        waiting = GaugeMetricFamily("nightfold_incomplete_embeddings", "Chunks without a vector", labels=["status"])
        for status in COMPLETION:
            if status != COMPLETE:
                waiting.add_metric([status], count(CHUNKS.name, run, f"completion_status = '{status}'"))
        yield waiting
        rejects = GaugeMetricFamily(
            "nightfold_rejects", "Refused rows on record, by the rule they broke", labels=["rule"]
        )
        for rule, broken in sorted(self._rejects(run).items()):
            rejects.add_metric([rule], broken)
        yield rejects

    def _last_night(self, run: Run) -> Iterator[Metric]:
        rows = GaugeMetricFamily("nightfold_last_run_rows", "Rows of the last night", labels=_OF_ROWS)
        for source, counts in sorted(run.sources.items()):
            for outcome, count in sorted(counts.items()):
                rows.add_metric([source, outcome], count)
        yield rows
        actions = GaugeMetricFamily("nightfold_last_run_actions", "Chunks of the last night", labels=["action"])
        for action in ACTIONS:
            actions.add_metric([action], run.actions.get(action, 0))
        yield actions
        seconds = GaugeMetricFamily("nightfold_last_run_stage_seconds", "Seconds of the last night", labels=["stage"])
        for stage, took in run.stage_seconds.items():
            seconds.add_metric([stage], took)
        yield seconds
        peaks = GaugeMetricFamily(
            "nightfold_last_run_stage_peak_bytes",
            "The most memory held in each stage of the last night",
            labels=["stage"],
        )
        for stage, peak in run.stage_peak_mib.items():
            peaks.add_metric([stage], round(peak * _MIB))
        yield peaks
        if run.chunks_new:
            share = run.actions.get(MERGED, 0) / run.chunks_new
            about = "Chunks merged by themselves in the last night, as a share of its new chunks"
            yield _gauge("nightfold_auto_merge_ratio", about, share)
        if run.recall_measured is not None:
            about = "True pairs that the last night's join found, measured on a sample"
            yield _gauge("nightfold_recall_ratio", about, run.recall_measured)

    def _count(self, table: str, run: Run | None, where: str | None = None) -> int:
        dataset = self._warehouse.open(table, run) if run else None
        return 0 if dataset is None else int(dataset.count_rows(where))

    def _rejects(self, run: Run | None) -> dict[str, int]:
        dataset = self._warehouse.open(REJECTS.name, run) if run else None
        counts: dict[str, int] = {}
        for batch in dataset.to_batches(columns=["reason"]) if dataset is not None else ():
            for rule in batch["reason"].value_counts().to_pylist():
                counts[rule["values"]] = counts.get(rule["values"], 0) + rule["counts"]
        return counts


_OF_ROWS = ["source", "outcome"]


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=value)
