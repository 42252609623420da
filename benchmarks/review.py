"""How long the review page waits for what it shows: the list and a question, of few and of many open ones.

python -m benchmarks.review [--questions 500 50000] [--times 30]
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from flows.reviews import Choice, Filters, Reviews
from tests.flows.review_warehouse import make_queue
from tests.nights import settings_of

_PAGE = 50


def seconds(work: Callable[[], object], times: int) -> tuple[float, float]:
    """Median and slowest of so many calls, the first left out."""
    work()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken), max(taken)


def measure(folder: Path, questions: int, times: int) -> None:
    started = time.perf_counter()
    make_queue(folder, questions=questions)
    print(f"{questions:,} open questions over {questions * 3:,} chunks, made in {time.perf_counter() - started:.1f} s")
    reviews, dice = Reviews(settings_of(folder)), random.Random(7)
    every = reviews.every(Filters(), scopes=None)
    middle = reviews.page(Filters(), scopes=None, limit=questions // 2).after

    def anyone() -> str:
        return dice.choice(every).review_id

    mine = frozenset({"acme"})
    views: dict[str, Callable[[], object]] = {
        "first page of 50": lambda: reviews.page(Filters(), scopes=None, limit=_PAGE),
        "page of 50 in the middle": lambda: reviews.page(Filters(), scopes=None, cursor=middle, limit=_PAGE),
        "page of 50, one scope, filtered": lambda: reviews.page(
            Filters(relation="unknown", min_similarity=0.9), scopes=mine, limit=_PAGE
        ),
        "page of 50 by text": lambda: reviews.page(Filters(text=f"hall {questions - 1}"), scopes=None, limit=_PAGE),
        "counts": lambda: reviews.counts(Filters(), scopes=None),
        "one question": lambda: reviews.question(anyone(), scopes=None),
        "the one before and after": lambda: reviews.neighbours_in_list(anyone(), Filters(), scopes=None),
    }
    for name, work in views.items():
        median, slowest = seconds(work, times)
        print(f"  {name:<34}{median * 1000:>8.1f} ms   slowest {slowest * 1000:>8.1f} ms")
    left = iter(dice.sample(every, times + 1))
    median, slowest = seconds(
        lambda: reviews.decide([Choice(next(left).review_id, "keep_separate")], by="ana", scopes=None), times
    )
    print(f"  {'a decision written down':<34}{median * 1000:>8.1f} ms   slowest {slowest * 1000:>8.1f} ms")
    started = time.perf_counter()
    applied = reviews.apply_outstanding()
    print(f"  {applied} decisions into the tables and the mart {time.perf_counter() - started:>8.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, nargs="+", default=[500, 50_000])
    parser.add_argument("--times", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for questions in given.questions:
            measure(Path(folder) / str(questions), questions, given.times)


if __name__ == "__main__":
    main()
