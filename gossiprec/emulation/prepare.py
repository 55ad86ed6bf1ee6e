"""From a scenario to everything a run needs, before the first local update."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.attacks import ATTACKS, Attack
from gossiprec.attacks.base import World
from gossiprec.compute.appraisal import Candidates
from gossiprec.compute.arena import Arena
from gossiprec.compute.crew import Crew
from gossiprec.compute.executors import EXECUTORS, Executor, Workload
from gossiprec.compute.planner import Planner
from gossiprec.compute.training import LocalData, TrainingSettings
from gossiprec.compute.treatment import Kind, Treatment
from gossiprec.compute.waves import WaveRunner
from gossiprec.data import load_split
from gossiprec.data.split import Split
from gossiprec.emulation.carrier import Carrier
from gossiprec.emulation.course import Course, Foreseen, Unforeseen
from gossiprec.emulation.memory import check_fits
from gossiprec.emulation.metering import Metered
from gossiprec.emulation.places import on_its_data
from gossiprec.emulation.progress import Progress, Silent, Stopwatch
from gossiprec.models import MODELS, Layout, Model
from gossiprec.policies import POLICIES, Policy
from gossiprec.protocols import PROTOCOLS, Protocol
from gossiprec.rng import generator
from gossiprec.scenario import Scenario, check_sizes
from gossiprec.scenario.sections import NodeFraction, Nodes

FEW_EPOCHS = 3_000
"""Local epochs below which ``executor: auto`` takes the reference: compiling would last longer."""
FEW_PRIVATE_EPOCHS = 300
"""The same under DP-SGD, where the reference takes one sample after the other."""
SPARE_BYTES = 128 * 2**20
"""Memory for versions in waiting; with less than one spare row for four nodes, merging in time costs too much."""


@dataclass(frozen=True)
class Prepared:
    """A run that could start now.

    Attributes
    ----------
    course : Course
        What will happen, as far as it can be known.
    epochs : int
        Local epochs of the whole run.
    needed : dict of str to int
        Bytes by part.
    seconds : dict of str to float
        Wall time of the preparations, by part.
    meters : list of Metered
        The attacks again, each with a meter of its cost.
    """

    scenario: Scenario
    split: Split
    protocol: Protocol
    executor: Executor
    crew: Crew
    planner: Planner
    attacks: list[Attack]
    meters: list[Metered]
    policies: list[Policy]
    course: Course
    epochs: int
    needed: dict[str, int]
    seconds: dict[str, float]

    def carrier(self, watch: Stopwatch | None = None) -> Carrier:
        """Return what carries out the tape."""
        wave_size = self.scenario.executor.wave_size
        runner = WaveRunner(
            self.executor,
            self.meters,
            crew=self.crew,
            wave_size=None if wave_size == "unlimited" else wave_size,
        )
        return Carrier(
            course=self.course, protocol=self.protocol, planner=self.planner, executor=self.executor,
            attacks=self.attacks, runner=runner, watch=watch or Stopwatch(),
        )  # fmt: skip

    def sizes(self) -> dict[str, Any]:
        """Return what the run is about, in numbers: for ``--dry-run`` and the summary."""
        return {
            "scenario": self.scenario.name,
            "seed": self.scenario.seed,
            "dataset": self.split.name,
            "nodes": self.protocol.n_nodes,
            "items": self.split.n_items,
            "interactions": int(sum(part.sizes.sum() for part in _parts(self.split))),
            "wakes": self.course.n_wakes,
            "messages": self.course.n_messages,
            "node_updates": self.epochs,
            "virtual_time": self.course.virtual_time,
            "executor": self.executor.name,
            "threads": self.crew.size,
        }


def prepare(scenario: Scenario, progress: Progress | None = None) -> Prepared:
    """Load the data, set everything up and run the control plane ahead.

    Raises
    ------
    ScenarioError, DataError
        If the scenario does not fit its data.
    ResourceError
        If the run cannot fit into memory.
    """
    say, watch = progress or Silent(), Stopwatch()
    say.phase("loading data")
    with watch("load"):
        split = _load(scenario)
        check_sizes(scenario, split.n_users, split.n_items)
        protocol = PROTOCOLS[scenario.protocol.name](
            scenario.protocol.options, n_users=split.n_users, seed=scenario.seed
        )
    say.phase("running events ahead")
    with watch("control"):
        course = (Unforeseen if protocol.chooses_by_value else Foreseen)(scenario, protocol)
    training = _settings(scenario)
    with watch("setup"):
        model, data = on_its_data(MODELS[scenario.model.name](scenario.model.options), split)
        layout = model.layout(split.n_items, split.n_users if protocol.whole_user_table else 1)
        policies, treatment = _policies(scenario, protocol, model, layout, training, course.updates)
        updates = course.n_updates
        if course.updates is not None:
            updates = int(np.minimum(course.updates, treatment.most_updates).sum())
        epochs = training.local_epochs * updates
        row_bytes = layout.row_size * np.dtype(scenario.executor.storage).itemsize
        spare = _spare_rows(protocol.n_nodes, row_bytes)
        needed = _needed(layout, row_bytes, training, protocol.n_nodes, spare)
        check_fits(needed)
        candidates = None
        if protocol.chooses_by_value:
            candidates = Candidates.draw(split, protocol.n_nodes, scenario.seed)
        executor = _executor(scenario, protocol, model, data, layout, training, treatment, candidates, epochs)
    crew = Crew(_threads(scenario) if executor.parallel else 1)
    with watch("setup"):
        attacks = _attacks(scenario, split, protocol, executor, crew, own_rows=lambda: planner.current)
        pools = [pool for attack in attacks for pool in attack.pools]
        planner = _planner(protocol, split, executor.work, pools, course, spare)
        executor.work.arena.grow(planner.capacity)
    if executor.parallel:
        say.phase("compiling kernels (once on a machine)")
    with watch("compile"):
        executor.warm_up()
        planner.warm_up()
        for attack in attacks:
            attack.warm_up()
    say.phase("setting up observers")
    with watch("setup"):
        first_pool = 0
        meters = [Metered(attack) for attack in attacks]
        for meter in meters:
            meter.call(meter.attack.foresee, course.meetings, first_pool)
            first_pool += len(meter.attack.pools)
    needed["observers"] = sum(attack.state_bytes for attack in attacks)
    check_fits({"observers": needed["observers"]})
    return Prepared(
        scenario,
        split,
        protocol,
        executor,
        crew,
        planner,
        attacks,
        meters,
        policies,
        course,
        epochs,
        needed,
        watch.seconds,
    )


def _attacks(
    scenario: Scenario,
    split: Split,
    protocol: Protocol,
    executor: Executor,
    crew: Crew,
    *,
    own_rows: Callable[[], npt.NDArray[np.int64]],
) -> list[Attack]:
    world = World(
        executor=executor,
        n_users=split.n_users,
        coordinator=split.n_users if protocol.has_coordinator else None,
        targets=split.train,
        seed=scenario.seed,
        crew=crew,
        compiled=executor.parallel,
        hides_user=executor.work.treatment.hides_user,
        own_rows=own_rows,
    )
    return [ATTACKS[choice.name](choice.options, world) for choice in scenario.observers]


def _policies(
    scenario: Scenario,
    protocol: Protocol,
    model: Model,
    layout: Layout,
    training: TrainingSettings,
    updates: npt.NDArray[np.int64] | None,
) -> tuple[list[Policy], Treatment]:
    """Return the scenario's policies and what they do to the nodes."""
    treatment = Treatment.none(protocol.n_nodes)
    policies = []
    for choice in scenario.policies:
        nodes = _nodes(choice.nodes, protocol.n_users, scenario.seed)
        policy = POLICIES[choice.name](choice.options, nodes)
        policy.check(model, layout)
        policy.treat(treatment, training=training, updates=updates)
        policies.append(policy)
    return policies, treatment


def _nodes(chosen: Nodes, n_users: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the node ids that a policy names; a larger part contains a smaller one."""
    if chosen == "all":
        return np.arange(n_users)
    if isinstance(chosen, NodeFraction):
        order = generator(seed, "policy-nodes").permutation(n_users)
        return np.sort(order[: max(1, round(chosen.fraction * n_users))])
    return np.unique(chosen).astype(np.int64)


def _load(scenario: Scenario) -> Split:
    choice = scenario.dataset
    return load_split(
        choice.name,
        choice.options,
        choice.split.name,
        choice.split.options,
        scenario.seed,
        limit_users=choice.limit_users,
    )


def _settings(scenario: Scenario) -> TrainingSettings:
    training = scenario.training
    return TrainingSettings(
        optimizer=training.optimizer,
        learning_rate=training.learning_rate,
        batch_size=None if training.batch_size == "full" else training.batch_size,
        local_epochs=training.local_epochs,
        negatives=training.negatives,
        beta1=training.betas[0],
        beta2=training.betas[1],
        epsilon=training.eps,
    )


def _needed(
    layout: Layout, row_bytes: int, training: TrainingSettings, n_nodes: int, spare: int
) -> dict[str, int]:
    """Return the bytes of the nodes' versions, of versions in waiting and of optimizer state."""
    moments = 2 * n_nodes * 4 * layout.row_size if training.optimizer == "adam" else 0
    return {"parameters": n_nodes * row_bytes, "versions in waiting": spare * row_bytes, "moments": moments}


def _executor(
    scenario: Scenario,
    protocol: Protocol,
    model: Model,
    data: LocalData,
    layout: Layout,
    training: TrainingSettings,
    treatment: Treatment,
    candidates: Candidates | None,
    epochs: int,
) -> Executor:
    """Make the arena with every node's first version, and the executor that works on it."""
    n_users, storage = len(data.positives), scenario.executor.storage
    arena = Arena(
        layout,
        n_nodes=protocol.n_nodes,
        capacity=protocol.n_nodes,
        moments=training.optimizer == "adam",
        storage=storage,
    )
    model.fill_rows(arena.rows[:n_users], layout, scenario.seed)
    if protocol.has_coordinator:
        arena.rows[n_users] = arena.rows[0]
    work = Workload(model, layout, training, data, arena, scenario.seed, treatment, candidates)
    name: str = scenario.executor.name
    if name == "auto":
        lacks_kernels = EXECUTORS["fused"].lacks(model, training, storage, treatment) is not None
        name = _choose(lacks_kernels, treatment, scenario.executor.device, epochs)
    return EXECUTORS[name](work, scenario.executor.device)


def _choose(lacks_kernels: bool, treatment: Treatment, device: str, epochs: int) -> str:
    """Return the executor that ``auto`` stands for."""
    if device == "cuda":
        return "batched"
    private = (treatment.kinds == Kind.PRIVATE).any()
    if epochs < (FEW_PRIVATE_EPOCHS if private else FEW_EPOCHS):
        return "reference"
    return "batched" if lacks_kernels else "fused"


def _threads(scenario: Scenario) -> int:
    asked = scenario.executor.threads
    return len(os.sched_getaffinity(0)) if asked == "auto" else asked


def _spare_rows(n_nodes: int, row_bytes: int) -> int:
    """Return how many versions in waiting to keep: two for each node, fewer where rows are large."""
    return min(2 * n_nodes, max(n_nodes // 4, SPARE_BYTES // row_bytes))


def _planner(
    protocol: Protocol,
    split: Split,
    work: Workload,
    pools: list[Any],
    course: Course,
    spare: int,
) -> Planner:
    n_positives = split.train.sizes
    pools_of = np.zeros((protocol.n_nodes, len(pools)), bool)
    for number, members in enumerate(pools):
        pools_of[members, number] = True
    training = work.training
    samples = (
        np.append(work.data.n_samples(training.negatives), 0)[: protocol.n_nodes] * training.local_epochs
    )
    per_epoch = samples // training.local_epochs
    steps = training.local_epochs * -(-per_epoch // (training.batch_size or max(int(per_epoch.max()), 1)))
    noise = np.where(work.treatment.kinds == Kind.PRIVATE, steps * work.layout.size / 450.0, 0.0)
    return Planner(
        roles=protocol.roles,
        behaviours=protocol.behaviours,
        weights=protocol.merge_weights(n_positives),
        most_updates=work.treatment.most_updates,
        cost=2.0 + samples * _merges_per_sample(work) + noise,
        pools_of=pools_of,
        inline=course.inline,
        spare_rows=spare,
        expected_messages=course.n_messages,
    )


def _merges_per_sample(work: Workload) -> float:
    """Return the time to train on one sample, in merges (docs/models.md has both times, for large rows)."""
    return 60.0 * work.layout.item_width / work.layout.row_size if work.data.moves is not None else 0.01


def _parts(split: Split) -> tuple[Any, ...]:
    return split.train, split.validation, split.test
