"""The hook through which an attack sees deliveries, and the meter of the time that the attack takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, TypeVar

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.adversaries.attacks.observations import (
    GroupDeliveries,
    KnownDeliveries,
    MergeDeliveries,
    MessageIndex,
    Observations,
)
from gossiprec.base.arrays import F32, I64, Bools
from gossiprec.base.isolation import copied, is_foreign
from gossiprec.compute.plan.program import PoolDeliveries, Program
from gossiprec.compute.store.base import UpdateRows
from gossiprec.compute.waves import DeliveryHook
from gossiprec.models.base.parameter_blocks import Layout

T = TypeVar("T")


class AttackHook(DeliveryHook):
    """A hook that shows an attack what its own nodes receive, and measures the time that it takes.

    Parameters
    ----------
    attack : Attack
    layout : Layout
    hides_user : ndarray of bool, shape (n_nodes,)
    deliveries : Deliveries
    first_pool : int
        The number of the attack's first pool in pool deliveries.
    weigh : callable, optional
        Computes the weights of merges by performance for attacks that need them
        (:meth:`Executor.with_resolved_weights`).

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
    ) -> None:
        self.attack = attack
        self._about = (layout, hides_user, deliveries)
        self._first_pool, self._n_pools = first_pool, len(attack.pools)
        self._own = np.zeros(len(hides_user), np.bool_)
        self._own[attack.nodes] = True
        self._knows = self._own.copy()
        for pool in attack.pools:
            self._knows[pool] = True
        self._weigh = weigh if attack.needs_merge_weights else None
        self._copies = is_foreign(attack)
        if self._copies:
            self._about = (layout, hides_user.copy(), MessageIndex(len(deliveries.time)))
        self._spent: dict[int, float] = {}  # by thread, so that no two threads write one entry

    def call(self, job: Callable[..., T], *args: Any) -> T:
        """Call `job` and count its time."""
        begin = time.perf_counter()
        try:
            return job(*args)
        finally:
            thread = get_ident()
            self._spent[thread] = self._spent.get(thread, 0.0) + time.perf_counter() - begin

    @property
    def seconds(self) -> float:
        """Time spent so far."""
        return sum(self._spent.values())

    def known(self, meetings: KnownDeliveries) -> KnownDeliveries:
        """Return the deliveries that the attack may know: those to its own nodes."""
        found = meetings.at(self._knows)
        if self._copies:
            found = copied(found)
            self._about[2].learn(found)
        return found

    def select_tasks(self, program: Program, tasks: I64) -> I64:
        """Return the tasks of the attack's single nodes."""
        return tasks[self._own[program.node[tasks]]] if len(self.attack.nodes) else tasks[:0]

    def observe(self, rows: F32 | UpdateRows, program: Program, tasks: I64) -> None:
        """Show the attack the versions that its single nodes are about to merge."""
        mine = self.select_tasks(program, tasks)
        if len(mine):
            program = self.weighed(program, mine)
            beside = (rows.bases, rows.uploads) if isinstance(rows, UpdateRows) else (None, None)
            raw = MergeDeliveries(rows, program, mine, *beside)
            if self._copies:
                raw = own_tasks(Observations(raw, *self._about), *self._about[:2])
            self.call(self.attack.observe, Observations(raw, *self._about))

    def weighed(self, program: Program, tasks: I64) -> Program:
        """Return the program with the merge weights that the attack sees."""
        return program if self._weigh is None else self.call(self._weigh, program, tasks)

    def observe_pools(self, rows: F32, sightings: PoolDeliveries, first: int, last: int) -> None:
        """Show the attack the pool deliveries ``first .. last - 1``."""
        if not self._n_pools:
            return
        pool = sightings.pool[first:last] - self._first_pool
        mine = np.flatnonzero((pool >= 0) & (pool < self._n_pools)) + first
        if len(mine):
            raw = GroupDeliveries(rows, sightings.pool[mine] - self._first_pool, sightings.row[mine])
            message = sightings.message[mine]
            if self._copies:
                shown = received(Observations(raw, *self._about, message), *self._about[:2])
                raw = GroupDeliveries(shown, copied(raw.group), np.arange(len(shown), dtype=np.int32))
            self.call(self.attack.observe, Observations(raw, *self._about, message))


def received(seen: Observations, layout: Layout, hides_user: Bools) -> F32:
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
    rows: F32 = np.array(seen.raw.rows[seen.rows, :], order="C")
    rows[hides_user[seen.senders], layout.users] = np.nan
    rows[:, layout.private] = np.nan
    return rows


def own_tasks(seen: Observations, layout: Layout, hides_user: Bools) -> MergeDeliveries:
    """Return the tasks of an attack's own nodes, with copies of the versions that they merge and of their own."""
    raw = seen.raw
    assert isinstance(raw, MergeDeliveries)
    program, tasks = raw.program, raw.tasks
    shown = received(seen, layout, hides_user)
    n, own = len(shown), np.arange(len(tasks), dtype=np.int32)
    counts = program.merge_offsets[tasks + 1] - program.merge_offsets[tasks]
    alone = Program(
        node=np.array(program.node[tasks]),
        source=n + own,
        target=np.zeros_like(own),
        update=np.array(program.update[tasks]),
        merge_offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
        merge_row=np.arange(n, dtype=np.int32),
        merge_keep=np.array(seen.keeps),
        merge_message=np.array(seen.messages),
    )
    versions = raw.rows[program.source[tasks], :]
    bases = None
    if raw.bases is not None:
        bases = np.concatenate([raw.bases[seen.rows, :], np.full_like(versions, np.nan)])
    uploads = None if raw.uploads is None else np.array(raw.uploads[seen.rows, :])
    return MergeDeliveries(np.concatenate([shown, versions]), alone, np.arange(len(tasks)), bases, uploads)


def attack_seconds_by_label(meters: Sequence[AttackHook]) -> dict[str, float]:
    """Return the time spent by the attacks of each label."""
    seconds: dict[str, float] = {}
    for meter in meters:
        label = meter.attack.label
        seconds[label] = seconds.get(label, 0.0) + meter.seconds
    return seconds
