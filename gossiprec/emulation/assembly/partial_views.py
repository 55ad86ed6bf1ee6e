"""What observers see of models of which some numbers were not sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.adversaries.attacks.observations import MergeDeliveries
from gossiprec.base.arrays import F32, I32, Bools
from gossiprec.base.rng import generator
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.runs.checkpoint_state import Stateful

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.components import RunComponents


class PartialViews(Stateful):
    """The completion of received models for observers, which score whole models.

    A single observer takes its own value of an item's number or a shared weight that was not sent. A pool takes the one
    that it received last from the same node, and before that the one with which all nodes begin. A number of the user's
    row that an observer does not have counts as zero.

    Parameters
    ----------
    layout : Layout
    is_partial : ndarray of bool, shape (n_nodes,)
        The nodes with messages that may lack numbers.
    n_pools : int
    first : ndarray of float32, shape (row_size,)
        The version with which all nodes begin, without a user's row.
    """

    checkpointed = ("latest", "met")

    def __init__(self, layout: Layout, is_partial: Bools, n_pools: int, first: F32) -> None:
        self._layout, self._is_partial, self._first = layout, is_partial, first
        self._latest = np.zeros((n_pools, len(is_partial), layout.row_size), np.float32)
        self._met = np.zeros((n_pools, len(is_partial)), np.bool_)

    def complete_merges(self, raw: MergeDeliveries, senders: I32) -> None:
        """Complete the models that single observers are about to merge, in copies of their rows."""
        program, layout = raw.program, self._layout
        for entry in np.flatnonzero(self._is_partial[senders]).tolist():
            task = int(np.searchsorted(program.merge_offsets, entry, side="right")) - 1
            row, own = raw.rows[program.merge_row[entry]], raw.rows[program.source[task]]
            own = own.copy()
            if layout.n_users == 1:
                own[layout.users] = 0.0
            _fill(row[: layout.shared.stop], own)

    def complete(self, rows: F32, pools: I32, senders: I32) -> None:
        """Complete copies of models that pools receive; the pairs of pool and sender are distinct."""
        for row, pool, sender in zip(rows, pools.tolist(), senders.tolist(), strict=True):
            if self._is_partial[sender]:
                latest = self._latest[pool, sender]
                if not self._met[pool, sender]:
                    latest[:], self._met[pool, sender] = self._first, True
                _fill(row[: self._layout.shared.stop], latest)
                latest[: self._layout.shared.stop] = row[: self._layout.shared.stop]


def _fill(row: F32, known: F32) -> None:
    missing = np.isnan(row)
    row[missing] = known[: len(row)][missing]


def make_partial_views(components: RunComponents, attacks: list[Attack]) -> PartialViews | None:
    """Return the completion of partial models for attacks, or None if there are none of either."""
    partial = components.outgoing.nodes_with("is_partial")
    if not attacks or not partial.any() or components.mode.sizes_follow_training:
        return None
    layout, draw = components.layout, generator(components.scenario.seed, "initial-common", 0)
    first = np.zeros(layout.row_size, np.float32)
    first[layout.items.start : layout.shared.stop] = layout.initial_common(draw)
    return PartialViews(layout, partial, sum(len(attack.pools) for attack in attacks), first)
