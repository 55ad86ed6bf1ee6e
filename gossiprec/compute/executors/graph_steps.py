"""Gradients of a graph model that needs encoded rows only at the users and items of a batch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gossiprec.base.arrays import F32, I64
from gossiprec.models.base.graph import GraphModel, InteractionGraph
from gossiprec.models.base.graph_product import add_rows
from gossiprec.models.feeds.base import Columns


class BatchRowGradient:
    """The gradient of models with :attr:`GraphModel.layers_of_batches`: autograd for a batch's rows, products for all.

    A step multiplies by the graph as often as autograd would. But the last layer is computed for the rows of the batch
    only, its slopes are zero elsewhere, and no other table of all rows is made. The bytes are those of autograd.

    Parameters
    ----------
    model : GraphModel
    graph : InteractionGraph
    n_layers : int
    """

    def __init__(self, model: GraphModel, graph: InteractionGraph, n_layers: int) -> None:
        self._model, self._graph, self._n_layers = model, graph, n_layers
        self._place = np.full(graph.n_users + graph.n_items, -1, np.int32)
        self._tables: list[F32] = []  # of each layer but the first and the last, and two of slopes

    def of(self, rows: F32, batch: Columns) -> F32:
        """Return the gradient of the loss of a batch by the rows of layer 0.

        Parameters
        ----------
        rows : ndarray of float32, shape (n_users + n_items, d)
            The rows of users, then of items.
        batch : Columns
            ``user``, ``items`` and ``negatives``, shape (n_samples,) each.

        Returns
        -------
        ndarray of float32, shape (n_users + n_items, d)
            The next call overwrites it.
        """
        n_samples, n_users, matrix = len(batch["user"]), self._graph.n_users, self._graph.matrix
        users, user = np.unique(batch["user"], return_inverse=True)
        items, item = np.unique(np.concatenate([batch["items"], batch["negatives"]]), return_inverse=True)
        touched = np.concatenate([users, items + n_users]).astype(np.int64)
        samples = {"user": user, "items": item[:n_samples], "negatives": item[n_samples:]}

        if not self._tables:
            self._tables = [np.empty_like(rows) for _ in range(self._n_layers + 1)]
        *tables, found, other = self._tables
        layers = [rows]
        for table in tables:
            layers.append(matrix.times(layers[-1], out=table))
        some = [*(layer.take(touched, axis=0) for layer in layers), matrix.times(layers[-1], touched)]
        own, of_layers = self._slopes(rows[touched], some, len(users), samples)

        self._place[touched] = np.arange(len(touched))
        slopes = of_layers.pop()
        matrix.times_few(self._place, np.zeros_like(own) if slopes is None else slopes, out=found)
        self._place[touched] = -1
        while of_layers:
            slopes = of_layers.pop()
            if slopes is not None:
                add_rows(found, touched, slopes)
            if of_layers:
                found, other = matrix.times(found, out=other), found
        add_rows(found, touched, own)
        return found

    def _slopes(
        self, own: F32, layers: list[F32], n_users: int, samples: dict[str, I64]
    ) -> tuple[F32, list[F32 | None]]:
        """Return the derivatives by the batch's rows that the loss reads directly, and by these rows of each layer."""
        model, none = self._model, np.zeros(0, np.int64)
        graph = InteractionGraph(n_users, len(own) - n_users, none, none)
        leaf, *leaves = (torch.from_numpy(each).requires_grad_() for each in (own, *layers))
        p = {"users": leaf[:n_users], "items": leaf[n_users:]}
        batch = {name: torch.from_numpy(column) for name, column in samples.items()}
        found = model.encode_rows(p, leaves, graph)
        loss = model.loss(found, {**batch, "weights": torch.ones(len(batch["user"]))})
        torch.autograd.backward(loss)
        return _grad(leaf), [None if each.grad is None else each.grad.numpy() for each in leaves]


def _grad(leaf: Tensor) -> F32:
    return np.zeros(tuple(leaf.shape), np.float32) if leaf.grad is None else leaf.grad.numpy()
