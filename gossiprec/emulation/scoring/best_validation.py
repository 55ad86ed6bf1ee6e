"""The metrics of models over the reports: at the report with the best validation metric, and by activity group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.data.split import Split
from gossiprec.measures.metric import ON_VALIDATION
from gossiprec.measures.ranking import nanmean
from gossiprec.measures.selectors import VALIDATED, baseline_metric_name, split_baseline_name
from gossiprec.runs.checkpoint_state import Stateful


class BestValidationReport(Stateful):
    """A record of the report at which a metric of validation items is highest, the first on ties.

    Parameters
    ----------
    by : str
        The metric; a report without it cannot be chosen.
    """

    checkpointed = ("best",)

    def __init__(self, by: str) -> None:
        self._by = by
        self._best: dict[str, Any] = {}

    def note(self, utility: Mapping[str, float], *, time: float, round: int) -> bool:
        """Take a report into account, and return whether it is the best so far."""
        value = utility.get(self._by, math.nan)
        best = bool(value > self._best.get("value", -math.inf))
        if best:
            self._best = {"value": value, "round": round, "time": time, "utility": dict(utility)}
        return best

    def utility(self) -> dict[str, float]:
        """Return the metrics of models, except those of validation items, at the chosen report."""
        return {
            baseline_metric_name(name, VALIDATED): value
            for name, value in self._best.get("utility", {}).items()
            if not name.startswith(ON_VALIDATION) and not split_baseline_name(name)[1]
        }

    def summary(self) -> dict[str, Any]:
        """Return the chosen report and its metric; empty if none can be chosen."""
        if not self._best:
            return {}
        return {"validated": {"by": self._by, **{key: self._best[key] for key in ("value", "round", "time")}}}


def split_into_groups(sizes: I64, n_groups: int) -> list[I64]:
    """Divide users by a number of each into groups of equal size; earlier groups may have one more.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_users,)
        Users in the order of their ids.
    n_groups : int
        At most ``n_users``.

    Returns
    -------
    list of ndarray of int64
        Positions in `sizes`: groups ascend by size, and so do users within a group; lower ids come first on ties.
    """
    return np.array_split(np.argsort(sizes, kind="stable"), n_groups)


class ActivityGroupMetrics(Stateful):
    """The means of test metrics over groups of users with similar numbers of training interactions.

    Parameters
    ----------
    split : Split
        Its users with test items are put into groups.
    n_groups : int
        Not more than the number of such users.
    """

    checkpointed = ("last", "validated")

    def __init__(self, split: Split, n_groups: int) -> None:
        self._sizes = split.train.sizes[split.test.sizes > 0]
        self._groups = split_into_groups(self._sizes, n_groups)
        self._last: dict[str, list[float]] = {}
        self._validated: dict[str, list[float]] = {}

    def note(self, by_user: Mapping[str, F64], *, chosen: bool) -> None:
        """Take a report into account; `chosen` says whether it is the best by validation items so far.

        Parameters
        ----------
        by_user : mapping of str to ndarray of float64, shape (n_users_with_test_items,)
            Each metric, users ascending; NaN if undefined.
        chosen : bool
        """
        self._last = {
            name: [nanmean(values[group]) for group in self._groups] for name, values in by_user.items()
        }
        if chosen:
            self._validated = self._last

    def summary(self) -> dict[str, Any]:
        """Return the groups, least active first, with each metric at the last report and at the chosen one."""
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
