"""Values by user: metrics, and results of attacks, of single users at some reports (``evaluate.by_user``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunContext, RunPart
from gossiprec.runs import RunDirectory
from gossiprec.runs.run_tables import UserRow

if TYPE_CHECKING:
    from gossiprec.emulation.scoring.utility import UtilityEvaluator


@RUN_PARTS.register("by-user")
class UserValues(RunPart):
    """The values of metrics, and of results of attacks, of single users at the reports that are kept.

    Parameters
    ----------
    utility : UtilityEvaluator
    n_users : int
    keep_all : bool
        Whether all reports are kept; otherwise the last one and the one that validation items choose.
    """

    checkpointed = ("users", "reports")

    def __init__(self, utility: UtilityEvaluator, n_users: int, *, keep_all: bool) -> None:
        self._utility, self._n_users, self._keep_all = utility, n_users, keep_all
        self._users: dict[str, I64] = {}
        self._reports: list[dict[str, Any]] = []

    @classmethod
    def make(cls, run: RunContext) -> UserValues | None:
        """Return the values of a run, unless its scenario keeps none."""
        kept, n_users = run.scenario.evaluate.by_user, run.prepared.components.split.n_users
        return None if kept == "none" else cls(run.utility, n_users, keep_all=kept == "all")

    def after_attacks(self, report: ReportInProgress) -> None:
        """Take the values of a report, those of attacks for the nodes that are users."""
        by_user, n_users = self._utility.by_user, self._n_users
        self._users |= {name: users for name, (users, _) in by_user.items()}  # the same at all reports
        values = {name: values for name, (_, values) in by_user.items()}
        for name, (nodes, found) in report.per_node.items():
            known = np.full(n_users, np.nan)  # of all users, because other reports may have other nodes
            is_user = nodes < n_users
            known[nodes[is_user]] = found[is_user]
            self._users[name], values[name] = np.arange(n_users), known
        kept = [old for old in self._reports if self._keep_all or (old["chosen"] and not report.is_best)]
        about = {"time": report.time, "round": report.round, "chosen": report.is_best, "values": values}
        self._reports = [*kept, about]

    def close(self, directory: RunDirectory) -> None:
        """Write the values."""
        directory.write_by_user(self._rows())

    def _rows(self) -> Iterator[UserRow]:
        """Yield time, round, metric, users and values of each report and metric, without undefined values."""
        for report in self._reports:
            for name, values in report["values"].items():
                known = ~np.isnan(values)
                yield report["time"], report["round"], name, self._users[name][known], values[known]
