"""Ground truth of the community detection attack: the users most like each user.

References
----------
"On the Resilience of Collaborative Learning-based Recommender Systems Against Community Detection Attack",
arXiv:2306.08929: the community of a user is the K others with the largest Jaccard similarity of item sets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from gossiprec.arrays import F64, I64
from gossiprec.errors import ScenarioError
from gossiprec.measures.top_k import top_k
from gossiprec.ragged import Ragged

BLOCK_CELLS = 2_000_000
"""Similarities held at once: about 100 MB with the temporaries, however many users there are."""


def jaccard_communities(sets: Ragged, users: I64 | None = None, *, n_items: int, k: int) -> I64:
    """Return the `k` other users with the largest Jaccard similarity to each user, most similar first.

    Parameters
    ----------
    sets : Ragged of int
        The item ids of each user; an item named twice by a user counts once.
    users : ndarray of int64, shape (n,), optional
        Whose communities are wanted; everybody's if it is left out. Each costs as much as all users have items.
    n_items : int
        Size of the id space.
    k : int
        Community size, 1 <= k <= n_users - 1.

    Returns
    -------
    ndarray of int64, shape (n, k)

    Raises
    ------
    ScenarioError
        If there are fewer than `k` other users.

    Notes
    -----
    Ties go to the lower id, as a stable sort leaves them (the published code). Quotients of small integers
    are correctly rounded, so equal similarities are equal numbers and the rule is exact.
    """
    n_users = len(sets)
    if not 1 <= k < n_users:
        raise ScenarioError(
            f"community_size is {k}, but each of the {n_users} users has {max(n_users - 1, 0)} others; "
            f"set observers.community_size between 1 and {max(n_users - 1, 1)}"
        )
    blocks = jaccard_blocks(sets, np.arange(n_users) if users is None else users, n_items=n_items)
    return np.concatenate([np.zeros((0, k), np.int64), *(top_k(block, k) for block in blocks)])


def jaccard_blocks(sets: Ragged, users: I64, *, n_items: int) -> Iterator[F64]:
    """Yield the Jaccard similarities of some users to all users, a few users at a time; -1 to themselves."""
    n_users = len(sets)
    ones = np.ones(sets.values.size, dtype=np.float32)  # counts up to 2**24 are exact
    owns = sparse.csr_matrix((ones, sets.values, sets.offsets), shape=(n_users, n_items), copy=True)
    owns.sum_duplicates()
    owns.data[:] = 1.0
    sizes = np.diff(owns.indptr)
    owned_by = owns.T.tocsr()
    height = max(1, BLOCK_CELLS // n_users)
    for start in range(0, len(users), height):
        some = users[start : start + height]
        common = (owns[some] @ owned_by).toarray().astype(np.float64)
        union = sizes[some, None] + sizes[None, :] - common
        similarity = np.divide(common, union, out=common, where=union > 0)
        similarity[np.arange(len(some)), some] = -1.0
        yield similarity
