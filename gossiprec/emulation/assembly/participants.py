"""Who defends and who observes: a scenario's policies and attacks, on the nodes they name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.attacks import ATTACKS, Attack
from gossiprec.attacks.base import World
from gossiprec.attacks.observations import Meetings
from gossiprec.compute.executors import Executor
from gossiprec.compute.scorer import Scorer
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.emulation.assembly.conditions import Load
from gossiprec.feeds import Feed
from gossiprec.models import Layout, Model
from gossiprec.policies import POLICIES, Policy
from gossiprec.protocols import Protocol
from gossiprec.rng import generator
from gossiprec.scenario import Scenario
from gossiprec.scenario.sections import NodeFraction, Nodes


def make_attacks(
    scenario: Scenario,
    protocol: Protocol,
    executor: Executor,
    threads: ThreadPool,
    *,
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
        hides_user=work.node_settings.hides_user,
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
    """Return the scenario's policies."""
    policies = []
    for choice in scenario.policies:
        nodes = _nodes(choice.nodes, protocol.n_users, scenario.seed)
        policy = POLICIES[choice.name](choice.options, nodes)
        policy.check(model, layout)
        policies.append(policy)
    return policies


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


def make_load(
    policies: list[Policy], protocol: Protocol, layout: Layout, feed: Feed, training: TrainingSettings
) -> Load:
    """Return what every node sends and trains on."""
    size = np.full(protocol.n_nodes, layout.message_bytes, np.int64)
    for policy in policies:
        if policy.hides_user:
            size[policy.nodes] -= 4 * layout.user_width
    samples = np.zeros(protocol.n_nodes, np.int64)
    samples[: protocol.n_users] = feed.n_samples(training.negatives) * training.local_epochs
    return Load(size, samples)


def _nodes(chosen: Nodes, n_users: int, seed: int) -> I64:
    """Return the node ids that a policy names; a larger part contains a smaller one."""
    if chosen == "all":
        return np.arange(n_users)
    if isinstance(chosen, NodeFraction):
        order = generator(seed, "policy-nodes").permutation(n_users)
        return np.sort(order[: max(1, round(chosen.fraction * n_users))])
    return np.unique(chosen).astype(np.int64)
