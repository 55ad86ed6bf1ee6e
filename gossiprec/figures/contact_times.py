"""When nodes first met: from deliveries in the log, and as expected from random views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F64, I64


def predicted_fraction_met(views: npt.ArrayLike, *, n_nodes: int, view_size: int) -> F64:
    """Return the expected fraction of other nodes met, ``1 - exp(-P V / (N - 1))``.

    Parameters
    ----------
    views : array_like
        V, the number of uniform views drawn by each node so far (fractions are averages over nodes).
    n_nodes : int
        N.
    view_size : int
        P, the number of peers in a view that are sent to.

    Notes
    -----
    Each of V views of another node holds this node with probability P/(N - 1); the exponential replaces
    ``(1 - P/(N - 1)) ** V``.
    """
    return np.asarray(-np.expm1(-view_size * np.asarray(views, dtype=np.float64) / (n_nodes - 1)))


FOLD_PAIRS = 2**16
"""Messages of new pairs that are kept, at least, before they are sorted among the known pairs."""


def first_contact_times(parts: Iterable[Mapping[str, npt.NDArray[Any]]]) -> tuple[F64, I64, I64]:
    """Return the time of each receiver's first message from each of its senders.

    Memory grows with the number of pairs, not of messages.

    Parameters
    ----------
    parts : iterable of mapping
        Receptions, in any order, piece by piece: ``time``, ``sender`` and ``receiver``, each of shape (n_messages,).

    Returns
    -------
    time : ndarray of float64, shape (n_pairs,)
        Ascending.
    receiver, sender : ndarray of int64, shape (n_pairs,)
        The node that met a new sender at that time, and the sender.
    """
    pairs, first = np.zeros(0, np.int64), np.zeros(0)
    held: list[tuple[I64, F64]] = []
    for part in parts:
        pair = part["receiver"].astype(np.int64) << 32 | part["sender"]
        place = np.minimum(np.searchsorted(pairs, pair), max(len(pairs) - 1, 0))
        new = part["time"] < first[place] if len(pairs) else np.ones(len(pair), np.bool_)
        if len(pairs):
            new |= pairs[place] != pair
        held.append((pair[new], part["time"][new]))
        if sum(len(each) for each, _ in held) >= max(FOLD_PAIRS, len(pairs)):
            pairs, first = _earliest((pairs, first), *held)
            held = []
    pairs, first = _earliest((pairs, first), *held)
    order = np.argsort(first, kind="stable")
    return first[order], pairs[order] >> 32, pairs[order] & (2**32 - 1)


def _earliest(*parts: tuple[I64, F64]) -> tuple[I64, F64]:
    """Return the pairs, ascending and once each, and the earliest time of each."""
    pair, time = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((time, pair))
    pair, time = pair[order], time[order]
    kept = np.diff(pair, prepend=-1) != 0
    return pair[kept], time[kept]


def fraction_met_at(time: F64, receiver: I64, *, at: F64, n_nodes: int) -> F64:
    """Return the fraction of the other nodes that each node has met at given times.

    Parameters
    ----------
    time, receiver : ndarray, shape (n_pairs,)
        From :func:`first_contact_times`.
    at : ndarray of float64, shape (n_times,)
        Ascending; a contact counts from its own time on.
    n_nodes : int

    Returns
    -------
    ndarray of float64, shape (n_times, n_nodes)
    """
    slot = np.searchsorted(at, time, side="left")
    counts = np.bincount(slot * n_nodes + receiver, minlength=(at.size + 1) * n_nodes)
    met = np.cumsum(counts.reshape(at.size + 1, n_nodes)[:-1], axis=0)
    return np.asarray(met / (n_nodes - 1), dtype=np.float64)
