"""The traffic between shards, and the speed of reading, writing and training rows.

    python benchmarks/shards.py [--nodes 1000,4000] [--shards 2,4,16] [--rounds 20] [--items 800] [--graph K]

Plans runs of gossip (fan-out 3, GMF of 8 dimensions, no observers) as shard 0 does, and computes nothing, so the counts
are exact. One JSON line for each number of nodes and shards:

- ``waves``: waves per round; ``rows_per_wave``, ``most_rows``: mean and largest number of rows that shard 0 sends in a
  wave.
- ``mib_per_round``: sent by shard 0 in a round; ``rows_per_own_node``: rows that it sends in a round per node of its
  own.
- ``rows_held``: rows in the memory of shard 0 at the end of the plan, per node of its own; the rows of other nodes are
  freed then.
- ``plan_s``, ``routes_s``: seconds of processor time per round for planning and for finding the rows to send.

Then one line with rates of one thread: ``updates_per_s`` of nodes trained by ``fused``, and ``gib_per_s`` of rows
gathered for a batch and written from one. ``--graph K``: a ring of K neighbours instead of views drawn in each round.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import emit, say


def scenario_of(nodes: int, items: int, rounds: int, ring: int | None, **executor: Any) -> dict[str, Any]:
    """Return a gossip scenario with the given number of nodes and one report."""
    view = {"size": 3, "refresh": {"every": 1}} if ring is None else {"graph": {"family": "ring", "k": ring}}
    data = {
        "name": "synthetic",
        "users": nodes,
        "items": items,
        "interactions": 30 * nodes,
        "split": {"name": "published"},
    }
    return {
        "name": "shards", "seed": 1, "plots": False, "dataset": data,
        "model": {"name": "gmf", "dim": 8},
        "protocol": {"name": "rand-gossip", "fanout": 3, "view": view, "wakes": rounds},
        "evaluate": {"every": rounds, "metrics": ["hr@20"]}, "executor": executor,
    }  # fmt: skip


def planned(nodes: int, shards: int, items: int, rounds: int, ring: int | None) -> None:
    """Plan a run as shard 0 of the given number of shards, and return the counts of sent rows."""
    from gossiprec.compute.shards import InProcessChannel, Mailbox, ShardContext
    from gossiprec.emulation import prepare
    from gossiprec.emulation.carriers.shards.leader import Shard
    from gossiprec.scenario import load_scenario

    executor = {"name": "ray", "shards": shards, "inner": "reference", "threads": 1}
    scenario = load_scenario(scenario_of(nodes, items, rounds, ring, **executor))
    seat = ShardContext(0, shards, InProcessChannel(0, [Mailbox()]))
    prepared = prepare(scenario, carrier=Shard(seat))
    waves, by_wave, plan_s, routes_s = 0, [0], 0.0, 0.0
    for tick in prepared.schedule.play(lambda segment: None):
        begin = time.process_time()
        plan = prepared.planner.plan(tick.segment)
        plan_s += time.process_time() - begin
        begin = time.process_time()
        route = seat.routes.shard_plan(plan)
        routes_s += time.process_time() - begin
        counts = np.zeros(len(route.waves) + 1, np.int64)
        for batches in route.outgoing.values():
            for batch in batches:
                counts[batch.wave] += len(batch.rows)
        by_wave += counts[: len(route.waves)].tolist()
        waves += len(route.waves)
    held = int(seat.routes.holds(np.arange(prepared.planner.rows_used)).sum())
    row_bytes = prepared.components.layout.row_size * 4
    emit(
        nodes=nodes, shards=shards, ring=ring, row_kib=row_bytes / 1024, waves=waves / rounds,
        rows_per_wave=sum(by_wave) / waves, most_rows=max(by_wave),
        mib_per_round=sum(by_wave) * row_bytes / rounds / 2**20,
        rows_per_own_node=sum(by_wave) / rounds / (nodes / shards),
        rows_held=held / (nodes / shards),
        plan_s=plan_s / rounds, routes_s=routes_s / rounds,
    )  # fmt: skip


def rates(items: int, rounds: int) -> None:
    """Train some nodes with one thread, and copy their rows."""
    from gossiprec.emulation import prepare
    from gossiprec.emulation.progress import Stopwatch
    from gossiprec.scenario import load_scenario

    nodes = 500
    prepared = prepare(load_scenario(scenario_of(nodes, items, rounds, None, name="fused", threads=1)))
    runner = prepared.tape_runner(Stopwatch())
    begin = time.process_time()
    for _ in prepared.schedule.play(runner.run_segment):
        pass
    updates_per_s = float(prepared.planner.update_counts.sum()) / (time.process_time() - begin)
    rows = prepared.executor.work.arena.rows
    some = np.random.default_rng(0).permutation(nodes)
    begin, copied = time.process_time(), 0
    for _ in range(20):
        batch = rows[some]
        rows[some] = batch
        copied += 2 * batch.nbytes
    emit(updates_per_s=updates_per_s, gib_per_s=copied / (time.process_time() - begin) / 2**30)


def numbers(text: str) -> list[int]:
    """Return the numbers in a comma-separated list."""
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Measure and print the lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=numbers, default=[1000, 4000])
    parser.add_argument("--shards", type=numbers, default=[2, 4, 16])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--items", type=int, default=800)
    parser.add_argument("--graph", type=int, metavar="K")
    asked = parser.parse_args()
    for nodes in asked.nodes:
        for shards in asked.shards:
            say(f"{nodes} nodes, {shards} shards")
            planned(nodes, shards, asked.items, asked.rounds, asked.graph)
    rates(asked.items, asked.rounds)


if __name__ == "__main__":
    main()
