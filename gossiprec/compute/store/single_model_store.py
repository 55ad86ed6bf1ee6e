"""The store of a run with one model, to which every handle refers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I32, I64, U32, Bools, are_all_finite
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.store.base import Handles, ScoringView
from gossiprec.models.base.parameter_blocks import Layout


class SingleModelStore(Arena):
    """An arena of one row, the coordinator's model, by which all users are scored.

    Parameters
    ----------
    layout : Layout
        The layout with the rows of all users.
    moments : bool
        Whether there are Adam moments.
    """

    def __init__(self, layout: Layout, *, moments: bool) -> None:
        super().__init__(layout, n_nodes=1, capacity=1, moments=moments)

    def load(self, handles: Handles) -> F32:
        """Return copies of the model, shape (n, row_size)."""
        return super().load(np.zeros_like(handles))

    def store(self, handles: Handles, values: F32, keys: U32 | None) -> None:
        """Store the last of the given models."""
        self.rows[0] = values[-1]

    def are_finite(self, handles: Handles, nodes: I32) -> Bools:
        """Return whether the model is finite."""
        return np.full(len(handles), are_all_finite(self.rows[0]))

    def models(self, current: I64, nodes: I64) -> F32:
        """Return copies of the model."""
        return self.load(nodes)

    def readable(self, current: I64, users: I64) -> ScoringView:
        """Return the model, shared by all the given users."""
        return ScoringView(self.layout, self.rows, np.zeros(len(users), np.int64), users, together=True)

    def grow(self, capacity: int) -> None:
        """Do nothing: the one row serves all handles."""

    def note(self, program: Program) -> None:
        """Note that the model changes."""
        self._rows_written.note(np.zeros(1, np.int64))
        self._moments_written.note(np.arange(len(self.first)))

    def state(self, needed: I64, now: float) -> dict[str, Any]:
        """Return the model and its optimizer's state, for a checkpoint."""
        return super().state(np.zeros(1, np.int64), now)
