"""Accounting of repeated Gaussian noise by Renyi differential privacy: ``dp_accounting`` with Opacus' orders.

The batches of a local epoch are disjoint, so a sample enters one noisy step of it: an epoch is one Gaussian mechanism
that sees every sample (sampling rate 1), and T epochs with noise multiplier sigma spend as much as one epoch with
``sigma / sqrt(T)``: the Renyi divergence of order a is ``a T / (2 sigma^2)``.

References
----------
I. Mironov, "Renyi differential privacy", CSF 2017, propositions 1 (composition) and 7 (the divergence); C. Canonne,
G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, proposition 12 (conversion).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64

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
