"""The replay of a run's log: which local updates reached whom, and with which weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.compute.plan.tape import Op
from gossiprec.runs import Run


class Step(NamedTuple):
    """A step of a replay: a node's local update, a push, the delivery of a push, or the end of a push.

    Attributes
    ----------
    what : str
        ``update``, ``push``, ``deliver`` or ``end``: no message of the push is left.
    node : int
        The node that trains or pushes, or the receiver.
    number : int
        Row of the local update in the log, or number of the push.
    """

    what: str
    node: int
    number: int


def iter_steps(run: Run, n_nodes: int) -> Iterator[Step]:
    """Yield the local updates with samples, pushes and deliveries of a run, in the order in which they happened.

    At equal times a node's update is after a delivery to it and before its push. If the order of the log leaves
    more than one possibility, as for two messages that reach one node at the same moment, updates come late.
    """
    updates = run.events("update")
    times: list[list[float]] = [[] for _ in range(n_nodes)]
    rows: list[list[int]] = [[] for _ in range(n_nodes)]
    columns = (updates[name].tolist() for name in ("time", "node", "samples"))
    for row, (time, node, samples) in enumerate(zip(*columns, strict=True)):
        if samples:
            times[node].append(time)
            rows[node].append(row)
    done, pushes = [0] * n_nodes, _Pushes()
    for time, message, event, sender, receiver in _message_events(run):
        node = receiver if event == ARRIVAL else sender
        while done[node] < len(times[node]) and (
            times[node][done[node]] < time or (event != ARRIVAL and times[node][done[node]] == time)
        ):
            yield Step("update", node, rows[node][done[node]])
            done[node] += 1
        if event == ARRIVAL:
            yield Step("deliver", node, pushes.arrive(message))
        else:
            arrives = message if event == DEPARTURE else None
            if pushes.depart(arrives, sender, time, done[node]):
                yield Step("push", node, pushes.count - 1)
        for number in pushes.ended:
            yield Step("end", sender, number)
        pushes.ended.clear()


@dataclass
class _Pushes:
    """Messages of one push: they leave a node at the same time, after the same number of its updates."""

    count: int = 0
    ended: list[int] = field(default_factory=list)
    _of_message: dict[int, int] = field(default_factory=dict)
    _latest: dict[int, tuple[float, int, int]] = field(default_factory=dict)
    _sender: dict[int, int] = field(default_factory=dict)
    _left: dict[int, int] = field(default_factory=dict)

    def depart(self, message: int | None, sender: int, time: float, updates: int) -> bool:
        """Note that a message leaves, None if it is lost; return whether it begins a push."""
        before = self._latest.get(sender)
        is_new = before is None or before[:2] != (time, updates)
        if is_new:
            self._latest[sender] = (time, updates, self.count)
            self._sender[self.count], self._left[self.count] = sender, 0
            self.count += 1
            if before is not None and not self._left[before[2]]:
                self._end(before[2])
        if message is not None:
            push = self._latest[sender][2]
            self._of_message[message] = push
            self._left[push] += 1
        return is_new

    def arrive(self, message: int) -> int:
        """Return the push of a message that arrives."""
        push = self._of_message.pop(message)
        self._left[push] -= 1
        if not self._left[push] and self._latest[self._sender[push]][2] != push:
            self._end(push)
        return push

    def _end(self, push: int) -> None:
        del self._left[push], self._sender[push]
        self.ended.append(push)


DEPARTURE, ARRIVAL, LOSS = range(3)
BLOCK = 100_000
"""Number of events that are held as Python objects."""


def _message_events(run: Run) -> Iterator[tuple[float, int, int, int, int]]:
    """Yield departures and arrivals of messages by time, then by number; lost ones leave last at their time.

    Yields
    ------
    time, message, event, sender, receiver
    """
    sent, lost = run.events("message"), run.events("drop")
    n, numbers = len(sent["time"]), np.arange(len(sent["time"]))
    more = np.arange(n, n + len(lost["time"]))
    kinds = np.repeat([DEPARTURE, ARRIVAL, LOSS], [n, n, len(more)])
    columns = [
        np.concatenate([sent["sent_at"], sent["time"], lost["sent_at"]]),
        np.concatenate([numbers, numbers, more]),
        kinds,
        *(np.concatenate([sent[name], sent[name], lost[name]]) for name in ("sender", "receiver")),
    ]
    order = np.lexsort(columns[2::-1])
    for low in range(0, len(order), BLOCK):
        some = order[low : low + BLOCK]
        yield from zip(*(column[some].tolist() for column in columns), strict=True)


FAR = np.iinfo(np.int16).max
"""Number of hops of a node that nothing has reached."""


@dataclass(frozen=True)
class Reach:
    """The local updates of each user of which anything can have reached each node, by the end of a run.

    Attributes
    ----------
    updates : ndarray of int64, shape (n_users, n_nodes)
        Number of the user's first updates.
    hops : ndarray of int64, shape (n_users, n_nodes)
        Fewest messages in a row; :data:`FAR` if nothing has come.
    """

    updates: I64
    hops: I64


def replay_reach(run: Run, n_users: int, n_nodes: int) -> Reach:
    """Return the reach of each user's updates."""
    known = np.zeros((n_nodes, n_users), np.int32)
    hops = np.full((n_nodes, n_users), FAR, np.int16)
    pushed: dict[int, tuple[Any, Any]] = {}
    for what, node, number in iter_steps(run, n_nodes):
        if what == "update" and node < n_users:
            known[node, node] += 1
            hops[node, node] = 0
        elif what == "push":
            pushed[number] = (known[node].copy(), hops[node].copy())
        elif what == "end":
            del pushed[number]
        elif what == "deliver":
            updates, away = pushed[number]
            np.maximum(known[node], updates, out=known[node])
            np.minimum(hops[node], np.where(away < FAR, away + 1, FAR), out=hops[node])
    return Reach(known.T.astype(np.int64), hops.T.astype(np.int64))


@dataclass(frozen=True)
class LinearReplay:
    """Every push of a run as a linear combination of local updates, and what was delivered to whom.

    Attributes
    ----------
    owner, order : ndarray of int64, shape (n_updates,)
        The node of each update, and its number among the updates of the node.
    samples : ndarray of int64, shape (n_updates,)
    before : ndarray of float64, shape (n_updates, n_updates)
        The merged part of the model before each update.
    pushes : ndarray of float64, shape (n_pushes, n_updates)
    sender, sent_updates : ndarray of int64, shape (n_pushes,)
        The sender, and the number of its updates before the push.
    deliveries : list of list of int
        The pushes that each node has received.
    """

    owner: I64
    order: I64
    samples: I64
    before: F64
    pushes: F64
    sender: I64
    sent_updates: I64
    deliveries: list[list[int]]


@dataclass(frozen=True)
class MergeRules:
    """Operation of each node on a received model, and the weight of each node's models; see :class:`Op`."""

    operations: list[Op]
    weights: F64


def count_numbers(run: Run) -> int:
    """Return an upper bound of the numbers that a linear replay holds."""
    n_updates, sent = len(run.events("update")["time"]), run.events("message")["sent_at"]
    return n_updates * (n_updates + len(np.unique(sent)) + len(np.unique(run.events("drop")["sent_at"])))


def replay_linear(run: Run, rules: MergeRules) -> LinearReplay:
    """Return the pushes of a run in which merges are weighted means."""
    updates = run.events("update")
    trained = np.flatnonzero(updates["samples"] > 0)
    column = np.full(len(updates["time"]), -1)
    column[trained] = np.arange(len(trained))
    n_nodes = len(rules.operations)
    models = _Models(rules, np.zeros((n_nodes, len(trained))))
    before, order = np.zeros((len(trained), len(trained))), np.zeros(len(trained), np.int64)
    taken, deliveries = [0] * n_nodes, [list[int]() for _ in range(n_nodes)]
    pushes: list[F64] = []
    sender: list[int] = []
    sent_updates: list[int] = []
    for what, node, number in iter_steps(run, n_nodes):
        if what == "deliver":
            models.merge(node, pushes[number], rules.weights[sender[number]])
            deliveries[node].append(number)
        if what in ("deliver", "end"):
            continue
        models.close_pool(node)
        if what == "push":
            pushes.append(models.rows[node].copy())
            sender.append(node)
            sent_updates.append(taken[node])
        else:
            place = column[number]
            before[place], order[place] = models.rows[node], taken[node]
            models.rows[node, place] = 1.0
            taken[node] += 1
    return LinearReplay(
        updates["node"][trained].astype(np.int64),
        order,
        updates["samples"][trained].astype(np.int64),
        before,
        np.array(pushes).reshape(len(pushes), len(trained)),
        np.array(sender, np.int64),
        np.array(sent_updates, np.int64),
        deliveries,
    )


class _Models:
    """The models of all nodes, as rows of weights of updates."""

    def __init__(self, rules: MergeRules, rows: F64) -> None:
        self.rows = rows
        self._rules = rules
        self._pools: dict[int, tuple[F64, float]] = {}

    def merge(self, node: int, received: F64, weight: float) -> None:
        """Merge a received model, by the weight of its sender."""
        operation, own = self._rules.operations[node], self._rules.weights[node]
        if operation is Op.ADOPT:
            self.rows[node] = received
        elif operation is Op.BLEND:
            keep = own / (own + weight) if weight > 0 else 1.0
            self.rows[node] = keep * self.rows[node] + (1 - keep) * received
        else:
            total, mass = self._pools.get(node, (np.zeros_like(received), 0.0))
            self._pools[node] = (total + weight * received, mass + weight)

    def close_pool(self, node: int) -> None:
        """Replace a node's model by the mean of what it has pooled, if it pools."""
        total, mass = self._pools.pop(node, (0.0, 0.0))
        if self._rules.operations[node] is Op.AVERAGE:
            own = self._rules.weights[node]
            total, mass = total + own * self.rows[node], mass + own
        if mass > 0:
            self.rows[node] = total / mass


class ReplayedRound(NamedTuple):
    """A round of a coordinator: the clients of which it has merged an answer, and their updates as rows of the log."""

    clients: list[int]
    updates: list[int]


def replay_rounds(run: Run, n_users: int) -> tuple[list[ReplayedRound], I64] | None:
    """Return the rounds of a coordinator, and how many each client has seen; None if an answer came late.

    An answer is late if the coordinator has sent another version since the one that its client trained.
    """
    rounds: list[ReplayedRound] = [ReplayedRound([], [])]
    seen, trained = np.zeros(n_users + 1, np.int64), [-1] * (n_users + 1)
    carries: dict[int, tuple[int, int, int]] = {}  # sender, version, last update
    for what, node, number in iter_steps(run, n_users + 1):
        if what == "update":
            trained[node] = number
        elif what == "push":
            if node == n_users:
                rounds.append(ReplayedRound([], []))
            version = len(rounds) - 1 if node == n_users else seen[node]
            carries[number] = (node, int(version), trained[node])
        elif what == "end":
            del carries[number]
        elif what == "deliver":
            sender, version, update = carries[number]
            if node != n_users:
                seen[node] = max(seen[node], version)
            elif version != len(rounds) - 1:
                return None
            else:
                rounds[-1].clients.append(sender)
                rounds[-1].updates.append(update)
    # the first version has no answers in it: version k shows rounds 1 .. k - 1
    return rounds[1:], np.maximum(seen[:n_users] - 1, 0)
