"""Random worlds of the engine, played in both ways; and the slow, obvious transport."""

from __future__ import annotations

import math

import numpy as np

from gossiprec.compute.plan.tape import Tape
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.clock import ComputeTime, Constant, Exponential, Uniform, WakeClock
from gossiprec.network.sim.engine import Engine, WakePlan
from gossiprec.network.sim.fair_share import FairShare
from gossiprec.network.sim.network import Latency, MatrixLatency, Network, Partition
from gossiprec.network.sim.transport import Transport

N = 5


class Pushing:
    """Every node sends to the next few nodes; how many depends on its wake's number."""

    def __init__(self):
        self.woken = [0] * N

    def on_wake(self, node, now):
        self.woken[node] += 1
        return [(node + k) % N for k in range(1, 1 + self.woken[node] % 4)]

    def on_delivery(self, node, message, now):
        return ()

    def on_missed_wake(self, node, now):
        self.woken[node] += 1


def latency_of(kind, seed):
    """Return a latency by name."""
    if kind == "matrix":
        return MatrixLatency(np.random.default_rng(seed).integers(0, 4, (N, N)) / 4.0)
    law, per = {
        "none": (Constant(0.0), "message"),
        "constant": (Constant(0.5), "message"),
        "exponential": (Exponential(0.7), "message"),
        "node": (Uniform(0.1, 1.0), "node"),
        "pair": (Exponential(0.5), "pair"),
    }[kind]
    return Latency(law, per=per, n_nodes=N, seed=seed)


def presence_of(changes):
    """Return a presence from lists of gaps between changes; None: always online."""
    return Availability([len(gaps) % 2 == 0 for gaps in changes], [np.cumsum(gaps) for gaps in changes])


def played(world, mode, *, every=2.0, compiled=False):
    """Play a random world; return its tape as rows, and how far each stretch reached."""
    seed, availability = world["seed"], presence_of(world["changes"])
    n, up, down = N, world["up"], world["down"]
    network = Network(
        latency_of(world["latency"], seed),
        loss=world["loss"],
        duplication=world["duplication"],
        reordering=world["reordering"],
        partitions=[Partition(1.0, 3.0, np.arange(n) % 2)] if world["partition"] else [],
        seed=seed,
    )
    sharing = None
    if up is not None:
        sharing = FairShare(np.full(n, up), np.full(n, down), np.arange(1.0, n + 1.0), compiled=compiled)
    work = None
    if world["compute"]:
        none = np.zeros(n, np.bool_)
        law = Constant(0.25) if world["compute"] == "constant" else Exponential(0.5)
        work = ComputeTime(law, per="update", scale=np.ones(n), on_wake=~none, on_receive=none, seed=seed)
    tape = Tape()
    engine = Engine(
        control=Pushing(),
        plan=WakePlan(
            WakeClock(range(n), mean=1.0, distribution=world["clock"], seed=seed),
            world["wakes"],
            availability,
        ),
        transport=Transport(
            network, availability, held=world["held"], in_order=world["in_order"], sharing=sharing
        ),
        recorder=tape,
        work=work,
        mode=mode,
    )
    rows, misses, number = [], [], 0
    while not engine.finished:
        number += 1
        engine.run_until(math.nextafter(number * every, math.inf))
        segment = tape.cut()
        names = ("kind", "node", "message", "count", "time", "ready", "cause", "queued")
        rows += zip(*[getattr(segment, name).tolist() for name in names], strict=True)
        rows += [("to", *segment.receiver.tolist())]
        misses += zip(segment.misses.time.tolist(), segment.misses.node.tolist(), strict=True)
    return rows, misses


def fair_sharing(starts, up, down):
    """Return when each transfer (time, sender, receiver, bytes) ends, found in the slow and obvious way."""
    left, ends, now = {}, {}, 0.0
    waiting = sorted(range(len(starts)), key=lambda k: starts[k][0])
    while waiting or left:
        rate = {}
        for k in left:
            _, sender, receiver, _ = starts[k]
            n_up = sum(starts[j][1] == sender for j in left)
            n_down = sum(starts[j][2] == receiver for j in left)
            rate[k] = min(up[sender] / n_up, down[receiver] / n_down)
        end = min((now + left[k] / rate[k] for k in left), default=math.inf)
        begin = starts[waiting[0]][0] if waiting else math.inf
        step = min(end, begin)
        for k in left:
            left[k] -= rate[k] * (step - now)
        for k in [k for k in left if left[k] <= 1e-9]:
            ends[k] = step
            del left[k]
        if begin <= end:
            k = waiting.pop(0)
            left[k] = starts[k][3]
        now = step
    return [ends[k] for k in range(len(starts))]
