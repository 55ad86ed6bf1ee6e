"""Summaries of utility: the report with the best validation metric, activity groups of users, and remarks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.base.arrays import F64, I32, I64
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.user_groups import UserGroup, split_into_groups
from gossiprec.measures.direction import best_place, better_sign, compare_values
from gossiprec.measures.ranking import CUTOFF, PADDING, nanmean
from gossiprec.measures.selectors import (
    ON_VALIDATION,
    VALIDATED,
    baseline_metric_name,
    split_baseline_name,
)
from gossiprec.runs.checkpoint_state import Stateful
from gossiprec.runs.run_tables import UserRow


class BestValidationReport(Stateful):
    """A record of the report at which a metric of validation items is best, the first on ties.

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
        best = best_place(self._by, [self._best.get("value", math.nan), value]) == 1
        if best:
            self._best = {"value": value, "round": round, "time": time, "utility": dict(utility)}
        return best

    def utility(self) -> dict[str, float]:
        """Return the metrics of models at the chosen report, without metrics of validation items."""
        return {
            baseline_metric_name(name, VALIDATED): value
            for name, value in self._best.get("utility", {}).items()
            if not name.startswith(ON_VALIDATION) and not split_baseline_name(name)[1]
        }

    @property
    def chosen(self) -> Mapping[str, float]:
        """All metrics at the chosen report; empty if none can be chosen."""
        return self._best.get("utility", {})

    def summary(self) -> dict[str, Any]:
        """Return the chosen report and its metric; empty if none can be chosen."""
        if not self._best:
            return {}
        return {"validated": {"by": self._by, **{key: self._best[key] for key in ("value", "round", "time")}}}


def group_summary(
    groups: Sequence[UserGroup], split: Split, last: Mapping[str, float], chosen: Mapping[str, float]
) -> dict[str, Any]:
    """Return the groups with their metrics at the last and the chosen report; empty without groups."""
    rows = []
    for group in groups:
        end = group.metric_name("")
        values = {
            when: {name.removesuffix(end): value for name, value in found.items() if name.endswith(end)}
            for when, found in (("last", last), ("validated", chosen))
        }
        rows.append({**group.summary(split), **{when: found for when, found in values.items() if found}})
    return {"groups": rows} if rows else {}


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
        return {"by_activity": [self._group_summary(number) for number in range(len(self._groups))]}

    def _group_summary(self, number: int) -> dict[str, Any]:
        sizes = self._sizes[self._groups[number]]
        values = {"last": self._last, **({"validated": self._validated} if self._validated else {})}
        return {
            "users": len(sizes),
            "train_min": int(sizes.min()),
            "train_max": int(sizes.max()),
            **{when: {name: m[number] for name, m in means.items()} for when, means in values.items()},
        }


class UserValues(Stateful):
    """The values of metrics, and of results of attacks, of single users at the reports that are kept.

    Parameters
    ----------
    keep_all : bool
        Whether all reports are kept; otherwise the last one and the one that validation items choose.
    """

    checkpointed = ("users", "reports")

    def __init__(self, *, keep_all: bool) -> None:
        self._keep_all = keep_all
        self._users: dict[str, I64] = {}
        self._reports: list[dict[str, Any]] = []

    def note(self, by_user: Mapping[str, tuple[I64, F64]], *, time: float, round: int, chosen: bool) -> None:
        """Take a report into account: users and values by metric, and whether it is the best so far."""
        self._users |= {name: users for name, (users, _) in by_user.items()}  # the same at all reports
        kept = [report for report in self._reports if self._keep_all or (report["chosen"] and not chosen)]
        values = {name: values for name, (_, values) in by_user.items()}
        self._reports = [*kept, {"time": time, "round": round, "chosen": chosen, "values": values}]

    def note_attacks(self, found: Mapping[str, tuple[I64, F64]], n_users: int) -> None:
        """Add results of attacks to the last report: nodes, of which users count, and values by measure."""
        for name, (nodes, values) in found.items():
            known = np.full(n_users, np.nan)  # of all users, because other reports may have other nodes
            is_user = nodes < n_users
            known[nodes[is_user]] = values[is_user]
            self._users[name], self._reports[-1]["values"][name] = np.arange(n_users), known

    def rows(self) -> Iterator[UserRow]:
        """Yield time, round, metric, users and values of each report and metric, without undefined values."""
        for report in self._reports:
            for name, values in report["values"].items():
                known = ~np.isnan(values)
                yield report["time"], report["round"], name, self._users[name][known], values[known]


class LastLists(Stateful):
    """The recommendation lists of the last report: users and their items, best first."""

    checkpointed = ("users", "items")

    def __init__(self) -> None:
        self._users, self._items = np.zeros(0, np.int64), np.zeros((0, 0), np.int32)

    def note(self, lists: tuple[I64, I32] | None) -> None:
        """Take the lists of a report into account."""
        if lists is not None:
            self._users, self._items = lists

    def arrays(self) -> tuple[I64, I32]:
        """Return users, shape (n,), and items, shape (n, length)."""
        return self._users, self._items


@dataclass(frozen=True)
class Tie:
    """Users for whom all scores are equal at the last report.

    Attributes
    ----------
    n_users : int
    node : int
        One of them.
    updates : int
        Local updates of its model, or of the coordinator's if all share a model.
    time : float
        Of the report.
    """

    n_users: int
    node: int
    updates: int
    time: float


@dataclass(frozen=True)
class Remarks:
    """The remarks on the utility of a run.

    Attributes
    ----------
    n_users : int
    utility : mapping of str to float
        Metrics at the last report.
    baselines : mapping of str to mapping of str to float
        Metrics of test items for each baseline order of the items, by its name.
    few_candidates : mapping of str to int
        The users for whom a metric is uninformative, by metric: K reaches the number of candidates.
    few_to_judge : int
        Nodes that score models by :data:`.CUTOFF` candidates or fewer.
    tie : Tie or None
        None if no user has equal scores for all items.
    """

    n_users: int
    utility: Mapping[str, float]
    baselines: Mapping[str, Mapping[str, float]]
    few_candidates: Mapping[str, int]
    few_to_judge: int = 0
    tie: Tie | None = None

    @property
    def metrics_not_above_baselines(self) -> dict[str, list[str]]:
        """The metrics that are not better than the same metric of a baseline order, by the name of the order."""
        return {
            order: [
                name
                for name, value in found.items()
                if compare_values(name, self.utility.get(name, math.nan), value) <= 0
            ]
            for order, found in self.baselines.items()
        }

    def summary(self) -> dict[str, object]:
        """Return the fields of the summary."""
        return {
            "baselines": {order: dict(found) for order, found in self.baselines.items()},
            "not_above": self.metrics_not_above_baselines,
            "few_candidates": dict(self.few_candidates),
            "tied_users": self.tie.n_users if self.tie else 0,
        }

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each remark."""
        for order, names in self.metrics_not_above_baselines.items():
            found = self.baselines[order]
            for sign, words, why in ((1, "above", ""), (-1, "better than", " (lower is better)")):
                own = [name for name in names if better_sign(name) == sign]
                pairs = (f"{n} {100 * self.utility[n]:.1f} % against {100 * found[n]:.1f} %" for n in own)
                if own:
                    yield f"utility is not {words} {order}: {', '.join(pairs)}{why}"
        for name, count in self.few_candidates.items():
            yield (
                f"{name} is meaningless for {count:,} of {self.n_users:,} users, because K reaches the "
                "number of their candidates; lower K"
            )
        if self.few_to_judge:
            yield (
                f"{self.few_to_judge:,} nodes score received models on {CUTOFF} candidates or fewer, so "
                f"every model has a hit among the first {CUTOFF}"
            )
        if self.tie:
            yield (
                f"all scores of {self.tie.n_users:,} of {self.n_users:,} users are equal, including node "
                f"{self.tie.node} (time {self.tie.time:.6g}, after {self.tie.updates:,} local updates): such "
                "a model cannot rank items; if it was trained, its last layer may have no active unit"
            )


def count_nodes_with_few_candidates(candidates: Ragged | None) -> int:
    """Return the number of nodes that score models by :data:`.CUTOFF` candidates or fewer."""
    if candidates is None:
        return 0
    few = np.count_nonzero(candidates.values != PADDING, axis=1) - 1 <= CUTOFF
    return len(np.unique(candidates.row_of_each_value[few]))
