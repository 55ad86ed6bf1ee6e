"""The report that validation items choose: where they were recommended best, and how everything else stood there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gossiprec.eventlog.checkpoint_state import Stateful
from gossiprec.measures.metric import ON_VALIDATION
from gossiprec.measures.selectors import VALIDATED, baseline_metric_name, split_baseline_name


class BestValidationReport(Stateful):
    """Notes the report at which a metric of validation items is highest, of equals the first.

    Parameters
    ----------
    by : str
        The metric; a report at which it is not known is not chosen.
    """

    changing = ("best",)

    def __init__(self, by: str) -> None:
        self._by = by
        self._best: dict[str, Any] = {}

    def note(self, utility: Mapping[str, float], *, time: float, round: int) -> bool:
        """Take a report into account; say whether it is the best so far."""
        value = utility.get(self._by, math.nan)
        best = bool(value > self._best.get("value", -math.inf))
        if best:
            self._best = {"value": value, "round": round, "time": time, "utility": dict(utility)}
        return best

    def utility(self) -> dict[str, float]:
        """Return what metrics of models, but for those of validation items, were at the report that is chosen."""
        return {
            baseline_metric_name(name, VALIDATED): value
            for name, value in self._best.get("utility", {}).items()
            if not name.startswith(ON_VALIDATION) and not split_baseline_name(name)[1]
        }

    def summary(self) -> dict[str, Any]:
        """Return which report is chosen, and by what; nothing if none can be."""
        if not self._best:
            return {}
        return {"validated": {"by": self._by, **{key: self._best[key] for key in ("value", "round", "time")}}}
