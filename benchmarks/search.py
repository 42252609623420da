"""How fast a filtered search answers from a warm process, and how much of the exact answer it finds.

    python -m benchmarks.search rows.parquet --warehouse /tmp/search

The rows (a parquet file with a column `text`) go to eight global corpora of one workspace and to three hundred personal
ones; without a judge, for it is the search that is measured. A warehouse that is there already is searched as it is.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np
import polars as pl

from flows.console import Progress
from flows.night import night
from flows.retrieval import Retrieval
from flows.search import Searcher
from flows.settings import load_settings
from flows.vectors import Vectors

_GLOBAL, _PERSONAL, _PERSONAL_SHARE = 8, 300, 0.1
_QUERIES, _K = 100, 10
# Who asks, and for how many of the global corpora the agent answers.
_AGENTS = {"one corpus": 1, "three corpora": 3, "all corpora": _GLOBAL}


def _make(corpus: Path, folder: Path) -> None:
    """One night over the rows, each in a corpus by chance; the chance is the same every time."""
    rows = pl.read_parquet(corpus, columns=["text"]).with_row_index("id")
    chance = np.random.default_rng(1)
    names = np.array([f"shared-{n}" for n in chance.integers(0, _GLOBAL, rows.height)], dtype=object)
    own = chance.random(rows.height) < _PERSONAL_SHARE
    names[own] = [f"notes-{n}" for n in chance.integers(0, _PERSONAL, own.sum())]
    folder.mkdir(parents=True, exist_ok=True)
    rows.with_columns(corpus_id=pl.Series(names.tolist())).write_parquet(folder / "rows.parquet")
    shared = [(f"shared-{n}", "global", None, "work") for n in range(_GLOBAL)]
    notes = [(f"notes-{n}", "personal", f"user-{n}", None) for n in range(_PERSONAL)]
    columns = ["corpus_id", "type", "owner_id", "workspace_id"]
    pl.DataFrame([*shared, *notes], schema=dict.fromkeys(columns, pl.String), orient="row").write_csv(
        folder / "corpora.csv"
    )
    pl.DataFrame({"agent_id": list(_AGENTS), "allows_personal_corpus": True}).write_csv(folder / "agents.csv")
    given = [(f"shared-{n}", agent) for agent, count in _AGENTS.items() for n in range(count)]
    pl.DataFrame(given, schema=["corpus_id", "agent_id"], orient="row").write_csv(folder / "assignments.csv")
    tables = {name: str(folder / f"{name}.csv") for name in ("corpora", "agents", "assignments")}
    settings = load_settings(
        Path(os.devnull),
        over={
            "inputs": [{"path": str(folder / "rows.parquet"), "name": "rows"}],
            "warehouse": {"path": str(folder / "warehouse")},
            "corpora": tables,
            "judge": {"enabled": False},
        },
    )
    night(settings, progress=Progress())


def _queries(folder: Path) -> list[str]:
    """Half of each of some texts: what is asked is near to something, and the same as nothing."""
    texts = pl.read_parquet(folder / "rows.parquet", columns=["text"])["text"]
    said = texts.filter(texts.str.len_chars() > 80).sample(_QUERIES, seed=2)
    return [text[: len(text) // 2] for text in said]


class _Exact:
    """Every vector of the retrieval table, to be multiplied with a query."""

    def __init__(self, searcher: Searcher) -> None:
        warehouse = searcher.warehouse
        run = warehouse.published()
        assert run is not None  # it was searched
        in_use = run.neighbours["embedding"]
        table = Retrieval(warehouse, Vectors(warehouse, in_use["version"], in_use["dimensions"])).published(run)
        assert table is not None  # there are corpora
        rows = pl.from_arrow(table.to_table(columns=["chunk_id", "corpus_id", "vector"]))
        assert isinstance(rows, pl.DataFrame)  # a table never comes back as a Series
        self.rows = rows.drop("vector")
        self.vectors = rows["vector"].to_numpy().reshape(rows.height, in_use["dimensions"])

    def scores(self, vector: list[float], corpora: pl.Series) -> list[float]:
        """The best scores there are, one a chunk (nothing was merged)."""
        mine = self.rows["corpus_id"].is_in(corpora.implode()).to_numpy()
        dots = self.vectors[mine] @ np.array(vector, dtype=np.float32)
        best = self.rows.filter(pl.Series(mine)).with_columns(score=pl.Series(dots)).group_by("chunk_id")
        return best.agg(pl.col("score").max())["score"].sort(descending=True).head(_K).to_list()


def main() -> None:
    """Prints a table: who asks, rows of the filter, milliseconds by the clock and of both cores, and recall."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("corpus", type=Path, help="a parquet file with a column text")
    arguments.add_argument("--warehouse", type=Path, required=True, metavar="DIR", help="a folder to make it in")
    given = arguments.parse_args()
    if not (given.warehouse / "warehouse" / "mart.duckdb").exists():
        _make(given.corpus, given.warehouse)
    searcher = Searcher(given.warehouse / "warehouse")
    queries = _queries(given.warehouse)
    started = time.perf_counter()
    searcher.search(queries[0], agent="one corpus", user="user-1")
    print(f"opened, model included, in {time.perf_counter() - started:.1f} s\n")
    exact = _Exact(searcher)
    print(f"{'who asks':<28}{'rows':>9}{'median ms':>11}{'p95 ms':>9}{'cpu ms':>9}{'recall@10':>11}")
    for agent in _AGENTS:
        for user in ("user-1", "stranger"):
            _measure(searcher, exact, queries, agent=agent, user=user)


def _measure(searcher: Searcher, exact: _Exact, queries: list[str], *, agent: str, user: str) -> None:
    corpora = searcher.visible_corpora(agent=agent, user=user)["corpus_id"]
    rows = int(exact.rows["corpus_id"].is_in(corpora.implode()).sum())
    taken: list[float] = []
    worked: list[float] = []
    recalls: list[float] = []
    for query in queries:
        started, cpu = time.perf_counter(), time.process_time()
        hits = searcher.search(query, agent=agent, user=user, k=_K, min_score=0)
        taken.append((time.perf_counter() - started) * 1000)
        worked.append((time.process_time() - cpu) * 1000)
        wanted = exact.scores(searcher.vector(query), corpora)
        # By score: of rows as near as the last of the ten, any will do.
        recalls.append(sum(hit.score >= wanted[-1] - 1e-5 for hit in hits) / len(wanted))
    p95 = statistics.quantiles(taken, n=20)[-1]
    who = f"{agent}, {'and own' if user == 'user-1' else 'no own'}"
    print(
        f"{who:<28}{rows:>9,}{statistics.median(taken):>11.1f}{p95:>9.1f}"
        f"{statistics.median(worked):>9.1f}{statistics.mean(recalls):>11.4f}"
    )


if __name__ == "__main__":
    main()
