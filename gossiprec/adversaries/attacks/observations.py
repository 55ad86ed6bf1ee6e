"""Observations: the deliveries to an attack's own nodes, all that an attack may see of other nodes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.base.ragged import row_entries
from gossiprec.compute.plan.program import Program
from gossiprec.models.base.parameter_blocks import Layout


@dataclass(frozen=True)
class KnownDeliveries:
    """Deliveries in order of arrival.

    Attributes
    ----------
    message, sender, receiver : ndarray of int32, shape (n_deliveries,)
    time : ndarray of float64, shape (n_deliveries,)
        Arrival times, in mean wake periods.
    n_messages : int
        Message ids are below this.
    complete : bool
        Whether these are all deliveries of the run; if not, more are announced as they become known.
    """

    message: I32
    sender: I32
    receiver: I32
    time: F64
    n_messages: int
    complete: bool = True

    def to_nodes(self, nodes: Bools) -> KnownDeliveries:
        """Return the deliveries to a subset of the nodes."""
        own = nodes[self.receiver]
        if own.all():
            return self
        parts = (self.message[own], self.sender[own], self.receiver[own], self.time[own])
        return KnownDeliveries(*parts, self.n_messages, self.complete)


class MessageIndex:
    """The sender and arrival time of each message that is known so far.

    Attributes
    ----------
    sender : ndarray of int32, shape (n_messages,)
    time : ndarray of float64, shape (n_messages,)
    """

    def __init__(self, n_messages: int) -> None:
        self.sender = np.zeros(n_messages, np.int32)
        self.time = np.zeros(n_messages)

    def note_deliveries(self, deliveries: KnownDeliveries) -> None:
        """Note some deliveries."""
        self.sender[deliveries.message] = deliveries.sender
        self.time[deliveries.message] = deliveries.time


class Merges(NamedTuple):
    """What some tasks merge, as compiled loops read it: columns of a program without what the tasks train and write.

    Attributes
    ----------
    node, source : ndarray of int32, shape (n_tasks,)
        The receiver, and the row of its version before the merges.
    merge_offsets : ndarray of int64, shape (n_tasks + 1,)
        Task t merges entries ``merge_offsets[t]:merge_offsets[t + 1]``, in this order.
    merge_row, merge_message : ndarray of int32, shape (n_merges,)
        The row of the delivered version, and the message that brought it.
    merge_keep : ndarray of float32, shape (n_merges,)
        As :attr:`Observations.keeps`.
    """

    node: I32
    source: I32
    merge_offsets: I64
    merge_row: I32
    merge_keep: F32
    merge_message: I32

    @classmethod
    def of(cls, program: Program) -> Merges:
        """Return the merges of a program, without copies."""
        return cls(*(getattr(program, name) for name in cls._fields))

    @classmethod
    def empty(cls) -> Merges:
        """Return the merges of no task."""
        return cls.of(Program.empty())


class UpdatesRead(Protocol):
    """Updates that are read like rows of whole models, their bases, and the vectors that came with them."""

    @property
    def bases(self) -> Any:
        """The version from which each update was computed."""

    @property
    def uploads(self) -> Any:
        """The vector that came with each update, NaN if there is none."""

    def __getitem__(self, at: Any) -> Any:
        """Return some columns of some models."""


@dataclass(frozen=True)
class MergeDeliveries:
    """Deliveries about to be merged, for compiled loops: entries of merges, task by task.

    Attributes
    ----------
    rows : ndarray of float32 or float16, shape (n_rows, row_size), or an object read like one
        If updates are sent, models are reconstructed as they are read.
    bases : the same, or None
        At an update's row, the version that it was computed from; None if whole models are sent.
    uploads : the same, or None
        At an update's row, the vector that came with it, NaN if there is none; None if whole models are sent.
    """

    rows: Any
    merges: Merges
    tasks: I64
    bases: Any = None
    uploads: Any = None


@dataclass(frozen=True)
class GroupDeliveries:
    """Deliveries to groups, for compiled loops: each group sees each version of a message once."""

    rows: F32
    group: I32
    row: I32


@dataclass(eq=False)
class Observations:
    """Deliveries at an attack's own nodes, in order of arrival per node.

    Blocks that a sender hides are left out: :meth:`user_rows` and :meth:`models` give NaN for them.

    Parameters
    ----------
    raw : MergeDeliveries or GroupDeliveries
        The stored versions, for compiled loops. These may read delivered versions only, and no user rows of nodes
        that hide them: tests overwrite everything else.
    layout : Layout
    hides_user : ndarray of bool, shape (n_nodes,)
    deliveries : MessageIndex
    known_messages : ndarray of int32, shape (n,), or None
        Derived from the tasks if they are not given.
    """

    raw: MergeDeliveries | GroupDeliveries
    layout: Layout
    hides_user: Bools
    deliveries: MessageIndex
    known_messages: I32 | None = None

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def _merges(self) -> MergeDeliveries:
        """The stored versions of deliveries to individual observers."""
        assert isinstance(self.raw, MergeDeliveries)
        return self.raw

    @functools.cached_property
    def _entries(self) -> tuple[I64, I64]:
        """Return the merge entries of the tasks in order, and the task of each."""
        entries, place = row_entries(self._merges.merges.merge_offsets, self._merges.tasks)
        return entries, self._merges.tasks[place]

    @functools.cached_property
    def messages(self) -> I32:
        """Message ids, shape (n,)."""
        if self.known_messages is not None:
            return self.known_messages
        return self._merges.merges.merge_message[self._entries[0]]

    @property
    def senders(self) -> I32:
        """Node ids, shape (n,)."""
        return self.deliveries.sender[self.messages]

    @property
    def times(self) -> F64:
        """Arrival times, shape (n,)."""
        return self.deliveries.time[self.messages]

    @property
    def receivers(self) -> I32:
        """Node ids of individual observers, shape (n,)."""
        return self._merges.merges.node[self._entries[1]]

    @property
    def merge_order(self) -> I64:
        """Index of each delivery among those that its receiver merges together, from 0, shape (n,)."""
        entries, tasks = self._entries
        return entries - self._merges.merges.merge_offsets[tasks]

    @property
    def keeps(self) -> F32:
        """Share of the receiver's own version that the merge keeps, shape (n,): 0 if replaced, -1 if not known yet.

        An inbox is merged as a whole after its last delivery, and merges by performance are weighed when they are made,
        unless the attack requests their weights earlier
        (:attr:`gossiprec.adversaries.attacks.Attack.needs_merge_weights`).
        """
        return self._merges.merges.merge_keep[self._entries[0]]

    @property
    def begins_round(self) -> Bools:
        """Whether the receiver replaces its version by a merge that begins with each delivery, shape (n,).

        A coordinator's version before is then the one that it had sent to the clients of the round.
        """
        keeps = self.keeps  # a negative share means that the whole inbox is reduced together
        return np.asarray((keeps == 0) | ((keeps < 0) & (self.merge_order == 0)))

    @property
    def groups(self) -> I32:
        """Numbers of the attack's groups, shape (n,)."""
        assert isinstance(self.raw, GroupDeliveries)
        return self.raw.group

    @property
    def rows(self) -> I32:
        """Row of each version among ``raw.rows``, shape (n,)."""
        if isinstance(self.raw, GroupDeliveries):
            return self.raw.row
        return self.raw.merges.merge_row[self._entries[0]]

    def models(self, some: I64 | slice = slice(None)) -> F32:
        """Return received versions, shape (n, size); NaN in user rows that the sender hides."""
        found = self.raw.rows[self.rows[some], : self.layout.size].astype(np.float32)
        found[self.hides_user[self.senders[some]], self.layout.users] = np.nan
        found[:, self.layout.private] = np.nan
        return found

    def user_rows(self) -> F32:
        """Return the senders' user rows, shape (n, user_width); NaN if they are hidden."""
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
        """Return the receiver's version before the merge that holds delivery number k, shape (size,)."""
        source = self._merges.merges.source[self._entries[1][k]]
        return np.asarray(self.raw.rows[source, : self.layout.size], np.float32)

    def user_uploads(self) -> F32:
        """Return the vectors that clients upload about their users, shape (n, width); NaN if there is none."""
        if self._merges.uploads is None:
            return np.zeros((len(self), 0), np.float32)
        return np.asarray(self._merges.uploads[self.rows, :], np.float32)

    def base(self, k: int) -> F32 | None:
        """Return the base version of the update in delivery k, shape (size,), or None if it is a whole model."""
        if self._merges.bases is None:
            return None
        return np.asarray(self._merges.bases[self.rows[k], : self.layout.size], np.float32)
