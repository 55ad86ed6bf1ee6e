"""The estimate of a run from the sizes of its data, or from events that were played.

Counts follow from the protocol: they are exact if every message arrives and no node is ever offline, and upper bounds
if not.
"""

from __future__ import annotations

import math
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
from gossiprec.emulation.assembly.poisoners import count_poisoners
from gossiprec.emulation.assembly.shard_partition import thread_count
from gossiprec.emulation.assembly.summed_answers import coordinator_inbox
from gossiprec.emulation.estimate.timing import PredictedDuration, predict_duration, run_kind, training_work
from gossiprec.models import MODELS, BlockRole
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
class RunEstimate:
    """An estimate of a run.

    Attributes
    ----------
    sizes : dict
        As in a summary.
    count_accuracy : {"exact", "about", "at most"}
        The precision of the event counts.
    data_loaded : bool
        Whether the data were read or generated; otherwise the interactions are estimated, too.
    memory_bytes : dict of str to int
        Bytes by part, estimated for observers.
    bytes_by_observer : list of int
        Of each entry of the scenario's observers.
    bytes_to_draw : int
        Bytes that generating the data takes, before the run.
    fraction_met, fraction_heard : float or None
        The share of users that a single observer, or a coordinator, can have met by the end.
    kind : str
        The run's kind: runs of one kind take time in proportion to `work`.
    work : float
        See :mod:`~gossiprec.emulation.estimate.timing`.
    duration : PredictedDuration or None
        None if no run has finished on this machine yet.
    """

    sizes: dict[str, Any]
    count_accuracy: Accuracy
    data_loaded: bool
    memory_bytes: dict[str, int]
    bytes_by_observer: list[int]
    bytes_to_draw: int
    fraction_met: float | None
    fraction_heard: float | None
    kind: str
    work: float
    duration: PredictedDuration | None

    def check_fits(self) -> None:
        """Refuse a run that does not fit into memory.

        Raises
        ------
        ResourceError
        """
        check_memory(self.memory_bytes)
        check_memory({"generating the data": self.bytes_to_draw})


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
        make_run_estimate(data, estimate_from_sizes(scenario, data)).check_fits()


def make_run_estimate(data: DataSizes, inputs: EstimateInputs) -> RunEstimate:
    """Return the estimate of a run that follows from its sizes and counts."""
    extent, counts, model = inputs.extent, inputs.counts, inputs.outline.model
    scenario, protocol, executor = extent.scenario, extent.protocol, inputs.training_executor
    is_threaded = executor == "fused" or scenario.protocol.name == "central"
    threads = thread_count(scenario) if is_threaded else 1
    compiled = model.kernels() if executor == "fused" else None
    attack_inputs = AttackMemoryInputs(
        n_users=data.n_users,
        layout=extent.layout,
        storage=scenario.executor.storage,
        own_items=float(data.split.train.sizes.mean()),
        keeps=_kept_fraction(extent.mode, protocol, counts.n_messages / max(protocol.n_users, 1)),
        ranked_on_sight=compiled is not None and compiled.ranks_open and not inputs.hides_user,
    )
    virtual_nodes = max([1, *(getattr(choice.options, "n_virtual_nodes", 0) for choice in scenario.policies)])
    each_observer = [
        round(virtual_nodes * ATTACKS[choice.name].expected_bytes(choice.options, attack_inputs))
        for choice in scenario.observers
    ]
    samples = extent.mode.samples_per_epoch(float(extent.samples.mean()), protocol.n_users)
    needed = (
        process_bytes(extent, executor) | estimate_memory(extent).bytes | {"observers": sum(each_observer)}
    )
    kind = run_kind(scenario, executor)
    work = training_work(model, extent.layout, epochs=counts.epochs, samples=samples)
    return RunEstimate(
        sizes={**run_sizes(scenario, data, protocol, counts), "executor": executor, "threads": threads},
        count_accuracy=counts.accuracy,
        data_loaded=data.whole,
        memory_bytes=needed | figure_bytes(scenario, needed),
        bytes_by_observer=each_observer,
        bytes_to_draw=data.bytes_to_draw,
        fraction_met=protocol.predicted_fraction_met(protocol.wakes),
        fraction_heard=protocol.predicted_fraction_heard(protocol.wakes),
        kind=kind,
        work=work,
        duration=predict_duration(kind, work, threads) if work > 0 else None,
    )


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
    n_poisoners = count_poisoners(scenario, data.n_users)
    protocol = PROTOCOLS[scenario.protocol.name](
        scenario.protocol.options,
        n_users=data.n_users + n_poisoners,
        seed=scenario.seed,
        # no events are played: for a million nodes this takes 1 s less
        availability=Availability.always_online(1),
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
    inboxes = [(policy.inbox(), count) for policy, count in policies] + [
        (coordinator_inbox(scenario, protocol), 1)
    ]
    rules = [(rule, count) for rule, count in inboxes if rule is not None]
    counts, settings = _count_events(scenario, protocol, policies, training, data.n_users)
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
    settings = NodeSettings.without_policies(1)
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
