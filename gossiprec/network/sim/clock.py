"""Times of nodes: distributions, units of times and rates, intervals between wakes, and durations of local updates."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import IntLike, NodeStreams, exponentials, normals, purpose_id, uniforms


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


@dataclass(eq=False)
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

    values: F64
    order: Literal["random", "sequence"] = "random"
    end: Literal["repeat", "hold", "refuse"] = "repeat"

    def __post_init__(self) -> None:
        self.length = len(self.values) if self.order == "sequence" and self.end == "refuse" else None

    def draw(self, seed: int, counter: IntLike, node: IntLike, purpose: int) -> F64:
        """Return measured times."""
        n = len(self.values)
        if self.order == "random":
            return self.values[(uniforms(seed, counter, node, purpose) * n).astype(np.int64)]
        counter, _ = np.broadcast_arrays(counter, node)
        return self.values[counter % n if self.end == "repeat" else np.minimum(counter, n - 1)]

    @property
    def mean(self) -> float:
        """Mean of the measured times."""
        return float(self.values.mean())

    def length_biased_quantiles(self, level: F64) -> F64:
        """Return measured times with frequencies proportional to their lengths."""
        ordered = np.sort(self.values)
        share = np.cumsum(ordered) / ordered.sum()
        return ordered[np.minimum(np.searchsorted(share, level), len(ordered) - 1)]


WAKE = purpose_id("wake")


class WakeClock:
    """Intervals between the wakes of a node.

    Parameters
    ----------
    node_ids : sequence of int
        The nodes that wake, ascending.
    mean : float
        Mean interval, in virtual time.
    distribution : {'exponential', 'constant'}
        Distribution of the intervals.
    redraw : bool
        For the exponential distribution: whether each interval is drawn separately (a Poisson process), or once per
        node (each node keeps its own period).
    seed : int
    """

    def __init__(
        self,
        node_ids: Sequence[int],
        *,
        mean: float,
        distribution: str = "exponential",
        redraw: bool = True,
        seed: int,
    ) -> None:
        self.node_ids = node_ids
        self.mean = mean
        self._distribution = distribution
        self._redraw = redraw
        self._seed = seed
        self._offset = node_ids[0]
        gaps = node_ids[-1] - node_ids[0] != len(node_ids) - 1
        self._places = {node: place for place, node in enumerate(node_ids)} if gaps else None

    @functools.cached_property
    def _streams(self) -> NodeStreams:  # a list per node, which callers that only need sizes do not build
        return NodeStreams(len(self.node_ids), self.intervals)

    def of_first(self, count: int) -> WakeClock:
        """Return the clock of the first `count` nodes only."""
        some, kind = self.node_ids[:count], self._distribution
        return WakeClock(some, mean=self.mean, distribution=kind, redraw=self._redraw, seed=self._seed)

    def intervals(self, first: int, count: int) -> F64:
        """Return the intervals before wakes number first .. first + count - 1, shape (n_wakers, count)."""
        shape = (len(self.node_ids), count)
        if self._distribution == "constant":
            return np.full(shape, self.mean)
        counter = np.arange(first, first + count) if self._redraw else np.zeros(count, np.int64)
        return self.mean * exponentials(self._seed, counter, np.array(self.node_ids)[:, None], WAKE)

    def next_interval(self, node: int) -> float:
        """Return the time from the node's last wake (or from the start) to its next."""
        place = node - self._offset if self._places is None else self._places[node]
        return self._streams.next_draw(place)


COMPUTE = purpose_id("compute")
NODE_COMPUTE = purpose_id("compute-of-node")


class ComputeTime:
    """Durations of local updates.

    Parameters
    ----------
    distribution : Distribution
    per : {'update', 'node'}
        Whether to draw for each update, or once for each node, so that a slow node stays slow.
    scale : ndarray of float64, shape (n_nodes,)
        Factors of the drawn times.
    on_wake : ndarray of bool, shape (n_nodes,)
        Whether each node runs a local update when it wakes.
    on_receive : ndarray of bool, shape (n_nodes,) or (n_nodes, n_slots - 1)
        Whether it does when it receives a message, for each list of operations after the one on waking.
    seed : int

    Attributes
    ----------
    busy_until : list of float
        Time at which each node finishes the updates that it has begun.
    begun : list of int
        Number of local updates that each node has begun.
    """

    def __init__(
        self,
        distribution: Distribution,
        *,
        per: Literal["update", "node"],
        scale: F64,
        on_wake: Bools,
        on_receive: Bools,
        seed: int,
    ) -> None:
        self._distribution = distribution
        self._per = per
        self._scale = scale
        self._seed = seed
        self._on_wake: list[bool] = on_wake.tolist()
        self._on_receive: list[list[bool]] = on_receive.reshape(len(scale), -1).tolist()
        self._streams = NodeStreams(len(scale), self._durations)
        self.busy_until = [0.0] * len(scale)
        self.begun = [0] * len(scale)

    def _durations(self, first: int, count: int) -> F64:
        nodes: npt.NDArray[Any] = np.arange(len(self._scale))[:, None]
        number, purpose = np.arange(first, first + count), COMPUTE
        if self._per == "node":
            number, purpose = np.zeros_like(number), NODE_COMPUTE
        return self._scale[:, None] * self._distribution.draw(self._seed, number, nodes, purpose)

    @property
    def hindered_by_deliveries(self) -> bool:
        """Whether deliveries can keep a node busy."""
        return any(map(any, self._on_receive))

    def finish_of_wake(self, node: int, now: float) -> float:
        """Return the time at which the node finishes the work of this wake."""
        return self._finished(node, now) if self._on_wake[node] else now

    def finish_of_delivery(self, node: int, now: float, slot: int = 1) -> float:
        """Return the time at which the node finishes its work on a delivery, after all work begun before.

        `slot` is the number of its list of operations.
        """
        trains = self._on_receive[node][slot - 1]
        return self._finished(node, max(now, self.busy_until[node])) if trains else now

    def _finished(self, node: int, begin: float) -> float:
        self.begun[node] += 1
        until: float = begin + self._streams.next_draw(node)
        self.busy_until[node] = until
        return until


TimeUnit = Literal["wakes", "ms", "s", "min", "h", "day"]
RateUnit = Literal["B/wake", "B/s", "kB/s", "MB/s", "bit/s", "kbit/s", "Mbit/s"]

SECONDS: Mapping[str, float] = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0}
"""Seconds in each unit of time that is not virtual."""
BYTES_PER_SECOND: Mapping[str, float] = {
    "B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "bit/s": 1 / 8, "kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8,
}  # fmt: skip
"""Bytes per second in each unit of rate that is not virtual; prefixes are powers of ten."""


def needs_seconds(unit: object) -> bool:
    """Return whether a unit is one of seconds, which `seconds_per_wake` links with virtual time."""
    return unit in SECONDS or unit in BYTES_PER_SECOND


def units_per_wake(unit: str, seconds_per_wake: float | None, key: str) -> float:
    """Return the number of units of time in one unit of virtual time; times of a file are divided by it.

    Parameters
    ----------
    unit : TimeUnit
    seconds_per_wake : float or None
        Seconds of one unit of virtual time; None if the scenario does not state it.
    key : str
        Key of the unit in the scenario, for messages.

    Raises
    ------
    ScenarioError
        If the unit is one of seconds and `seconds_per_wake` is None.
    """
    return 1.0 if unit == "wakes" else _required(seconds_per_wake, unit, key) / SECONDS[unit]


def bytes_per_wake(unit: str, seconds_per_wake: float | None, key: str) -> float:
    """Return the bytes per unit of virtual time in one unit of rate; see :func:`units_per_wake`."""
    return 1.0 if unit == "B/wake" else BYTES_PER_SECOND[unit] * _required(seconds_per_wake, unit, key)


def _required(seconds_per_wake: float | None, unit: str, key: str) -> float:
    if seconds_per_wake is None:
        raise ScenarioError(f"{key}: found unit {unit}, but {NO_SECONDS}")
    return seconds_per_wake


NO_SECONDS = (
    "the scenario has no seconds_per_wake; expected the seconds of one mean wake period; write for example "
    "seconds_per_wake: 600 at the top of the scenario"
)
