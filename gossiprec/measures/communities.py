"""Ground truth of the community detection attack: the users most like each user.

References
----------
"On the Resilience of Collaborative Learning-based Recommender Systems Against Community Detection Attack",
arXiv:2306.08929: the community of a user is the K others with the largest Jaccard similarity of item sets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gossiprec.arrays import F64, I64
from gossiprec.errors import ScenarioError
from gossiprec.measures.top_k import top_k

BLOCK_CELLS = 2_000_000
"""Similarities held at once: about 100 MB with the temporaries, however many users there are."""


def jaccard_communities(
    offsets: npt.NDArray[np.integer], items: npt.NDArray[np.integer], *, n_items: int, k: int
) -> I64:
    """Return the `k` other users with the largest Jaccard similarity to each user, most similar first.

    Parameters
    ----------
    offsets : ndarray of int, shape (n_users + 1,)
        User ``u`` has the items ``items[offsets[u]:offsets[u + 1]]``.
    items : ndarray of int, shape (n_interactions,)
        Item ids; an item named twice by a user counts once.
    n_items : int
        Size of the id space.
    k : int
        Community size, 1 <= k <= n_users - 1.

    Returns
    -------
    ndarray of int64, shape (n_users, k)

    Raises
    ------
    ScenarioError
        If there are fewer than `k` other users.

    Notes
    -----
    Ties go to the lower id, as a stable sort leaves them (the published code). Quotients of small integers
    are correctly rounded, so equal similarities are equal numbers and the rule is exact.
    """
    n_users = offsets.size - 1
    if not 1 <= k < n_users:
        raise ScenarioError(
            f"community_size is {k}, but each of the {n_users} users has {max(n_users - 1, 0)} others; "
            f"set observers.community_size between 1 and {max(n_users - 1, 1)}"
        )
    blocks = [top_k(block, k) for block in _similarity_blocks(offsets, items, n_items)]
    return np.concatenate(blocks)


def _similarity_blocks(
    offsets: npt.NDArray[np.integer], items: npt.NDArray[np.integer], n_items: int
) -> Iterator[F64]:
    """Yield the Jaccard similarities of consecutive users to all users; -1 to themselves."""
    n_users = offsets.size - 1
    ones = np.ones(items.size, dtype=np.float32)  # counts up to 2**24 are exact
    owns = sparse.csr_matrix((ones, items, offsets), shape=(n_users, n_items), copy=True)
    owns.sum_duplicates()
    owns.data[:] = 1.0
    sizes = np.diff(owns.indptr)
    owned_by = owns.T.tocsr()
    height = max(1, BLOCK_CELLS // n_users)
    for start in range(0, n_users, height):
        users = np.arange(start, min(start + height, n_users))
        common = (owns[users] @ owned_by).toarray().astype(np.float64)
        union = sizes[users, None] + sizes[None, :] - common
        similarity = np.divide(common, union, out=common, where=union > 0)
        similarity[users - start, users] = -1.0
        yield similarity
