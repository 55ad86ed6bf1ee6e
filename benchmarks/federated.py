"""The speed of clients without a model, compared with a naive loop and with their bare arithmetic.

One process, synthetic data of MovieLens-1M's shape, FedAvg with `ncf` 64-32-16, slices of 256::

    python benchmarks/federated.py [--slices 12] [--rounds 3] [--threads 2] [--large]

prints one JSON line per question. Compared things are measured in turn, several times; medians.

Five local passes of Adam, merged by the mean over the clients that touched an item:

- ``naive_per_s``: local passes per second with one set of parameters of all items and one torch.optim.Adam per client,
  one thread.
- ``emulator_per_s``: local passes per wall second of the whole run after its set-up, without rankings.
- ``bare_per_s``: drawing and training the same clients' samples with as many threads, and nothing else.
- ``speedup`` = emulator / naive; ``fraction_of_bare`` = emulator / bare; ``engine_share``: part of the emulator's wall
  time in SimPy, planning and bookkeeping; ``peak_mib``: largest resident size so far.

One gradient step per client, summed (d = 8, 16-8-8-1, as in the public code of A-ra and A-hum), ten times as many
slices:

- ``clients_per_s``: clients per second of the whole run; ``over_passes``: the ratio to the passes of Adam above.

The same with PDC-FRS (`ncf` 32-16-8), only the clients' work:

- ``naive_per_s``, ``local_per_s``, ``speedup``: passes per second of a loop as above with the recommender's loss, of
  the emulator's trainer, and their ratio.

Clients of LightGCN and FedGNN, with pseudo items, on Yelp's shape (d = 64, one step of Adam), only their work
(``--pairs`` measures nothing else):

- ``naive_per_s``, ``local_per_s``, ``speedup``: the same for steps.
- ``touched_per_s``, ``over_touched``: of a loop with only the rows that a client touches as parameters.

Clients of FedCL with GRU4Rec on Beauty's shape (d = 64, one raw gradient, sixteen per round); ``--sequences`` measures
nothing else:

- ``naive_per_s``, ``touched_per_s``, ``local_per_s``, ``speedup``, ``over_touched``: steps per second of one module and
  optimizer per client with samples drawn in advance, and of the emulator's clients, including vectors and samples.
- ``rounds_per_s``, ``clients_per_s``: of the whole run; ``shares``: the parts of its time.

With ``--large``: 22,000 clients with 12,000 items of 64 numbers:

- ``ratio``: seconds per local pass, without rankings and similar work, over the seconds with 1,000 clients and 1,000
  items of 64 numbers, with lists of the same length.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import federated_scenarios as scenarios
import numpy as np
import numpy.typing as npt
import torch
from common import emit, median, rate, say
from federated_sequences import clients, whole

from gossiprec import simulate
from gossiprec.base.machine import ThreadPool, peak_rss_mib
from gossiprec.base.rng import generator
from gossiprec.compute.executors.analytic_trainer import make_analytic_trainer
from gossiprec.compute.executors.clients import TrainingTask
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.emulation import PreparedRun, prepare
from gossiprec.federated import ClientContext
from gossiprec.rules.aggregators import Inbox
from gossiprec.rules.servers import ClientAnswers, Extras, RoundContext
from gossiprec.scenario import Scenario, load_scenario

NAIVE = 48
LARGE = {"users": 22_000, "items": 12_000, "interactions": 440_000}
SMALL = {"users": 1000, "items": 1000, "interactions": 20_000}


def naive(prepared: PreparedRun, extras: Extras | None = None, *, touched: bool = False) -> int:
    """Train some clients one after the other, in a plain torch loop, with all items or only touched ones."""
    work, extras = prepared.executor.work, extras or {}
    model, layout, training = work.model, work.layout, work.training
    sent = {name: torch.from_numpy(extra) for name, extra in extras.items()}
    start = torch.from_numpy(model.initial_rows(layout, 1, 0)[0])
    sizes = [torch.Size(shape).numel() for shape in layout.tables.values()]
    for node in range(NAIVE):
        samples = work.feed.samples(node, update=0, negatives=training.negatives, seed=work.seed)
        more: Mapping[str, npt.NDArray[Any]] = {}
        own: Mapping[str, npt.NDArray[Any]] = {}
        if work.recommender is not None:
            own_row = np.zeros(layout.user_width, np.float32)
            positives = work.feed.positives[node]
            client = ClientContext(
                work.seed, node, 0, layout, positives, positives, own_row, start.numpy(), extras
            )
            draw = generator(work.seed, "changed-samples", node)
            samples = work.recommender.transform_samples(samples, client, draw)
            more = work.recommender.extra_samples(node, work.feed.positives[node], extras)
            own = work.recommender.client_extras(node, extras)
        batch = {
            name: torch.from_numpy(np.concatenate([column, more.get(name, column[:0])]))
            for name, column in samples.items()
        }
        batch |= {name: torch.from_numpy(part) for name, part in own.items()}
        batch |= {name: batch[name].long() for name in work.feed.item_columns} | {"user": torch.tensor([0])}
        batch["weights"] = torch.ones(len(batch["items"]))
        parts = zip(layout.tables.items(), torch.split(start[: layout.size], sizes), strict=True)
        tables = {name: part.view(shape) for (name, shape), part in parts}
        if touched:
            named = torch.cat([batch[name] for name in work.feed.item_columns])
            kept, places = named.unique(return_inverse=True)
            columns = places.view(len(work.feed.item_columns), -1)
            batch |= dict(zip(work.feed.item_columns, columns, strict=True))
            tables["items"] = tables["items"][kept]
        tables = {name: torch.nn.Parameter(part.clone()) for name, part in tables.items()}
        adam = torch.optim.Adam(tables.values(), lr=training.learning_rate)
        for _ in range(training.local_epochs):
            adam.zero_grad()
            p = work.encoded_model(layout.blocks_by_name(tables), batch)
            loss = model.loss(p, batch) if work.recommender is None else work.recommender.loss(p, batch, sent)
            torch.autograd.backward(loss)
            adam.step()
    return NAIVE * training.local_epochs


def bare(prepared: PreparedRun, slices: int, threads: int, extras: Extras | None = None) -> int:
    """Draw and train the same number of clients from one version, and keep nothing."""
    work, crew = prepared.executor.work, ThreadPool(threads)
    n_users = len(work.feed.positives)
    store = UpdateStore(work.model, work.layout, n_nodes=n_users + 1, seed=work.seed, moments=True)
    store.attach_extras(0, extras or {})
    trainer = make_analytic_trainer(work, store)
    nodes = np.random.default_rng(1).permutation(n_users)[: slices * scenarios.SLICE].tolist()

    def train(part: int) -> None:
        for _ in trainer.train([TrainingTask(node, 0, node, 0) for node in nodes[part::threads]]):
            pass

    crew.run(train)
    return len(nodes) * work.training.local_epochs


def emulate(scenario: Scenario, folder: Path) -> tuple[float, float]:
    """Run the emulator; return local passes per second, and the engine's share."""
    summary = summary_of(scenario, folder)
    seconds = summary["seconds"]
    wall = summary["wall_seconds"] - sum(seconds[part] for part in ("compile", "load", "setup", "utility"))
    engine = seconds["control"] + seconds["plan"] + seconds["bookkeeping"]
    return summary["node_updates"] / wall, engine / wall


def summary_of(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """Run the emulator; return its summary."""
    summary = simulate(scenario, out=folder / "run", overwrite=True).summary
    assert summary is not None
    return summary


def passes(options: argparse.Namespace, folder: Path) -> float:
    """Measure passes of Adam; return the passes per second."""
    scenario = load_scenario(scenarios.passes(options.slices, options.threads))
    prepared = prepare(scenario)
    bare(prepared, 1, options.threads)
    found: dict[str, list[float]] = {"naive": [], "emulator": [], "bare": [], "share": []}
    for number in range(options.rounds):
        say(f"passes, round {number + 1} of {options.rounds}")
        found["naive"].append(rate(lambda: naive(prepared)))
        passes_per_s, share = emulate(scenario, folder)
        found["emulator"].append(passes_per_s)
        found["share"].append(share)
        found["bare"].append(rate(lambda: bare(prepared, options.slices, options.threads)))
    pairs = list(zip(found["emulator"], found["naive"], found["bare"], strict=True))
    emit(
        question="five passes of Adam",
        naive_per_s=median(found["naive"]),
        emulator_per_s=median(found["emulator"]),
        bare_per_s=median(found["bare"]),
        speedup=median([e / n for e, n, _ in pairs]),
        fraction_of_bare=median([e / b for e, _, b in pairs]),
        engine_share=median(found["share"]),
        peak_mib=peak_rss_mib(),
        slices=options.slices,
        threads=options.threads,
    )
    return median(found["emulator"])


def contributed(options: argparse.Namespace) -> None:
    """Measure the clients of PDC-FRS."""
    prepared = prepare(load_scenario(scenarios.contributed(2, options.threads)))
    work, between = prepared.executor.work, prepared.components.coordination.hook
    assert between is not None
    version = prepared.executor.store.load(np.zeros(1, np.int64))[0, work.layout.merged]
    say("PDC-FRS: the auxiliary model")
    nobody = np.zeros(0, np.int64)
    answers = ClientAnswers(
        nobody, Inbox(np.zeros((0, len(version)), np.float32), nobody, np.zeros(0), deltas=[])
    )
    extras = between.step(
        version, answers, RoundContext(work.seed, 0, scenarios.ML_1M["users"], work.layout)
    )[1]
    bare(prepared, 1, options.threads, extras)
    found: dict[str, list[float]] = {"naive": [], "local": []}
    for number in range(options.rounds):
        say(f"PDC-FRS, round {number + 1} of {options.rounds}")
        found["naive"].append(rate(lambda: naive(prepared, extras)))
        found["local"].append(rate(lambda: bare(prepared, options.slices, options.threads, extras)))
    emit(
        question="five passes of Adam, PDC-FRS",
        naive_per_s=median(found["naive"]),
        local_per_s=median(found["local"]),
        speedup=median([one / other for one, other in zip(found["local"], found["naive"], strict=True)]),
    )


def pairs(options: argparse.Namespace) -> None:
    """Measure clients that learn from pairs."""
    prepared = prepare(load_scenario(scenarios.pairs(2, options.threads)))
    n_slices = scenarios.YELP["users"] // scenarios.SLICE
    bare(prepared, 1, options.threads)
    found: dict[str, list[float]] = {"naive": [], "touched": [], "local": []}
    for number in range(options.rounds):
        say(f"pairs, round {number + 1} of {options.rounds}")
        found["naive"].append(rate(lambda: naive(prepared)))
        found["touched"].append(rate(lambda: naive(prepared, touched=True)))
        found["local"].append(rate(lambda: bare(prepared, n_slices, options.threads)))
    emit(
        question="one step of Adam on pairs, LightGCN",
        naive_per_s=median(found["naive"]),
        touched_per_s=median(found["touched"]),
        local_per_s=median(found["local"]),
        speedup=median([one / other for one, other in zip(found["local"], found["naive"], strict=True)]),
        over_touched=median([a / b for a, b in zip(found["local"], found["touched"], strict=True)]),
        threads=options.threads,
    )


def sequences(options: argparse.Namespace, folder: Path) -> None:
    """Measure clients that learn from sequences, and rounds of them."""
    clients(options.rounds, options.threads)
    whole(25 * options.slices, options.threads, folder)


def one_step(options: argparse.Namespace, folder: Path, passes_per_s: float) -> None:
    """Measure clients of one gradient step."""
    scenario = load_scenario(scenarios.one_step(10 * options.slices, options.threads))
    rates = []
    for number in range(options.rounds):
        say(f"one step, round {number + 1} of {options.rounds}")
        rates.append(emulate(scenario, folder)[0])
    emit(
        question="one step, summed", clients_per_s=median(rates), over_passes=median(rates) / passes_per_s
    )  # fmt: skip


def large(options: argparse.Namespace, folder: Path) -> None:
    """Measure many clients with many wide items, compared with few."""
    ncf: dict[str, Any] = {"dim": 64, "hidden": [128, 64, 32]}
    found: dict[str, list[float]] = {"small": [], "large": []}
    for number in range(options.rounds):
        for name, data in (("small", SMALL), ("large", LARGE)):
            say(f"{name}, round {number + 1} of {options.rounds}")
            scenario = scenarios.federated(data, scenarios.ADAM, "touched-mean", 60, options.threads, **ncf)
            summary = summary_of(load_scenario(scenario), folder)
            spent = sum(summary["seconds"][part] for part in ("compute", "control", "plan", "bookkeeping"))
            found[name].append(spent / summary["node_updates"])
    ratios = [large / small for small, large in zip(found["small"], found["large"], strict=True)]
    emit(
        question="22,000 clients, 12,000 items of 64",
        passes_per_s=1.0 / median(found["large"]),
        ratio=median(ratios),
        peak_mib=peak_rss_mib(),
    )


def main() -> None:
    """Measure and print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--sequences", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.pairs:
        pairs(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.sequences:
            sequences(options, Path(folder))
            return
        one_step(options, Path(folder), passes(options, Path(folder)))
        contributed(options)
        pairs(options)
        sequences(options, Path(folder))
        if options.large:
            large(options, Path(folder))


if __name__ == "__main__":
    main()
