"""Groups of users in the summary: their sizes, and their utility (``evaluate.groups``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gossiprec.data.split import Split
from gossiprec.emulation.assembly.user_groups import UserGroup, make_groups
from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunContext, RunPart


@RUN_PARTS.register("groups")
class GroupUtility(RunPart):
    """The utility of each group of users at the last report, and at the one that validation items choose.

    Parameters
    ----------
    groups : sequence of UserGroup
    split : Split
    """

    checkpointed = ("last", "validated")

    def __init__(self, groups: Sequence[UserGroup], split: Split) -> None:
        self._groups, self._split = groups, split
        self._last: dict[str, float] = {}
        self._validated: dict[str, float] = {}

    @classmethod
    def make(cls, run: RunContext) -> GroupUtility | None:
        """Return the utility of the groups, if the scenario has any."""
        groups = make_groups(run.scenario, run.prepared.components.split)
        return cls(groups, run.prepared.components.split) if groups else None

    def after_attacks(self, report: ReportInProgress) -> None:
        """Take a report into account; whether it is the best by validation items is known then."""
        self._last = report.utility
        if report.is_best:
            self._validated = report.utility

    def summary(self) -> dict[str, Any]:
        """Return the groups with their metrics."""
        rows = []
        for group in self._groups:
            end = group.metric_name("")
            values = {
                when: {name.removesuffix(end): value for name, value in found.items() if name.endswith(end)}
                for when, found in (("last", self._last), ("validated", self._validated))
            }
            about = {when: found for when, found in values.items() if found}
            rows.append({**group.summary(self._split), **about})
        return {"groups": rows}
