"""What the coordinator learns of users from the noisy vectors that they tell, joined with the truth.

It has told vectors and the last version, and knows how vectors are clipped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.data.split import TrainingData
from gossiprec.measures.attack_accuracy import random_bound
from gossiprec.measures.communities import jaccard_communities
from gossiprec.models.base import BlockRole, Layout
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.recommenders.perturbation import clip_l1
from gossiprec.recommenders.user_vectors import compute_user_vectors, item_table, set_mean_matrix
from gossiprec.recommenders.vector_attacks import (
    HOW,
    community_accuracies,
    known_users,
    reidentification_rates,
    sample_users,
    suffix_names,
    true_vector_ranks,
)


class VectorHistory(NamedTuple):
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


def measure_vector_leakage(
    model: SequenceModel,
    layout: Layout,
    told: VectorHistory,
    split: TrainingData,
    own: F32,
    *,
    k: int,
    clip: float,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Return how often attacks are right, by what they go by and by name.

    Parameters
    ----------
    model : SequenceModel
    layout : Layout
    told : Told
    split : TrainingData
        Each user's data: the truth.
    own : ndarray of float32, shape (n_users, user_width)
        Rows of users as they are now, for models that have them.
    k : int
        Size of communities.
    clip : float
    seed : int

    Returns
    -------
    dict of str to dict of str to float
        For ``nearest`` and ``likeliest``, and for ``random`` guesses. ``reidentified``: how often, of users who have
        told twice or more, what the same user told before is found by the vector told last. ``own_first``: how often
        what a user told last is found by the vector of the user as it is, clipped and without noise; ``own_rank``:
        which share of others comes before it. ``cda``: the share of the `k` users most like a user that is found by a
        vector made of the items of that user. ``..._of_means``: the same among the means of all that each user told.
        ``exact``: among vectors as they are.
    """
    n = split.n_users
    feed = model.feed_of(split)
    histories = [feed.history(user) for user in range(n)]
    true = clip_l1(compute_user_vectors(model, layout, told.version, histories, own), clip).astype(np.float32)
    fictive = true
    if layout.of(BlockRole.USER):  # an attacker has no user's row
        fictive = clip_l1(
            set_mean_matrix(split.train, split.n_items) @ item_table(layout, told.version), clip
        ).astype(np.float32)
    some = sample_users(n, seed)
    communities = jaccard_communities(split.train, some, n_items=split.n_items, k=k)
    latest, means = told.latest[:n], told.means[:n]
    found = [
        reidentification_rates(latest, told.before[:n], seed),
        true_vector_ranks(true, latest, some),
        suffix_names(true_vector_ranks(true, means, some), "of_means"),
        community_accuracies(fictive, latest, some, communities),
        suffix_names(community_accuracies(fictive, means, some, communities), "of_means"),
    ]
    exact = community_accuracies(fictive, true, some, communities)["nearest"]
    return {how: {key: value for each in found for key, value in each[how].items()} for how in HOW} | {
        "random": {
            "reidentified": 1 / max(len(known_users(told.before[:n])), 1),
            "own_first": 1 / max(len(known_users(latest)), 1),
            "own_rank": 0.5,
            "cda": random_bound(k, n - 1),
        },
        "exact": exact,
    }
