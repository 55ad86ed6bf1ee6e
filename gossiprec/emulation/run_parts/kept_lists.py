"""Kept lists: the recommendation lists of the last report (``evaluate.keep_lists``), for ``lists.parquet``."""

from __future__ import annotations

import numpy as np

from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunContext, RunPart
from gossiprec.runs import RunDirectory


@RUN_PARTS.register("kept-lists")
class KeptLists(RunPart):
    """The recommendation lists of the last report: users and their items, best first."""

    checkpointed = ("users", "items")

    def __init__(self, run: RunContext) -> None:
        super().__init__(run)
        self._users, self._items = np.zeros(0, np.int64), np.zeros((0, 0), np.int32)

    @classmethod
    def make(cls, run: RunContext) -> KeptLists | None:
        """Return the lists, if the scenario keeps them."""
        return None if run.scenario.evaluate.keep_lists is None else cls(run)

    def after_utility(self, report: ReportInProgress) -> bool:
        """Take the lists of a report."""
        if self._run.utility.lists is not None:
            self._users, self._items = self._run.utility.lists
        return False

    def close(self, directory: RunDirectory) -> None:
        """Write the lists."""
        directory.write_lists(self._users, self._items)
