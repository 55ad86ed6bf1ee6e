"""Early stop: a run ends when a metric has not improved for some reports (section ``stop`` of the scenario)."""

from __future__ import annotations

import math
from typing import Any

from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunContext, RunPart
from gossiprec.measures.direction import better_sign, compare_values
from gossiprec.runs import RunDirectory
from gossiprec.scenario.sections import StopOptions


@RUN_PARTS.register("early-stop")
class EarlyStop(RunPart):
    """A count of the reports since the best one, which ends a run when it reaches the patience.

    Parameters
    ----------
    options : StopOptions
    """

    checkpointed = ("best", "waited")

    def __init__(self, options: StopOptions) -> None:
        self._options = options
        self._best: dict[str, Any] = {}
        self._waited = 0
        self._stopped: dict[str, Any] = {}

    @classmethod
    def make(cls, run: RunContext) -> EarlyStop | None:
        """Return the rule of the section ``stop``, if the scenario has it."""
        stop = run.scenario.stop
        return None if stop is None else cls(stop)

    def after_utility(self, report: ReportInProgress) -> bool:
        """Take a report into account, and return whether the run ends with it; NaN is no better value."""
        options = self._options
        value = report.utility.get(options.measure, math.nan)
        if self._is_better(value):
            self._best, self._waited = {"value": value, "round": report.round, "time": report.time}, 0
            return False
        self._waited += 1
        if self._waited < options.patience or report.ends_schedule:
            return False
        self._stopped = {
            **options.model_dump(),
            "time": report.time,
            "round": report.round,
            "best": self._best or None,
        }
        return True

    def _is_better(self, value: float) -> bool:
        """Return whether a value is better than the best one by more than `min_delta`."""
        if not self._best:
            return not math.isnan(value)
        name = self._options.measure
        least = self._best["value"] + better_sign(name) * self._options.min_delta
        return compare_values(name, value, least) > 0

    def summary(self) -> dict[str, Any]:
        """Return how the rule ended the run; empty if it did not."""
        return {"stopped": self._stopped} if self._stopped else {}

    def close(self, directory: RunDirectory) -> None:
        """Add to the manifest how the rule ended the run."""
        directory.add_to_manifest(self.summary())
