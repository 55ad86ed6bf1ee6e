"""Where one relevant item stands among sampled candidates, what that is worth, and means over users.

Ranks are 0-based. Ties count against the relevant item: a model that scores everything alike recommends
nothing, and must not be rewarded for it. A score that is not a number counts as lost wherever it stands.

References
----------
X. He et al., "Neural Collaborative Filtering", WWW 2017: one held-out item among 99 sampled ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import F64, I64

CUTOFF = 20
"""Rank at which attacks and merges by performance cut NDCG, as in the published code of the CDA paper."""
PADDING = -1
"""In place of an item, behind the sampled candidates of a user who leaves fewer than others."""


def ranks_against(positive: npt.NDArray[np.floating], negatives: npt.NDArray[np.floating]) -> I64:
    """Rank each relevant item among its own candidates: the number of candidates it does not beat.

    Parameters
    ----------
    positive : ndarray, shape (...,)
        Scores of the relevant items.
    negatives : ndarray, shape (..., n_candidates)
        Scores of the candidates of each.

    Returns
    -------
    ndarray of int64, shape (...,)
        0 is the top; ``n_candidates`` the bottom.
    """
    beaten = negatives < positive[..., None]
    return np.asarray(negatives.shape[-1] - np.count_nonzero(beaten, axis=-1), dtype=np.int64)


def gains(ranks: npt.NDArray[np.integer]) -> F64:
    """Return the discounted gain of a hit at each 0-based rank, ``1 / log2(rank + 2)``."""
    return np.asarray(1.0 / np.log2(np.asarray(ranks, dtype=np.float64) + 2.0))


def user_means(values: F64, offsets: npt.NDArray[np.integer]) -> F64:
    """Average the values of each user's test items.

    Parameters
    ----------
    values : ndarray of float64, shape (n_test,)
        One value for each test item, users in order; NaN: of nothing, left out.
    offsets : ndarray of int, shape (n_users + 1,)
        User ``u`` owns ``values[offsets[u]:offsets[u + 1]]``.

    Returns
    -------
    ndarray of float64, shape (n_users,)
        NaN where a user has no test item with a value.
    """
    sizes = np.diff(offsets)
    known = ~np.isnan(values)
    owners = np.repeat(np.arange(sizes.size), sizes)[known]
    counts = np.bincount(owners, minlength=sizes.size)
    sums = np.bincount(owners, weights=values[known], minlength=sizes.size)
    means: F64 = np.divide(sums, counts, out=np.full(counts.size, np.nan), where=counts > 0)
    return means


def mean_of_known(values: F64) -> float:
    """Average over those that have a value (users with a test item, targets with a user); NaN when none has."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
