"""Run modes, which decide which model each node holds: one module each, chosen once (:func:`choose_mode`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Problem
from gossiprec.base.registry import Registry

if TYPE_CHECKING:
    from gossiprec.base.arrays import I64
    from gossiprec.compute.executors import Executor
    from gossiprec.compute.local_update import NodeSettings, TrainingSettings
    from gossiprec.compute.messages import OutgoingTransforms
    from gossiprec.federated import Recommender
    from gossiprec.models import Layout, Model
    from gossiprec.network.protocols import Protocol
    from gossiprec.rules.servers import Server
    from gossiprec.scenario import Scenario
    from gossiprec.scenario.definition import RegisteredChoice


@dataclass(frozen=True)
class TrainingOutline:
    """The facts that decide which executor trains.

    Attributes
    ----------
    scenario : Scenario
    model : Model
    training : TrainingSettings
    recommender : Recommender or None
    settings : NodeSettings
    epochs : int
        Local epochs of the whole run.
    layout : Layout
        The layout of the models that nodes hold.
    """

    scenario: Scenario
    model: Model
    training: TrainingSettings
    recommender: Recommender | None
    settings: NodeSettings
    epochs: int
    layout: Layout


COPIES_PER_STEP = 8
"""Copies of a model that a step of torch's training holds: gradients, layers and views."""


class StoreMemory(NamedTuple):
    """The memory of models, messages and optimizer state: bytes by part, and rows in addition to the nodes' own."""

    bytes: dict[str, int]
    rows: int


@dataclass(frozen=True)
class MemoryInputs:
    """The quantities that decide how much memory a run takes, without its observers.

    Attributes
    ----------
    n_interactions : int
        Interactions of all users, in all parts of the split.
    samples : ndarray of int64, shape (n,)
        Samples of one pass over the data of each user, or of each user of a sample.
    waiting : int
        Number of models that wait in inboxes at the same time.
    n_rewritten : int
        Nodes of which the messages are rewritten.
    stacks_updates : bool
        Whether waiting updates are stacked to be compared.
    n_versions : int
        Number of versions that a server publishes at the same time; 1 without a server.
    n_wakes, n_messages : int
    """

    scenario: Scenario
    protocol: Protocol
    mode: RunMode
    training: TrainingSettings
    layout: Layout
    n_interactions: int
    samples: I64
    waiting: int
    n_rewritten: int
    stacks_updates: bool
    n_versions: int
    n_wakes: int
    n_messages: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a stored model version."""
        return self.layout.row_size * np.dtype(self.scenario.executor.storage).itemsize

    @property
    def has_moments(self) -> bool:
        """Whether the optimizer keeps two moments for each parameter."""
        return self.training.optimizer == "adam"


class RunMode(ABC):
    """A decision on which model each node holds. There is one mode per run, and other parts query it.

    A mode has no state. It is chosen by :func:`gossiprec.modes.choose_mode`.
    """

    title: ClassVar[str]
    """The mode's name in error messages."""
    sends_messages: ClassVar[bool] = True
    """Whether nodes send messages; if not, there is nothing to observe."""
    has_user_models: ClassVar[bool] = True
    """Whether each user has a model and samples of its own, so that its training loss can be measured."""
    nodes_hold_models: ClassVar[bool] = False
    """Whether each node has a model of its own in the store, and trains it."""
    plans_by_round: ClassVar[bool] = False
    """Whether a plan ends when a coordinator wakes, because messages take memory until it does."""
    sizes_follow_training: ClassVar[bool] = False
    """Whether the size of a message is known only when it is computed."""
    reveals_items: ClassVar[bool] = False
    """Whether a message shows which items its sender has trained on, even if a policy rewrites its numbers."""
    few_epochs: ClassVar[int] = 3_000
    """Local epochs below which ``executor: auto`` takes the reference: compiling would last longer."""
    takes_cached_kernels: ClassVar[bool] = True
    """Whether compiled kernels of earlier runs may replace the executor of a short run."""
    requires_torch: ClassVar[bool] = False
    """Whether training requires torch, so that a run cannot be portable."""

    def check_scenario(self, scenario: Scenario) -> Iterator[Problem]:
        """Yield the sections and keys of a scenario that do not fit the mode, before data are loaded."""
        return iter(())

    @abstractmethod
    def has_interaction_graph(self, model: type) -> bool:
        """Return whether the nodes that train have the graph of a model, of all interactions or of their own."""

    @abstractmethod
    def training_executor(self, outline: TrainingOutline) -> str:
        """Return the name of the executor that trains.

        Raises
        ------
        ScenarioError
            If the scenario names an executor that cannot train this.
        """

    def uncompiled_part(self, outline: TrainingOutline) -> str | None:
        """Return the part of the training that has no compiled form, which makes it slow, or None."""
        return None

    @abstractmethod
    def make_executor(self, components: Any, outline: TrainingOutline, *, divided: bool) -> Executor:
        """Return the executor, with its store.

        Parameters
        ----------
        components : RunComponents
        outline : TrainingOutline
        divided : bool
            Whether the run is divided among shards, so that most rows are in other processes.

        Raises
        ------
        ScenarioError
            If the scenario requests a feature that the mode does not support.
        """

    def write_first_models(  # noqa: B027 (only if nodes hold models)
        self, components: Any, executor: Executor, nodes: I64 | None = None
    ) -> None:
        """Write the first versions of the nodes' models into the store; of all nodes if `nodes` is None."""

    def check_recommender(self, choice: RegisteredChoice) -> None:
        """Refuse a federated recommender, unless clients hold no model.

        Raises
        ------
        ScenarioError
        """
        raise ScenarioError(
            f"recommender: {choice.name} requires a coordinator and clients without a model; set "
            "protocol to {name: fedavg, client_model: none, ...}, or remove recommender"
        )

    def check_node_observer(self, label: str) -> None:  # noqa: B027 (most modes allow it)
        """Refuse an attack that observes single nodes, if these receive nothing that it can use.

        Raises
        ------
        ScenarioError
        """

    def add_transforms(  # noqa: B027 (most modes add none)
        self, outgoing: OutgoingTransforms, scenario: Scenario, server: Server | None, nodes: I64
    ) -> None:
        """Add the transforms of messages that the mode requires; `nodes` send no user rows.

        Raises
        ------
        ScenarioError
            If the scenario requests messages that the mode does not support.
        """

    @abstractmethod
    def memory(self, inputs: MemoryInputs) -> StoreMemory:
        """Return the memory of models, messages and optimizer state."""

    def samples_per_node(self, samples: I64, n_nodes: int) -> I64:
        """Return the samples of a local update of every node, shape (n_nodes,).

        Parameters
        ----------
        samples : ndarray of int64
            Samples of each user's data.
        n_nodes : int
        """
        found = np.zeros(n_nodes, np.int64)
        found[: len(samples)] = samples
        return found

    def samples_per_epoch(self, mean: float, n_users: int) -> float:
        """Return the mean number of samples of a local epoch, given the mean per user."""
        return mean

    def depends_on_values(self, protocol: Protocol) -> bool:
        """Return whether a protocol chooses peers by the values of models, so that events wait for computing."""
        return protocol.depends_on_values

    def trained_node(self, user: int, n_users: int) -> int:
        """Return the node of which the training changes the recommendations to a user."""
        return user

    def waiting_handles(self, waiting: int) -> int:
        """Return the planner handles that `waiting` models in inboxes need in addition to the store's rows."""
        return 0


def require_kernels(missing: str | None) -> None:
    """Refuse a portable run that needs a feature without compiled kernels.

    Raises
    ------
    ScenarioError
        If `missing` names such a feature.
    """
    if missing is not None:
        raise ScenarioError(
            f"executor.portable: found true, but there are no compiled kernels for {missing}, and the last "
            "digits of torch's results depend on the processor; remove executor.portable"
        )


MODES: Registry[type[RunMode]] = Registry("run mode", __name__)


def choose_mode(protocol: Protocol) -> RunMode:
    """Return the mode of a run under a protocol."""
    return MODES[protocol.mode_of(protocol.options)]()
