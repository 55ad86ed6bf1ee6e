"""The runs that an epsilon by observer covers, the bounds that hold for them, and the noise of their nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gossiprec.adversaries.poisoners import POISONERS
from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.registry import registry_name
from gossiprec.compute.local_update import NodeSettings
from gossiprec.compute.plan.tape import Op
from gossiprec.data.loading import remove_users
from gossiprec.defences.dp_sgd import DPSGD
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.schedule import PrecomputedSchedule, Schedule
from gossiprec.emulation.run.contact_replay import ContactTape, TapeVisitor, count_numbers, replay_tape
from gossiprec.scenario import Scenario
from gossiprec.scenario.network import Churn
from gossiprec.scenario.sections import LeastPopular

NEIGHBOURS = (
    "neighbouring data differ in what a user's samples are (with unit user: all samples of a user); the numbers of "
    "samples, merge weights, and who sends when are public"
)
"""The relation of neighbours of every claim, for its output."""

MOST_UPDATES = 2000
"""Most local updates of a run for the linear bound: a view of n updates takes time in proportion to n^3."""
MOST_NUMBERS = 2**26
"""Most numbers of its replay."""


@dataclass(frozen=True)
class NodeNoise:
    """The noise of each node's local updates.

    Attributes
    ----------
    multiplier : ndarray of float64, shape (n_nodes,)
        Deviation of the noise in units of the largest change that the unit of protection makes; 0 without noise.
    deviation : ndarray of float64, shape (n_nodes,)
        Deviation of the noise of a sum of gradients, or of a local update.
    delta : ndarray of float64, shape (n_nodes,)
    epochs : ndarray of int64, shape (n_nodes,)
        Gaussian mechanisms per local update.
    by_user : ndarray of bool, shape (n_nodes,)
        Whether the unit of protection is all data of a user.
    """

    multiplier: F64
    deviation: F64
    delta: F64
    epochs: I64
    by_user: Bools

    @classmethod
    def of(cls, components: RunComponents, settings: NodeSettings) -> NodeNoise:
        """Return the noise that the policies of a run have set."""
        by_user, delta = settings.update_clip > 0, np.full(components.protocol.n_nodes, np.nan)
        multiplier = np.where(by_user, settings.update_noise, settings.noise_multiplier).astype(np.float64)
        clip = np.where(by_user, settings.update_clip, settings.clip_norm)
        for policy in components.policies:
            if isinstance(policy, DPSGD):
                delta[policy.nodes] = policy.options.delta
        epochs = np.where(by_user, 1, components.training.local_epochs)
        return cls(multiplier, multiplier * clip, delta, epochs, by_user)

    def without(self, nodes: I64) -> NodeNoise:
        """Return the same noise, but none of some nodes."""
        multiplier, deviation = self.multiplier.copy(), self.deviation.copy()
        multiplier[nodes] = deviation[nodes] = 0.0
        return replace(self, multiplier=multiplier, deviation=deviation)


def check_has_noise(path: Path, scenario: Scenario) -> Scenario:
    """Return the scenario of a run, after a check that a node has noise in training.

    Raises
    ------
    ScenarioError
    """
    if not any(isinstance(policy.options, DPSGD.Options) for policy in scenario.policies):
        raise ScenarioError(
            f"{path}: policies: found no dp-sgd; expected a run with noise in training; add "
            "{name: dp-sgd, epsilon: 10} to policies and run it again"
        )
    return scenario


def check_covered(path: Path, components: RunComponents, schedule: Schedule) -> PrecomputedSchedule:
    """Return the schedule of a run, after a check that data only leave nodes in messages that noise covers.

    Raises
    ------
    ScenarioError
        If nodes send without noise, or what a node sends follows the data of users from which nothing has come to it.
    """
    for applies, key, found, step in _open_ways(components, schedule):
        if applies:
            raise ScenarioError(f"{path}: {key}: found {found}, so no epsilon covers a message; {step}")
    assert isinstance(schedule, PrecomputedSchedule), "see _open_ways"
    return schedule


def _open_ways(components: RunComponents, schedule: Schedule) -> Iterator[tuple[bool, str, str, str]]:
    """Yield each way of data without noise: whether a run has it, its key, its description, and the next step."""
    scenario, protocol, mode = components.scenario, components.protocol, components.mode
    compute = scenario.network.compute
    public = [part.root_options.users for part, _ in components.choose_root_users()]
    yield from (
        (protocol.choices_follow_data, "protocol.name",
         f"{registry_name(protocol)}, which chooses receivers by items without noise",
         "use rand-gossip with random views, or fedavg"),
        (not mode.nodes_hold_models, "protocol",
         f"a run of mode {mode.title}, in which not every node trains a model with noise",
         "use rand-gossip, or fedavg with client_model: own"),
        (schedule.depends_on_values, "protocol.choose",
         "a choice of receivers by models, which shows more than their messages", "use choose: uniform"),
        (scenario.stop is not None, "stop",
         "an end that depends on a measure of all users without noise", "remove stop"),
        (compute is not None and compute.per_sample, "network.compute.per_sample",
         "times of messages that count samples without noise", "remove per_sample"),
        (any(isinstance(users, int) for users in public), "protocol",
         "a number of public users, who are drawn from those with public items", "list the public users in root.users"),
    )  # fmt: skip
    for index, group in enumerate(components.attackers):
        entry, key, sends = group.choice, f"attackers.{index}", len(group.nodes) > 0
        kind = POISONERS[entry.name]
        yield from (
            (sends and bool(kind.knows), key,
             f"{entry.name}, which knows the {' and '.join(sorted(kind.knows))} of users without noise",
             "use another poisoner, such as a-hum"),
            (sends and kind.targeted and isinstance(entry.targets, LeastPopular), f"{key}.targets",
             "least_popular, which counts items without noise", "list the items in targets"),
            (sends and entry.scale == "matched", f"{key}.scale",
             "matched, which counts items without noise", "set scale to gradient"),
        )  # fmt: skip


def check_weights(path: Path, components: RunComponents, tape: ContactTape) -> None:
    """Refuse a run in which a merge weighs a model by the data of others than its own node.

    Raises
    ------
    ScenarioError
    """
    follows = _weights_of_others(components)
    replay = _WeighedMerges(follows)
    if follows.any():
        replay_tape(tape, replay)
    if replay.node is not None:
        raise ScenarioError(
            f"{path}: protocol.merge: found models of node {replay.node} merged by a weight that counts the data of "
            "other users, so no epsilon covers a message; set merge to mean (semi-decentralised: set fanout to 0)"
        )


class _WeighedMerges(TapeVisitor):
    """The first node of some of which a model is merged by its weight."""

    def __init__(self, follows: Bools) -> None:
        self.node: int | None = None
        self._follows = follows.tolist()
        self._sender: dict[int, int] = {}

    def push(self, node: int, number: int) -> None:
        self._sender[number] = node

    def deliver(self, node: int, number: int, operation: Op) -> None:
        if operation in (Op.NOTHING, Op.ADOPT):
            return
        for each in (self._sender[number], node):
            if self._follows[each] and (each != node or operation is not Op.POOL):
                self.node = each

    def end(self, number: int) -> None:
        del self._sender[number]


def _weights_of_others(components: RunComponents) -> Bools:
    """Return whether the weight of each node's models follows the data of other nodes, shape (n_nodes,)."""
    split, protocol, before = components.split, components.protocol, components.merge_weights
    users, found = np.arange(split.n_users), np.zeros(protocol.n_nodes, np.bool_)
    for bit in range(int(users[-1]).bit_length()):
        for side in (0, 1):  # any two nodes are on different sides for some bit
            removed = (users >> bit & 1) == side
            rest = remove_users(split, np.flatnonzero(removed).tolist())
            weights = protocol.merge_weights(rest.reported_positives(components.n_poisoners))
            others = np.ones(protocol.n_nodes, np.bool_)
            others[: len(users)] = ~removed
            found |= others & (weights != before)
    return found


def linear_gap(components: RunComponents, noise: NodeNoise) -> str | None:
    """Return the reason why the messages of a run are not linear in its noise, or None if they are."""
    scenario, protocol, training = components.scenario, components.protocol, components.training
    name = registry_name(protocol)
    options = protocol.options
    by_sample = (noise.multiplier > 0) & ~noise.by_user
    steps = training.optimizer != "sgd" or training.batch_size is not None or training.local_epochs != 1
    gaps = {
        f"the protocol {name} is not rand-gossip or fedavg": name not in ("rand-gossip", "fedavg"),
        "models are merged by a rule other than a mean, or a server": bool(components.inboxes.receivers),
        "the coordinator chooses clients by their data, waits for them or weighs them": name == "fedavg"
        and (options.choose != "uniform" or options.round is not None or not options.aggregation.plain
             or options.aggregation.name != "synchronous"),
        "poisoners or adversaries take part": bool(scenario.attackers or scenario.adversaries),
        "a policy rewrites messages": any(
            registry_name(policy) not in ("dp-sgd", "share-less") for policy in components.policies
        ),
        "nodes go offline or computing takes time": scenario.churn != Churn() or scenario.network.compute is not None,
        "every node holds the rows of all users": protocol.whole_user_table,
        "models are stored in float16": scenario.executor.storage != "float32",
        "training changes during the run": bool(scenario.changes),
        "the recommender adds terms and data": components.coordination.recommender is not None,
        "a local update is more than one step of sgd on a full batch (training: optimizer sgd, batch_size full, "
        "local_epochs 1), and the unit is not user": bool(steps and by_sample.any()),
    }  # fmt: skip
    return next((reason for reason, applies in gaps.items() if applies), None)


def size_gap(tape: ContactTape) -> str | None:
    """Return the reason why the views of a run cannot be computed, or None if they can."""
    if tape.n_updates > MOST_UPDATES:
        return f"it has {tape.n_updates:,} local updates, more than {MOST_UPDATES:,}"
    return "its messages take too much memory" if count_numbers(tape) > MOST_NUMBERS else None
