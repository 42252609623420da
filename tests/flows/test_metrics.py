"""The file for Prometheus: it parses, adds up over nights, and says when a run failed."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flows.console import Progress
from flows.errors import NightfoldError
from flows.metrics import metrics_path
from flows.night import rollback
from flows.settings import MetricsSettings
from flows.warehouse import Warehouse
from schemas.terms import CONTRADICTORY, UNKNOWN
from tests.judged import Nights, given_verdicts, word_endpoint
from tests.nights import run_night, said_by_night, settings_of

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(path: Path) -> Samples:
    """Every sample by name and labels, of families that have a type and words."""
    found: Samples = {}
    for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
        assert family.type in ("counter", "gauge"), family.name
        assert family.documentation, family.name
        for sample in family.samples:
            assert sample.timestamp is None, "the textfile collector takes none"
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def of(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


@pytest.fixture
def faq(tmp_path: Path) -> Any:
    """Runs a night over these rows, and gives what the file then says."""

    def night(rows: str, **sections: Any) -> Samples:
        (tmp_path / "faq.csv").write_text("id,text\n" + rows)
        given = {"path": str(tmp_path / "faq.csv"), "scope": "acme"}
        with suppress(NightfoldError):
            run_night(tmp_path / "out", given, **sections)
        return samples(tmp_path / "out" / "metrics" / "nightfold.prom")

    return night


def test_totals_add_up_over_nights_and_the_rest_is_of_the_last_one(faq: Any, tmp_path: Path) -> None:
    first = faq("1,hello\n2,hello\n3,other\n4,\n")
    second = faq("1,hello\n2,hello\n3,other\n4,\n5,hello\n")
    assert of(first, "rag_dedup_hit_total", kind="exact") == 1
    assert of(second, "rag_dedup_hit_total", kind="exact") == 2
    assert of(second, "nightfold_rows_total", source="faq.csv", outcome="new") == 4
    assert of(second, "nightfold_rows_total", source="faq.csv", outcome="known") == 3
    assert of(second, "nightfold_rows_total", source="faq.csv", outcome="rejected") == 2
    assert of(second, "nightfold_last_run_rows", source="faq.csv", outcome="new") == 1
    assert of(second, "nightfold_rejects", rule="text_is_present") == 1
    assert of(second, "nightfold_table_rows", table="occurrences") == 4
    assert of(second, "nightfold_incomplete_embeddings", status="incomplete") == 2
    assert of(second, "nightfold_run_success") == 1
    for stage in ("load", "hash", "exact", "write"):
        assert of(second, "nightfold_stage_seconds_total", stage=stage) >= of(
            second, "nightfold_last_run_stage_seconds", stage=stage
        )
        assert of(second, "nightfold_last_run_stage_peak_bytes", stage=stage) > 1 << 20
    totals = {key: value for key, value in first.items() if key[0].endswith("_total")}
    assert all(second[key] >= value for key, value in totals.items())


def test_a_rollback_takes_no_total_back(faq: Any, tmp_path: Path) -> None:
    faq("1,hello\n2,hello\n")
    before = faq("1,hello\n2,hello\n3,hello\n")
    settings = settings_of(tmp_path / "out")
    first = Warehouse(str(tmp_path / "out")).runs()[0]
    rollback(settings, first.run_id, progress=Progress(quiet=True))
    after = faq("1,hello\n2,hello\n")
    assert of(after, "rag_dedup_hit_total", kind="exact") == of(before, "rag_dedup_hit_total", kind="exact") == 2
    assert of(after, "nightfold_runs_total", status="rollback") == 1
    assert of(after, "nightfold_table_rows", table="occurrences") == 2


def test_a_failed_run_says_so_and_leaves_the_last_success_where_it_was(faq: Any) -> None:
    good = faq("1,hello\n")
    bad = faq("1,\n", guard={"max_reject_share": 0.1})
    assert of(bad, "nightfold_run_success") == 0
    assert of(bad, "nightfold_runs_total", status="failed") == 1
    name = "nightfold_last_success_timestamp_seconds"
    assert of(bad, name) == of(good, name)
    assert of(bad, "nightfold_last_run_timestamp_seconds") > of(good, "nightfold_last_run_timestamp_seconds")
    assert of(bad, "nightfold_table_rows", table="chunks") == 1
    assert of(faq("1,hello\n"), "nightfold_run_success") == 1


def test_a_first_run_that_fails_leaves_a_file_that_parses(faq: Any) -> None:
    found = faq("1,\n", guard={"max_reject_share": 0.1})
    assert of(found, "nightfold_run_success") == 0
    assert ("nightfold_last_success_timestamp_seconds", frozenset()) not in found


def test_a_run_that_dies_of_a_fault_of_ours_is_no_success(
    faq: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faq("1,hello\n")

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("flows.night_stages.fold_exact", broken)
    with pytest.raises(ZeroDivisionError):
        faq("1,hello\n2,other\n")
    assert of(samples(tmp_path / "out" / "metrics" / "nightfold.prom"), "nightfold_run_success") == 0


def test_what_was_judged_is_counted_by_its_action(tmp_path: Path) -> None:
    with word_endpoint() as endpoint, given_verdicts() as verdicts:
        nights = Nights(tmp_path, endpoint, verdicts)
        verdicts.say("a", "b")
        verdicts.say("a", "c", CONTRADICTORY)
        verdicts.say("a", "d", UNKNOWN, confidence=0.2, reading=0.9)
        nights.run(("acme", "a", 1), ("acme", "b", 2), ("acme", "c", 3), ("acme", "d", 4))
        found = samples(nights.warehouse / "metrics" / "nightfold.prom")
    assert of(found, "rag_dedup_hit_total", kind="merged") == 1
    assert of(found, "nightfold_actions_total", action="merged_into_existing") == 1
    assert of(found, "nightfold_last_run_actions", action="flagged_as_contradiction") == 1
    assert of(found, "nightfold_pending_reviews") == 1
    assert of(found, "nightfold_open_contradictions") == 1
    assert of(found, "nightfold_auto_merge_ratio") == 0.25


def test_no_label_grows_with_the_number_of_scopes(tmp_path: Path) -> None:
    names = []
    for scopes in (1, 30):
        rows = "\n".join(f"{n},scope-{n},row {n}" for n in range(scopes))
        folder = tmp_path / str(scopes)
        folder.mkdir()
        (folder / "rows.csv").write_text(f"id,workspace_id,text\n{rows}\n")
        run_night(folder / "out", {"path": str(folder / "rows.csv"), "name": "rows"})
        found = samples(folder / "out" / "metrics" / "nightfold.prom")
        names.append(set(found))
        assert not [labels for _, labels in found if any("scope-" in value for _, value in labels)]
    assert names[0] == names[1]


def test_a_hostile_name_of_a_source_stays_a_label(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n")
    name = 'a"b\\c{d="e"} 1'
    run_night(tmp_path / "out", {"path": str(tmp_path / "faq.csv"), "scope": "acme", "name": name})
    found = samples(tmp_path / "out" / "metrics" / "nightfold.prom")
    assert of(found, "nightfold_last_run_rows", source=name, outcome="new") == 1


def test_the_file_is_where_the_setting_says_and_anyone_may_read_it(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n")
    path = tmp_path / "textfile" / "night.prom"
    before = os.umask(0o077)
    try:
        given = {"path": str(tmp_path / "faq.csv"), "scope": "acme"}
        run_night(tmp_path / "out", given, metrics={"path": str(path)})
    finally:
        os.umask(before)
    assert of(samples(path), "nightfold_run_success") == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [each.name for each in path.parent.iterdir()] == ["night.prom"]
    assert not (tmp_path / "out" / "metrics").exists()


def test_without_metrics_there_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n")
    run_night(tmp_path / "out", {"path": str(tmp_path / "faq.csv"), "scope": "acme"}, metrics={"enabled": False})
    assert not metrics_path(MetricsSettings(), Warehouse(str(tmp_path / "out"))).exists()


def test_metrics_that_cannot_be_written_are_told_and_fail_nothing(tmp_path: Path) -> None:
    (tmp_path / "faq.csv").write_text("id,text\n1,hello\n")
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "night.prom"
    given = {"path": str(tmp_path / "faq.csv"), "scope": "acme"}
    said = said_by_night(tmp_path / "out", given, metrics={"path": str(path)})
    assert f"{path}: the metrics were not written: {tmp_path}/file: " in said
    assert Warehouse(str(tmp_path / "out")).published() is not None
