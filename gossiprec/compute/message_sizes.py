"""The size of every message, of which each of several things may decide: the model, a transform, training, a scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from gossiprec.base.arrays import I32, I64
from gossiprec.compute.messages import BYTES
from gossiprec.compute.plan.tape import TapeEvent, TapeSegment
from gossiprec.runs.checkpoint_state import Stateful

SizesByPush = dict[tuple[int, int], int]
"""A number for each push or update, by (node, number of the push or update)."""


class SetsSizes(Protocol):
    """What decides the sizes of some messages before they are sent."""

    def set_sizes(self, sizes: I32, segment: TapeSegment) -> None:
        """Set the bytes of those of a segment's messages of which it decides the size."""


class MessageSizes(Stateful):
    """Sizes of messages, in the order in which they are sent.

    Later ones win: the sizes of blocks, of trained updates, of schemes of messages, of resized messages, and of
    messages without a model.

    Parameters
    ----------
    message_bytes, extra_bytes : ndarray of int64, shape (n_nodes,)
        Size of each node's messages, if nothing changes it, and the bytes of it that are not numbers of a model.
    control_bytes : sequence of int
        Sizes of the protocol's messages without a model, by kind.
    updates : dict or None
        Sizes of updates that nodes have trained (:attr:`.Executor.update_bytes`), or None if they send versions.
    schemes : sequence of SetsSizes

    Attributes
    ----------
    rewritten : dict of (int, int) to int
        If clients send updates, the number of rewritten numbers of each push.
    resized : dict of int to int
        Bytes of each message of a sender of which transforms resize messages.

    Notes
    -----
    Entries of these three mappings are removed once they are logged.
    """

    checkpointed = ("n_trained", "coordinates")

    def __init__(
        self,
        message_bytes: I64,
        extra_bytes: I64,
        control_bytes: Sequence[int],
        updates: SizesByPush | None,
        schemes: Sequence[SetsSizes] = (),
    ) -> None:
        self._message_bytes, self.extra_bytes, self._schemes = message_bytes, extra_bytes, schemes
        self._control_bytes = np.array([0, *control_bytes], np.int32)
        self.updates, self.rewritten, self.resized = updates, SizesByPush(), dict[int, int]()
        self._n_trained = np.zeros(len(message_bytes), np.int64)
        self._coordinates = np.zeros(len(message_bytes), np.int64)

    def sizes_of_messages(self, segment: TapeSegment) -> I32:
        """Return the sizes of the messages sent in a tape segment that was carried out."""
        sizes = self._message_bytes[segment.node]
        if self.updates is not None:
            self._take_updates(segment, sizes, self.updates)
        found = np.repeat(sizes, segment.count).astype(np.int32)
        for scheme in self._schemes:
            scheme.set_sizes(found, segment)
        if self.resized:
            messages = np.array(list(self.resized), np.int64)
            found[messages - segment.first_message] = list(self.resized.values())
            self.resized.clear()
        if len(segment.control):
            found = np.where(segment.control > 0, self._control_bytes[segment.control], found)
        return found

    def _take_updates(self, segment: TapeSegment, sizes: I64, updates: SizesByPush) -> None:
        """Set the sizes of the answers among some events."""
        answers = (segment.kind == TapeEvent.DELIVER) & (segment.node < len(self._message_bytes) - 1)
        first = segment.first_message + np.cumsum(segment.count) - segment.count
        for event in np.flatnonzero(answers).tolist():
            node = int(segment.node[event])
            which = node, int(self._n_trained[node])
            # the size of a resized message is set later
            if which in updates or int(first[event]) not in self.resized:
                sizes[event] = updates.pop(which) + self.extra_bytes[node]
            self._coordinates[node] += self.rewritten.pop(which, 0)
            self._n_trained[node] += 1

    def count_rewritten_values(self, pushes: I64) -> I64:
        """Return the values that policies rewrote in all messages of each node so far; copies count once.

        Parameters
        ----------
        pushes : ndarray of int64, shape (n_nodes,)
            The number of rewritten pushes of whole models; the values in updates are counted one by one.
        """
        if self.updates is not None:
            return self._coordinates
        return np.asarray(pushes * ((self._message_bytes - self.extra_bytes) // BYTES))

    def take_new(self) -> dict[str, I64]:
        """Return the notes of this process since the last call, for the process that writes the log."""
        rows = {name: [(*push, size) for push, size in own.items()] for name, own in self._by_push.items()}
        rows["resized"] = [(message, 0, size) for message, size in self.resized.items()]
        self.resized.clear()
        for own in self._by_push.values():
            own.clear()
        return {name: np.array(entries, np.int64).reshape(-1, 3) for name, entries in rows.items()}

    def add(self, sizes: Mapping[str, I64]) -> None:
        """Add what :meth:`take_new` returned in another process."""
        for name, known in self._by_push.items():
            known |= {(node, number): size for node, number, size in sizes[name].tolist()}
        self.resized.update((message, size) for message, _, size in sizes["resized"].tolist())

    @property
    def _by_push(self) -> dict[str, SizesByPush]:
        return {"updates": self.updates if self.updates is not None else {}, "rewritten": self.rewritten}
