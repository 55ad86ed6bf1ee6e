"""Tapes of small runs, a naive interpreter of them, and an executor of plans: for tests of the planner."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.plan.tables import APPRAISED
from gossiprec.compute.plan.tape import Event, Op, Tape
from gossiprec.compute.train.node_settings import NO_LIMIT
from gossiprec.protocols import PROTOCOLS
from gossiprec.sim.engine import Engine
from gossiprec.sim.latency import Latency
from gossiprec.sim.laws import Constant, Exponential
from gossiprec.sim.network import Network
from gossiprec.sim.transport import Transport


def protocol(name, n_users, seed=1, **options):
    """Return a registered protocol."""
    made = PROTOCOLS[name]
    return made(made.Options.model_validate(options), n_users=n_users, seed=seed)


def record(control, *, law="constant", latency=0.0, loss=0.0, every=1e9, inline=None, mode=None):
    """Run a protocol to its end; return its tape, cut every so often, and whether deliveries are implied."""
    times = Constant(latency) if law == "constant" else Exponential(latency)
    n, seed = control.n_nodes, control.seed
    network = Network(n, latency=Latency(times, n_nodes=n, seed=seed), loss=loss, seed=seed)
    if inline is None:
        inline = network.instant and not control.replies
    tape, segments = Tape(), []
    engine = Engine(
        control=control,
        clock=control.clock,
        transport=Transport(network, control.availability),
        recorder=tape,
        wakes=control.wakes,
        availability=control.availability,
        mode=mode or ("inline" if inline else "step" if control.replies else "stretch"),
        steering=control if control.steers else None,
    )
    while not engine.finished:
        engine.run_until(np.nextafter((len(segments) + 1) * every, np.inf))
        segments.append(tape.cut())
    return segments, inline


def planner(
    control,
    *,
    inline,
    spare_rows=100,
    pools=(),
    weights=None,
    expected_messages=0,
    keeps_first=False,
    inboxes=(),
    rewriting=(),
):
    """Return a planner for a protocol; by default the nodes' weights are 1, 2, 3, ..."""
    has_inbox = np.zeros(control.n_nodes, bool)
    has_inbox[list(inboxes)] = True
    rewrites = np.zeros(control.n_nodes, bool)
    rewrites[list(rewriting)] = True
    pools_of = np.zeros((control.n_nodes, len(pools)), bool)
    for number, members in enumerate(pools):
        pools_of[list(members), number] = True
    positives = np.arange(1, control.n_users + 1) if weights is None else np.array(weights)
    return Planner(
        roles=control.roles,
        behaviours=control.behaviours,
        weights=control.merge_weights(positives),
        most_updates=np.full(control.n_nodes, NO_LIMIT),
        cost=np.arange(control.n_nodes, dtype=float) % 3,
        pools_of=pools_of,
        inline=inline,
        spare_rows=spare_rows,
        expected_messages=expected_messages,
        keeps_first=keeps_first,
        inboxes=has_inbox,
        rewrites=rewrites,
    )


def first_values(n_nodes):
    """Return a model for each node: an own number, which no merge may touch, and a shared one."""
    return np.array([[node + 0.25, 1 / (node + 3)] for node in range(n_nodes)])


def trained(node, update, value):
    """Return the model after local update number `update`."""
    own, shared = value
    return np.array([0.5 * own + node + update / 7, 0.75 * shared + 0.1 * own + 1 / (update + 3)])


def merged(keep, value, theirs):
    """Return the model after merging a received one; a negative weight stands for one that the values decide."""
    if keep < 0:
        keep = abs(value[1]) / (abs(value[1]) + abs(theirs[1]))
    if keep == 0:
        return np.array([value[0], theirs[1]])
    return np.array([value[0], keep * value[1] + (1 - keep) * theirs[1]])


def reduced(value, inbox):
    """Return the model after reducing an inbox of (model, weight): any rule that looks at all of it would do."""
    if not inbox:
        return value
    worth = sorted((weight, shared) for (_, shared), weight in inbox)
    return np.array([value[0], 0.5 * value[1] + 0.5 * max(shared for _, shared in worth) + worth[0][0] / 8])


def encoded(node, push, value, base):
    """Return what a rewriting node sends in place of its model."""
    return value + np.array([node + 0.5, push / 7 + (0.0 if base is None else base[1] / 3)])


class Naive:
    """Carries out a tape event by event, each the moment it happens.

    Attributes
    ----------
    values : list of ndarray
        The nodes' models.
    received : list of lists of (message, model)
        What every node was delivered, in order; and the versions of its own that it mixed in.
    seen : list of (pool, victim, message, model)
        What the pools saw, in order.
    """

    def __init__(self, control, pools=(), weights=None, inline=False, inboxes=(), rewriting=()):
        self._behaviours = [control.behaviours[role] for role in control.roles]
        positives = np.arange(1, control.n_users + 1) if weights is None else np.array(weights)
        self._weights = control.merge_weights(positives)
        self._pools, self._inline = pools, inline
        self.values = list(first_values(control.n_nodes))
        self.received = [[] for _ in self.values]
        self.seen = []
        self.updates = [0] * control.n_nodes
        self._mass = [
            (0.0, 0.0)
        ] * control.n_nodes  # pooled since the last push, with and without the factors
        self._held = [None] * control.n_nodes
        self._pushed = [None] * control.n_nodes
        self._inboxes = {node: [] for node in inboxes}  # received since the node's model was last read
        self._bases = dict.fromkeys(rewriting)  # version before the last update, if after the last push
        self._pushes = dict.fromkeys(rewriting, 0)
        self._sent = {}  # message: sender, model, push
        self._known = set()

    def play(self, segment):
        """Carry out a stretch of tape."""
        first = segment.first_message
        factors = segment.factor if len(segment.factor) else np.ones(len(segment.kind))
        for kind, node, message, count, factor in zip(
            segment.kind, segment.node, segment.message, segment.count, factors, strict=True
        ):
            going = range(first, first + count)
            first += count
            if kind == Event.WAKE:
                self._act(node, self._behaviours[node].on_wake, going)
                if self._inline:
                    for m in going:
                        self._deliver(m, segment.receiver[m - segment.first_message], ())
            elif kind == Event.RESET:
                self._read(node)
                if node in self._bases:
                    self._bases[node] = None
                self.values[node] = first_values(len(self.values))[node]
            elif kind == Event.DELIVER:
                self._deliver(message, node, going, factor)

    def _deliver(self, message, node, going, factor=1.0):
        sender, model, push = self._sent[message]
        self.received[node].append((message, *model))
        for pool, members in enumerate(self._pools):
            if node in members and (pool, push) not in self._known:
                self._known.add((pool, push))
                self.seen.append((pool, sender, message, *model))
        self._act(node, self._behaviours[node].on_receive, going, sender, model, factor)

    def _act(self, node, ops, going, sender=None, model=None, factor=1.0):
        for op in ops:
            if op in (Op.TRAIN, Op.PUSH, Op.MIX):
                self._read(node)
            if op == Op.TRAIN:
                if node in self._bases:
                    self._bases[node] = self.values[node]
                self.values[node] = trained(node, self.updates[node], self.values[node])
                self.updates[node] += 1
            elif op == Op.PUSH:
                self._mass[node], self._held[node] = (0.0, 0.0), self.values[node]
                self._pushed[node] = going[0] if going else self._pushed[node]
                leaving = self._leaving(node) if going else None
                for m in going:
                    self._sent[m] = (node, leaving, going[0])
            elif op == Op.MIX:
                weighted, full = self._mass[node]
                if weighted > 0:
                    share = float(np.float32(self._behaviours[node].mixing * weighted / full))
                    self.values[node] = merged(share, self.values[node], self._held[node])
                    self.received[node].append((self._pushed[node], *self._held[node]))
            elif node in self._inboxes:
                self._collect(op, node, sender, model, factor)
            else:
                self.values[node] = merged(self._keep(op, node, sender, factor), self.values[node], model)

    def _leaving(self, node):
        value = self.values[node]
        if node in self._bases:
            value = encoded(node, self._pushes[node], value, self._bases[node])
            self._bases[node] = None
            self._pushes[node] += 1
        return value

    def _collect(self, op, node, sender, model, factor):
        if self._keep(op, node, sender, factor) < 1.0:
            self._inboxes[node].append((model, factor * self._weights[sender]))

    def _read(self, node):
        if node in self._inboxes:
            self.values[node] = reduced(self.values[node], self._inboxes[node])
            self._inboxes[node] = []

    def _keep(self, op, node, sender, factor):
        if op == Op.APPRAISE:
            return APPRAISED
        weighted, full = self._mass[node]
        own = {Op.BLEND: self._weights[node], Op.ADOPT: 0.0, Op.POOL: weighted}[op]
        theirs = factor * self._weights[sender]
        if theirs == 0:
            return 0.0 if op == Op.ADOPT else 1.0
        if op == Op.POOL:
            self._mass[node] = weighted + theirs, full + self._weights[sender]
        return 0.0 if op == Op.ADOPT else float(np.float32(own / (own + theirs)))


class Plans:
    """Carries out plans, the work of each wave in a random order.

    Attributes
    ----------
    rows : ndarray of float64, shape (capacity, 2)
    received, seen
        As in :class:`Naive`.
    """

    def __init__(self, n_nodes, seed=0, inboxes=()):
        self._inboxes = inboxes
        self.rows = np.full((n_nodes, 2), np.nan)
        self.rows[:] = first_values(n_nodes)
        self.received = [[] for _ in range(n_nodes)]
        self.seen = []
        self._rng = np.random.default_rng(seed)

    def run(self, plan, capacity):
        """Carry out a plan that may name so many rows."""
        grown = np.full((capacity, 2), np.nan)
        grown[: len(self.rows)] = self.rows
        self.rows = grown
        for tasks, sightings in waves(plan):
            work = [(self._task, plan.program, t) for t in tasks]
            work += [(self._sighting, plan.sightings, k) for k in sightings]
            for k in self._rng.permutation(len(work)):
                do, what, number = work[k]
                do(what, number)

    def _task(self, program, t):
        value, node = self.rows[program.source[t]].copy(), program.node[t]
        entries = range(*program.merge_offsets[t : t + 2])
        if node in self._inboxes:
            inbox = [k for k in entries if program.merge_keep[k] < 0]
            value = reduced(
                value, [(self.rows[program.merge_row[k]], program.merge_weight[k]) for k in inbox]
            )
        if len(program.push) and program.push[t] >= 0:
            base = self.rows[program.base[t]] if program.base[t] >= 0 else None
            value = encoded(node, program.push[t], value, base)
        for k in entries:
            theirs = self.rows[program.merge_row[k]]
            self.received[node].append((program.merge_message[k], *theirs))
            if node in self._inboxes and program.merge_keep[k] < 0:
                continue
            value = merged(float(program.merge_keep[k]), value, theirs)
        if program.update[t] >= 0:
            value = trained(node, program.update[t], value)
        self.rows[program.target[t]] = value

    def _sighting(self, sightings, k):
        row = self.rows[sightings.row[k]]
        self.seen.append((sightings.pool[k], sightings.victim[k], sightings.message[k], *row))


def waves(plan):
    """Return the tasks and the sightings of each wave."""
    tasks, sightings = plan.task_offsets, plan.sighting_offsets
    return [
        (plan.order[tasks[w] : tasks[w + 1]], range(sightings[w], sightings[w + 1]))
        for w in range(len(tasks) - 1)
    ]


def per_pair(seen):
    """Return what each pool saw of each victim, in order."""
    pairs = {}
    for pool, victim, *what in seen:
        pairs.setdefault((int(pool), int(victim)), []).append([float(x) for x in what])
    return pairs
