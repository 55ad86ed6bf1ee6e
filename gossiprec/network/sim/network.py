"""The network, message by message: whether a message arrives, after what latency, or why it is lost.

The fate of a message is a pure function of its sender, its number among the sender's messages, its receiver and the
time at which it leaves. :meth:`Network.message_delay` computes it for the sender's next message,
:meth:`Network.message_delays` for a batch; they agree. If messages share bandwidth,
:mod:`gossiprec.network.sim.fair_share` comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.rng import NodeStreams, purpose_id, uniforms
from gossiprec.network.sim.clock import Constant, Distribution

LATENCY = purpose_id("latency")
NODE_LATENCY = purpose_id("latency-of-node")
PAIR_LATENCY = purpose_id("latency-of-pair")


class Latency:
    """Latencies that follow a distribution.

    Parameters
    ----------
    distribution : Distribution
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
        distribution: Distribution,
        *,
        per: Literal["message", "node", "pair"] = "message",
        n_nodes: int,
        seed: int,
    ) -> None:
        self._distribution = distribution
        self._per = per
        self._seed = seed
        self.n_nodes = n_nodes
        self._rows: dict[int, list[float]] = {}
        self.by_pair = per == "pair" and not isinstance(distribution, Constant)
        self.certain = isinstance(distribution, Constant) or self.by_pair
        self.constant = (
            distribution.value if isinstance(distribution, Constant) else 0.0 if self.by_pair else math.nan
        )
        self.length = distribution.length if per == "message" else None

    def draw(self, number: I64, sender: npt.NDArray[Any]) -> F64:
        """Return the part of the latencies that does not depend on the receiver."""
        if self.certain:
            return np.full(np.broadcast_shapes(number.shape, sender.shape), self.constant)
        if self._per == "node":
            return self._distribution.draw(self._seed, np.zeros_like(number), sender, NODE_LATENCY)
        return self._distribution.draw(self._seed, number, sender, LATENCY)

    def between(self, sender: int, receiver: int) -> float:
        """Return the latency from one node to another."""
        if sender not in self._rows:
            receivers = np.arange(self.n_nodes)
            self._rows[sender] = self.between_all(np.full(self.n_nodes, sender), receivers).tolist()
        return self._rows[sender][receiver]

    def between_all(self, sender: npt.NDArray[Any], receiver: npt.NDArray[Any]) -> F64:
        """Return the latencies of pairs of nodes."""
        return self._distribution.draw(self._seed, receiver, sender, PAIR_LATENCY)


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
        return np.asarray(self._matrix[sender, receiver])


class SiteLatency(MatrixLatency):
    """A latency for each ordered pair of sites, at which the nodes are.

    Parameters
    ----------
    matrix : ndarray of float64, shape (n_sites, n_sites)
        Rows are the senders' sites. The diagonal is the latency within a site.
    site : ndarray of int64, shape (n_nodes,)
        Site of every node.
    """

    def __init__(self, matrix: F64, site: I64) -> None:
        super().__init__(matrix)
        self.n_nodes = len(site)
        self._site = site
        self._sites: list[int] = site.tolist()

    def between(self, sender: int, receiver: int) -> float:
        """Return the latency from one node to another."""
        site = self._sites[sender]
        if site not in self._rows:
            self._rows[site] = self._matrix[site].tolist()
        return self._rows[site][self._sites[receiver]]

    def between_all(self, sender: npt.NDArray[Any], receiver: npt.NDArray[Any]) -> F64:
        """Return the latencies of pairs of nodes, from those of their sites."""
        return np.asarray(self._matrix[self._site[sender], self._site[receiver]])


LOSS, RECEIVER_OFFLINE, SENDER_OFFLINE, RUN_ENDED, PARTITION = range(5)
"""Causes of a drop: indices into :data:`gossiprec.runs.schema.DROP_CAUSES`."""

ARRIVED = -1
"""The message was delivered."""

WAITS = -2
"""The message waits for its receiver to come back online."""

OFFLINE, BUSY = range(2)
"""Causes of a missed wake: indices into :data:`gossiprec.runs.schema.MISS_CAUSES`."""


LOST = purpose_id("loss")
COPIED = purpose_id("duplication")
HELD_BACK = purpose_id("reordering")

HUB_WIDTH = 1024
"""Number of draws per block for a coordinator."""


@dataclass(frozen=True)
class Partition:
    """A window of time in which groups of nodes cannot reach one another.

    Attributes
    ----------
    begin, end : float
        The window includes its beginning and excludes its end.
    group : ndarray of int64, shape (n_nodes,)
    """

    begin: float
    end: float
    group: I64


def loss_marker(cause: int) -> float:
    """Return the delay that encodes a loss."""
    return -1.0 - cause


class Network:
    """Losses, copies and delays of messages.

    Parameters
    ----------
    latency : Latency
        Latencies of messages between the nodes of the network.
    loss : float
        Probability that a message is lost.
    duplication : float
        Probability that a message arrives twice.
    reordering : (float, float)
        Share of the messages that are held back, and their extra delay.
    partitions : sequence of Partition
    hub : bool
        Whether the last node sends many more messages than the others, like a coordinator; affects only speed.
    seed : int

    Attributes
    ----------
    copies : bool
        Whether messages can arrive twice.
    instant : bool
        Whether every message arrives at the time at which it is sent.
    """

    def __init__(
        self,
        latency: Latency,
        *,
        loss: float = 0.0,
        duplication: float = 0.0,
        reordering: tuple[float, float] = (0.0, 0.0),
        partitions: Sequence[Partition] = (),
        hub: bool = False,
        seed: int,
    ) -> None:
        n_nodes = latency.n_nodes
        self._nodes = np.arange(n_nodes)[:, None]
        self._latency = latency
        self._loss = loss
        self._duplication = duplication
        self._held_share, self._held_delay = reordering
        self._partitions = partitions
        self._seed = seed
        self.copies = duplication > 0.0
        self._certain = latency.certain and loss == 0.0 and self._held_share == 0.0
        plain = self._certain and not latency.by_pair and not len(partitions)
        self.instant = plain and latency.constant == 0.0 and duplication == 0.0
        self._sent = np.zeros(n_nodes, np.int64)
        self._hub = n_nodes - 1 if hub else -1
        self._streams = NodeStreams(n_nodes, self._next_delays)
        self._of_hub = NodeStreams(1, self._delays_of_hub, width=HUB_WIDTH)
        self._twice = NodeStreams(n_nodes, self._doubled)

    def message_delay(self, sender: int, receiver: int, leave: float) -> float:
        """Return the delay of the sender's next message; ``loss_marker(cause)`` if it is lost."""
        if self._certain:
            delay = self._latency.constant
        else:
            delay = self._of_hub.next_draw(0) if sender == self._hub else self._streams.next_draw(sender)
        for window in self._partitions:
            if window.begin <= leave < window.end and window.group[sender] != window.group[receiver]:
                return loss_marker(PARTITION)
        if self._latency.by_pair and delay >= 0.0:
            delay += self._latency.between(sender, receiver)
        return float(delay)

    def message_delays(self, sender: npt.NDArray[Any], receiver: npt.NDArray[Any], leave: F64) -> F64:
        """Return the delays of a batch of messages, in the order in which they are sent."""
        number = self._numbers(sender)
        delay = self._delays(number, sender)
        if self._latency.by_pair:
            delay = np.where(delay >= 0.0, delay + self._latency.between_all(sender, receiver), delay)
        for window in self._partitions:
            apart = window.group[sender] != window.group[receiver]
            delay[apart & (window.begin <= leave) & (leave < window.end)] = loss_marker(PARTITION)
        return delay

    def with_copies(self, sender: int, receivers: Sequence[int]) -> Sequence[int]:
        """Return the receivers, with one more entry for each copy of a message."""
        return [*receivers, *[receiver for receiver in receivers if self._twice.next_draw(sender)]]

    def _numbers(self, sender: npt.NDArray[Any]) -> I64:
        """Return the number of each message of a batch among its sender's messages, and count them."""
        counts = np.bincount(sender, minlength=len(self._nodes))
        order = np.argsort(sender, kind="stable")
        number = np.empty(len(sender), np.int64)
        number[order] = np.arange(len(sender)) - np.repeat(np.cumsum(counts) - counts, counts)
        number += self._sent[sender]
        self._sent += counts
        return number

    def _next_delays(self, first: int, count: int) -> F64:
        return self._delays(np.arange(first, first + count), self._nodes)

    def _delays(self, number: I64, sender: npt.NDArray[Any]) -> F64:
        """Return the delays of messages by number and sender, without the parts that depend on the receiver."""
        delays = self._latency.draw(number, sender)
        if self._held_share > 0.0:
            held = uniforms(self._seed, number, sender, HELD_BACK) < self._held_share
            delays = delays + self._held_delay * held
        if self._loss > 0.0:
            delays[uniforms(self._seed, number, sender, LOST) < self._loss] = loss_marker(LOSS)
        return delays

    def _delays_of_hub(self, first: int, count: int) -> F64:
        return self._delays(np.arange(first, first + count), np.array([[self._hub]]))

    def _doubled(self, first: int, count: int) -> Bools:
        return uniforms(self._seed, np.arange(first, first + count), self._nodes, COPIED) < self._duplication
