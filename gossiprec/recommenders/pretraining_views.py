"""Views of the rows of users and items that pre-training contrasts: through which edges, and with what noise.

References
----------
The PerFedRec++ paper (specification, section 5), eqs. 1-3, and its published code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.models.base.graph import Graph
from gossiprec.models.lightgcn.propagation import convolved, mean_of
from gossiprec.recommenders.pseudo_items import outside

if TYPE_CHECKING:
    from torch import Tensor

TINY = np.float32(1e-12)
"""Least norm that noise is divided by."""


def view_of(rows: Tensor, graph: Graph, *, layers: int, noise: float, draw: np.random.Generator) -> Tensor:
    """Return the mean of layers 1 to L of rows, with noise on each, of which the next is made.

    Parameters
    ----------
    rows : Tensor, shape (n_users + n_items, d)
        Layer 0, which is not in the mean.
    graph : Graph
    layers : int
        L, at least 1.
    noise : float
        Euclidean norm of the noise on each row of a layer.
    draw : Generator
    """
    import torch

    def changed(layer: Tensor) -> Tensor:
        return layer + torch.from_numpy(even_noise((len(layer), layer.shape[1]), noise, draw))

    return mean_of(convolved(rows, graph, layers, changed))


def even_noise(shape: tuple[int, int], size: float, draw: np.random.Generator) -> F32:
    """Return noise of Euclidean norm `size` in each row: in the proportions of draws from 0 to 1, so none negative.

    Parameters
    ----------
    shape : tuple of int
        Rows and dimensions.
    size : float
    draw : Generator
    """
    uniform = draw.random(shape, np.float32)
    norms = np.linalg.norm(uniform, axis=1, keepdims=True)
    return np.asarray(uniform * (np.float32(size) / np.maximum(norms, TINY)), np.float32)


def mixed(graph: Graph, users: I64, share: float, draw: np.random.Generator) -> Graph:
    """Return the edges of some users, with pseudo edges of theirs: drawn uniformly, none twice and none a true one.

    Parameters
    ----------
    graph : Graph
    users : ndarray of int64, shape (n,)
        Ascending, each once.
    share : float
        Pseudo edges are ``floor(share * true edges kept)``, or as many as there can be.
    draw : Generator
    """
    kept = np.isin(graph.users, users)
    true_users, true_items = graph.users[kept], graph.items[kept]
    taken = np.unique(np.searchsorted(users, true_users) * graph.n_items + true_items)
    n_others = len(users) * graph.n_items - len(taken)
    ranks = draw.choice(n_others, min(n_others, int(share * len(taken))), replace=False)
    place, pseudo_items = np.divmod(outside(taken, ranks), graph.n_items)
    return Graph(
        graph.n_users,
        graph.n_items,
        np.concatenate([true_users, users[place]]),
        np.concatenate([true_items, pseudo_items]),
    )
