"""The size of every message and its number of values: equal for all messages of a node, except updates."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import I32, I64
from gossiprec.compute.messages import BYTES
from gossiprec.compute.plan.tape import TapeEvent, TapeSegment
from gossiprec.runs.checkpoint_state import Stateful


class MessageSizes(Stateful):
    """Sizes of messages, in the order in which they are sent.

    Parameters
    ----------
    message_bytes : ndarray of int64, shape (n_nodes,)
        Size of each node's messages.
    trained : dict, optional
        The size of each update by (node, number of its update), if nodes send updates; removed when it is logged.
    extra : ndarray of int64, shape (n_nodes,), optional
        Bytes of each node's messages in addition to an update.
    encoded : dict, optional
        The count of values that each push rewrote, by (node, number of its push), if policies rewrite updates.
    """

    changing = ("n_trained", "coordinates")

    def __init__(
        self,
        message_bytes: I64,
        trained: dict[tuple[int, int], int] | None = None,
        extra: I64 | None = None,
        encoded: dict[tuple[int, int], int] | None = None,
    ) -> None:
        self._message_bytes = message_bytes
        self._extra = np.zeros_like(message_bytes) if extra is None else extra
        self._trained = trained
        self._encoded = {} if encoded is None else encoded
        self._n_trained = np.zeros(len(message_bytes), np.int64)
        self._coordinates = np.zeros(len(message_bytes), np.int64)

    def of(self, segment: TapeSegment) -> I32:
        """Return the sizes of the messages sent in a tape segment that was carried out."""
        sizes = self._message_bytes[segment.node]
        if self._trained is not None:
            answers = (segment.kind == TapeEvent.DELIVER) & (segment.node < len(self._message_bytes) - 1)
            for event in np.flatnonzero(answers).tolist():
                node = int(segment.node[event])
                which = node, int(self._n_trained[node])
                sizes[event] = self._trained.pop(which) + self._extra[node]
                self._coordinates[node] += self._encoded.pop(which, 0)
                self._n_trained[node] += 1
        return np.repeat(sizes, segment.count).astype(np.int32)

    def coordinates(self, pushes: I64) -> I64:
        """Return the values that policies rewrote in all messages of each node so far; copies count once.

        Parameters
        ----------
        pushes : ndarray of int64, shape (n_nodes,)
            The number of rewritten pushes of whole models; the values in updates are counted one by one.
        """
        if self._trained is not None:
            return self._coordinates
        return np.asarray(pushes * ((self._message_bytes - self._extra) // BYTES))
