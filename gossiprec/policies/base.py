"""What the emulator needs to know of a defence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gossiprec.aggregators import InboxConfig
from gossiprec.arrays import F64, I64
from gossiprec.compute.messages import Transform
from gossiprec.compute.plan.tape import Behaviour
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.models.base import Layout, Model
from gossiprec.options import Options


@dataclass(frozen=True)
class PrivacySpent:
    """What nodes have spent of their privacy, and with how much noise.

    Attributes
    ----------
    nodes : ndarray of int64, shape (n,)
    epsilon, noise_multiplier : ndarray of float64, shape (n,)
        inf and 0 without noise.
    delta : float
    epsilon_per_coordinate : float or None
        What a single number of a message spends, where a node's epsilon is the sum over all numbers that it has sent.
    """

    nodes: I64
    epsilon: F64
    noise_multiplier: F64
    delta: float
    epsilon_per_coordinate: float | None = None


class Policy:
    """A defence that some nodes use.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    nodes : ndarray of int64
        The nodes that use it, ascending; never a coordinator.
    """

    Options: ClassVar[type[Options]]

    modules: ClassVar[tuple[str, ...]] = ()
    """Modules that it imports late: a run and its dry run import them first, to fail early."""

    def __init__(self, options: Any, nodes: I64) -> None:
        self.options = options
        self.nodes = nodes

    def check(self, model: Model, layout: Layout) -> None:
        """Refuse a model, or a layout that the protocol asks for, to which the policy cannot be applied.

        Raises
        ------
        ScenarioError
        """

    def check_behaviour(self, behaviour: Behaviour) -> None:
        """Refuse a protocol under which some of the nodes do what the policy cannot be applied to.

        Raises
        ------
        ScenarioError
        """

    def inbox(self) -> InboxConfig | None:
        """Return the rule by which its nodes aggregate what they receive; None: as the protocol says."""
        return None

    def transform(self) -> Transform | None:
        """Return what becomes of its nodes' messages; None: they leave as they are."""
        return None

    def configure(
        self, node_settings: NodeSettings, *, training: TrainingSettings, updates: I64 | None
    ) -> None:
        """Write into the settings what the policy does to its nodes' training.

        Parameters
        ----------
        node_settings : NodeSettings
            What earlier policies of the scenario have written.
        training : TrainingSettings
        updates : ndarray of int64, shape (n_nodes,), or None
            Local updates that each node will run; None where that depends on the models' values.
        """

    def spent(self, updates: I64, pushes: I64) -> PrivacySpent | None:
        """Return the privacy spent by the policy's nodes so far; None: it accounts for none.

        Parameters
        ----------
        updates, pushes : ndarray of int64, shape (n_nodes,)
            Local updates of each node, and its pushes if a policy rewrites them.
        """
        return None

    def spent_by_coordinates(self, coordinates: I64) -> PrivacySpent | None:
        """Return the privacy spent by the policy's nodes so far, if it is accounted number by number; None: it is not.

        Parameters
        ----------
        coordinates : ndarray of int64, shape (n_nodes,)
            Numbers that policies rewrote in all messages of each node so far; copies of a message are one.
        """
        return None
