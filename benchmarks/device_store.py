"""The gain from keeping models on the device on which ``batched`` trains them.

    python benchmarks/device_store.py [--device cuda] [--scenario scenarios/rand_gossip.yaml] [--set KEY=VALUE ...]

Executes the plans of a gossip run with the executor ``batched``, with models on the device and with models on the host,
from which each stack moves to the device and back. Both execute the same plans, in turn. There are no observers, except
with ``--watched``. With ``--device cpu`` the device is the CPU with tensors of its own: this checks the code and
measures nothing about a GPU. One JSON line:

- ``device_s``, ``host_s``: seconds of wall time for all plans; medians.
- ``training_s``: the same local updates only, one stack after the other, with samples drawn in advance.
- ``host_over_device``, ``device_over_training``, ``host_over_training``: ratios; medians over the rounds.
- ``waves``, ``updates``: number of waves and updates per round.
- ``fetched``, ``brought``: rows copied to the host and to the device in the last round; ``first_brought``: before it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from common import emit, median, say

from gossiprec.base.machine import ThreadPool
from gossiprec.compute.executors.batched import BatchedExecutor
from gossiprec.compute.executors.tensors import UpdateStack
from gossiprec.compute.plan.program import ExecutionPlan
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.device_arena import DeviceArena
from gossiprec.compute.waves import WaveOptions, WaveRunner
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[1]


def planned(options: argparse.Namespace) -> tuple[PreparedRun, list[ExecutionPlan]]:
    """Return a run before its start, and its plans."""
    changes = [f"protocol.wakes={options.wakes}", "executor={name: batched, device: cpu}", *options.set]
    if not options.watched:
        changes.append("observers=[]")
    prepared = prepare(load_scenario(options.scenario, changes))
    plans: list[ExecutionPlan] = []
    for _ in prepared.schedule.play(lambda segment: plans.append(prepared.planner.plan(segment))):
        pass
    return prepared, plans


def executor_on(prepared: PreparedRun, device: torch.device, *, stays: bool) -> BatchedExecutor:
    """Return an executor with the run's first models, on a device or on the host."""
    work, n_nodes = prepared.executor.work, prepared.components.protocol.n_nodes
    moments, capacity = len(work.arena.first) > 0, prepared.planner.capacity
    arena = (
        DeviceArena(work.layout, n_nodes=n_nodes, capacity=capacity, moments=moments, device=device)
        if stays
        else Arena(work.layout, n_nodes=n_nodes, capacity=capacity, moments=moments)
    )
    arena.rows[:n_nodes] = work.arena.rows[:n_nodes]
    return BatchedExecutor(replace(work, arena=arena), device.type)


def stacks_of(executor: BatchedExecutor, plans: list[ExecutionPlan]) -> list[UpdateStack]:
    """Draw the samples of all local updates."""
    found: list[UpdateStack] = []
    for plan in plans:
        offsets = plan.task_offsets.tolist()
        for low, high in itertools.pairwise(offsets):
            tasks = plan.order[low:high]
            found += executor._stacks(plan.program, tasks[plan.program.update[tasks] >= 0])
    return found


def carry_out(runner: WaveRunner, plans: list[ExecutionPlan]) -> None:
    """Merge and train like a run."""
    for plan in plans:
        runner.run(plan)


def train(executor: BatchedExecutor, stacks: list[UpdateStack]) -> None:
    """Train only."""
    with single_torch_thread():
        for stack in stacks:
            executor._train(stack)


def seconds(work: Callable[[], None], device: torch.device) -> float:
    """Return the seconds that some work takes until the device has finished it."""
    begin = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def main() -> None:
    """Measure in rounds and print the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--scenario", type=Path, default=ROOT / "scenarios" / "rand_gossip.yaml")
    parser.add_argument("--wakes", type=int, default=10)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--watched", action="store_true", help="keep the scenario's observers")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device; --device cpu shows that it works, and nothing of a GPU")
    device = torch.device(options.device)
    prepared, plans = planned(options)
    executors = {stays: executor_on(prepared, device, stays=stays) for stays in (True, False)}
    runners = {
        stays: WaveRunner(executor, prepared.meters, WaveOptions(threads=ThreadPool(1), wave_size=None))
        for stays, executor in executors.items()
    }
    bare = executor_on(prepared, device, stays=True)
    stacks = stacks_of(bare, plans)
    jobs: dict[str, Callable[[], None]] = {
        "device": partial(carry_out, runners[True], plans),
        "host": partial(carry_out, runners[False], plans),
        "training": partial(train, bare, stacks),
    }
    arena = executors[True].work.arena
    assert isinstance(arena, DeviceArena)
    say("warming up")
    for job in jobs.values():
        seconds(job, device)
    first = arena.n_brought
    rounds = []
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        before = (arena.n_fetched, arena.n_brought)
        order = list(jobs) if number % 2 == 0 else list(reversed(jobs))
        rounds.append({name: seconds(jobs[name], device) for name in order})
    emit(
        bench="device_store", device=options.device, watched=options.watched,
        nodes=prepared.components.protocol.n_nodes, waves=sum(len(plan.task_offsets) - 1 for plan in plans),
        updates=int(sum(np.count_nonzero(plan.program.update >= 0) for plan in plans)),
        **{f"{name}_s": median([each[name] for each in rounds]) for name in jobs},
        host_over_device=median([each["host"] / each["device"] for each in rounds]),
        device_over_training=median([each["device"] / each["training"] for each in rounds]),
        host_over_training=median([each["host"] / each["training"] for each in rounds]),
        fetched=arena.n_fetched - before[0], brought=arena.n_brought - before[1], first_brought=first,
    )  # fmt: skip


if __name__ == "__main__":
    main()
