"""Central training: a coordinator holds all users' data and trains the only model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Problem
from gossiprec.modes import COPIES_PER_STEP, MODES, MemoryInputs, RunMode, StoreMemory, TrainingOutline

if TYPE_CHECKING:
    from gossiprec.base.arrays import I64
    from gossiprec.compute.executors import Executor
    from gossiprec.emulation.assembly.components import RunComponents
    from gossiprec.scenario import Scenario


PARTICIPANTS = ("policies", "attackers", "adversaries", "observers")
"""Sections about the nodes of users, and about attackers."""


@MODES.register("central")
class CentralTraining(RunMode):
    """The mode in which a coordinator holds all users' data and trains the only model."""

    title = "central training"
    sends_messages = False
    has_user_models = False
    requires_torch = True
    takes_cached_kernels = False

    def check_scenario(self, scenario: Scenario) -> Iterator[Problem]:
        """Yield sections that concern messages, or nodes that train."""
        name = scenario.protocol.name
        for section in (*PARTICIPANTS, "coordinator", "recommender", "network", "churn"):
            value = getattr(scenario, section)
            if value and value != type(scenario).model_fields[section].get_default(call_default_factory=True):
                yield (
                    (section,),
                    f"is about messages or nodes of users, but with {name} a coordinator holds all data and no "
                    "messages are sent; remove the section, or choose another protocol",
                )
        names, devices = ("auto", "batched", "reference"), ("auto", "cpu")
        for key, values in {"name": names, "storage": ("float32",), "device": devices}.items():
            found = getattr(scenario.executor, key)
            if found not in values:
                yield (
                    ("executor", key),
                    f"found {found!r}; expected {' or '.join(values)}, because with {name} one "
                    "model is trained by autograd on the CPU",
                )

    def has_interaction_graph(self, model: type) -> bool:
        """Return True: the coordinator has all interactions."""
        return True

    def training_executor(self, outline: TrainingOutline) -> str:
        """Return the name of the executor of one model."""
        return "central"

    def make_executor(
        self, components: RunComponents, outline: TrainingOutline, *, divided: bool
    ) -> Executor:
        """Return the executor of the coordinator's model, with the first version of the model.

        The users' rows, the items and the shared weights begin as they do in a federation of the same seed.

        Raises
        ------
        ScenarioError
            If an epoch does not fill one batch.
        """
        from gossiprec.compute.executors import EXECUTORS, ExecutorContext
        from gossiprec.compute.executors.central import CentralExecutor
        from gossiprec.compute.store.arena import SingleModelStore

        scenario, layout, training = components.scenario, components.layout, components.training
        n_samples = int(components.node_load.samples[-1]) // training.local_epochs
        if training.batch_size is not None and training.batch_size > n_samples:
            raise ScenarioError(
                f"training.batch_size: found {training.batch_size}, but an epoch has only {n_samples} samples; "
                "lower it, or set it to full"
            )
        if training.positives_drawn == "by_user" and not components.feed.samples_follow_positives:
            raise ScenarioError(
                f"training.positives_drawn: found 'by_user', but {scenario.model.name} learns from whole lists of "
                "users; expected 'all'"
            )
        arena = SingleModelStore(layout, moments=training.optimizer == "adam")
        arena.rows[0] = components.model.initial_row(layout, scenario.seed)
        model, feed, settings = components.model, components.feed, outline.settings
        work = ExecutorContext(model, layout, training, feed, arena, scenario.seed, settings)
        scores = "batched" if scenario.executor.name == "auto" else scenario.executor.name
        return CentralExecutor(work, EXECUTORS[scores](work, "cpu"))

    def memory(self, inputs: MemoryInputs) -> StoreMemory:
        """Return the memory of the model, of its optimizer's moments and of a step of training."""
        row_bytes = 4 * inputs.layout.row_size
        samples = self.samples_per_epoch(float(inputs.samples.mean()), inputs.protocol.n_users)
        sizes = {
            "parameters": 2 * row_bytes,
            "moments": 2 * row_bytes if inputs.has_moments else 0,
            "training": COPIES_PER_STEP * row_bytes + 32 * round(samples),
        }
        return StoreMemory(sizes, 0)

    def samples_per_node(self, samples: I64, n_nodes: int) -> I64:
        """Return the samples of all users for the coordinator, and zero for the other nodes."""
        found = np.zeros(n_nodes, np.int64)
        found[-1] = samples.sum()
        return found

    def samples_per_epoch(self, mean: float, n_users: int) -> float:
        """Return the number of samples of all users together."""
        return mean * n_users

    def trained_node(self, user: int, n_users: int) -> int:
        """Return the coordinator."""
        return n_users
