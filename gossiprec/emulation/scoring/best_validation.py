"""The report with the best validation metric, and the other metrics at that report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gossiprec.measures.metric import ON_VALIDATION
from gossiprec.measures.selectors import VALIDATED, baseline_metric_name, split_baseline_name
from gossiprec.runs.checkpoint_state import Stateful


class BestValidationReport(Stateful):
    """A record of the report at which a metric of validation items is highest, the first on ties.

    Parameters
    ----------
    by : str
        The metric; a report without it cannot be chosen.
    """

    changing = ("best",)

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
