"""The arena: every live model version as one row of one array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.models.base import Layout

F32 = npt.NDArray[np.float32]


class Arena:
    """Rows of parameters, and the optimizer state that belongs to the nodes.

    Parameters
    ----------
    layout : Layout
    n_nodes : int
        The first `n_nodes` rows are the nodes' first versions.
    capacity : int
        Rows in all. Memory of a row is taken when it is first written.
    moments : bool
        Whether nodes have Adam moments.

    Attributes
    ----------
    rows : ndarray of float32, shape (capacity, row_size)
    first, second : ndarray of float32, shape (n_nodes, row_size) or (0, row_size)
        Adam's moments.
    steps : ndarray of int64, shape (n_nodes,)
        Optimizer steps taken.
    """

    def __init__(self, layout: Layout, *, n_nodes: int, capacity: int, moments: bool) -> None:
        self.layout = layout
        self.n_nodes = n_nodes
        self.rows: F32 = np.zeros((capacity, layout.row_size), np.float32)
        owners = n_nodes if moments else 0
        self.first: F32 = np.zeros((owners, layout.row_size), np.float32)
        self.second: F32 = np.zeros((owners, layout.row_size), np.float32)
        self.steps = np.zeros(n_nodes, np.int64)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        if capacity > len(self.rows):
            rows = np.zeros((capacity, self.layout.row_size), np.float32)
            rows[: len(self.rows)] = self.rows
            self.rows = rows
