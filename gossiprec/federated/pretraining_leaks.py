"""Disclosure by pre-training at the coordinator: interactions in the clear, and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import I64, Bools
from gossiprec.federated.pretraining import PretrainingOptions, draw_epoch_users
from gossiprec.models.base.graph import InteractionGraph

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
    told : ndarray of bool, shape (n_users,)
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
    told: Bools
    pseudo_edges: float

    @property
    def n_edges(self) -> int:
        """All true edges."""
        return int(self.edges.sum())

    @property
    def share(self) -> float:
        """Share of all true edges that the coordinator holds at the end, 0 if there are no edges."""
        return float(self.edges[self.told].sum() / max(self.n_edges, 1))

    @property
    def sent_bytes(self) -> I64:
        """Bytes that each client sends for its edges, shape (n_users,)."""
        return np.where(self.told, EDGE_BYTES * self.edges, 0)

    def received_bytes(self, dim: int) -> I64:
        """Return the bytes of the row of `dim` numbers that each client is sent, shape (n_users,)."""
        return np.where(self.told, NUMBER_BYTES * dim, 0)

    def report(self, dim: int) -> dict[str, float | str]:
        """Return the section of a run's summary, with a note that explains it."""
        told: dict[str, float | str] = {
            "edges": self.n_edges,
            "share_of_edges_told": self.share,
            "clients_telling": int(self.told.sum()),
            "pseudo_edges_of_a_view": self.pseudo_edges,
            "bytes_sent": int(self.sent_bytes.sum()),
            "bytes_received": int(self.received_bytes(dim).sum()),
        }
        if self.told.any():
            told["note"] = (
                f"the coordinator receives {self.share:.1%} of the training interactions unmodified"
            )
        return told


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
        The seed of :func:`gossiprec.federated.pretraining.pretrain`.
    """
    edges = np.bincount(graph.users, minlength=graph.n_users).astype(np.int64)
    if options.views == "noise" or not options.epochs:
        return EdgeDisclosure(edges, np.full(graph.n_users, options.epochs > 0), 0.0)
    told, pseudo = np.zeros(graph.n_users, np.bool_), 0
    for epoch in range(options.epochs):
        users = draw_epoch_users(graph.n_users, options, seed=seed, epoch=epoch)
        n_true = int(edges[users].sum())
        told[users] = True
        pseudo += min(int(options.pseudo_edges * n_true), len(users) * graph.n_items - n_true)
    return EdgeDisclosure(edges, told, pseudo / options.epochs)
