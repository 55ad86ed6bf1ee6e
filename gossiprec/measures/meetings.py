"""How much of the network a node has met: predicted from the views, and counted from the messages."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F64, I64


def predicted_fraction_met(views: npt.ArrayLike, *, n_nodes: int, view_size: int) -> F64:
    """Return the expected fraction of other nodes met, ``1 - exp(-P V / (N - 1))``.

    Parameters
    ----------
    views : array_like
        V, uniform views drawn by each node so far (fractions are averages over nodes).
    n_nodes : int
        N.
    view_size : int
        P, peers in a view that are sent to.

    Notes
    -----
    Each of V views of another node holds this node with probability P/(N - 1); the exponential replaces
    ``(1 - P/(N - 1)) ** V``.
    """
    return np.asarray(-np.expm1(-view_size * np.asarray(views, dtype=np.float64) / (n_nodes - 1)))


def first_meetings(
    time: npt.NDArray[np.floating], sender: npt.NDArray[np.integer], receiver: npt.NDArray[np.integer]
) -> tuple[F64, I64]:
    """Return when each receiver first heard from each of its senders.

    Parameters
    ----------
    time, sender, receiver : ndarray, shape (n_messages,)
        Receptions, in any order.

    Returns
    -------
    time : ndarray of float64, shape (n_pairs,)
        Ascending.
    receiver : ndarray of int64, shape (n_pairs,)
        Who met somebody new at that time.
    """
    order = np.argsort(time, kind="stable")
    stride = int(sender.max(initial=0)) + 1
    pair = receiver[order].astype(np.int64) * stride + sender[order]
    first = np.sort(np.unique(pair, return_index=True)[1])
    return np.asarray(time[order][first], dtype=np.float64), np.asarray(pair[first] // stride)


def fractions_met(time: F64, receiver: I64, *, at: F64, n_nodes: int) -> F64:
    """Return the fraction of the other nodes that each node has met at given times.

    Parameters
    ----------
    time, receiver : ndarray, shape (n_pairs,)
        From :func:`first_meetings`.
    at : ndarray of float64, shape (n_times,)
        Ascending; a meeting counts from its own time on.
    n_nodes : int

    Returns
    -------
    ndarray of float64, shape (n_times, n_nodes)
    """
    slot = np.searchsorted(at, time, side="left")
    counts = np.bincount(slot * n_nodes + receiver, minlength=(at.size + 1) * n_nodes)
    met = np.cumsum(counts.reshape(at.size + 1, n_nodes)[:-1], axis=0)
    return np.asarray(met / (n_nodes - 1), dtype=np.float64)
