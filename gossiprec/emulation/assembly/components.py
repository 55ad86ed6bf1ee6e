"""The components of a run: participants, models, policies, receivers and attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS, Attack
from gossiprec.adversaries.attacks.base import AttackContext
from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.adversaries.attacks.uploads import UPLOAD_ATTACKS
from gossiprec.base.arrays import F32, F64, I64, Bools
from gossiprec.base.errors import DataError, PluginError, ScenarioError
from gossiprec.base.isolation import CallOnly, copied, is_foreign_class
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.executors import Executor
from gossiprec.compute.inbox_reducer import ReceiverConfig
from gossiprec.compute.messages import OutgoingTransforms, Transform
from gossiprec.compute.scorer import Scorer
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.performance_merge import draw_validation_candidates
from gossiprec.data.split import Split
from gossiprec.defences import POLICIES, Policy
from gossiprec.emulation.assembly.network_setup import NodeLoad
from gossiprec.emulation.assembly.poisoners import (
    PoisonerGroup,
    add_poisoners,
    make_poisoner_groups,
    reported_positives,
)
from gossiprec.emulation.progress import Progress
from gossiprec.federated import RECOMMENDERS, CoordinatorContext, CoordinatorHook, Recommender
from gossiprec.federated.coordinator_hook import RecommenderServer
from gossiprec.models import MODELS, BlockRole, Layout, Model
from gossiprec.models.feeds import Feed
from gossiprec.modes import RunMode, choose_mode
from gossiprec.network.protocols import Protocol
from gossiprec.rules.aggregators import InboxConfig
from gossiprec.rules.servers import Server
from gossiprec.scenario import Scenario
from gossiprec.scenario.sections import NodeFraction, Nodes

T = TypeVar("T")


class OwnNodes:
    """The nodes that observe for one attack, and all users if the coordinator is one of them.

    An attack may request data while it is constructed, before its nodes are known; :meth:`limit_to` checks these
    requests later.

    Parameters
    ----------
    name : str
        The name of the attack in the scenario.
    context : AttackContext
    """

    def __init__(self, name: str, context: AttackContext) -> None:
        self._name, self._context = name, context
        self._own: Bools | None = None
        self._asked: list[I64] = []

    def limited(self) -> AttackContext:
        """Return a context of which the functions answer only for the attack's own nodes."""
        context = self._context
        return replace(
            context,
            feed_of_nodes=self._checked(context.feed_of_nodes, "data"),
            models_of_nodes=self._checked(context.models_of_nodes, "models"),
        )

    def limit_to(self, attack: Attack) -> None:
        """Limit the context to the nodes that the attack observes.

        Raises
        ------
        PluginError
            If the attack requested the data of another node while it was constructed.
        """
        n_users, coordinator = self._context.n_users, self._context.coordinator
        own = np.zeros(n_users + 1 if coordinator is None else max(n_users, coordinator) + 1, np.bool_)
        own[np.concatenate([attack.nodes, *attack.pools]).astype(np.int64)] = True
        if coordinator is not None and own[coordinator]:
            own[:n_users] = True
        self._own = own
        for nodes in self._asked:
            self._check(nodes, "data")
        self._asked.clear()

    def _checked(self, answer: Callable[[I64], T], of: str) -> Callable[[I64], T]:
        def ask(nodes: I64) -> T:
            self._check(np.asarray(nodes), of)
            return answer(nodes)

        return ask

    def _check(self, nodes: I64, of: str) -> None:
        if self._own is not None:
            known = (nodes >= 0) & (nodes < len(self._own))
            foreign = np.unique(nodes[~(known & self._own[np.where(known, nodes, 0)])]).tolist()
            if foreign:
                raise PluginError(
                    f"observers: {self._name} asked for the {of} of nodes {foreign}, which are not its own; expected "
                    "nodes that observe, or users if the coordinator observes; ask for these only"
                )
        elif of == "data":
            self._asked.append(nodes.copy())
        else:
            raise PluginError(
                f"observers: {self._name} asked for models before the run began; ask for them in rankings() only"
            )


@dataclass(frozen=True)
class RunComponents:
    """The parts of a run that depend only on scenario and data.

    Attributes
    ----------
    split : Split
        The users' data; poisoners have none.
    mode : RunMode
        The mode of the run, which decides which model each node holds.
    attackers : list of Attackers
        Groups of nodes that come after the users' nodes and before a coordinator.
    contribution : object or None
        The values that clients send to the coordinator before the first round.
    between : Between or None
        The computation that the recommender adds to the coordinator.
    receivers : dict of int to Receiver
        The aggregation of nodes with inboxes, by node.
    waiting : int
        Number of models that wait in inboxes at the same time.
    load : Load
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
    recommender: Recommender | None
    contribution: Any
    between: CoordinatorHook | None
    server: Server | None
    outgoing: OutgoingTransforms
    receivers: dict[int, ReceiverConfig]
    waiting: int
    load: NodeLoad

    @property
    def n_poisoners(self) -> int:
        """The number of nodes without a user."""
        return self.protocol.n_users - self.split.n_users

    @property
    def user_upload_width(self) -> int:
        """The number of values that each client sends about its user, in addition to an update."""
        return 0 if self.recommender is None else self.recommender.user_upload_width(self.layout)

    @property
    def merge_weights(self) -> F64:
        """The merge weight of every node; a poisoner has the weight of an average user."""
        return self.protocol.merge_weights(reported_positives(self.split, self.n_poisoners))

    def validation_candidates(self) -> Ragged | None:
        """Return the items on which each node scores received models, or None if peers are not chosen by score."""
        if not self.mode.depends_on_values(self.protocol):
            return None
        everyone = add_poisoners(self.split, self.n_poisoners)
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
    attackers = make_poisoner_groups(scenario, split, protocol, model, layout)
    n_poisoners = protocol.n_users - split.n_users
    feed = model.make_feed(add_poisoners(split, n_poisoners).training_data() if n_poisoners else data)
    policies = make_policies(scenario, protocol, model, layout, split.n_users)
    recommender = make_recommender(scenario, protocol, model, layout)
    server, contribution, between = protocol.server(), None, None
    if recommender is not None:
        popularity = np.bincount(split.train.values, minlength=split.n_items)
        contribution = recommender.initial_contribution(data, scenario.seed)
        known = CoordinatorContext(
            model, layout, popularity, protocol.wakes_per_round, scenario.seed, protocol.n_users, contribution,
            protocol.server, protocol.closes_epochs,
        )  # fmt: skip
        between = recommender.coordinator_hook(known)
        server = server if between is None else RecommenderServer(server, between)
    grouped = server is not None and server.groups is not None
    if protocol.has_coordinator and mode.depends_on_values(protocol) and not grouped:
        raise ScenarioError(
            "protocol.choose: found 'proportional', but no component of this scenario groups clients; set "
            "recommender to perfedrec or perfedrec-pp, or set choose to uniform"
        )
    tells = recommender is not None and recommender.user_upload_width(layout) > 0
    n_telling = split.n_users if tells else 0
    outgoing = make_outgoing_transforms(scenario, policies, protocol, layout, server, n_telling)
    for entry in attackers:
        outgoing.forge(entry.nodes)
    receivers, waiting = make_receiver_configs(scenario, policies, protocol, split)
    check_samples(split.name, scenario.model.name, feed.n_samples(training.negatives))
    learnt = feed.n_samples(training.negatives) * training.local_epochs
    samples = mode.samples_per_node(learnt, protocol.n_nodes)
    return RunComponents(
        scenario, split, protocol, mode, training, model, feed, layout, policies, attackers, recommender, contribution,
        between, server, outgoing, receivers, waiting, NodeLoad(outgoing.message_bytes, samples),
    )  # fmt: skip


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
        policy.check(model, layout)
        for role in np.unique(protocol.roles[nodes]).tolist():
            policy.check_behaviour(protocol.behaviours[role])
        policies.append(policy)
    return policies


def note_large_deltas(scenario: Scenario, split: Split, say: Progress) -> None:
    """Note each delta that is so large that epsilon does not protect any single interaction of some user."""
    largest = int(split.train.sizes.max(initial=0))
    for index, choice in enumerate(scenario.policies):
        delta = getattr(choice.options, "delta", None)
        unused = getattr(choice.options, "noise", "gaussian") != "gaussian"
        if delta is not None and not unused and delta * largest >= 1.0:
            say.note(
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


def make_outgoing_transforms(
    scenario: Scenario,
    policies: list[Policy],
    protocol: Protocol,
    layout: Layout,
    server: Server | None,
    n_telling: int,
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
    choose_mode(protocol).add_transforms(outgoing, scenario, protocol, layout, server, n_telling)
    return outgoing


def make_receiver_configs(
    scenario: Scenario, policies: list[Policy], protocol: Protocol, split: Split
) -> tuple[dict[int, ReceiverConfig], int]:
    """Return the aggregation of nodes with inboxes, and the number of models that wait in inboxes.

    Raises
    ------
    ScenarioError
        If two policies set the aggregation of a node, or a rule needs more models than arrive.
    """
    receivers: dict[int, ReceiverConfig] = {}
    waiting, claimed = 0, reported_positives(split, protocol.n_users - split.n_users)
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
            receivers[node] = ReceiverConfig(
                rule.name, rule.make(), rule.buffer, float(weights[node]), invalid=rule.invalid
            )
    return receivers, waiting


def _check_size(where: str, rule: InboxConfig) -> None:
    together = rule.expected if rule.together is None else rule.together
    least = rule.make().min_models
    if least > together:
        raise ScenarioError(
            f"{where}: {rule.name} needs at least {least} models at a time, but at most {together} are aggregated "
            "together; lower the rule's drop, byzantine or keep, or let more models arrive (a higher participation "
            "or buffer)"
        )


def make_attacks(
    cast: RunComponents,
    executor: Executor,
    threads: ThreadPool,
    meetings: KnownDeliveries,
    models_of_nodes: Callable[[I64], F32],
) -> list[Attack]:
    """Return the scenario's attacks; the recommender's attack on uploads comes last, if it is enabled.

    Colluders may be placed by the deliveries known before the run.
    """
    protocol = cast.protocol
    context = AttackContext(
        scorer=Scorer(executor),
        n_users=cast.split.n_users,
        coordinator=protocol.n_users if protocol.has_coordinator else None,
        seed=cast.scenario.seed,
        threads=threads,
        hides_user=cast.outgoing.hides(BlockRole.USER),
        deliveries=meetings,
        feed_of_nodes=cast.feed.restricted_to,
        models_of_nodes=models_of_nodes,
        has_inbox=np.isin(np.arange(protocol.n_nodes), list(cast.receivers)),
    )
    attacks = [
        _make_attack(ATTACKS[choice.name], choice.name, choice.options, context)
        for choice in cast.scenario.observers
    ]
    requested = None if cast.recommender is None else cast.recommender.upload_attack
    if requested is not None and cast.between is not None:
        kind, context = UPLOAD_ATTACKS[requested[0]], replace(context, knowledge=cast.between.knowledge)
        attacks.append(_make_attack(kind, requested[0], kind.Options(**requested[1]), context))
    return attacks


def _make_attack(kind: type[Attack], name: str, options: Any, context: AttackContext) -> Attack:
    own = OwnNodes(name, context)
    limited = own.limited()
    attack = kind(options, isolated(limited) if is_foreign_class(kind) else limited)
    own.limit_to(attack)
    return attack


def isolated(context: AttackContext) -> AttackContext:
    """Return a context that holds copies, and functions that cannot reach the run."""
    return replace(
        context,
        threads=ThreadPool(context.threads.size),
        hides_user=context.hides_user.copy(),
        deliveries=copied(context.deliveries),
        feed_of_nodes=CallOnly(context.feed_of_nodes),
        models_of_nodes=CallOnly(context.models_of_nodes),
    )
