"""Programs of tasks, pool deliveries, and execution plans, as plain arrays from the planner.

Also here: the tables of the planner, with constants that name their columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64, Bools

# Columns of the node table. LIMIT is the number of local updates after which a node stops training. HELD is the row
# of the version that it pushed last, and PUSHED the first message of that push, if it mixes. INBOX is 1 if received
# versions wait until its model is read. REWRITES is ROWS if its pushes are rewritten rows, plus IN_ORDER if each waits
# for the one before, EACH if each receiver is sent something else, and SUMS if local updates without a push are
# remembered; it is 0 if pushes are whole versions. PUSHES
# counts the other pushes. If they are rewritten, BASE is the row of the node's version before its last local update, if
# the update came after its last push.
CURRENT, HEAD, TAIL, UPDATES, ROLE, LIMIT, HELD, PUSHED, INBOX, REWRITES, PUSHES, BASE = range(12)
# Columns of the mass table: weight of the versions pooled since the last push, with and without the factors.
WEIGHTED, FULL = range(2)
# Columns of the row table: number of claims on the row; wave of its last write; latest wave that reads it.
NEEDED, WRITTEN, READ = range(3)
# Columns of the message table; PUSH is the first message of the push that sent this one. Control messages carry NONE.
SENDER, CARRIED, NEXT, PUSH = range(4)
# Places in the counters. QUEUED counts queued versions, COLLECTED those that wait in inboxes. RESERVE is the number
# of released rows that rest before one is reused, while there are fresh rows.
(
    TASKS, MERGES, POOL_DELIVERIES, FREE_HEAD, FREE_COUNT, FRESH, LAST_WAVE, BASE_WAVE, QUEUED, COLLECTED, ENCODES,
    RESERVE,
) = range(12)  # fmt: skip
# Columns of the table of rewritten pushes: the task, the number of the node's push, the row of its base, and the
# message if each receiver is sent a row of its own.
ENCODER, PUSH_NUMBER, FROM, MESSAGE = range(4)
# Columns of the task table and of the table of pool deliveries.
NODE, SOURCE, TARGET, UPDATE, WAVE = range(5)
POOL_ID, VICTIM, SEEN_ROW, SEEN_WAVE, SEEN_MESSAGE = range(5)

NONE = -1
ROWS, IN_ORDER, EACH, SUMS = 1, 2, 4, 8
UNSENT = -2
"""Number of the push in a task that only remembers a local update after which nothing was sent."""

UNRESOLVED = -1.0
"""Placeholder of a merge weight that the executor computes from the versions' performance for the receiver.

A hook that runs before the merge takes its absolute value, 1, as if nothing were merged. In a task of a
node with an inbox it marks the entries that the node's aggregator reduces
(:mod:`gossiprec.compute.inbox_reducer`)."""


class TapeColumns(NamedTuple):
    """The columns of a tape segment that the loop reads; `factor`, `slot` and `control` may be empty."""

    kind: Any
    node: Any
    message: Any
    count: Any
    factor: Any
    receiver: Any
    first_message: Any
    slot: Any
    control: Any


class PlanRules(NamedTuple):
    """The rules of a plan.

    Attributes
    ----------
    behaviours : ndarray of int8, shape (n_roles, n_slots, n_operations)
        Operations when a node wakes, when a message is delivered, and for some kinds of messages.
    mixing : ndarray of float64, shape (n_roles,)
        0 if nodes of the role do not mix.
    inline : bool
        Whether a message is delivered the moment it is sent and has no event.
    soft_limit : int
        Number of rows in use above which queued versions are merged early.
    """

    behaviours: Any
    mixing: Any
    inline: Any
    soft_limit: Any


class VersionTables(NamedTuple):
    """The tables of nodes, arena rows and messages, the messages' merge weights, free rows, and counters.

    The bundles are small because compiled functions pass each of their arrays.
    """

    nodes: Any
    rows: Any
    messages: Any
    keeps: Any
    free: Any
    counters: Any


class MergeTables(NamedTuple):
    """The weight of every node's models in a merge, and the table of pooled weights."""

    weights: Any
    mass: Any


class PoolTables(NamedTuple):
    """Which pools see what a node receives, their latest wave per victim, the pushes seen, and planned deliveries."""

    pools_of: Any
    pool_waves: Any
    pools_seen: Any
    pool_deliveries: Any


class TaskTables(NamedTuple):
    """The tables of tasks, ends of their merges, merges, merge weights, and rewritten pushes."""

    tasks: Any
    ends: Any
    merges: Any
    merge_keep: Any
    encodes: Any

    @classmethod
    def empty(cls, *, n_tasks: int, n_merges: int, n_encodes: int = 0) -> TaskTables:
        """Return tables that have room for the given numbers of entries."""
        return cls(
            np.empty((n_tasks, 5), np.int32),
            np.empty(n_tasks, np.int64),
            np.empty((n_merges, 2), np.int32),
            np.empty(n_merges, np.float32),
            np.empty((n_encodes, 4), np.int32),
        )


class Written(NamedTuple):
    """What a step of a wave has done of a program: targets that are written, and merges that are done.

    Attributes
    ----------
    tasks : ndarray of int64
        Tasks that continue from their target rows.
    merges : ndarray of int64
        Merges of these tasks of which nothing is left to do.
    """

    tasks: I64
    merges: I64 = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Program:
    """Tasks in an order in which they could run one by one; the plan gives those that are independent.

    A task reads the node's version at `source`, merges the delivered versions into it one after the other, runs a local
    update if it has one, and leaves the result at `target` (equal to `source` if nothing else needs the old version).

    Attributes
    ----------
    node, source, target : ndarray of int32, shape (n_tasks,)
        `source` and `target` are rows of the arena.
    update : ndarray of int32, shape (n_tasks,)
        Number of the node's local update, from 0; -1 if the task only merges.
    merge_offsets : ndarray of int64, shape (n_tasks + 1,)
        Task t merges entries ``merge_offsets[t]:merge_offsets[t + 1]``, in this order.
    merge_row, merge_message : ndarray of int32, shape (n_merges,)
        Arena row of the delivered version, and the message that brought it.
    merge_keep : ndarray of float32, shape (n_merges,)
        Weight that the receiver's value keeps: ``new = keep * own + (1 - keep) * received``. 0 adopts the received one.
        If negative, the executor finds it by performance (:mod:`gossiprec.compute.local_update`), or the
        node's aggregator reduces the version with all others of the task (:mod:`gossiprec.compute.inbox_reducer`).
    merge_weight : ndarray of float64, shape (n_merges,) or (0,)
        Weight of the delivered version; empty if no node has an inbox.
    merge_sender : ndarray of int32, shape (n_merges,) or (0,)
        Sender of the delivered version; empty if no node has an inbox.
    push : ndarray of int32, shape (n_tasks,) or (0,)
        Number of the push for which the task rewrites the node's version, from `source` to `target`; :data:`UNSENT` if
        it only remembers the local update from `base` to `source`; -1 for other tasks; empty if no node rewrites its
        pushes.
    base : ndarray of int32, shape (n_tasks,) or (0,)
        Of such a task, the row of the version before the node's last local update, if it trained since its previous
        push; else -1.
    push_message : ndarray of int32, shape (n_tasks,) or (0,)
        Of such a task, the message that carries the target; -1 if all messages of the push do.
    found : ndarray of float32, shape (n_merges,)
        Filled by the executor with a received version's performance score, in merges by performance; else NaN.
    refused : ndarray of bool, shape (n_tasks,)
        Filled by the executor: whether the task's last merge was by performance and both versions scored 0. The task
        then did not train; its update keeps its number, and so its draws.
    finite : ndarray of bool, shape (n_tasks,)
        Whether the task has no local update, or gave a finite model; False if that is not known. Filled by compiled
        executors.
    """

    node: I32
    source: I32
    target: I32
    update: I32
    merge_offsets: I64
    merge_row: I32
    merge_keep: F32
    merge_message: I32
    merge_weight: F64 = field(default_factory=lambda: np.zeros(0))
    merge_sender: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    push: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    base: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    push_message: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    found: F32 = field(init=False)
    refused: Bools = field(init=False)
    finite: Bools = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", np.full(len(self.merge_row), np.nan, np.float32))
        object.__setattr__(self, "refused", np.zeros(len(self.node), np.bool_))
        object.__setattr__(self, "finite", self.update < 0)

    def continue_from(self, written: Written) -> None:
        """Let tasks continue from their targets, into which done merges then merge the target itself: no change."""
        tasks, merges = written
        self.source[tasks] = self.target[tasks]
        if len(merges):
            of_task = np.searchsorted(self.merge_offsets, merges, side="right") - 1
            self.merge_row[merges], self.merge_keep[merges] = self.target[of_task], 1.0

    def deliveries_in_turn(self, tasks: I64) -> Iterator[tuple[Bools, I64]]:
        """Yield, for k = 0, 1, ..., a mask of the tasks with a delivery number k, and its entries."""
        first, n_merges = self.merge_offsets[tasks], np.diff(self.merge_offsets)[tasks]
        for k in range(n_merges.max(initial=0)):
            some = n_merges > k
            yield some, (first + k)[some]

    def adopted_rows(self, tasks: I64) -> I64:
        """Return the row of the version that each task adopts last, or its source if it adopts none."""
        begins, ends = self.merge_offsets[tasks], self.merge_offsets[tasks + 1]
        first, last = (int(begins.min()), int(ends.max())) if len(tasks) else (0, 0)
        entries = first + np.flatnonzero(self.merge_keep[first:last] == 0)
        found, own = self.source[tasks].astype(np.int64), np.searchsorted(entries, ends) - 1
        some = np.flatnonzero(own >= 0)
        some = some[entries[own[some]] >= begins[some]]
        found[some] = self.merge_row[entries[own[some]]]
        return found

    @classmethod
    def of_updates(cls, nodes: I32, updates: I32) -> Program:
        """Return the program in which some nodes train once, in place: node k in row k."""
        row, none = np.arange(len(nodes), dtype=np.int32), np.zeros(0, np.int32)
        offsets = np.zeros(len(nodes) + 1, np.int64)
        return cls(nodes, row, row, updates, offsets, none, np.zeros(0, np.float32), none)

    @classmethod
    def empty(cls) -> Program:
        """Return a program without tasks."""
        none = np.zeros(0, np.int32)
        return cls(none, none, none, none, np.zeros(1, np.int64), none, np.zeros(0, np.float32), none)


@dataclass(frozen=True)
class PoolDeliveries:
    """The deliveries that pools of observers see, in execution order: one row per (pool, message).

    Attributes
    ----------
    pool, victim, row, message : ndarray of int32, shape (n_pool_deliveries,)
        Pool `pool` saw the version in arena row `row`, sent by node `victim`; no pair occurs twice in a wave.
    """

    pool: I32
    victim: I32
    row: I32
    message: I32


@dataclass(frozen=True)
class ExecutionPlan:
    """The tasks and pool deliveries of a segment of tape, in waves.

    Attributes
    ----------
    order : ndarray of int64, shape (n_tasks,)
        Tasks by wave, within a wave the costliest first.
    task_offsets, pool_delivery_offsets : ndarray of int64, shape (n_waves + 1,)
        Wave w runs tasks ``order[task_offsets[w]:task_offsets[w + 1]]``, and
        shows its pool deliveries, which are ordered in the same way.
    """

    program: Program
    order: I64
    task_offsets: I64
    pool_deliveries: PoolDeliveries
    pool_delivery_offsets: I64


def build_execution_plan(
    program: Program, wave: I32, cost: F64, pool_deliveries: I32, waves: range
) -> ExecutionPlan:
    """Return the plan of a program, with tasks and pool deliveries sorted by wave.

    Parameters
    ----------
    program : Program
    wave, cost : ndarray of int32 and float64, shape (n_tasks,)
        Of each task; within a wave the costliest come first.
    pool_deliveries : ndarray of int32, shape (n_pool_deliveries, 5)
        Pool deliveries as the planner's loop writes them (:mod:`gossiprec.compute.plan.planner_loop`).
    waves : range
        All waves of the plan.
    """
    order = np.lexsort((-cost, wave))
    seen_wave = pool_deliveries[:, SEEN_WAVE]
    seen = np.argsort(seen_wave, kind="stable")
    edges = np.arange(waves.start, waves.stop + 1)
    return ExecutionPlan(
        program=program,
        order=order.astype(np.int64),
        task_offsets=np.searchsorted(wave[order], edges).astype(np.int64),
        pool_deliveries=PoolDeliveries(
            pool=pool_deliveries[seen, POOL_ID],
            victim=pool_deliveries[seen, VICTIM],
            row=pool_deliveries[seen, SEEN_ROW],
            message=pool_deliveries[seen, SEEN_MESSAGE],
        ),
        pool_delivery_offsets=np.searchsorted(seen_wave[seen], edges).astype(np.int64),
    )
