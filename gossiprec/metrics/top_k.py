"""The k largest entries of each row; among equals the lower index."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


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
    n_rows, n_columns = scores.shape
    if k == 0 or n_rows == 0:
        return np.empty((n_rows, k), dtype=np.int64)
    threshold = np.partition(scores, n_columns - k, axis=1)[:, n_columns - k, None]
    above = scores > threshold
    level = scores == threshold
    room = k - np.count_nonzero(above, axis=1)[:, None]
    chosen = above | (level & (np.cumsum(level, axis=1, dtype=np.int32) <= room))
    columns = np.nonzero(chosen)[1].reshape(n_rows, k)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(columns, order, axis=1), dtype=np.int64)
