"""The planner, which turns a segment of tape into tasks and orders them into waves by data dependency."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I8, I32, I64, Bools
from gossiprec.compute.plan import program as at
from gossiprec.compute.plan.program import (
    ExecutionPlan,
    MergeTables,
    PlanRules,
    PoolTables,
    Program,
    TapeColumns,
    TaskTables,
    VersionTables,
    build_execution_plan,
)
from gossiprec.compute.plan.tape import Behaviour, Op, Tape, TapeEvent, TapeSegment, operations_by_slot

SMALL = 20_000
"""Number of messages below which compiling the loop is not worth the wait."""


@dataclass(frozen=True)
class PlannerOptions:
    """The nodes, their roles and the rules of a planner.

    Attributes
    ----------
    roles : ndarray of int, shape (n_nodes,)
        Index into `behaviours`, per node.
    behaviours : sequence of Behaviour
    weights : ndarray of float64, shape (n_nodes,)
        Weight of each node's models in a merge.
    most_updates : ndarray of int64, shape (n_nodes,)
        Number of local updates after which a node stops training.
    cost : ndarray of float64, shape (n_nodes,)
        Relative cost of a node's local update, in units of one merge.
    pools_of : ndarray of bool, shape (n_nodes, n_pools)
        Which pools of observers see what a node receives.
    inline : bool
        Whether messages arrive the moment they are sent and have no event of their own.
    spare_rows : int
        Number of versions kept in addition to the nodes' current ones before queued merges are planned early.
    expected_messages : int
        Expected number of messages, which decides whether the loop is compiled.
    keeps_first : bool
        Whether rows n_nodes .. 2 n_nodes - 1 permanently hold every node's first version, for resets.
    inboxes : ndarray of bool, shape (n_nodes,), optional
        Nodes of which the aggregator reduces all received models at once, when the node's model is next read: at a
        wake or push, never earlier, so that cutting the tape elsewhere changes nothing.
    rewrites : ndarray of int, shape (n_nodes,), optional
        Nodes of which each push is rewritten into a row of its own: ``ROWS``, plus ``IN_ORDER`` if a push depends on
        the one before, ``EACH`` if each receiver gets a row of its own, and ``SUMS`` if local updates without a push
        are remembered; only ``EACH`` if each receiver reads something else in the node's version
        (:mod:`gossiprec.compute.plan.program`).
    names_senders : bool
        Whether programs name the senders of merged versions even if there are no inboxes.
    rest : int
        Number of released rows that are not reused at once, so that the next user of a row need not wait for the
        previous one.
    """

    roles: npt.NDArray[np.integer[Any]]
    behaviours: Sequence[Behaviour]
    weights: F64
    most_updates: I64
    cost: F64
    pools_of: Bools
    inline: bool
    spare_rows: int
    expected_messages: int
    keeps_first: bool = False
    inboxes: Bools | None = None
    rewrites: npt.NDArray[np.integer[Any]] | None = None
    names_senders: bool = False
    rest: int = 0


class Planner:
    """The planner and the state that links one segment of tape to the next, as plain tables."""

    def __init__(self, options: PlannerOptions) -> None:
        roles, behaviours = options.roles, options.behaviours
        inboxes, rewrites = options.inboxes, options.rewrites
        pools_of, keeps_first, rest = options.pools_of, options.keeps_first, options.rest
        n_nodes = len(roles)
        self._cost = options.cost
        self._weights = options.weights
        self._pools_of = pools_of
        self._rules = PlanRules(
            behaviours=_behaviour_table(behaviours),
            mixing=np.array([b.mixing if Op.MIX in b.on_wake else 0.0 for b in behaviours]),
            inline=options.inline,
            soft_limit=n_nodes * (2 if keeps_first else 1) + options.spare_rows,
        )
        self._loop = _loop(options.expected_messages)
        self._nodes = np.full((n_nodes, 12), at.NONE, np.int32)
        self._nodes[:, at.CURRENT] = np.arange(n_nodes)
        self._nodes[:, at.UPDATES] = 0
        self._nodes[:, at.ROLE] = roles
        self._nodes[:, at.LIMIT] = options.most_updates
        self._nodes[:, at.INBOX] = 0 if inboxes is None else inboxes
        self._has_inboxes = options.names_senders or (inboxes is not None and bool(inboxes.any()))
        self._nodes[:, at.REWRITES] = 0 if rewrites is None else rewrites
        self._nodes[:, at.PUSHES] = 0
        self._rewrites = rewrites is not None and bool((rewrites & at.ROWS).any())
        self._rows = np.zeros((0, 3), np.int32)
        self._free = np.zeros(0, np.int32)
        self._messages = np.zeros((0, 4), np.int32)
        self._keeps = np.zeros(0, np.float32)
        self._factors = np.zeros(0)
        self._versions = np.zeros(0, np.int64)
        self._mass = np.zeros((n_nodes, 2))
        self._counters = np.zeros(12, np.int64)
        self._counters[at.RESERVE] = rest
        self._pool_waves = np.zeros((pools_of.shape[1], n_nodes), np.int32)
        self._pools_seen = np.zeros((0, pools_of.shape[1]), np.bool_)
        self._grow_rows(self._rules.soft_limit + 4 * n_nodes + 64 + rest)
        self._rows[:n_nodes, at.NEEDED] = 1
        self._counters[at.FRESH] = n_nodes
        if keeps_first:
            self._rows[n_nodes : 2 * n_nodes, at.NEEDED] = 1
            self._counters[at.FRESH] = 2 * n_nodes

    @property
    def capacity(self) -> int:
        """Arena rows that the plans so far may name."""
        return len(self._rows)

    @property
    def rows_used(self) -> int:
        """Number of arena rows ever written, which is the memory that the arena takes."""
        return int(self._counters[at.FRESH])

    @property
    def current_rows(self) -> I64:
        """Arena row of every node's version, shape (n_nodes,)."""
        return self._nodes[:, at.CURRENT].astype(np.int64)

    @property
    def update_counts(self) -> I64:
        """Local updates of every node so far, shape (n_nodes,)."""
        return self._nodes[:, at.UPDATES].astype(np.int64)

    @property
    def push_counts(self) -> I64:
        """Rewritten pushes of every node so far, shape (n_nodes,)."""
        return self._nodes[:, at.PUSHES].astype(np.int64)

    def continue_from(self, ended: Planner) -> None:
        """Number local updates from the last one of another run of the same nodes on, so that their draws are new."""
        self._nodes[:, at.UPDATES] = ended._nodes[:, at.UPDATES]

    def state(self) -> dict[str, Any]:
        """Return the state that links segments of tape, for a checkpoint: references, no copies."""
        return {name: getattr(self, f"_{name}") for name in _STATE}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the :meth:`state` of another planner of the same run."""
        for name in _STATE:
            setattr(self, f"_{name}", state[name])

    @property
    def needed_rows(self) -> I64:
        """Arena rows with versions that are still needed, ascending."""
        return np.flatnonzero(self._rows[:, at.NEEDED] > 0)

    def is_needed(self, row: int) -> bool:
        """Whether the version in an arena row is still needed."""
        return bool(self._rows[row, at.NEEDED] > 0)

    def are_needed(self, rows: I64) -> Bools:
        """Return whether the version in each of some arena rows is still needed."""
        return np.asarray(self._rows[rows, at.NEEDED] > 0)

    @property
    def last_writers(self) -> tuple[I64, I64]:
        """The arena rows that are needed, ascending, and the node that last wrote each."""
        nodes, messages = self._nodes, self._messages
        n_nodes, all_nodes = len(nodes), np.arange(len(nodes))
        writer = np.full(self.capacity, at.NONE, np.int64)
        firsts = slice(n_nodes, min(2 * n_nodes, self.capacity))
        writer[firsts] = all_nodes[
            : firsts.stop - firsts.start
        ]  # overwritten below if another node wrote the row
        sent = messages[: np.flatnonzero(messages[:, at.PUSH]).max(initial=-1) + 1 or None]
        sent = sent[sent[:, at.CARRIED] != at.NONE]
        writer[sent[:, at.CARRIED]] = sent[
            :, at.SENDER
        ]  # of several senders the last one, which wrote the current version
        for column in (at.HELD, at.BASE, at.CURRENT):
            kept = nodes[:, column] != at.NONE
            writer[nodes[kept, column]] = all_nodes[kept]
        needed = self.needed_rows
        return needed, writer[needed]

    def current_row(self, node: int) -> int:
        """Return the arena row of one node's version."""
        return int(self._nodes[node, at.CURRENT])

    @property
    def busy_rows(self) -> I64:
        """The needed arena rows, without nodes' current rows that no message in transit and no inbox needs."""
        rows = self._rows[: self.rows_used, at.NEEDED]
        current, needed = self._nodes[:, at.CURRENT], rows > 0
        needed[current[rows[current] == 1]] = False
        return np.flatnonzero(needed)

    def warm_up(self) -> None:
        """Plan an empty tape, which compiles the loop if it is to be compiled."""
        self.plan(Tape().cut())

    def plan(self, segment: TapeSegment) -> ExecutionPlan:
        """Plan a segment of tape; afterwards every node's row is its current model.

        Queued merges are planned at the end, so a plan may be followed by an evaluation; inboxes keep waiting.
        """
        n_messages = segment.first_message + len(segment.receiver)
        self._messages = _grown(self._messages, n_messages)
        self._keeps = _grown(self._keeps, n_messages)
        self._pools_seen = _grown(self._pools_seen, n_messages)
        if self._has_inboxes:
            self._note_factors(segment, n_messages)
        self._begin()
        output, pool_deliveries = self._output_tables(segment)
        events = TapeColumns(*(getattr(segment, name) for name in TapeColumns._fields))
        merging = MergeTables(self._weights, self._mass)
        pools = PoolTables(self._pools_of, self._pool_waves, self._pools_seen, pool_deliveries)
        event, sent = 0, segment.first_message
        while True:
            event, sent = self._loop(event, sent, events, self._rules, self._tables, merging, pools, output)
            if event == len(segment.kind):
                return self._in_waves(output, pool_deliveries)
            self._grow_rows(2 * self.capacity)

    @property
    def _tables(self) -> VersionTables:
        return VersionTables(*(getattr(self, f"_{name}") for name in VersionTables._fields))

    def plan_server_task(self, node: int, n_versions: int) -> tuple[ExecutionPlan, I64]:
        """Plan the task of a coordinator's server; all earlier plans must have been carried out.

        Returns
        -------
        plan : ExecutionPlan
            One task, which merges the coordinator's inbox.
        rows : ndarray of int64, shape (n_versions,)
            Rows for the versions of the round: the row of the task, and others that are kept until the next round.
        """
        planning: Any = importlib.import_module("gossiprec.compute.plan.planner_loop")
        counters = self._counters
        self._begin()
        free = self.capacity - int(counters[at.FRESH]) + int(counters[at.FREE_COUNT])
        if free < n_versions:
            self._grow_rows(2 * self.capacity + n_versions)
        for row in self._versions.tolist():
            planning.release_row(row, self._rows, self._free, counters)
        output = TaskTables.empty(n_tasks=1, n_merges=int(counters[at.COLLECTED]))
        planning.emit_task(node, at.NONE, planning.UNMIXED, self._tables, output)
        taken = [planning.allocate_row(self._rows, self._free, counters) for _ in range(n_versions - 1)]
        self._versions = np.array(taken, np.int64)
        self._rows[self._versions, at.NEEDED] = 1
        self._rows[self._versions, at.WRITTEN] = counters[at.LAST_WAVE]
        plan = self._in_waves(output, np.empty((0, 5), np.int32))
        return plan, np.append(self._nodes[node, at.CURRENT], self._versions).astype(np.int64)

    def replace_sent_versions(self, segment: TapeSegment, rows: I64) -> None:
        """Let the messages of a planned segment carry other versions than their senders' own.

        Parameters
        ----------
        segment : TapeSegment
        rows : ndarray of int64, shape (n_messages,)
            The arena row that each message carries; every row must be needed already.
        """
        messages = segment.first_message + np.flatnonzero(segment.carries_model)
        rows = rows[segment.carries_model]
        for row, by in ((self._messages[messages, at.CARRIED], -1), (rows, 1)):
            np.add.at(self._rows[:, at.NEEDED], row, by)
        self._messages[messages, at.CARRIED] = rows

    def _begin(self) -> None:
        """Begin a plan; all earlier plans have been carried out."""
        counters = self._counters
        counters[[at.TASKS, at.MERGES, at.POOL_DELIVERIES, at.ENCODES]] = 0
        counters[at.BASE_WAVE] = counters[at.LAST_WAVE]

    def _output_tables(self, segment: TapeSegment) -> tuple[TaskTables, I32]:
        """Return tables of tasks and of pool deliveries that have room for the plan of a segment."""
        delivered = (
            segment.receiver if self._rules.inline else segment.node[segment.kind == TapeEvent.DELIVER]
        )
        n_mixes = len(segment.kind) if self._rules.mixing.any() else 0
        waiting = int(self._counters[[at.QUEUED, at.COLLECTED]].sum())
        n_merges = waiting + len(delivered) + n_mixes
        n_encodes = (len(segment.kind) + len(segment.receiver)) if self._rewrites else 0
        n_tasks = 2 * len(segment.kind) + len(segment.receiver) + n_merges + 2 * n_encodes
        n_pool_deliveries = int(self._pools_of.sum(axis=1)[delivered].sum())
        tables = TaskTables.empty(n_tasks=n_tasks, n_merges=n_merges, n_encodes=n_encodes)
        return tables, np.empty((n_pool_deliveries, 5), np.int32)

    def _in_waves(self, output: TaskTables, pool_deliveries: I32) -> ExecutionPlan:
        """Cut the tables to their filled part and sort them by wave."""
        n_tasks, n_merges, n_pool_deliveries = self._counters[:3]
        tasks, merges = output.tasks[:n_tasks], output.merges[:n_merges]
        offsets = np.concatenate([[0], output.ends[:n_tasks]]).astype(np.int64)
        program = Program(
            node=tasks[:, at.NODE].copy(),
            source=tasks[:, at.SOURCE].copy(),
            target=tasks[:, at.TARGET].copy(),
            update=tasks[:, at.UPDATE].copy(),
            merge_offsets=offsets,
            merge_row=merges[:, 0].copy(),
            merge_keep=output.merge_keep[:n_merges].copy(),
            merge_message=merges[:, 1].copy(),
            **(self._senders_of(merges[:, 1]) if self._has_inboxes else {}),
            **(self._pushes_of(int(n_tasks), output.encodes) if self._rewrites else {}),
        )
        cost = np.where(program.update >= 0, self._cost[program.node], 0.0) + np.diff(offsets)
        first, last = self._counters[[at.BASE_WAVE, at.LAST_WAVE]] + 1
        return build_execution_plan(
            program, tasks[:, at.WAVE], cost, pool_deliveries[:n_pool_deliveries], range(first, last)
        )

    def _note_factors(self, segment: TapeSegment, n_messages: int) -> None:
        """Remember the weight factors of deliveries, which may be merged in a later segment."""
        self._factors = _grown(self._factors, n_messages)
        self._factors[segment.first_message : n_messages] = 1.0
        if len(segment.factor):
            arrived = segment.kind == TapeEvent.DELIVER
            self._factors[segment.message[arrived]] = segment.factor[arrived]

    def _senders_of(self, messages: I32) -> dict[str, Any]:
        """Return a program's columns with the senders and the weights of merged versions."""
        sender = self._messages[messages, at.SENDER]
        return {"merge_sender": sender, "merge_weight": self._weights[sender] * self._factors[messages]}

    def _pushes_of(self, n_tasks: int, encodes: I32) -> dict[str, Any]:
        """Return a program's columns with the push and the base of each encode task."""
        encodes = encodes[: self._counters[at.ENCODES]]
        columns = np.full((3, n_tasks), at.NONE, np.int32)
        columns[:, encodes[:, at.ENCODER]] = encodes[:, [at.PUSH_NUMBER, at.FROM, at.MESSAGE]].T
        return dict(zip(("push", "base", "push_message"), columns, strict=True))

    def _grow_rows(self, capacity: int) -> None:
        """Make room for `capacity` rows; the ring of free rows is moved so that its head is at 0."""
        head, count = self._counters[[at.FREE_HEAD, at.FREE_COUNT]]
        waiting = np.roll(self._free, -head)[:count]
        self._rows = _grown(self._rows, capacity)
        self._free = _grown(waiting, capacity)
        self._counters[at.FREE_HEAD] = 0


_STATE = (
    "nodes", "rows", "free", "messages", "keeps", "factors", "versions", "mass", "counters", "pool_waves", "pools_seen",
)  # fmt: skip
"""Names of the tables that change during a run; the others follow from the scenario."""


def _grown(table: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    """Return the table with at least `length` rows, new rows zero; it grows by half to keep copies rare."""
    if len(table) >= length:
        return table
    grown = np.zeros((max(length, len(table) * 3 // 2), *table.shape[1:]), table.dtype)
    grown[: len(table)] = table
    return grown


def _behaviour_table(behaviours: Sequence[Behaviour]) -> I8:
    """Return the operations as numbers, shape (n_roles, n_slots, longest), padded with Op.NOTHING."""
    lists = operations_by_slot(behaviours)
    longest = max(len(ops) for slots in lists for ops in slots)
    table = np.zeros((len(lists), len(lists[0]), longest), np.int8)
    for role, slots in enumerate(lists):
        for slot, ops in enumerate(slots):
            table[role, slot, : len(ops)] = ops
    return table


def _loop(expected_messages: int) -> Callable[..., tuple[int, int]]:
    """Return the planner's loop, compiled unless the run is small."""
    from gossiprec.compute.plan import planner_loop

    if expected_messages < SMALL:
        return planner_loop.plan_events
    from gossiprec.native.jit import kernel

    return kernel(planner_loop.plan_events)
