"""The replay of a run's tape: which local updates reached whom, and with which weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, NamedTuple

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import LogError
from gossiprec.compute.plan.tape import RECEIVING, Op, TapeEvent, TapeSegment, operations_by_slot
from gossiprec.emulation.assembly.schedule import PrecomputedSchedule
from gossiprec.network.protocols import Protocol
from gossiprec.runs import Run


@dataclass(frozen=True)
class ContactTape:
    """The events of a run in the order of the engine, and the samples of its local updates.

    Attributes
    ----------
    segments : sequence of TapeSegment
    inline : bool
        Whether messages arrive the moment they are sent, and have no event of their own.
    roles : list of int
        The role of each node.
    operations : list of list of tuple of Op
        The operations of each role, by slot (:func:`operations_by_slot`).
    samples : list of list of int
        The samples of each node's local updates, in their order.
    """

    segments: Sequence[TapeSegment]
    inline: bool
    roles: list[int]
    operations: list[list[tuple[Op, ...]]]
    samples: list[list[int]]

    @classmethod
    def of(cls, run: Run, protocol: Protocol, schedule: PrecomputedSchedule) -> ContactTape:
        """Return the tape of a run.

        Raises
        ------
        LogError
            If the schedule is not the run's.
        """
        delivered, planned = run.events("message"), schedule.deliveries
        for name in ("time", "sender", "receiver"):
            if not np.array_equal(delivered[name], getattr(planned, name)):
                raise LogError(
                    f"{run.path}: the messages in its log are not those of its scenario; expected the same ones; find "
                    f"the first difference with: gossiprec replay {quote(str(run.path))}"
                )
        updates = run.events("update")
        grouped = np.argsort(updates["node"], kind="stable")
        ends = np.cumsum(np.bincount(updates["node"], minlength=protocol.n_nodes))[:-1]
        return cls(
            [tick.segment for tick in schedule.ticks],
            schedule.deliveries_implied,
            protocol.roles.tolist(),
            operations_by_slot(protocol.role_behaviours),
            [part.tolist() for part in np.split(updates["samples"][grouped], ends)],
        )

    @property
    def n_updates(self) -> int:
        """Number of local updates."""
        return sum(map(len, self.samples))

    @property
    def n_pushes(self) -> int:
        """Number of pushes."""
        width = len(self.operations[0])
        pushes = np.array([[Op.PUSH in ops for ops in slots] for slots in self.operations]).reshape(-1, width)
        roles = np.array(self.roles)
        sent = (pushes[roles[part.node], part.slots] & (part.slots >= 0) for part in self.segments)
        return sum(map(np.count_nonzero, sent))


class TapeVisitor:
    """The reader of a tape: it is called with each step, in the order in which they happened."""

    def update(self, node: int, number: int) -> None:
        """Note local update `number` of the run, of a node with samples."""

    def push(self, node: int, number: int) -> None:
        """Note that a node sends push `number` of the run."""

    def deliver(self, node: int, number: int, operation: Op) -> None:
        """Note that a node receives a push and merges it by an operation, or ignores it (``Op.NOTHING``)."""

    def end(self, number: int) -> None:
        """Note that no message of a push is left."""


class _Event(NamedTuple):
    """An event; its messages with a model are ``first .. end - 1``, to `receivers` if they arrive at once."""

    kind: int
    node: int
    message: int
    slot: int
    first: int
    end: int
    receivers: Sequence[int]


BLOCK = 50_000
"""Number of events that are held as Python objects."""


def _iter_events(tape: ContactTape) -> Iterator[_Event]:
    for segment in tape.segments:
        begin, slots = segment.first_message, segment.slots
        ends = begin + np.cumsum(segment.count)
        for low in range(0, len(ends), BLOCK):
            some = slice(low, low + BLOCK)
            columns = (segment.kind, segment.node, segment.message, slots, segment.count, ends)
            rows = zip(*(column[some].tolist() for column in columns), strict=True)
            for kind, node, message, slot, count, end in rows:
                first, receivers = end - count, ()
                if count and len(segment.control):  # messages without a model come last
                    sent = segment.control[first - begin : end - begin]
                    end = first + int(np.count_nonzero(sent == 0))
                if count and tape.inline:
                    receivers = segment.receiver[first - begin : end - begin].tolist()
                yield _Event(kind, node, message, slot, first, end, receivers)


def replay_tape(tape: ContactTape, replay: TapeVisitor) -> None:
    """Call a replay with all steps of a run.

    A push holds the model of its node at its place among the operations of the event: at one moment a node can push
    several times, and merge or train in between.
    """
    steps = _Steps(tape, replay)
    for event in _iter_events(tape):
        if event.kind == TapeEvent.DROP:
            steps.release(event.message)
        elif event.slot >= 0:
            steps.carry_out(event)


class _Steps:
    """The state of a replay: the pushes of messages on their way, and the updates that are left."""

    def __init__(self, tape: ContactTape, replay: TapeVisitor) -> None:
        self._replay, self._roles, self._operations = replay, tape.roles, tape.operations
        self._updates = [iter(samples) for samples in tape.samples]
        self._n_updates = self._n_pushes = 0
        self._push_of: dict[int, int] = {}
        self._left: dict[int, int] = {}

    def carry_out(self, event: _Event) -> None:
        """Carry out a wake or a delivery."""
        node, arrives = event.node, event.kind == TapeEvent.DELIVER
        waits = arrives
        for operation in self._operations[self._roles[node]][event.slot]:
            if operation is Op.TRAIN:
                if next(self._updates[node], 0):
                    self._replay.update(node, self._n_updates)
                    self._n_updates += 1
            elif operation is Op.PUSH:
                self._push(event)
            elif waits:
                self._replay.deliver(node, self._push_of[event.message], operation)
                waits = False
        if waits:
            self._replay.deliver(node, self._push_of[event.message], Op.NOTHING)
        if arrives:
            self.release(event.message)

    def _push(self, event: _Event) -> None:
        """Carry out a push, and its deliveries if its messages arrive at once."""
        number, messages = self._n_pushes, range(event.first, event.end)
        self._n_pushes += 1
        self._replay.push(event.node, number)
        if not messages:
            self._replay.end(number)
            return
        self._push_of.update(dict.fromkeys(messages, number))
        self._left[number] = len(messages)
        for message, receiver in zip(messages, event.receivers, strict=False):
            self.carry_out(_Event(TapeEvent.DELIVER, receiver, message, RECEIVING, 0, 0, ()))

    def release(self, message: int) -> None:
        """Note the end of a push with its last message."""
        push = self._push_of.pop(message)
        self._left[push] -= 1
        if not self._left[push]:
            del self._left[push]
            self._replay.end(push)


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


def replay_reach(tape: ContactTape, n_users: int, roots: I64) -> Reach:
    """Return the reach of each user's updates.

    The data of the users `roots` are at the coordinator, the last node: all that it sends holds them.
    """
    replay = _ReachReplay(n_users, len(tape.roles), roots)
    replay_tape(tape, replay)
    return Reach(replay.known.T.astype(np.int64), replay.hops.T.astype(np.int64))


class _ReachReplay(TapeVisitor):
    """The first updates of each user that each node can know, and the hops by which they came."""

    def __init__(self, n_users: int, n_nodes: int, roots: I64) -> None:
        self.known = np.zeros((n_nodes, n_users), np.int32)
        self.hops = np.full((n_nodes, n_users), FAR, np.int16)
        if len(roots):
            self.known[-1, roots], self.hops[-1, roots] = 1, 0
        self._n_users = n_users
        self._pushed: dict[int, tuple[Any, Any]] = {}

    def update(self, node: int, number: int) -> None:
        if node < self._n_users:
            self.known[node, node] += 1
            self.hops[node, node] = 0

    def push(self, node: int, number: int) -> None:
        self._pushed[number] = (self.known[node].copy(), self.hops[node].copy())

    def deliver(self, node: int, number: int, operation: Op) -> None:
        updates, away = self._pushed[number]
        np.maximum(self.known[node], updates, out=self.known[node])
        np.minimum(self.hops[node], np.where(away < FAR, away + 1, FAR), out=self.hops[node])

    def end(self, number: int) -> None:
        del self._pushed[number]


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


def count_numbers(tape: ContactTape) -> int:
    """Return an upper bound of the numbers that a linear replay holds."""
    return tape.n_updates * (tape.n_updates + tape.n_pushes)


def replay_linear(tape: ContactTape, weights: F64) -> LinearReplay:
    """Return the pushes of a run in which merges are means, given the weight of each node's models."""
    replay = _WeightedReplay(tape, weights)
    replay_tape(tape, replay)
    counts = [[count for count in samples if count] for samples in tape.samples]
    updates = [(node, order, counts[node][order]) for node, order in replay.updates]
    owner, order, samples = np.array(updates, np.int64).reshape(-1, 3).T
    sender, sent_updates = np.array(replay.sent, np.int64).reshape(-1, 2).T
    pushes = np.array(replay.pushes).reshape(len(replay.pushes), len(updates))
    return LinearReplay(owner, order, samples, replay.before, pushes, sender, sent_updates, replay.deliveries)


class _WeightedReplay(TapeVisitor):
    """The models of all nodes, as rows of weights of local updates.

    A merge is applied on arrival, by the weights of :func:`gossiprec.compute.plan.planner_loop.enqueue_delivery`.
    """

    def __init__(self, tape: ContactTape, weights: F64) -> None:
        n_nodes, n_trained = len(tape.roles), sum(map(np.count_nonzero, tape.samples))
        self._models, self._weights = np.zeros((n_nodes, n_trained)), weights.tolist()
        self._mass = [0.0] * n_nodes  # of the models that a node has pooled since its last push
        self._taken = [0] * n_nodes
        self.before = np.zeros((n_trained, n_trained))
        self.updates: list[tuple[int, int]] = []  # the node of each, and its number among those of the node
        self.pushes: list[F64] = []
        self.sent: list[tuple[int, int]] = []  # the sender of each push, and the number of its updates before
        self.deliveries = [list[int]() for _ in range(n_nodes)]

    def update(self, node: int, number: int) -> None:
        self.before[number] = self._models[node]
        self.updates.append((node, self._taken[node]))
        self._models[node, number] = 1.0
        self._taken[node] += 1

    def push(self, node: int, number: int) -> None:
        self._mass[node] = 0.0
        self.pushes.append(self._models[node].copy())
        self.sent.append((node, self._taken[node]))

    def deliver(self, node: int, number: int, operation: Op) -> None:
        self.deliveries[node].append(number)
        if operation is Op.NOTHING:
            return
        keep, weight = 0.0, self._weights[self.sent[number][0]]
        if operation is not Op.ADOPT:
            own = 0.0 if operation is Op.POOL else self._weights[node]
            if operation is not Op.BLEND:
                own += self._mass[node]
                self._mass[node] += weight
            keep = own / (own + weight) if weight > 0 else 1.0
        self._models[node] = keep * self._models[node] + (1 - keep) * self.pushes[number]


class ReplayedRound(NamedTuple):
    """A round of a coordinator: the clients of which it has merged an answer, and the samples of their updates."""

    clients: list[int]
    samples: list[int]


def replay_rounds(tape: ContactTape, n_users: int) -> tuple[list[ReplayedRound], I64] | None:
    """Return the rounds of a coordinator, and how many each client has seen.

    None unless each answer of a round is a fresh local update of another client: a late one holds an earlier version,
    and a client of which the task was copied answers twice.
    """
    replay = _RoundReplay(tape, n_users)
    replay_tape(tape, replay)
    # the first version has no answers in it: version k shows rounds 1 .. k - 1
    return None if replay.is_mixed else (replay.rounds[1:], np.maximum(replay.seen - 1, 0))


@dataclass(frozen=True)
class _Answer:
    """What a push carries: its sender, the version that it has trained on, and the samples of its update, or 0."""

    sender: int
    version: int
    samples: int


class _RoundReplay(TapeVisitor):
    """The answers that a coordinator has merged, round by round."""

    def __init__(self, tape: ContactTape, n_users: int) -> None:
        self.rounds = [ReplayedRound([], [])]
        self.seen = np.zeros(n_users, np.int64)
        self.is_mixed = False
        self._coordinator = n_users
        self._samples = [iter([count for count in samples if count]) for samples in tape.samples]
        self._held, self._trained = [0] * n_users, [0] * n_users
        self._carried: dict[int, _Answer] = {}

    def update(self, node: int, number: int) -> None:
        self._trained[node] = next(self._samples[node])

    def push(self, node: int, number: int) -> None:
        if node == self._coordinator:
            self.rounds.append(ReplayedRound([], []))
            self._carried[number] = _Answer(node, len(self.rounds) - 1, 0)
        else:
            self._carried[number] = _Answer(node, self._held[node], self._trained[node])

    def deliver(self, node: int, number: int, operation: Op) -> None:
        answer = self._carried[number]
        if node != self._coordinator:
            self._held[node], self._trained[node] = answer.version, 0
            self.seen[node] = max(self.seen[node], answer.version)
            return
        now = self.rounds[-1]
        if answer.version != len(self.rounds) - 1 or answer.sender in now.clients:
            self.is_mixed = True
        now.clients.append(answer.sender)
        now.samples.append(answer.samples)

    def end(self, number: int) -> None:
        del self._carried[number]
