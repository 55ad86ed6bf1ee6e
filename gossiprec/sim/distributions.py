"""Laws of random times: delays, sessions, computation.

A law draws nothing by itself: ``draw(seed, counter, node, purpose)`` is a pure function that works on whole arrays.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gossiprec.arrays import F64
from gossiprec.rng import IntLike, exponentials, normals, uniforms


class Distribution(ABC):
    """A law of non-negative times."""

    length: int | None = None
    """Draws after which a node has no more; None: never."""

    @abstractmethod
    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return one time for each element of the broadcast arguments."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Expected time."""

    @abstractmethod
    def in_progress(self, level: F64) -> F64:
        """Return quantiles of a time that is found in progress: long times are met more often, by their length."""


@dataclass(frozen=True)
class Constant(Distribution):
    """Always the same time."""

    value: float

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return the value."""
        return np.full(np.broadcast_shapes(np.shape(counter), np.shape(node)), self.value)

    @property
    def mean(self) -> float:
        """The value."""
        return self.value

    def in_progress(self, level: F64) -> F64:
        """Return the value."""
        return np.full_like(level, self.value)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Every time between two ends is as likely."""

    low: float
    high: float

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return times between the ends."""
        return self.low + (self.high - self.low) * uniforms(seed, counter, node, purpose)

    @property
    def mean(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2.0

    def in_progress(self, level: F64) -> F64:
        """Return quantiles of a density that grows with the time."""
        quantiles: F64 = np.sqrt(self.low**2 + level * (self.high**2 - self.low**2))
        return quantiles


@dataclass(frozen=True)
class Weibull(Distribution):
    """``P(T > t) = exp(-(t / scale)^shape)``; a shape below 1 makes many short and a few very long times."""

    scale: float
    shape: float

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return Weibull times."""
        return self.scale * exponentials(seed, counter, node, purpose) ** (1.0 / self.shape)

    @property
    def mean(self) -> float:
        """``scale * Gamma(1 + 1 / shape)``."""
        return self.scale * math.gamma(1.0 + 1.0 / self.shape)

    def in_progress(self, level: F64) -> F64:
        """Return quantiles: ``(T / scale)^shape`` follows the gamma law of order ``1 + 1 / shape``."""
        from scipy.special import gammaincinv

        quantiles: F64 = self.scale * gammaincinv(1.0 + 1.0 / self.shape, level) ** (1.0 / self.shape)
        return quantiles


@dataclass(frozen=True)
class Exponential(Weibull):
    """No memory: the Weibull law of shape 1."""

    shape: float = 1.0


@dataclass(frozen=True)
class Lognormal(Distribution):
    """The logarithm is normal with mean ``log(median)`` and deviation `sigma`."""

    median: float
    sigma: float

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return lognormal times."""
        return self.median * np.exp(self.sigma * normals(seed, counter, node, purpose))

    @property
    def mean(self) -> float:
        """``median * exp(sigma^2 / 2)``."""
        return self.median * math.exp(self.sigma**2 / 2.0)

    def in_progress(self, level: F64) -> F64:
        """Return quantiles: the mean of the logarithm is larger by ``sigma^2``."""
        from scipy.special import ndtri

        quantiles: F64 = self.median * np.exp(self.sigma**2 + self.sigma * ndtri(level))
        return quantiles


class Empirical(Distribution):
    """Measured times: drawn with replacement, or taken one after the other.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    order : {'random', 'sequence'}
        `sequence`: a node's draw number k is value number k.
    end : {'repeat', 'hold', 'refuse'}
        What follows the last value of a sequence: the first, or the last for ever. A law that refuses has a `length`;
        who uses it counts.
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

    def in_progress(self, level: F64) -> F64:
        """Return measured times, each as often as it is long."""
        ordered = np.sort(self.values)
        share = np.cumsum(ordered) / ordered.sum()
        return ordered[np.minimum(np.searchsorted(share, level), len(ordered) - 1)]
