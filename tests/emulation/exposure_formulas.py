"""Closed forms of papers for exposures in gossip averaging, secure summation and random walks."""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F64, I64, Bools


def averaging_view(mixing: F64, seen: Bools, rounds: int) -> F64:
    """Return the view of synchronous gossip averaging, in which all nodes add noise once, before the first round.

    Parameters
    ----------
    mixing : ndarray of float64, shape (n, n)
        W: a round replaces the models x by ``W x``.
    seen : ndarray of bool, shape (n,)
        The nodes of which the models are seen before each round.
    rounds : int

    Returns
    -------
    ndarray of float64, shape (rounds * n_seen, n)
    """
    state, rows = np.eye(len(mixing)), []
    for _ in range(rounds):
        rows.append(state[seen])
        state = mixing @ state
    return np.concatenate(rows)


def message_exposures(view: F64) -> F64:
    """Return Muffliato's exposure of each node: the sum of ``V_mu^2 / ||V_m||^2`` over the messages m, shape (n,).

    Notes
    -----
    The sum treats messages as independent mechanisms. They carry the same noise, so that together they reveal more: on
    a ring, the difference of two messages shows a single node. It is not a bound of what is seen, and ``gossiprec
    epsilon`` does not use it.

    References
    ----------
    Muffliato, theorem 1, with the rows of ``W^t`` as messages.
    """
    return np.asarray((view**2 / (view**2).sum(axis=1, keepdims=True)).sum(axis=0))


def ring_mixing(n: int) -> F64:
    """Return the mixing matrix of a ring of n nodes, each with the weight 1/3 for itself and each neighbour."""
    near = np.eye(n)
    return (near + np.roll(near, 1, axis=1) + np.roll(near, -1, axis=1)) / 3


def ring_muffliato_exposure(n: int, distance: int, rounds: int) -> float:
    """Return Muffliato's exposure towards a node `distance` hops away on a ring, by the eigenvalues of the ring."""
    waves = 2 * np.pi * np.arange(n) / n
    eigenvalues, total = (1 + 2 * np.cos(waves)) / 3, 0.0
    for t in range(rounds):
        powers = eigenvalues**t
        norm = (powers**2).mean()
        for hops in (distance - 1, distance + 1):
            total += (powers * np.cos(waves * hops)).mean() ** 2 / norm
    return float(total)


def complete_muffliato_exposure(n: int, rounds: int) -> float:
    """Return Muffliato's exposure on a complete graph: every message but the first of each node is the mean."""
    return 1.0 + (rounds - 1) * (n - 1) / n


def walk_exposures(gaps: I64) -> F64:
    """Return the exposure of each visit of a random walk that reaches the observer `gaps` noisy steps later: 1 / gap.

    References
    ----------
    Cyffers, Bellet, Upadhyay 2024: the noise of all steps between two nodes hides the first of them.
    """
    return 1.0 / np.asarray(gaps, np.float64)


def expected_walk_exposures(mixing: F64, steps: int) -> F64:
    """Return a bound of the expected exposure of one visit of a random walk, from each node (row) to each other one.

    It is ``sum_t (W^t)_uv / t`` over the steps t, as if the observer hid the visit only by the noise since then. A walk
    visits each node every n steps on average, so T steps expose a node by T / n times as much.

    Parameters
    ----------
    mixing : ndarray of float64, shape (n, n)
        W, the probabilities of the next node: symmetric, of a connected graph.
    steps : int
        Steps that follow the visit.

    Returns
    -------
    ndarray of float64, shape (n, n)

    Raises
    ------
    ValueError
        If the matrix is not symmetric and stochastic, or nodes cannot reach one another.

    Notes
    -----
    The closed form is ``H / n - log(I - W + J)``, with the harmonic number H of `steps`, the logarithm of a matrix, and
    J of entries 1 / n. The paper writes ``ln T`` for H. Both are limits: powers of W beyond `steps` are taken as J, so
    use it for steps above the mixing time. The expectation over first visits only is smaller.

    References
    ----------
    Cyffers, Bellet, Upadhyay 2024, privacy loss between pairs of nodes (arXiv 2402.07471).
    """
    n = len(mixing)
    if not np.allclose(mixing, mixing.T) or not np.allclose(mixing.sum(axis=1), 1.0) or (mixing < 0).any():
        raise ValueError("found a matrix that is not symmetric with rows of sum 1; expected probabilities")
    lengths, axes = np.linalg.eigh(np.eye(n) - mixing + 1.0 / n)
    if lengths[0] < n * np.finfo(np.float64).eps:
        raise ValueError("found nodes that cannot reach one another; expected a connected graph")
    harmonic = (1.0 / np.arange(1, steps + 1)).sum()
    return np.asarray(harmonic / n - (axes * np.log(lengths)) @ axes.T, np.float64)
