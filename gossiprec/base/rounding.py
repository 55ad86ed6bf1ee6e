"""Differences of measured numbers, free of rounding errors.

Numbers that are equal in exact arithmetic, such as 0.3 - 0.1 and 0.2 - 0.0, are computed with different last digits. So
every comparison of computed numbers, with one another or with 0, uses this rule: two numbers are equal if they differ
by at most :data:`ROUNDING` of the larger one. The rule does not depend on the unit: it has no absolute limit.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from gossiprec.base.arrays import F64

ROUNDING = 1e-10
"""Largest rounding error, as a fraction of the numbers that are subtracted; sums of a million terms have less."""


@overload
def difference(number: float, other: float) -> float: ...
@overload
def difference(number: F64, other: F64 | float) -> F64: ...
def difference(number: F64 | float, other: F64 | float) -> F64 | float:
    """Return ``number - other``, which is exactly 0 if it is at most :data:`ROUNDING` of the larger of the two."""
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN
        found = np.subtract(number, other)
    error = ROUNDING * np.maximum(np.abs(number), np.abs(other))
    found = np.where((np.abs(found) > error) | ~np.isfinite(found), found, 0.0)
    return found if found.ndim else float(found)


def paired_differences(numbers: F64, others: F64 | float) -> F64:
    """Return the difference of each pair; sizes of differences that are equal but for rounding errors are equal.

    Parameters
    ----------
    numbers, others : ndarray of float64, shape (n,)
        Finite. With 0 for `others` the result is the numbers, of which equal ones are exactly equal.

    Returns
    -------
    ndarray of float64, shape (n,)
        As of :func:`difference`. Of nonzero sizes in ascending order, neighbours that differ by at most
        :data:`ROUNDING` of the larger number of their pairs get the size of the first of them.
    """
    found = difference(numbers, others)
    order = np.argsort(np.abs(found), kind="stable")
    size, error = np.abs(found)[order], ROUNDING * np.maximum(np.abs(numbers), np.abs(others))[order]
    is_new = np.ones(len(size), np.bool_)
    is_new[1:] = (np.diff(size) > np.maximum(error[1:], error[:-1])) | (size[:-1] == 0)
    equal = np.empty_like(found)
    equal[order] = size[is_new][np.cumsum(is_new) - 1]
    return np.copysign(equal, found)
