"""A shard's place in a run."""

from __future__ import annotations

from collections.abc import Callable

from gossiprec.base.arrays import I64
from gossiprec.compute.shards.channel import Channel
from gossiprec.compute.shards.node_partition import NodePartition
from gossiprec.compute.shards.row_routing import RowRouter


def _nothing(nodes: I64) -> None:
    pass


class ShardContext:
    """The place of a process in a divided run; its partition and routes are set when the run is set up.

    Parameters
    ----------
    number : int
        Number of the shard.
    n : int
        Number of shards.
    exchange : Channel

    Attributes
    ----------
    parts : NodePartition
        Set by :meth:`take`.
    routes : RowRouter
    bring : callable
        Function that writes the own parts of some nodes into the store, if this shard leads.
    """

    def __init__(self, number: int, n: int, exchange: Channel) -> None:
        self.number, self.n, self.exchange = number, n, exchange
        self.parts: NodePartition
        self.routes: RowRouter
        self.bring: Callable[[I64], None] = _nothing

    def take(self, of: I64, *, keeps_first: bool) -> None:
        """Set the shard that owns each node."""
        self.parts = NodePartition(of, self.n, self.number)
        self.routes = RowRouter(self.parts, keeps_first=keeps_first)
