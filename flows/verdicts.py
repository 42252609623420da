"""Verdicts on candidate pairs: the judge's, and the second opinion on those that would be merged."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import polars as pl

from flows.confirm import confirmed
from flows.judging import ToRead, judge_pairs
from flows.llm import SecondOpinion, second_opinion
from flows.settings import Settings


def verdicts(
    pairs: pl.DataFrame,
    chunks: pl.DataFrame,
    *,
    settings: Settings,
    tell: Callable[[str], None],
    tell_rows: Callable[[int], None],
    opinion: SecondOpinion | None = None,
    to_read: ToRead | None = None,
) -> pl.DataFrame:
    """The pairs, in their order, each with the judge's verdict, confirmed by [llm] where that is set.

    `pairs` has pair_id, left_id, right_id, scope and similarity; `chunks` has every chunk named there, with chunk_id,
    kind, text, metadata and first_seen_at. Other columns are carried through. Who comes slice by slice brings the
    second opinion along: one that is down is then not asked again for every slice. `to_read` as in `judge_pairs`.
    """
    with ExitStack() as opened:
        if opinion is None:
            # Opened first: a key that is missing is told before the judge has read for an hour.
            opinion = opened.enter_context(second_opinion(settings))
        judge = judge_pairs if to_read is None else partial(judge_pairs, to_read=to_read)
        judged = judge(pairs, chunks, settings=settings.judge, tell=tell, tell_rows=tell_rows)
        return confirmed(judged, chunks, opinion=opinion, settings=settings.judge, tell=tell, tell_rows=tell_rows)
