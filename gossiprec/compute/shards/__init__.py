"""One simulation in several processes: channels between shards, the owner of each node, and exchanged rows.

All shards derive the rows that they exchange, and the key of each letter, from the plan, so no requests are needed.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I64
from gossiprec.base.ragged import row_entries
from gossiprec.compute.plan.program import ExecutionPlan

Key: TypeAlias = tuple[str | int, ...]
"""The key of a letter, unique among the letters from one sender to one receiver."""


class Channel(ABC):
    """The connection by which one shard sends and receives letters."""

    @abstractmethod
    def send(self, to: int, key: Key, content: Any) -> None:
        """Send a letter without waiting; arrays in it must not be changed afterwards."""

    def send_rows(self, to: int, key: Key, rows: npt.NDArray[Any], some: I64) -> None:
        """Send copies of some rows, as one array, without waiting."""
        self.send(to, key, rows[some])

    @abstractmethod
    def receive(self, sender: int, key: Key) -> Any:
        """Wait for a letter.

        Raises
        ------
        ShardLostError
            If a shard has died.
        """


class Mailbox:
    """Letters that have arrived and were not yet received; other threads fill it."""

    def __init__(self) -> None:
        self._letters: dict[tuple[int, Key], Any] = {}
        self._changed = threading.Condition()
        self._failure: BaseException | None = None

    def put(self, sender: int, key: Key, content: Any) -> None:
        """Add a letter that has arrived."""
        with self._changed:
            self._letters[sender, key] = content
            self._changed.notify_all()

    def fail(self, reason: BaseException) -> None:
        """Make all present and later waits raise `reason`; the first reason counts."""
        with self._changed:
            self._failure = self._failure or reason
            self._changed.notify_all()

    def take(self, sender: int, key: Key) -> Any:
        """Wait for a letter, remove it and return it."""
        wanted = (sender, key)
        with self._changed:
            self._changed.wait_for(lambda: wanted in self._letters or self._failure is not None)
            if wanted in self._letters:
                return self._letters.pop(wanted)
            assert self._failure is not None
            raise self._failure


class InProcessChannel(Channel):
    """A channel between shards that are threads of one process; letters are passed by reference.

    Parameters
    ----------
    number : int
    mailboxes : list of Mailbox
        The mailboxes of all shards.
    """

    def __init__(self, number: int, mailboxes: list[Mailbox]) -> None:
        self._number, self._mailboxes = number, mailboxes

    def send(self, to: int, key: Key, content: Any) -> None:
        """Put a letter into the receiver's mailbox."""
        self._mailboxes[to].put(self._number, key, content)

    def receive(self, sender: int, key: Key) -> Any:
        """Wait for a letter."""
        return self._mailboxes[self._number].take(sender, key)


MOST = 64
"""Largest number of shards of a run: the holders of a row are the bits of one 64-bit number."""


@dataclass(frozen=True)
class NodePartition:
    """A division of all nodes among shards, as one of the shards sees it.

    Attributes
    ----------
    of : ndarray of int64, shape (n_nodes,)
        The shard that owns each node.
    n : int
        Number of shards, no more than :data:`MOST`.
    number : int
        Number of this shard. Shard 0 leads: it holds the pools of observers, and writes the run directory.
    """

    of: I64
    n: int
    number: int

    @cached_property
    def own_nodes(self) -> I64:
        """The nodes of this shard, ascending."""
        return self.nodes_of_shard(self.number)

    def nodes_of_shard(self, number: int) -> I64:
        """Return the nodes of a shard, ascending."""
        return np.flatnonzero(self.of == number)

    @property
    def other_shards(self) -> list[int]:
        """The numbers of the other shards."""
        return [number for number in range(self.n) if number != self.number]


@dataclass(frozen=True)
class RowBatch:
    """Rows that one shard sends to another for a wave.

    Attributes
    ----------
    shard : int
        The other shard.
    wave : int
        The wave of the plan in which they are read.
    rows : ndarray of int64
        Ascending.
    """

    shard: int
    wave: int
    rows: I64


@dataclass
class ShardWave:
    """One shard's part of a wave: its tasks in the plan's order, and the rows that arrive for them.

    Attributes
    ----------
    ready : ndarray of int64
        Tasks that read none of the rows that arrive for this wave.
    waiting : ndarray of int64
        The other tasks of the shard.
    elsewhere : ndarray of int64
        The tasks of other shards.
    incoming : list of RowBatch
        By sender.
    outdated : ndarray of int64
        Rows, ascending, of which this shard had a copy until another shard wrote them in this wave.
    """

    ready: I64
    waiting: I64
    elsewhere: I64
    incoming: list[RowBatch]
    outdated: I64


@dataclass
class ShardPlan:
    """A shard's part of a plan.

    Attributes
    ----------
    waves : list of ShardWave
    outgoing : dict of int to list of RowBatch
        Batches to send, by the number of finished waves: rows leave one wave before they are read, or as soon as they
        are written.
    """

    waves: list[ShardWave] = field(default_factory=list)
    outgoing: dict[int, list[RowBatch]] = field(default_factory=dict)


class RowRouter:
    """The record of each row's owner and of the shards with a copy, updated plan by plan.

    Parameters
    ----------
    parts : NodePartition
    keeps_first : bool
        Whether rows n_nodes .. 2 n_nodes - 1 hold the nodes' first versions.

    Notes
    -----
    A row belongs to the shard of the node that wrote it last. A shard that has read it has a copy until it is written
    again, so that no version travels twice to the same shard.
    """

    def __init__(self, parts: NodePartition, *, keeps_first: bool) -> None:
        self._parts = parts
        first = np.tile(parts.of, 2 if keeps_first else 1)
        self._owner = first.astype(np.int16)
        self._holders = _bits(first)
        self._written = np.full(len(first), -1, np.int64)  # the wave of the run that last wrote the row
        self._done = 0

    @property
    def n_rows(self) -> int:
        """Number of rows that the record has room for."""
        return len(self._owner)

    def last_writing_shard(self, rows: I64) -> I64:
        """Return the shard that last wrote each of some rows."""
        return self._owner[rows].astype(np.int64)

    def holds(self, rows: I64) -> npt.NDArray[np.bool_]:
        """Return whether this shard has the current version of each of some rows."""
        return (self._holders[rows] >> np.uint64(self._parts.number) & np.uint64(1)).astype(np.bool_)

    def rows_to_share(self, rows: I64) -> dict[int, I64]:
        """Return the rows of shard 0 that each other shard lacks; note that all shards will have them."""
        everywhere = list(range(1, self._parts.n))
        lacking = {n: rows[(self._holders[rows] >> np.uint64(n) & np.uint64(1)) == 0] for n in everywhere}
        for shard in everywhere:
            self._holders[rows] |= _bits(np.array(shard))
        return lacking

    def restore(self, rows: I64, nodes: I64) -> None:
        """Reset the record: the given nodes wrote the rows, and no other shard has a copy."""
        self.grow(int(rows.max(initial=-1)) + 1)
        self._owner[rows] = self._parts.of[nodes]
        self._holders[rows] = _bits(self._parts.of[nodes])
        self._written[:] = -1

    def grow(self, capacity: int) -> None:
        """Make room for more rows, which have not been written yet."""
        more = capacity - len(self._owner)
        if more > 0:
            more = max(more, len(self._owner) // 2)
            self._owner = np.concatenate([self._owner, np.full(more, -1, np.int16)])
            self._holders = np.concatenate([self._holders, np.zeros(more, np.uint64)])
            self._written = np.concatenate([self._written, np.full(more, -1, np.int64)])

    def shard_plan(self, plan: ExecutionPlan) -> ShardPlan:
        """Return this shard's part of the next plan."""
        program, own, route = plan.program, self._parts.number, ShardPlan()
        self.grow(int(max(program.target.max(initial=-1), program.merge_row.max(initial=-1))) + 1)
        shard_of = self._parts.of[program.node]
        for wave in range(len(plan.task_offsets) - 1):
            tasks = plan.order[plan.task_offsets[wave] : plan.task_offsets[wave + 1]]
            seen = slice(plan.pool_delivery_offsets[wave], plan.pool_delivery_offsets[wave + 1])
            entries, reader = row_entries(program.merge_offsets, tasks)
            rows = np.concatenate([program.merge_row[entries], plan.pool_deliveries.row[seen]]).astype(
                np.int64
            )
            to = np.concatenate([shard_of[tasks][reader], np.zeros(seen.stop - seen.start, np.int64)])
            rows_lacking, shards = self._lacking(rows, to)
            senders = self._owner[rows_lacking]
            self._note_outgoing(route, wave, rows_lacking[senders == own], shards[senders == own])
            mine = shards == own
            incoming, senders = rows_lacking[mine], senders[mine]
            batches = [RowBatch(int(s), wave, incoming[senders == s]) for s in np.unique(senders)]
            fresh = np.isin(program.merge_row[entries], incoming)
            waits = np.bincount(reader[fresh], minlength=len(tasks)) > 0
            here = shard_of[tasks] == own
            written = program.target[tasks].astype(np.int64)
            outdated = np.sort(written[~here & self.holds(written)])
            route.waves.append(
                ShardWave(tasks[here & ~waits], tasks[here & waits], tasks[~here], batches, outdated)
            )
            self._owner[written] = shard_of[tasks]
            self._holders[written] = _bits(shard_of[tasks])
            self._written[written] = self._done + wave
        self._done += len(route.waves)
        return route

    def _lacking(self, rows: I64, to: I64) -> tuple[I64, I64]:
        """Return pairs of a row and a shard that lacks it, ascending; note that the shard will have it."""
        lacks = (self._holders[rows] >> to.astype(np.uint64) & np.uint64(1)) == 0
        pairs = np.unique(rows[lacks] * self._parts.n + to[lacks])
        rows, shards = np.divmod(pairs, self._parts.n)
        np.bitwise_or.at(self._holders, rows, _bits(shards))
        return rows, shards

    def _note_outgoing(self, route: ShardPlan, wave: int, rows: I64, shards: I64) -> None:
        for shard in np.unique(shards).tolist():
            some = rows[shards == shard]
            last = int(self._written[some].max()) - self._done
            due = max(last + 1, wave - 1, 0)
            route.outgoing.setdefault(due, []).append(RowBatch(shard, wave, some))


def _bits(shards: I64) -> npt.NDArray[np.uint64]:
    return np.left_shift(np.uint64(1), shards.astype(np.uint64))


class ShardContext:
    """The place of a process in a divided run; its partition and routes are set while the run is prepared.

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
        Set by :meth:`set_owners`.
    routes : RowRouter
    """

    def __init__(self, number: int, n: int, exchange: Channel) -> None:
        self.number, self.n, self.exchange = number, n, exchange
        self.parts: NodePartition
        self.routes: RowRouter

    def set_owners(self, owner_of_node: I64, *, keeps_first: bool) -> None:
        """Set the shard that owns each node."""
        self.parts = NodePartition(owner_of_node, self.n, self.number)
        self.routes = RowRouter(self.parts, keeps_first=keeps_first)
