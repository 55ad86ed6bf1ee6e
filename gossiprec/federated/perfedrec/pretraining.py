"""Pre-training at the coordinator before the first round: contrastive learning of rows, and what it discloses.

The rows of users and items are contrasted in two views of the graph, with pseudo edges.

References
----------
The PerFedRec++ paper (specification, section 5), eqs. 1-3, and its published code. View and loss are as in SimGCL
(Yu et al., SIGIR 2022), without a recommendation to learn.

Notes
-----
`views: noise` is the published code: noise after every propagation through the graph of all interactions, not aligned
with the signs of rows as in SimGCL, and the mean over layers 1 to L, as in :mod:`gossiprec.models.simgcl`: layer 0 is
in no mean. `views: mix` is the paper; the code builds its equations and then ignores them. Its views lack the edges of
users that were not drawn for the step and have random pseudo edges, in addition to the noise. The paper leaves open how
many, and between which nodes: here a share of the true edges, of drawn users, independently per view. The code adds
1e-5 to the softmax before the logarithm, which changes little and is left out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.rng import generator
from gossiprec.federated.user_vectors import complement_by_rank
from gossiprec.models.base.contrastive import mean_info_nce
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.models.lightgcn import mean_of_layers, propagate
from gossiprec.numerics.torch_setup import single_torch_thread

if TYPE_CHECKING:
    from torch import Tensor


TINY = np.float32(1e-12)
"""Least norm by which noise is divided."""


def make_view(
    rows: Tensor, graph: InteractionGraph, *, layers: int, noise: float, draw: np.random.Generator
) -> Tensor:
    """Return the mean of layers 1 to L of rows; each layer gets noise before the next is computed.

    Parameters
    ----------
    rows : Tensor, shape (n_users + n_items, d)
        Layer 0, which is not in the mean.
    graph : InteractionGraph
    layers : int
        L, at least 1.
    noise : float
        Euclidean norm of the noise on each row of a layer.
    draw : Generator
    """
    import torch

    def changed(layer: Tensor) -> Tensor:
        return layer + torch.from_numpy(nonnegative_noise((len(layer), layer.shape[1]), noise, draw))

    return mean_of_layers(propagate(rows, graph, layers, changed))


def nonnegative_noise(shape: tuple[int, int], size: float, draw: np.random.Generator) -> F32:
    """Return nonnegative noise of Euclidean norm `size` in each row, in the proportions of uniform draws.

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


def mix_pseudo_edges(
    graph: InteractionGraph, users: I64, share: float, draw: np.random.Generator
) -> InteractionGraph:
    """Return the edges of some users with pseudo edges, drawn uniformly, all different and none a true edge.

    Parameters
    ----------
    graph : InteractionGraph
    users : ndarray of int64, shape (n,)
        Ascending, each once.
    share : float
        The number of pseudo edges is ``floor(share * true edges kept)``, or the largest possible if that is less.
    draw : Generator
    """
    kept = np.isin(graph.users, users)
    true_users, true_items = graph.users[kept], graph.items[kept]
    taken = np.unique(np.searchsorted(users, true_users) * graph.n_items + true_items)
    n_others = len(users) * graph.n_items - len(taken)
    ranks = draw.choice(n_others, min(n_others, int(share * len(taken))), replace=False)
    place, pseudo_items = np.divmod(complement_by_rank(taken, ranks), graph.n_items)
    return InteractionGraph(
        graph.n_users,
        graph.n_items,
        np.concatenate([true_users, users[place]]),
        np.concatenate([true_items, pseudo_items]),
    )


class PretrainingOptions(Options):
    """Options of the coordinator's pre-training."""

    epochs: int = Field(default=5, ge=0, le=10**4)
    """k, number of Adam steps; 0: no pre-training"""
    views: Literal["noise", "mix"] = "noise"
    """views: as in the published code, or as in eqs. 1-3 of the paper"""
    noise: float = Field(default=0.1, gt=0)
    """norm of the noise on a row of a layer"""
    temperature: float = Field(default=0.2, gt=0)
    """tau"""
    sampled: int = Field(default=256, ge=2, le=LARGEST)
    """number of users, and of items, contrasted per step (all, if there are fewer)"""
    learning_rate: float = Field(default=0.05, gt=0, le=10**6)
    """of Adam"""
    pseudo_edges: float = Field(default=0.1, ge=0, le=1)
    """number of random edges added in views mix, as a fraction of the true edges of a view"""


def pretrain(
    users: F32, items: F32, graph: InteractionGraph, options: PretrainingOptions, *, layers: int, seed: int
) -> tuple[F32, F32]:
    """Return rows after one step of Adam per epoch on the InfoNCE of two views, for users plus items.

    Parameters
    ----------
    users : ndarray of float32, shape (n_users, d)
    items : ndarray of float32, shape (n_items, d)
    graph : InteractionGraph
        Of all training interactions, without the views' changes.
    options : PretrainingOptions
    layers : int
        L, at least 1.
    seed : int
        The draws of an epoch depend only on (seed, purpose, epoch).

    Returns
    -------
    ndarray of float32, shape (n_users, d)
    ndarray of float32, shape (n_items, d)
        New arrays, independent of torch's threads. Rows that no contrasted row depends on stay unchanged.

    Raises
    ------
    ScenarioError
        If the rows contain numbers that are not finite.
    ValueError
        If the numbers of rows differ from the users and items of the graph.
    """
    import torch

    from gossiprec.numerics.torch_setup import make_adam

    if (len(users), len(items)) != (graph.n_users, graph.n_items):
        raise ValueError(
            f"found rows of {len(users)} users and {len(items)} items; expected {graph.n_users} and {graph.n_items}, "
            "as in the graph"
        )
    rows = torch.from_numpy(np.concatenate([users, items])).requires_grad_()
    adam = make_adam([rows], lr=options.learning_rate, foreach=False)
    with single_torch_thread():
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


def draw_epoch_users(n_users: int, options: PretrainingOptions, *, seed: int, epoch: int) -> I64:
    """Return the users drawn for an epoch, ascending: they are contrasted, and `mix` views have their edges."""
    return _some(n_users, options.sampled, generator(seed, "pretraining-users", 0, epoch))


def draw_epoch_items(n_items: int, options: PretrainingOptions, *, seed: int, epoch: int) -> I64:
    """Return the items contrasted in an epoch, ascending."""
    return _some(n_items, options.sampled, generator(seed, "pretraining-items", 0, epoch))


def _contrast(
    rows: Tensor, graph: InteractionGraph, options: PretrainingOptions, *, layers: int, seed: int, epoch: int
) -> Tensor:
    """Return the mean InfoNCE of the epoch's users, plus the mean of its items."""
    import torch

    users = draw_epoch_users(graph.n_users, options, seed=seed, epoch=epoch)
    items = draw_epoch_items(graph.n_items, options, seed=seed, epoch=epoch) + graph.n_users
    views = []
    for number in range(2):
        seen = graph
        if options.views == "mix":
            edges = generator(seed, "pretraining-edges", number, epoch)
            seen = mix_pseudo_edges(graph, users, options.pseudo_edges, edges)
        draw = generator(seed, "pretraining-noise", number, epoch)
        views.append(make_view(rows, seen, layers=layers, noise=options.noise, draw=draw))
    one, other = views
    of_users, of_items = (
        mean_info_nce(one[some], other[some], options.temperature)
        for some in (torch.from_numpy(users), torch.from_numpy(items))
    )
    return of_users + of_items


def _some(n: int, number: int, draw: np.random.Generator) -> I64:
    return np.sort(draw.choice(n, min(n, number), replace=False))


EDGE_BYTES = 8
"""Bytes of an uploaded edge: two numbers of 32 bits."""
NUMBER_BYTES = 4
"""Bytes of a number of a row."""


@dataclass(frozen=True, eq=False)
class EdgeDisclosure:
    """The true edges that the coordinator needs for pre-training.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_users,)
        Training interactions of each user.
    disclosed : ndarray of bool, shape (n_users,)
        Users that upload all their edges to the coordinator, once.
    pseudo_edges : float
        Mean number of pseudo edges per view and step, in addition to true ones.

    Notes
    -----
    With views of noise every step uses the whole graph: the coordinator holds all interactions, as in central
    training. With mixed views it needs the interactions of the users drawn in some epoch, each of which sends them when
    it is drawn first: ``1 - (1 - sampled / n_users)**epochs`` of the users, which comes near to all of them only after
    many epochs. Pseudo edges do not change this: they are drawn again for each view, so that an observer of two views
    recognises the true edges as nearly all edges in both; they augment and do not hide. To hide edges, a client would
    have to draw them once for all views.
    """

    edges: I64
    disclosed: Bools
    pseudo_edges: float

    @property
    def n_edges(self) -> int:
        """All true edges."""
        return int(self.edges.sum())

    @property
    def share(self) -> float:
        """Share of all true edges that the coordinator holds at the end, 0 if there are no edges."""
        return float(self.edges[self.disclosed].sum() / max(self.n_edges, 1))

    @property
    def sent_bytes(self) -> I64:
        """Bytes that each client sends for its edges, shape (n_users,)."""
        return np.where(self.disclosed, EDGE_BYTES * self.edges, 0)

    def received_bytes(self, dim: int) -> I64:
        """Return the bytes of the row of `dim` numbers that each client is sent, shape (n_users,)."""
        return np.where(self.disclosed, NUMBER_BYTES * dim, 0)

    def report(self, dim: int) -> dict[str, float | str]:
        """Return the section of a run's summary, with a note that explains it."""
        section: dict[str, float | str] = {
            "edges": self.n_edges,
            "share_of_edges_told": self.share,
            "clients_telling": int(self.disclosed.sum()),
            "pseudo_edges_of_a_view": self.pseudo_edges,
            "bytes_sent": int(self.sent_bytes.sum()),
            "bytes_received": int(self.received_bytes(dim).sum()),
        }
        if self.disclosed.any():
            section["note"] = (
                f"the coordinator receives {self.share:.1%} of the training interactions unmodified"
            )
        return section


def measure_edge_disclosure(
    graph: InteractionGraph, options: PretrainingOptions, seed: int
) -> EdgeDisclosure:
    """Return the edges that pre-training with this seed discloses.

    Parameters
    ----------
    graph : InteractionGraph
        Of all training interactions.
    options : PretrainingOptions
    seed : int
        The seed of :func:`gossiprec.federated.perfedrec.pretraining.pretrain`.
    """
    edges = np.bincount(graph.users, minlength=graph.n_users).astype(np.int64)
    if options.views == "noise" or not options.epochs:
        return EdgeDisclosure(edges, np.full(graph.n_users, options.epochs > 0), 0.0)
    disclosed, pseudo = np.zeros(graph.n_users, np.bool_), 0
    for epoch in range(options.epochs):
        users = draw_epoch_users(graph.n_users, options, seed=seed, epoch=epoch)
        n_true = int(edges[users].sum())
        disclosed[users] = True
        pseudo += min(int(options.pseudo_edges * n_true), len(users) * graph.n_items - n_true)
    return EdgeDisclosure(edges, disclosed, pseudo / options.epochs)
