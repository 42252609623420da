"""What a stage of the night is given and gives back, and who runs it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from flows.console import Progress
from flows.settings import Settings
from flows.staging import Staging
from flows.vectors import Vectors
from flows.warehouse import Run, Warehouse
from transforms.reconcile import Tally

# Which chunks are embedded: tonight's new ones; those without a vector as well; or all, into a new version.
Pending = Literal["new", "incomplete", "all"]


@dataclass(frozen=True)
class Plan:
    """What a stage needs to know of its night: where things are, and since when."""

    settings: Settings
    staging: Path
    run_id: str
    started_at: datetime
    before: str | None
    pending: Pending = "new"
    legacy: Path | None = None

    @property
    def embeds(self) -> bool:
        return self.settings.embedding.encoder != "none"

    @property
    def vectors(self) -> Vectors | None:
        """The table that tonight's vectors go to; None where there is none to write."""
        result = self.result("embed") if self.embeds else {}
        if not result.get("version") or result["model_changed"]:
            return None
        return Vectors(self.warehouse, result["version"], result["dimensions"])

    @property
    def vectors_in_use(self) -> Vectors | None:
        """The table of vectors that readers search after tonight; None where there is none."""
        if self.vectors is not None or self.run_before is None:
            return self.vectors
        embedding = self.run_before.neighbours.get("embedding") or {}
        if not embedding.get("version"):
            return None
        return Vectors(self.warehouse, embedding["version"], embedding["dimensions"])

    @property
    def judges(self) -> bool:
        return self.settings.judge.enabled and self.vectors is not None

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.settings.warehouse.path)

    @property
    def run_before(self) -> Run | None:
        return None if self.before is None else self.warehouse.run(self.before)

    def result(self, stage: str) -> dict[str, Any]:
        """What a stage that is done has counted."""
        return Staging(self.staging).result(stage)

    @property
    def tally(self) -> Tally:
        return Tally(**self.result("exact")["tally"])


@dataclass(frozen=True)
class StageReport:
    """What a stage did, for its line and for `runs`."""

    rows_in: int
    rows_out: int
    reused: bool = False
    seconds: float = 0.0
    versions: dict[str, int] = field(default_factory=dict)


Stage = Callable[[Plan, Progress], StageReport]


class RunStage(Protocol):
    """Who runs a stage: this process by a plain call, or Prefect as a task."""

    def __call__(self, name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport: ...


def plain_call(name: str, stage: Stage, plan: Plan, progress: Progress) -> StageReport:
    """Runs a stage here and now."""
    return stage(plan, progress)
