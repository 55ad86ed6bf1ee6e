"""The division of nodes among shards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import I64

MOST = 64
"""Largest number of shards of a run: the holders of a row are the bits of one 64-bit number."""


@dataclass(frozen=True)
class NodePartition:
    """A division of all nodes among shards, as one of the shards sees it.

    Attributes
    ----------
    of : ndarray of int64, shape (n_nodes,)
        The shard that owns each node.
    n : int
        Number of shards, no more than :data:`MOST`.
    number : int
        Number of this shard. Shard 0 leads: it holds the pools of observers, and writes the run directory.
    """

    of: I64
    n: int
    number: int

    @property
    def own(self) -> I64:
        """The nodes of this shard, ascending."""
        return self.of_shard(self.number)

    def of_shard(self, number: int) -> I64:
        """Return the nodes of a shard, ascending."""
        return np.flatnonzero(self.of == number)

    @property
    def others(self) -> list[int]:
        """The numbers of the other shards."""
        return [number for number in range(self.n) if number != self.number]
