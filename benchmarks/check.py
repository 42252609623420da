"""How long one row takes to be checked against a large warehouse, in a process that stays open.

    python -m benchmarks.check rows.parquet                      a night on the rows, then one row after the other
    python -m benchmarks.check rows.parquet --warehouse folder   the same on a warehouse that is kept for the next time

Rows of four kinds: one that is there as it is, one with a word put in another's place, one with a word left out, and
one of words shuffled anew. The night judges nothing, since that is not what is measured; the checks judge as usual.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.memory import peak_mib
from benchmarks.unjudged import SCOPE, unjudged
from flows.check import Checker
from flows.settings import Settings
from schemas.rows import ROWS

# Texts as people check them: neither a heading nor a chapter.
_FEWEST_WORDS, _MOST_WORDS = 8, 200


def main() -> None:
    """Parses the command line, makes the warehouse where there is none, and prints the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a parquet file with a text column")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--rows", type=int, default=400_000, help="most rows in the warehouse")
    parser.add_argument("--checks", type=int, default=100, help="rows of each kind")
    parser.add_argument("--warehouse", type=Path, help="where the warehouse is kept; a temporary folder by default")
    asked = parser.parse_args()
    texts = pl.read_parquet(asked.corpus, columns=[asked.text_column]).to_series().rename("text").head(asked.rows)
    with tempfile.TemporaryDirectory(prefix="nightfold-bench-") as folder:
        settings = unjudged(texts, Path(folder), asked.warehouse or Path(folder) / "warehouse")
        _measure(texts, settings, asked.checks)


def _measure(texts: pl.Series, settings: Settings, checks: int) -> None:
    chance = random.Random(7)  # the same rows every time
    usual = texts.filter(texts.str.split(" ").list.len().is_between(_FEWEST_WORDS, _MOST_WORDS))
    asked = {kind: [_row(kind, usual[chance.randrange(len(usual))], chance) for _ in range(checks)] for kind in _KINDS}
    started = time.perf_counter()
    with Checker(settings, tell=lambda _: None) as checker:
        # The first of each kind opens what stays open: the encoder, the reader, the tables.
        for rows in asked.values():
            checker.check(rows[0])
        print(f"opened, and the first of each kind checked: {time.perf_counter() - started:.1f} s\n")
        print(f"{'one row':<22}{'median ms':>10}{'p95 ms':>8}{'worst ms':>10}{'cpu ms':>8}   actions")
        for kind, rows in asked.items():
            times, actions, cpu = [], [], time.process_time()
            for row in rows:
                started = time.perf_counter()
                found = checker.check(row)
                times.append(1000 * (time.perf_counter() - started))
                actions.append(found["action"].item())
            cpu = 1000 * (time.process_time() - cpu) / len(rows)
            said = ", ".join(f"{name} {actions.count(name)}" for name in sorted(set(actions)))
            figures = f"{np.median(times):>10.0f}{np.quantile(times, 0.95):>8.0f}{max(times):>10.0f}{cpu:>8.0f}"
            print(f"{kind:<22}{figures}   {said}")
        print(f"\nmemory at most {peak_mib():,.0f} MiB")


_KINDS: dict[str, Callable[[list[str], random.Random], list[str]]] = {
    "as it is there": lambda words, _: words,
    "another word": lambda words, chance: _put(words, chance.randrange(len(words)), "elsewhere"),
    "a word less": lambda words, chance: _put(words, chance.randrange(len(words)), None),
    "the words shuffled": lambda words, chance: chance.sample(words, len(words)),
}


def _put(words: list[str], at: int, word: str | None) -> list[str]:
    return [*words[:at], *([word] if word else []), *words[at + 1 :]]


def _row(kind: str, text: str, chance: random.Random) -> pl.DataFrame:
    """A row as the door lets it in."""
    said = " ".join(_KINDS[kind](text.split(" "), chance))
    name = str(chance.randrange(10**9))
    row = {"scope": SCOPE, "kind": "text", "source": "check", "source_row_id": name, "locator": name}
    return ROWS.shaped(pl.DataFrame([row | {"text": said, "metadata": "{}"}]))


if __name__ == "__main__":
    main()
