"""The record of a study's results: the table and ``study.json``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from gossiprec.base.errors import LogError
from gossiprec.runs import open_run
from gossiprec.runs.lock import process_identity
from gossiprec.runs.manifest import utc_now
from gossiprec.scenario.plugins import scenario_code_version
from gossiprec.study.deduplication import SharedSimulation, scenario_table_keys
from gossiprec.study.folder import StudyFolder
from gossiprec.study.plan import StudyPlan, Variant
from gossiprec.study.table_rows import NO_ATTACK, Row, extract_rows, first_missing_attack
from gossiprec.study.table_writer import axis_type, write_study_table
from gossiprec.study.task import TaskResult
from gossiprec.version import __version__, code_version

REFRESH_S = 3.0
"""Least time between two writes of the table in seconds."""


@dataclass
class StudyOutcome:
    """The outcome of a study.

    Attributes
    ----------
    made, kept : int
        Simulations run now, and finished before.
    failed : dict of str to TaskResult
        Failed tasks, by hash.
    notes : dict of str to list of str
        Notes of runs, each with the hashes of the runs that issued it.
    left : int
        Simulations that have not run yet.
    seconds : float
        Wall time in seconds.
    """

    made: int = 0
    kept: int = 0
    failed: dict[str, TaskResult] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    left: int = 0
    seconds: float = 0.0


class StudyRecord:
    """The results of each variant of a plan.

    Parameters
    ----------
    plan : StudyPlan
    folder : StudyFolder

    Attributes
    ----------
    outcome : StudyOutcome
    codes : dict of str to str
        The code version of each simulation that is finished, by hash.
    """

    def __init__(self, plan: StudyPlan, folder: StudyFolder) -> None:
        self.plan = plan
        self.folder = folder
        self.outcome = StudyOutcome()
        self.codes: dict[str, str] = {}
        self._served_by = plan.simulation_of
        self._rows: dict[str, list[Row]] = {}
        self._started = utc_now()
        self._due = 0.0
        labels = {name: [v.labels[name] for v in plan.variants] for name in plan.study.file.axes}
        self._axes = {name: axis_type(found) for name, found in labels.items()}

    @property
    def n_simulations(self) -> int:
        """Number of simulations that serve the variants."""
        return len({simulation.hash for simulation in self._served_by.values()})

    def serve_apart(self, parts: list[SharedSimulation]) -> None:
        """Let variants be served by these simulations instead of the shared one."""
        self._served_by |= {served: simulation for simulation in parts for served in simulation.serves}

    def finish(self, hash_: str, code: str) -> None:
        """Note that a simulation is finished."""
        self.codes[hash_] = code

    def labels(self, hash_: str) -> list[str]:
        """Return the labels of the variants of a simulation."""
        return [_label(variant) for variant in self._variants(hash_)]

    def headline(self, hash_: str) -> str:
        """Return the first measure of a simulation as text."""
        rows = [row for variant in self._variants(hash_)[:1] for row in self._rows_of(variant)]
        return _words(rows[0]) if rows and rows[0]["measure"] else ""

    def write(self, status: str, *, if_due: bool = False) -> None:
        """Write the table and ``study.json``; with `if_due`, not if that was done recently."""
        begin = time.monotonic()
        if if_due and begin < self._due:
            return
        rows = [row for variant in self.plan.variants for row in self._rows_of(variant)]
        write_study_table(self.folder.path, rows, self._axes)
        self.folder.write_mark(self._mark(status, len(rows)))
        # writing takes up to 5 % of the time
        self._due = time.monotonic() + max(REFRESH_S, 20 * (time.monotonic() - begin))

    def _variants(self, hash_: str) -> list[Variant]:
        return [v for v in self.plan.variants if self._served_by[v.hash].hash == hash_]

    def _rows_of(self, variant: Variant) -> list[Row]:
        """Return the variant's rows; none until its simulation has ended."""
        simulation = self._served_by[variant.hash]
        about = {**variant.labels, "seed": variant.seed, "run": simulation.hash}
        if simulation.hash in self.outcome.failed:
            none = {"measure": None, **NO_ATTACK, "value": None}
            return [{**about, **none, "status": "failed", "code": scenario_code_version(simulation.scenario)}]
        if simulation.hash not in self.codes:
            return []
        if variant.hash not in self._rows:
            self._rows[variant.hash] = self._measured(variant, simulation)
        code = self.codes[simulation.hash]
        return [{**about, **row, "status": "complete", "code": code} for row in self._rows[variant.hash]]

    def _measured(self, variant: Variant, simulation: SharedSimulation) -> list[Row]:
        scenario = variant.scenario
        summary, keys = open_run(self.folder.run(simulation)).summary or {}, scenario_table_keys(scenario)
        lacking = first_missing_attack(summary, keys)
        if lacking:
            raise LogError(
                f"{self.folder.run(simulation)} has no attack named {lacking}, although its scenario defines "
                "one: the attack's table_keys do not match the rows it reports; this is a bug in the attack"
            )
        attacks = {choice.name for choice in scenario.observers}
        return extract_rows(summary, scenario.evaluate.measured(), keys, self.plan.measures, attacks)

    def _mark(self, status: str, n_rows: int) -> dict[str, Any]:
        plan, outcome = self.plan, self.outcome
        return {
            "study": plan.study.name,
            "gossiprec": __version__,
            "code": code_version(),
            "status": status,
            "variants": len(plan.variants),
            "repeated": plan.n_repeated,
            "simulations": self.n_simulations,
            "finished": len(self.codes),
            "kept": outcome.kept,
            "left": outcome.left,
            "rows": n_rows,
            "axes": list(plan.study.file.axes),
            "baseline": plan.baseline,
            "words": plan.study.file.words,
            "picture": plan.study.file.first_picture,
            "failed": [self._failure(done) for done in outcome.failed.values()],
            "started": self._started,
            "written": utc_now(),
            "writer": process_identity(),
        }

    def _failure(self, done: TaskResult) -> dict[str, Any]:
        about = {"run": done.hash, "variants": self.labels(done.hash), "problem": done.problem}
        return {**about, "trace": done.trace} if done.trace else about


def _label(variant: Variant) -> str:
    return ", ".join([*(f"{name}={value}" for name, value in variant.labels.items()), f"seed {variant.seed}"])


def _words(row: Row) -> str:
    about = f"[{row['observer']},{row['relevance']}]" if row["observer"] else ""
    return f"{row['measure']}{about} {row['value']:.4g}"
