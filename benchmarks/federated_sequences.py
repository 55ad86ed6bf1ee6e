"""Clients of FedCL with GRU4Rec, as measured by ``federated.py --sequences``."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import emit, median, rate, say
from federated_scenarios import CLUSTERS, SEQUENCE_SLICE, sequences
from torch import Tensor
from torch.nn import GRU, Embedding, Linear, Module
from torch.nn.functional import cross_entropy

from gossiprec import simulate
from gossiprec.base.arrays import F32
from gossiprec.base.machine import ThreadPool
from gossiprec.compute.executors.analytic_trainer import SequenceTrainer, make_analytic_trainer
from gossiprec.compute.executors.clients import ClientExecutor, ClientTrainer, TrainingTask
from gossiprec.compute.inbox_reducer import InboxReducer
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.emulation import prepare
from gossiprec.emulation.scoring.utility import UtilityEvaluator
from gossiprec.federated.fedcl import VectorBank
from gossiprec.rules.aggregators.mean import Mean
from gossiprec.rules.servers.adam import AdamServer
from gossiprec.scenario import Scenario, load_scenario

SLICE, WAVES, NAIVE = SEQUENCE_SLICE, 30, 48
METRICS = ["recall@10"]
PHASES = {
    "uploading": (ClientTrainer, "with_user_uploads"),
    "drawing": (SequenceTrainer, "_samples"),
    "training": (SequenceTrainer, "_call"),
    "clients": (ClientExecutor, "run"),
    "summing": (Mean, "reduce"),
    "server": (AdamServer, "round"),
    "clustering": (VectorBank, "step"),
    "coordinator": (InboxReducer, "prepare"),
}
"""What is timed: `clients` holds the three before it, `coordinator` likewise."""


def world(rounds: int, threads: int) -> Scenario:
    """Return the scenario of the paper's size, evaluated once at the end."""
    return load_scenario(sequences(rounds, threads))


class History(NamedTuple):
    """The samples of a client, without padding.

    Attributes
    ----------
    previous, candidates : Tensor
        Items: the inputs by position, and all that occur as a positive or negative, ascending.
    wanted : Tensor
        Place of each position's positive among the candidates.
    allowed : Tensor, positions x candidates
        Whether a candidate is a positive of the client or a negative of the position.
    keep : Tensor
        What dropout leaves of each input.
    """

    previous: Tensor
    candidates: Tensor
    wanted: Tensor
    allowed: Tensor
    keep: Tensor


class Client(Module):
    """A client's own model, as a plain torch module."""

    def __init__(self, items: Tensor, recurrence: GRU, dense: Linear) -> None:
        super().__init__()
        self.items = Embedding.from_pretrained(items.clone(), freeze=False)
        self.recurrence, self.dense = copy.deepcopy(recurrence), copy.deepcopy(dense)

    def loss(self, samples: History) -> Tensor:
        """Return the softmax loss of each item against all others of the sequence, and its negatives."""
        inputs = self.items(samples.previous) * samples.keep
        states = self.dense(self.recurrence(inputs)[0])
        logits = states @ self.items(samples.candidates).T
        return cross_entropy(logits.masked_fill(~samples.allowed, -torch.inf), samples.wanted)


class Clients:
    """Some clients, trained by the emulator and one by one.

    Parameters
    ----------
    threads : int
        Threads of the emulator.
    """

    def __init__(self, threads: int) -> None:
        work = prepare(world(2, threads)).executor.work
        assert work.recommender is not None
        n_users, layout = len(work.feed.positives), work.layout
        self._store = UpdateStore(
            work.model, layout, n_nodes=n_users + 1, seed=work.seed, moments=False,
            user_upload_width=work.recommender.user_upload_width(layout),
        )  # fmt: skip
        self._store.threads = ThreadPool(threads)
        self._work, self._trainer = work, make_analytic_trainer(work, self._store)
        work.recommender.threads = self._store.threads
        self._version = self._store.version(0)
        self._versions = [self._version.copy() for _ in range(WAVES)]
        draw = np.random.default_rng(1)
        self._centroids = draw.normal(0, 0.1, (CLUSTERS, layout.item_width)).astype(np.float32)
        self._nodes = draw.permutation(n_users)[: SLICE * WAVES].tolist()
        tables = {
            name: torch.from_numpy(table) for name, table in layout.version_tables(self._version).items()
        }
        self._items, hidden = tables["items"], tables["dense_weights"].shape[1]
        self._recurrence, self._dense = GRU(layout.item_width, hidden), Linear(hidden, layout.item_width)
        names = ("input_weights", "recurrent_weights", "input_biases", "recurrent_biases")
        with torch.no_grad():
            for parameter, name in zip(self._recurrence.parameters(), names, strict=True):
                parameter.copy_(tables[name])
            self._dense.weight.copy_(tables["dense_weights"])
            self._dense.bias.copy_(tables["dense_biases"])

    def emulated(self) -> Iterator[Update]:
        """Send vectors, draw and train, slice after slice, each from a new version."""
        for low, version in zip(range(0, len(self._nodes), SLICE), self._versions, strict=True):
            nodes = self._nodes[low : low + SLICE]
            for node in nodes:
                self._store.store_payload(node, version)
            self._store.attach_extras(nodes[0], {"centroids": self._centroids.copy()})
            tasks = self._trainer.with_user_uploads([TrainingTask(node, 0, node, nodes[0]) for node in nodes])
            for _, update in self._trainer.train(tasks):
                yield update

    def samples(self) -> list[History]:
        """Return the samples of the first clients, so that the naive loops need not draw them."""
        nodes = self._nodes[:NAIVE]
        self._store.attach_extras(nodes[0], {"centroids": self._centroids})
        tasks = self._trainer.with_user_uploads([TrainingTask(node, 0, node, nodes[0]) for node in nodes])
        return [self._sequence(task) for task in tasks]

    def _sequence(self, task: TrainingTask) -> History:
        work = self._work
        drawn = work.feed.samples(task.node, update=0, negatives=work.training.negatives, seed=work.seed)
        columns = self._trainer.transformed_samples(task, drawn)
        keep = work.draw_for_step(task.node, 0, 0, columns)[1]["keep"][0]
        there = columns["items"][0] >= 0
        previous, positives, negatives = (columns[of][0][there] for of in ("previous", "items", "negatives"))
        candidates = np.unique(np.append(positives, negatives[negatives >= 0]))
        allowed = np.isin(candidates, positives) | (candidates == negatives[..., None]).any(axis=1)
        places = np.searchsorted(candidates, positives)
        inputs, several, wanted = (torch.from_numpy(each).long() for each in (previous, candidates, places))
        return History(inputs, several, wanted, torch.from_numpy(allowed), torch.from_numpy(keep[there]))

    def naive(self, samples: Sequence[History], *, touched: bool) -> Iterator[F32]:
        """Train one after the other, with all items or only touched ones; yield dense weights."""
        for each in samples:
            items, mine = self._items, each
            if touched:
                kept, places = torch.cat(each[:2]).unique(return_inverse=True)
                inputs, several = places.split([len(each.previous), len(each.candidates)])
                items, mine = items[kept], each._replace(previous=inputs, candidates=several)
            client = Client(items, self._recurrence, self._dense)
            descent = torch.optim.SGD(client.parameters(), lr=1.0)
            torch.autograd.backward(client.loss(mine))
            descent.step()
            yield client.dense.weight.detach().numpy()

    def check(self, samples: Sequence[History]) -> None:
        """Check that all ways train the same weights."""
        size = self._dense.weight.numel()
        due = next(self.emulated()).shared[-size - len(self._dense.bias) : -len(self._dense.bias)]
        for touched in (True, False):
            found = next(self.naive(samples, touched=touched)).ravel()
            np.testing.assert_allclose(found, due, rtol=1e-3, atol=1e-5)


@contextlib.contextmanager
def timed(seconds: dict[str, float]) -> Iterator[None]:
    """Sum the times of the calls in :data:`PHASES`."""
    before = {name: getattr(*of) for name, of in PHASES.items()}

    def watched(name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            try:
                return before[name](*args, **options)
            finally:
                seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begin

        return call

    for name, (owner, method) in PHASES.items():
        setattr(owner, method, watched(name))
    try:
        yield
    finally:
        for name, (owner, method) in PHASES.items():
            setattr(owner, method, before[name])


def clients(rounds: int, threads: int) -> None:
    """Measure local steps."""
    some = Clients(threads)
    samples = some.samples()
    some.check(samples)
    found: dict[str, list[float]] = {"naive": [], "touched": [], "local": []}
    for number in range(rounds):
        say(f"sequences, round {number + 1} of {rounds}")
        found["naive"].append(rate(lambda: sum(1 for _ in some.naive(samples, touched=False))))
        found["touched"].append(rate(lambda: sum(1 for _ in some.naive(samples, touched=True))))
        found["local"].append(rate(lambda: sum(1 for _ in some.emulated())))
    emit(
        question="one step on a sequence, FedCL with GRU4Rec",
        naive_per_s=median(found["naive"]),
        touched_per_s=median(found["touched"]),
        local_per_s=median(found["local"]),
        speedup=median([one / other for one, other in zip(found["local"], found["naive"], strict=True)]),
        over_touched=median(
            [one / other for one, other in zip(found["local"], found["touched"], strict=True)]
        ),
        threads=threads,
    )


def whole(rounds: int, threads: int, folder: Path) -> None:
    """Measure rounds of the whole emulator, without rankings, which take longer than the rounds."""
    UtilityEvaluator.measure = lambda self, current, inputs=(): dict.fromkeys(METRICS, 0.0)  # type: ignore[method-assign]
    simulate(world(2, threads), out=folder / "run", overwrite=True)
    say(f"{rounds} rounds")
    spent: dict[str, float] = {}
    with timed(spent):
        summary = simulate(world(rounds, threads), out=folder / "run", overwrite=True).summary
    assert summary is not None
    seconds = sum(summary["seconds"][part] for part in ("compute", "control", "plan", "bookkeeping"))
    spent["planning"] = summary["seconds"]["control"] + summary["seconds"]["plan"]
    emit(
        question="rounds of FedCL with GRU4Rec",
        rounds_per_s=rounds / seconds,
        clients_per_s=rounds * SLICE / seconds,
        shares={name: round(part / seconds, 3) for name, part in spent.items()},
        peak_mib=summary["peak_rss_mib"],
        threads=threads,
    )
