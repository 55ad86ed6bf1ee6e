"""Distributions of random times: delays, sessions, computation.

A distribution has no state: ``draw(seed, counter, node, purpose)`` is a pure function that works on whole arrays.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.rng import IntLike, exponentials, normals, uniforms


class Distribution(ABC):
    """A distribution of non-negative times."""

    length: int | None = None
    """Number of draws after which a node has no more; None if there is no limit."""

    @abstractmethod
    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return one time for each element of the broadcast arguments."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Expected time."""

    @abstractmethod
    def length_biased_quantiles(self, level: F64) -> F64:
        """Return quantiles of the time in progress, which is sampled in proportion to its length."""


@dataclass(frozen=True)
class Constant(Distribution):
    """A constant time."""

    value: float

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return the value."""
        return np.full(np.broadcast_shapes(np.shape(counter), np.shape(node)), self.value)

    @property
    def mean(self) -> float:
        """The value."""
        return self.value

    def length_biased_quantiles(self, level: F64) -> F64:
        """Return the value."""
        return np.full_like(level, self.value)


@dataclass(frozen=True)
class Uniform(Distribution):
    """The uniform distribution between two bounds."""

    low: float
    high: float

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return times between the bounds."""
        return self.low + (self.high - self.low) * uniforms(seed, counter, node, purpose)

    @property
    def mean(self) -> float:
        """Midpoint of the bounds."""
        return (self.low + self.high) / 2.0

    def length_biased_quantiles(self, level: F64) -> F64:
        """Return quantiles of a density that is proportional to the time."""
        return np.asarray(np.sqrt(self.low**2 + level * (self.high**2 - self.low**2)))


@dataclass(frozen=True)
class Weibull(Distribution):
    """``P(T > t) = exp(-(t / scale)^shape)``; a shape below 1 gives many short and a few very long times."""

    scale: float
    shape: float

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return Weibull times."""
        return self.scale * exponentials(seed, counter, node, purpose) ** (1.0 / self.shape)

    @property
    def mean(self) -> float:
        """``scale * Gamma(1 + 1 / shape)``."""
        return self.scale * math.gamma(1.0 + 1.0 / self.shape)

    def length_biased_quantiles(self, level: F64) -> F64:
        """Return quantiles: ``(T / scale)^shape`` has the gamma distribution of order ``1 + 1 / shape``."""
        from scipy.special import gammaincinv

        return np.asarray(self.scale * gammaincinv(1.0 + 1.0 / self.shape, level) ** (1.0 / self.shape))


@dataclass(frozen=True)
class Exponential(Weibull):
    """The exponential distribution, which has no memory: the Weibull distribution of shape 1."""

    shape: float = 1.0


@dataclass(frozen=True)
class Lognormal(Distribution):
    """The distribution of times with normal logarithms: mean ``log(median)``, standard deviation `sigma`."""

    median: float
    sigma: float

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return lognormal times."""
        return self.median * np.exp(self.sigma * normals(seed, counter, node, purpose))

    @property
    def mean(self) -> float:
        """``median * exp(sigma^2 / 2)``."""
        return self.median * math.exp(self.sigma**2 / 2.0)

    def length_biased_quantiles(self, level: F64) -> F64:
        """Return quantiles: the mean of the logarithm is larger by ``sigma^2``."""
        from scipy.special import ndtri

        return np.asarray(self.median * np.exp(self.sigma**2 + self.sigma * ndtri(level)))


class Empirical(Distribution):
    """Measured times: drawn with replacement, or taken one after the other.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    order : {'random', 'sequence'}
        `sequence`: draw number k of a node is value number k.
    end : {'repeat', 'hold', 'refuse'}
        What follows the last value of a sequence: the first one, or the last one forever. A distribution that refuses
        has a `length`; its user counts the draws.
    """

    def __init__(
        self,
        values: F64,
        *,
        order: Literal["random", "sequence"] = "random",
        end: Literal["repeat", "hold", "refuse"] = "repeat",
    ) -> None:
        self.values = values
        self._order = order
        self._end = end
        self.length = len(values) if order == "sequence" and end == "refuse" else None

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return measured times."""
        n = len(self.values)
        if self._order == "random":
            return self.values[(uniforms(seed, counter, node, purpose) * n).astype(np.int64)]
        counter, _ = np.broadcast_arrays(counter, node)
        return self.values[counter % n if self._end == "repeat" else np.minimum(counter, n - 1)]

    @property
    def mean(self) -> float:
        """Mean of the measured times."""
        return float(self.values.mean())

    def length_biased_quantiles(self, level: F64) -> F64:
        """Return measured times with frequencies proportional to their lengths."""
        ordered = np.sort(self.values)
        share = np.cumsum(ordered) / ordered.sum()
        return ordered[np.minimum(np.searchsorted(share, level), len(ordered) - 1)]
