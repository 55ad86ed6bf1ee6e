"""Stored versions: models that a run keeps at its reports (``evaluate.keep``), and that later observers read.

If all reports are stored, every trained model is, by its node and local update; all other models follow from these by
merging, so observers receive the same messages as in the run. Of chosen reports the models of all nodes are stored.
"""

from __future__ import annotations

import shutil
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import LogError, ResourceError, ScenarioError
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.compute.update_noise import RunTasks
from gossiprec.compute.waves import WaveOptions, WaveRunner
from gossiprec.emulation.assembly.carrier import CARRIERS, Carrier
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.assembly.schedule import Schedule
from gossiprec.runs import Run, run_files
from gossiprec.runs.run_files import versions_path
from gossiprec.runs.run_tables import read_arrays, write_arrays
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.tape_runner import TapeRunner
    from gossiprec.emulation.run.run_options import RunOptions

MOST_UPDATES = 2**32
"""Above the number of local updates of any node."""


class VersionCarrier(Carrier):
    """The carrier of a run that stores versions or reads them, report by report.

    Parameters
    ----------
    folder : Path
        The directory of the run that stores them.
    """

    _arena: Arena
    _report: int

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make_runner(self, prepared: PreparedRun, options: WaveOptions) -> WaveRunner:
        """Return the runner of plans, which also stores or reads versions."""
        self._arena = prepared.executor.work.arena
        runner = super().make_runner(prepared, options)
        runner.run_tasks = self._wrap(runner.run_tasks)
        return runner

    def begin(self, after: int, tape_runner: TapeRunner) -> None:
        """Begin the events after `after` reports."""
        self.begin_report(after + 1)

    def continue_or_end(self, after: int, *, end: bool, changed: bool) -> None:
        """Continue with the events after `after` reports."""
        self.begin_report(after + 1)

    def begin_report(self, report: int) -> None:
        """Begin the events before a report, numbered from 1."""
        self._report = report

    @abstractmethod
    def _wrap(self, run: RunTasks) -> RunTasks:
        """Return the function that runs tasks."""


@CARRIERS.register("versions")
class VersionWriter(VersionCarrier):
    """The writer of versions.

    Parameters
    ----------
    scenario : Scenario
    options : RunOptions
    folder : Path
        The run directory.
    """

    def __init__(self, scenario: Scenario, options: RunOptions, folder: Path) -> None:
        super().__init__(folder)
        reports, reports_up_to = scenario.evaluate.stored_reports or (), scenario.evaluate.reports_up_to
        self._reports = tuple(map(reports_up_to, reports)) if isinstance(reports, tuple) else reports
        self._trained: list[tuple[I64, F32]] = []

    def check(self, components: RunComponents, schedule: Schedule) -> None:
        """Refuse to store versions of a run that does not allow it.

        Raises
        ------
        ScenarioError
            If nodes hold no models, or the run chooses by values of models or is divided.
        """
        why = None
        if not components.mode.nodes_hold_models:
            why = f"in the run mode {components.mode.title} nodes hold no whole models"
        elif components.scenario.executor.shards > 1:
            why = "the run is divided among shards"
        elif schedule.depends_on_values or components.coordination.server is not None:
            why = "the run makes choices by values of models"
        if why is not None:
            raise ScenarioError(
                f"evaluate.keep: found versions, but {why}; expected null; remove it (gossiprec observe runs the "
                "scenario again)"
            )

    def check_room(self, prepared: PreparedRun) -> None:
        """Refuse to store versions that do not fit on the disk.

        Raises
        ------
        ResourceError
        """
        n, reports = prepared.schedule.n_updates, self._reports
        if reports != "all":
            n = prepared.components.protocol.n_nodes * (1 if reports == "last" else len(reports))
        arena: Arena = prepared.executor.work.arena
        needed = n * (arena.layout.row_size * arena.rows.itemsize + 8)
        existing = next(
            path for path in (self._folder.absolute(), *self._folder.absolute().parents) if path.exists()
        )
        free = shutil.disk_usage(existing).free
        if needed > free:
            raise ResourceError(
                f"evaluate.keep: {n:,} versions need {needed / 2**20:,.0f} MiB, and {free / 2**20:,.0f} MiB are "
                "free on the disk; store fewer reports, such as keep: {versions: last}"
            )

    def _wrap(self, run: RunTasks) -> RunTasks:
        """Return a function that runs tasks, and copies the trained models if all reports are stored."""

        def run_and_copy(program: Program, tasks: I64) -> None:
            run(program, tasks)
            trained = tasks[program.update[tasks] >= 0]
            if len(trained):
                self._trained.append((_keys(program, trained), self._arena.load(program.target[trained])))

        return run_and_copy if self._reports == "all" else run

    def write(self, current: I64, *, last: bool) -> None:
        """Store the trained models, or the nodes' models if the report is a chosen one."""
        nodes = np.arange(len(current))
        if self._reports == "all":
            empty = (np.zeros(0, np.int64), np.zeros((0, self._arena.layout.row_size), np.float32))
            keys, rows = map(np.concatenate, zip(empty, *self._trained, strict=True))
            order, self._trained = np.argsort(keys), []
            keys, rows = keys[order], rows[order]
        elif last if self._reports == "last" else self._report in self._reports:
            keys, rows = nodes * MOST_UPDATES, self._arena.models(current, nodes)
        else:
            return
        write_arrays(
            versions_path(self._folder, self._report),
            {"keys": keys, "rows": rows.astype(self._arena.rows.dtype)},
        )


class VersionReader(VersionCarrier):
    """The reader of versions that another run has stored.

    Parameters
    ----------
    folder : Path
        That run's directory.
    trained : bool
        Whether its files have every trained model.
    """

    trains = False

    def __init__(self, folder: Path, *, trained: bool) -> None:
        super().__init__(folder)
        self.computes = trained
        self._keys, self._rows = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)

    def _wrap(self, run: RunTasks) -> RunTasks:
        """Return a function that runs tasks, with stored models in place of training."""

        def run_with_stored(program: Program, tasks: I64) -> None:
            is_trained = program.update[tasks] >= 0
            if not is_trained.all():
                run(program, tasks[~is_trained])
            if is_trained.any():
                trained = tasks[is_trained]
                self._arena.store(program.target[trained], self._find(_keys(program, trained)), None)

        return run_with_stored

    def begin_report(self, report: int) -> None:
        """Read the file of a report, if the run has stored it."""
        path = versions_path(self._folder, report)
        found = read_arrays(path)
        self._keys, self._rows = found.get("keys", self._keys[:0]), found.get("rows", self._rows[:0])
        if self._keys.ndim != 1 or self._rows.ndim != 2 or len(self._keys) != len(self._rows):
            raise LogError(f"{path}: found arrays of other shapes; {_NEXT}")

    def read_models(self, current: I64) -> bool:
        """Return whether the report is stored, after the nodes' models are read if nothing is computed."""
        if self.computes:
            return True
        if len(self._keys):
            self._arena.store(current, self._find(np.arange(len(current)) * MOST_UPDATES), None)
        return len(self._keys) > 0

    def _find(self, keys: I64) -> F32:
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        if not known.all() or self._rows.shape[1:] != self._arena.rows.shape[1:]:
            node, update = divmod(int(keys[~known][0]) if not known.all() else 0, MOST_UPDATES)
            raise LogError(
                f"{self._folder}: found no stored version of node {node} (local update {update}); {_NEXT}"
            )
        return self._rows[at]


_NEXT = "expected the versions that the run stored; observe it without them: --replay"


def _keys(program: Program, tasks: I64) -> I64:
    """Return the keys of trained models, by node and local update."""
    return program.node[tasks].astype(np.int64) * MOST_UPDATES + program.update[tasks]


def stored_versions(run: Run, scenario: Scenario, *, stored: bool | None) -> VersionReader | None:
    """Return the versions of a run that are enough for the observers of a scenario, or None if it must run again.

    Parameters
    ----------
    run : Run
    scenario : Scenario
        The run's, with later observers and measures.
    stored : bool, optional
        True refuses to run the scenario again, and False always does.

    Raises
    ------
    LogError
        If stored versions are required and are not enough.
    """
    has_all = run.scenario.get("evaluate", {}).get("keep") in ("versions", {"versions": "all"})
    if stored is False:
        return None
    found, why = any(run.path.glob(run_files.VERSIONS)), None
    if not found:
        why = "no stored versions; expected a run with evaluate.keep"
    elif not has_all and scenario.observers:
        names = ", ".join(choice.name for choice in scenario.observers)
        why = f"models of some reports only, but {names} needs messages; expected keep: versions, at all reports"
    elif not has_all and scenario.stop:
        why = "models of some reports only, but the run was ended by a rule; expected keep: versions, at all reports"
    if why is None:
        return VersionReader(run.path, trained=has_all)
    if stored:
        raise LogError(f"{run.path}: found {why}; run the scenario again: --replay")
    return None
