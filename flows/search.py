"""Search over what was published: only what an agent may show a user, one result for each thing said.

from flows.search import Searcher

searcher = Searcher("data/warehouse")
hits = searcher.search("how long does charging take?", agent="support", user="ana")
"""

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import numpy as np
import polars as pl
from numpy.typing import NDArray

from flows.encoders import EncoderUnavailable, open_encoder
from flows.errors import NightfoldError
from flows.retrieval import Retrieval
from flows.settings import EmbeddingSettings, Settings
from flows.snapshot import Snapshot
from flows.vectors import Vectors, is_scope, quoted
from flows.warehouse import Run, Warehouse
from schemas.rows import PERSONAL_SCOPE
from schemas.tables import RUNS
from schemas.terms import GLOBAL, SPEC_ROW
from transforms.context import Passage, context
from transforms.embedding import Encoder, EncodingFailed, embedded
from transforms.normalize import normalized
from transforms.visibility import VISIBLE_CORPORA, visible_chunks

K, MIN_SCORE, BUDGET = 10, 0.7, 2_000
# Up to so many rows of the corpora asked every partition of the index is read, so that the search is exact: what one
# finds does not hang on the rows of others. From there on, so large a share of them.
EXACT_UP_TO_ROWS = 1_000_000
_PROBED_SHARE = 0.25
# So many times what is asked for is fetched at first, and then each time there are too few.
_FETCH, _FETCH_MORE, _FETCH_LEAST = 4, 4, 50
# What Lance measures and what is measured anew may differ so much.
_ROUNDING = 1e-4
_SCORE_DIGITS = 6


class CannotSearch(NightfoldError):
    """A question that cannot be asked of this warehouse, or an encoder that is not there."""


@dataclass(frozen=True)
class Hit:
    """One thing said: the chunk that is shown for it, how near it is, and what is known where the user may look."""

    canonical_id: str
    chunk_id: str
    score: float
    kind: str
    text: str | None
    scope: str
    corpus_id: str | None
    corpus_type: str | None
    corpus_name: str | None
    corpus_ids: tuple[str, ...]
    source: str
    source_row_id: str
    source_doc_id: str | None
    metadata: dict[str, Any]
    occurrences: int
    first_seen_at: datetime
    last_seen_at: datetime

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        return {**asdict(self), "first_seen_at": str(self.first_seen_at), "last_seen_at": str(self.last_seen_at)}


@dataclass(frozen=True)
class Group:
    """Spec rows of one parent and sub category, best first; or, with neither, what is no spec row."""

    parent_category: str | None
    sub_category: str | None
    hits: list[Hit] = field(default_factory=list)


def grouped(hits: Sequence[Hit]) -> list[Group]:
    """The hits by parent and sub category, each group where its best hit stands."""
    groups: dict[tuple[str | None, str | None], Group] = {}
    for hit in hits:
        said = hit.metadata if hit.kind == SPEC_ROW else {}
        key = said.get("parent_category"), said.get("sub_category")
        groups.setdefault(key, Group(*key)).hits.append(hit)
    return list(groups.values())


def context_of(hits: Sequence[Hit], *, budget: int = BUDGET) -> str:
    """The hits as a block for a prompt (`transforms.context.context`): whole texts within so many words and marks."""
    passages = [
        Passage(
            corpus_type=hit.corpus_type or GLOBAL,
            title=f"{hit.corpus_name or hit.scope}: {hit.source_doc_id or f'{hit.source} {hit.source_row_id}'}",
            text=hit.text,
        )
        for hit in hits
        if hit.text is not None
    ]
    return context(passages, budget=budget)


@dataclass(frozen=True)
class _Index:
    """The vectors a search reads: all of them, or the retrieval table where corpora are asked."""

    dataset: lance.LanceDataset
    has_index: bool
    partitions: int


@dataclass(frozen=True)
class _Opened:
    """A published run with its vectors, as long as it is the latest one."""

    snapshot: Snapshot
    embedding: dict[str, Any] | None
    all_vectors: _Index | None
    of_corpora: _Index | None


class Searcher:
    """A warehouse to search: opened once, asked many times, from as many threads as one likes. It follows the runs that
    are published while it is open; the first question after one waits until that is read."""

    def __init__(self, where: Settings | str | Path, *, tell: Callable[[str], None] = lambda _: None) -> None:
        """`where` is the folder of the warehouse, or settings that name it and perhaps the encoder; without them the
        encoder is opened as the run was told that made the vectors."""
        self.settings = where if isinstance(where, Settings) else None
        folder = where.warehouse.path if isinstance(where, Settings) else str(where)
        self.warehouse = Warehouse(folder)
        self._tell = tell
        self._lock, self._encoding = threading.Lock(), threading.Lock()
        self._encoder: Encoder | None = None
        self._stamp: int | None = None
        self._opened: _Opened | None = None

    def search(
        self,
        query: str,
        *,
        agent: str | None = None,
        user: str | None = None,
        scope: str | None = None,
        k: int = K,
        min_score: float = MIN_SCORE,
    ) -> list[Hit]:
        """The `k` things said that are nearest to the query, best first: of the corpora that the agent shows the user,
        or, with a scope, of its rows that are in no corpus. `score` is the cosine."""
        if k < 1 or not 0 <= min_score <= 1:
            raise CannotSearch(f"k = {k} and min_score = {min_score}: k is at least 1, min_score from 0 to 1")
        for _ in range(2):
            opened = self._follow()
            corpora = self._asked(opened.snapshot, agent, user, scope)
            if corpora.is_empty():
                return []
            try:
                return self._search(opened, query, corpora, k=k, min_score=min_score)
            except (OSError, ValueError):
                # A night has dropped the versions this search was reading: it is asked again of what is published now.
                if self._follow() is opened:
                    raise
        raise CannotSearch(f"{self.warehouse.location}: runs are published faster than they can be searched")

    def visible_corpora(self, *, agent: str | None, user: str | None) -> pl.DataFrame:
        """The corpora that the agent shows the user, as `visible_corpora` in the mart."""
        return self._follow().snapshot.visible_corpora(agent, user)

    def visible_chunks(self, *, agent: str | None, user: str | None) -> pl.DataFrame:
        """All that the agent may show the user, a row for each thing said: as `visible_chunks` in the mart."""
        snapshot = self._follow().snapshot
        return visible_chunks(snapshot.held(snapshot.visible_corpora(agent, user)))

    def vector(self, query: str) -> list[float]:
        """The query as the encoder of the published vectors reads it, for `lance_vector_search` in SQL."""
        return [float(number) for number in self._encoded(self._follow(), query)]

    # ---- the published run

    def _follow(self) -> _Opened:
        with self._lock:
            stamp = self._published_stamp()
            if self._opened is None or stamp != self._stamp:
                run = self.warehouse.published()
                if run is None:
                    raise CannotSearch(
                        f"{self.warehouse.location}: no run is published; `nightfold run` makes the first"
                    )
                if self._opened is None or self._opened.snapshot.run.run_id != run.run_id:
                    self._opened = self._open(run)
                self._stamp = stamp
            return self._opened

    def _published_stamp(self) -> int | None:
        """Moves whenever a run is committed; asking costs next to nothing."""
        try:
            return (self.warehouse.folder / f"{RUNS.name}.lance" / "_versions").stat().st_mtime_ns
        except OSError:
            return None

    def _open(self, run: Run) -> _Opened:
        in_use = run.neighbours.get("embedding") or {}
        snapshot = Snapshot.of(self.warehouse, run)
        if not in_use.get("version"):
            return _Opened(snapshot, None, None, None)
        vectors = Vectors(self.warehouse, in_use["version"], in_use["dimensions"])
        retrieval = Retrieval(self.warehouse, vectors)
        return _Opened(snapshot, in_use, _index(vectors.published(run)), _index(retrieval.published(run)))

    def _encoder_of(self, in_use: dict[str, Any]) -> Encoder:
        """The encoder that made the vectors: of the settings where they still name it, else of the first run that used
        it."""
        given = [] if self.settings is None else [self.settings.embedding]
        for run in self.warehouse.runs():
            if (run.neighbours.get("embedding") or {}).get("version") == in_use["version"]:
                given.append(EmbeddingSettings.model_validate(run.settings["embedding"]))
                break
        why = "no run on record says how it was made"
        for settings in given:
            try:
                encoder = open_encoder(settings, tell=self._tell)
            except EncoderUnavailable as error:
                why = str(error)
                continue
            if encoder is not None and encoder.version == in_use["version"]:
                return encoder
            why = f"[embedding] model = {settings.model!r} is of another version now"
        raise CannotSearch(
            f"{self.warehouse.location}: the vectors are of {in_use['model']}, version {in_use['version']}, which is "
            f"not there: {why}; bring it back, or `nightfold backfill --embeddings` embeds all chunks anew"
        )

    # ---- one question

    def _asked(self, snapshot: Snapshot, agent: str | None, user: str | None, scope: str | None) -> pl.DataFrame:
        """The corpora that are asked; a scope counts as one without a name."""
        for name, value in (("agent", agent), ("user", user), ("scope", scope)):
            if value is not None and not isinstance(value, str):
                raise CannotSearch(f"{name} = {value!r}: an id is a text")
        if scope is not None:
            if agent is not None or user is not None:
                raise CannotSearch("give a scope, or an agent and a user, not both")
            if scope.startswith(PERSONAL_SCOPE):
                raise CannotSearch(f"scope = {scope!r}: is one person's own; ask with an agent and its user")
            return pl.DataFrame([(None, scope, None, None)], schema=VISIBLE_CORPORA, orient="row")
        if agent is None or user is None:
            raise CannotSearch("who asks? give an agent and its user, or, of rows that are in no corpus, a scope")
        if snapshot.corpora.is_empty():
            raise CannotSearch(
                f"{self.warehouse.location}: has no corpora, which agents and users go by; ask one scope, or set "
                "[corpora]"
            )
        return snapshot.visible_corpora(agent, user)

    def _encoded(self, opened: _Opened, query: str) -> NDArray[np.float32]:
        if opened.embedding is None:
            raise CannotSearch(
                f"{self.warehouse.location}: has no vectors to search; name an [embedding] encoder, and `nightfold "
                "retry` makes them"
            )
        texts = pl.select(normalized(pl.lit(query))).to_series()
        reasons: list[EncodingFailed] = []
        with self._encoding:
            if self._encoder is None or self._encoder.version != opened.embedding["version"]:
                self._encoder = self._encoder_of(opened.embedding)
            vectors, has = embedded(texts, encoder=self._encoder, report=lambda why, _: reasons.append(why))
        if not has[0]:
            raise CannotSearch(f"the query gets no vector: {reasons[0] if reasons else 'it says nothing'}")
        vector: NDArray[np.float32] = vectors[0]
        return vector

    def _search(self, opened: _Opened, query: str, corpora: pl.DataFrame, *, k: int, min_score: float) -> list[Hit]:
        snapshot, is_scope_asked = opened.snapshot, corpora["corpus_id"][0] is None
        index = opened.all_vectors if is_scope_asked else opened.of_corpora
        vector = self._encoded(opened, query)
        size = snapshot.size(corpora)
        if index is None or not vector.any() or not size:
            return []
        fetch = max(_FETCH_LEAST, k * _FETCH)
        while True:
            found = _nearest(index, vector, _filter(corpora), most=fetch, size=size)
            held = snapshot.held(corpora, found["chunk_id"])
            # What may not be shown lends nobody its score.
            near = found.join(held.select("chunk_id", "canonical_id").unique(), on="chunk_id", how="inner")
            scores = near.group_by("canonical_id").agg(pl.col("score").max()).filter(pl.col("score") >= min_score)
            # Whatever was not fetched is no nearer than the last that was.
            last = float(found["score"].min() or 0) if found.height == fetch else -1.0  # type: ignore[arg-type]
            sure = scores.filter(pl.col("score") > last + _ROUNDING).height
            if sure >= k or last < min_score - _ROUNDING:
                break
            fetch *= _FETCH_MORE
        best = scores.sort(-pl.col("score"), "canonical_id").head(k)
        shown = visible_chunks(held.join(best, on="canonical_id", how="semi")).join(best, on="canonical_id")
        content = snapshot.with_content(shown.sort(-pl.col("score"), "canonical_id"))
        return [_hit(row) for row in content.iter_rows(named=True)]


def _index(dataset: lance.LanceDataset | None) -> _Index | None:
    if dataset is None:
        return None
    for index in dataset.describe_indices():
        if "vector" in index.field_names:
            parts = dataset.stats.index_stats(index.name)["indices"][0]["num_partitions"]
            return _Index(dataset, has_index=True, partitions=int(parts))
    return _Index(dataset, has_index=False, partitions=0)


def _filter(corpora: pl.DataFrame) -> str:
    """The rows of these corpora, each behind the wall of its own; of a scope alone, its rows."""
    by_scope = corpora.group_by("scope", maintain_order=True).agg("corpus_id")
    parts = []
    for scope, ids in by_scope.iter_rows():
        listed = ",".join(quoted(corpus_id) for corpus_id in ids if corpus_id is not None)
        parts.append(f"({is_scope(scope)} and corpus_id in ({listed}))" if listed else is_scope(scope))
    return " or ".join(parts)


def _nearest(index: _Index, vector: NDArray[np.float32], rows: str, *, most: int, size: int) -> pl.DataFrame:
    """chunk_id and score of the nearest of these rows. The score is computed anew, by a sum that is the same whatever
    else was found."""
    asked: dict[str, Any] = {"column": "vector", "q": vector, "k": most, "metric": "dot"}
    if index.has_index:
        share = 1.0 if size <= EXACT_UP_TO_ROWS else _PROBED_SHARE
        asked["nprobes"] = max(1, round(index.partitions * share))
    else:
        asked["use_index"] = False
    table = index.dataset.to_table(
        columns=["chunk_id", "vector", "_distance"], nearest=asked, filter=rows, prefilter=True
    )
    found = pl.from_arrow(table.select(["chunk_id", "vector"]))
    assert isinstance(found, pl.DataFrame)  # a table never comes back as a Series
    vectors = found["vector"].to_numpy().reshape(found.height, len(vector)).astype(np.float64)
    cosines = np.minimum((vectors * vector.astype(np.float64)).sum(axis=1), 1.0).round(_SCORE_DIGITS)
    return found.select("chunk_id", score=pl.Series(cosines, dtype=pl.Float64))


def _hit(row: dict[str, Any]) -> Hit:
    return Hit(
        canonical_id=row["canonical_id"],
        chunk_id=row["chunk_id"],
        score=row["score"],
        kind=row["kind"],
        text=row["text"],
        scope=row["scope"],
        corpus_id=row["corpus_id"],
        corpus_type=row["type"],
        corpus_name=row["name"],
        corpus_ids=tuple(each for each in row["corpus_ids"] if each is not None),
        source=row["source"],
        source_row_id=row["source_row_id"],
        source_doc_id=row["source_doc_id"],
        metadata=json.loads(row["metadata"] or "{}"),
        occurrences=row["occurrences"],
        first_seen_at=row["first_seen_at"],
        last_seen_at=row["last_seen_at"],
    )
