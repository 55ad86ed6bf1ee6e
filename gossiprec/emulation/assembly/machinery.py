"""What computes: arena, executor and planner of a run."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import I64
from gossiprec.compute.executors import EXECUTORS, Executor, Workload
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.train.node_settings import Kind, NodeSettings
from gossiprec.compute.train.performance_merge import draw_candidates
from gossiprec.emulation.assembly.attackers import with_poisoners
from gossiprec.emulation.assembly.central import make_central_executor
from gossiprec.emulation.assembly.choosing import choose_executor
from gossiprec.emulation.assembly.clients import make_client_executor
from gossiprec.emulation.assembly.participants import Cast
from gossiprec.emulation.run.metering import Metered
from gossiprec.emulation.run.schedule import Schedule

LOOKS = 100
"""Nodes that the planner looks at in the time of a message."""
ROWS_OF_AN_ANSWER = 4
"""Handles that a client without a model takes in a round: what it was sent, has trained and sends."""


def make_executor(cast: Cast, settings: NodeSettings, epochs: int, *, divided: bool = False) -> Executor:
    """Make the arena, and the executor that works on it; most rows are elsewhere if the run is divided among shards."""
    scenario, protocol, model = cast.scenario, cast.protocol, cast.model
    if protocol.sends_updates:
        return make_client_executor(cast, settings, epochs)
    if protocol.holds_all_data:
        return make_central_executor(cast, settings)
    kind = EXECUTORS[choose_executor(scenario, model, cast.training, settings, epochs, cast.layout)]
    arena = kind.make_arena(
        cast.layout,
        n_nodes=protocol.n_nodes,
        moments=cast.training.optimizer == "adam",
        storage=scenario.executor.storage,
        divided=divided,
        device=scenario.executor.device,
    )
    candidates = None
    if protocol.chooses_by_value:
        everyone = with_poisoners(cast.split, cast.n_poisoners)
        candidates = draw_candidates(everyone, protocol.n_nodes, scenario.seed)
    work = Workload(model, cast.layout, cast.training, cast.feed, arena, scenario.seed, settings, candidates)
    return kind(work, scenario.executor.device)


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
    return planner


def write_first_versions(cast: Cast, executor: Executor, nodes: I64 | None = None) -> None:
    """Write the first versions of all nodes, or of some, where nodes have models; twice where they are kept."""
    protocol, seed, arena = cast.protocol, cast.scenario.seed, executor.work.arena
    if protocol.sends_updates or protocol.holds_all_data:
        return
    n_users, n_nodes = len(cast.feed.positives), protocol.n_nodes
    own = np.arange(n_nodes) if nodes is None else nodes
    coordinates = protocol.has_coordinator and n_users in own
    filled = np.union1d(own, 0) if coordinates else own  # the coordinator begins as the first client
    cast.model.fill_rows(
        arena.rows[:n_users],
        cast.layout,
        seed,
        common_start=protocol.common_start,
        nodes=filled[filled < n_users],
    )
    if coordinates:
        arena.rows[n_users] = arena.rows[0]
    if cast.scenario.churn.model == "reset":
        arena.rows[n_nodes + own] = arena.rows[own]
