"""Times of first contact in an overlay, computed without models."""

from __future__ import annotations

import math

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.network.overlay.base import Views
from gossiprec.network.sim.clock import WakeClock


def first_contact_matrix(views: Views, clock: WakeClock, wakes: int) -> F64:
    """Return the time at which each node first hears from each other, shape (n_nodes, n_nodes); infinite if never.

    All nodes are awake when their clocks ring, and every message arrives at once.

    Parameters
    ----------
    views : Views
        Unused views: no wake has been queried.
    clock : WakeClock
        Clock of nodes 0 .. n_nodes - 1.
    wakes : int
        Number of wakes of each node.
    """
    n_nodes = len(clock.node_ids)
    times = np.cumsum(clock.intervals(0, wakes), axis=1)
    order = np.argsort(times, axis=None, kind="stable")
    first = np.full((n_nodes, n_nodes), np.inf)
    for at, node in zip(times.ravel()[order].tolist(), (order // wakes).tolist(), strict=True):
        for peer in views.next_receivers(node, at):
            if at < first[peer, node]:
                first[peer, node] = at
    return first


def time_to_meet(first: F64, fraction: float) -> float | None:
    """Return the time until nodes have, on average, heard from this share of the others; None if never.

    Parameters
    ----------
    first : ndarray of float64, shape (n_nodes, n_nodes)
        From :func:`first_contact_matrix`.
    fraction : float
        From 0 to 1.
    """
    n_pairs = len(first) * (len(first) - 1)
    pairs = math.ceil(fraction * n_pairs - 1e-9)
    if pairs == 0:
        return 0.0
    time = float(np.partition(first, pairs - 1, axis=None)[pairs - 1])
    return time if math.isfinite(time) else None


def fraction_contacted(first: F64) -> float:
    """Return the share of the others that nodes have heard from in the end, on average."""
    return float(np.isfinite(first).sum() / (len(first) * (len(first) - 1)))
