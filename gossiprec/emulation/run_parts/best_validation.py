"""The report at which a metric of validation items is best, and its utility."""

from __future__ import annotations

import math
from typing import Any

from gossiprec.emulation.run.run_part import RUN_PARTS, ReportInProgress, RunContext, RunPart
from gossiprec.measures.direction import best_place
from gossiprec.measures.selectors import ON_VALIDATION, VALIDATED, baseline_metric_name, split_baseline_name


@RUN_PARTS.register("best-validation")
class BestValidationReport(RunPart):
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

    @classmethod
    def make(cls, run: RunContext) -> BestValidationReport | None:
        """Return the record for the metric of validation items that is evaluated first, if there is one."""
        by = run.scenario.evaluate.validation_metric
        return None if by is None else cls(by)

    def after_utility(self, report: ReportInProgress) -> bool:
        """Take a report into account, and mark it if it is the best so far."""
        value = report.utility.get(self._by, math.nan)
        report.is_best = best_place(self._by, [self._best.get("value", math.nan), value]) == 1
        if report.is_best:
            self._best = {
                "value": value, "round": report.round, "time": report.time, "utility": dict(report.utility)
            }  # fmt: skip
        return False

    def _utility(self) -> dict[str, float]:
        """Return the metrics of models at the chosen report, without metrics of validation items."""
        return {
            baseline_metric_name(name, VALIDATED): value
            for name, value in self._best.get("utility", {}).items()
            if not name.startswith(ON_VALIDATION) and not split_baseline_name(name)[1]
        }

    def summary(self) -> dict[str, Any]:
        """Return the chosen report, its metric, and its utility; empty if none can be chosen."""
        if not self._best:
            return {}
        chosen = {"by": self._by, **{key: self._best[key] for key in ("value", "round", "time")}}
        return {"validated": chosen, "utility": self._utility()}
