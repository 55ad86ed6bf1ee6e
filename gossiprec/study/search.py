"""Searches: each combination of a study is chosen by Optuna from the results of the combinations before it."""

from __future__ import annotations

import itertools
import math
import statistics
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gossiprec.base.errors import GossipRecError, LogError, ScenarioError
from gossiprec.base.rng import generator
from gossiprec.emulation.progress import NullProgress
from gossiprec.emulation.run.live_run import prepare
from gossiprec.measures.selectors import read_measure
from gossiprec.runs import Run, open_run
from gossiprec.runs.run_directory import remove_run
from gossiprec.runs.search_record import SEARCH, describe_trial, open_storage, read_search
from gossiprec.scenario.registries import scenario_code_version
from gossiprec.study.folder import StudyFolder, StudyRecord
from gossiprec.study.plan import Point, StudyPlan, Variant, axis_settings, make_plan, of_range
from gossiprec.study.run_hash import SharedSimulation, deduplicate, hash_plain_data
from gossiprec.study.runner import StaleRuns, StudyRunner
from gossiprec.study.study_table import extract_rows
from gossiprec.study.task import DataCache, threads_per_job

if TYPE_CHECKING:
    import optuna

STARTUP = 5
"""Complete combinations before any is pruned."""


@dataclass
class Search:
    """A search in the folder of a study; combinations are run one after the other, in this process.

    Parameters
    ----------
    plan : StudyPlan
        The plan of the study, at both ends of all axes.
    folder : StudyFolder
        The locked folder.
    stale_runs : {"refuse", "again", "keep"}
    limit : int, optional
        Number of trials, if fewer than in the file.
    note : callable
        Receives a line after each trial.

    Notes
    -----
    The sampler of each trial has a seed of its own and sees the results in the order of the trials. So the same file
    gives the same trials, also in several calls: trials up to the first that failed are read from ``search.log``.
    """

    plan: StudyPlan
    folder: StudyFolder
    stale_runs: StaleRuns = "refuse"
    limit: int | None = None
    note: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        self._load, study = DataCache(), self.plan.study
        self.options = options = study.file.search
        samples = options.samples or 0
        self.n_trials = min(samples, self.limit or samples)
        self._measures = {name: read_measure(name) for name in (options.objective, *options.constraints)}
        self._values = {name: axis_settings(study, name, axis) for name, axis in study.file.axes.items()}
        self._variants: dict[str, Variant] = {}
        plain = study.to_plain_data()
        self._identity = hash_plain_data({**plain, "search": {**plain["search"], "samples": None}})

    def run(self) -> optuna.Study:
        """Make all trials and return Optuna's study of them (see :mod:`gossiprec.runs.search_record`).

        Raises
        ------
        LogError
            If there are runs of other code or other data.
        GossipRecError
            If the first trial fails.
        KeyboardInterrupt
            After Ctrl-C; the same search continues later.
        """
        self.folder.write_spec(self.plan.study.to_plain_data())
        known, options, status = self._usable_trials(), self.options, "interrupted"
        (self.folder.path / SEARCH).unlink(missing_ok=True)
        storage, n_done = open_storage(self.folder.path), len(known)
        import optuna

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna's notes on experimental features
            search = optuna.create_study(
                storage=storage,
                study_name=self._identity,
                direction="maximize" if options.maximize else "minimize",
                pruner=optuna.pruners.MedianPruner(STARTUP) if options.prune else optuna.pruners.NopPruner(),
            )
            search.set_user_attr("objective", options.objective)
            search.add_trials(known)
            try:
                while n_done < self.n_trials:
                    seed = int(generator(options.seed, "search", n_done).integers(2**32))
                    bounds = self._violations if options.constraints else None
                    search.sampler = optuna.samplers.TPESampler(seed=seed, constraints_func=bounds)
                    search.optimize(self._try_point, 1)
                    n_done += 1
                    self.note(describe_trial(search.trials[-1]))
                    self._write("running", n_done)
                status = "complete"
            finally:
                self._write(status, n_done)
        return search

    def _usable_trials(self) -> list[optuna.trial.FrozenTrial]:
        """Return the trials of an earlier call up to the first that failed, if their runs are there, of this code."""
        found = read_search(self.folder.path)
        if found is None or found.study_name != self._identity:
            return []
        ended = itertools.takewhile(lambda trial: trial.state.name in ("COMPLETE", "PRUNED"), found.trials)
        trials = [*ended][: self.n_trials]
        points = [self._point(trial) for trial in trials if trial.state.name == "COMPLETE"]
        if not points:
            return []
        plan = make_plan(self.plan.study, points=points, check_data=False)
        if StudyRunner(plan, self.folder).find_unfinished(stale_runs=self.stale_runs):
            return []
        self._variants = {variant.hash: variant for variant in plan.variants}
        return trials

    def _point(self, trial: optuna.trial.BaseTrial) -> Point:
        """Return the combination that the sampler suggests, or suggested for a trial that has ended."""
        point, study = Point(), self.plan.study
        for name, axis in study.file.axes.items():
            if values := self._values[name]:
                point[name] = values[trial.suggest_categorical(name, range(len(values)))]
            else:
                suggest: Any = trial.suggest_int if axis.integer else trial.suggest_float
                point[name] = of_range(study, name, suggest(name, *axis.ends, log=axis.scale == "log"))
        return point

    def _try_point(self, asked: optuna.Trial) -> float:
        """Run the combination that the sampler suggests, and return its objective, or NaN if it fails."""
        point = self._point(asked)
        asked.set_user_attr("labels", {name: value.label for name, value in point.items()})
        try:
            return self._run(make_plan(self.plan.study, points=[point], check_data=False), asked)
        except (GossipRecError, OSError) as error:
            if asked.number == 0 or isinstance(error, LogError):  # of runs with other code, the user decides
                raise
            asked.set_user_attr("problem", str(error))
            return math.nan

    def _run(self, plan: StudyPlan, asked: optuna.Trial) -> float:
        """Run all seeds of a combination, of which the first may be pruned, and return the mean of the objective."""
        waiting = StudyRunner(plan, self.folder).find_unfinished(stale_runs=self.stale_runs)
        found = []
        for place, simulation in enumerate(plan.simulations):
            if simulation in waiting:
                run = self._simulate(simulation, asked, may_prune=self.options.prune and place == 0)
            else:
                run = open_run(self.folder.run_directory(simulation))
            found.append(self._results(simulation, run.summary or {}))
            for name in self._measures.keys() - found[-1].keys():
                raise ScenarioError(f"{run.path}: found no value of {name}; choose a measure of the runs")
        self._variants |= {variant.hash: variant for variant in plan.variants}
        means = {name: statistics.fmean(each[name] for each in found) for name in self._measures}
        asked.set_user_attr("results", means)
        return means[self.options.objective]

    def _violations(self, trial: optuna.trial.FrozenTrial) -> list[float]:
        """Return the relative violation of each bound, 1 if a trial lacks the measure."""
        values, bounds = trial.user_attrs["results"], self.options.constraints
        return [bound.violation(values[name]) if name in values else 1.0 for name, bound in bounds.items()]

    def _simulate(self, simulation: SharedSimulation, asked: optuna.Trial, *, may_prune: bool) -> Run:
        """Carry out a run, and return it; a pruned run is deleted."""
        path, early = self.folder.run_directory(simulation), dict[str, float]()
        remove_run(path)
        executor = simulation.scenario.executor.model_copy(update={"threads": threads_per_job(1)})
        scenario = simulation.scenario.with_(executor=executor, plots=False)
        with prepare(scenario, out=path, progress=NullProgress(), load_data=self._load) as live:
            for step, report in enumerate(live):
                attacks = [{**row, "max_aac": row["aac"], "last_aac": row["aac"]} for row in report.attacks]
                summary = {"utility": report.metrics, "attacks": attacks, "findings": report.findings}
                before, early = early, self._results(simulation, summary)
                for name in (name for name in early if name.startswith("max_aac")):
                    early[name] = max(early[name], before.get(name, 0.0))
                if may_prune and self.options.objective in early:
                    asked.report(early[self.options.objective], step)
                    if not report.last and asked.should_prune():
                        break
            else:
                return live.finish()
        remove_run(path)
        asked.set_user_attr("results", early)
        from optuna import TrialPruned

        raise TrialPruned

    def _results(self, simulation: SharedSimulation, summary: Mapping[str, Any]) -> dict[str, float]:
        """Return the measures that a summary has; of several attacks, the largest value."""
        metrics, found = simulation.scenario.evaluate.reportable_measures(), dict[str, float]()
        for name, measure in self._measures.items():
            values = [row["value"] for row in extract_rows(summary, metrics, None, [measure])]
            finite = [value for value in values if math.isfinite(value)]
            found |= {name: max(finite)} if finite else {}
        return found

    def _write(self, status: str, n_done: int) -> None:
        """Write the table of the complete trials, and ``study.json``."""
        simulations = deduplicate({hash_: v.scenario for hash_, v in self._variants.items()}, merge=False)
        plan = replace(self.plan, variants=[*self._variants.values()], simulations=simulations)
        record = StudyRecord(plan, self.folder)
        for simulation in simulations:
            record.note_finished(simulation.hash, scenario_code_version(simulation.scenario))
        record.outcome.made, record.outcome.left = len(simulations), self.n_trials - n_done
        record.write(status)
