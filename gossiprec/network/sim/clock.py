"""Clocks: the wake times of nodes."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.rng import NodeStreams, exponentials, purpose_id

WAKE = purpose_id("wake")


class WakeClock:
    """Intervals between the wakes of a node.

    Parameters
    ----------
    node_ids : sequence of int
        The nodes that wake.
    mean : float
        Mean interval, in virtual time.
    law : {'exponential', 'constant'}
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
        law: str = "exponential",
        redraw: bool = True,
        seed: int,
    ) -> None:
        self.node_ids = node_ids
        self.mean = mean
        self._law = law
        self._redraw = redraw
        self._seed = seed
        self._offset = node_ids[0]

    @functools.cached_property
    def _streams(self) -> NodeStreams:  # a list per node, which callers that only need sizes do not build
        return NodeStreams(len(self.node_ids), self.intervals)

    def of_first(self, count: int) -> WakeClock:
        """Return the clock of the first `count` nodes only."""
        some = self.node_ids[:count]
        return WakeClock(some, mean=self.mean, law=self._law, redraw=self._redraw, seed=self._seed)

    def intervals(self, first: int, count: int) -> F64:
        """Return the intervals before wakes number first .. first + count - 1, shape (n_wakers, count)."""
        shape = (len(self.node_ids), count)
        if self._law == "constant":
            return np.full(shape, self.mean)
        counter = np.arange(first, first + count) if self._redraw else np.zeros(count, np.int64)
        return self.mean * exponentials(self._seed, counter, np.array(self.node_ids)[:, None], WAKE)

    def next_interval(self, node: int) -> float:
        """Return the time from the node's last wake (or from the start) to its next."""
        interval: float = self._streams.take(node - self._offset)
        return interval
