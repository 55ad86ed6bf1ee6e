"""Which nodes a shard owns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import I64

MOST = 64
"""Shards of a run: who has a row is noted in the bits of one number."""


@dataclass(frozen=True)
class NodePartition:
    """A division of all nodes among shards, as one of the shards sees it.

    Attributes
    ----------
    of : ndarray of int64, shape (n_nodes,)
        The shard that owns each node.
    n : int
        Shards in all, at most :data:`MOST`.
    number : int
        Of this shard. Shard 0 leads: it holds the pools of observers, and writes the run directory.
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
