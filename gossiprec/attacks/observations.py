"""What an attack's own nodes have received: all that an attack may see of other nodes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.arrays import F32, F64, I32, I64, Bools
from gossiprec.compute.plan.program import Program
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.ragged import row_entries


@dataclass(frozen=True)
class KnownDeliveries:
    """Deliveries in order of arrival.

    Attributes
    ----------
    message, sender, receiver : ndarray of int32, shape (n_deliveries,)
    time : ndarray of float64, shape (n_deliveries,)
        When it arrived, in mean wake periods.
    n_messages : int
        Message ids are below this.
    complete : bool
        These are all deliveries of the run; else more are announced as they come to be known.
    """

    message: I32
    sender: I32
    receiver: I32
    time: F64
    n_messages: int
    complete: bool = True

    def at(self, nodes: Bools) -> KnownDeliveries:
        """Return the deliveries to some of all nodes."""
        own = nodes[self.receiver]
        if own.all():
            return self
        parts = (self.message[own], self.sender[own], self.receiver[own], self.time[own])
        return KnownDeliveries(*parts, self.n_messages, self.complete)


class MessageIndex:
    """Who sent each message and when it arrived, as far as it is known.

    Attributes
    ----------
    sender : ndarray of int32, shape (n_messages,)
    time : ndarray of float64, shape (n_messages,)
    """

    def __init__(self, n_messages: int) -> None:
        self.sender = np.zeros(n_messages, np.int32)
        self.time = np.zeros(n_messages)

    def learn(self, meetings: KnownDeliveries) -> None:
        """Note some deliveries."""
        self.sender[meetings.message] = meetings.sender
        self.time[meetings.message] = meetings.time


@dataclass(frozen=True)
class MergeDeliveries:
    """Deliveries about to be merged, for compiled loops: entries of a program's merges, task by task.

    Attributes
    ----------
    rows : ndarray of float32 or float16, shape (n_rows, row_size), or what is read like one
        Where updates are sent, models are put together as they are read.
    bases : the same, or None
        At an update's row the version that it was made from; None: whole models are sent.
    uploads : the same, or None
        At an update's row the vector that came with it, NaN if there is none; None: whole models are sent.
    """

    rows: Any
    program: Program
    tasks: I64
    bases: Any = None
    uploads: Any = None


@dataclass(frozen=True)
class GroupDeliveries:
    """Deliveries to groups, for compiled loops: each group sees a version of a message once."""

    rows: F32
    group: I32
    row: I32


class Observations:
    """Deliveries at an attack's own nodes, those at each node in their order of arrival.

    Blocks that a sender keeps back are not there: :meth:`users` and :meth:`models` give NaN for them.

    Parameters
    ----------
    raw : Tasks or Seen
        Where the versions lie, for compiled loops. These must look at delivered versions alone, and not at user rows of
        nodes that hide them: tests overwrite all else.
    layout : Layout
    hides_user : ndarray of bool, shape (n_nodes,)
    messages : ndarray of int32, shape (n,), or None
        Worked out from the tasks if they are not given.
    deliveries : Deliveries
    """

    def __init__(
        self,
        raw: MergeDeliveries | GroupDeliveries,
        layout: Layout,
        hides_user: Bools,
        deliveries: MessageIndex,
        messages: I32 | None = None,
    ) -> None:
        self.raw = raw
        self.layout = layout
        self.deliveries = deliveries
        self._hides = hides_user
        self._messages = messages

    def __len__(self) -> int:
        return len(self.messages)

    @functools.cached_property
    def _entries(self) -> tuple[I64, I64]:
        """Return the merge entries of the tasks one after the other, and the task of each."""
        assert isinstance(self.raw, MergeDeliveries)
        entries, place = row_entries(self.raw.program.merge_offsets, self.raw.tasks)
        return entries, self.raw.tasks[place]

    @functools.cached_property
    def messages(self) -> I32:
        """Message ids, shape (n,)."""
        if self._messages is not None:
            return self._messages
        assert isinstance(self.raw, MergeDeliveries)
        return self.raw.program.merge_message[self._entries[0]]

    @property
    def senders(self) -> I32:
        """Node ids, shape (n,)."""
        return self.deliveries.sender[self.messages]

    @property
    def times(self) -> F64:
        """When each arrived, shape (n,)."""
        return self.deliveries.time[self.messages]

    @property
    def receivers(self) -> I32:
        """Node ids of individual observers, shape (n,)."""
        assert isinstance(self.raw, MergeDeliveries)
        return self.raw.program.node[self._entries[1]]

    @property
    def places(self) -> I64:
        """Number of each delivery among those that its receiver merges together, from 0, shape (n,)."""
        assert isinstance(self.raw, MergeDeliveries)
        entries, tasks = self._entries
        return entries - self.raw.program.merge_offsets[tasks]

    @property
    def keeps(self) -> F32:
        """What the receiver's own version keeps in the merge, shape (n,); 0: it is replaced; -1: not known yet.

        An inbox is merged as a whole after its last delivery, and merges by performance are weighed when they are made,
        unless the attack asks for their weights before (:attr:`gossiprec.attacks.Attack.weighs`).
        """
        assert isinstance(self.raw, MergeDeliveries)
        return self.raw.program.merge_keep[self._entries[0]]

    @property
    def groups(self) -> I32:
        """Numbers of the attack's groups, shape (n,)."""
        assert isinstance(self.raw, GroupDeliveries)
        return self.raw.group

    @property
    def rows(self) -> I32:
        """Where each version lies among ``raw.rows``, shape (n,)."""
        return (
            self.raw.row
            if isinstance(self.raw, GroupDeliveries)
            else self.raw.program.merge_row[self._entries[0]]
        )

    def models(self, some: I64 | slice = slice(None)) -> F32:
        """Return received versions, shape (n, size); NaN where the sender keeps its user row."""
        found = self.raw.rows[self.rows[some], : self.layout.size].astype(np.float32)
        found[self._hides[self.senders[some]], self.layout.users] = np.nan
        found[:, self.layout.private] = np.nan
        return found

    def users(self) -> F32:
        """Return the senders' user rows, shape (n, user_width); NaN where they are kept back."""
        senders = self.senders.astype(np.int64)
        users = self.models()[:, self.layout.users].reshape(
            len(senders), self.layout.n_users, self.layout.user_width
        )
        own = users[np.arange(len(senders)), self.layout.user_index(senders)]
        return np.asarray(own, np.float32)

    def gather(self, items: I32) -> F32:
        """Return the rows of some items, shape (n, n_items, item_width)."""
        width = self.layout.item_width
        columns = self.layout.items.start + items.astype(np.int64)[:, None] * width + np.arange(width)
        return np.asarray(self.raw.rows[self.rows[:, None, None], columns], np.float32)

    def own_model(self, k: int) -> F32:
        """Return the receiver's version before delivery number k was merged, shape (size,), as its task began."""
        assert isinstance(self.raw, MergeDeliveries)
        source = self.raw.program.source[self._entries[1][k]]
        return np.asarray(self.raw.rows[source, : self.layout.size], np.float32)

    def user_uploads(self) -> F32:
        """Return the vectors that clients upload about their users, shape (n, width); NaN if there is none."""
        assert isinstance(self.raw, MergeDeliveries)
        if self.raw.uploads is None:
            return np.zeros((len(self), 0), np.float32)
        return np.asarray(self.raw.uploads[self.rows, :], np.float32)

    def base(self, k: int) -> F32 | None:
        """Return the version that delivery number k is an update of, shape (size,); None: it is a whole model."""
        assert isinstance(self.raw, MergeDeliveries)
        if self.raw.bases is None:
            return None
        return np.asarray(self.raw.bases[self.rows[k], : self.layout.size], np.float32)
