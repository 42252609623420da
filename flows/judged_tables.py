"""What the judgements of a night change in each table: files of rows to append, to change and to delete."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from flows.judging import VERDICT
from flows.tonight import Tonight
from schemas.contract import Contract
from schemas.tables import (
    CANONICALS,
    CHUNKS,
    CONTRADICTIONS,
    FORWARDS,
    LINKS,
    PAIRS,
    PENDING_REVIEWS,
    VARIANTS,
)
from schemas.terms import FLAGGED, LINKED, QUEUED
from transforms.review import asked_again, closed, questions, review_id, settled

_OPEN = "open"
# What a judgement can change in a chunk.
BECAME = ["canonical_id", "action", "superseded_by", "valid_from", "valid_to"]


@dataclass(frozen=True)
class Groups:
    """The groups that tonight touched: their members as they were, with group_id and stands_id as they are now, and the
    edges between them; the ids that lead on; and who was a variant before."""

    members: pl.DataFrame
    edges: pl.DataFrame
    forwards: pl.DataFrame
    variants_before: pl.DataFrame

    @property
    def variants(self) -> pl.DataFrame:
        """The members that another one stands for now."""
        return self.members.filter(pl.col("chunk_id") != pl.col("stands_id"))


@dataclass(frozen=True)
class JudgedTables:
    """Writes what tonight's judgements change, a few files a table."""

    folder: Path
    tonight: Tonight
    run_id: str
    started_at: datetime

    def _write(self, rows: pl.DataFrame, name: str) -> None:
        rows.write_parquet(self.folder / f"{name}.parquet")

    def _upsert(self, contract: Contract, rows: pl.DataFrame, known: pl.DataFrame) -> None:
        """Whole rows: those whose key is in `known` take the place of the old ones."""
        rows, key = contract.check(contract.shaped(rows)), list(contract.key)
        self._write(rows.join(known, on=key, how="anti", maintain_order="left"), contract.name)
        self._write(rows.join(known, on=key, how="semi", maintain_order="left"), f"{contract.name}-moved")

    def pairs(self, judged: pl.DataFrame) -> None:
        """The new pairs whole, of the others what they gained."""
        judged = judged.with_columns(run_id=pl.lit(self.run_id))
        self._write(PAIRS.check(PAIRS.shaped(judged.filter(~pl.col("is_known")))), "pairs")
        gained = ["pair_id", *(name for name in VERDICT if name in PAIRS.columns), "action", "run_id"]
        self._write(PAIRS.shaped(judged.filter("is_known")).select(gained), "pairs-moved")

    def chunks(self, became: pl.DataFrame) -> None:
        """All new chunks whole, of the known ones what changed."""
        new = became.filter(~pl.col("is_known")).select("chunk_id", *BECAME)
        staged = pl.scan_parquet([self.tonight.staging / "embed" / "chunks.parquet"], glob=False)
        of_judged = [pl.coalesce(f"{name}_now", name).alias(name) for name in BECAME]
        staged.join(
            new.lazy().rename({name: f"{name}_now" for name in BECAME}),
            on="chunk_id",
            how="left",
            maintain_order="left",
        ).with_columns(of_judged).select(
            pl.col(name).cast(dtype) for name, dtype in CHUNKS.dtypes.items()
        ).sink_parquet(self.folder / "chunks.parquet", compression="lz4", statistics=False)
        has_changed = (
            (pl.col("action") != pl.col("action_before"))
            | (pl.col("canonical_id") != pl.col("canonical_before"))
            | pl.col("is_replaced")
        )
        known = became.filter(pl.col("is_known") & has_changed)
        self._write(CHUNKS.shaped(known).select("chunk_id", *BECAME), "chunks-judged")

    def groups(self, groups: Groups) -> None:
        """Canonicals, variants and forwards. What the exact stage counted of other groups stays as it is."""
        members = groups.members
        sums = members.group_by(canonical_id="group_id").agg(
            pl.col("scope").first(),
            chunk_id=pl.col("stands_id").first(),
            variants=pl.len() - 1,
            occurrences=pl.col("occurrences").sum(),
            first_seen_at=pl.col("first_seen_at").min(),
            last_seen_at=pl.col("last_seen_at").max(),
        )
        sums = CANONICALS.shaped(sums.sort("canonical_id"))
        known = members.drop_nulls("canonical_id").select("canonical_id").unique()
        in_groups = members.select(canonical_id="chunk_id")
        others = self.tonight.staged("exact/canonicals.parquet").join(in_groups, on="canonical_id", how="anti")
        self._write(pl.concat([others, sums.join(known, on="canonical_id", how="anti")]), "canonicals")
        moved = self.tonight.staged("exact/canonicals-moved.parquet").join(known, on="canonical_id", how="anti")
        self._write(pl.concat([moved, sums.join(known, on="canonical_id", how="semi")]), "canonicals-moved")
        self._write(groups.forwards.select("canonical_id"), "canonicals-gone")
        self._forwards(groups)
        self._variants(groups)

    def _forwards(self, groups: Groups) -> None:
        """The ids that lead on; those that led to one of them lead on to where it does."""
        rows = groups.forwards.join(
            groups.members.select(forwards_to="group_id", scope="scope").unique(), on="forwards_to", how="left"
        ).with_columns(run_id=pl.lit(self.run_id), forwarded_at=self.started_at)
        earlier = self.tonight.read(FORWARDS, FORWARDS.columns)
        led_here = (
            earlier.join(
                groups.forwards.rename({"canonical_id": "forwards_to", "forwards_to": "now"}),
                on="forwards_to",
                how="inner",
            )
            .with_columns(forwards_to="now")
            .drop("now")
        )
        both = pl.concat([FORWARDS.shaped(rows), FORWARDS.shaped(led_here)])
        self._upsert(FORWARDS, both, earlier.select("canonical_id"))

    def _variants(self, groups: Groups) -> None:
        before = self.tonight.lookup(VARIANTS, groups.variants_before["chunk_id"])
        stood = groups.members.filter("is_standing").select("canonical_id", stood_id="chunk_id")
        edge = groups.edges.select(
            "left_id", "right_id", "relation", "similarity", "confidence", "decided_by", reason="evidence"
        )
        ways = pl.concat(
            [
                edge.rename({"left_id": "chunk_id", "right_id": "stands_id"}),
                edge.rename({"right_id": "chunk_id", "left_id": "stands_id"}).select(
                    "chunk_id", "stands_id", *edge.columns[2:]
                ),
            ]
        )
        now = groups.variants.join(stood, on="canonical_id", how="left").select(
            "chunk_id", "scope", "stands_id", "stood_id", canonical_id="group_id"
        )
        # Of one whose group is stood for by the same chunk as before, only the id of the group can have changed. One
        # that was deleted has no edge to any other.
        deleted = groups.members.filter(pl.col("deleted_at").is_not_null())["chunk_id"]
        is_kept = (pl.col("stands_id") == pl.col("stood_id")) | pl.col("chunk_id").is_in(deleted.implode())
        kept = now.filter(is_kept).select("chunk_id", group_id="canonical_id")
        kept_rows = before.join(kept, on="chunk_id", how="inner").filter(pl.col("group_id") != pl.col("canonical_id"))
        kept_rows = kept_rows.with_columns(canonical_id="group_id")
        made = (
            now.join(kept, on="chunk_id", how="anti")
            .join(ways, on=["chunk_id", "stands_id"], how="left")
            .with_columns(run_id=pl.lit(self.run_id))
        )
        rows = pl.concat([VARIANTS.shaped(kept_rows), VARIANTS.shaped(made)]).sort("chunk_id")
        self._upsert(VARIANTS, rows, before.select("chunk_id"))
        self._write(before.join(now, on="chunk_id", how="anti").select("chunk_id"), "variants-gone")

    def links(self, judged: pl.DataFrame) -> None:
        """Links and contradictions. A pair that is judged anew may be neither any more; what a person has said or
        resolved stays as it is."""
        judged = judged.filter(~pl.col("is_settled")).with_columns(run_id=pl.lit(self.run_id), status=pl.lit(_OPEN))
        resolved = self.tonight.lookup(CONTRADICTIONS, judged["pair_id"], ["pair_id", "status"])
        resolved = resolved.filter(pl.col("status") != _OPEN).select("pair_id")
        for contract, action in ((LINKS, LINKED), (CONTRADICTIONS, FLAGGED)):
            open_pairs = judged if contract is LINKS else judged.join(resolved, on="pair_id", how="anti")
            rows = open_pairs.filter(pl.col("action") == action)
            known = self.tonight.lookup(contract, open_pairs["pair_id"], ["pair_id"])
            self._upsert(contract, rows, known)
            self._write(known.join(rows, on="pair_id", how="anti"), f"{contract.name}-gone")

    def reviews(self, judged: pl.DataFrame, became: pl.DataFrame, groups: Groups, separations: pl.DataFrame) -> None:
        """An open question for each chunk with a pair that a person must decide; merged, it asks nothing more.
        Questions whose rows have changed or gone are closed."""
        merged = groups.variants.select("chunk_id")
        asked = judged.filter(pl.col("action") == QUEUED)
        known_variants = self.tonight.lookup(VARIANTS, asked["later_id"], ["chunk_id"])
        asked = asked.join(pl.concat([merged, known_variants]), left_on="later_id", right_on="chunk_id", how="anti")
        now = became.select("chunk_id", "canonical_id", "superseded_by")
        asked = self._without_separated_groups(asked, now, separations)
        rows = questions(asked, now, queued_at=self.started_at)
        earlier = self.tonight.lookup(PENDING_REVIEWS, rows["review_id"])
        of_merged = self.tonight.lookup(PENDING_REVIEWS, merged.select(review_id(pl.col("chunk_id"))).to_series())
        answered = settled(of_merged, at=self.started_at, by=self.run_id)
        still_open = self.tonight.read(PENDING_REVIEWS, PENDING_REVIEWS.columns, "reviewed_at is null")
        still_open = still_open.join(pl.concat([rows, answered]), on="review_id", how="anti")
        every = pl.concat([asked_again(rows, earlier), still_open])
        gone = self._closed(every, rows, became, separations)
        kept = every.join(gone, on="review_id", how="anti").join(rows, on="review_id", how="semi")
        known = pl.concat([earlier, of_merged, still_open]).select("review_id").unique()
        self._upsert(PENDING_REVIEWS, pl.concat([kept, answered, gone]), known)

    def _without_separated_groups(
        self, asked: pl.DataFrame, now: pl.DataFrame, separations: pl.DataFrame
    ) -> pl.DataFrame:
        """The pairs of two groups of which a person has set no chunk of one apart from a chunk of the other."""
        if asked.is_empty() or separations.is_empty():
            return asked
        ends = pl.concat([separations["left_id"], separations["right_id"]])
        facts = self.tonight.chunks(ends, ["chunk_id", "canonical_id"]).select("chunk_id", "canonical_id")
        group = pl.concat([now.select("chunk_id", "canonical_id"), facts]).unique("chunk_id", keep="first")

        def with_groups(pairs: pl.DataFrame) -> pl.DataFrame:
            both = pairs.join(group.select(left_id="chunk_id", one="canonical_id"), on="left_id", how="left").join(
                group.select(right_id="chunk_id", other="canonical_id"), on="right_id", how="left"
            )
            return both.with_columns(low=pl.min_horizontal("one", "other"), high=pl.max_horizontal("one", "other"))

        apart = with_groups(separations).select("low", "high")
        return with_groups(asked).join(apart, on=["low", "high"], how="anti").select(asked.columns)

    def _closed(
        self, asked: pl.DataFrame, of_tonight: pl.DataFrame, became: pl.DataFrame, separations: pl.DataFrame
    ) -> pl.DataFrame:
        """Of the questions of tonight, and of the others that name a chunk which tonight replaced or grouped, those
        that are none any more."""
        is_other = pl.col("is_replaced") | (pl.col("canonical_id") != pl.col("canonical_before"))
        changed = became.filter(is_other).select("chunk_id")
        named = asked.select("review_id", "chunk_id", other_id=pl.col("candidates").str.extract_all("[0-9a-f]{32}"))
        named = named.explode("other_id")
        naming = pl.concat(
            [named.join(changed, left_on=side, right_on="chunk_id", how="semi") for side in ("chunk_id", "other_id")]
        )
        looked_at = pl.concat([naming.select("review_id"), of_tonight.select("review_id")])
        asked = asked.join(looked_at, on="review_id", how="semi")
        ids = pl.concat([asked["chunk_id"], named.join(looked_at, on="review_id", how="semi")["other_id"]]).unique()
        facts = ["chunk_id", "canonical_id", "superseded_by", "deleted_at"]
        now = became.select("chunk_id", "canonical_id", "superseded_by")
        chunks = self.tonight.chunks(ids.drop_nulls(), facts).select(facts)
        # What is new has its group since tonight.
        chunks = chunks.update(now, on="chunk_id", how="left")
        return closed(asked, chunks, separations.select("pair_id"), at=self.started_at, by=self.run_id)
