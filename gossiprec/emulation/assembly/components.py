"""The components of a run: participants, models, policies, receivers and attacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.isolation import is_foreign
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import registry_name
from gossiprec.base.rng import generator
from gossiprec.compute.executors import Executor
from gossiprec.compute.inbox_reducer import ReceiverConfig
from gossiprec.compute.local_update import TrainingSettings, draw_validation_candidates
from gossiprec.compute.messages import OutgoingTransforms, Transform
from gossiprec.compute.scorer import Scorer
from gossiprec.data.split import Split
from gossiprec.defences import POLICIES, Policy
from gossiprec.emulation.assembly.message_scheme import MessageScheme, NamedRules, find_schemes
from gossiprec.emulation.progress import Progress
from gossiprec.federated import (
    RECOMMENDERS,
    CoordinatorContext,
    CoordinatorHook,
    Recommender,
    RecommenderServer,
)
from gossiprec.models import MODELS, Layout, Model
from gossiprec.models.feeds import Feed
from gossiprec.modes import RunMode, choose_mode
from gossiprec.network.protocols import Protocol
from gossiprec.rules import ROOT_SOURCES, UsesRootData
from gossiprec.rules.aggregators import InboxConfig
from gossiprec.rules.servers import Server
from gossiprec.scenario import Scenario
from gossiprec.scenario.sections import NodeFraction, Nodes

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.poisoners import PoisonerGroup


@dataclass(frozen=True)
class NodeLoad:
    """The message size and the training samples of every node.

    Attributes
    ----------
    message_bytes : ndarray of int64, shape (n_nodes,)
        Size of each node's messages, if no transform changes it.
    planned_bytes : ndarray of int64, shape (n_nodes,)
        The largest size of each node's messages, which decides how long sending takes.
    samples : ndarray of int64, shape (n_nodes,)
        Training samples of one local update, all epochs.
    """

    message_bytes: I64
    planned_bytes: I64
    samples: I64


@dataclass(frozen=True)
class Coordination:
    """What a coordinator does apart from merging, and what clients give it; all None in a run without a coordinator.

    Attributes
    ----------
    recommender : Recommender or None
    contribution : object or None
        The values that clients send to the coordinator before the first round.
    hook : CoordinatorHook or None
        The computation that the recommender adds to the coordinator.
    server : Server or None
    """

    recommender: Recommender | None
    contribution: Any
    hook: CoordinatorHook | None
    server: Server | None


@dataclass(frozen=True)
class Inboxes:
    """The inboxes of nodes that do not merge models one by one.

    Attributes
    ----------
    receivers : dict of int to ReceiverConfig
        The aggregation of nodes with inboxes, by node.
    capacity : int
        Number of models that wait in inboxes at the same time.
    """

    receivers: dict[int, ReceiverConfig]
    capacity: int


@dataclass(frozen=True)
class RunComponents:
    """The parts of a run that depend only on scenario and data.

    Attributes
    ----------
    split : Split
        The users' data; poisoners have none.
    mode : RunMode
        The mode of the run, which decides which model each node holds.
    attackers : list of PoisonerGroup
        Groups of nodes that come after the users' nodes and before a coordinator.
    node_load : NodeLoad
        The message size and training samples of every node.
    """

    scenario: Scenario
    split: Split
    protocol: Protocol
    mode: RunMode
    training: TrainingSettings
    model: Model
    feed: Feed
    layout: Layout
    policies: list[Policy]
    attackers: list[PoisonerGroup]
    coordination: Coordination
    outgoing: OutgoingTransforms
    inboxes: Inboxes
    node_load: NodeLoad

    @property
    def n_poisoners(self) -> int:
        """The number of nodes without a user."""
        return self.protocol.n_users - self.split.n_users

    @property
    def attacked_items(self) -> I64:
        """The targets of all poisoners, ascending."""
        targets = [entry.targets.astype(np.int64) for entry in self.attackers]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *targets]))

    @property
    def user_upload_width(self) -> int:
        """The number of values that each client sends about its user, in addition to an update."""
        recommender = self.coordination.recommender
        return 0 if recommender is None else recommender.user_upload_width(self.layout)

    @property
    def has_inbox(self) -> Bools:
        """Whether each node aggregates from an inbox, shape (n_nodes,)."""
        return np.isin(np.arange(self.protocol.n_nodes), list(self.inboxes.receivers))

    @property
    def merge_weights(self) -> F64:
        """The merge weight of every node; a poisoner has the weight of an average user."""
        return self.protocol.merge_weights(self.split.reported_positives(self.n_poisoners))

    @property
    def schemes(self) -> list[type[MessageScheme]]:
        """The schemes of messages by which receivers do not read whole models one by one."""
        return find_schemes(self.scenario, self.policies, self.outgoing, self.mode)

    @property
    def coordinator_parts(self) -> list[tuple[str, object]]:
        """The coordinator's aggregation rule and the parts of its server, by the scenario key that names them."""
        receiver, server = self.inboxes.receivers.get(self.protocol.n_users), self.coordination.server
        rules: list[tuple[str, object]] = [] if receiver is None else [("protocol.merge", receiver.rule)]
        return rules + [("protocol.server", part) for part in (() if server is None else server.parts)]

    def choose_root_users(self) -> Iterator[tuple[UsesRootData, I64]]:
        """Yield each part of the coordinator that needs root data, with its public users.

        Raises
        ------
        ScenarioError
            If the public data do not exist.
        """
        for key, part in self.coordinator_parts:
            if isinstance(part, UsesRootData):
                if self.protocol.whole_user_table:
                    raise ScenarioError(
                        f"{key}: found {registry_name(part)!r}, which keeps the rows of public users itself, but with "
                        "protocol.user_table 'averaged' models hold the rows of all users; set user_table to 'own'"
                    )
                choose = ROOT_SOURCES[part.root_source].choose
                yield part, choose(part.root_options, self.split.train, self.scenario.seed, key)

    def give_root_data(self, executor: Executor) -> None:
        """Give the parts of the coordinator that need root data their functions."""
        for part, users in self.choose_root_users():
            make = ROOT_SOURCES[part.root_source]
            source = make(Scorer(executor), self.feed, users, part.root_options, self.scenario.seed)
            part.root = source.root_data(copies=is_foreign(part))

    def validation_candidates(self) -> Ragged | None:
        """Return the items on which each node scores received models, or None if peers are not chosen by score."""
        if not self.mode.depends_on_values(self.protocol):
            return None
        everyone = self.split.with_empty_users(self.n_poisoners)
        return draw_validation_candidates(everyone, self.protocol.n_nodes, self.scenario.seed)


def build_components(scenario: Scenario, split: Split, protocol: Protocol) -> RunComponents:
    """Return the participants of a run and their settings.

    Raises
    ------
    ScenarioError
        If parts of the scenario do not fit together, or do not fit the data.
    """
    mode = choose_mode(protocol)
    training = make_training_settings(scenario, protocol)
    data = split.training_data()
    model = MODELS[scenario.model.name](scenario.model.options).bind_to_data(data)
    layout = model.layout(split.n_items, split.n_users if protocol.whole_user_table else 1)
    attackers: list[PoisonerGroup] = []
    if scenario.attackers:
        from gossiprec.emulation.assembly.poisoners import make_poisoner_groups

        attackers = make_poisoner_groups(scenario, split, protocol, model, layout)
    n_poisoners = protocol.n_users - split.n_users
    others = n_poisoners or split.user_features is not None
    feed = model.make_feed(
        split.with_empty_users(n_poisoners).training_data(for_feed=True) if others else data
    )
    policies = make_policies(scenario, protocol, model, layout, split.n_users)
    recommender = make_recommender(scenario, protocol, model, layout)
    coordination = make_coordination(scenario, split, protocol, recommender, model, layout)
    server = coordination.server
    uploads = recommender is not None and recommender.user_upload_width(layout) > 0
    n_uploading = split.n_users if uploads else 0
    outgoing = make_outgoing_transforms(scenario, policies, protocol, layout, server, n_uploading)
    for entry in attackers:
        outgoing.mark_forged(entry.nodes, remembers=entry.memory_numbers > 0)
    for taken in choose_adversary_nodes(scenario, split.n_users):
        outgoing.take_over(taken)
    schemes = find_schemes(scenario, policies, outgoing, mode)
    for scheme in schemes:
        scheme.change_outgoing(scenario, protocol, outgoing, server)
    inboxes = make_inboxes(scenario, policies, protocol, split, schemes)
    check_samples(split.name, scenario.model.name, feed.n_samples(training.negatives))
    per_update = feed.n_samples(training.negatives) * training.local_epochs
    samples = mode.samples_per_node(per_update, protocol.n_nodes)
    components = RunComponents(
        scenario, split, protocol, mode, training, model, feed, layout, policies, attackers, coordination, outgoing,
        inboxes, NodeLoad(outgoing.message_bytes, outgoing.planned_bytes, samples),
    )  # fmt: skip
    for scheme in schemes:
        scheme.check(components)
    list(components.choose_root_users())  # refuses public data that do not exist
    for scheme in schemes:
        components = replace(components, node_load=scheme.node_load(components))
    return components


def make_coordination(
    scenario: Scenario,
    split: Split,
    protocol: Protocol,
    recommender: Recommender | None,
    model: Model,
    layout: Layout,
) -> Coordination:
    """Return the server, what clients contribute before the first round, and the recommender's own computation.

    Raises
    ------
    ScenarioError
        If the protocol chooses clients by groups, and there are none.
    """
    server, contribution, hook = protocol.server(), None, None
    if recommender is not None:
        contribution = recommender.initial_contribution(split.training_data(), scenario.seed)
        popularity = np.bincount(split.train.values, minlength=split.n_items)
        context = CoordinatorContext(
            model, layout, popularity, protocol.wakes_per_round, scenario.seed, protocol.n_users, contribution,
            protocol.server, protocol.ends_epoch_with_extra_wake,
        )  # fmt: skip
        hook = recommender.coordinator_hook(context)
        server = server if hook is None else RecommenderServer(server, hook)
    grouped = server is not None and server.groups is not None
    if protocol.has_coordinator and choose_mode(protocol).depends_on_values(protocol) and not grouped:
        raise ScenarioError(
            "protocol.choose: found 'proportional', but no component of this scenario groups clients; set "
            "recommender to perfedrec or perfedrec-pp, or set choose to uniform"
        )
    return Coordination(recommender, contribution, hook, server)


def check_samples(data: str, model: str, n_samples: I64) -> None:
    """Refuse data without training samples.

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


def make_training_settings(scenario: Scenario, protocol: Protocol) -> TrainingSettings:
    """Return the training settings of the nodes."""
    training = scenario.training
    return TrainingSettings(
        optimizer=training.optimizer,
        learning_rate=training.learning_rate,
        batch_size=None if training.batch_size == "full" else training.batch_size,
        local_epochs=training.local_epochs,
        negatives=training.negatives,
        negatives_drawn=training.negatives_drawn,
        positives_drawn=training.positives_drawn,
        beta1=training.betas[0],
        beta2=training.betas[1],
        epsilon=training.eps,
        uploads_gradients=protocol.uploads_gradients,
    )


def make_recommender(
    scenario: Scenario, protocol: Protocol, model: Model, layout: Layout
) -> Recommender | None:
    """Return the federated recommender of a run, or None if it has none.

    Raises
    ------
    ScenarioError
        If it does not fit the model, the training or the protocol.
    """
    choice, training = scenario.recommender, scenario.training
    if choice is None:
        return None
    choose_mode(protocol).check_recommender(choice)
    recommender = RECOMMENDERS[choice.name](
        choice.options, model, negatives=training.negatives, learning_rate=training.learning_rate
    )
    recommender.check(layout, full_batches=training.batch_size == "full")
    return recommender


def make_policies(
    scenario: Scenario, protocol: Protocol, model: Model, layout: Layout, n_users: int
) -> list[Policy]:
    """Return the scenario's policies, each with the users' nodes that use it.

    Raises
    ------
    ScenarioError
        If a node would use a policy twice, or one does not fit the model.
    """
    policies, used = [], {choice.name: np.zeros(n_users, np.bool_) for choice in scenario.policies}
    for choice in scenario.policies:
        nodes = select_nodes(choice.nodes, n_users, scenario.seed, "policy-nodes")
        twice = nodes[used[choice.name][nodes]]
        if len(twice):
            raise ScenarioError(
                f"policies: {len(twice)} nodes, such as node {twice[0]}, would use {choice.name} twice; give "
                "the entries different nodes, or remove one of them"
            )
        used[choice.name][nodes] = True
        policy = POLICIES[choice.name](choice.options, nodes)
        if policy.needs_all_nodes and len(nodes) < n_users:
            raise ScenarioError(
                f"policies: {choice.name}: nodes: found {len(nodes)} of {n_users} nodes; expected all; set nodes to all"
            )
        policy.check(model, layout)
        for role in np.unique(protocol.roles[nodes]).tolist():
            policy.check_behaviour(protocol.role_behaviours[role])
        policy.check_receivers(1 if protocol.has_coordinator else protocol.max_messages_per_wake)
        policies.append(policy)
    return policies


def note_large_deltas(scenario: Scenario, split: Split, progress: Progress) -> None:
    """Note each delta that is so large that epsilon does not protect any single interaction of some user."""
    largest = int(split.train.sizes.max(initial=0))
    for index, choice in enumerate(scenario.policies):
        delta = getattr(choice.options, "delta", None)
        unused = getattr(choice.options, "noise", "gaussian") != "gaussian"
        if delta is not None and not unused and delta * largest >= 1.0:
            progress.note(
                f"policies.{index}.delta: found {delta:g}; expected less than 1 / the number of a user's "
                f"interactions, here {1 / largest:.2g}: a larger delta makes epsilon meaningless; lower it"
            )


def select_nodes(chosen: Nodes, n_users: int, seed: int, purpose: str) -> I64:
    """Return the node ids of a scenario entry; a larger fraction contains every smaller one."""
    if chosen == "all":
        return np.arange(n_users)
    if isinstance(chosen, NodeFraction):
        order = generator(seed, purpose).permutation(n_users)
        return np.sort(order[: max(1, round(chosen.fraction * n_users))])
    return np.unique(np.array(chosen, np.int64))


def choose_adversary_nodes(scenario: Scenario, n_users: int) -> list[I64]:
    """Return the nodes of each adversary of a scenario.

    Raises
    ------
    ScenarioError
        If a node belongs to two of them.
    """
    entries, seed = scenario.adversaries, scenario.seed
    chosen = [select_nodes(choice.nodes, n_users, seed, "adversary-nodes") for choice in entries]
    owner: dict[int, int] = {}
    for index, nodes in enumerate(chosen):
        for node in nodes.tolist():
            if owner.setdefault(node, index) != index:
                raise ScenarioError(
                    f"adversaries.{index}.nodes: found node {node}, which adversaries.{owner[node]} has already; "
                    "expected each node in one entry; give the entries different nodes"
                )
    return chosen


def make_outgoing_transforms(
    scenario: Scenario,
    policies: list[Policy],
    protocol: Protocol,
    layout: Layout,
    server: Server | None,
    n_uploading: int,
) -> OutgoingTransforms:
    """Return the transforms of every node's messages, including the server's extras for the coordinator."""
    outgoing = OutgoingTransforms(layout, protocol.n_nodes)
    for choice, policy in zip(scenario.policies, policies, strict=True):
        transform = policy.transform()
        if transform is not None:
            outgoing.add(choice.name, transform, policy.nodes)
    if server is not None:
        extras = Transform()
        extras.extra_bytes = server.extra_bytes
        outgoing.add("protocol.server", extras, np.array([protocol.n_users]))
    others = np.arange(n_uploading, protocol.n_nodes)
    choose_mode(protocol).add_transforms(outgoing, scenario, server, others)
    return outgoing


def _check_assumption(name: str, rule: InboxConfig, group_size: int, n_poisoners: int, n_nodes: int) -> None:
    """Refuse a rule that assumes fewer poisoners per inbox than there are on average."""
    assumed, expected = rule.make().assumed_poisoners, group_size * n_poisoners / n_nodes
    if assumed is not None and expected > assumed:
        raise ScenarioError(
            f"{name}: {rule.name} assumes at most {assumed} poisoners (byzantine) among the {group_size} models "
            f"that are aggregated together, but with these attackers there are {expected:.1f} on average; raise "
            "byzantine, or lower number or fraction of attackers"
        )


def make_inboxes(
    scenario: Scenario,
    policies: list[Policy],
    protocol: Protocol,
    split: Split,
    schemes: Sequence[type[MessageScheme]],
) -> Inboxes:
    """Return the inboxes of the nodes that have one.

    Raises
    ------
    ScenarioError
        If two policies set the aggregation of a node, or a rule needs more models than arrive.
    """
    receivers: dict[int, ReceiverConfig] = {}
    waiting = 0
    weights = protocol.merge_weights(split.reported_positives(protocol.n_users - split.n_users))
    entries = zip(scenario.policies, policies, strict=True)
    rules: NamedRules = [(choice.name, policy.nodes, policy.inbox()) for choice, policy in entries]
    inbox = protocol.coordinator_inbox(scenario.coordinator.sees)
    rules.append(("protocol.merge", np.array([protocol.n_users]), inbox))
    for scheme in schemes:
        rules += scheme.more_rules(protocol, rules)
    for name, nodes, rule in rules:
        if rule is None or not len(nodes):
            continue
        waiting += len(nodes) * rule.expected
        group_size = rule.expected if rule.together is None else rule.together
        minimum = rule.make().min_models
        if minimum > group_size:
            raise ScenarioError(
                f"{name}: {rule.name} needs at least {minimum} models, but no more than {group_size} are "
                "aggregated together; lower the rule's drop, byzantine or keep, or let more models arrive (a higher "
                "participation or buffer)"
            )
        _check_assumption(name, rule, group_size, protocol.n_users - split.n_users, protocol.n_users)
        for node in nodes.tolist():
            if node in receivers:
                raise ScenarioError(
                    f"policies: {name} and another policy both define how node {node} aggregates; "
                    "remove one of them"
                )
            receivers[node] = ReceiverConfig(
                rule.name, rule.make(), rule.buffer, float(weights[node]), invalid=rule.invalid
            )
    return Inboxes(receivers, waiting)
