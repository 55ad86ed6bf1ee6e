"""Estimates from the sizes of a run alone, without work or memory per node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gossiprec.adversaries.attacks.base import fraction_to_count
from gossiprec.compute.plan.tape import Op
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.data.data_sizes import DataSizes
from gossiprec.defences import POLICIES, Policy
from gossiprec.emulation.assembly.components import make_recommender, make_training_settings
from gossiprec.emulation.assembly.poisoners import count_poisoners
from gossiprec.emulation.estimate.memory import MemoryInputs, stacks_updates
from gossiprec.federated import Recommender
from gossiprec.models import MODELS, BlockRole, Model
from gossiprec.modes import choose_mode
from gossiprec.network.protocols import PROTOCOLS, Protocol
from gossiprec.network.sim.availability import Availability
from gossiprec.scenario import Scenario, check_sizes, check_validation
from gossiprec.scenario.churn import Churn
from gossiprec.scenario.network import NetworkOptions
from gossiprec.scenario.sections import NodeFraction, Nodes

MOST_RINGS = 200_000
"""Number of wakes that are drawn to estimate how long a run lasts."""

Sure = Literal["exact", "about", "at most"]


@dataclass(frozen=True)
class EventCounts:
    """The numbers of events in a run.

    Attributes
    ----------
    n_wakes, n_messages, epochs : int
        Local epochs are the total of all nodes.
    virtual_time : float
    sure : {"exact", "about", "at most"}
        The precision of the counts; with about, only the virtual time is not exact.
    """

    n_wakes: int
    n_messages: int
    epochs: int
    virtual_time: float
    sure: Sure = "exact"


@dataclass(frozen=True)
class EstimateInputs:
    """The quantities of a run that an estimate starts from, counted or computed."""

    extent: MemoryInputs
    counts: EventCounts
    model: Model
    recommender: Recommender | None
    settings: NodeSettings
    hides_user: bool


def estimate_from_sizes(scenario: Scenario, data: DataSizes) -> EstimateInputs:
    """Return the estimate inputs that follow from sizes."""
    check_sizes(scenario, data.n_users, data.split.n_items)
    check_validation(scenario, len(data.split.validation.values))
    n_poisoners = count_poisoners(scenario, data.n_users)
    protocol = PROTOCOLS[scenario.protocol.name](
        scenario.protocol.options,
        n_users=data.n_users + n_poisoners,
        seed=scenario.seed,
        availability=Availability.forever(1),  # no protocol is made: with a million nodes that takes a second
    )
    training = make_training_settings(scenario, protocol)
    known = data.split.training_data()
    model = MODELS[scenario.model.name](scenario.model.options).fitted_to(known)
    layout = model.layout(data.split.n_items, data.n_users if protocol.whole_user_table else 1)
    one = np.zeros(1, np.int64)
    policies = [
        (POLICIES[each.name](each.options, one), count_selected_nodes(each.nodes, data.n_users))
        for each in scenario.policies
    ]
    transforms = [(policy.transform(), count) for policy, count in policies]
    rules = [(policy.inbox(), count) for policy, count in policies] + [(protocol.inbox(), 1)]
    asked = [(rule, count) for rule, count in rules if rule is not None]
    counts, settings = _counted(scenario, protocol, policies, training, data.n_users)
    server = protocol.server()
    extent = MemoryInputs(
        scenario=scenario,
        protocol=protocol,
        mode=choose_mode(protocol),
        training=training,
        layout=layout,
        n_interactions=data.n_interactions,
        samples=model.feed_of(known).n_samples(training.negatives),
        waiting=sum(rule.expected * count for rule, count in asked),
        n_rewritten=n_poisoners + sum(count for how, count in transforms if how is not None and how.rewrites),
        side_by_side=any(stacks_updates(rule.make()) for rule, _ in asked),
        n_versions=1 if server is None else server.n_versions,
        n_wakes=counts.n_wakes,
        n_messages=counts.n_messages,
    )
    hides = any(how is not None and BlockRole.USER in how.hides for how, _ in transforms)
    recommender = make_recommender(scenario, protocol, model, layout)
    return EstimateInputs(extent, counts, model, recommender, settings, hides)


def _counted(
    scenario: Scenario,
    protocol: Protocol,
    policies: list[tuple[Policy, int]],
    training: TrainingSettings,
    n_users: int,
) -> tuple[EventCounts, NodeSettings]:
    """Return the numbers of events, and the training of a node that uses all policies."""
    wakers, behaviours = len(protocol.clock.node_ids), protocol.behaviours
    n_wakes = wakers * protocol.wakes
    each = protocol.most_messages
    n_messages = n_wakes * (1 if each is None else each)
    if any(Op.TRAIN in behaviour.on_wake for behaviour in behaviours):
        trained, trainers = n_wakes, wakers
    else:
        trained, trainers = n_messages // (2 if protocol.replies else 1), protocol.n_users
    per_node = trained / trainers
    settings = NodeSettings.none(1)
    left = trained - per_node * (protocol.n_users - n_users)  # poisoners do not train
    for policy, count in policies:
        policy.configure(settings, training=training, updates=np.array([round(per_node)]))
        left -= count * max(0.0, per_node - int(settings.most_updates[0]))
    plain = scenario.network == NetworkOptions() and scenario.churn == Churn() and not protocol.steers
    certain = plain and protocol.messages_per_wake is not None
    if choose_mode(protocol).depends_on_values(protocol):
        certain = False
    sure: Sure = "about" if certain else "at most"
    epochs = round(left) * training.local_epochs
    return EventCounts(n_wakes, n_messages, epochs, _lasts(protocol), sure), settings


def _lasts(protocol: Protocol) -> float:
    """Return the approximate time of the last wake, from the clocks of some nodes."""
    clock, wakes = protocol.clock, protocol.wakes
    if wakes > MOST_RINGS:
        return wakes * clock.mean
    return float(clock.of_first(MOST_RINGS // wakes).intervals(0, wakes).sum(axis=1).max())


def count_selected_nodes(chosen: Nodes, n_users: int) -> int:
    """Return the number of nodes of a scenario entry."""
    if chosen == "all":
        return n_users
    return (
        fraction_to_count(n_users, chosen.fraction) if isinstance(chosen, NodeFraction) else len(set(chosen))
    )
