"""The speed of the emulator, compared with a naive loop and with its own kernels.

One process, MovieLens-100k shape, the main job (all nodes as single observers, three coalitions, log), shortened::

    python benchmarks/engine.py [--wakes 60] [--rounds 3] [--threads 2] [--network full] [--processor]
                                [--kernels COMMIT]

prints one JSON line. The three are measured in turn, several times; medians.

- ``naive_per_s``: local epochs per second with one set of parameters and one torch.optim.Adam per node, one thread.
- ``emulator_per_s``: local epochs per wall second of the whole run after loading and compiling: engine, planning,
  waves, merges, observers, log, evaluation.
- ``kernel_per_s``: only the compiled kernels on the same work (the same local epochs, merges and observations, all in
  memory), without engine, waves, log or evaluation.
- ``training_kernel_per_s``: only the local epochs, without merges and observers.
- ``waves_per_s``: the kernels on the same work wave by wave, as a run calls them; what a run does besides is the rest.
- ``speedup`` = emulator / naive; ``fraction_of_bound`` = emulator / kernel; ``engine_share``: part of the emulator's
  wall time in SimPy, planning and bookkeeping.

With ``--kernels COMMIT`` only the last three are measured, also with the code of another commit (or of the folder of a
checkout) on the same work, in turn; ``kernel_ratio``, ``waves_ratio`` and ``training_ratio`` are the present code's
rate over the other's, in the same round.

With ``--processor`` and one thread all times are processor time, for a machine that is busy with other work.

With ``--network full`` the emulator runs with lognormal latencies, bandwidth shared at both ends, loss, and nodes that
go offline and return (a fifth is offline at any time); the plain network is measured for comparison:

- ``plain_engine_share``: the engine's share in the plain network; ``share_ratio`` = engine_share / plain_engine_share.
- ``engine_seconds``, ``plain_engine_seconds``: the same in seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import emit, median, rate, say
from trees import checkout

from gossiprec import simulate
from gossiprec.compute.executors import ExecutorContext
from gossiprec.compute.executors.tensors import table_views, to_tensor
from gossiprec.compute.local_update import draw_order
from gossiprec.compute.plan.program import ExecutionPlan, Program
from gossiprec.compute.waves import FiniteCheck, WaveOptions, WaveRunner
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.scenario import Scenario, load_scenario

ROOT = Path(__file__).resolve().parents[1]


FULL = [
    "network.latency={law: lognormal, median: 0.05, sigma: 0.5}",
    "network.bandwidth={up: 1.0e+6, down: 2.0e+6}",
    "network.loss=0.01",
    "churn.sessions={online: {law: exponential, mean: 8}, offline: {law: weibull, scale: 2.256758, shape: 2}}",
]
"""A message of the main job has 54 kB: it takes 0.05 of a mean wake period alone, and three share the upload."""


def naive(work: ExecutorContext, nodes: range) -> int:
    """Train some nodes for one local epoch each, in a plain torch loop."""
    model, layout, training = work.model, work.layout, work.training
    user, epochs = torch.zeros(1, dtype=torch.long), 0
    for node in nodes:
        row = torch.from_numpy(work.arena.rows[node].copy())
        tables = {name: torch.nn.Parameter(part.clone()) for name, part in table_views(layout, row).items()}
        optimizer = torch.optim.Adam(tables.values(), lr=training.learning_rate)
        columns = work.feed.samples(node, update=0, negatives=training.negatives, seed=work.seed)
        samples = {name: to_tensor(column) for name, column in columns.items()}
        n_samples = len(samples["items"])
        order = torch.from_numpy(draw_order(n_samples, node, epoch=0, seed=work.seed))
        for some in order.split(training.batch_size or n_samples):
            optimizer.zero_grad()
            batch = {name: column[some] for name, column in samples.items()}
            weights = torch.ones(len(some))
            model.loss(layout.blocks_by_name(tables), {**batch, "user": user, "weights": weights}).backward()
            optimizer.step()
        epochs += 1
    return epochs


def bare(prepared: PreparedRun, plans: list[ExecutionPlan], *, training_only: bool) -> int:
    """Run the tasks of some plans in any order: this measures their time, not their result."""
    threads, epochs = prepared.threads, 0
    for plan in plans:
        program = _training_of(plan.program) if training_only else plan.program
        tasks = np.flatnonzero(program.update >= 0) if training_only else plan.order

        def share(
            part: int, program: Program = program, tasks: Any = tasks, plan: ExecutionPlan = plan
        ) -> None:
            mine = tasks[part :: threads.size]
            rows = prepared.executor.work.arena.rows
            if not training_only:
                seen = threads.part_range(len(plan.pool_deliveries.pool), part)
                for meter in prepared.meters:
                    meter.observe(rows, program, mine)
                    meter.observe_pools(rows, plan.pool_deliveries, seen.start, seen.stop)
            prepared.executor.run(program, mine)

        threads.run(share)
        epochs += int((program.update >= 0).sum())
    return epochs


def in_waves(prepared: PreparedRun, plans: list[ExecutionPlan]) -> int:
    """Run the plans as a run does: all threads end a wave before the next one."""
    check = FiniteCheck(prepared.executor)
    runner = WaveRunner(
        prepared.executor, prepared.meters, WaveOptions(prepared.threads, wave_size=None, check=check)
    )
    for plan in plans:
        runner.run(plan)
    return sum(int((plan.program.update >= 0).sum()) for plan in plans)


def _training_of(program: Program) -> Program:
    """Return the local updates of a program in place, without their merges."""
    none = np.zeros(len(program.node) + 1, np.int64)
    node = program.node
    return Program(
        node, node, node, program.update, none, program.merge_row, program.merge_keep, program.merge_message
    )


def emulate(scenario: Scenario, folder: Path) -> tuple[float, float, float]:
    """Run the emulator; return local epochs per second, the share of the engine, and its seconds."""
    summary = simulate(scenario, out=folder / "run", overwrite=True).summary
    assert summary is not None
    seconds = summary["seconds"]
    wall = summary["wall_seconds"] - seconds["compile"] - seconds["load"]
    engine = seconds["control"] + seconds["plan"] + seconds["bookkeeping"]
    return summary["node_updates"] / wall, engine / wall, engine


def _beside_plain(found: dict[str, list[float]]) -> dict[str, float]:
    """Return the engine's cost in the plain network, and the ratio of the costs."""
    ratios = [share / plain for share, plain in zip(found["share"], found["plain_share"], strict=True)]
    return {
        "plain_engine_share": median(found["plain_share"]),
        "plain_engine_seconds": median(found["plain_seconds"]),
        "share_ratio": median(ratios),
    }


class Kernels:
    """The kernels of a run, on the work of the whole run."""

    def __init__(self, scenario: Scenario) -> None:
        self.prepared = prepare(scenario)
        ticks = self.prepared.schedule.ticks  # type: ignore[attr-defined]  # a run on one machine holds them all
        self.plans = [self.prepared.planner.plan(tick.segment) for tick in ticks]
        self.prepared.executor.work.arena.grow(self.prepared.planner.capacity)
        bare(self.prepared, self.plans, training_only=False)

    def rates(self) -> dict[str, float]:
        """Return local epochs per second of each way of running the kernels."""
        ways: dict[str, Callable[[], int]] = {
            "kernel": lambda: bare(self.prepared, self.plans, training_only=False),
            "waves": lambda: in_waves(self.prepared, self.plans),
            "training": lambda: bare(self.prepared, self.plans, training_only=True),
        }
        return {name: rate(work) for name, work in ways.items()}


def serve(kernels: Kernels) -> None:
    """Measure once for each line of the standard input; print the rates as a line."""
    print(flush=True)
    for _ in sys.stdin:
        print(json.dumps(kernels.rates()), flush=True)


def compare(scenario: Scenario, other: str, rounds: int) -> dict[str, float]:
    """Return the rates of the present kernels, and their ratios to those of a commit or checkout."""
    found: dict[str, list[float]] = defaultdict(list)
    with contextlib.nullcontext(Path(other)) if Path(other).is_dir() else checkout(other) as tree:
        words = [sys.executable, __file__, "--serve", *sys.argv[1:]]
        environment = {**os.environ, "PYTHONPATH": str(tree.resolve())}
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        ) as old:
            assert old.stdin is not None
            assert old.stdout is not None
            old.stdout.readline()
            kernels = Kernels(scenario)
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                new = kernels.rates()
                print(file=old.stdin, flush=True)
                for name, speed in json.loads(old.stdout.readline()).items():
                    found[f"{name}_per_s"].append(new[name])
                    found[f"{name}_ratio"].append(new[name] / speed)
            old.stdin.close()
    return {name: median(several) for name, several in found.items()}


def main() -> None:
    """Measure and print the line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wakes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--network", choices=["plain", "full"], default="plain")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--kernels", metavar="COMMIT")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processor:
        time.perf_counter = time.process_time
    torch.set_num_threads(1)
    settings = [
        f"protocol.wakes={options.wakes}",
        f"executor.threads={options.threads}",
        "executor.name=fused",
    ]
    plain = load_scenario(ROOT / "scenarios" / "rand_gossip.yaml", settings)
    full = options.network == "full"
    scenario = load_scenario(ROOT / "scenarios" / "rand_gossip.yaml", [*settings, *FULL]) if full else plain
    if options.serve:
        serve(Kernels(scenario))
        return
    say("compiling")
    if options.kernels:
        ratios = compare(scenario, options.kernels, options.rounds)
        emit(**ratios, other=options.kernels, wakes=options.wakes, threads=options.threads)
        return
    kernels = Kernels(scenario)
    found: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            found["naive"].append(rate(lambda: naive(kernels.prepared.executor.work, range(0, 943, 2))))
            emulator, share, seconds = emulate(scenario, Path(folder))
            found["emulator"].append(emulator)
            found["share"].append(share)
            found["seconds"].append(seconds)
            if full:
                _, share, seconds = emulate(plain, Path(folder))
                found["plain_share"].append(share)
                found["plain_seconds"].append(seconds)
            for way, speed in kernels.rates().items():
                found[way].append(speed)
    emit(
        naive_per_s=median(found["naive"]),
        emulator_per_s=median(found["emulator"]),
        kernel_per_s=median(found["kernel"]),
        waves_per_s=median(found["waves"]),
        training_kernel_per_s=median(found["training"]),
        speedup=median([e / n for e, n in zip(found["emulator"], found["naive"], strict=True)]),
        fraction_of_bound=median([e / k for e, k in zip(found["emulator"], found["kernel"], strict=True)]),
        engine_share=median(found["share"]),
        engine_seconds=median(found["seconds"]),
        **(_beside_plain(found) if full else {}),
        network=options.network,
        wakes=options.wakes,
        threads=options.threads,
    )


if __name__ == "__main__":
    main()
