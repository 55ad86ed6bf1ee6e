"""The graph of users and the items that they have taken, and what its normalised matrix makes of their rows."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gossiprec.arrays import F32, I32, I64
from gossiprec.models.base.model import Model
from gossiprec.ragged import Ragged

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class InteractionGraph:
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
    def of(cls, positives: Ragged, n_items: int) -> InteractionGraph:
        """Return the graph of each user's items."""
        return cls(len(positives), n_items, positives.owners, positives.values.astype(np.int64))

    def without(self, share: float, draw: np.random.Generator) -> InteractionGraph:
        """Return the graph without a part of its edges, drawn uniformly."""
        n_edges = len(self.users)
        kept = np.sort(draw.choice(n_edges, int(n_edges * (1.0 - share)), replace=False))
        return InteractionGraph(self.n_users, self.n_items, self.users[kept], self.items[kept])

    def times(self, rows: Tensor) -> Tensor:
        """Return ``D^-1/2 A D^-1/2 rows``, with a gradient; whoever has no edge gets zeros.

        Parameters
        ----------
        rows : Tensor, shape (n_users + n_items, d)
        """
        from gossiprec.models.base.graph_product import sparse_product

        return sparse_product(rows, *self._matrix)

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


class GraphModel(Model):
    """A model whose scores and losses are taken of what a graph makes of the rows: :meth:`encode`, then the formula.

    It has one block for users and one for items. Whoever trains or scores it encodes first, once for a step and once
    for a report. :meth:`score` and :meth:`loss` then find the encoded rows as ``p["users"]`` and ``p["items"]``; of
    rows that are not encoded they are those of the model without a graph.
    """

    needs_graph: ClassVar[bool] = True
    at_clients: ClassVar[bool] = False
    """Whether a client can train it that knows no graph but that of its own items (:meth:`encode_own`)."""

    @abstractmethod
    def encode(self, p: Mapping[str, Tensor], graph: InteractionGraph) -> Mapping[str, Tensor]:
        """Return `p` with encoded rows, of the same shapes, as ``users`` and ``items``: what is recommended by."""

    def encode_own(self, p: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return what the loss of a client's step is taken of: rows encoded by its user and the items of its batch.

        Parameters
        ----------
        p, batch : mapping of str to Tensor
            As of :meth:`loss`: the client's model, and its samples with ``weights``, 0 for padding.
        """
        raise NotImplementedError(f"{type(self).__name__} is trained with the interaction graph of all users")

    def views(self, graph: InteractionGraph, draw: np.random.Generator) -> Sequence[InteractionGraph]:
        """Return what else an epoch's steps look through, drawn anew for each epoch."""
        return ()

    def encode_step(
        self,
        p: Mapping[str, Tensor],
        graph: InteractionGraph,
        views: Sequence[InteractionGraph],
        draw: np.random.Generator,
    ) -> Mapping[str, Tensor]:
        """Return what the loss of one step is taken of: encoded rows, and whatever else :meth:`loss` wants.

        Parameters
        ----------
        p : mapping of str to Tensor
        graph : Graph
        views : sequence of Graph
            What :meth:`views` has drawn for the epoch.
        draw : numpy.random.Generator
            Of the step.
        """
        return self.encode(p, graph)
