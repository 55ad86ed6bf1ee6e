"""What the coordinator learns of users from the noisy vectors that they tell: whose one is, and who is alike.

All attacks see told vectors, the last version and the law of the noise; they are joined here with the truth. Each asks
which of the told vectors comes from a vector that the attacker has in mind. It takes that which lies nearest to this
in L1 norm, less how far it is from the mean of all: under Laplace noise of one scale the logarithm of how much likelier
it is of the former. Without noise the nearest is taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossiprec.arrays import F32, F64, I64
from gossiprec.data.split import Split
from gossiprec.measures.attack import aac, accuracy_of_hits, hits_of_scores, random_bound
from gossiprec.measures.communities import jaccard_blocks
from gossiprec.measures.top_k import top_k
from gossiprec.models.base import Layout, Role
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.ragged import Ragged
from gossiprec.recommenders.perturbation import clipped
from gossiprec.recommenders.user_vectors import items_of, vectors_of
from gossiprec.rng import generator

MOST = 1000
"""Users whose vectors are looked for, drawn if there are more: among those of all."""


class Told(NamedTuple):
    """What the coordinator has kept of what users told.

    Attributes
    ----------
    latest, before : ndarray of float32, shape (n_users, d)
        What each told last, and the time before; NaN: nothing.
    total : ndarray of float32, shape (n_users, d)
        The sum of all that it told.
    counts : ndarray of int64, shape (n_users,)
        How often.
    version : ndarray of float32, shape (n_columns,)
        The last that was published.
    """

    latest: F32
    before: F32
    total: F32
    counts: I64
    version: F32

    @property
    def means(self) -> F32:
        """The mean of what each told; NaN: nothing."""
        with np.errstate(invalid="ignore"):
            means: F32 = (self.total / self.counts[:, None]).astype(np.float32)
        return means


def leaks_of(
    model: SequenceModel, layout: Layout, told: Told, split: Split, own: F32, *, k: int, clip: float, noisy: bool,
    seed: int,
) -> dict[str, float]:  # fmt: skip
    """Return by name how often attacks are right.

    Parameters
    ----------
    model : SequenceModel
    layout : Layout
    told : Told
    split : Split
        Each user's data: the truth.
    own : ndarray of float32, shape (n_users, user_width)
        Rows of users as they are now, for models that have them.
    k : int
        Size of communities.
    clip : float
    noisy : bool
    seed : int

    Returns
    -------
    dict of str to float
        ``reidentified``: how often, of users who have told twice or more, the vector told last is nearest to what the
        same user told before; ``reidentified_random`` by chance. ``own_first``: how often the vector of a user, known
        exactly, is nearest to what the user told last, and ``own_rank`` the share of others that are nearer (0.5 by
        chance); ``..._of_means``: to the mean of all that the user told. ``cda``, ``cda_of_means``: the share of the
        `k` users most like a user who are among the `k` whose told vectors are nearest to one made of the items of that
        user; ``cda_exact``: were vectors told as they are; ``cda_random`` by chance.
    """
    feed = model.feed_of(split)
    histories = [feed.history(user) for user in range(split.n_users)]
    true = clipped(vectors_of(model, layout, told.version, histories, own), clip).astype(np.float32)
    fictive = true
    if layout.of(Role.USER):  # the attacker has no user's row
        fictive = clipped(_means_of(split.train, items_of(layout, told.version)), clip).astype(np.float32)
    n = split.n_users
    latest, means, before = told.latest[:n], told.means[:n], told.before[:n]
    some = _some(n, seed)
    among = jaccard_blocks(split.train, some, n_items=split.n_items)
    communities = np.concatenate([top_k(block, k) for block in among])

    def cda(vectors: F32, noisy: bool) -> float:
        scores = -distances(fictive[some], vectors, noisy=noisy)
        scores[np.arange(len(some)), some] = np.nan
        return aac(accuracy_of_hits(hits_of_scores(scores, communities)))

    return {
        **_reidentified(latest, before, noisy, seed),
        **own_ranks(true, latest, some, noisy=noisy),
        **{f"{name}_of_means": rank for name, rank in own_ranks(true, means, some, noisy=noisy).items()},
        "cda": cda(latest, noisy), "cda_of_means": cda(means, noisy), "cda_exact": cda(true, False),
        "cda_random": random_bound(k, n - 1),
    }  # fmt: skip


def distances(asked: F32, told: F32, *, noisy: bool) -> F64:
    """Return how far each told vector is from each that is asked for, shape (n_asked, n_told); NaN: nothing told.

    Parameters
    ----------
    asked : ndarray of float32, shape (n_asked, d)
    told : ndarray of float32, shape (n_told, d)
        NaN where nothing was told.
    noisy : bool
        Then less how far it is from the mean of all.
    """
    from scipy.spatial.distance import cdist

    found = cdist(asked, told, "cityblock")
    if noisy:
        there = told[np.isfinite(told).all(axis=1)].astype(np.float64)
        found -= np.abs(told - there.mean(axis=0)).sum(axis=1)
    return np.asarray(found)


def own_ranks(true: F32, told: F32, users: I64, *, noisy: bool) -> dict[str, float]:
    """Return how often what a user told is nearest to its own vector, and what share of others is nearer.

    Parameters
    ----------
    true, told : ndarray of float32, shape (n_users, d)
    users : ndarray of int64, shape (n,)
        Whose is looked for; those who told nothing are left out.
    noisy : bool
    """
    heard = np.flatnonzero(np.isfinite(told).all(axis=1))
    users = np.intersect1d(users, heard)
    if len(heard) < 2 or not len(users):
        return {"own_first": float("nan"), "own_rank": float("nan")}
    found = distances(true[users], told[heard], noisy=noisy)
    own = found[np.arange(len(users)), np.searchsorted(heard, users), None]
    nearer = (found < own).sum(axis=1) + ((found == own).sum(axis=1) - 1) / 2
    return {"own_first": float(np.mean(nearer == 0)), "own_rank": float(nearer.mean() / (len(heard) - 1))}


def _reidentified(latest: F32, before: F32, noisy: bool, seed: int) -> dict[str, float]:
    """Return how often what a user told last is nearest to what it told before."""
    twice = np.flatnonzero(np.isfinite(before).all(axis=1))
    if not len(twice):
        return {"reidentified": float("nan"), "reidentified_random": float("nan")}
    some = _some(len(twice), seed)
    found = distances(latest[twice[some]], before[twice], noisy=noisy).argmin(axis=1)
    return {"reidentified": float(np.mean(found == some)), "reidentified_random": 1.0 / len(twice)}


def _some(n: int, seed: int) -> I64:
    """Return at most :data:`MOST` of some users, ascending."""
    if n <= MOST:
        return np.arange(n)
    return np.sort(generator(seed, "vector-leaks").choice(n, MOST, replace=False))


def _means_of(sets: Ragged, rows: F32) -> F32:
    """Return the mean row of each set's items, zero for an empty one; shape (n_sets, d)."""
    found: F64 = np.zeros((len(sets), rows.shape[1]))
    np.add.at(found, sets.owners, rows[sets.values].astype(np.float64))
    means: F32 = (found / np.maximum(sets.sizes, 1)[:, None]).astype(np.float32)
    return means
