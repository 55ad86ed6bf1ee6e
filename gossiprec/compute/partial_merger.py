"""The merging of messages of which some numbers were not sent: the receiver keeps its own value of those."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.ragged import row_entries
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena, merge_keys


class PartialMerger:
    """The step that merges received rows with missing numbers (NaN), before the executor runs.

    The result is written to the task's target, which then is also its source; its merges become merges of that row with
    itself and change nothing. So no executor and no run without such messages has anything to do with them.

    Parameters
    ----------
    is_partial, has_inbox : ndarray of bool, shape (n_nodes,)
        Nodes with messages that may lack numbers, and nodes with an aggregator that reduces what they receive.
    arena : Arena
    seed : int
    """

    def __init__(self, is_partial: Bools, has_inbox: Bools, arena: Arena, seed: int) -> None:
        self._is_partial, self._has_inbox = is_partial, has_inbox
        self._arena, self._seed = arena, seed

    def prepare(self, program: Program, tasks: I64) -> None:
        """Merge what the tasks of one wave have received, if some of it lacks numbers."""
        tasks = tasks[~self._has_inbox[program.node[tasks]]]
        entries, place = row_entries(program.merge_offsets, tasks)
        partial = self._is_partial[program.merge_sender[entries]]
        tasks = tasks[np.unique(place[partial])]
        if not len(tasks):
            return
        entries, place = row_entries(program.merge_offsets, tasks)
        ends = np.cumsum(np.bincount(place, minlength=len(tasks)))
        source, target, rows = program.source[tasks], program.target[tasks], program.merge_row[entries]
        if type(self._arena) is Arena and not self._arena.is_half:
            self._merge(self._arena.rows, source, target, ends, rows, program.merge_keep[entries])
        else:
            self._merge_copies(program, tasks, entries, ends)
        program.source[tasks] = target
        program.merge_row[entries], program.merge_keep[entries] = target[place], 1.0

    def _merge_copies(self, program: Program, tasks: I64, entries: I64, ends: I64) -> None:
        """Merge in copies of the rows, for stores of other numbers or on a device."""
        arena, n = self._arena, len(tasks)
        rows = np.concatenate([arena.load(program.source[tasks]), arena.load(program.merge_row[entries])])
        own, received = np.arange(n, dtype=np.int32), np.arange(n, len(rows), dtype=np.int32)
        self._merge(rows, own, own, ends, received, program.merge_keep[entries])
        keys = merge_keys(program, tasks, self._seed) if arena.is_half else None
        arena.store(program.target[tasks], rows[:n], keys)

    def _merge(self, rows: F32, source: I32, target: I32, ends: I64, received: I32, keeps: F32) -> None:
        from gossiprec.numerics.partial_rows import merge_sent

        merged = self._arena.layout.merged
        merge_sent(rows, source, target, ends, received, keeps, merged.start, merged.stop)
