"""What the coordinator does before the first round: rows of users and items learn to tell their own views from others'.

References
----------
The PerFedRec++ paper (specification, section 5), eqs. 1-3, and its published code. View and loss are those of SimGCL
(Yu et al., SIGIR 2022), without a recommendation to learn.

Notes
-----
`views: noise` is the published code: noise after every propagation through the graph of all interactions, not aligned
with the signs of rows as in SimGCL, and the mean over layers 1 to L, as in :mod:`gossiprec.models.simgcl`: layer 0 is
in no mean. `views: mix` is the paper, whose equations the code builds and then ignores. Its views lack the edges of
users that were not drawn for the step and have random pseudo edges, besides the noise; the paper leaves open how many,
and between whom: here a share of the true edges, of drawn users, each view's by itself. The code adds 1e-5 to the
softmax before the logarithm, which changes little and is not done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from gossiprec.arrays import F32, I64
from gossiprec.errors import ScenarioError
from gossiprec.models.base.graph import Graph
from gossiprec.models.lightgcn.contrast import info_nce
from gossiprec.numerics.one_thread import one_torch_thread
from gossiprec.options import LARGEST, Options
from gossiprec.recommenders.pretraining_views import mixed, view_of
from gossiprec.rng import generator

if TYPE_CHECKING:
    from torch import Tensor


class PretrainingOptions(Options):
    """Options of the coordinator's pre-training."""

    epochs: int = Field(default=5, ge=0, le=10**4, description="k, number of Adam steps; 0: no pre-training")
    views: Literal["noise", "mix"] = Field(
        default="noise", description="views: as in the published code, or as in eqs. 1-3 of the paper"
    )
    noise: float = Field(default=0.1, gt=0, description="norm of the noise on a row of a layer")
    temperature: float = Field(default=0.2, gt=0, description="tau")
    sampled: int = Field(
        default=256,
        ge=2,
        le=LARGEST,
        description="number of users, and of items, contrasted per step (all, if there are fewer)",
    )
    learning_rate: float = Field(default=0.05, gt=0, le=10**6, description="of Adam")
    pseudo_edges: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="number of random edges added in views mix, as a fraction of the true edges of a view",
    )


def pretrained(
    users: F32, items: F32, graph: Graph, options: PretrainingOptions, *, layers: int, seed: int
) -> tuple[F32, F32]:
    """Return rows after one step of Adam an epoch on the InfoNCE of two views: that of users and that of items.

    Parameters
    ----------
    users : ndarray of float32, shape (n_users, d)
    items : ndarray of float32, shape (n_items, d)
    graph : Graph
        Of all training interactions, without the views' changes.
    options : PretrainingOptions
    layers : int
        L, at least 1.
    seed : int
        What an epoch draws depends on (seed, purpose, epoch) alone.

    Returns
    -------
    ndarray of float32, shape (n_users, d)
    ndarray of float32, shape (n_items, d)
        New arrays, the same whatever torch's threads are. A row of which no contrasted row is made stays.

    Raises
    ------
    ScenarioError
        If they have numbers that are not finite.
    ValueError
        If there are not as many rows as users and items of the graph.
    """
    import torch

    from gossiprec.numerics.optimizers import Adam

    if (len(users), len(items)) != (graph.n_users, graph.n_items):
        raise ValueError(
            f"found rows of {len(users)} users and {len(items)} items; expected {graph.n_users} and {graph.n_items}, "
            "as in the graph"
        )
    rows = torch.from_numpy(np.concatenate([users, items])).requires_grad_()
    adam = Adam([rows], lr=options.learning_rate, foreach=False)
    with one_torch_thread():
        for epoch in range(options.epochs):
            adam.zero_grad()
            loss = _contrast(rows, graph, options, layers=layers, seed=seed, epoch=epoch)
            torch.autograd.backward(loss)
            adam.step()
    found = rows.detach().numpy()
    if not np.isfinite(found).all():
        raise ScenarioError(
            "recommender: pre-training produced NaN or infinite values; lower its learning_rate or noise, "
            "or raise its temperature"
        )
    return found[: graph.n_users].copy(), found[graph.n_users :].copy()


def users_of(n_users: int, options: PretrainingOptions, *, seed: int, epoch: int) -> I64:
    """Return the users drawn for an epoch, ascending: those contrasted, and whose edges are in the views of `mix`."""
    return _some(n_users, options.sampled, generator(seed, "pretraining-users", 0, epoch))


def items_of(n_items: int, options: PretrainingOptions, *, seed: int, epoch: int) -> I64:
    """Return the items contrasted in an epoch, ascending."""
    return _some(n_items, options.sampled, generator(seed, "pretraining-items", 0, epoch))


def _contrast(
    rows: Tensor, graph: Graph, options: PretrainingOptions, *, layers: int, seed: int, epoch: int
) -> Tensor:
    """Return the mean InfoNCE of the epoch's users, plus that of its items."""
    import torch

    users = users_of(graph.n_users, options, seed=seed, epoch=epoch)
    items = items_of(graph.n_items, options, seed=seed, epoch=epoch) + graph.n_users
    views = []
    for number in range(2):
        seen = graph
        if options.views == "mix":
            edges = generator(seed, "pretraining-edges", number, epoch)
            seen = mixed(graph, users, options.pseudo_edges, edges)
        draw = generator(seed, "pretraining-noise", number, epoch)
        views.append(view_of(rows, seen, layers=layers, noise=options.noise, draw=draw))
    one, other = views
    of_users, of_items = (
        info_nce(one[some], other[some], options.temperature)
        for some in (torch.from_numpy(users), torch.from_numpy(items))
    )
    return of_users + of_items


def _some(n: int, number: int, draw: np.random.Generator) -> I64:
    return np.sort(draw.choice(n, min(n, number), replace=False))
