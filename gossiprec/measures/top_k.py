"""The k largest entries of each row; among equals the lower index."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I64, Bools


def in_top_k(scores: npt.NDArray[np.floating], k: int) -> Bools:
    """Say which entries are among the `k` largest of their row, shape (n_rows, n_columns); see :func:`top_k`."""
    if k == 0:
        return np.zeros(scores.shape, bool)
    # From this end: past many equal numbers, such as those of users never met, numpy takes ten times as long.
    negated = -scores
    negated.partition(k - 1, axis=1)
    threshold = -negated[:, k - 1, None]
    chosen = scores >= threshold
    crowded = np.flatnonzero(np.count_nonzero(chosen, axis=1) > k)  # several entries on the threshold
    level = scores[crowded] == threshold[crowded]
    above = chosen[crowded] & ~level
    room = k - np.count_nonzero(above, axis=1)[:, None]
    chosen[crowded] = above | (level & (np.cumsum(level, axis=1, dtype=np.int32) <= room))
    return chosen


def top_k(scores: npt.NDArray[np.floating], k: int) -> I64:
    """Return the columns of the `k` largest entries of each row, best first.

    Parameters
    ----------
    scores : ndarray, shape (n_rows, n_columns)
        Without NaN.
    k : int
        0 <= k <= n_columns.

    Returns
    -------
    ndarray of int64, shape (n_rows, k)
        The same as the first `k` of a stable descending sort, without sorting the rows.
    """
    columns = np.nonzero(in_top_k(scores, k))[1].reshape(len(scores), k)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(columns, order, axis=1), dtype=np.int64)
