"""The construction of a run's planner."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.executors import Executor
from gossiprec.compute.plan.planner import Planner
from gossiprec.compute.train.node_settings import TrainingMode
from gossiprec.emulation.assembly.attack_hook import AttackHook
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.schedule import Schedule

LOOKS = 100
"""Number of nodes that the planner checks in the time that a message takes."""


def make_planner(
    cast: RunComponents, executor: Executor, schedule: Schedule, meters: list[AttackHook], rows: int
) -> Planner:
    """Return the planner with the weight and cost of every node, and reserve rows in the arena for its plans."""
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
    noise = np.where(work.node_settings.kinds == TrainingMode.PRIVATE, steps * cast.layout.size / 450.0, 0.0)
    looks = 2 * schedule.n_wakes * protocol.n_nodes if cast.server is not None else 0  # at plan ends
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
        rest=cast.mode.waiting_handles(cast.waiting),
    )
    executor.store.grow(planner.capacity)
    return planner
