"""Changes of options of training after a report (section ``changes`` of the scenario, or requested in Python)."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation.run.run_part import RUN_PARTS, RunContext, RunPart
from gossiprec.runs.schema import OPTIONS
from gossiprec.scenario.section_checks import change_problems
from gossiprec.scenario.sections import OptionChange

FIELDS = {
    "training.learning_rate": ("learning_rate",),
    "training.betas": ("beta1", "beta2"),
    "training.eps": ("epsilon",),
    "training.local_epochs": ("local_epochs",),
    "training.negatives": ("negatives",),
}
"""The names of each option's numbers in the settings of training."""


@RUN_PARTS.register("option-changes")
class OptionChanges(RunPart):
    """The changes of a run's training: of the section ``changes``, and those requested during the run.

    Every run has them, because they can be requested at any report.
    """

    def __init__(self, run: RunContext) -> None:
        super().__init__(run)
        self._executor = run.prepared.executor
        self._of_report: dict[int, list[OptionChange]] = defaultdict(list)
        self._next = 0  # the report after which the next changes hold
        recorded = [OptionChange.model_validate(change) for change in run.directory.changes]
        for change in (*run.scenario.changes, *recorded):
            self._add(change)

    def _add(self, change: OptionChange) -> None:
        """Add a change, which holds after the earlier ones."""
        self._of_report[self._run.scenario.evaluate.reports_up_to(change.at)].append(change)

    def change(self, option: str, value: Any) -> None:
        """Change an option after the last report; the manifest records it at once.

        Raises
        ------
        ScenarioError
            If the option cannot be changed, or has no such value.
        """
        scenario = self._run.scenario
        rounds = itertools.islice(scenario.evaluate.rounds(), self._next)
        wanted = {"at": [0, *rounds][-1], "set": {option: value}}
        changed = scenario.with_(changes=(wanted,))
        for _, problem in change_problems(changed):
            raise ScenarioError(f"change: {problem}")
        (change,) = changed.changes
        self._run.directory.record_change(change.model_dump(mode="json"))
        self._add(change)

    def before_events(self, after: int, *, time: float, round: int) -> None:
        """Set the options changed after a report, also those of an earlier process, and log the new changes."""
        for earlier in range(self._next, after):
            self._apply(earlier)
        changes, self._next = self._apply(after), after + 1
        if changes:
            n, codes = len(changes), [OPTIONS.index(name) for name in changes]
            rounds, options = np.full(n, round, np.int32), np.array(codes, np.uint8)
            values = np.array(list(changes.values()))
            columns = {"time": np.full(n, time), "round": rounds, "option": options, "value": values}
            self._run.directory.log.append("change", columns)

    def _apply(self, report: int) -> dict[str, float]:
        """Set the options changed after a report, 0 being the start, and return names and values of numbers."""
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
            training = replace(self._executor.work.training, **settings)
            self._executor.use_training(training)
            self._run.recording.use_training(training)
        return rows
