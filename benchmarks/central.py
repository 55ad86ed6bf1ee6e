"""Steps of central LightGCN, beside the same steps in plain torch, and the full ranking of a report.

    python benchmarks/central.py [--users 29858] [--items 40981] [--interactions 719081] [--steps 8] [--ranked 1000]

Sizes are those of Gowalla (training part), the data synthetic; d = 64, 3 layers, batches of 2048, Adam. The plain step
is LightGCN with ``torch.sparse.mm`` and autograd over all rows, as public code does it. Turns alternate, and the
fastest of three counts. One JSON line, with the processor:

- ``step_seconds``, ``plain_step_seconds``: seconds per step, by number of threads;
- ``step_cpu_seconds``, ``plain_step_cpu_seconds``: processor seconds per step in one thread;
- ``gain_of_threads``: one thread over two; ``over_plain``: plain over ours, with the faster number of threads each;
- ``cpu_gain_of_threads``: the processor seconds of one thread over those of the calling thread of two, which has all
  that is not divided: the gain that a quiet machine would have;
- ``ranking_seconds``, ``ranking_cpu_seconds``: scores, ranks and metrics of all users, from `ranked` of them, by number
  of threads.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from functools import partial
from unittest import mock

import numpy as np
import torch
from common import emit

from gossiprec.base.machine import processor_name
from gossiprec.compute.executors import central
from gossiprec.compute.local_update import central_epochs
from gossiprec.emulation import prepare
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.scoring.utility import UtilityEvaluator, UtilityOptions
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.scenario import load_scenario

THREADS = (1, 2)
LAYERS, DIM, BATCH = 3, 64, 2048


def world(options: argparse.Namespace, threads: int) -> PreparedRun:
    """Return a prepared run of central LightGCN."""
    data = {"users": options.users, "items": options.items, "interactions": options.interactions}
    split = {"name": "leave_last_k", "test": 1, "validation": 0}
    return prepare(
        load_scenario(
            {
                "name": "central",
                "dataset": {"name": "synthetic", **data, "split": split},
                "model": {"name": "lightgcn", "dim": DIM, "layers": LAYERS},
                "training": {"optimizer": "adam", "batch_size": BATCH, "negatives": 1},
                "protocol": {"name": "central", "epochs": 1},
                "evaluate": {"every": 1, "metrics": ["recall@20"]},
                "executor": {"threads": threads},
            }
        )
    )


def our_steps(prepared: PreparedRun, steps: int) -> Callable[[], None]:
    """Return a function that takes the first steps of an epoch; the draws are taken before."""
    executor, coordinator = prepared.executor, prepared.components.split.n_users
    assert isinstance(executor, central.CentralExecutor)
    work = executor.work
    _, batches = next(central_epochs(work.feed, work.training, coordinator, 0, work.seed))
    first = list(itertools.islice(batches, steps))

    def run() -> None:
        again = mock.patch.object(central, "central_epochs", return_value=[(0, first)])
        with again, single_torch_thread():
            executor._train(coordinator, 0)

    return run


def plain_steps(prepared: PreparedRun, steps: int) -> Callable[[], None]:
    """Return a function that takes as many steps in plain torch."""
    feed, n_items = prepared.executor.work.feed, prepared.components.split.n_items
    graph = InteractionGraph.of(feed.positives, n_items)
    matrix, n_users = graph.matrix, graph.n_users
    rows = np.repeat(np.arange(n_users + n_items), np.diff(matrix.starts))
    places = torch.from_numpy(np.stack([rows, matrix.columns.astype(np.int64)]))
    adjacency = torch.sparse_coo_tensor(
        places, torch.from_numpy(matrix.values), (len(matrix.starts) - 1,) * 2
    )
    adjacency = adjacency.coalesce()
    users, items = (torch.nn.Embedding(n, DIM) for n in (n_users, n_items))
    adam = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.001)
    draw = torch.Generator().manual_seed(0)

    def step() -> None:
        chosen = torch.randint(len(graph.users), (BATCH,), generator=draw)
        user, good = (torch.from_numpy(ends)[chosen] for ends in (graph.users, graph.items))
        bad = torch.randint(n_items, (BATCH,), generator=draw)
        layers = [torch.cat([users.weight, items.weight])]
        for _ in range(LAYERS):
            layers.append(torch.sparse.mm(adjacency, layers[-1]))
        means = torch.stack(layers, dim=1).mean(dim=1)
        of_users, of_items = means[:n_users], means[n_users:]
        gain = (of_users[user] * (of_items[good] - of_items[bad])).sum(1)
        squares = sum(each.square().sum() for each in (users(user), items(good), items(bad)))
        loss = torch.nn.functional.softplus(-gain).mean() + 1e-4 / 2 * squares / BATCH
        adam.zero_grad()
        loss.backward()
        adam.step()

    def run() -> None:
        for _ in range(steps):
            step()

    return run


def seconds(job: Callable[[], object]) -> tuple[float, float, float]:
    """Return the wall seconds of a job, and the processor seconds of all threads and of the calling one."""
    clocks = time.perf_counter, time.process_time, time.thread_time
    begin = [clock() for clock in clocks]
    job()
    wall, cpu, calling = (clock() - first for clock, first in zip(clocks, begin, strict=True))
    return wall, cpu, calling


def fastest(turns: list[tuple[float, float, float]], steps: int) -> tuple[float, ...]:
    """Return the least of each kind of seconds per step."""
    return tuple(min(column) / steps for column in zip(*turns, strict=True))


def ranking(prepared: PreparedRun, threads: int, ranked: int) -> tuple[float, ...]:
    """Return the wall and processor seconds of a full ranking of all users, from some of them."""
    settings = UtilityOptions(threads=threads, sample=ranked)
    utility = UtilityEvaluator(
        prepared.components.split, ["recall@20", "full_ndcg@20"], prepared.executor, 1, settings
    )
    current = prepared.planner.current_rows
    utility.scores_of_all(current, np.arange(8), "test")
    found = fastest([seconds(partial(utility.measure, current)) for _ in range(3)], ranked)
    return tuple(each * prepared.components.split.n_users for each in found)


def main() -> None:
    """Measure and print the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, size in (
        ("users", 29858),
        ("items", 40981),
        ("interactions", 719081),
        ("steps", 8),
        ("ranked", 1000),
    ):
        parser.add_argument(f"--{name}", type=int, default=size)
    options = parser.parse_args()
    runs = {threads: world(options, threads) for threads in THREADS}
    ours = {threads: our_steps(run, options.steps) for threads, run in runs.items()}
    plain = plain_steps(runs[1], options.steps)
    turns: dict[str, list[tuple[float, float, float]]] = {
        f"{who}{n}": [] for who in ("ours", "plain") for n in THREADS
    }
    for _ in range(3):
        for threads in THREADS:
            turns[f"ours{threads}"].append(seconds(ours[threads]))
            torch.set_num_threads(threads)
            turns[f"plain{threads}"].append(seconds(plain))
    found = {name: fastest(each, options.steps) for name, each in turns.items()}
    of_ours, of_plain = ({n: found[f"{who}{n}"][0] for n in THREADS} for who in ("ours", "plain"))
    ranked = {n: ranking(run, n, options.ranked) for n, run in runs.items()}
    emit(
        bench="central", processor=processor_name(), edges=len(runs[1].executor.work.feed.positives.values),
        step_seconds=of_ours, plain_step_seconds=of_plain,
        step_cpu_seconds=found["ours1"][1], plain_step_cpu_seconds=found["plain1"][1],
        gain_of_threads=of_ours[1] / of_ours[2], over_plain=min(of_plain.values()) / min(of_ours.values()),
        cpu_gain_of_threads=found["ours1"][1] / found["ours2"][2],
        ranking_seconds={n: each[0] for n, each in ranked.items()},
        ranking_cpu_seconds={n: each[1] for n, each in ranked.items()},
    )  # fmt: skip


if __name__ == "__main__":
    main()
