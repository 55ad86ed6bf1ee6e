"""Who defends and who observes: a scenario's policies and attacks, on the nodes they name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gossiprec.attacks import ATTACKS, Attack
from gossiprec.attacks.base import Meetings, World
from gossiprec.compute.crew import Crew
from gossiprec.compute.executors import Executor
from gossiprec.compute.training import LocalData, TrainingSettings
from gossiprec.compute.treatment import Treatment
from gossiprec.data.split import Split
from gossiprec.emulation.conditions import Load
from gossiprec.models import Layout, Model
from gossiprec.policies import POLICIES, Policy
from gossiprec.protocols import Protocol
from gossiprec.rng import generator
from gossiprec.scenario import Scenario
from gossiprec.scenario.sections import NodeFraction, Nodes


def make_attacks(
    scenario: Scenario,
    split: Split,
    protocol: Protocol,
    executor: Executor,
    crew: Crew,
    *,
    meetings: Meetings,
    own_rows: Callable[[], npt.NDArray[np.int64]],
) -> list[Attack]:
    """Return the scenario's attacks; colluders may be placed by the meetings known before the run."""
    world = World(
        executor=executor,
        n_users=split.n_users,
        coordinator=split.n_users if protocol.has_coordinator else None,
        targets=split.train,
        seed=scenario.seed,
        crew=crew,
        compiled=executor.parallel,
        hides_user=executor.work.treatment.hides_user,
        meetings=meetings,
        own_rows=own_rows,
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


def treat(
    policies: list[Policy],
    n_nodes: int,
    *,
    training: TrainingSettings,
    updates: npt.NDArray[np.int64] | None,
) -> Treatment:
    """Return what policies do to the nodes, of which each runs so many local updates."""
    treatment = Treatment.none(n_nodes)
    for policy in policies:
        policy.treat(treatment, training=training, updates=updates)
    return treatment


def make_load(
    policies: list[Policy], protocol: Protocol, layout: Layout, data: LocalData, training: TrainingSettings
) -> Load:
    """Return what every node sends and trains on."""
    size = np.full(protocol.n_nodes, layout.message_bytes, np.int64)
    for policy in policies:
        if policy.hides_user:
            size[policy.nodes] -= 4 * layout.user_width
    samples = np.zeros(protocol.n_nodes, np.int64)
    samples[: protocol.n_users] = data.n_samples(training.negatives) * training.local_epochs
    return Load(size, samples)


def _nodes(chosen: Nodes, n_users: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the node ids that a policy names; a larger part contains a smaller one."""
    if chosen == "all":
        return np.arange(n_users)
    if isinstance(chosen, NodeFraction):
        order = generator(seed, "policy-nodes").permutation(n_users)
        return np.sort(order[: max(1, round(chosen.fraction * n_users))])
    return np.unique(chosen).astype(np.int64)
