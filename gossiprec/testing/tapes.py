"""Tapes of small runs, planners for them, and naive interpreters of tapes and plans, on models of two numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.compute.local_update import NO_LIMIT
from gossiprec.compute.plan.planner import Planner, PlannerOptions
from gossiprec.compute.plan.program import UNRESOLVED, ExecutionPlan, PoolDeliveries, Program
from gossiprec.compute.plan.tape import MERGING, Op, Tape, TapeEvent, TapeSegment, operations_by_slot
from gossiprec.network.protocols import PROTOCOLS, Protocol
from gossiprec.network.protocols.messages import MessageBook
from gossiprec.network.sim.clock import Constant, Exponential
from gossiprec.network.sim.engine import Engine, WakePlan
from gossiprec.network.sim.network import Latency, Network
from gossiprec.network.sim.transport import Transport

NOTHING = np.full(2, np.nan)
"""The model of a node's wake event."""


def initial_models(n_nodes: int) -> F64:
    """Return a model per node: its own number, which no merge may touch, and a shared number."""
    return np.array([[node + 0.25, 1 / (node + 3)] for node in range(n_nodes)])


def train_once(node: int, update: int, value: F64) -> F64:
    """Return the model after local update number `update`."""
    own, shared = value
    return np.array([0.5 * own + node + update / 7, 0.75 * shared + 0.1 * own + 1 / (update + 3)])


def merge_once(keep: float, value: F64, theirs: F64) -> F64:
    """Return the model after merging a received one; a negative weight means that the values determine it."""
    if keep < 0:
        keep = abs(value[1]) / (abs(value[1]) + abs(theirs[1]))
    if keep == 0:
        return np.array([value[0], theirs[1]])
    return np.array([value[0], keep * value[1] + (1 - keep) * theirs[1]])


def reduce_inbox(value: F64, inbox: Sequence[tuple[F64, float]]) -> F64:
    """Return the model after reducing an inbox of (model, weight), by a rule that depends on all of it."""
    if not inbox:
        return value
    worth = sorted((weight, shared) for (_, shared), weight in inbox)
    return np.array([value[0], 0.5 * value[1] + 0.5 * max(shared for _, shared in worth) + worth[0][0] / 8])


def encode_push(node: int, push: int, value: F64, base: F64 | None) -> F64:
    """Return the message that a rewriting node sends instead of its model."""
    added: F64 = np.array([node + 0.5, push / 7 + (0.0 if base is None else base[1] / 3)])
    return value + added


class NaiveInterpreter:
    """An interpreter that carries out a tape event by event.

    Attributes
    ----------
    values : list of ndarray
        The nodes' models.
    received : list of lists of (message, model)
        Deliveries to every node, in order, and the own versions that it mixed in.
    seen : list of (pool, victim, message, model)
        Deliveries that the pools saw, in order.
    """

    def __init__(
        self,
        control: Protocol,
        pools: Sequence[Collection[int]] = (),
        weights: Sequence[int] | None = None,
        inline: bool = False,
        inboxes: Collection[int] = (),
        rewriting: Collection[int] = (),
    ) -> None:
        self._behaviours = [control.role_behaviours[role] for role in control.roles]
        operations = operations_by_slot(control.role_behaviours)
        self._operations = [operations[role] for role in control.roles]
        positives = np.arange(1, control.n_users + 1) if weights is None else np.array(weights)
        self._weights = control.merge_weights(positives)
        self._pools, self._inline = pools, inline
        self.values: list[F64] = list(initial_models(control.n_nodes))
        self.received: list[list[tuple[float, ...]]] = [[] for _ in self.values]
        self.seen: list[tuple[float, ...]] = []
        self.updates = [0] * control.n_nodes
        # Pooled since the last push, with and without the factors.
        self._mass = [(0.0, 0.0)] * control.n_nodes
        self._held = list(self.values)
        self._pushed = [-1] * control.n_nodes
        # Received since the node's model was last read.
        self._inboxes: dict[int, list[tuple[F64, float]]] = {node: [] for node in inboxes}
        # The version before the last update, if that came after the last push.
        self._bases: dict[int, F64 | None] = dict.fromkeys(rewriting)
        self._pushes = dict.fromkeys(rewriting, 0)
        self._sent: dict[int, tuple[int, F64, int]] = {}  # message: sender, model, push
        self._known: set[tuple[int, int]] = set()

    def play(self, segment: TapeSegment) -> None:
        """Carry out a segment of a tape."""
        first = segment.first_message
        factors = segment.factor if len(segment.factor) else np.ones(len(segment.kind))
        models = segment.carries_model
        for kind, node, message, count, factor, slot in zip(
            segment.kind, segment.node, segment.message, segment.count, factors, segment.slots, strict=True
        ):
            going = [m for m in range(first, first + count) if models[m - segment.first_message]]
            first += count
            operations = self._operations[node][slot]
            if kind == TapeEvent.WAKE:
                self._act(node, operations, going)
                if self._inline:
                    for m in going:
                        receiver = segment.receiver[m - segment.first_message]
                        self._deliver(m, receiver, self._behaviours[receiver].on_receive, ())
            elif kind == TapeEvent.RESET:
                self._read(node)
                if node in self._bases:
                    self._bases[node] = None
                self.values[node] = initial_models(len(self.values))[node]
                self._mass[node] = (0.0, 0.0)
            elif kind == TapeEvent.DELIVER:
                self._deliver(message, node, operations, going, factor)
            elif kind == TapeEvent.SIGNAL:
                self._act(node, operations, going)

    def _deliver(
        self, message: int, node: int, operations: Sequence[Op], going: Sequence[int], factor: float = 1.0
    ) -> None:
        sender, model, push = self._sent[message]
        if MERGING & set(operations):
            self.received[node].append((message, *model))
        for pool, members in enumerate(self._pools):
            if node in members and (pool, push) not in self._known:
                self._known.add((pool, push))
                self.seen.append((pool, sender, message, *model))
        self._act(node, operations, going, sender, model, factor)

    def _act(
        self,
        node: int,
        ops: Iterable[Op],
        going: Sequence[int],
        sender: int = -1,
        model: F64 = NOTHING,
        factor: float = 1.0,
    ) -> None:
        for op in ops:
            if op in (Op.TRAIN, Op.PUSH, Op.MIX):
                self._read(node)
            if op == Op.TRAIN:
                if node in self._bases:
                    self._bases[node] = self.values[node]
                self.values[node] = train_once(node, self.updates[node], self.values[node])
                self.updates[node] += 1
            elif op == Op.PUSH:
                self._mass[node], self._held[node] = (0.0, 0.0), self.values[node]
                self._pushed[node] = going[0] if going else self._pushed[node]
                if going:
                    leaving = self._leaving(node)
                    self._sent |= dict.fromkeys(going, (node, leaving, going[0]))
            elif op == Op.MIX:
                weighted, full = self._mass[node]
                if weighted > 0:
                    share = float(np.float32(self._behaviours[node].mixing * weighted / full))
                    self.values[node] = merge_once(share, self.values[node], self._held[node])
                    self.received[node].append((self._pushed[node], *self._held[node]))
            elif node in self._inboxes:
                if self._keep(op, node, sender, factor) < 1.0:
                    self._inboxes[node].append((model, factor * self._weights[sender]))
            else:
                self.values[node] = merge_once(self._keep(op, node, sender, factor), self.values[node], model)

    def _leaving(self, node: int) -> F64:
        value = self.values[node]
        if node in self._bases:
            value = encode_push(node, self._pushes[node], value, self._bases[node])
            self._bases[node] = None
            self._pushes[node] += 1
        return value

    def _read(self, node: int) -> None:
        if node in self._inboxes:
            self.values[node] = reduce_inbox(self.values[node], self._inboxes[node])
            self._inboxes[node] = []

    def _keep(self, op: Op, node: int, sender: int, factor: float) -> float:
        if op == Op.SCORE:
            return UNRESOLVED
        weighted, full = self._mass[node]
        weight = self._weights[node]
        own = {Op.BLEND: weight, Op.ADOPT: 0.0, Op.POOL: weighted, Op.AVERAGE: weight + weighted}[op]
        theirs = factor * self._weights[sender]
        if theirs == 0:
            return 0.0 if op == Op.ADOPT else 1.0
        if op in (Op.POOL, Op.AVERAGE):
            self._mass[node] = weighted + theirs, full + self._weights[sender]
        return 0.0 if op == Op.ADOPT else float(np.float32(own / (own + theirs)))


class ShuffledPlanRunner:
    """A runner of plans that carries out the work of each wave in a random order.

    Attributes
    ----------
    rows : ndarray of float64, shape (capacity, 2)
    received, seen
        As in :class:`NaiveInterpreter`.
    """

    def __init__(self, n_nodes: int, seed: int = 0, inboxes: Collection[int] = ()) -> None:
        self._inboxes = inboxes
        self.rows = np.full((n_nodes, 2), np.nan)
        self.rows[:] = initial_models(n_nodes)
        self.received: list[list[tuple[float, ...]]] = [[] for _ in range(n_nodes)]
        self.seen: list[tuple[float, ...]] = []
        self._rng = np.random.default_rng(seed)

    def run(self, plan: ExecutionPlan, capacity: int) -> None:
        """Carry out a plan that uses up to `capacity` rows."""
        grown = np.full((capacity, 2), np.nan)
        grown[: len(self.rows)] = self.rows
        self.rows = grown
        for tasks, pool_deliveries in waves(plan):
            work: list[tuple[Callable[[Any, int], None], Any, int]]
            work = [(self._task, plan.program, t) for t in tasks]
            work += [(self._deliver_to_pool, plan.pool_deliveries, k) for k in pool_deliveries]
            for k in self._rng.permutation(len(work)):
                do, what, number = work[k]
                do(what, number)

    def _task(self, program: Program, t: int) -> None:
        value, node = self.rows[program.source[t]].copy(), program.node[t]
        entries = range(*program.merge_offsets[t : t + 2])
        if node in self._inboxes:
            inbox = [k for k in entries if program.merge_keep[k] < 0]
            models = [(self.rows[program.merge_row[k]], program.merge_weight[k]) for k in inbox]
            value = reduce_inbox(value, models)
        if len(program.push) and program.push[t] >= 0:
            base = self.rows[program.base[t]] if program.base[t] >= 0 else None
            value = encode_push(node, program.push[t], value, base)
        for k in entries:
            theirs = self.rows[program.merge_row[k]]
            self.received[node].append((program.merge_message[k], *theirs))
            if node in self._inboxes and program.merge_keep[k] < 0:
                continue
            value = merge_once(float(program.merge_keep[k]), value, theirs)
        if program.update[t] >= 0:
            value = train_once(node, program.update[t], value)
        self.rows[program.target[t]] = value

    def _deliver_to_pool(self, pool_deliveries: PoolDeliveries, k: int) -> None:
        row, of = self.rows[pool_deliveries.row[k]], pool_deliveries
        self.seen.append((of.pool[k], of.victim[k], of.message[k], *row))


def waves(plan: ExecutionPlan) -> list[tuple[I64, range]]:
    """Return the tasks and the pool deliveries of each wave."""
    ends = zip(pairwise(plan.task_offsets), pairwise(plan.pool_delivery_offsets), strict=False)
    return [(plan.order[slice(*tasks)], range(*deliveries)) for tasks, deliveries in ends]


def make_test_protocol(kind: str | type[Protocol], n_users: int, seed: int = 1, **options: Any) -> Protocol:
    """Return a protocol: a registered one by name, or one of any class."""
    made = PROTOCOLS[kind] if isinstance(kind, str) else kind
    return made(made.Options.model_validate(options), n_users=n_users, seed=seed)


def record_tape(
    control: Protocol,
    *,
    distribution: str = "constant",
    latency: float = 0.0,
    loss: float = 0.0,
    duplication: float = 0.0,
    every: float = 1e9,
    inline: bool | None = None,
    mode: Literal["inline", "stretch", "step"] | None = None,
) -> tuple[list[TapeSegment], bool]:
    """Run a protocol to its end; return its tape, cut at intervals of `every`, and whether deliveries are implied."""
    times = Constant(latency) if distribution == "constant" else Exponential(latency)
    n, seed = control.n_nodes, control.seed
    network = Network(Latency(times, n_nodes=n, seed=seed), loss=loss, duplication=duplication, seed=seed)
    transport = Transport(network, control.availability)
    if inline is None:
        inline = transport.is_instant and not control.replies
    tape, segments, book = Tape(), list[TapeSegment](), MessageBook.of(control)
    engine = Engine(
        control=book or control,
        plan=WakePlan(control.clock, control.wakes, control.availability),
        transport=transport,
        recorder=tape,
        mode=mode or ("inline" if inline else "step" if control.replies else "stretch"),
        steering=control if control.sets_own_wakes else None,
        book=book,
    )
    while not engine.finished:
        engine.run_until(float(np.nextafter((len(segments) + 1) * every, np.inf)))
        segments.append(tape.cut())
    return segments, inline


def make_test_planner(
    control: Protocol,
    *,
    inline: bool,
    pools: Sequence[Collection[int]] = (),
    weights: Sequence[int] | None = None,
    inboxes: Collection[int] = (),
    rewriting: Collection[int] = (),
    **settings: Any,
) -> Planner:
    """Return a planner for a protocol; by default it has 100 spare rows, and the nodes' weights are 1, 2, 3, ..."""
    has_inbox = np.zeros(control.n_nodes, bool)
    has_inbox[list(inboxes)] = True
    rewrites = np.zeros(control.n_nodes, bool)
    rewrites[list(rewriting)] = True
    pools_of = np.zeros((control.n_nodes, len(pools)), bool)
    for number, members in enumerate(pools):
        pools_of[list(members), number] = True
    positives = np.arange(1, control.n_users + 1) if weights is None else np.array(weights)
    return Planner(
        PlannerOptions(
            roles=control.roles,
            behaviours=control.role_behaviours,
            weights=control.merge_weights(positives),
            most_updates=np.full(control.n_nodes, NO_LIMIT),
            cost=np.arange(control.n_nodes, dtype=float) % 3,
            pools_of=pools_of,
            inline=inline,
            inboxes=has_inbox,
            rewrites=rewrites,
            **{"spare_rows": 100, "expected_messages": 0, **settings},
        )
    )
