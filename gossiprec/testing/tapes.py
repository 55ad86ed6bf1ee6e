"""Tapes of small runs, and a planner for them, for any protocol and network, without models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np

from gossiprec.compute.local_update import NO_LIMIT
from gossiprec.compute.plan.planner import Planner, PlannerOptions
from gossiprec.compute.plan.tape import Tape, TapeSegment
from gossiprec.network.protocols import PROTOCOLS, Protocol
from gossiprec.network.protocols.messages import MessageBook
from gossiprec.network.sim.distributions import Constant, Exponential
from gossiprec.network.sim.engine import Engine, WakePlan
from gossiprec.network.sim.network import Latency, Network
from gossiprec.network.sim.transport import Transport


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
