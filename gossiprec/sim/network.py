"""The network: how long a message takes, and whether it arrives."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from gossiprec.rng import NodeStreams, exponentials, purpose_id, uniforms

LATENCY = purpose_id("latency")
LOSS = purpose_id("loss")


class Network:
    """Latency and loss, drawn per sender and message.

    Parameters
    ----------
    n_nodes : int
    law : {'constant', 'exponential'}
        Law of the latency.
    latency : float
        Its value or mean, in virtual time.
    loss : float
        Probability that a message is lost.
    seed : int
    """

    def __init__(
        self, n_nodes: int, *, law: Literal["constant", "exponential"], latency: float, loss: float, seed: int
    ) -> None:
        self.instant = law == "constant" and latency == 0.0 and loss == 0.0
        self._nodes = np.arange(n_nodes)[:, None]
        self._law = law
        self._latency = latency
        self._loss = loss
        self._seed = seed
        self._streams = NodeStreams(n_nodes, self._delays)
        self._certain = law == "constant" and loss == 0.0

    def delay(self, sender: int) -> float | None:
        """Return the latency of the sender's next message, or None if it is lost."""
        if self._certain:
            return self._latency
        delay: float = self._streams.take(sender)
        return None if delay < 0.0 else delay

    def _delays(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """Return the latencies of messages first .. first + count - 1 of every sender; -1: lost."""
        counter = np.arange(first, first + count)
        delays = np.full((len(self._nodes), count), self._latency)
        if self._law == "exponential":
            delays *= exponentials(self._seed, counter, self._nodes, LATENCY)
        if self._loss > 0.0:
            delays[uniforms(self._seed, counter, self._nodes, LOSS) < self._loss] = -1.0
        return delays
