"""What pre-training at the coordinator takes: interactions in the clear, and bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import I64, Bools
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.recommenders.pretraining import PretrainingOptions, draw_epoch_users

EDGE_BYTES = 8
"""Of an edge that a client tells: two numbers of 32 bits."""
NUMBER_BYTES = 4
"""Of a number of a row."""


@dataclass(frozen=True, eq=False)
class EdgeDisclosure:
    """The true edges that the coordinator must hold to pre-train as it does.

    Attributes
    ----------
    edges : ndarray of int64, shape (n_users,)
        Training interactions of each user.
    told : ndarray of bool, shape (n_users,)
        Whose the coordinator is told, all of them and once.
    pseudo_edges : float
        Pseudo edges that a view of a step has beside true ones, on average.

    Notes
    -----
    With views of noise every step goes over the whole graph: the coordinator holds all interactions, as one does that
    trains centrally. With mixed views it needs those of the users that some epoch draws, each of whom sends them when
    it is drawn first: ``1 - (1 - sampled / n_users)**epochs`` of the users, which comes near to all of them only after
    many epochs. Pseudo edges change none of this: they are drawn anew for each view, so that whoever sees two views
    tells the true edges as nearly all that are in both; they augment and do not hide. Were they to hide, a client would
    draw them once for all views.
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
        """Share of all true edges that the coordinator holds in the end, 0 where there is none."""
        return float(self.edges[self.told].sum() / max(self.n_edges, 1))

    @property
    def sent_bytes(self) -> I64:
        """What each client sends, shape (n_users,): its edges."""
        return np.where(self.told, EDGE_BYTES * self.edges, 0)

    def received_bytes(self, dim: int) -> I64:
        """Return what each client is sent beside the version, shape (n_users,): its row of `dim` numbers."""
        return np.where(self.told, NUMBER_BYTES * dim, 0)

    def report(self, dim: int) -> dict[str, float | str]:
        """Return what a run's summary tells, with a note of what it means."""
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
    """Return what pre-training with this seed takes.

    Parameters
    ----------
    graph : Graph
        Of all training interactions.
    options : PretrainingOptions
    seed : int
        Of :func:`gossiprec.recommenders.pretraining.pretrain`.
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
