"""What must add up before a run is published."""

from dataclasses import dataclass


class DoesNotAddUp(ValueError):
    """Counts that must agree do not; nothing is published."""


@dataclass(frozen=True)
class Tally:
    """What a run counted on its way."""

    rows_in: int
    rows_rejected: int
    rejects_new: int
    occurrences_new: int
    occurrences_known: int
    chunks_new: int
    chunks_touched: int


def check_rows(tally: Tally) -> None:
    """Every row that came in is an occurrence or a reject."""
    out = tally.occurrences_new + tally.occurrences_known + tally.rows_rejected
    if tally.rows_in != out:
        raise DoesNotAddUp(
            f"rows in {tally.rows_in:,} but {tally.occurrences_new:,} new occurrences + "
            f"{tally.occurrences_known:,} known occurrences + {tally.rows_rejected:,} rejects = {out:,}; "
            "nothing was published"
        )


def check_tables(counts: dict[str, int], *, before: dict[str, int], tally: Tally) -> None:
    """The tables as written hold what they held before and what the run added, nothing less and nothing more.

    `counts` and `before` give rows by table, and under `occurrences of chunks` and `occurrences of canonicals` the
    sums that those tables claim.
    """
    expected = {
        "chunks": before["chunks"] + tally.chunks_new,
        "occurrences": before["occurrences"] + tally.occurrences_new,
        "canonicals": counts["chunks"] - counts["variants"],
        "rejects": before["rejects"] + tally.rejects_new,
        "occurrences of chunks": counts["occurrences"],
        "occurrences of canonicals": counts["occurrences"],
    }
    for name, wanted in expected.items():
        if counts[name] != wanted:
            raise DoesNotAddUp(f"{name}: expected {wanted:,}, the tables hold {counts[name]:,}; nothing was published")


def check_reject_share(tally: Tally, *, reasons: dict[str, int], limit: float) -> None:
    """No more than `limit` of the rows were refused: a mapping gone wrong must not pass for a quiet night."""
    if tally.rows_in and tally.rows_rejected / tally.rows_in > limit:
        why = ", ".join(f"{count:,} {rule}" for rule, count in reasons.items())
        raise DoesNotAddUp(
            f"{tally.rows_rejected:,} of {tally.rows_in:,} rows were rejected ({why}), more than [guard] "
            f"max_reject_share = {limit}; nothing was published. Mend the input or its column mapping, or let it "
            "through once with `nightfold run --allow max_reject_share`; --dry-run shows what each change does"
        )


def check_vectors(complete: int, other_version: int, vectors: int) -> None:
    """A chunk with a text is complete exactly when its vector of the current version is there."""
    if other_version or complete != vectors:
        raise DoesNotAddUp(
            f"{complete:,} chunks say they are complete ({other_version:,} of them in another embedding version) and "
            f"{vectors:,} have a vector; nothing was published"
        )
