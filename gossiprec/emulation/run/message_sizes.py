"""The size of every message: the same for all of a node's, unless it answers with updates."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import I32, I64
from gossiprec.compute.plan.tape import Event, Segment


class MessageSizes:
    """Sizes of messages, in the order in which they are sent.

    Parameters
    ----------
    message_bytes : ndarray of int64, shape (n_nodes,)
        Size of what each node sends.
    trained : dict, optional
        Where nodes answer with updates: the size of each, by (node, number of its update); taken out when it is logged.
    extra : ndarray of int64, shape (n_nodes,), optional
        What each node's messages hold besides an update.
    """

    def __init__(
        self, message_bytes: I64, trained: dict[tuple[int, int], int] | None = None, extra: I64 | None = None
    ) -> None:
        self._message_bytes = message_bytes
        self._extra = np.zeros_like(message_bytes) if extra is None else extra
        self._trained = trained
        self._n_trained = np.zeros(len(message_bytes), np.int64)

    def of(self, segment: Segment) -> I32:
        """Return the sizes of the messages sent in a stretch of tape that was carried out."""
        sizes = self._message_bytes[segment.node]
        if self._trained is not None:
            answers = (segment.kind == Event.DELIVER) & (segment.node < len(self._message_bytes) - 1)
            for event in np.flatnonzero(answers).tolist():
                node = int(segment.node[event])
                sizes[event] = self._trained.pop((node, int(self._n_trained[node]))) + self._extra[node]
                self._n_trained[node] += 1
        return np.repeat(sizes, segment.count).astype(np.int32)

    def state(self) -> I64:
        """Return how many updates of each node were logged, for a checkpoint."""
        return self._n_trained

    def restore(self, state: I64) -> None:
        """Take over what :meth:`state` gave."""
        self._n_trained[...] = state
