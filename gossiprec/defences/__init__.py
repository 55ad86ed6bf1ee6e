"""Defences of nodes: one file per policy; and the accounting of spent privacy.

Repeated Gaussian noise is accounted by Renyi differential privacy: ``dp_accounting`` with Opacus' orders. The batches
of a local epoch are disjoint, so a sample enters one noisy step of it: an epoch is one Gaussian mechanism that sees
every sample (sampling rate 1), and T epochs with noise multiplier sigma spend as much as one epoch with ``sigma /
sqrt(T)``: the Renyi divergence of order a is ``a T / (2 sigma^2)``.

References
----------
I. Mironov, "Renyi differential privacy", CSF 2017, propositions 1 (composition) and 7 (the divergence); C. Canonne,
G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, proposition 12 (conversion).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.base.options import Options
from gossiprec.base.registry import Registry
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.messages import Transform
from gossiprec.compute.plan.tape import Behaviour
from gossiprec.models.base import Layout, Model
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
    needs_all_nodes: ClassVar[bool] = False
    """Whether all users' nodes must use the policy, or none."""
    scheme: ClassVar[str | None] = None
    """Name of the scheme of messages that its nodes follow, if they learn other things than single models."""

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


POLICIES: Registry[type[Policy]] = Registry("policy", __name__, group="policies")


ORDERS = (*(1 + k / 10 for k in range(1, 100)), *range(12, 64))
"""Orders of the divergence, as in Opacus' ``RDPAccountant``."""

UNBOUNDED = 2**40
"""More local epochs than any run has."""
_PRECISION = 1e-9
"""Relative precision of a calibrated noise multiplier."""


def compute_epsilon(noise_multiplier: float, epochs: int, delta: float) -> float:
    """Return epsilon after this number of local epochs, as ``dp_accounting`` computes it; infinite if it cannot."""
    if epochs == 0:
        return 0.0
    return float(_accountant().compose(_gaussian(noise_multiplier), epochs).get_epsilon(delta))


def sampled_mean_epsilon(
    noise_multiplier: float, rounds: int, delta: float, *, others: int, sample: int
) -> float:
    """Return the epsilon of a user in means of secret samples, towards a user that may be in them itself.

    Parameters
    ----------
    noise_multiplier : float
        Of the noisy update of each user.
    rounds : int
        Independent uniform samples without replacement.
    delta : float
    others : int
        Users without the observer.
    sample : int
        Users of a sample, at least two; the observer knows the noise of one of them.

    Notes
    -----
    In the proof a user is replaced by another one, which moves a sum by up to twice the change of leaving one out.

    References
    ----------
    Y.-X. Wang, B. Balle, S. Kasiviswanathan, "Subsampled Renyi differential privacy and analytical moments accountant",
    AISTATS 2019, theorem 9.
    """
    from dp_accounting import NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    if rounds == 0:
        return 0.0
    whole = [order for order in ORDERS if order == int(order)]
    accountant = RdpAccountant(whole, NeighboringRelation.REPLACE_ONE)
    base = _gaussian(noise_multiplier * math.sqrt(sample - 1) / 2)
    event = SampledWithoutReplacementDpEvent(others, min(sample, others), base)
    return float(accountant.compose(event, rounds).get_epsilon(delta))


def min_epsilon(delta: float) -> float:
    """Return the epsilon below which the orders cannot prove any bound, however large the noise."""
    orders = np.array(ORDERS)
    return float((np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)).min())


@functools.lru_cache(maxsize=256)
def min_noise_multiplier(epsilon: float, delta: float) -> float:
    """Return the least noise multiplier with which one local epoch does not exceed `epsilon`.

    For T epochs it is ``sqrt(T)`` times this value (see the start of the module).

    Parameters
    ----------
    epsilon : float
        Above :func:`min_epsilon`.
    delta : float
    """
    import dp_accounting
    from dp_accounting import ExplicitBracketInterval

    low, high = 1.0, 1.0
    while compute_epsilon(low, 1, delta) <= epsilon:
        low /= 2
    while compute_epsilon(high, 1, delta) > epsilon:
        high *= 2
    bracket = ExplicitBracketInterval(low, high)
    tolerance = _PRECISION * low
    return float(
        dp_accounting.calibrate_dp_mechanism(_accountant, _gaussian, epsilon, delta, bracket, tol=tolerance)
    )


def max_epochs(noise_multiplier: float, epsilon: float, delta: float) -> int:
    """Return the largest number of local epochs that does not exceed `epsilon`."""
    if compute_epsilon(noise_multiplier, UNBOUNDED, delta) <= epsilon:
        return UNBOUNDED
    epochs = int((noise_multiplier / min_noise_multiplier(epsilon, delta)) ** 2)
    while compute_epsilon(noise_multiplier, epochs + 1, delta) <= epsilon:
        epochs += 1
    while epochs and compute_epsilon(noise_multiplier, epochs, delta) > epsilon:
        epochs -= 1
    return epochs


def compute_epsilons(noise_multiplier: F64, epochs: F64, delta: float) -> F64:
    """Return :func:`compute_epsilon` of many nodes in one call, shape (n_nodes,).

    It is used for the log, because the library takes half a millisecond per call. Tests compare it with the library.
    """
    orders = np.array(ORDERS)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        curve = np.divide(epochs, np.square(noise_multiplier))[:, None] * orders / 2
    found = curve + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    found[delta**2 + np.expm1(-curve) > 0] = 0.0
    return np.where(epochs == 0, 0.0, np.maximum(found.min(axis=1), 0.0))


def _gaussian(noise_multiplier: float) -> Any:
    from dp_accounting import GaussianDpEvent

    return GaussianDpEvent(noise_multiplier)


def _accountant() -> Any:
    from dp_accounting.rdp import RdpAccountant

    return RdpAccountant(list(ORDERS))


def round_up_float32(number: float) -> np.float32:
    """Return the least float32 not below `number`, so that noise is never smaller than accounted."""
    rounded = np.float32(number)
    return rounded if float(rounded) >= number else np.nextafter(rounded, np.float32(math.inf))
