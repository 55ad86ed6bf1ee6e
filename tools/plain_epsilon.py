"""An account of epsilon by observer in plain numpy, to compare ``gossiprec epsilon`` with on small networks.

It uses nothing of the library but the reader of event logs: no tape, no schedule, no accountant. The order of events at
equal times follows from the rules of the engine: events run in the order in which they were scheduled, nodes in the
order of their ids, and a node's next wake is scheduled before the messages of its present one.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gossiprec.runs import Run

ORDERS = np.array([*(1 + tenth / 10 for tenth in range(1, 100)), *range(12, 64)])
"""Orders of Renyi divergences."""

Vector = npt.NDArray[np.float64]


class Content(NamedTuple):
    """The content of a message: its sender, and its model as weights of updates.

    Attributes
    ----------
    sender : int
    model : ndarray
    counts : ndarray of int
        Number of the first updates of each node that can have come to the sender.
    """

    sender: int
    model: Vector
    counts: npt.NDArray[np.int64]


@dataclass
class PlainReplay:
    """Messages of a run as weighted sums of its local updates, which are columns in the order of training.

    Attributes
    ----------
    owner, samples : list of int
        The node and the number of samples of each update.
    before : list of ndarray
        The model in which each update began.
    heard : dict of int to list of Content
        For each node the messages that it received.
    counts : ndarray of int, shape (n_nodes, n_nodes)
        Number of the first updates of each node (column) that can have come to each (row).
    """

    owner: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    before: list[Vector] = field(default_factory=list)
    heard: dict[int, list[Content]] = field(default_factory=lambda: defaultdict(list))
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))


class PlainNetwork:
    """Nodes that train, send and merge; only the log decides who sends to whom, and when it arrives.

    Parameters
    ----------
    run : Run
        A run of ``rand-gossip`` or ``fedavg`` in which nodes are never offline or busy.
    """

    def __init__(self, run: Run) -> None:
        scenario = run.scenario
        self.replay = PlainReplay()
        self._protocol = scenario["protocol"]
        self._federated = self._protocol["name"] == "fedavg"
        self._n_users = run.summary["nodes"]  # type: ignore[index]
        updates = run.events("update")
        most = len(updates["node"])
        self._samples: dict[int, list[int]] = defaultdict(list)
        for node, samples in zip(updates["node"].tolist(), updates["samples"].tolist(), strict=True):
            self._samples[node].append(samples)
        negatives = scenario["training"]["negatives"]
        positives = {
            node: max(counts) / (1 + negatives) / scenario["training"]["local_epochs"]
            for node, counts in self._samples.items()
        }
        by_count = self._protocol["merge"] == "samples"
        silent = 0.0 if self._federated or by_count else 1.0
        self._weights = {
            node: (positives[node] if by_count else 1.0) if positives.get(node) else silent
            for node in range(self._n_users)
        }
        self._models = np.zeros((self._n_users + 1, most))
        self._pooled: dict[int, list[tuple[float, Vector]]] = defaultdict(list)
        self.replay.counts = np.zeros((self._n_users + 1, self._n_users + 1), np.int64)
        self._sent: dict[tuple[int, float], list[tuple[float, int]]] = defaultdict(list)
        network = scenario["network"]
        chances = (network["loss"], network["duplication"], network["reordering"]["share"])
        self._instant = network["latency"].get("value") == 0 and not any(chances) and not self._federated
        self._queue: list[tuple[float, int, str, Any]] = []
        self._rank = 0
        self._read_log(run)

    def _read_log(self, run: Run) -> None:
        wakes, messages, lost = run.events("wake"), run.events("message"), run.events("drop")
        columns = [messages[name].tolist() for name in ("sender", "sent_at", "time", "receiver")]
        for sender, sent_at, time, receiver in zip(*columns, strict=True):
            self._sent[sender, sent_at].append((time, receiver))
        for sender, sent_at in zip(lost["sender"].tolist(), lost["sent_at"].tolist(), strict=True):
            self._sent[sender, sent_at].append((np.inf, -1))
        self._rings: dict[int, list[float]] = defaultdict(list)
        for time, node in zip(wakes["time"].tolist(), wakes["node"].tolist(), strict=True):
            self._rings[node].append(time)
        for node in sorted(self._rings):
            self._schedule(self._rings[node].pop(0), "wake", node)

    def _schedule(self, time: float, what: str, about: Any) -> None:
        if time < np.inf:
            heapq.heappush(self._queue, (time, self._rank, what, about))
        self._rank += 1

    def play(self) -> PlainReplay:
        """Play all events, and return the messages."""
        while self._queue:
            time, _, what, about = heapq.heappop(self._queue)
            if what == "wake":
                self._wake(about, time)
            else:
                node, content = about
                self._receive(node, content, time)
        return self.replay

    def _wake(self, node: int, now: float) -> None:
        if self._rings[node]:
            self._schedule(self._rings[node].pop(0), "wake", node)
        self._close_pool(node)
        if self._protocol.get("train_on") == "wake":
            self._train(node)
        self._send(node, now)

    def _send(self, node: int, now: float) -> None:
        content = Content(node, self._models[node].copy(), self.replay.counts[node].copy())
        outgoing = self._sent[node, now]
        if self._federated and node < self._n_users:
            outgoing = [outgoing.pop(0)]  # one answer for each task
        for time, receiver in outgoing:
            if self._instant:
                self._receive(receiver, content, now)
            else:
                self._schedule(time, "arrival", (receiver, content))

    def _receive(self, node: int, content: Content, now: float) -> None:
        sender, model, counts = content
        self.replay.heard[node].append(content)
        self.replay.counts[node] = np.maximum(self.replay.counts[node], counts)
        if not self._federated:
            self._merge(node, self._weights[sender], model)
        elif node == self._n_users:
            self._pooled[node].append((self._weights[sender], model))
        else:
            self._models[node] = model
            self._train(node)
            self._send(node, now)

    def _merge(self, node: int, weight: float, model: Vector) -> None:
        own = self._weights[node]
        if self._protocol["average"] == "all":
            self._pooled[node].append((weight, model))
        elif weight:
            self._models[node] = (own * self._models[node] + weight * model) / (own + weight)
        if self._protocol["train_on"] == "receive":
            self._train(node)

    def _close_pool(self, node: int) -> None:
        pool = self._pooled.pop(node, [])
        if not self._federated:
            pool = [(self._weights[node], self._models[node]), *pool]
        total = sum(weight for weight, _ in pool)
        if total:
            self._models[node] = np.sum([weight * model for weight, model in pool], axis=0) / total

    def _train(self, node: int) -> None:
        left = self._samples.get(node)
        samples = left.pop(0) if left else 0
        if samples:
            self.replay.before.append(self._models[node].copy())
            self._models[node, len(self.replay.owner)] = 1.0
            self.replay.owner.append(node)
            self.replay.samples.append(samples)
            self.replay.counts[node, node] += 1


def plain_epsilons(run: Run) -> Vector:
    """Return the epsilon of each user towards each node by what it sees, shape (n_users, n_nodes).

    The run has one policy ``dp-sgd`` with a given noise multiplier for all nodes, and perhaps ``share-less``.
    """
    policies = {policy["name"]: policy for policy in run.scenario["policies"]}
    noise, replay = policies["dp-sgd"], PlainNetwork(run).play()
    n_users, width = run.summary["nodes"], len(replay.owner)  # type: ignore[index]
    by_user, sends_row = noise["unit"] == "user", "share-less" not in policies
    sigma = run.summary["privacy"]["noise_multiplier_min"]  # type: ignore[index]
    step = run.scenario["training"]["learning_rate"] / np.array(replay.samples)
    scale = np.where(by_user, 1.0, step)
    before = np.array(replay.before).reshape(width, -1)[:, :width]
    found = np.zeros((n_users, n_users + (run.scenario["protocol"]["name"] == "fedavg")))
    for observer in range(found.shape[1]):
        heard = [each._replace(model=each.model[:width]) for each in replay.heard[observer]]
        shown = _exposures(replay.owner, before, scale, heard, observer, (by_user, sends_row))
        for user in range(n_users):
            mine = sum(share for share, owner in zip(shown, replay.owner, strict=True) if owner == user)
            reached = float(replay.counts[observer, user])
            shown_epsilon = _epsilon(sigma, min(mine, reached), noise["delta"])
            found[user, observer] = shown_epsilon or _epsilon(
                sigma, reached, noise["delta"]
            )  # of a weight alone
    return found


def _exposures(
    owners: list[int],
    before: Vector,
    scale: Vector,
    heard: list[Content],
    observer: int,
    kind: tuple[bool, bool],
) -> Vector:
    """Return the exposure of each update to an observer, from the definitions of docs/network_privacy.md."""
    owner, (by_user, sends_row) = np.array(owners, np.int64), kind
    order = np.array([owners[:place].count(node) for place, node in enumerate(owners)], np.int64)
    foreign, rows = owner != observer, [each.model for each in heard]
    grows = True
    while grows:  # the model before each update of a node up to the last one that is seen
        seen = foreign & np.any([row != 0 for row in rows] or [np.zeros(len(owner), bool)], axis=0)
        last = {node: order[seen & (owner == node)].max() for node in set(owner[seen].tolist())}
        early = [row for row, node, k in zip(before, owners, order, strict=True) if k <= last.get(node, -1)]
        every = [*(each.model for each in heard), *early]
        grows, rows = len(every) > len(rows), every
    if not rows or not len(owner):
        return np.zeros(len(owner))
    view = np.array(rows) * np.where(foreign, scale, 0.0)
    view = view[np.linalg.norm(view, axis=1) > 0]
    if not len(view):
        return np.zeros(len(owner))
    view = view / np.linalg.norm(view, axis=1, keepdims=True)
    _, sizes, axes = np.linalg.svd(view, full_matrices=False)
    basis = axes[sizes > sizes[0] * max(view.shape) * np.finfo(float).eps]
    projection = basis.T @ basis
    found: Vector = np.where(owner[:, None] == owner, np.abs(projection), 0.0).sum(axis=1)
    for place, node in enumerate(owners):  # user rows that are seen, or hidden between two updates
        sent = [int(each.counts[node]) for each in heard if each.sender == node and sends_row]
        rows_shown = max(sent, default=0)
        if not by_user:
            rows_shown = max(rows_shown, last.get(node, 0))
        if seen[place] and order[place] < rows_shown:
            found[place] = max(found[place], 1.0)
    return found


def _epsilon(sigma: float, mechanisms: float, delta: float) -> float:
    """Return the epsilon of a (fractional) number of Gaussian mechanisms."""
    if not mechanisms:
        return 0.0
    divergence = mechanisms * ORDERS / (2 * sigma**2)
    found = divergence + np.log1p(-1 / ORDERS) - np.log(delta * ORDERS) / (ORDERS - 1)
    return max(0.0, float(found.min()))


def is_plain(scenario: Mapping[str, Any]) -> bool:
    """Return whether :func:`plain_epsilons` covers the scenario of a run that has a linear bound.

    The log does not show which of two answers of a moment was copied.
    """
    noise = [policy for policy in scenario["policies"] if policy["name"] == "dp-sgd"]
    is_alone = len(noise) == 1 and noise[0]["noise_multiplier"] != "auto" and noise[0]["nodes"] == "all"
    return is_alone and not (scenario["protocol"]["name"] == "fedavg" and scenario["network"]["duplication"])
