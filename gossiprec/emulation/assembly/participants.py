"""Who defends and who observes: a scenario's policies and attacks, on the nodes they name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.emulation.assembly.clients import keep_own_parts
from gossiprec.emulation.assembly.conditions import Load
from gossiprec.errors import ScenarioError
from gossiprec.feeds import Feed
from gossiprec.models import Layout, Model
from gossiprec.models.base import Role
from gossiprec.policies import POLICIES, Policy
from gossiprec.protocols import Protocol
from gossiprec.rng import generator
from gossiprec.scenario import Scenario
from gossiprec.scenario.sections import NodeFraction, Nodes
from gossiprec.servers import Server


def make_attacks(
    scenario: Scenario,
    protocol: Protocol,
    executor: Executor,
    threads: ThreadPool,
    *,
    outgoing: Outgoing,
    meetings: Meetings,
    own_models: Callable[[I64], F32],
) -> list[Attack]:
    """Return the scenario's attacks; colluders may be placed by the meetings known before the run."""
    work = executor.work
    world = World(
        scorer=Scorer(executor),
        n_users=protocol.n_users,
        coordinator=protocol.n_users if protocol.has_coordinator else None,
        seed=scenario.seed,
        threads=threads,
        hides_user=outgoing.hides(Role.USER),
        meetings=meetings,
        data_of=work.feed.only,
        own_models=own_models,
    )
    return [ATTACKS[choice.name](choice.options, world) for choice in scenario.observers]


def make_policies(
    scenario: Scenario,
    protocol: Protocol,
    model: Model,
    layout: Layout,
) -> list[Policy]:
    """Return the scenario's policies.

    Raises
    ------
    ScenarioError
        If a node would use a policy twice, or one does not fit the model.
    """
    policies, used = [], {choice.name: np.zeros(protocol.n_users, np.bool_) for choice in scenario.policies}
    for choice in scenario.policies:
        nodes = _nodes(choice.nodes, protocol.n_users, scenario.seed)
        twice = nodes[used[choice.name][nodes]]
        if len(twice):
            raise ScenarioError(
                f"policies: {len(twice)} nodes, such as node {twice[0]}, would use {choice.name} twice; give the "
                "entries nodes of their own, or keep one of them"
            )
        used[choice.name][nodes] = True
        policy = POLICIES[choice.name](choice.options, nodes)
        policy.check(model, layout)
        for role in np.unique(protocol.roles[nodes]).tolist():
            policy.check_behaviour(protocol.behaviours[role])
        policies.append(policy)
    return policies


def make_receivers(
    scenario: Scenario, policies: list[Policy], protocol: Protocol, weights: F64
) -> tuple[dict[int, Receiver], int]:
    """Return how nodes with inboxes aggregate, and how many models wait in inboxes at a time.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_nodes,)
        What every node's models count.

    Raises
    ------
    ScenarioError
        If two policies want to say how a node aggregates.
    """
    receivers: dict[int, Receiver] = {}
    waiting = 0
    rules = [
        (choice.name, policy.nodes, policy.inbox())
        for choice, policy in zip(scenario.policies, policies, strict=True)
    ]
    for name, nodes, rule in [*rules, ("protocol.merge", np.array([protocol.n_users]), protocol.inbox())]:
        if rule is None:
            continue
        waiting += len(nodes) * rule.expected
        for node in nodes.tolist():
            if node in receivers:
                raise ScenarioError(
                    f"policies: {name} and another policy both say how node {node} aggregates; keep one of them"
                )
            receivers[node] = Receiver(rule.name, rule.make(), rule.buffer, float(weights[node]))
    return receivers, waiting


def configure(
    policies: list[Policy],
    n_nodes: int,
    *,
    training: TrainingSettings,
    updates: I64 | None,
) -> NodeSettings:
    """Return what policies do to the nodes, of which each runs so many local updates."""
    node_settings = NodeSettings.none(n_nodes)
    for policy in policies:
        policy.configure(node_settings, training=training, updates=updates)
    return node_settings


def make_outgoing(
    scenario: Scenario, policies: list[Policy], protocol: Protocol, layout: Layout, server: Server | None
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
        keep_own_parts(scenario, protocol, outgoing, layout, server)
    return outgoing


def make_load(outgoing: Outgoing, protocol: Protocol, feed: Feed, training: TrainingSettings) -> Load:
    """Return what every node sends and trains on."""
    samples = np.zeros(protocol.n_nodes, np.int64)
    samples[: protocol.n_users] = feed.n_samples(training.negatives) * training.local_epochs
    return Load(outgoing.message_bytes, samples)


def _nodes(chosen: Nodes, n_users: int, seed: int) -> I64:
    """Return the node ids that a policy names; a larger part contains a smaller one."""
    if chosen == "all":
        return np.arange(n_users)
    if isinstance(chosen, NodeFraction):
        order = generator(seed, "policy-nodes").permutation(n_users)
        return np.sort(order[: max(1, round(chosen.fraction * n_users))])
    return np.unique(chosen).astype(np.int64)
