"""The hook through which an attack sees deliveries to its own nodes, and the meter of its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import get_ident
from typing import Any, Protocol, TypeVar

import numpy as np

from gossiprec.adversaries.attacks import Attack, Ranking
from gossiprec.adversaries.attacks.adversary import Adversary
from gossiprec.adversaries.attacks.observations import (
    GroupDeliveries,
    KnownDeliveries,
    MergeDeliveries,
    Merges,
    MessageIndex,
    Observations,
    UpdatesRead,
)
from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.isolation import copy_data, is_foreign
from gossiprec.base.registry import registry_name
from gossiprec.compute.messages import MessagePayload, PushContext, check_forged
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.models.base.kernel_interface import BoundKernel
from gossiprec.models.base.parameter_blocks import Layout

T = TypeVar("T")


class Completion(Protocol):
    """What completes models of which some numbers were not sent, in copies of their rows."""

    def complete_merges(self, raw: MergeDeliveries, senders: I32) -> None:
        """Complete the models that single observers are about to merge."""

    def complete(self, rows: F32, pools: I32, senders: I32, messages: I32) -> None:
        """Complete models that pools receive; the pairs of pool and sender are distinct."""


class Piece(Protocol):
    """What an observer of virtual nodes sees: messages that belong to one piece, under other names."""

    def shows(self, messages: I32) -> Bools:
        """Return which messages belong to it."""

    def rename(self, deliveries: KnownDeliveries) -> KnownDeliveries:
        """Return the deliveries that belong to it, by the names of their senders."""

    def select(self, raw: MergeDeliveries) -> MergeDeliveries:
        """Return the merges of which the messages belong to it."""

    def names_of(self, nodes: I64) -> I64:
        """Return the names of some nodes."""

    def by_node(self, ranking: Ranking) -> Ranking:
        """Return a ranking of virtual nodes as one of their nodes."""


class AttackHook:
    """A hook that shows an attack what its own nodes receive, and measures the time that it takes.

    Parameters
    ----------
    attack : Attack
    layout : Layout
    hides_user : ndarray of bool, shape (n_nodes,)
    deliveries : MessageIndex
    first_pool : int
        The number of the attack's first pool in pool deliveries.
    weigh : callable, optional
        Computes the weights of merges by performance for attacks that need them
        (:meth:`Executor.with_resolved_weights`).
    views : Completion, optional
        Completes models of which some numbers were not sent.
    piece : Piece, optional
        If nodes send by virtual nodes, those that the attack sees.

    Attributes
    ----------
    pools : list of ndarray of int64
        The pools of the attack, empty if their deliveries are hidden.
    others : list of AttackHook
        The hooks of the same observer for the other virtual nodes; their rankings are given with this one's.

    Notes
    -----
    Several threads may observe at once, and their times are added up; a ranking counts its own duration.
    """

    def __init__(
        self,
        attack: Attack,
        layout: Layout,
        hides_user: Bools,
        deliveries: MessageIndex,
        first_pool: int,
        weigh: Callable[[Program, I64], Program] | None = None,
        views: Completion | None = None,
        piece: Piece | None = None,
    ) -> None:
        self.attack = attack
        self._views, self._piece = views, piece
        self.others: list[AttackHook] = []
        self._about = self._by_id = (layout, hides_user, deliveries)
        self._first_pool, self._n_pools = first_pool, len(attack.pools)
        self._hides_nodes, self.reads_pools = False, self._n_pools > 0
        self._of_plan: tuple[Any, ...] = (None,) * 5
        self.pools = list(attack.pools)
        self._own = np.zeros(len(hides_user), np.bool_)
        self._own[attack.nodes] = True
        self._sees_all, self.reads_merges = bool(self._own.all()), len(attack.nodes) > 0
        self._knows = self._own.copy()
        for pool in attack.pools:
            self._knows[pool] = True
        self._weigh = weigh if attack.needs_merge_weights else None
        self._copies = is_foreign(attack)
        if self._copies or piece is not None:
            self._about = (layout, hides_user.copy(), MessageIndex(len(deliveries.time)))
        self._spent: dict[int, float] = {}  # by thread, so that no two threads write one entry

    def timed_call(self, job: Callable[..., T], *args: Any) -> T:
        """Call `job` and count its time."""
        begin = time.perf_counter()
        try:
            return job(*args)
        finally:
            self.count_seconds(time.perf_counter() - begin)

    def count_seconds(self, seconds: float) -> None:
        """Count time that the attack took in this thread."""
        self._spent[get_ident()] = self._spent.get(get_ident(), 0.0) + seconds

    @property
    def seconds(self) -> float:
        """Time spent so far."""
        return sum(self._spent.values())

    def deliveries_to_own_nodes(self, deliveries: KnownDeliveries) -> KnownDeliveries:
        """Return the deliveries that the attack may know: those to its own nodes."""
        known = deliveries.to_nodes(self._knows)
        if self._piece is not None:
            known = self._piece.rename(known)
        if self._copies or self._piece is not None:
            known = copy_data(known)
            self._about[2].note_deliveries(known)
        return known

    def rankings_by_node(self) -> list[Ranking]:
        """Return the present rankings, those of all virtual nodes by their nodes."""
        found = list(self.timed_call(self.attack.rankings))
        if self._piece is None:
            return found
        own = [self._piece.by_node(ranking) for ranking in found]
        return [
            replace(ranking, views=tuple(other.scores for other in others))
            for ranking, *others in zip(own, *(hook.rankings_by_node() for hook in self.others), strict=True)
        ]

    def hide_node(self, node: int) -> None:
        """Hide from the attack the models that a node receives; :meth:`show_model` shows others in their place."""
        self._own[node] = self._sees_all = False
        self._hides_nodes = True
        self.pools = [pool[:0] if node in pool else pool for pool in self.pools]

    def show_model(self, node: int, messages: I32, model: F32, own: F32, *, has_base: bool = True) -> None:
        """Show the attack a model in place of each of some messages that one of its nodes received.

        Parameters
        ----------
        node : int
        messages : ndarray of int32, shape (n,)
            Messages of different senders.
        model, own : ndarray of float32, shape (n_columns,)
            The model, and the receiver's version: columns that receivers merge.
        has_base : bool
            Whether the senders were sent the receiver's version.
        """
        layout, n = self._about[0], len(messages)
        rows = np.zeros((2, layout.row_size), np.float32)
        rows[:, layout.users] = rows[:, layout.private] = np.nan
        rows[0, layout.merged], rows[1:, layout.merged] = model, own
        if node in self.attack.nodes:
            own_row, keeps = np.ones(1, np.int32), np.full(n, -1.0, np.float32)
            of_node = np.full(1, node, np.int32), own_row, np.array([0, n])
            merges = Merges(*of_node, np.zeros(n, np.int32), keeps, messages.copy())
            bases = rows[[1, 1]] if has_base else None
            raw = MergeDeliveries(rows, merges, np.zeros(1, np.int64), bases)
            self.timed_call(self.attack.observe, Observations(raw, *self._about))
        for number, pool in enumerate(self.attack.pools):
            if node in pool:
                groups = GroupDeliveries(rows[:1].copy(), np.full(n, number, np.int32), np.zeros(n, np.int32))
                self.timed_call(self.attack.observe, Observations(groups, *self._about, messages.copy()))

    def select_tasks(self, program: Program, tasks: I64) -> I64:
        """Return the tasks of the attack's single nodes."""
        if self._sees_all:
            return tasks
        return tasks[self._own[program.node[tasks]]] if self.reads_merges else tasks[:0]

    def observe(self, rows: F32 | UpdatesRead, program: Program, tasks: I64) -> None:
        """Show the attack the versions that its single nodes are about to merge."""
        mine = self.select_tasks(program, tasks)
        if len(mine):
            more = () if isinstance(rows, np.ndarray) else (rows.bases, rows.uploads)
            raw = MergeDeliveries(rows, self.seen_merges(program, mine), mine, *more)
            if self._copies or self._views is not None:
                raw = copy_own_tasks(Observations(raw, *self._by_id), *self._about[:2])
            if self._views is not None:
                self._views.complete_merges(raw, Observations(raw, *self._by_id).senders)
            if self._piece is not None:
                raw = self._piece.select(raw)
            self.timed_call(self.attack.observe, Observations(raw, *self._about))

    @property
    def _is_bindable(self) -> bool:
        """Whether the attack sees all deliveries to its nodes as they are stored."""
        changes = (self._copies, self._views, self._piece, self._weigh, self._hides_nodes)
        own, kind = (AttackHook.observe, AttackHook.observe_pools), type(self)
        return not any(changes) and (kind.observe, kind.observe_pools) == own

    def bind_merges(self, rows: F32, program: Program) -> BoundKernel | None:
        """Return the attack's compiled loop over the tasks of a program, if it has one."""
        none = np.zeros(0, np.int64)
        seen = Observations(MergeDeliveries(rows, Merges.of(program), none), *self._about)
        return self.attack.bind(seen, none) if self._is_bindable else None

    def bind_pools(self, rows: F32, pool_deliveries: PoolDeliveries) -> BoundKernel | None:
        """Return the attack's compiled loop over pool deliveries, if it has one."""
        _, places, pool, row, message = self._pool_deliveries(pool_deliveries)
        seen = Observations(GroupDeliveries(rows, pool, row), *self._about, message)
        return self.attack.bind(seen, places) if self._is_bindable else None

    def seen_merges(self, program: Program, tasks: I64) -> Merges:
        """Return the merges of a program, with the weights that the attack sees."""
        return Merges.of(program if self._weigh is None else self.timed_call(self._weigh, program, tasks))

    def _pool_deliveries(self, deliveries: PoolDeliveries) -> tuple[PoolDeliveries, I64, I32, I32, I32]:
        """Return deliveries, how many of the attack's own come before each, and pool, row and message of those."""
        pool = deliveries.pool - self._first_pool
        shown = (pool >= 0) & (pool < self._n_pools)
        if self._piece is not None:
            shown &= self._piece.shows(deliveries.message)
        places = np.concatenate([[0], np.cumsum(shown)])
        return deliveries, places, pool[shown], deliveries.row[shown], deliveries.message[shown]

    def observe_pools(self, rows: F32, pool_deliveries: PoolDeliveries, first: int, last: int) -> None:
        """Show the attack the pool deliveries ``first .. last - 1``."""
        if not self._n_pools:
            return
        known, places, pool, row, message = self._of_plan
        if known is not pool_deliveries:  # a new plan; several threads may see it
            self._of_plan = known, places, pool, row, message = self._pool_deliveries(pool_deliveries)
        mine = slice(*(places[[first, last]].tolist()))
        if mine.start < mine.stop:
            raw, message = GroupDeliveries(rows, pool[mine], row[mine]), message[mine]
            if self._copies or self._views is not None:
                seen = Observations(raw, *self._by_id, message)
                copies = copy_received_versions(seen, *self._about[:2])
                if self._views is not None:
                    self._views.complete(copies, raw.group + self._first_pool, seen.senders, message)
                raw = GroupDeliveries(copies, copy_data(raw.group), np.arange(len(copies), dtype=np.int32))
                message = copy_data(message)
            self.timed_call(self.attack.observe, Observations(raw, *self._about, message))


def copy_received_versions(seen: Observations, layout: Layout, hides_user: Bools) -> F32:
    """Return copies of received versions, with NaN for withheld user rows and private weights.

    Parameters
    ----------
    seen : Observations
    layout : Layout
    hides_user : ndarray of bool, shape (n_nodes,)

    Returns
    -------
    ndarray of float32 or float16, shape (n_received, row_size)
    """
    rows = np.ascontiguousarray(seen.raw.rows[seen.rows, :])
    _hide(rows, seen.senders, layout, hides_user)
    return rows


def _hide(rows: F32, senders: I32, layout: Layout, hides_user: Bools) -> None:
    rows[hides_user[senders], layout.users] = np.nan
    rows[:, layout.private] = np.nan


def copy_own_tasks(seen: Observations, layout: Layout, hides_user: Bools) -> MergeDeliveries:
    """Return the tasks of an attack's own nodes, with copies of the versions that they merge and of their own."""
    raw = seen.raw
    assert isinstance(raw, MergeDeliveries)
    known, tasks = raw.merges, raw.tasks
    n, own = len(seen.rows), np.arange(len(tasks), dtype=np.int32)
    rows = np.ascontiguousarray(raw.rows[np.concatenate([seen.rows, known.source[tasks]]), :])
    _hide(rows[:n], seen.senders, layout, hides_user)
    counts = known.merge_offsets[tasks + 1] - known.merge_offsets[tasks]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    received = np.arange(n, dtype=np.int32), np.array(seen.keeps), np.array(seen.messages)
    merges = Merges(np.array(known.node[tasks]), n + own, ends, *received)
    bases = None
    if raw.bases is not None:
        bases = np.concatenate([raw.bases[seen.rows, :], np.full_like(rows[n:], np.nan)])
    uploads = None if raw.uploads is None else np.array(raw.uploads[seen.rows, :])
    return MergeDeliveries(rows, merges, np.arange(len(tasks)), bases, uploads)


class AdversaryHook(AttackHook):
    """A hook that shows an adversary the models of each node one by one, and lets it forge messages."""

    attack: Adversary

    def observe(self, rows: F32 | UpdatesRead, program: Program, tasks: I64) -> None:
        """Show each node of the adversary the models that it is about to merge, in order."""
        mine = self.select_tasks(program, tasks)
        if not len(mine) or not isinstance(rows, np.ndarray):
            return
        merged = MergeDeliveries(rows, self.seen_merges(program, mine), mine)
        raw = copy_own_tasks(Observations(merged, *self._about), *self._about[:2])
        if self._views is not None:
            self._views.complete_merges(raw, Observations(raw, *self._about).senders)
        of = raw.merges
        for task in range(len(raw.tasks)):
            node = int(of.node[task])
            for entry in range(of.merge_offsets[task], of.merge_offsets[task + 1]):
                this, here = slice(task, task + 1), slice(entry, entry + 1)
                received = of.merge_row[here], of.merge_keep[here], of.merge_message[here]
                one = Merges(of.node[this], of.source[this], np.array([0, 1]), *received)
                seen = Observations(MergeDeliveries(raw.rows, one, np.zeros(1, np.int64)), *self._about)
                with self.attack.memory.only(node):
                    self.timed_call(self.attack.observe, seen)

    def answer(
        self, message: MessagePayload, base: MessagePayload | None, push: PushContext
    ) -> MessagePayload:
        """Return the payload that a node of the adversary sends in place of a message."""
        with self.attack.memory.only(push.node):
            found = self.timed_call(self.attack.forge, copy_data(message), base, push)
        where = f"adversaries: {registry_name(self.attack)}: push {push.number} of node {push.node}"
        return check_forged(where, found, message, self._about[0].n_items)


def attack_seconds_by_label(meters: Sequence[AttackHook]) -> dict[str, float]:
    """Return the time spent by the attacks of each label."""
    seconds: dict[str, float] = {}
    for meter in meters:
        label = meter.attack.label
        seconds[label] = seconds.get(label, 0.0) + meter.seconds
    return seconds
