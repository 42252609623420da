"""What would become of rows against the published warehouse. Nothing is written there, and no lock is taken."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.corpora import published_corpora
from flows.encoders import open_encoder
from flows.judge import READ_BY_JUDGE, limits_of
from flows.judging import VERDICT
from flows.llm import SecondOpinion, second_opinion
from flows.load import as_rejects, load_sources
from flows.settings import Settings
from flows.sources import find_sources
from flows.vectors import Vectors
from flows.verdicts import verdicts
from flows.warehouse import Run, Warehouse
from schemas.rows import ID_IS_UNIQUE
from schemas.tables import CANONICALS, CHUNKS, OCCURRENCES, REJECTS
from schemas.terms import (
    ACTIONS,
    EQUIVALENT,
    LINKED,
    MERGED,
    QUEUED,
    RIGHT,
    STORED_AS_NEW,
    SUBSET,
    SUPERSEDED,
    SUPERSEDING,
    UNKNOWN,
)
from transforms.candidates import with_pair_id
from transforms.decide import action_of
from transforms.embedding import Encoder, EncodingFailed, embedded
from transforms.exact import repeats_of_an_id
from transforms.grid import Grid, snapped
from transforms.hashing import with_content_hash, with_ids
from transforms.neighbours import search_among
from transforms.normalize import normalized

EXACT, MERGED_KIND, NONE = "exact", "merged", "none"
# What is said of a row.
CHECKED = pl.Schema(
    {
        "source": pl.String,
        "source_row_id": pl.String,
        "locator": pl.String,
        "scope": pl.String,
        "text": pl.String,
        "is_duplicate": pl.Boolean,
        "duplicate_kind": pl.String,
        "existing_chunk_id": pl.String,
        "existing_canonical_id": pl.String,
        "existing_text": pl.String,
        "similarity": pl.Float32,
        "relation": pl.String,
        "confidence": pl.Float32,
        "action": pl.String,
        "evidence": pl.String,
        "rejected_by": pl.String,
    }
)
_CANDIDATES = pl.Schema({"row": pl.UInt32, "existing_chunk_id": pl.String, "similarity": pl.Float32})
_EXISTING = ["chunk_id", "canonical_id", "kind", "text", "metadata", "first_seen_at", "keep_apart", "deleted_at"]
_STRENGTH = {action: rank for rank, action in enumerate(ACTIONS)}
# The strength of the action that each relation leads to at best.
_AT_BEST = {EQUIVALENT: _STRENGTH[MERGED], SUPERSEDING: _STRENGTH[SUPERSEDED], UNKNOWN: _STRENGTH[QUEUED]}
_ROWS_AT_ONCE = 10_000
# Partitions that are searched in a scope which no night has joined through them.
_PROBES = 20

Tell = Callable[[str], None]


class Checker:
    """A warehouse to check rows against: opened once, asked many times. It follows the runs that are published while it
    is open. `note` says why only exact duplicates can be found, where that is so."""

    def __init__(self, settings: Settings, *, tell: Tell) -> None:
        self.settings = settings
        self.warehouse = Warehouse(settings.warehouse.path, keeps_open=True)
        self.note: str | None = None
        self._tell = tell
        self._run: Run | None = None
        self._encoder: Encoder | None = None
        self._vectors: Vectors | None = None
        self._sizes: dict[str | None, int] = {}
        self._scopes: dict[str, tuple[pl.Series, Grid]] = {}
        self._open = ExitStack()
        self._opinion: SecondOpinion | None = None
        self._is_new = True

    def __enter__(self) -> Self:
        self._opinion = self._open.enter_context(second_opinion(self.settings))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The columns of CHECKED for each row, in their order. `rows` are as the door lets them in (schemas.rows).

        A row is held against the chunks of its own scope, never against other rows of the same call.
        """
        self._follow()
        parts = [_with_keys(some, self.settings) for some in rows.iter_slices(_ROWS_AT_ONCE)]
        return pl.concat([pl.DataFrame(schema=CHECKED), *map(self._checked, parts)])

    # ---- the warehouse as it is published

    def _follow(self) -> None:
        run = self.warehouse.published()
        if not self._is_new and (run and run.run_id) == (self._run and self._run.run_id):
            return
        self._run, self._is_new = run, False
        self._sizes, self._scopes = {}, {}
        self._vectors, self.note = self._vectors_of(run)

    def _vectors_of(self, run: Run | None) -> tuple[Vectors | None, str | None]:
        """The vectors to search, or why there are none."""
        exact_only = "only exact duplicates are looked for"
        if run is None:
            return None, f"{self.warehouse.location}: no run is published yet, so that every row is new"
        in_use = run.neighbours.get("embedding") or {}
        if not in_use.get("version"):
            return None, f"{self.warehouse.location}: has no vectors; {exact_only} (`nightfold retry` makes them)"
        if self._encoder is None:
            self._encoder = open_encoder(self.settings.embedding, tell=self._tell)
        if self._encoder is None:
            return None, f'[embedding] encoder = "none"; {exact_only}'
        if self._encoder.version != in_use["version"]:
            return None, (
                f"[embedding] is {self._encoder.model} now, and the vectors in use are of another version of "
                f"{in_use['model']}; {exact_only} (`nightfold backfill --embeddings` embeds all chunks anew)"
            )
        return Vectors(self.warehouse, in_use["version"], in_use["dimensions"]), None

    def _existing(self, ids: pl.Series) -> pl.DataFrame:
        """The published chunks of these ids, with the chunk that stands for the group of each."""
        chunks = self.warehouse.lookup(CHUNKS.name, ids, _EXISTING, run=self._run)
        groups = self.warehouse.lookup(
            CANONICALS.name, chunks["canonical_id"], ["canonical_id", "chunk_id"], run=self._run
        )
        return chunks.join(groups.rename({"chunk_id": "stands_id"}), on="canonical_id", how="left")

    # ---- rows

    def _checked(self, rows: pl.DataFrame) -> pl.DataFrame:
        exact = self._exact(rows)
        others = rows.join(exact, on="row", how="anti", maintain_order="left")
        said = pl.concat([exact, self._near(others)])
        kind = pl.col("duplicate_kind").fill_null(NONE)
        return (
            rows.join(said, on="row", how="left", maintain_order="left")
            .with_columns(
                is_duplicate=kind != NONE,
                duplicate_kind=kind,
                action=pl.col("action").fill_null(STORED_AS_NEW),
                rejected_by=pl.lit(None, dtype=pl.String),
            )
            .select(pl.col(name).cast(dtype) for name, dtype in CHECKED.items())
        )

    def _exact(self, rows: pl.DataFrame) -> pl.DataFrame:
        """What is said of the rows whose content is there."""
        existing = self._existing(rows["chunk_id"])
        again = self.warehouse.lookup(OCCURRENCES.name, rows["occurrence_id"], ["occurrence_id"], run=self._run)
        is_itself = pl.col("occurrence_id").is_in(again["occurrence_id"].implode())
        said = (
            pl.when(is_itself)
            .then(pl.lit("same content hash: this very row is known"))
            .otherwise(pl.lit("same content hash"))
        )
        return (
            rows.select("row", "chunk_id", "occurrence_id")
            .join(existing.select("chunk_id", "canonical_id", "text", "deleted_at"), on="chunk_id", how="inner")
            .select(
                "row",
                duplicate_kind=pl.lit(EXACT),
                existing_chunk_id="chunk_id",
                existing_canonical_id="canonical_id",
                existing_text="text",
                similarity=pl.lit(1.0, dtype=pl.Float32),
                relation=pl.lit(EQUIVALENT),
                confidence=pl.lit(1.0, dtype=pl.Float32),
                action=pl.lit(MERGED),
                # A row that comes again does not bring back what a person took out.
                evidence=_with_deleted(said, pl.col("deleted_at")),
            )
        )

    def _near(self, rows: pl.DataFrame) -> pl.DataFrame:
        """What is said of the rows that have a candidate: of several, of the one with the strongest action, then of
        the nearest."""
        pairs = self._candidates(rows)
        existing = self._existing(pairs["existing_chunk_id"])
        pairs = pairs.join(rows, on="row", how="left", maintain_order="left").join(
            existing.rename({name: f"existing_{name}" for name in existing.columns}),
            on="existing_chunk_id",
            how="inner",
            maintain_order="left",
        )
        acted = _acted(self._judged(pairs, rows, existing), self.settings)
        order = ["row", _strength(), _is_deleted(), -pl.col("similarity"), "existing_chunk_id"]
        best = (
            acted.sort(order, maintain_order=True)
            .unique("row", keep="first", maintain_order=True)
            .with_columns(evidence=_with_deleted(pl.col("evidence"), pl.col("existing_deleted_at")))
        )
        said = ["existing_chunk_id", "existing_canonical_id", "existing_text", "similarity", "relation", "confidence"]
        return best.select("row", "duplicate_kind", *said, "action", "evidence")

    def _judged(self, pairs: pl.DataFrame, rows: pl.DataFrame, existing: pl.DataFrame) -> pl.DataFrame:
        """The pairs with their verdicts, what is there on the left and the row on the right; without any where [judge]
        is switched off."""
        pairs = with_pair_id(pairs.with_columns(left_id="existing_chunk_id", right_id="chunk_id"))
        if not self.settings.judge.enabled or pairs.is_empty():
            return pairs.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in VERDICT.items())
        texts = [existing.select(READ_BY_JUDGE), rows.rename({"seen_at": "first_seen_at"}).select(READ_BY_JUDGE)]
        return verdicts(
            pairs,
            pl.concat(texts, how="vertical_relaxed"),
            settings=self.settings,
            tell=self._tell,
            tell_rows=lambda _: None,
            opinion=self._opinion,
            to_read=self._to_read if self._knows_what_leads_furthest else None,
        )

    @property
    def _knows_what_leads_furthest(self) -> bool:
        """Whether nothing but the reading decides what a pair comes to."""
        judge = self.settings.judge
        return self._opinion is None and judge.require_confirmation and judge.subset == "link"

    def _to_read(self, judged: pl.DataFrame) -> pl.Series:
        """The pairs to read next: of each row first the nearest, then every other, as far as it can come before what is
        known of the row's pairs. One that cannot is left unread, since it is not the one that is told."""
        is_open, at_best = pl.col("is_open"), pl.col("at_best").replace_strict(_AT_BEST, return_dtype=pl.Int8)
        at_best = pl.when(_is_deleted()).then(pl.lit(_STRENGTH[STORED_AS_NEW], dtype=pl.Int8)).otherwise(at_best)
        acted = _acted(judged, self.settings).with_columns(strength=_strength(), at_best=at_best)
        known = pl.when(~is_open).then("strength").min().over("row")
        nearest_known = pl.when(~is_open & (pl.col("strength") == known)).then("similarity").max().over("row")
        comes_before = (pl.col("at_best") < known) | (
            (pl.col("at_best") == known) & (pl.col("similarity") >= nearest_known)
        )
        acted = acted.with_columns(is_asked=is_open & (comes_before | known.is_null()))
        is_nearest = pl.col("similarity") == pl.when("is_asked").then("similarity").max().over("row")
        is_first = pl.col("reading").is_null().all().over("row")
        return acted.select(pl.col("is_asked") & (is_nearest | ~is_first)).to_series()

    # ---- candidates

    def _candidates(self, rows: pl.DataFrame) -> pl.DataFrame:
        """row, existing_chunk_id and similarity of the nearest chunks in each row's own scope."""
        found = [pl.DataFrame(schema=_CANDIDATES)]
        rows = rows.filter(pl.col("text").is_not_null() & ~pl.col("scope").is_in(self.settings.unchecked_scopes))
        if self._vectors is None or rows.is_empty():
            return found[0]
        assert self._encoder is not None  # there are vectors to search only of an encoder's version
        reasons: list[EncodingFailed] = []
        texts = rows.select(normalized(pl.col("text"))).to_series()
        vectors, has = embedded(texts, encoder=self._encoder, report=lambda why, _: reasons.append(why))
        if not has.all():
            missing = f"{(~has).sum():,} of {len(has):,} rows get no vector ({reasons[0] if reasons else 'no text'})"
            self._tell(f"{missing}; of these only exact duplicates are found")
        by_scope = rows.with_row_index("at").filter(pl.Series(has)).group_by("scope", maintain_order=True)
        for (scope,), some in by_scope:
            found.append(self._in_scope(str(scope), some["row"], vectors[some["at"].to_numpy()]))
        return pl.concat(found)

    def _in_scope(self, scope: str, rows: pl.Series, vectors: NDArray[np.float32]) -> pl.DataFrame:
        near = self.settings.neighbours
        assert self._vectors is not None and self._run is not None  # noqa: PT018  (there are vectors to search)
        if scope not in self._sizes:
            self._sizes[scope] = self._vectors.size_of_scope(scope, run=self._run)
        if self._sizes[scope] <= near.exact_up_to_rows:
            if scope not in self._scopes:
                self._scopes[scope] = self._vectors.of_scope(scope, run=self._run)
            return self._best(rows, vectors, *self._scopes[scope])
        if None not in self._sizes:
            self._sizes[None] = self._vectors.size(run=self._run)
        # Where the scope is all there is, no filter is as right and several times as fast.
        searched = None if self._sizes[scope] == self._sizes[None] else scope
        probes = int((self._run.neighbours.get("probes") or {}).get(scope, _PROBES))
        found = [pl.DataFrame(schema=_CANDIDATES)]
        for at, vector in enumerate(vectors):
            nearest = self._vectors.nearest_in_index(
                vector, searched, run=self._run, most=near.max_candidates, probes=probes
            )
            found.append(self._best(rows[at : at + 1], vector[None, :], *nearest))
        return pl.concat(found)

    def _best(self, rows: pl.Series, vectors: NDArray[np.float32], ids: pl.Series, grid: Grid) -> pl.DataFrame:
        near = self.settings.neighbours
        at, place, similarity = search_among(snapped(vectors), grid, most=near.max_candidates, threshold=near.threshold)
        return pl.DataFrame(
            {"row": rows.gather(at), "existing_chunk_id": ids.gather(place), "similarity": similarity},
            schema=_CANDIDATES,
        )


def _strength() -> pl.Expr:
    return pl.col("action").replace_strict(_STRENGTH, return_dtype=pl.Int8)


def _is_deleted() -> pl.Expr:
    return pl.col("existing_deleted_at").is_not_null()


def _with_deleted(evidence: pl.Expr, deleted_at: pl.Expr) -> pl.Expr:
    """The evidence, and where what is there was taken out by a person, that it was, and when."""
    told = deleted_at.dt.strftime("deleted by a reviewer on %Y-%m-%d: no search finds it")
    return (
        pl.when(deleted_at.is_null())
        .then(evidence)
        .otherwise(pl.concat_str(evidence, told, separator="; ", ignore_nulls=True))
    )


def _with_keys(rows: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """The rows, numbered, with the ids that a night would give them."""
    kinds = rows["kind"].unique().to_list()
    return (
        rows.lazy()
        .pipe(with_content_hash, kinds=kinds)
        .pipe(with_ids, unchecked_scopes=settings.unchecked_scopes)
        .with_columns(pl.col("seen_at").fill_null(datetime.now(UTC)))
        .drop("row", strict=False)
        .with_row_index("row")
        .collect()
    )


def _acted(judged: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """The judged pairs with the row's `action`, and `duplicate_kind`.

    A group takes in only what may be merged into the chunk that stands for it. A row that is older than what is there
    replaces nothing, and one that says more than a chunk which would be merged into it is no duplicate. Of a pair with
    a chunk that is deleted nothing comes.
    """
    may_merge = ~pl.any_horizontal(pl.col("keep_apart", "existing_keep_apart").fill_null(value=False))
    is_row_first = pl.col("stands").eq_missing(pl.lit(RIGHT))
    action = pl.col("action")
    # Without a verdict, with [judge] off, a row is stored.
    by_itself = pl.when(pl.col("relation").is_not_null()).then(
        action_of(limits_of(settings.judge), may_merge=may_merge)
    )
    return (
        judged.with_columns(action=by_itself.otherwise(pl.lit(STORED_AS_NEW)))
        .with_columns(
            action=pl.when(_is_deleted())
            .then(pl.lit(STORED_AS_NEW))
            .when((action == MERGED) & (pl.col("existing_stands_id") != pl.col("existing_chunk_id")))
            .then(pl.lit(LINKED))
            .when((action == SUPERSEDED) & ~is_row_first)
            .then(pl.lit(STORED_AS_NEW))
            .otherwise(action)
        )
        .with_columns(
            duplicate_kind=pl.when((action == MERGED) & ~((pl.col("relation") == SUBSET) & is_row_first))
            .then(pl.lit(MERGED_KIND))
            .otherwise(pl.lit(NONE))
        )
    )


def check_inputs(settings: Settings, *, checker: Checker) -> tuple[pl.DataFrame, list[str]]:
    """What is said of every row of the inputs, rejects last with the rule that they break, and the files left out."""
    with tempfile.TemporaryDirectory(prefix="nightfold-check-") as folder:
        sources, loaded = find_sources(settings), Path(folder)
        corpora = published_corpora(checker.warehouse, settings)
        counted = load_sources(sources, settings, loaded, tell_rows=lambda _: None, corpora=corpora)
        rows = pl.concat([pl.read_parquet(path, glob=False) for path in sorted(loaded.glob("rows-*.parquet"))])
        rejects = pl.read_parquet(loaded / "rejects.parquet", glob=False)
    keys = _with_keys(rows, settings)
    repeats = repeats_of_an_id(keys).with_columns(reason=pl.lit(ID_IS_UNIQUE))
    rows = rows.with_row_index("at").join(repeats.select(at="row"), on="at", how="anti", maintain_order="left")
    refused = pl.concat(
        [rejects, as_rejects(repeats.select("source", "source_row_id", "locator", "chunk_id", "reason"))]
    )
    return pl.concat([checker.check(rows.drop("at")), _as_checked(refused)]), counted["skipped"]


def _as_checked(rejects: pl.DataFrame) -> pl.DataFrame:
    said = REJECTS.shaped(rejects).with_columns(rejected_by="reason", evidence="detail")
    return said.select(
        (pl.col(name) if name in said.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in CHECKED.items()
    )
