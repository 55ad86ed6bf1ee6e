"""The rule by which a run ends before its last report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gossiprec.emulation.scoring.utility_summaries import sign_of
from gossiprec.runs.checkpoint_state import Stateful
from gossiprec.scenario.sections import StopOptions


class EarlyStop(Stateful):
    """A count of the reports since the best one, which ends a run when it reaches the patience.

    Parameters
    ----------
    options : StopOptions
    """

    checkpointed = ("best", "waited")

    def __init__(self, options: StopOptions) -> None:
        self._options, self._sign = options, sign_of(options.measure)
        self._best: dict[str, Any] = {}
        self._waited = 0
        self._stopped: dict[str, Any] = {}

    def note(self, utility: Mapping[str, float], *, time: float, round: int) -> bool:
        """Take a report into account, and return whether the run ends with it; NaN is no better value."""
        options = self._options
        value = utility.get(options.measure, math.nan)
        gain = self._sign * (value - self._best.get("value", -self._sign * math.inf))
        if gain > options.min_delta:
            self._best, self._waited = {"value": value, "round": round, "time": time}, 0
            return False
        self._waited += 1
        if self._waited < options.patience:
            return False
        self._stopped = {**options.model_dump(), "time": time, "round": round, "best": self._best or None}
        return True

    def summary(self) -> dict[str, Any]:
        """Return how the rule ended the run; empty if it did not."""
        return {"stopped": self._stopped} if self._stopped else {}
