"""The participants and the schedule of a run, built before anything is computed."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.compute.train.local_update import NodeSettings
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.availability import make_availability
from gossiprec.emulation.assembly.components import RunComponents, build_components
from gossiprec.emulation.assembly.network_setup import make_engine_conditions
from gossiprec.emulation.assembly.poisoners import add_poisoners, count_poisoners
from gossiprec.emulation.assembly.schedule import InterleavedSchedule, PrecomputedSchedule, Schedule
from gossiprec.emulation.estimate.memory import (
    MIB,
    PYTHON,
    MemoryInputs,
    check_event_memory,
    check_memory,
    estimate_memory,
)
from gossiprec.emulation.progress import Progress, Stopwatch
from gossiprec.modes import choose_mode
from gossiprec.network.overlay.base import UserProfiles
from gossiprec.network.protocols import PROTOCOLS, Protocol
from gossiprec.network.sim.availability import Availability
from gossiprec.scenario import (
    Scenario,
    check_activity_groups,
    check_sizes,
    check_train_loss,
    check_validation,
)


def build_and_schedule(
    scenario: Scenario, split: Split, say: Progress, watch: Stopwatch
) -> tuple[RunComponents, Schedule]:
    """Check a scenario against its data, build its components, and play the events that do not depend on models.

    Raises
    ------
    ScenarioError
        If the scenario does not fit its data.
    ResourceError
        If versions or events cannot fit into memory; this is checked before events are played.
    """
    with watch("load"):
        check_sizes(scenario, split.n_users, split.n_items)
        check_validation(scenario, len(split.validation.values))
        check_activity_groups(scenario, int((split.test.sizes > 0).sum()))
        protocol = make_protocol(scenario, split)
        check_train_loss(scenario, choose_mode(protocol))
    n_wakes, each = len(protocol.clock.node_ids) * protocol.wakes, protocol.messages_per_wake or 1
    check_event_memory(n_wakes, each)
    with watch("control"):
        protocol = make_protocol(
            scenario, split, make_availability(scenario, protocol, say.phase, split.n_users)
        )
    with watch("setup"):
        cast = build_components(scenario, split, protocol)
    least = MemoryInputs.of(cast, n_wakes=n_wakes, n_messages=n_wakes * each)
    check_memory({"python": PYTHON * MIB} | estimate_memory(least).bytes)
    with watch("compile"):
        conditions = make_engine_conditions(scenario, protocol, cast.load)
    say.phase("simulating events (control plane)")
    with watch("control"):
        kind = InterleavedSchedule if cast.mode.depends_on_values(protocol) else PrecomputedSchedule
        return cast, kind(scenario, protocol, cast.load, conditions)


def make_protocol(scenario: Scenario, split: Split, availability: Availability | None = None) -> Protocol:
    """Return the scenario's protocol over users and poisoners; without availability all nodes stay online."""
    choice, seed = scenario.protocol, scenario.seed
    everyone = add_poisoners(split, count_poisoners(scenario, split.n_users))
    return PROTOCOLS[choice.name](
        choice.options,
        n_users=everyone.n_users,
        seed=seed,
        availability=availability,
        profiles=UserProfiles.of(everyone),
    )


def make_node_settings(cast: RunComponents, updates: I64 | None) -> NodeSettings:
    """Return the per-node settings that the policies make, given each node's number of local updates."""
    settings = NodeSettings.none(cast.protocol.n_nodes)
    for entry in cast.attackers:  # they have no training samples
        settings.most_updates[entry.nodes] = 0
    for policy in cast.policies:
        policy.configure(
            settings, training=cast.training, updates=None if updates is None else updates.copy()
        )
    return settings


def count_local_epochs(cast: RunComponents, schedule: Schedule, settings: NodeSettings) -> int:
    """Return the number of local epochs of the whole run."""
    updates = schedule.n_updates
    if schedule.updates is not None:
        updates = int(np.minimum(schedule.updates, settings.most_updates).sum())
    return cast.training.local_epochs * updates
