"""What do clients without a model of their own cost?

    python benchmarks/clients.py [--users 2000] [--items 4000] [--interactions 200000] [--dim 32] [--rounds 3]

FedAvg with `ncf` on synthetic data: slices of 256 clients, five passes over their data in one batch, Adam. One JSON
line:

- ``passes_per_s``: local passes a second with ``client_model: none``; medians, in one thread.
- ``over_naive``: over torch tensors of all items and an optimizer for each client, one after the other.
- ``over_whole``: over ``client_model: own``, the same clients with whole models of their own.
- ``peak_mib``: the largest resident size of the process with ``client_model: none``, measured first.
"""

from __future__ import annotations

import argparse
import time

import torch
from common import emit, median, say

from gossiprec.emulation import prepare
from gossiprec.emulation.assembly.memory import peak_rss_mib
from gossiprec.emulation.assembly.prepare import Prepared
from gossiprec.scenario import Scenario, load_scenario

PASSES, SLICE, SLICES, NAIVE = 5, 256, 3, 32


def world(options: argparse.Namespace, client_model: str) -> Scenario:
    """Return the scenario: some slices of clients."""
    data = {"users": options.users, "items": options.items, "interactions": options.interactions}
    return load_scenario(
        {
            "name": "clients",
            "dataset": {"name": "synthetic", **data, "split": {"name": "leave_last_k", "test": 1}},
            "model": {"name": "ncf", "dim": options.dim},
            "protocol": {
                "name": "fedavg", "rounds": SLICES, "participation": SLICE / options.users,
                "client_model": client_model,
            },
            "policies": [] if client_model == "none" else [{"name": "share-less", "tau": 0.0}],
            "training": {"learning_rate": 0.001, "local_epochs": PASSES, "batch_size": "full"},
            "evaluate": {"every": SLICES, "metrics": ["hr@10"]},
            "executor": {"name": "batched", "threads": 1},
        }
    )  # fmt: skip


def passes_per_s(prepared: Prepared) -> float:
    """Run all slices; return local passes a second."""
    begin = time.perf_counter()
    for _ in prepared.schedule.play(prepared.tape_runner().carry_out):
        pass
    return prepared.epochs / (time.perf_counter() - begin)


def naive_passes_per_s(prepared: Prepared) -> float:
    """Train some clients one after the other, each with tensors and an optimizer of its own."""
    work = prepared.executor.work
    model, layout, training = work.model, work.layout, work.training
    start = torch.from_numpy(model.initial_rows(layout, 1, 0)[0])
    shapes = layout.tables
    begin = time.perf_counter()
    for node in range(NAIVE):
        samples = work.feed.samples(node, update=0, negatives=training.negatives, seed=work.seed)
        batch = {name: torch.from_numpy(column) for name, column in samples.items()}
        batch |= {"items": batch["items"].long(), "user": torch.tensor([0])}
        batch["weights"] = torch.ones(len(batch["items"]))
        parts = torch.split(start[: layout.size], [torch.Size(shape).numel() for shape in shapes.values()])
        tables = {
            name: torch.nn.Parameter(part.clone().view(shape))
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }
        adam = torch.optim.Adam(tables.values(), lr=training.learning_rate)
        for _ in range(PASSES):
            adam.zero_grad()
            torch.autograd.backward(model.loss(layout.named(tables), batch))
            adam.step()
    return NAIVE * PASSES / (time.perf_counter() - begin)


def main() -> None:
    """Measure in turn, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--items", type=int, default=4000)
    parser.add_argument("--interactions", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sparse: list[float] = []
    naive: list[float] = []
    whole: list[float] = []
    say("warming up")
    passes_per_s(prepare(world(options, "none")))
    peak = peak_rss_mib()
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        prepared = prepare(world(options, "none"))
        naive.append(naive_passes_per_s(prepared))
        sparse.append(passes_per_s(prepared))
        whole.append(passes_per_s(prepare(world(options, "own"))))
    emit(
        passes_per_s=median(sparse),
        over_naive=median([one / other for one, other in zip(sparse, naive, strict=True)]),
        over_whole=median([one / other for one, other in zip(sparse, whole, strict=True)]),
        peak_mib=peak,
        **vars(options),
    )


if __name__ == "__main__":
    main()
