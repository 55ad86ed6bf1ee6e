"""Latency: the time that a message is in transit, drawn by message, by node or by pair of nodes."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I64
from gossiprec.base.rng import purpose_id
from gossiprec.network.sim.distributions import Constant, Distribution

LATENCY = purpose_id("latency")
NODE_LATENCY = purpose_id("latency-of-node")
PAIR_LATENCY = purpose_id("latency-of-pair")


class Latency:
    """Latencies that follow a distribution.

    Parameters
    ----------
    law : Distribution
    per : {'message', 'node', 'pair'}
        Whether to draw for each message, once for each sender, or once for each ordered pair of nodes.
    n_nodes : int
    seed : int

    Attributes
    ----------
    by_pair : bool
        Whether the receiver matters: the value of :meth:`between` is then added to :meth:`draw`, which is 0.
    certain : bool
        Whether :meth:`draw` always returns :attr:`constant`.
    """

    def __init__(
        self,
        law: Distribution,
        *,
        per: Literal["message", "node", "pair"] = "message",
        n_nodes: int,
        seed: int,
    ) -> None:
        self._law = law
        self._per = per
        self._seed = seed
        self._n_nodes = n_nodes
        self._rows: dict[int, list[float]] = {}
        self.by_pair = per == "pair" and not isinstance(law, Constant)
        self.certain = isinstance(law, Constant) or self.by_pair
        self.constant = law.value if isinstance(law, Constant) else 0.0 if self.by_pair else math.nan
        self.length = law.length if per == "message" else None

    def draw(self, number: I64, sender: npt.NDArray[Any]) -> F64:
        """Return the part of the latencies that does not depend on the receiver."""
        if self.certain:
            return np.full(np.broadcast_shapes(number.shape, sender.shape), self.constant)
        if self._per == "node":
            return self._law.draw(self._seed, np.zeros_like(number), sender, NODE_LATENCY)
        return self._law.draw(self._seed, number, sender, LATENCY)

    def between(self, sender: int, receiver: int) -> float:
        """Return the latency from one node to another."""
        if sender not in self._rows:
            receivers = np.arange(self._n_nodes)
            self._rows[sender] = self.between_all(np.full(self._n_nodes, sender), receivers).tolist()
        return self._rows[sender][receiver]

    def between_all(self, sender: npt.NDArray[Any], receiver: npt.NDArray[Any]) -> F64:
        """Return the latencies of pairs of nodes."""
        return self._law.draw(self._seed, receiver, sender, PAIR_LATENCY)


class MatrixLatency(Latency):
    """A latency for each ordered pair of nodes.

    Parameters
    ----------
    matrix : ndarray of float64, shape (n_nodes, n_nodes)
        Rows are senders. The diagonal is never read.
    """

    def __init__(self, matrix: F64) -> None:
        super().__init__(Constant(0.0), n_nodes=len(matrix), seed=0)
        self._matrix = matrix
        self.by_pair = True

    def between_all(self, sender: npt.NDArray[Any], receiver: npt.NDArray[Any]) -> F64:
        """Return the latencies of pairs of nodes, from the matrix."""
        found: F64 = self._matrix[sender, receiver]
        return found
