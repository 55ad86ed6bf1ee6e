"""The coordinator of PerFedRec: it clusters clients by their users' rows, keeps a model of each, and averages rows.

Before the first round it may pre-train the rows and report what that discloses: the rows of users and items are
contrasted in two views of the graph, with pseudo edges.

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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F32, F64, I32, I64, Bools
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.rng import generator
from gossiprec.federated import CoordinatorContext, CoordinatorHook
from gossiprec.federated.user_vectors import complement_by_rank
from gossiprec.federated.vector_clustering import k_means
from gossiprec.models.base.contrastive import mean_info_nce
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.models.lightgcn import mean_of_layers, propagate
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.rules.aggregators import Inbox, ModelDelta
from gossiprec.rules.servers import USER_ROWS, ClientAnswers, Extras, RoundContext, Server

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
        The seed of :func:`gossiprec.federated.perfedrec.coordinator.pretrain`.
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


__all__ = ["USER_ROWS", "AveragedRows"]


class AveragedRows:
    """The table of users' rows at the coordinator, which answers change in the same way as the table of items.

    An answer holds its user's row after training. The change of that row is weighted by its client's share of the
    answers, so that a row moves by its client's step divided by the number of answers; a server treats these changes
    like the changes of items.

    Parameters
    ----------
    n_clients, width : int
    server : Server or None
        A server for these rows only, with its own state. If None, rows move by the changes.
    """

    def __init__(self, n_clients: int, width: int, server: Server | None) -> None:
        self._server = server
        self.rows: F32 = np.zeros((n_clients, width), np.float32)

    @property
    def extras(self) -> Extras:
        """The extras sent with the version: each client's row."""
        return {USER_ROWS: self.rows.copy()}

    def step(self, answers: ClientAnswers, round: RoundContext) -> None:
        """Move the rows by the answers of a round."""
        if answers.users is None or not len(answers.clients):
            return
        clients, width = answers.clients, self.rows.shape[1]
        moved = answers.users[:, :width] - self.rows[clients]
        moved[~np.isfinite(moved).all(axis=1)] = 0.0  # a poisoner uploads no user row
        shares = answers.inbox.weights / answers.inbox.weights.sum()
        aggregated = self.rows.copy()
        np.add.at(aggregated, clients, (shares[:, None] * moved).astype(np.float32))
        if self._server is None:
            self.rows = aggregated
            return
        nothing = np.zeros(0, np.float32)
        changes = [
            ModelDelta(np.array([client], np.int32), row[None], nothing)
            for client, row in zip(clients.tolist(), moved, strict=True)
        ]
        inbox = Inbox(self.rows, clients, answers.inbox.weights, deltas=changes)
        published = self.rows.reshape(-1)
        found = self._server.round(published, aggregated.reshape(-1), ClientAnswers(clients, inbox), round)
        self.rows = np.array(found.versions[0], np.float32).reshape(self.rows.shape)

    def state(self) -> dict[str, Any]:
        """Return the rows and the server's state, for a checkpoint."""
        return {"rows": self.rows, "server": {} if self._server is None else self._server.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        self.rows = state["rows"]
        if self._server is not None:
            self._server.restore(state["server"])


class ClusterOptions(Options):
    """Options of the clusters; the defaults are the rounds of the published code."""

    number: int = Field(default=5, ge=1, le=LARGEST)
    """K"""
    first: int = Field(default=44, ge=1, le=LARGEST)
    """round of the first clustering"""
    every: int = Field(default=6, ge=1, le=LARGEST)
    """rounds between two clusterings"""
    last: int | None = Field(default=None, ge=1, le=LARGEST)
    """last round with a clustering; null: the last round"""
    lasting: bool = True
    """true: clusters are kept until the next clustering; false: they are dropped after the choice of clients in the
    round of the clustering, as in the published code"""

    @model_validator(mode="after")
    def _in_order(self) -> ClusterOptions:
        if self.last is not None and self.last < self.first:
            raise ValueError(
                f"found last {self.last}, which is before first {self.first}; raise last, or remove it"
            )
        return self

    def is_due(self, round: int) -> bool:
        """Return whether clients are clustered in a round."""
        since = round - self.first
        return since >= 0 and since % self.every == 0 and (self.last is None or round <= self.last)


class ClusterModels(CoordinatorHook):
    """Clustering of the rows that clients uploaded last, with a model for each cluster.

    A cluster without an answer in a round keeps its model (`models` own), or recommends by the global one (round). At
    a clustering a model begins with the mean of the models of its members' previous clusters, the global one for a
    member without a cluster: new clusters are not matched with old ones.

    Parameters
    ----------
    known : CoordinatorContext
    options : ClusterOptions or None
        None if there are no clusters.
    models : str
        ``own``, ``round`` or ``none``.
    table_noise : float
        Scale of the Laplace variables; the mean of them, one per answer, is added to each number of an item.
    pretraining : PretrainingOptions, optional
    layers : int
        Layers for pre-training.
    averages_rows : bool
        Whether the coordinator holds and averages users' rows, see :class:`AveragedRows`.
    """

    checkpointed = ("rows", "cluster_of", "models", "published", "n_made")

    def __init__(
        self, context: CoordinatorContext, options: ClusterOptions | None, *, models: str, table_noise: float,
        pretraining: PretrainingOptions | None = None, layers: int = 0, averages_rows: bool = False,
    ) -> None:  # fmt: skip
        layout = context.layout
        n_columns = layout.merged.stop - layout.merged.start
        self._known, self._options, self._kind, self._table_noise = context, options, models, table_noise
        self._pretraining, self._layers = pretraining, layers
        if options is not None and options.number > context.n_clients:
            raise ScenarioError(
                f"recommender.clusters.number: found {options.number}, but there are only {context.n_clients} clients; "
                "lower it"
            )
        self._rows = np.full((context.n_clients, layout.user_width), np.nan, np.float32)
        self._cluster_of = np.full(context.n_clients, -1, np.int32)
        has_models = options is not None and models != "none"
        self._models = np.zeros((options.number if options and has_models else 0, n_columns), np.float32)
        self._published: F32 = np.zeros(0, np.float32)
        self._n_made = 0
        self._table: AveragedRows | None = None
        if has_models:
            self.extra_bytes = 4 + 4 * n_columns
            self.own_extras, self.one_of = frozenset({"cluster_of"}), frozenset({"cluster_models"})
        if averages_rows:
            self._table = AveragedRows(context.n_clients, layout.user_width, context.make_server())
            self.extra_bytes += 4 * layout.user_width
            self.own_extras |= {USER_ROWS}

    @property
    def groups(self) -> I64 | None:
        """The cluster of each client, or None if there are no clusters."""
        return None if self._options is None else self._cluster_of.astype(np.int64)

    def start(self, version: F32, users: F32) -> tuple[F32, F32]:
        """Pre-train if the options request it: clients then begin with rows that the coordinator knows."""
        if self._pretraining is not None and self._pretraining.epochs:
            version, users = self._pretrained(version, users)
        if self._table is not None:
            self._table.rows = users.copy()
        return version, users

    def _pretrained(self, version: F32, users: F32) -> tuple[F32, F32]:
        assert self._pretraining is not None
        layout, graph = self._known.layout, self._known.contribution
        width = layout.n_items * layout.item_width
        rows, items = pretrain(
            users[: graph.n_users], version[:width].reshape(layout.n_items, -1), graph, self._pretraining,
            layers=self._layers, seed=self._known.seed,
        )  # fmt: skip
        self._rows[: graph.n_users] = rows
        begun = np.concatenate([rows, users[graph.n_users :]])
        return np.concatenate([items.ravel(), version[width:]]), begun

    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version, with noise if the options request it, and the models of the clusters."""
        version, extras = self._noisy(version, len(answers.clients), round), {}
        if self._table is not None:
            self._table.step(answers, round)
            self._rows, extras = self._table.rows.copy(), dict(self._table.extras)
        if self._options is None:
            return version, extras
        if self._table is None and answers.users is not None:
            sent = np.isfinite(answers.users).all(axis=1)
            self._rows[answers.clients[sent]] = answers.users[sent]
        if len(self._models):
            self._move(version, answers)
        if self._options.is_due(round.number):
            self._cluster(version, round)
        elif not self._options.lasting:
            self._cluster_of[:] = -1
        if not len(self._models):
            return version, extras
        self._published = version.copy()
        clusters = {"cluster_models": self._models.copy(), "cluster_of": self._cluster_of.copy()}
        return version, {**extras, **clusters}

    def state(self) -> dict[str, Any]:
        """Return the changing state and the table of rows, if it is kept."""
        return {**super().state(), **({} if self._table is None else {"table": self._table.state()})}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        super().restore(state)
        if self._table is not None:
            self._table.restore(state["table"])

    def report(self) -> dict[str, Any]:
        """Return the edges revealed for pre-training, the clusterings, cluster sizes and clients without a vector."""
        clustered = self._cluster_of[self._cluster_of >= 0]
        section: dict[str, Any] = {
            "clusters": {
                "times": self._n_made,
                "sizes": np.bincount(clustered).tolist(),
                "unknown": int(np.isnan(self._rows).any(axis=1).sum()),
            }
        }
        if self._pretraining is not None and self._pretraining.epochs:
            known = measure_edge_disclosure(self._known.contribution, self._pretraining, self._known.seed)
            section["pretraining"] = known.report(self._known.layout.user_width)
        return section

    def _noisy(self, version: F32, n_answers: int, round: RoundContext) -> F32:
        """Return a version with the mean of each answer's Laplace noise added to its items.

        A Laplace variable is the difference of two exponentials, so the sum of n is the difference of two Gamma(n)
        variables.
        """
        if not self._table_noise or not n_answers:
            return version
        found, draw = version.copy(), round.generator("table-noise")
        width = self._known.layout.n_items * self._known.layout.item_width
        one, other = draw.standard_gamma(float(n_answers), (2, width))
        found[:width] += (self._table_noise / n_answers * (one - other)).astype(np.float32)
        return found

    def _move(self, version: F32, answers: ClientAnswers) -> None:
        """Move each cluster's model by its members' answers."""
        of = self._cluster_of[answers.clients]
        for cluster in range(len(self._models)):
            members = np.flatnonzero(of == cluster)
            if self._kind == "round":
                self._models[cluster] = self._published if len(members) else version
            if len(members):
                self._models[cluster] += self._mean_change(answers, members)

    def _mean_change(self, answers: ClientAnswers, members: I64) -> F32:
        """Return the mean of some answers' changes by their weights, shape (n_columns,)."""
        layout, inbox = self._known.layout, answers.inbox
        assert inbox.deltas is not None, "clients answer with updates"
        total: F64 = np.zeros(self._models.shape[1])
        items = total[: layout.n_items * layout.item_width].reshape(layout.n_items, -1)
        shared = total[items.size :]
        for member in members.tolist():
            change, weight = inbox.deltas[member], float(inbox.weights[member])
            items[change.items] += weight * change.rows
            shared += weight * change.shared
        return (total / inbox.weights[members].sum()).astype(np.float32)

    def _cluster(self, version: F32, round: RoundContext) -> None:
        """Cluster the clients that have uploaded a vector; the others are in no cluster."""
        assert self._options is not None
        known = np.flatnonzero(np.isfinite(self._rows).all(axis=1))
        if len(known) < self._options.number:  # too few for the number of clusters: the old ones stay
            return
        before = self._cluster_of.copy()
        self._cluster_of[:] = -1
        seed = int(round.generator("clustering").integers(2**31))
        self._cluster_of[known] = k_means(self._rows[known], self._options.number, seed)
        models = [self._begun(before[self._cluster_of == k], version) for k in range(len(self._models))]
        self._models = np.array(models, np.float32).reshape(self._models.shape)
        self._n_made += 1

    def _begun(self, before: I32, version: F32) -> F32:
        """Return the initial model of a cluster, the mean of the models of its members' previous clusters."""
        if self._kind == "round" or not len(before):
            return version
        total: F64 = np.zeros(len(version))
        for cluster, count in zip(*np.unique(before, return_counts=True), strict=True):
            total += count * (version if cluster < 0 else self._models[cluster])
        return (total / len(before)).astype(np.float32)
