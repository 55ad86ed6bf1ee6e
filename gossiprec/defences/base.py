"""The base class of defences, as the emulator uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gossiprec.base.arrays import F64, I64
from gossiprec.base.options import Options
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.messages import Transform
from gossiprec.compute.plan.tape import Behaviour
from gossiprec.models.base import Layout, Model
from gossiprec.old_names import old_members
from gossiprec.rules.aggregators import InboxConfig


@dataclass(frozen=True)
class PrivacySpent:
    """The privacy that nodes have spent, and their noise.

    Attributes
    ----------
    nodes : ndarray of int64, shape (n,)
    epsilon, noise_multiplier : ndarray of float64, shape (n,)
        Infinite and 0 without noise.
    delta : float
    epsilon_per_coordinate : float or None
        Epsilon of a single number of a message, if a node's epsilon is the sum over all numbers that it has sent.
    """

    nodes: I64
    epsilon: F64
    noise_multiplier: F64
    delta: float
    epsilon_per_coordinate: float | None = None


@old_members(spent="privacy_spent", spent_by_coordinates="privacy_spent_by_coordinate")
class Policy:
    """A defence that some of the nodes use.

    Parameters
    ----------
    options : Options
        Options of the class's own type.
    nodes : ndarray of int64
        The nodes that use it, ascending; never a coordinator.
    """

    Options: ClassVar[type[Options]]

    modules: ClassVar[tuple[str, ...]] = ()
    """Modules that are imported late; a run and its dry run import them first, to fail early."""

    def __init__(self, options: Any, nodes: I64) -> None:
        self.options = options
        self.nodes = nodes

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse a model, or a layout of the protocol, to which the policy cannot be applied.

        Raises
        ------
        ScenarioError
        """

    def check_behaviour(self, behaviour: Behaviour) -> None:
        """Refuse a protocol in which nodes behave in a way to which the policy cannot be applied.

        Raises
        ------
        ScenarioError
        """

    def check_receivers(self, most: int | None) -> None:
        """Refuse a protocol by the largest number of messages that a node sends at once; None if it is not known.

        Raises
        ------
        ScenarioError
        """

    def inbox(self) -> InboxConfig | None:
        """Return the rule by which its nodes aggregate what they receive; None if the protocol decides."""
        return None

    def transform(self) -> Transform | None:
        """Return the transform of its nodes' messages, or None if they are sent unchanged."""
        return None

    def configure(
        self, node_settings: NodeSettings, *, training: TrainingSettings, updates: I64 | None
    ) -> None:
        """Write the policy's settings of its nodes' training.

        Parameters
        ----------
        node_settings : NodeSettings
            The settings, as earlier policies of the scenario have left them.
        training : TrainingSettings
        updates : ndarray of int64, shape (n_nodes,), or None
            Number of local updates that each node will run; None if it depends on the models' values.
        """

    def privacy_spent(self, updates: I64, pushes: I64) -> PrivacySpent | None:
        """Return the privacy that the policy's nodes have spent so far; None if it is not accounted.

        Parameters
        ----------
        updates, pushes : ndarray of int64, shape (n_nodes,)
            Number of local updates of each node, and of its pushes if a policy rewrites them.
        """
        return None

    def privacy_spent_by_coordinate(self, coordinates: I64) -> PrivacySpent | None:
        """Return the privacy spent so far if it is accounted number by number; None if it is not.

        Parameters
        ----------
        coordinates : ndarray of int64, shape (n_nodes,)
            Number of values that policies rewrote in all messages of each node so far; copies of a message count
            once.
        """
        return None
