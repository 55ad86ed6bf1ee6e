"""The graph of users and the items that they have taken, and what its normalised matrix makes of their rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.arrays import F32, I32, I64
from gossiprec.ragged import Ragged

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Graph:
    """Users 0 .. n_users - 1, then items, joined where a user has taken an item: of everybody, or of one client.

    Attributes
    ----------
    users, items : ndarray of int64, shape (n_edges,)
        The ends of each edge; no edge twice.
    """

    n_users: int
    n_items: int
    users: I64
    items: I64

    @classmethod
    def of(cls, positives: Ragged, n_items: int) -> Graph:
        """Return the graph of each user's items."""
        return cls(len(positives), n_items, positives.owners, positives.values.astype(np.int64))

    def without(self, share: float, draw: np.random.Generator) -> Graph:
        """Return the graph without a part of its edges, drawn uniformly."""
        n_edges = len(self.users)
        kept = np.sort(draw.choice(n_edges, int(n_edges * (1.0 - share)), replace=False))
        return Graph(self.n_users, self.n_items, self.users[kept], self.items[kept])

    def times(self, rows: Tensor) -> Tensor:
        """Return ``D^-1/2 A D^-1/2 rows``, with a gradient; whoever has no edge gets zeros.

        Parameters
        ----------
        rows : Tensor, shape (n_users + n_items, d)
        """
        from gossiprec.models.base.graph_product import product

        return product(rows, *self._matrix)

    @functools.cached_property
    def _matrix(self) -> tuple[I64, I32, F32]:
        """The matrix by rows: where each begins, its columns, its values."""
        ends = self.users, self.items + self.n_users
        row, column = np.concatenate(ends), np.concatenate(ends[::-1])
        order = np.lexsort((column, row))
        degrees = np.bincount(row, minlength=self.n_users + self.n_items)
        scale = 1.0 / np.sqrt(np.maximum(degrees, 1))
        values = (scale[row] * scale[column]).astype(np.float32)
        return (
            np.concatenate([[0], np.cumsum(degrees)]),
            column[order].astype(np.int32),
            values[order],
        )
