"""Quality of recommendations by activity: for those who have interacted with few items, and for those with many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.arrays import F64, I64
from gossiprec.data.split import Split
from gossiprec.eventlog.live import Stateful
from gossiprec.measures.ranking import mean_of_known


def equal_groups(sizes: I64, n_groups: int) -> list[I64]:
    """Divide users by a number of each into groups of as equal size as possible; earlier groups have one more.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_users,)
        Users in the order of their ids.
    n_groups : int
        At most ``n_users``.

    Returns
    -------
    list of ndarray of int64
        Places in `sizes`: groups ascend by size, and so do users within a group; of equals, lower ids come first.
    """
    return np.array_split(np.argsort(sizes, kind="stable"), n_groups)


class ByActivity(Stateful):
    """Means of metrics of test items over groups of users with equally many training interactions.

    Parameters
    ----------
    split : Split
        Users with test items are put into groups.
    n_groups : int
        At most as many as there are such users.
    """

    changing = ("last", "validated")

    def __init__(self, split: Split, n_groups: int) -> None:
        self._sizes = split.train.sizes[split.test.sizes > 0]
        self._groups = equal_groups(self._sizes, n_groups)
        self._last: dict[str, list[float]] = {}
        self._validated: dict[str, list[float]] = {}

    def note(self, by_user: Mapping[str, F64], *, chosen: bool) -> None:
        """Take a report into account, and whether validation items have chosen it so far.

        Parameters
        ----------
        by_user : mapping of str to ndarray of float64, shape (n_users_with_test_items,)
            Each metric, users ascending; NaN of nothing.
        chosen : bool
        """
        self._last = {
            name: [mean_of_known(values[group]) for group in self._groups] for name, values in by_user.items()
        }
        if chosen:
            self._validated = self._last

    def summary(self) -> dict[str, Any]:
        """Return the groups from the least active on, with each metric at the last report and at the chosen one."""
        return {"by_activity": [self._told(place) for place in range(len(self._groups))]}

    def _told(self, place: int) -> dict[str, Any]:
        sizes = self._sizes[self._groups[place]]
        values = {"last": self._last, **({"validated": self._validated} if self._validated else {})}
        return {
            "users": len(sizes),
            "train_min": int(sizes.min()),
            "train_max": int(sizes.max()),
            **{when: {name: means[place] for name, means in found.items()} for when, found in values.items()},
        }
