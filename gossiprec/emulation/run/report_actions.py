"""Actions of a run after a report: changes of its training, and the rule that ends it early."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gossiprec.compute.executors.base import Executor
from gossiprec.emulation.scoring.utility_summaries import sign_of
from gossiprec.runs.checkpoint_state import Stateful
from gossiprec.scenario.sections import EvaluateOptions, OptionChange, StopOptions

FIELDS = {
    "training.learning_rate": ("learning_rate",),
    "training.betas": ("beta1", "beta2"),
    "training.eps": ("epsilon",),
    "training.local_epochs": ("local_epochs",),
    "training.negatives": ("negatives",),
}
"""The names of each option's numbers in the settings of training."""


class OptionChanges:
    """The changes of a run's training.

    Parameters
    ----------
    changes : iterable of OptionChange
    evaluate : EvaluateOptions
    executor : Executor
        The executor that trains.
    """

    def __init__(
        self, changes: Iterable[OptionChange], evaluate: EvaluateOptions, executor: Executor
    ) -> None:
        self._evaluate, self._executor = evaluate, executor
        self._of_report: dict[int, list[OptionChange]] = defaultdict(list)
        for change in changes:
            self.add(change)

    def add(self, change: OptionChange) -> None:
        """Add a change, which holds after the earlier ones."""
        self._of_report[self._evaluate.reports_up_to(change.at)].append(change)

    def apply(self, report: int) -> list[tuple[str, float]]:
        """Set the options changed after a report, 0 being the start, and return the names and values of numbers."""
        rows: dict[str, float] = {}
        settings: dict[str, Any] = {}
        for change in self._of_report[report]:
            for path, value in change.set.items():
                fields = FIELDS[path]
                values = value if len(fields) > 1 else [value]
                names = [f"{path}.{place}" for place in range(len(values))] if len(fields) > 1 else [path]
                rows |= dict(zip(names, values, strict=True))
                settings |= dict(zip(fields, values, strict=True))
        if settings:
            self._executor.use_training(replace(self._executor.work.training, **settings))
        return list(rows.items())


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
