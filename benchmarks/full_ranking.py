"""The cost of ranking all items for all users, for clients without a model.

    python benchmarks/full_ranking.py [--users 6040] [--items 3706] [--interactions 1000209] [--threads 2] [--model ncf]

NCF (d = 32, hidden layers 64, 32, 16) at the size of MovieLens-1M, 80/20, Recall@20 and NDCG@20 of one report. One JSON
line:

- ``seconds``, ``cpu_seconds``: per report (best of several), wall time and time of all threads.
- ``matmul_seconds``: only the matrix products that cannot be shared among users or items, in one thread.
- ``over_matmul``: ``cpu_seconds`` over ``matmul_seconds``.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
import torch
from common import emit

from gossiprec.emulation import prepare
from gossiprec.emulation.scoring.utility import UtilityEvaluator, UtilityOptions
from gossiprec.scenario import Scenario, load_scenario

METRICS = ("recall@20", "full_ndcg@20")


def world(options: argparse.Namespace) -> Scenario:
    """Return the scenario: one slice of clients."""
    data = {"users": options.users, "items": options.items, "interactions": options.interactions}
    split = {"name": "random", "test": 0.2, "validation": 0}
    return load_scenario(
        {
            "name": "full-ranking",
            "dataset": {"name": "synthetic", **data, "split": split},
            "model": {"name": options.model, "dim": 32},
            "protocol": {
                "name": "fedavg", "rounds": 1, "participation": 8 / options.users, "client_model": "none",
            },
            "evaluate": {"every": 1, "metrics": list(METRICS)},
            "executor": {"name": "batched", "threads": options.threads, "device": "cpu"},
        }
    )  # fmt: skip


def matmul_seconds(n_users: int, n_items: int) -> float:
    """Return the seconds of the matrix products after the first layer for all pairs, in one thread."""
    torch.set_num_threads(1)
    widths = (64, 32, 16, 1)
    pairs = [(torch.randn(n_items, n), torch.randn(m, n).T) for n, m in itertools.pairwise(widths)]
    best = np.inf
    for _ in range(20):
        begin = time.perf_counter()
        for values, weight in pairs:
            torch.mm(values, weight)
        best = min(best, time.perf_counter() - begin)
    return n_users * float(best)


def main() -> None:
    """Measure and print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=6040)
    parser.add_argument("--items", type=int, default=3706)
    parser.add_argument("--interactions", type=int, default=1_000_209)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default="ncf")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    scenario = world(options)
    prepared = prepare(scenario)
    utility = UtilityEvaluator(
        prepared.components.split,
        METRICS,
        prepared.executor,
        scenario.seed,
        UtilityOptions(threads=options.threads),
    )
    times = []
    for _ in range(options.repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        found = utility.measure(prepared.planner.current_rows)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    alone = matmul_seconds(options.users, options.items)
    seconds, cpu = (min(column) for column in zip(*times, strict=True))
    emit(
        bench="full_ranking", model=options.model, threads=options.threads, users=options.users,
        items=options.items, seconds=seconds, cpu_seconds=cpu, matmul_seconds=alone, over_matmul=cpu / alone, **found,
    )  # fmt: skip


if __name__ == "__main__":
    main()
