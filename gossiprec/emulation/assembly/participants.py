"""Who takes part in a run, with which model and by which rules; who defends, and who observes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gossiprec.aggregators import InboxRule
from gossiprec.arrays import F32, F64, I64
from gossiprec.attacks import ATTACKS, Attack
from gossiprec.attacks.base import World
from gossiprec.attacks.observations import Meetings
from gossiprec.compute.executors import Executor
from gossiprec.compute.messages import Outgoing, Transform
from gossiprec.compute.reducing import Receiver
from gossiprec.compute.scorer import Scorer
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.attackers import (
    Attackers,
    claimed_positives,
    make_attackers,
    with_poisoners,
)
from gossiprec.emulation.assembly.client_messages import keep_own_parts
from gossiprec.emulation.assembly.conditions import Load
from gossiprec.emulation.assembly.own_nodes import OwnNodes
from gossiprec.emulation.run.progress import Progress
from gossiprec.errors import DataError, ScenarioError
from gossiprec.feeds import Feed
from gossiprec.isolation import CallOnly, copied, is_foreign_class
from gossiprec.models import MODELS, Layout, Model, Role
from gossiprec.policies import POLICIES, Policy
from gossiprec.protocols import Protocol
from gossiprec.recommenders import RECOMMENDERS, Between, Known, Recommender
from gossiprec.recommenders.coordinator_side import Coordinator
from gossiprec.rng import generator
from gossiprec.scenario import Scenario
from gossiprec.scenario.model import Choice
from gossiprec.scenario.sections import NodeFraction, Nodes
from gossiprec.servers import Server


@dataclass(frozen=True)
class Cast:
    """The parts of a run that follow from scenario and data alone.

    Attributes
    ----------
    split : Split
        The users' data; poisoners have none.
    attackers : list of Attackers
        Nodes after those of the users, before a coordinator.
    contribution : object or None
        What clients have told the coordinator before the first round.
    between : Between or None
        What the recommender adds to the coordinator.
    receivers : dict of int to Receiver
        How nodes with inboxes aggregate.
    waiting : int
        Models that wait in inboxes at a time.
    load : Load
        What every node sends and trains on.
    """

    scenario: Scenario
    split: Split
    protocol: Protocol
    training: TrainingSettings
    model: Model
    feed: Feed
    layout: Layout
    policies: list[Policy]
    attackers: list[Attackers]
    recommender: Recommender | None
    contribution: Any
    between: Between | None
    server: Server | None
    outgoing: Outgoing
    receivers: dict[int, Receiver]
    waiting: int
    load: Load

    @property
    def n_poisoners(self) -> int:
        """How many nodes have no user."""
        return self.protocol.n_users - self.split.n_users

    @property
    def told_width(self) -> int:
        """Numbers that each user's client tells of its user beside an update."""
        return 0 if self.recommender is None else self.recommender.told_width(self.layout)

    @property
    def merge_weights(self) -> F64:
        """What every node's models count in a merge: those of a poisoner as those of an average user."""
        return self.protocol.merge_weights(claimed_positives(self.split, self.n_poisoners))


def make_cast(scenario: Scenario, split: Split, protocol: Protocol) -> Cast:
    """Return who takes part.

    Raises
    ------
    ScenarioError
        If what the scenario names does not fit together, or its data.
    """
    training = training_settings(scenario, protocol)
    data = split.training_data()
    model = MODELS[scenario.model.name](scenario.model.options).fitted_to(data)
    layout = model.layout(split.n_items, split.n_users if protocol.whole_user_table else 1)
    attackers = make_attackers(scenario, split, protocol, model, layout)
    n_poisoners = protocol.n_users - split.n_users
    feed = model.feed_of(with_poisoners(split, n_poisoners).training_data() if n_poisoners else data)
    policies = make_policies(scenario, protocol, model, layout, split.n_users)
    recommender = make_recommender(scenario, protocol, model, layout)
    server, contribution, between = protocol.server(), None, None
    if recommender is not None:
        popularity = np.bincount(split.train.values, minlength=split.n_items)
        contribution = recommender.contributed(data, scenario.seed)
        known = Known(
            model, layout, popularity, protocol.wakes_per_round, scenario.seed, protocol.n_users, contribution,
            protocol.server, protocol.closes_epochs,
        )  # fmt: skip
        between = recommender.between(known)
        server = server if between is None else Coordinator(server, between)
    if protocol.has_coordinator and protocol.chooses_by_value and (server is None or server.groups is None):
        raise ScenarioError(
            "protocol.choose: found 'proportional', but no component of this scenario groups clients; set "
            "recommender to perfedrec or perfedrec-pp, or set choose to uniform"
        )
    tells = recommender is not None and recommender.told_width(layout) > 0
    n_telling = split.n_users if tells else 0
    outgoing = make_outgoing(scenario, policies, protocol, layout, server, n_telling)
    for entry in attackers:
        outgoing.forge(entry.nodes)
    receivers, waiting = make_receivers(scenario, policies, protocol, split)
    samples = np.zeros(protocol.n_nodes, np.int64)
    check_samples(split.name, scenario.model.name, feed.n_samples(training.negatives))
    learnt = feed.n_samples(training.negatives) * training.local_epochs
    if protocol.holds_all_data:
        samples[-1] = learnt.sum()
    else:
        samples[: protocol.n_users] = learnt
    return Cast(
        scenario, split, protocol, training, model, feed, layout, policies, attackers, recommender, contribution,
        between, server, outgoing, receivers, waiting, Load(outgoing.message_bytes, samples),
    )  # fmt: skip


def check_samples(data: str, model: str, n_samples: I64) -> None:
    """Refuse data from which no node can train.

    Raises
    ------
    DataError
        If no user has a training sample.
    """
    if not n_samples.any():
        raise DataError(
            f"{data}: no user has a training sample for the model {model}; expected at least one user with "
            "one; move fewer items to test and validation (dataset.split), keep only users with more items "
            "(min_interactions), or set training.negatives above 0"
        )


def training_settings(scenario: Scenario, protocol: Protocol) -> TrainingSettings:
    """Return how nodes train."""
    training = scenario.training
    return TrainingSettings(
        optimizer=training.optimizer,
        learning_rate=training.learning_rate,
        batch_size=None if training.batch_size == "full" else training.batch_size,
        local_epochs=training.local_epochs,
        negatives=training.negatives,
        negatives_drawn=training.negatives_drawn,
        beta1=training.betas[0],
        beta2=training.betas[1],
        epsilon=training.eps,
        uploads_gradients=protocol.uploads_gradients,
    )


def make_recommender(
    scenario: Scenario, protocol: Protocol, model: Model, layout: Layout
) -> Recommender | None:
    """Return what is added to the model, if anything is.

    Raises
    ------
    ScenarioError
        If it does not fit the model, the training or the protocol.
    """
    choice, training = scenario.recommender, scenario.training
    if choice is None:
        return None
    if not protocol.sends_updates:
        raise ScenarioError(
            f"recommender: {choice.name} requires a coordinator and clients without a model; set "
            "protocol to {name: fedavg, client_model: none, ...}, or remove recommender"
        )
    recommender = RECOMMENDERS[choice.name](
        choice.options, model, negatives=training.negatives, learning_rate=training.learning_rate
    )
    recommender.check(layout, full_batches=training.batch_size == "full")
    return recommender


def make_policies(
    scenario: Scenario, protocol: Protocol, model: Model, layout: Layout, n_users: int
) -> list[Policy]:
    """Return the scenario's policies, which users' nodes may use.

    Raises
    ------
    ScenarioError
        If a node would use a policy twice, or one does not fit the model.
    """
    policies, used = [], {choice.name: np.zeros(n_users, np.bool_) for choice in scenario.policies}
    for choice in scenario.policies:
        nodes = chosen_nodes(choice.nodes, n_users, scenario.seed, "policy-nodes")
        twice = nodes[used[choice.name][nodes]]
        if len(twice):
            raise ScenarioError(
                f"policies: {len(twice)} nodes, such as node {twice[0]}, would use {choice.name} twice; give "
                "the entries different nodes, or remove one of them"
            )
        used[choice.name][nodes] = True
        policy = POLICIES[choice.name](choice.options, nodes)
        policy.check(model, layout)
        for role in np.unique(protocol.roles[nodes]).tolist():
            policy.check_behaviour(protocol.behaviours[role])
        policies.append(policy)
    return policies


def note_large_deltas(scenario: Scenario, split: Split, say: Progress) -> None:
    """Note each delta that is so large that epsilon protects no single interaction of some user."""
    largest = int(split.train.sizes.max(initial=0))
    for index, choice in enumerate(scenario.policies):
        delta = getattr(choice.options, "delta", None)
        unused = getattr(choice.options, "noise", "gaussian") != "gaussian"
        if delta is not None and not unused and delta * largest >= 1.0:
            say.note(
                f"policies.{index}.delta: found {delta:g}; expected less than 1 / the number of a user's "
                f"interactions, here {1 / largest:.2g}: a larger delta makes epsilon meaningless; lower it"
            )


def chosen_nodes(chosen: Nodes, n_users: int, seed: int, purpose: str) -> I64:
    """Return the node ids that an entry of a scenario names; a larger part contains a smaller one."""
    if chosen == "all":
        return np.arange(n_users)
    if isinstance(chosen, NodeFraction):
        order = generator(seed, purpose).permutation(n_users)
        return np.sort(order[: max(1, round(chosen.fraction * n_users))])
    return np.unique(np.array(chosen, np.int64))


def make_outgoing(
    scenario: Scenario,
    policies: list[Policy],
    protocol: Protocol,
    layout: Layout,
    server: Server | None,
    n_telling: int,
) -> Outgoing:
    """Return what becomes of every node's messages; the coordinator's hold its server's extras, too."""
    outgoing = Outgoing(layout, protocol.n_nodes)
    for choice, policy in zip(scenario.policies, policies, strict=True):
        transform = policy.transform()
        if transform is not None:
            outgoing.add(choice.name, transform, policy.nodes)
    if server is not None:
        extras = Transform()
        extras.extra_bytes = server.extra_bytes
        outgoing.add("protocol.server", extras, np.array([protocol.n_users]))
    if protocol.sends_updates:
        keep_own_parts(scenario, protocol, outgoing, layout, server, n_telling)
    return outgoing


def make_receivers(
    scenario: Scenario, policies: list[Policy], protocol: Protocol, split: Split
) -> tuple[dict[int, Receiver], int]:
    """Return how nodes with inboxes aggregate, and how many models wait in inboxes at a time.

    Raises
    ------
    ScenarioError
        If two policies want to say how a node aggregates, or a rule wants more models than will come.
    """
    receivers: dict[int, Receiver] = {}
    waiting, claimed = 0, claimed_positives(split, protocol.n_users - split.n_users)
    weights = protocol.merge_weights(claimed)
    rules = [
        (choice.name, policy.nodes, policy.inbox())
        for choice, policy in zip(scenario.policies, policies, strict=True)
    ]
    for name, nodes, rule in [*rules, ("protocol.merge", np.array([protocol.n_users]), protocol.inbox())]:
        if rule is None:
            continue
        waiting += len(nodes) * rule.expected
        _check_size(name, rule)
        for node in nodes.tolist():
            if node in receivers:
                raise ScenarioError(
                    f"policies: {name} and another policy both define how node {node} aggregates; "
                    "remove one of them"
                )
            receivers[node] = Receiver(
                rule.name, rule.make(), rule.buffer, float(weights[node]), invalid=rule.invalid
            )
    return receivers, waiting


def _check_size(where: str, rule: InboxRule) -> None:
    together = rule.expected if rule.together is None else rule.together
    least = rule.make().least
    if least > together:
        raise ScenarioError(
            f"{where}: {rule.name} needs at least {least} models at a time, but at most {together} are aggregated "
            "together; lower the rule's drop, byzantine or keep, or let more models arrive (a higher participation "
            "or buffer)"
        )


def make_attacks(
    cast: Cast, executor: Executor, threads: ThreadPool, meetings: Meetings, own_models: Callable[[I64], F32]
) -> list[Attack]:
    """Return the scenario's attacks; colluders may be placed by the meetings known before the run."""
    protocol = cast.protocol
    world = World(
        scorer=Scorer(executor),
        n_users=cast.split.n_users,
        coordinator=protocol.n_users if protocol.has_coordinator else None,
        seed=cast.scenario.seed,
        threads=threads,
        hides_user=cast.outgoing.hides(Role.USER),
        meetings=meetings,
        data_of=cast.feed.only,
        own_models=own_models,
        has_inbox=np.isin(np.arange(protocol.n_nodes), list(cast.receivers)),
    )
    return [_make_attack(choice, world) for choice in cast.scenario.observers]


def _make_attack(choice: Choice, world: World) -> Attack:
    kind, own = ATTACKS[choice.name], OwnNodes(choice.name, world)
    limited = own.limited()
    attack = kind(choice.options, isolated(limited) if is_foreign_class(kind) else limited)
    own.limit_to(attack)
    return attack


def isolated(world: World) -> World:
    """Return a world that holds copies, and functions from which the run cannot be reached."""
    return replace(
        world,
        threads=ThreadPool(world.threads.size),
        hides_user=world.hides_user.copy(),
        meetings=copied(world.meetings),
        data_of=CallOnly(world.data_of),
        own_models=CallOnly(world.own_models),
    )
