"""A shard's place in a run."""

from __future__ import annotations

from collections.abc import Callable

from gossiprec.arrays import I64
from gossiprec.compute.shards.channel import Channel
from gossiprec.compute.shards.node_partition import NodePartition
from gossiprec.compute.shards.row_routing import RowRouter


def _nothing(nodes: I64) -> None:
    pass


class ShardContext:
    """Where a process sits in a run that is divided: known before the run is set up, and filled when it is.

    Parameters
    ----------
    number : int
        Of the shard.
    n : int
        Shards in all.
    exchange : Exchange

    Attributes
    ----------
    parts : Parts
        Set by :meth:`take`, as are the
    routes : Routes
    bring : callable
        Has what some nodes have for themselves written into the store, where this shard leads.
    """

    def __init__(self, number: int, n: int, exchange: Channel) -> None:
        self.number, self.n, self.exchange = number, n, exchange
        self.parts: NodePartition
        self.routes: RowRouter
        self.bring: Callable[[I64], None] = _nothing

    def take(self, of: I64, *, keeps_first: bool) -> None:
        """Learn which shard owns each node."""
        self.parts = NodePartition(of, self.n, self.number)
        self.routes = RowRouter(self.parts, keeps_first=keeps_first)
