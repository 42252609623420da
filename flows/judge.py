"""The judge stage: what each candidate pair is, what becomes of it, and the groups that come of that.

What it leaves takes the place of what the exact stage staged: new chunks with their group and action, the groups
themselves, and a row for every merge, link, contradiction and question.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from flows.judged_tables import BECAME, Groups, JudgedTables
from flows.judging import VERDICT
from flows.llm import second_opinion
from flows.settings import JudgeSettings, Settings
from flows.tonight import DISAGREE, EDGE, NOMINATED, Tonight
from flows.verdicts import verdicts
from flows.warehouse import Run, Warehouse
from schemas.tables import CANONICALS, CHUNKS, PAIRS, SEPARATIONS, VARIANTS
from schemas.terms import LEFT, LINKED, MERGED, STORED_AS_NEW, SUPERSEDED
from transforms.candidates import chunks_in
from transforms.canonical import forwards, grouped
from transforms.decide import Limits, chunk_actions, decided, stronger
from transforms.supersede import starts, superseded

# Texts of so many pairs are held at once.
SLICE_PAIRS = 50_000
_JUDGED = {**{name: PAIRS.dtypes[name] for name in NOMINATED}, **VERDICT, "is_known": pl.Boolean()}
READ_BY_JUDGE = ["chunk_id", "kind", "text", "metadata", "first_seen_at"]
_FACTS = ["chunk_id", "scope", "first_seen_at", "last_seen_at", "occurrences", "keep_apart", "deleted_at", *BECAME]


def limits_of(settings: JudgeSettings) -> Limits:
    """From where on these settings act on a judgement."""
    return Limits(
        merge_similarity=settings.merge_similarity,
        merge_confidence=settings.merge_confidence,
        review_confidence=settings.review_confidence,
        require_confirmation=settings.require_confirmation,
        merge_subsets=settings.subset == "merge",
        flag_contradictions=settings.flag_contradictions,
        queue_unknown=settings.queue_unknown,
    )


def judge_night(
    staging: Path,
    folder: Path,
    *,
    slices: Path,
    warehouse: Warehouse,
    run: Run | None,
    run_id: str,
    started_at: datetime,
    settings: Settings,
    tell: Callable[[str], None],
    tell_rows: Callable[[int], None],
) -> dict[str, Any]:
    """Judges the pairs that were not, and writes what that changes in each table. Nothing is written where there are
    none. Verdicts go to `slices`, one after the other, so that a killed run judges nothing twice."""
    tonight = Tonight(staging, warehouse, run)
    pairs = tonight.pairs_to_judge()
    if pairs.is_empty():
        return {"judged": 0, "merged": 0, "actions": {}, "acted_new": 0, "relations": {}}
    judged = judged_pairs(pairs, slices, tonight=tonight, settings=settings, tell=tell, tell_rows=tell_rows)
    chunks = tonight.chunks(chunks_in(judged)["chunk_id"], _FACTS)
    separations = tonight.read(SEPARATIONS, ["pair_id", "left_id", "right_id", "decision"])
    judged = decided(judged, chunks, separations, limits=limits_of(settings.judge))
    groups = make_groups(judged, separations, tonight=tonight, settings=settings.judge)
    replaced = make_superseded(judged, chunks, groups, tonight=tonight)
    judged = acted_on(judged, chunks, groups, replaced)
    became = what_became(judged, chunks, groups, replaced)

    tables = JudgedTables(folder, tonight, run_id, started_at)
    tables.pairs(judged)
    tables.chunks(became)
    tables.groups(groups)
    tables.links(judged)
    tables.reviews(judged, became, groups, separations)
    acted = became.filter((pl.col("action") != pl.col("action_before")) & (pl.col("action") != STORED_AS_NEW))
    counted = acted["action"].value_counts()
    return {
        "judged": judged.height,
        "merged": groups.variants.height - groups.variants_before.height,
        "actions": dict(counted.sort("action").iter_rows()),
        "acted_new": acted.filter(~pl.col("is_known")).height,
        "relations": dict(judged["relation"].value_counts().sort("relation").iter_rows()),
    }


def judged_pairs(
    pairs: pl.DataFrame,
    folder: Path,
    *,
    tonight: Tonight,
    settings: Settings,
    tell: Callable[[str], None],
    tell_rows: Callable[[int], None],
) -> pl.DataFrame:
    """The pairs with their verdicts; those of a slice that is there already are not judged again."""
    folder.mkdir(parents=True, exist_ok=True)
    slices = []
    with second_opinion(settings) as opinion:
        for number, some in enumerate(pairs.iter_slices(SLICE_PAIRS)):
            path = folder / f"{number:06d}.parquet"
            judged = pl.read_parquet(path, glob=False) if path.exists() else None
            if judged is None or not judged["pair_id"].equals(some["pair_id"]):
                texts = tonight.chunks(chunks_in(some)["chunk_id"], READ_BY_JUDGE)
                tell_more = partial(_tell_more, tell_rows, number * SLICE_PAIRS)
                judged = verdicts(some, texts, settings=settings, tell=tell, tell_rows=tell_more, opinion=opinion)
                judged = judged.select(pl.col(name).cast(dtype) for name, dtype in _JUDGED.items())
                unfinished = path.with_suffix(".partial")
                judged.write_parquet(unfinished)
                unfinished.rename(path)
            slices.append(judged)
    return pl.concat(slices)


def _tell_more(tell_rows: Callable[[int], None], before: int, rows: int) -> None:
    tell_rows(before + rows)


def make_groups(
    judged: pl.DataFrame, separations: pl.DataFrame, *, tonight: Tonight, settings: JudgeSettings
) -> Groups:
    """The groups as tonight's merges make them; groups that no merge touches are not in it."""
    new_edges = judged.filter(pl.col("action") == MERGED).select(*EDGE, is_new=pl.lit(value=True))
    if new_edges.is_empty():
        return _no_groups(judged, tonight)
    ends = tonight.chunks(chunks_in(new_edges)["chunk_id"], _FACTS)
    touched = ends.filter("is_known").select("canonical_id").unique()
    canonicals = tonight.lookup(CANONICALS, touched["canonical_id"], ["canonical_id", "chunk_id"])
    variants = tonight.read(VARIANTS, ["chunk_id", "canonical_id"]).join(touched, on="canonical_id", how="semi")
    ids = pl.concat([ends["chunk_id"], canonicals["chunk_id"], variants["chunk_id"]]).unique()
    members = tonight.chunks(ids, _FACTS).with_columns(
        canonical_id=pl.when("is_known").then("canonical_id"),
        is_standing=pl.col("chunk_id").is_in(canonicals["chunk_id"].implode()),
    )
    members = _with_preference(members, tonight, settings.stands)
    # A deleted chunk brings nobody together; it stays where the chunk that stands for its group goes.
    present = members.filter(pl.col("deleted_at").is_null() | pl.col("is_standing"))
    known_edges = (
        tonight.merge_edges(members.filter(pl.col("deleted_at").is_null()))
        .join(separations, on="pair_id", how="anti")
        .join(new_edges, on="pair_id", how="anti")
        .with_columns(is_new=pl.lit(value=False))
    )
    edges = pl.concat([new_edges, known_edges])
    ends_of = ["left_id", "right_id"]
    disagree = judged.filter(pl.col("relation").is_in(DISAGREE))
    apart = pl.concat([separations.select(ends_of), disagree.select(ends_of), tonight.disagreements()])
    after = _with_deleted(grouped(present, edges, apart, stands=settings.stands), members)
    moved = forwards(members.select("chunk_id", "canonical_id"), after.select("chunk_id", "canonical_id"))
    members = members.join(
        after.rename({"canonical_id": "group_id"}), on="chunk_id", how="inner", maintain_order="left"
    )
    return Groups(members, edges, moved, variants)


def _with_deleted(after: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    stood = members.filter("is_standing").select("chunk_id", was="canonical_id").join(after, on="chunk_id", how="inner")
    absent = members.join(after, on="chunk_id", how="anti").select("chunk_id", was="canonical_id")
    followed = absent.join(stood.drop("chunk_id"), on="was", how="inner").select(after.columns)
    return pl.concat([after, followed])


def _no_groups(judged: pl.DataFrame, tonight: Tonight) -> Groups:
    nobody = tonight.chunks(judged["left_id"].clear(), _FACTS)
    ids = pl.lit(None, dtype=pl.String)
    return Groups(
        members=nobody.with_columns(is_standing=pl.lit(value=False), group_id=ids, stands_id=ids),
        edges=judged.clear().select(EDGE),
        forwards=nobody.select("canonical_id", forwards_to="canonical_id"),
        variants_before=nobody.select("chunk_id", "canonical_id"),
    )


def _with_preference(members: pl.DataFrame, tonight: Tonight, stands: str) -> pl.DataFrame:
    """The members with `length` and `priority`, read only where the settings go by them."""
    if stands == "longest":
        texts = tonight.chunks(members["chunk_id"], ["chunk_id", "text"])
        preference = texts.select("chunk_id", length=pl.col("text").str.len_chars().cast(pl.Int64), priority=None)
    elif stands == "source_priority":
        said = tonight.chunks(members["chunk_id"], ["chunk_id", "metadata"])
        priority = pl.col("metadata").str.json_path_match("$.source_priority").cast(pl.Float64, strict=False)
        preference = said.select("chunk_id", length=None, priority=priority)
    else:
        preference = members.select("chunk_id", length=None, priority=None)
    preference = preference.cast({"length": pl.Int64, "priority": pl.Float64})
    return members.join(preference, on="chunk_id", how="left", maintain_order="left")


def make_superseded(judged: pl.DataFrame, chunks: pl.DataFrame, groups: Groups, *, tonight: Tonight) -> pl.DataFrame:
    """What tonight's superseding pairs replace. Two chunks of one group say the same: neither replaces the other."""
    is_left_newer = pl.col("stands") == LEFT
    pairs = (
        _with_groups(judged.filter(pl.col("action") == SUPERSEDED), chunks, groups)
        .filter(pl.col("left_group") != pl.col("right_group"))
        .select(
            newer_id=pl.when(is_left_newer).then("left_id").otherwise("right_id"),
            older_id=pl.when(is_left_newer).then("right_id").otherwise("left_id"),
        )
    )
    if pairs.is_empty():
        nothing = pl.DataFrame(schema={"chunk_id": pl.String})
        return superseded(pairs, nothing.with_columns(start=None), nothing.with_columns(superseded_by=None))
    known = tonight.read(CHUNKS, ["chunk_id", "superseded_by"], "superseded_by is not null")
    before = known.join(pairs, left_on="chunk_id", right_on="older_id", how="semi")["superseded_by"]
    ids = pl.concat([pairs["older_id"], pairs["newer_id"], before])
    since = starts(tonight.chunks(ids, ["chunk_id", "metadata", "first_seen_at"]))
    return superseded(pairs, since, known)


def _with_groups(pairs: pl.DataFrame, chunks: pl.DataFrame, groups: Groups) -> pl.DataFrame:
    """The pairs with the group of either side as it is after tonight."""
    now = groups.members.select("chunk_id", "group_id")
    of = chunks.join(now, on="chunk_id", how="left").select("chunk_id", group=pl.coalesce("group_id", "canonical_id"))
    return pairs.join(
        of.rename({"chunk_id": "left_id", "group": "left_group"}), on="left_id", how="left", maintain_order="left"
    ).join(
        of.rename({"chunk_id": "right_id", "group": "right_group"}), on="right_id", how="left", maintain_order="left"
    )


def acted_on(judged: pl.DataFrame, chunks: pl.DataFrame, groups: Groups, replaced: pl.DataFrame) -> pl.DataFrame:
    """The pairs with the action they came to: a merge that the groups do not follow, and a superseding that nothing
    came of, are links. A merge is the action of the chunk that is new, where the other was published before."""
    older = pl.when(pl.col("stands") == LEFT).then("right_id").otherwise("left_id")
    is_same = pl.col("left_group") == pl.col("right_group")
    nothing_replaced = is_same | ~older.is_in(replaced["chunk_id"].implode())
    action = pl.col("action")
    came_to_nothing = ((action == MERGED) & ~is_same) | ((action == SUPERSEDED) & nothing_replaced)
    new = chunks.filter(~pl.col("is_known"))["chunk_id"].implode()
    is_left_new, is_right_new = pl.col("left_id").is_in(new), pl.col("right_id").is_in(new)
    joined = pl.when(is_left_new & ~is_right_new).then("left_id").when(is_right_new & ~is_left_new).then("right_id")
    return (
        _with_groups(judged, chunks, groups)
        .with_columns(action=pl.when(came_to_nothing).then(pl.lit(LINKED)).otherwise(action))
        .with_columns(later_id=pl.coalesce(pl.when(pl.col("action") == MERGED).then(joined), "later_id"))
    )


def what_became(judged: pl.DataFrame, chunks: pl.DataFrame, groups: Groups, replaced: pl.DataFrame) -> pl.DataFrame:
    """Every chunk in a pair or a touched group: its group, action and validity after tonight. `action_before` is null
    for a chunk that is new."""
    columns = ["chunk_id", "scope", "is_known", *BECAME]
    of_groups = groups.members.select(pl.col(columns)).with_columns(
        pl.col("canonical_id").fill_null(pl.col("chunk_id"))
    )
    both = pl.concat([chunks.select(columns), of_groups]).unique("chunk_id", keep="first")
    now = groups.members.select("chunk_id", "group_id", "stands_id")
    return (
        both.join(now, on="chunk_id", how="left")
        .join(chunk_actions(judged).rename({"action": "action_now"}), on="chunk_id", how="left")
        .join(replaced, on="chunk_id", how="left", suffix="_now")
        .with_columns(action_before=pl.when("is_known").then("action"), canonical_before="canonical_id")
        .with_columns(
            is_variant=pl.col("chunk_id") != pl.col("stands_id"),
            canonical_id=pl.coalesce("group_id", "canonical_id"),
            action=stronger(pl.col("action"), pl.col("action_now")),
            is_replaced=pl.col("superseded_by_now").is_not_null(),
            **{name: pl.coalesce(f"{name}_now", name) for name in ("superseded_by", "valid_from", "valid_to")},
        )
        .with_columns(pl.col("action_before").fill_null(""))
        .sort("chunk_id")
    )
