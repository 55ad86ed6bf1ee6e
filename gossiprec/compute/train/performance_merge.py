"""The performance of models for a node, on the node's validation items, and merges by performance.

References
----------
PEPPER (the Pers-Gossip of the CDA paper, arXiv 2306.08929, section 2.3; its published code): performance is
HR@20 x NDCG@20 of each validation item among itself and 99 fixed items, with the receiver's own user row.
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32, I32
from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.data.split import Split, display_name
from gossiprec.measures.ranking import CUTOFF, PADDING, candidate_ranks, discounted_gains

N_NEGATIVES = 99
FEWEST = 2
"""Number of validation items below which a node does not score models, and merges with equal weights."""


def draw_validation_candidates(split: Split, n_nodes: int, seed: int) -> Ragged:
    """Draw each node's lists for scoring models: a validation item, then the items it is ranked among.

    Returns
    -------
    Ragged of int32, values of shape (n_lists, 1 + n_negatives)
        A node's lists: a validation item, then 99 items outside its training and validation items, or all of
        them and :data:`PADDING` if there are fewer. A node with too few validation items has no list.

    Raises
    ------
    DataError
        If no node has two validation items, or a user leaves no other item.
    """
    counts = np.where(split.validation.sizes >= FEWEST, split.validation.sizes, 0)
    if not counts.any():
        raise DataError(
            f"{split.name}: no user has {FEWEST} validation items, so no node can score received models; use "
            "a split with validation (validation: 2 or more), or use the protocol rand-gossip"
        )
    known = split.train.sizes + split.validation.sizes
    n_negatives = np.minimum(N_NEGATIVES, split.n_items - known)
    judges = np.flatnonzero(counts > 0)
    if n_negatives[judges].min() < 1:
        user = display_name(split.user_names, int(judges[np.argmin(n_negatives[judges])]))
        raise DataError(
            f"{split.name}: user {user} has all {split.n_items} items, so no item is left to rank the "
            "validation items against; remove such users"
        )
    width = int(n_negatives[judges].max())
    lists = [_candidates(split, user, int(n_negatives[user]), width, seed) for user in judges.tolist()]
    sizes = np.zeros(n_nodes, np.int64)
    sizes[: len(counts)] = counts
    return Ragged.from_sizes(sizes, np.concatenate(lists))


def _candidates(split: Split, user: int, n_negatives: int, width: int, seed: int) -> I32:
    """Return a user's validation items with their negatives; unknown to the node, test items may be among them."""
    own, draw = split.validation[user], generator(seed, "validation-candidates", user)
    others = np.setdiff1d(np.arange(split.n_items), np.concatenate([split.train[user], own]))
    keys = draw.random((len(own), len(others)))
    drawn = others[np.argpartition(keys, n_negatives - 1, axis=1)[:, :n_negatives]]
    padding = np.full((len(own), width - n_negatives), PADDING)
    return np.concatenate([own[:, None], drawn, padding], axis=1).astype(np.int32)


def performance_score(scores: F32) -> np.float32:
    """Return HR@20 x NDCG@20 of validation items; `scores` is (n_items, 1 + n_negatives), the item first."""
    ranks = candidate_ranks(scores[:, 0], scores[:, 1:])
    hits = ranks < CUTOFF
    return np.float32(hits.mean() * np.where(hits, discounted_gains(ranks), 0.0).mean())


def own_weight(own: np.float32, received: np.float32) -> np.float32:
    """Return the weight of the own version in a merge by performance; 1 if both versions score 0."""
    total = own + received
    return np.float32(own / total) if total > 0 else np.float32(1.0)
