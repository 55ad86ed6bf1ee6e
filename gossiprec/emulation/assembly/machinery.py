"""What computes: arena, executor and planner of a run, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import I64
from gossiprec.compute.executors import EXECUTORS, Executor, Workload
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.train.node_settings import Kind, NodeSettings
from gossiprec.compute.train.performance_merge import draw_candidates
from gossiprec.emulation.assembly.attackers import with_poisoners
from gossiprec.emulation.assembly.central import make_central_executor, needed_by_center
from gossiprec.emulation.assembly.clients import make_client_executor, needed_by_clients
from gossiprec.emulation.assembly.participants import Cast
from gossiprec.emulation.run.metering import Metered
from gossiprec.emulation.run.schedule import Schedule
from gossiprec.machine import usable_cores
from gossiprec.scenario import Scenario

FEW_EPOCHS = 3_000
"""Local epochs below which ``executor: auto`` takes the reference: compiling would last longer."""
FEW_PRIVATE_EPOCHS = 300
"""The same under DP-SGD, where the reference takes one sample after the other."""
SPARE_BYTES = 128 * 2**20
"""Memory for versions in waiting; with less than one spare row for four nodes, merging in time costs too much."""


LOOKS = 100
"""Nodes that the planner looks at in the time of a message."""
ROWS_OF_AN_ANSWER = 4
"""Handles that a client without a model takes in a round: what it was sent, has trained and sends."""


@dataclass(frozen=True)
class Needs:
    """What a run takes, observers apart: bytes by part, and rows beside those of the nodes' own versions."""

    bytes: dict[str, int]
    rows: int


def needs_of(cast: Cast) -> Needs:
    """Return what versions, those in waiting, in inboxes and for servers, and optimizer state take."""
    n_nodes = cast.protocol.n_nodes
    if cast.protocol.sends_updates:
        return Needs(needed_by_clients(cast), n_nodes + cast.waiting)
    if cast.protocol.holds_all_data:
        return Needs(needed_by_center(cast), 0)
    row_bytes = cast.layout.row_size * np.dtype(cast.scenario.executor.storage).itemsize
    # two spare rows for each node, fewer where rows are large
    spare = min(2 * n_nodes, max(n_nodes // 4, SPARE_BYTES // row_bytes))
    moments = 2 * n_nodes * 4 * cast.layout.row_size if cast.training.optimizer == "adam" else 0
    needed = {"parameters": n_nodes * row_bytes, "versions in waiting": spare * row_bytes, "moments": moments}
    waiting = cast.waiting + (0 if cast.server is None else 2 * (cast.server.n_versions - 1))
    rewritten = 2 * int(cast.outgoing.rewrites.sum())  # what each pushed last, and what it trained it from
    first = n_nodes if cast.scenario.churn.model == "reset" else 0
    more = {"inboxes": waiting, "rewritten messages": rewritten, "first versions": first}
    needed |= {part: rows * row_bytes for part, rows in more.items() if rows}
    return Needs(needed, spare + waiting + rewritten)


def settings_of(cast: Cast, updates: I64 | None) -> NodeSettings:
    """Return what policies do to the nodes, of which each runs so many local updates."""
    settings = NodeSettings.none(cast.protocol.n_nodes)
    for entry in cast.attackers:  # they have nothing to train on
        settings.most_updates[entry.nodes] = 0
    for policy in cast.policies:
        policy.configure(settings, training=cast.training, updates=updates)
    return settings


def make_executor(cast: Cast, settings: NodeSettings, epochs: int) -> Executor:
    """Make the arena with every node's first version, and the executor that works on it."""
    scenario, protocol, model = cast.scenario, cast.protocol, cast.model
    n_users, storage = len(cast.feed.positives), scenario.executor.storage
    if protocol.sends_updates:
        return make_client_executor(cast, settings, epochs)
    if protocol.holds_all_data:
        return make_central_executor(cast, settings)
    arena = Arena(
        cast.layout,
        n_nodes=protocol.n_nodes,
        capacity=protocol.n_nodes,
        moments=cast.training.optimizer == "adam",
        storage=storage,
    )
    model.fill_rows(arena.rows[:n_users], cast.layout, scenario.seed, common_start=protocol.common_start)
    if protocol.has_coordinator:
        arena.rows[n_users] = arena.rows[0]
    candidates = None
    if protocol.chooses_by_value:
        everyone = with_poisoners(cast.split, cast.n_poisoners)
        candidates = draw_candidates(everyone, protocol.n_nodes, scenario.seed)
    work = Workload(model, cast.layout, cast.training, cast.feed, arena, scenario.seed, settings, candidates)
    name: str = scenario.executor.name
    if name == "auto":
        lacks_kernels = EXECUTORS["fused"].lacks(model, cast.training, storage, settings) is not None
        name = _choose(lacks_kernels, settings, scenario.executor.device, epochs)
    return EXECUTORS[name](work, scenario.executor.device)


def _choose(lacks_kernels: bool, settings: NodeSettings, device: str, epochs: int) -> str:
    """Return the executor that ``auto`` stands for."""
    if device == "cuda":
        return "batched"
    private = (settings.kinds == Kind.PRIVATE).any()
    if epochs < (FEW_PRIVATE_EPOCHS if private else FEW_EPOCHS):
        return "reference"
    return "batched" if lacks_kernels else "fused"


def thread_count(scenario: Scenario) -> int:
    """Return how many threads compute."""
    asked = scenario.executor.threads
    return usable_cores() if asked == "auto" else asked


def make_planner(
    cast: Cast, executor: Executor, schedule: Schedule, meters: list[Metered], rows: int
) -> Planner:
    """Return the planner, which knows what each node weighs and costs, with room in the arena for its plans."""
    protocol, training, work = cast.protocol, cast.training, executor.work
    resets = cast.scenario.churn.model == "reset"
    has_inbox = np.zeros(protocol.n_nodes, bool)
    has_inbox[list(cast.receivers)] = True
    pools = [pool for meter in meters for pool in meter.attack.pools]
    pools_of = np.zeros((protocol.n_nodes, len(pools)), bool)
    for number, members in enumerate(pools):
        pools_of[members, number] = True
    samples = cast.load.samples
    per_epoch = samples // training.local_epochs
    steps = training.local_epochs * -(-per_epoch // (training.batch_size or max(int(per_epoch.max()), 1)))
    noise = np.where(work.node_settings.kinds == Kind.PRIVATE, steps * cast.layout.size / 450.0, 0.0)
    looks = 2 * schedule.n_wakes * protocol.n_nodes if cast.server is not None else 0  # where plans end
    planner = Planner(
        roles=protocol.roles,
        behaviours=protocol.behaviours,
        weights=cast.merge_weights,
        most_updates=work.node_settings.most_updates,
        cost=np.asarray(2.0 + samples * cast.model.sample_cost(cast.layout) + noise, np.float64),
        pools_of=pools_of,
        inline=schedule.inline,
        spare_rows=rows,
        expected_messages=schedule.n_messages + looks // LOOKS,
        keeps_first=resets,
        inboxes=has_inbox,
        rewrites=cast.outgoing.rewrites,
        rest=ROWS_OF_AN_ANSWER * cast.waiting if protocol.sends_updates else 0,
    )
    executor.store.grow(planner.capacity)
    if resets:
        arena = work.arena
        arena.rows[protocol.n_nodes : 2 * protocol.n_nodes] = arena.rows[: protocol.n_nodes]
    return planner
