"""How near a run came to its guards."""

import polars as pl
import pytest

from transforms.headroom import Headroom, removed_shares


@pytest.mark.parametrize(
    ("figure", "limit", "used", "is_near"),
    [
        (0.4, 0.5, 0.8, True),
        (0.39, 0.5, 0.78, False),
        (None, 0.5, None, False),
        (0.0, 0.0, 0.0, False),
        (0.1, 0.0, 1.0, True),
        (7.0, 5.0, 1.4, True),
    ],
)
def test_a_guard_is_near_its_limit_from_four_fifths_of_it(
    figure: float | None, limit: float, used: float | None, is_near: bool
) -> None:
    seen = Headroom("max_removed_share", "a source", figure, limit)
    assert seen.used == (None if used is None else pytest.approx(used))
    assert seen.is_near is is_near


def test_the_share_taken_is_of_what_would_be_shown_without_tonights_merges() -> None:
    chunks = pl.DataFrame(
        {
            "chunk_id": ["a", "b", "c", "d", "e"],
            "source": ["one", "one", "one", "two", "two"],
            "scope": ["s", "s", "s", "s", "t"],
        }
    )
    shares = removed_shares(chunks, pl.Series(["a"]), pl.Series(["b"]))
    assert shares.rows() == [
        ("source", "one", 2, 1, 0.5),
        ("scope", "s", 3, 1, pytest.approx(1 / 3)),
        ("scope", "t", 1, 0, 0.0),
        ("source", "two", 2, 0, 0.0),
    ]


def test_without_chunks_nothing_is_taken() -> None:
    nothing = pl.DataFrame(schema={"chunk_id": pl.String, "source": pl.String, "scope": pl.String})
    none = pl.Series([], dtype=pl.String)
    assert removed_shares(nothing, none, none).is_empty()
