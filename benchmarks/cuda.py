"""The speed of ``batched`` on a CUDA device, compared with two threads on the CPU, and how far their models are apart.

    python benchmarks/cuda.py [--device cuda] [--only WORLD ...] [--fused] [--scale 1.0]

Synthetic data, no download; one JSON line per world. Nodes with whole models gossip (``gru4rec``, ``bert4rec``). Nodes
without a graph of all interactions cannot train LightGCN as a whole model, so ``lightgcn`` and ``ncf`` are trained by
clients without a model, ``ncf`` by 10,000 of them. Without a CUDA device, ``--device cpu`` checks the code and measures
nothing of a GPU.

- ``cpu_s``, ``device_s``: seconds of wall time to merge and train, after a smaller run that loads all kernels;
  ``cpu_over_device``: their ratio. Simulated events, planning and rankings are left out.
- ``training_share``: the part of the device's time in forward and backward passes and optimizer steps, in a separate
  run that waits for each stack. The rest draws and pads samples, merges, and moves rows.
- ``device_large_stacks_s`` (clients only): the device's time with stacks of eight times as many numbers.
- ``fused_s`` (with ``--fused``): compiled kernels in two threads, if the model has them.
- ``apart``: distance of the final models of CPU and device, relative to the way that the models went.
- ``apart_again``: the same distance of two runs on the device; 0 if they are equal to the byte.
- ``score_cpu_s``, ``score_device_s``: seconds to score all items for 256 users.
- ``steps``: optimizer steps; ``device_mib``: the most memory that tensors took on the device.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from common import emit, say

from gossiprec.base.arrays import F32
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors import submodel_trainer
from gossiprec.compute.executors.batched import BatchedExecutor
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.scenario import load_scenario

THREADS = 2
FEW = {"users": 40, "items": 100, "interactions": 600}
"""Data of the run that loads kernels."""
ADAM = {"optimizer": "adam", "learning_rate": 0.001, "batch_size": "full"}
SLICES = {"name": "fedavg", "client_model": "none", "merge": "mean"}
GOSSIP = {"name": "rand-gossip", "view": {"size": 3}}
WORLDS: dict[str, dict[str, Any]] = {
    "lightgcn": {
        "data": {"users": 2000, "items": 2000, "interactions": 60_000},
        "model": {"dim": 64, "layers": 2},
        "training": {**ADAM, "negatives": 1, "local_epochs": 2},
        "protocol": {**SLICES, "rounds": 2},
    },
    "gru4rec": {
        "data": {"users": 300, "items": 500, "interactions": 9000},
        "model": {"dim": 64, "hidden": 128},
        "training": {**ADAM, "negatives": 1},
        "protocol": {**GOSSIP, "wakes": 2},
    },
    "bert4rec": {
        "data": {"users": 300, "items": 500, "interactions": 9000},
        "model": {"dim": 64, "inner": 256},
        "training": {**ADAM, "negatives": 1},
        "protocol": {**GOSSIP, "wakes": 2},
    },
    "ncf": {
        "data": {"users": 10_000, "items": 2000, "interactions": 300_000},
        "model": {"dim": 32, "hidden": [64, 32, 16]},
        "training": {**ADAM, "negatives": 4},
        "protocol": {**SLICES, "rounds": 1},
    },
}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """A run at its end."""

    prepared: PreparedRun
    seconds: float
    first: F32
    last: F32

    def apart(self, other: Ended) -> float:
        """Return the distance of the models of another run, relative to the way that these went."""
        way = np.linalg.norm(self.last - self.first)
        return float(np.linalg.norm(other.last - self.last) / way)


def scenario_of(name: str, data: Mapping[str, int], executor: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario of a world as plain data, with some sizes of its data."""
    world = WORLDS[name]
    return {
        "name": f"cuda-{name}",
        "seed": 1,
        "dataset": {"name": "synthetic", **data, "split": {"name": "leave_last_k", "test": 1}},
        "model": {"name": name, **world["model"]},
        "training": world["training"],
        "protocol": world["protocol"],
        "evaluate": {"every": 100, "metrics": ["hr@10"]},
        "executor": {"threads": THREADS, **executor},
    }


def models(prepared: PreparedRun) -> F32:
    """Return the models of all nodes; of clients without a model, the coordinator's and their own parts."""
    store, current = prepared.executor.store, prepared.planner.current_rows
    if not isinstance(store, UpdateStore):
        return store.load(current)
    version = store.load(current[-1:])[0, store.layout.merged]
    return np.concatenate([version, store.own.ravel()])


def run(name: str, data: Mapping[str, int], executor: Mapping[str, Any]) -> Ended:
    """Execute a run, and return it with the seconds of merging and training."""
    prepared = prepare(load_scenario(scenario_of(name, data, executor)))
    prepared.executor.warm_up()
    first, runner, seconds = models(prepared), prepared.tape_runner(), 0.0

    def carry_out(segment: Any) -> None:
        nonlocal seconds
        begin = time.perf_counter()
        runner.run_segment(segment)
        wait()
        seconds += time.perf_counter() - begin

    for _ in prepared.schedule.play(carry_out):
        pass
    return Ended(prepared, seconds, first, models(prepared))


def wait() -> None:
    """Wait until the device has finished, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of_scoring(prepared: PreparedRun) -> float:
    """Return the seconds to score all items for some users, after a first time."""
    users = np.arange(min(256, prepared.components.split.n_users))
    view = prepared.executor.store.scoring_view(prepared.planner.current_rows, users)
    histories = prepared.executor.work.feed.histories(prepared.components.split, "test")
    view = replace(view, histories={column: values[users] for column, values in histories.items()})
    for _ in range(2):
        begin = time.perf_counter()
        prepared.executor.score_all(view, prepared.threads)
    return time.perf_counter() - begin


@contextmanager
def timed_training() -> Iterator[list[float]]:
    """Time the training of each stack until the body ends; the device is waited for."""
    taken: list[float] = []
    train = BatchedExecutor._train

    def timed(self: BatchedExecutor, stack: Any) -> None:
        wait()
        begin = time.perf_counter()
        train(self, stack)
        wait()
        taken.append(time.perf_counter() - begin)

    BatchedExecutor._train = timed  # type: ignore[method-assign]
    try:
        yield taken
    finally:
        BatchedExecutor._train = train  # type: ignore[method-assign]


@contextmanager
def larger_stacks(times: int) -> Iterator[None]:
    """Let clients be trained in stacks of so many times as many numbers until the body ends."""
    before = submodel_trainer.AT_ONCE
    submodel_trainer.AT_ONCE = times * before
    try:
        yield
    finally:
        submodel_trainer.AT_ONCE = before


def measure(name: str, options: argparse.Namespace) -> None:
    """Measure a world and print its line."""
    data = {key: max(int(value * options.scale), FEW[key]) for key, value in WORLDS[name]["data"].items()}
    kinds = {
        key: {"name": "batched", "device": device}
        for key, device in (("cpu", "cpu"), ("device", options.device))
    }
    say(f"{name}: loading kernels")
    for kind in kinds.values():
        seconds_of_scoring(run(name, FEW, kind).prepared)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    found: dict[str, Any] = {}
    say(f"{name}: on the device")
    device = run(name, data, kinds["device"])
    found["score_device_s"] = seconds_of_scoring(device.prepared)
    found["device_mib"] = torch.cuda.max_memory_allocated() / 2**20 if options.device == "cuda" else 0.0
    with timed_training() as taken:
        again = run(name, data, kinds["device"])
    found |= {"training_share": sum(taken) / again.seconds, "stacks": len(taken)}
    if WORLDS[name]["protocol"]["name"] == "fedavg":
        with larger_stacks(8):
            found["device_large_stacks_s"] = run(name, data, kinds["device"]).seconds
    say(f"{name}: on the CPU")
    host = run(name, data, kinds["cpu"])
    found["score_cpu_s"] = seconds_of_scoring(host.prepared)
    if options.fused:
        say(f"{name}: compiled")
        try:
            found["fused_s"] = run(name, data, {"name": "fused"}).seconds
        except ScenarioError as error:
            say(str(error))
    emit(
        bench="cuda", world=name, device=options.device, threads=THREADS,
        nodes=host.prepared.components.protocol.n_nodes,
        steps=int(np.sum(host.prepared.executor.work.arena.steps)), cpu_s=host.seconds, device_s=device.seconds,
        cpu_over_device=host.seconds / device.seconds, apart=host.apart(device), apart_again=device.apart(again),
        **found,
    )  # fmt: skip


def main() -> None:
    """Measure each world."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--only", nargs="+", choices=list(WORLDS), default=list(WORLDS), metavar="WORLD")
    parser.add_argument("--fused", action="store_true", help="measure compiled kernels, too")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the sizes of the data")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device; --device cpu shows that it works, and nothing of a GPU")
    if options.device == "cuda":
        say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for name in options.only:
        measure(name, options)


if __name__ == "__main__":
    main()
