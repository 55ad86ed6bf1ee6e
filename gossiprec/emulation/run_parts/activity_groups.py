"""Utility by activity: test metrics for groups of users with similar numbers of interactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gossiprec.data.split import Split
from gossiprec.emulation.assembly.user_groups import split_into_groups
from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunContext, RunPart
from gossiprec.measures.ranking import nanmean

if TYPE_CHECKING:
    from gossiprec.emulation.scoring.utility import UtilityEvaluator


@RUN_PARTS.register("activity-groups")
class ActivityGroupMetrics(RunPart):
    """The means of test metrics over groups of users with similar numbers of training interactions.

    Parameters
    ----------
    split : Split
        Its users with test items are put into groups.
    n_groups : int
        Not more than the number of such users.
    utility : UtilityEvaluator
    """

    checkpointed = ("last", "validated")

    def __init__(self, split: Split, n_groups: int, utility: UtilityEvaluator) -> None:
        self._utility = utility
        self._sizes = split.train.sizes[split.test.sizes > 0]
        self._groups = split_into_groups(self._sizes, n_groups)
        self._last: dict[str, list[float]] = {}
        self._validated: dict[str, list[float]] = {}

    @classmethod
    def make(cls, run: RunContext) -> ActivityGroupMetrics | None:
        """Return the means of a run, if its scenario has groups by activity."""
        n_groups = run.scenario.evaluate.activity_groups
        return None if n_groups is None else cls(run.prepared.components.split, n_groups, run.utility)

    def after_attacks(self, report: ReportInProgress) -> None:
        """Take a report into account; whether it is the best by validation items is known then."""
        by_user = self._utility.values_of_tested_users
        self._last = {
            name: [nanmean(values[group]) for group in self._groups] for name, values in by_user.items()
        }
        if report.is_best:
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
