"""Who is shown what: the one rule of the search, and word for word that of the macros in flows/mart_visibility.sql."""

import polars as pl

from schemas.terms import GLOBAL, PERSONAL

# What is known of a corpus that somebody may see.
VISIBLE_CORPORA = pl.Schema(dict.fromkeys(("corpus_id", "scope", "type", "name"), pl.String))


def visible_corpora(
    corpora: pl.DataFrame, agents: pl.DataFrame, assignments: pl.DataFrame, *, agent: str | None, user: str | None
) -> pl.DataFrame:
    """The active corpora that this agent shows this user, in the order of their ids: the global ones it is assigned,
    and where it allows personal ones the user's own.

    A personal corpus that somebody assigned is shown by the agents it was assigned to; one that nobody did, by every
    agent that allows personal ones. An agent with a workspace shows only what is of that, and personal ones of none.
    Nobody and an agent that is not there are shown nothing.
    """
    asked = agents.filter(pl.col("agent_id") == agent) if agent and user else agents.clear()
    if asked.is_empty():
        return pl.DataFrame(schema=VISIBLE_CORPORA)
    mine = assignments.filter(pl.col("agent_id") == agent)["corpus_id"]
    is_mine = pl.col("corpus_id").is_in(mine.implode())
    workspace = pl.lit(asked["workspace_id"][0], dtype=pl.String)
    is_here = workspace.is_null() | (pl.col("workspace_id") == workspace)
    is_global = (pl.col("type") == GLOBAL) & is_mine & is_here
    is_own = (
        (pl.col("type") == PERSONAL)
        & (pl.col("owner_id") == user)
        & pl.lit(asked["allows_personal_corpus"][0], dtype=pl.Boolean)
        & (is_mine | ~pl.col("is_assigned"))
        & (is_here | pl.col("workspace_id").is_null())
    )
    return corpora.filter(pl.col("is_active") & (is_global | is_own)).select(VISIBLE_CORPORA.names()).sort("corpus_id")


def held_in(chunks: pl.DataFrame, occurrences: pl.DataFrame, corpora: pl.DataFrame) -> pl.DataFrame:
    """The rows in these corpora of chunks that may be shown.

    `chunks` are all chunks of some groups (canonical_id, chunk_id, stands, is_out: superseded or deleted),
    `occurrences` their rows (occurrence_id, chunk_id, scope, corpus_id, seen_at), `corpora` as of `visible_corpora`.
    A chunk that is out is never shown, nor is any of a group whose standing chunk is. A row that is behind another wall
    than its corpus is in none.
    """
    is_gone = pl.col("is_out").filter(pl.col("stands")).any().over("canonical_id")
    may_show = chunks.filter(~is_gone & ~pl.col("is_out")).select("chunk_id", "canonical_id", "stands")
    mine = occurrences.join(corpora, on=["corpus_id", "scope"], how="inner", nulls_equal=True)
    return mine.join(may_show, on="chunk_id", how="inner")


def visible_chunks(held: pl.DataFrame) -> pl.DataFrame:
    """One row for each group that these rows (of `held_in`) are of, in the order of canonical ids: the chunk to show,
    and what is known of it there.

    Shown is the chunk that stands for the group where one of the rows says it, else the one that they said first.
    Counts and times are of these rows alone.
    """
    first_seen = pl.col("seen_at").min().over("chunk_id")
    # Of the chunk that is shown, the row that said it first tells where it is from.
    in_order = held.sort("canonical_id", ~pl.col("stands"), first_seen, "chunk_id", "seen_at", "occurrence_id")
    return in_order.group_by("canonical_id", maintain_order=True).agg(
        pl.col("chunk_id", "scope", "occurrence_id", "corpus_id", "type", "name").first(),
        corpus_ids=pl.col("corpus_id").unique().sort(),
        occurrences=pl.len().cast(pl.Int64),
        first_seen_at=pl.col("seen_at").min(),
        last_seen_at=pl.col("seen_at").max(),
    )
