"""Plans carried out on models of two numbers, with the work of each wave in a random order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.compute.plan.program import ExecutionPlan, PoolDeliveries, Program
from gossiprec.testing.naive_interpreter import (
    encode_push,
    initial_models,
    merge_once,
    reduce_inbox,
    train_once,
)


class ShuffledPlanRunner:
    """A runner of plans that carries out the work of each wave in a random order.

    Attributes
    ----------
    rows : ndarray of float64, shape (capacity, 2)
    received, seen
        As in :class:`NaiveInterpreter`.
    """

    def __init__(self, n_nodes: int, seed: int = 0, inboxes: Collection[int] = ()) -> None:
        self._inboxes = inboxes
        self.rows = np.full((n_nodes, 2), np.nan)
        self.rows[:] = initial_models(n_nodes)
        self.received: list[list[tuple[float, ...]]] = [[] for _ in range(n_nodes)]
        self.seen: list[tuple[float, ...]] = []
        self._rng = np.random.default_rng(seed)

    def run(self, plan: ExecutionPlan, capacity: int) -> None:
        """Carry out a plan that uses up to `capacity` rows."""
        grown = np.full((capacity, 2), np.nan)
        grown[: len(self.rows)] = self.rows
        self.rows = grown
        for tasks, sightings in waves(plan):
            work: list[tuple[Callable[[Any, int], None], Any, int]]
            work = [(self._task, plan.program, t) for t in tasks]
            work += [(self._sighting, plan.sightings, k) for k in sightings]
            for k in self._rng.permutation(len(work)):
                do, what, number = work[k]
                do(what, number)

    def _task(self, program: Program, t: int) -> None:
        value, node = self.rows[program.source[t]].copy(), program.node[t]
        entries = range(*program.merge_offsets[t : t + 2])
        if node in self._inboxes:
            inbox = [k for k in entries if program.merge_keep[k] < 0]
            value = reduce_inbox(
                value, [(self.rows[program.merge_row[k]], program.merge_weight[k]) for k in inbox]
            )
        if len(program.push) and program.push[t] >= 0:
            base = self.rows[program.base[t]] if program.base[t] >= 0 else None
            value = encode_push(node, program.push[t], value, base)
        for k in entries:
            theirs = self.rows[program.merge_row[k]]
            self.received[node].append((program.merge_message[k], *theirs))
            if node in self._inboxes and program.merge_keep[k] < 0:
                continue
            value = merge_once(float(program.merge_keep[k]), value, theirs)
        if program.update[t] >= 0:
            value = train_once(node, program.update[t], value)
        self.rows[program.target[t]] = value

    def _sighting(self, sightings: PoolDeliveries, k: int) -> None:
        row = self.rows[sightings.row[k]]
        self.seen.append((sightings.pool[k], sightings.victim[k], sightings.message[k], *row))


def waves(plan: ExecutionPlan) -> list[tuple[I64, range]]:
    """Return the tasks and the pool deliveries of each wave."""
    tasks, sightings = plan.task_offsets, plan.sighting_offsets
    return [
        (plan.order[tasks[w] : tasks[w + 1]], range(sightings[w], sightings[w + 1]))
        for w in range(len(tasks) - 1)
    ]
