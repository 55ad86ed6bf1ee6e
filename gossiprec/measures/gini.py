"""Inequality of non-negative amounts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def gini(values: npt.ArrayLike) -> float:
    """Return the Gini coefficient: 0 if all are equal, ``(n - 1) / n`` if one has everything.

    Parameters
    ----------
    values : array_like, shape (n,)
        Non-negative amounts. No values, or only zeros, count as equal.

    Raises
    ------
    ValueError
        If a value is negative or not a number.
    """
    amounts = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not np.all(amounts >= 0):
        raise ValueError("gini: found a negative amount or NaN; expected amounts of at least 0")
    n, total = amounts.size, amounts.sum()
    if total == 0:
        return 0.0
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float(weights @ amounts / (n * total))
