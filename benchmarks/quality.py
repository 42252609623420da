"""How well the judge judges, on labelled pairs, clusters and a spec table, beside the rules one would use instead.

    python -m benchmarks.quality eval                  everything
    python -m benchmarks.quality eval --only pairs     labelled pairs alone

`eval` is a folder with pairs.parquet (set, text_a, text_b, mergeable, relation), clusters.parquet (set, record_id,
text, cluster) and vehicles_33k.parquet. What the judge has learned is measured without the family of sets it is
measured on.
"""

import argparse
import tempfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.judge_training import evidence_on, fitted
from flows.console import Progress
from flows.encoders import open_encoder
from flows.judge import limits_of
from flows.night import night
from flows.settings import EmbeddingSettings, JudgeSettings, load_settings
from flows.warehouse import Warehouse
from schemas.terms import CONTRADICTORY, MERGED, QUEUED, RELATIONS
from transforms.decide import action_of
from transforms.judge import judged, model_of
from transforms.normalize import normalized

_SPEC_COLUMNS = ("make", "model", "year", "class", "trans", "drive", "cyl", "displ", "fuel", "hwy", "cty")


def main() -> None:
    """Parses the command line and prints the tables it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of the labelled data")
    parser.add_argument("--only", choices=("pairs", "clusters", "specs"), help="one part alone")
    parser.add_argument("--id-field", action="append", default=[], help="a label that only says which record it is")
    parser.add_argument("--set", dest="one_set", help="one set of the clusters alone")
    parser.add_argument("--cache", type=Path, help="a file that keeps the evidence on the pairs between calls")
    asked = parser.parse_args()
    if asked.only in (None, "pairs"):
        _pairs(asked.folder / "pairs.parquet", cache=asked.cache)
    if asked.only in (None, "clusters"):
        _clusters(asked.folder / "clusters.parquet", id_fields=asked.id_field, one_set=asked.one_set)
    if asked.only in (None, "specs"):
        _specs(asked.folder / "vehicles_33k.parquet")


# --- labelled pairs ---------------------------------------------------------------------------------------------------


def judged_unseen(evidence: pl.DataFrame) -> pl.DataFrame:
    """The labelled pairs with a verdict and an action, each family judged by a model that has not seen it."""
    parts = []
    for family in evidence["family"].unique(maintain_order=True):
        rows = evidence.filter(pl.col("family") == family)
        verdicts = judged(rows, model_of(fitted(evidence, without=[family])))
        labelled = rows.select("set", "mergeable", "similarity", "reading", label="relation")
        parts.append(pl.concat([labelled, verdicts], how="horizontal"))
    may_merge = pl.lit(value=True)
    return pl.concat(parts).with_columns(action=action_of(limits_of(JudgeSettings()), may_merge=may_merge))


def _pairs(path: Path, *, cache: Path | None) -> None:
    pairs = judged_unseen(evidence_on(path, cache=cache))
    rules: dict[str, pl.Expr] = {"nightfold": pl.col("action") == MERGED}
    for name, column in (("static", "similarity"), ("MiniLM", "reading")):
        rules |= {f"{name} >= {limit}": pl.col(column) >= limit for limit in (0.95, 0.85)}
    # Without a second list, semhash calls two texts one from this cosine of its static vectors on.
    rules["semhash"] = pl.col("similarity") >= 0.9
    labelled = pairs.filter(pl.col("mergeable").is_not_null())
    sets = ["all", *sorted(set(labelled["set"]))]
    print(f"{labelled.height:,} labelled pairs; precision and recall of merging, share of contradictions merged\n")
    print(f"{'set':<18}" + "".join(f"{name:>24}" for name in rules))
    for name in sets:
        rows = labelled if name == "all" else labelled.filter(pl.col("set") == name)
        print(f"{name:<18}" + "".join(f"{_merging(rows, rule):>24}" for rule in rules.values()))
    print(f"\n{'set':<18}{'merged or queued':>18}{'others queued':>15}{'macro-F1':>10}")
    for name in sets:
        rows = labelled if name == "all" else labelled.filter(pl.col("set") == name)
        print(f"{name:<18}{_queued(rows)}{_macro_f1(rows):>10}")
    _reliability(labelled)


def _merging(rows: pl.DataFrame, rule: pl.Expr) -> str:
    merged = rows.filter(rule)
    against = rows.filter(pl.col("label") == CONTRADICTORY)
    right, wanted = merged.filter("mergeable").height, rows.filter("mergeable").height
    shares = (right, merged.height), (right, wanted), (against.filter(rule).height, against.height)
    return " ".join(_ratio(part, whole) for part, whole in shares)


def _ratio(part: int | float, whole: int | float) -> str:
    return f"{part / whole:.4f}" if whole else "-"


def _queued(rows: pl.DataFrame) -> str:
    mine, others = rows.filter("mergeable"), rows.filter(~pl.col("mergeable"))
    found = mine.filter(pl.col("action").is_in([MERGED, QUEUED]))
    queued = others.filter(pl.col("action") == QUEUED)
    return f"{_ratio(found.height, mine.height):>18}{_ratio(queued.height, others.height):>15}"


def _macro_f1(rows: pl.DataFrame) -> str:
    labelled = rows.filter(pl.col("label").is_not_null())
    scores = []
    for relation in RELATIONS:
        truth, found = labelled["label"] == relation, labelled["relation"] == relation
        if truth.any():
            scores.append(2 * int((truth & found).sum()) / (int(truth.sum()) + int(found.sum())))
    return f"{np.mean(scores):.3f}" if len(scores) > 1 else "-"


def _reliability(rows: pl.DataFrame) -> None:
    """Of pairs judged equivalent with a confidence, how many may be merged."""
    print("\nequivalent, by confidence: pairs, and the share that may be merged")
    said = rows.filter(pl.col("relation") == "equivalent").with_columns(low=(pl.col("confidence") * 20).floor() / 20)
    for low, count, share in said.group_by("low").agg(pl.len(), pl.col("mergeable").mean()).sort("low").iter_rows():
        print(f"  from {low:.2f} {count:>8,} {share:.3f}")


# --- clusters through the whole job -----------------------------------------------------------------------------------


def _clusters(path: Path, *, id_fields: list[str], one_set: str | None) -> None:
    clusters = pl.read_parquet(path)
    if one_set:
        clusters = clusters.filter(pl.col("set") == one_set)
    print("\nclusters through the whole job: pairs of records, then B-cubed; precision, recall, F1")
    for name in clusters["set"].unique(maintain_order=True):
        records = clusters.filter(pl.col("set") == name)
        truth = dict(zip(records["record_id"], records["cluster"], strict=True))
        with tempfile.TemporaryDirectory(prefix="nightfold-quality-") as folder:
            records.write_parquet(f"{folder}/records.parquet")
            groups, queued = _night_on(Path(folder), id_fields=id_fields)
        exact = _exact(records)
        print(f"\n{name}: {records.height:,} records, {records['cluster'].n_unique():,} clusters")
        for what, of_record in (("exact hash", exact), ("nightfold", groups), *_semhash(records)):
            print(f"  {what:<22}{_scores(_pairs_of(of_record), truth)}   {_b_cubed(of_record, truth)}")
        print(f"  {'nightfold, with queue':<22}{_scores(_pairs_of(groups) | queued, truth)}")


def _night_on(folder: Path, *, id_fields: list[str]) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """The group of each record after a night, and the pairs of records that wait for a person."""
    given = {"path": f"{folder}/records.parquet", "id_column": "record_id", "scope": "quality"}
    over = {"inputs": [given], "warehouse": {"path": f"{folder}/warehouse"}, **_judge(id_fields)}
    night(load_settings(Path("/dev/null"), over=over), progress=Progress(quiet=True))
    warehouse = Warehouse(f"{folder}/warehouse")
    read: Callable[[str, list[str]], pl.DataFrame] = lambda table, columns: pl.DataFrame(  # noqa: E731
        warehouse.head(table).to_table(columns=columns)
    )
    occurrences = read("occurrences", ["source_row_id", "chunk_id"])
    chunks = read("chunks", ["chunk_id", "canonical_id"])
    placed = occurrences.join(chunks, on="chunk_id")
    groups = dict(zip(placed["source_row_id"], placed["canonical_id"], strict=True))
    waiting = read("pairs", ["left_id", "right_id", "action"]).filter(pl.col("action") == QUEUED)
    both = waiting.join(occurrences.rename({"source_row_id": "one"}), left_on="left_id", right_on="chunk_id").join(
        occurrences.rename({"source_row_id": "other"}), left_on="right_id", right_on="chunk_id"
    )
    return groups, {_sorted(one, other) for one, other in both.select("one", "other").iter_rows()}


def _judge(id_fields: list[str]) -> dict[str, Any]:
    return {"judge": {"id_fields": id_fields}} if id_fields else {}


def _exact(records: pl.DataFrame) -> dict[str, str]:
    texts = records.select("record_id", text=normalized(pl.col("text")))
    return dict(zip(texts["record_id"], texts["text"], strict=True))


def _semhash(records: pl.DataFrame) -> list[tuple[str, dict[str, str]]]:
    try:
        from semhash import SemHash
    except ImportError:
        return []
    from benchmarks.near import as_library

    encoder = open_encoder(EmbeddingSettings(), tell=print)
    texts = records.unique("text", keep="first", maintain_order=True)
    found = SemHash.from_records(records=texts["text"].to_list(), model=as_library(encoder)).self_deduplicate()
    kept = set(found.selected)
    stands: dict[str, str] = {text: text for text in kept}
    for dropped in found.filtered:
        nearest = [text for text, _ in dropped.duplicates]
        stands[dropped.record] = next((stands[text] for text in nearest if text in stands), dropped.record)
    return [("semhash", {row: stands.get(text, text) for row, text in records.select("record_id", "text").iter_rows()})]


def _sorted(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _pairs_of(groups: dict[str, str]) -> set[tuple[str, str]]:
    members: dict[str, list[str]] = {}
    for record, group in groups.items():
        members.setdefault(group, []).append(record)
    return {_sorted(*pair) for rows in members.values() for pair in combinations(rows, 2)}


def _scores(found: set[tuple[str, str]], truth: dict[str, str]) -> str:
    wanted = _pairs_of(truth)
    right = len(found & wanted)
    return _three(right / len(found) if found else 1.0, right / len(wanted))


def _b_cubed(groups: dict[str, str], truth: dict[str, str]) -> str:
    rows = pl.DataFrame({"group": [groups[record] for record in truth], "cluster": list(truth.values())})
    same = pl.len().over("group", "cluster")
    scored = rows.select(
        precision=(same / pl.len().over("group")).mean(), recall=(same / pl.len().over("cluster")).mean()
    )
    return _three(*scored.row(0))


def _three(precision: float, recall: float) -> str:
    both = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f"{precision:.4f} {recall:.4f} {both:.4f}"


# --- a real spec table ------------------------------------------------------------------------------------------------


def _specs(path: Path) -> None:
    """Vehicles as spec rows: those equal but for their id are one, those that differ in one field stay apart."""
    rows = pl.read_parquet(path).with_columns(pl.col("id").cast(pl.Int64).cast(pl.String))
    with tempfile.TemporaryDirectory(prefix="nightfold-quality-") as folder:
        rows.write_parquet(f"{folder}/vehicles.parquet")
        fields: dict[str, Any] = {
            "parent_category": "make",
            "sub_category": "model",
            "specification": ["year", "class"],
            "value": ["trans", "drive", "cyl", "displ", "fuel"],
            "additional": ["hwy", "cty"],
        }
        given = {"path": f"{folder}/vehicles.parquet", "kind": "spec_row", "scope": "specs", "id_column": "id"}
        over = {"inputs": [{**given, "spec_columns": fields}], "warehouse": {"path": f"{folder}/warehouse"}}
        night(load_settings(Path("/dev/null"), over=over), progress=Progress(quiet=True))
        warehouse = Warehouse(f"{folder}/warehouse")
        occurrences = pl.DataFrame(warehouse.head("occurrences").to_table(columns=["source_row_id", "chunk_id"]))
        chunks = pl.DataFrame(warehouse.head("chunks").to_table(columns=["chunk_id", "canonical_id", "action"]))
    distinct = rows.select(_SPEC_COLUMNS).n_unique()
    placed = rows.join(occurrences, left_on="id", right_on="source_row_id").join(chunks, on="chunk_id")
    differing = placed.group_by("canonical_id").agg(
        pl.struct(_SPEC_COLUMNS).n_unique().alias("contents"), *(pl.col(name).n_unique() for name in _SPEC_COLUMNS)
    )
    merged = differing.filter(pl.col("contents") > 1)
    print(f"\n{rows.height:,} spec rows, {distinct:,} distinct but for their id: {chunks.height:,} chunks, ")
    print(f"{chunks['canonical_id'].n_unique():,} groups, {merged.height:,} groups of rows that differ in a field")
    print(dict(chunks["action"].value_counts().sort("action").iter_rows()))


if __name__ == "__main__":
    main()
