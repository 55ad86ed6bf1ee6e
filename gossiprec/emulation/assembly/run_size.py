"""The size of a run, known before it is prepared: the counts of its events, and its memory.

Counts follow from the protocol: they are exact if every message arrives and no node is ever offline, and upper bounds
if not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS, AttackMemoryInputs, fraction_to_count
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.plan.tape import Op
from gossiprec.defences import POLICIES, Policy
from gossiprec.emulation.assembly.components import make_recommender, make_training_settings
from gossiprec.emulation.assembly.data_loading import DataSizes, estimated_data_sizes
from gossiprec.emulation.assembly.memory import (
    check_memory,
    estimate_memory,
    figure_bytes,
    process_bytes,
    stacks_updates,
)
from gossiprec.models import MODELS, BlockRole, Model
from gossiprec.modes import MemoryInputs, RunMode, TrainingOutline, choose_mode
from gossiprec.network.protocols import PROTOCOLS, Protocol
from gossiprec.network.sim.availability import Availability
from gossiprec.scenario import Scenario
from gossiprec.scenario.network import Churn, NetworkOptions
from gossiprec.scenario.section_checks import check_rounds, check_sizes, check_validation
from gossiprec.scenario.sections import NodeFraction, Nodes

MAX_WAKES_DRAWN = 200_000
"""Number of wakes that are drawn to estimate how long a run lasts."""

Accuracy = Literal["exact", "about", "at most"]


@dataclass(frozen=True)
class EventCounts:
    """The numbers of events in a run.

    Attributes
    ----------
    n_wakes, n_messages, epochs : int
        Local epochs are the total of all nodes.
    virtual_time : float
    accuracy : {"exact", "about", "at most"}
        The precision of the counts; with about, only the virtual time is not exact.
    """

    n_wakes: int
    n_messages: int
    epochs: int
    virtual_time: float
    accuracy: Accuracy = "exact"


@dataclass(frozen=True)
class EstimateInputs:
    """The quantities of a run that an estimate starts from, counted or computed."""

    extent: MemoryInputs
    counts: EventCounts
    outline: TrainingOutline
    hides_user: bool

    @property
    def training_executor(self) -> str:
        """The name of the executor that trains."""
        return self.extent.mode.training_executor(self.outline)


def check_memory_early(scenario: Scenario) -> None:
    """Refuse a run that does not fit into memory before data are generated that take long.

    Raises
    ------
    ScenarioError, DataError
        If the scenario does not fit its data, or the data cannot be read.
    ResourceError
    """
    data = estimated_data_sizes(scenario)
    if data is not None:
        inputs = estimate_from_sizes(scenario, data)
        check_memory(memory_needed(inputs, observer_bytes(data, inputs)))
        check_memory({"generating the data": data.bytes_to_draw})


def observer_bytes(data: DataSizes, inputs: EstimateInputs) -> list[int]:
    """Return the expected bytes of each entry of the scenario's observers."""
    extent, counts, scenario = inputs.extent, inputs.counts, inputs.extent.scenario
    compiled = inputs.outline.model.kernels() if inputs.training_executor == "fused" else None
    received = counts.n_messages / max(extent.protocol.n_users, 1)
    attack_inputs = AttackMemoryInputs(
        n_users=data.n_users,
        layout=extent.layout,
        storage=scenario.executor.storage,
        own_items=float(data.split.train.sizes.mean()),
        keeps=_kept_fraction(extent.mode, extent.protocol, received),
        ranked_on_sight=compiled is not None and compiled.ranks_open and not inputs.hides_user,
    )
    virtual_nodes = max([1, *(getattr(choice.options, "n_virtual_nodes", 0) for choice in scenario.policies)])
    return [
        round(virtual_nodes * ATTACKS[choice.name].expected_bytes(choice.options, attack_inputs))
        for choice in scenario.observers
    ]


def memory_needed(inputs: EstimateInputs, observers: Sequence[int]) -> dict[str, int]:
    """Return the expected bytes of a run by part, given those of each observer."""
    own = estimate_memory(inputs.extent).bytes | {"observers": sum(observers)}
    needed = process_bytes(inputs.extent, inputs.training_executor) | own
    return needed | figure_bytes(inputs.extent.scenario, needed)


def run_sizes(scenario: Scenario, data: DataSizes, protocol: Protocol, counts: EventCounts) -> dict[str, Any]:
    """Return the sizes of a run for its summary, without its executor."""
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "dataset": data.split.name,
        "nodes": data.n_users,
        **({"poisoners": protocol.n_users - data.n_users} if scenario.attackers else {}),
        **({"coordinator": protocol.n_users} if protocol.has_coordinator else {}),
        "items": data.split.n_items,
        "interactions": data.n_interactions,
        "wakes": counts.n_wakes,
        "messages": counts.n_messages,
        "node_updates": counts.epochs,
        "virtual_time": counts.virtual_time,
    }


def _kept_fraction(mode: RunMode, protocol: Protocol, heard: float) -> float:
    """Return the largest share of users whom a single adversary has met and will meet again.

    With the share f(t) that it has met by t, those met both before and after t are f(t) + f(T - t) - f(T), which is
    largest at half time.

    Parameters
    ----------
    heard : float
        The number of messages that it receives in the whole run.
    """
    if mode.depends_on_values(protocol):  # later contacts are not known, so that every pair keeps its rows
        return 1.0
    half, all_ = (protocol.predicted_fraction_met(wakes) for wakes in (protocol.wakes / 2, protocol.wakes))
    if half is None or all_ is None:
        return min(1.0, heard / 2 / protocol.n_users)
    share = 2 * half - all_
    spread = math.sqrt(share * (1 - share) / protocol.n_users)  # of many moments the fullest counts
    return min(1.0, share + spread)


def estimate_from_sizes(scenario: Scenario, data: DataSizes) -> EstimateInputs:
    """Return the estimate inputs that follow from sizes."""
    check_sizes(scenario, data.n_users, data.split.n_items)
    check_validation(scenario, len(data.split.validation.values))
    n_poisoners = scenario.count_poisoners(data.n_users)
    online = Availability.always_online(1)  # no events are played: for a million nodes this takes 1 s less
    protocol = PROTOCOLS[scenario.protocol.name](
        scenario.protocol.options, n_users=data.n_users + n_poisoners, seed=scenario.seed, availability=online
    )
    protocol.seconds_per_wake = scenario.seconds_per_wake
    check_rounds(scenario, _last_wake(protocol) / protocol.clock.mean / protocol.wakes_per_round)
    training = make_training_settings(scenario, protocol)
    known = data.split.training_data()
    model = MODELS[scenario.model.name](scenario.model.options).bind_to_data(known)
    layout = model.layout(data.split.n_items, data.n_users if protocol.whole_user_table else 1)
    node = np.zeros(1, np.int64)
    policies = [
        (POLICIES[choice.name](choice.options, node), count_selected_nodes(choice.nodes, data.n_users))
        for choice in scenario.policies
    ]
    transforms = [(transform, count) for policy, count in policies if (transform := policy.transform())]
    inboxes = [(policy.inbox(), count) for policy, count in policies]
    inboxes.append((protocol.coordinator_inbox(scenario.coordinator.sees), 1))
    rules = [(rule, count) for rule, count in inboxes if rule is not None]
    counts, settings = _count_events(scenario, protocol, policies, model, training, data.n_users)
    server, recommender = protocol.server(), make_recommender(scenario, protocol, model, layout)
    extent = MemoryInputs(
        scenario=scenario,
        protocol=protocol,
        mode=choose_mode(protocol),
        training=training,
        layout=layout,
        n_interactions=data.n_interactions,
        samples=model.make_feed(data.split.training_data(for_feed=True)).n_samples(training.negatives),
        waiting=sum(rule.expected * count for rule, count in rules),
        n_rewritten=n_poisoners + sum(count for transform, count in transforms if transform.rewrites),
        stacks_updates=any(stacks_updates(rule.make()) for rule, _ in rules),
        n_versions=1 if server is None else server.n_versions,
        n_wakes=counts.n_wakes,
        n_messages=counts.n_messages,
    )
    outline = TrainingOutline(scenario, model, training, recommender, settings, counts.epochs, layout)
    hides_user = any(BlockRole.USER in transform.hides for transform, _ in transforms)
    return EstimateInputs(extent, counts, outline, hides_user)


def _count_events(
    scenario: Scenario,
    protocol: Protocol,
    policies: list[tuple[Policy, int]],
    model: Model,
    training: TrainingSettings,
    n_users: int,
) -> tuple[EventCounts, NodeSettings]:
    """Return the numbers of events, and the training of a node that uses all policies."""
    wakers, behaviours = len(protocol.clock.node_ids), protocol.role_behaviours
    n_wakes = wakers * protocol.wakes
    per_wake = protocol.max_messages_per_wake
    n_messages = n_wakes * (1 if per_wake is None else per_wake)
    if any(Op.TRAIN in behaviour.on_wake for behaviour in behaviours):
        trained, trainers = n_wakes, wakers
        if any(Op.TRAIN in operations for each in behaviours for operations in each.on.values()):
            trained, trainers = n_wakes + n_messages // 2, protocol.n_users  # and receivers of tasks
    else:
        trained, trainers = n_messages // (2 if protocol.replies else 1), protocol.n_users
    per_node = trained / trainers
    settings = NodeSettings.of_model(model, 1)
    updates = trained - per_node * (protocol.n_users - n_users)  # poisoners do not train
    for policy, count in policies:
        policy.configure(settings, training=training, updates=np.array([round(per_node)]))
        updates -= count * max(0.0, per_node - int(settings.most_updates[0]))
    plain = scenario.network == NetworkOptions() and scenario.churn == Churn() and not protocol.sets_own_wakes
    follows = choose_mode(protocol).depends_on_values(protocol)
    certain = plain and protocol.messages_per_wake is not None and not follows and scenario.stop is None
    epochs = round(updates) * training.local_epochs
    accuracy: Accuracy = "about" if certain else "at most"
    return EventCounts(n_wakes, n_messages, epochs, _last_wake(protocol), accuracy), settings


def _last_wake(protocol: Protocol) -> float:
    """Return the approximate time of the last wake, from the clocks of some nodes."""
    clock, wakes = protocol.clock, protocol.wakes
    if wakes > MAX_WAKES_DRAWN:
        return wakes * clock.mean
    return float(clock.of_first(MAX_WAKES_DRAWN // wakes).intervals(0, wakes).sum(axis=1).max())


def count_selected_nodes(chosen: Nodes, n_users: int) -> int:
    """Return the number of nodes of a scenario entry."""
    if chosen == "all":
        return n_users
    if isinstance(chosen, NodeFraction):
        return fraction_to_count(n_users, chosen.fraction)
    return len(set(chosen))
