"""The bipartite graph of users and items, and products of its normalised matrix with their rows."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
from numpy.random import Generator

from gossiprec.base.arrays import I64
from gossiprec.base.machine import CALLING_THREAD, ThreadPoolLike
from gossiprec.base.ragged import Ragged
from gossiprec.models.base import Model
from gossiprec.models.base.parameter_blocks import TensorMap

if TYPE_CHECKING:
    from torch import Tensor

    from gossiprec.models.base.graph_product import SymmetricMatrix


Graphs: TypeAlias = "Sequence[InteractionGraph]"


@dataclass(frozen=True, eq=False)
class InteractionGraph:
    """Users 0 .. n_users - 1, then items, linked by interactions: of all users, or of one client.

    Attributes
    ----------
    users, items : ndarray of int64, shape (n_edges,)
        The ends of each edge; edges are distinct.
    threads : ThreadPoolLike
        Threads that divide the products among them.
    """

    n_users: int
    n_items: int
    users: I64
    items: I64
    threads: ThreadPoolLike = CALLING_THREAD

    @classmethod
    def of(
        cls, positives: Ragged, n_items: int, threads: ThreadPoolLike = CALLING_THREAD
    ) -> InteractionGraph:
        """Return the graph of each user's items."""
        users, items = positives.row_of_each_value, positives.values.astype(np.int64)
        return cls(len(positives), n_items, users, items, threads)

    def drop_random_edges(self, share: float, draw: Generator) -> InteractionGraph:
        """Return the graph without a share of its edges, drawn uniformly."""
        n_edges = len(self.users)
        kept = np.sort(draw.choice(n_edges, int(n_edges * (1.0 - share)), replace=False))
        return replace(self, users=self.users[kept], items=self.items[kept])

    def propagate(self, rows: Tensor) -> Tensor:
        """Return ``D^-1/2 A D^-1/2 rows``, with a gradient; nodes without edges get zeros.

        Parameters
        ----------
        rows : Tensor, shape (n_users + n_items, d)
        """
        from gossiprec.models.base.graph_product import sparse_product

        return sparse_product(rows, self.matrix)

    @functools.cached_property
    def matrix(self) -> SymmetricMatrix:
        """The normalised matrix of users, then items."""
        from gossiprec.models.base.graph_product import SymmetricMatrix

        ends = self.users, self.items + self.n_users
        row, column = np.concatenate(ends), np.concatenate(ends[::-1])
        order = np.lexsort((column, row))
        degrees = np.bincount(row, minlength=self.n_users + self.n_items)
        scale = 1.0 / np.sqrt(np.maximum(degrees, 1))
        values = (scale[row] * scale[column]).astype(np.float32)
        starts = np.concatenate([[0], np.cumsum(degrees)])
        return SymmetricMatrix(starts, column[order].astype(np.int32), values[order], self.threads)


class GraphModel(Model):
    """A model with scores and losses that use rows encoded by a graph: :meth:`encode`, then the formula.

    It has one block for users and one for items. Training and scoring encode first, once per step and once per
    report. :meth:`score` and :meth:`loss` then find the encoded rows as ``p["users"]`` and ``p["items"]``; without
    encoding they compute the model without a graph.
    """

    needs_graph: ClassVar[bool] = True
    at_clients: ClassVar[bool] = False
    """Whether a client can train it with the graph of its own items only (:meth:`encode_client`)."""

    @property
    def layers_of_batches(self) -> int | None:
        """The number of layers, if :meth:`loss` needs only the rows of a batch from each layer, or None.

        Central training then encodes by :meth:`encode_rows`, and multiplies by the graph without autograd.
        """
        return None

    def encode_rows(self, p: TensorMap, layers: Sequence[Tensor], graph: InteractionGraph) -> TensorMap:
        """Return the inputs of :meth:`loss`, given some rows of each layer: row by row what a step would encode.

        Parameters
        ----------
        p : mapping of str to Tensor
            Some rows of ``users`` and ``items``.
        layers : sequence of Tensor
            The same rows of layers 0, 1, ..., users first.
        graph : InteractionGraph
            Its numbers of users and items are those of the rows; it has no edges.
        """
        raise NotImplementedError(f"{type(self).__name__} is encoded with all rows")

    @abstractmethod
    def encode(self, p: TensorMap, graph: InteractionGraph) -> TensorMap:
        """Return `p` with the encoded rows for recommendation, of the same shapes, as ``users`` and ``items``."""

    def encode_client(self, p: TensorMap, batch: TensorMap) -> TensorMap:
        """Return the inputs of a client's loss: rows encoded by its user and the items of its batch.

        Parameters
        ----------
        p, batch : mapping of str to Tensor
            As in :meth:`loss`: the client's model, and its samples with ``weights``, 0 for padding.
        """
        raise NotImplementedError(f"{type(self).__name__} is trained with the interaction graph of all users")

    def draw_views(self, graph: InteractionGraph, draw: Generator) -> Graphs:
        """Return further graphs for the steps of an epoch, drawn for each epoch."""
        return ()

    def encode_step(self, p: TensorMap, graph: InteractionGraph, views: Graphs, draw: Generator) -> TensorMap:
        """Return the inputs of one step's loss: encoded rows, and other inputs of :meth:`loss`.

        Parameters
        ----------
        p : mapping of str to Tensor
        graph : InteractionGraph
        draw_views : sequence of InteractionGraph
            The graphs that :meth:`draw_views` returned for the epoch.
        draw : numpy.random.Generator
            Generator of the step.
        """
        return self.encode(p, graph)
