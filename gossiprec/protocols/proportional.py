"""Choosing clients so that each group has its share, as PerFedRec and PerFedRec++ do with clusters."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import F64, I64


def quotas(groups: I64, count: int) -> I64:
    """Return how many of `count` places are reserved for each group: its share of all clients, rounded down.

    Parameters
    ----------
    groups : ndarray of int64, shape (n_clients,)
        From 0; -1: in none.
    count : int

    Returns
    -------
    ndarray of int64, shape (n_groups,)
        Their sum is at most `count`.
    """
    sizes = np.bincount(groups[groups >= 0])
    return sizes * count // max(len(groups), 1)


def in_proportion(candidates: I64, lots: F64, groups: I64, count: int) -> I64:
    """Return who is chosen: of each group as many as its quota, and whoever comes next for the places left.

    A group of which too few can be chosen leaves its places to the others.

    Parameters
    ----------
    candidates : ndarray of int64, shape (n_candidates,)
        Clients that can be chosen.
    lots : ndarray of float64, shape (n_candidates,)
        The lower, the sooner.
    groups : ndarray of int64, shape (n_clients,)
    count : int

    Returns
    -------
    ndarray of int64, shape (min(count, n_candidates),)
        Ascending.
    """
    in_order = candidates[np.argsort(lots, kind="stable")]
    chosen = [
        in_order[groups[in_order] == group][:quota] for group, quota in enumerate(quotas(groups, count))
    ]
    reserved = np.concatenate([candidates[:0], *chosen])
    others = in_order[~np.isin(in_order, reserved)]
    return np.sort(np.concatenate([reserved, others[: count - len(reserved)]]))
