"""The error of shares over test items: how many standard errors two of them are apart."""

from __future__ import annotations

import math


def standard_errors_apart(one: float, other: float, n_items: int) -> float:
    """Return the difference of two shares in standard errors of that difference, unpaired.

    Two runs are judged on the same test items, but which of them each hits is not kept. So their errors count as
    independent: the variances of both shares add up.

    Parameters
    ----------
    one, other : float
        From 0 to 1, such as HR@10 with one test item per user.
    n_items : int
        Test items of each.

    Returns
    -------
    float
        Infinite if the shares differ and neither has an error; 0 if they are equal.
    """
    error = math.sqrt((one * (1 - one) + other * (1 - other)) / n_items)
    if one == other:
        return 0.0
    return (one - other) / error if error else math.copysign(math.inf, one - other)
