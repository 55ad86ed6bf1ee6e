"""Changes of training during a run, by the report after which they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gossiprec.compute.executors.base import Executor
from gossiprec.scenario.sections import EvaluateOptions, OptionChange

FIELDS = {
    "training.learning_rate": ("learning_rate",),
    "training.betas": ("beta1", "beta2"),
    "training.eps": ("epsilon",),
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
