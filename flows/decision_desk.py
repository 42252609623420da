"""The rows that entries of the journal touch, read from the tables as a run published them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from flows.warehouse import Run, Warehouse
from schemas.contract import Contract
from schemas.tables import (
    CANONICALS,
    CHUNKS,
    CONTRADICTIONS,
    FORWARDS,
    LINKS,
    PAIRS,
    PENDING_REVIEWS,
    REVIEW_DECISIONS,
    SEPARATIONS,
    VARIANTS,
)
from schemas.terms import CLOSED, DELETE
from transforms.decisions import Effects, Entry
from transforms.review_desk import Desk, Row, candidates_of, pair_id

CHUNK = [
    "chunk_id",
    "scope",
    "canonical_id",
    "action",
    "occurrences",
    "first_seen_at",
    "last_seen_at",
    "superseded_by",
    "valid_from",
    "valid_to",
    "deleted_at",
]
_PAIR = ["pair_id", "left_id", "right_id", "scope", "similarity", "relation", "confidence", "evidence", "action"]
_ID = "[0-9a-f]{32}"
# Up to so many values are named in a filter; more of them are joined with the column.
_NAMED = 500


@dataclass(frozen=True)
class DecisionDesk:
    """Reads what entries touch: the chunks they name with all of their groups, what joins and parts these, and the
    questions that name them."""

    warehouse: Warehouse
    run: Run

    def of(self, entries: Sequence[Entry], *, with_questions: bool = True) -> Desk:
        """The desk on which these entries can be applied, one after the other; to see only whether they can be, the
        questions are not needed."""
        undoes = [entry.undoes for entry in entries if entry.undoes is not None]
        undone = self._rows(REVIEW_DECISIONS, "decision_id", undoes)
        effects = {row["decision_id"]: Effects.read(row["effects"]) for row in undone.to_dicts()}
        named = {each for entry in entries for each in entry.chunk_ids} | set(undone["chunk_id"])
        groups = {entry.target_canonical_id for entry in entries if entry.target_canonical_id}
        pairs: set[str] = set()
        for one in effects.values():
            claimed = [name.split("/")[:2] for name in one.claims]
            named |= {key for table, key in claimed if table == CHUNKS.name}
            pairs |= {key for table, key in claimed if table == PAIRS.name}
            if one.moved is not None:
                named |= set(one.moved["chunks"]) | {one.moved["stands"]}
                groups.add(one.moved["group"])
            if one.taken_over is not None:
                named.add(one.taken_over["by"])
        deleted = [entry.chunk_id for entry in entries if entry.decision == DELETE]
        named |= set(self._rows(CHUNKS, "superseded_by", deleted, ["chunk_id", "superseded_by"])["chunk_id"])

        forwards = self._all(FORWARDS)
        leads = dict(forwards.select("canonical_id", "forwards_to").iter_rows())
        for group in list(groups):
            while (group := leads.get(group, "")) and group not in groups:
                groups.add(group)
        chunks = self._rows(CHUNKS, "chunk_id", named, CHUNK)
        groups |= set(chunks["canonical_id"])
        canonicals = self._rows(CANONICALS, "canonical_id", groups)
        variants = self._rows(VARIANTS, "canonical_id", groups)
        members = set(canonicals["chunk_id"]) | set(variants["chunk_id"])
        chunks = pl.concat([chunks, self._rows(CHUNKS, "chunk_id", members - set(chunks["chunk_id"]), CHUNK)])
        on_desk = set(chunks["chunk_id"])

        questions = self._questions(entries, undone, on_desk) if with_questions else []
        beside = {each["chunk_id"] for row in questions for each in candidates_of(row)}
        beside = (beside | {row["chunk_id"] for row in questions}) - on_desk
        others = self._rows(CHUNKS, "chunk_id", beside, CHUNK)
        of_others = self._rows(VARIANTS, "chunk_id", beside)
        all_ids = on_desk | set(others["chunk_id"])
        decided = self._rows(REVIEW_DECISIONS, "decision_id", [entry.decision_id for entry in entries])
        if undoes:
            decided = pl.concat([decided, undone, self._rows(REVIEW_DECISIONS, "chunk_id", on_desk)])
        pairs |= self._pairs_of(entries, chunks, canonicals)
        return Desk(
            {
                CHUNKS.name: [*chunks.to_dicts(), *others.to_dicts()],
                CANONICALS.name: canonicals.to_dicts(),
                VARIANTS.name: [*variants.to_dicts(), *of_others.to_dicts()],
                PAIRS.name: self._rows(PAIRS, "pair_id", pairs, _PAIR).to_dicts(),
                LINKS.name: self._joining(LINKS, all_ids),
                CONTRADICTIONS.name: self._joining(CONTRADICTIONS, on_desk),
                SEPARATIONS.name: self._joining(SEPARATIONS, all_ids),
                FORWARDS.name: forwards.to_dicts(),
                PENDING_REVIEWS.name: questions,
                REVIEW_DECISIONS.name: decided.unique("decision_id").to_dicts(),
            }
        )

    def _pairs_of(self, entries: Sequence[Entry], chunks: pl.DataFrame, canonicals: pl.DataFrame) -> set[str]:
        """The pairs whose action a decision may change, or whose judgement it quotes."""
        group_of = dict(chunks.select("chunk_id", "canonical_id").iter_rows())
        stands = dict(canonicals.select("canonical_id", "chunk_id").iter_rows())
        members: dict[str, list[str]] = {}
        for chunk_id, group in group_of.items():
            members.setdefault(group, []).append(chunk_id)
        ids = set()
        for entry in entries:
            others = [each for each in entry.chunk_ids if each != entry.chunk_id]
            others += [stands[group] for each in others if (group := group_of.get(each)) in stands]
            if entry.decision == DELETE:
                others += members.get(group_of.get(entry.chunk_id, ""), [])
            target = stands.get(entry.target_canonical_id or "")
            if target is not None:
                others.append(target)
                # All of a group that moves is set beside the chunk that stands for where it goes.
                ids |= {pair_id(each, target) for each in members.get(group_of.get(entry.chunk_id, ""), [])}
            ids |= {pair_id(entry.chunk_id, other) for other in others if other != entry.chunk_id}
        return ids

    def _questions(self, entries: Sequence[Entry], undone: pl.DataFrame, chunk_ids: set[str]) -> list[Row]:
        """The questions that the entries answer, and those that name one of the chunks and are open or were closed."""
        every = self._all(PENDING_REVIEWS).filter(
            pl.col("reviewed_at").is_null()
            | (pl.col("decision") == CLOSED)
            | pl.col("review_id").is_in([*(entry.review_id for entry in entries), *undone["review_id"]])
        )
        # By their look: to read the JSON of all of them would take longer than the rest.
        named = every.select("review_id", chunk_id=pl.col("candidates").str.extract_all(_ID)).explode("chunk_id")
        ids = pl.DataFrame({"chunk_id": sorted(chunk_ids)}, schema={"chunk_id": pl.String})
        naming = named.join(ids, on="chunk_id", how="semi")["review_id"]
        about = every.join(ids, on="chunk_id", how="semi")["review_id"]
        answered = [entry.review_id for entry in entries]
        return every.filter(pl.col("review_id").is_in([*naming, *about, *answered])).to_dicts()

    def _joining(self, contract: Contract, chunk_ids: set[str]) -> list[Row]:
        """The rows of two chunks of which one is among these."""
        at_left = self._rows(contract, "left_id", chunk_ids)
        at_right = self._rows(contract, "right_id", chunk_ids)
        return pl.concat([at_left, at_right]).unique("pair_id").to_dicts()

    def _all(self, contract: Contract) -> pl.DataFrame:
        dataset = self.warehouse.open(contract.name, self.run)
        if dataset is None:
            return contract.empty()
        rows = pl.from_arrow(dataset.to_table())
        assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
        return contract.shaped(rows)

    def _rows(
        self, contract: Contract, column: str, values: Iterable[str], columns: list[str] | None = None
    ) -> pl.DataFrame:
        """The rows whose column is one of these values, in the order of their key; of a gained column, null."""
        wanted = sorted(set(values))
        columns = columns or contract.columns
        dataset = self.warehouse.open(contract.name, self.run)
        if dataset is None or not wanted or column not in dataset.schema.names:
            return contract.empty().select(columns)
        if len(wanted) <= _NAMED:
            there = [name for name in columns if name in dataset.schema.names]
            listed = ",".join("'" + value.replace("'", "''") + "'" for value in wanted)
            rows = pl.from_arrow(dataset.to_table(columns=there, filter=f"{column} in ({listed})"))
            assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
            return contract.shaped(rows).select(columns).sort(contract.key)
        if column != contract.key[0]:
            keys = pl.from_arrow(dataset.to_table(columns=[*contract.key, column]))
            assert isinstance(keys, pl.DataFrame)  # a table never comes back as a Series
            wanted = keys.filter(pl.col(column).is_in(wanted))[contract.key[0]].to_list()
        found = self.warehouse.lookup(contract.name, pl.Series(wanted, dtype=pl.String), columns, run=self.run)
        return (
            contract.empty()
            .select(columns)
            .vstack(found.cast(contract.empty().select(columns).schema))
            .sort(contract.key)
        )
