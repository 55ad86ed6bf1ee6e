"""Searches: each combination of a study is chosen by Optuna from the results of the combinations before it."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from gossiprec.base.errors import GossipRecError, LogError, ResourceError
from gossiprec.base.rounding import difference
from gossiprec.emulation.progress import NullProgress
from gossiprec.emulation.run.active_run import Report
from gossiprec.emulation.run.live_run import prepare
from gossiprec.measures.selectors import OF_ATTACKS, MeasureSelector, read_measure
from gossiprec.runs import Run, open_run
from gossiprec.runs.manifest import write_json
from gossiprec.runs.run_directory import remove_run
from gossiprec.runs.search_record import SEARCH, read_search
from gossiprec.scenario.registries import scenario_code_version
from gossiprec.study.folder import StudyFolder, StudyOutcome, StudyRecord
from gossiprec.study.plan import AxisValue, Label, Point, StudyPlan, axis_settings, make_plan, of_range
from gossiprec.study.run_hash import SharedSimulation, deduplicate
from gossiprec.study.runner import StaleRuns, StudyRunner
from gossiprec.study.spec import LoadedStudy
from gossiprec.study.study_table import extract_rows
from gossiprec.study.task import DataCache, threads_per_job
from gossiprec.version import code_version

if TYPE_CHECKING:
    import optuna

COMPLETE, PRUNED, FAILED = "complete", "pruned", "failed"
STARTUP = 5
"""Complete combinations before any is pruned."""
EARLY = {"max_aac": "aac", "last_aac": "aac"}
"""The column of ``attacks.csv`` with the values at early reports, where it has another name."""


@dataclass
class Trial:
    """A combination that was tried.

    Attributes
    ----------
    number : int
    labels : dict of str to Label
        The value of each axis.
    state : str
        ``complete``, ``pruned`` or ``failed``.
    value : float or None
        The objective, as the mean over seeds; of a pruned run its last early value.
    bounded : dict of str to float
        The measures with bounds, as means over seeds.
    violation : float
        The sum of the relative violations of the bounds, 0 if all are met.
    early : list of float
        The objective at each report of the first seed, if runs are pruned.
    problem : str
    """

    number: int
    labels: dict[str, Label]
    state: str = FAILED
    value: float | None = None
    bounded: dict[str, float] = field(default_factory=dict)
    violation: float = math.inf
    early: list[float] = field(default_factory=list)
    problem: str = ""

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.labels.items())
        return f"{self.number} ({values})"


@dataclass
class SearchResult:
    """The trials of a search, its best feasible one, and the importance of each axis for the objective."""

    objective: str
    maximize: bool
    constraints: dict[str, str]
    code: str
    trials: list[Trial] = field(default_factory=list)
    importances: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> Trial | None:
        """The complete trial with the best objective among those that meet all bounds; None if there is none."""
        return self._first(t for t in self._complete if not t.violation)

    @property
    def nearest(self) -> Trial | None:
        """The complete trial with the least violation of the bounds; None if no trial is complete."""
        return self._first(self._complete)

    @property
    def _complete(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.state == COMPLETE]

    def _first(self, trials: Iterable[Trial]) -> Trial | None:
        """Return the trial with the least violation, of equal ones with the best objective, of equal ones the first."""
        best: Trial | None = None
        for trial in trials:
            if best is None or self._gain(trial, best) > 0:
                best = trial
        return best

    def _gain(self, trial: Trial, other: Trial) -> float:
        """Return by how much a complete trial is better than another one."""
        less = difference(other.violation, trial.violation)
        more = difference(trial.value or 0.0, other.value or 0.0)
        return less or (more if self.maximize else -more)


def import_optuna() -> Any:
    """Return the module Optuna.

    Raises
    ------
    ResourceError
        If it is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise ResourceError(
            "search: method optuna needs Optuna, which is not installed; install it with: pip install "
            "'gossiprec[search]', or set search.method to latin-hypercube"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Search:
    """A search in the folder of a study; combinations are run one after the other, in this process.

    Parameters
    ----------
    study : LoadedStudy
    folder : StudyFolder
        The locked folder.
    stale_runs : {"refuse", "again", "keep"}
    limit : int, optional
        Number of trials, if fewer than in the file.
    note : callable, optional
        Receives a line after each trial.

    Notes
    -----
    The sampler is seeded and sees the results in the order of the trials, so the same file gives the same trials. A
    continued search makes its trials again from the start: finished runs are not run again, and the early values of
    pruned ones are in ``search.json``. Optuna's own storages do not keep the state of the sampler.
    """

    def __init__(
        self,
        study: LoadedStudy,
        folder: StudyFolder,
        *,
        stale_runs: StaleRuns = "refuse",
        limit: int | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._optuna = import_optuna()
        self.study, self.folder = study, folder
        self.options = study.file.search
        self._stale_runs, self._note = stale_runs, note
        samples = self.options.samples or 0
        self.n_trials = samples if limit is None else min(limit, samples)
        self._load = DataCache()
        self._objective = read_measure(self.options.objective)
        self._bounded = {name: read_measure(name) for name in self.options.constraints}
        self._plans: list[StudyPlan] = []
        self._outcome = StudyOutcome()
        bounds = {name: str(bound) for name, bound in self.options.constraints.items()}
        maximize = self.options.maximize is not None
        self.result = SearchResult(self.options.objective, maximize, bounds, code_version())

    def run(self) -> SearchResult:
        """Make all trials and return the result.

        Raises
        ------
        LogError
            If no run has the objective, or there are runs of other code.
        KeyboardInterrupt
            After Ctrl-C; the same search continues later.
        """
        known = self._known_trials()
        self.folder.write_spec(self.study.to_plain_data())
        status = "interrupted"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna's notes on experimental features
            search = self._make_search()
            try:
                for number in range(self.n_trials):
                    self._make_trial(search, number, known)
                    self._write("running")
                self.result.importances = self._importances(search)
                status = COMPLETE
            finally:
                self._write(status)
        return self.result

    def _make_search(self) -> optuna.Study:
        samplers, pruners = self._optuna.samplers, self._optuna.pruners
        constrained = {"constraints_func": _violations} if self.options.constraints else {}
        prune = self.options.prune
        search: optuna.Study = self._optuna.create_study(
            direction="maximize" if self.result.maximize else "minimize",
            sampler=samplers.TPESampler(seed=self.options.seed % 2**32, **constrained),
            pruner=pruners.MedianPruner(n_startup_trials=STARTUP) if prune else pruners.NopPruner(),
        )
        return search

    def _make_trial(self, search: optuna.Study, number: int, known: Mapping[int, Trial]) -> None:
        """Choose a combination, run it, and give its results to the sampler."""
        asked = search.ask()
        point = self._choose(asked)
        trial = Trial(number, {name: value.label for name, value in point.items()})
        earlier = known.get(number)
        if earlier is not None and earlier.labels == trial.labels and earlier.state == PRUNED:
            trial = earlier
            for step, value in enumerate(trial.early):
                asked.report(value, step)
        else:
            same = earlier is not None and earlier.labels == trial.labels
            try:
                self._run_point(asked, point, trial, earlier.early if same and earlier else [])
            except (GossipRecError, OSError) as error:
                if number == 0 or isinstance(error, _StaleError):
                    raise
                trial.problem = str(error)
        self.result.trials.append(trial)
        relative = [
            bound.violation(trial.bounded[name]) / (abs(bound.at_least or bound.at_most or 0.0) or 1.0)
            for name, bound in self.options.constraints.items()
            if name in trial.bounded
        ]
        missing = len(self.options.constraints) - len(relative)
        trial.violation = sum(relative) if not missing else math.inf
        asked.set_user_attr("violations", [*relative, *[1.0] * missing])
        states = self._optuna.trial.TrialState
        state = {COMPLETE: states.COMPLETE, PRUNED: states.PRUNED, FAILED: states.FAIL}[trial.state]
        search.tell(asked, trial.value if trial.state == COMPLETE else None, state=state)
        self._note(self._describe(trial))

    def _choose(self, asked: optuna.Trial) -> Point:
        """Return the combination that the sampler suggests."""
        point: Point = {}
        for name, axis in self.study.file.axes.items():
            if axis.is_range:
                point[name] = of_range(self.study, name, self._suggest_number(asked, name))
            else:
                values: list[AxisValue] = axis_settings(self.study, name, axis)
                point[name] = values[asked.suggest_categorical(name, range(len(values)))]
        return point

    def _suggest_number(self, asked: optuna.Trial, name: str) -> float:
        axis = self.study.file.axes[name]
        assert axis.low is not None
        assert axis.high is not None
        is_log = axis.scale == "log"
        if axis.integer:
            return asked.suggest_int(name, math.ceil(axis.low), math.floor(axis.high), log=is_log)
        return asked.suggest_float(name, axis.low, axis.high, log=is_log)

    def _run_point(self, asked: optuna.Trial, point: Point, trial: Trial, early: list[float]) -> None:
        """Run all seeds of a combination; the first seed may be pruned."""
        plan = make_plan(self.study, points=[point], check_data=False)
        runner = StudyRunner(plan, self.folder)
        try:
            todo = runner.find_unfinished(stale_runs=self._stale_runs)
        except LogError as error:
            raise _StaleError(str(error)) from None
        simulations, waiting = plan.simulations, {simulation.hash for simulation in todo}
        found: list[dict[str, float]] = []
        for place, simulation in enumerate(simulations):
            may_prune = self.options.prune and place == 0
            if simulation.hash in waiting:
                run = self._simulate(simulation, asked if may_prune else None, trial)
                if run is None:
                    return
            else:
                run = open_run(self.folder.run_directory(simulation))
                if may_prune:
                    trial.early = early
                    for step, value in enumerate(early):
                        asked.report(value, step)
            found.append(self._results(run, simulation))
        self._plans.append(plan)
        means = {name: statistics.fmean(each[name] for each in found) for name in found[0]}
        trial.value = means.pop("")
        trial.bounded, trial.state = means, COMPLETE

    def _simulate(self, simulation: SharedSimulation, asked: optuna.Trial | None, trial: Trial) -> Run | None:
        """Carry out a run, and return it, or None if it was pruned; pruned runs are deleted."""
        path = self.folder.run_directory(simulation)
        remove_run(path)
        scenario = simulation.scenario
        executor = scenario.executor.model_copy(update={"threads": threads_per_job(1)})
        scenario = scenario.with_(executor=executor, plots=False)
        with prepare(scenario, out=path, progress=NullProgress(), load_data=self._load) as live:
            reports: list[Report] = []
            for report in live:
                reports.append(report)
                value = early_value(self._objective, reports)
                if asked is None or value is None:
                    continue
                trial.early.append(value)
                asked.report(value, len(trial.early) - 1)
                if not report.last and asked.should_prune():
                    trial.state, trial.value = PRUNED, value
                    bounded = {name: early_value(m, reports) for name, m in self._bounded.items()}
                    trial.bounded = {name: v for name, v in bounded.items() if v is not None}
                    break
            else:
                return live.finish()
        remove_run(path)
        return None

    def _results(self, run: Run, simulation: SharedSimulation) -> dict[str, float]:
        """Return the objective of a run, under the empty name, and its measures with bounds."""
        metrics = simulation.scenario.evaluate.reportable_measures()
        found = {}
        for name, measure in {"": self._objective, **self._bounded}.items():
            rows = extract_rows(run.summary or {}, metrics, None, [measure])
            values = [row["value"] for row in rows if math.isfinite(row["value"])]
            if not values:
                raise LogError(
                    f"{run.path}: found no value of {name or self.options.objective}; expected a number in its "
                    "summary.json; choose a measure that the runs have"
                )
            found[name] = max(values)
        return found

    def _importances(self, search: optuna.Study) -> dict[str, float]:
        """Return the importance of each axis for the objective (fANOVA), or nothing if there are too few trials."""
        axes = self.study.file.axes
        complete = [t for t in self.result.trials if t.state == COMPLETE]
        if len(axes) < 2 or len(complete) < 2 or len({t.value for t in complete}) < 2:
            return {}
        importance = self._optuna.importance
        found = importance.get_param_importances(
            search, evaluator=importance.FanovaImportanceEvaluator(seed=0)
        )
        return {name: float(found.get(name, 0.0)) for name in axes}

    def _known_trials(self) -> dict[int, Trial]:
        """Return the trials of an earlier call with the same objective and code."""
        found = read_search(self.folder.path)
        if found is None or found["objective"] != self.options.objective:
            return {}
        if found["code"] != code_version() and self._stale_runs != "keep":
            return {}
        return {
            t["number"]: Trial(
                t["number"], t["labels"], t["state"], t["value"], t["bounded"], early=t["early"]
            )
            for t in found["trials"]
        }

    def _write(self, status: str) -> None:
        """Write ``search.json``, and the table with the complete trials."""
        result = self.result
        best = result.best
        write_json(
            self.folder.path / SEARCH,
            {**asdict(result), "axes": self._axes(), "best": None if best is None else best.number},
        )
        variants = {v.hash: v for plan in self._plans for v in plan.variants}
        simulations = deduplicate({hash_: v.scenario for hash_, v in variants.items()}, merge=False)
        first = self._plans[0] if self._plans else make_plan(self.study, check_data=False)
        plan = StudyPlan(self.study, [*variants.values()], simulations, first.measures, first.baseline)
        record = StudyRecord(plan, self.folder)
        for simulation in simulations:
            record.note_finished(simulation.hash, scenario_code_version(simulation.scenario))
        record.outcome.made = len(simulations)
        record.outcome.left = self.n_trials - len(result.trials)
        record.write(status)

    def _axes(self) -> dict[str, dict[str, Any]]:
        """Return the range or the labels of each axis, for pictures."""
        axes = self.study.file.axes
        return {
            name: {"low": axis.low, "high": axis.high, "log": axis.scale == "log"}
            if axis.is_range
            else {"labels": [value.label for value in axis_settings(self.study, name, axis)]}
            for name, axis in axes.items()
        }

    def _describe(self, trial: Trial) -> str:
        """Return a trial as a line."""
        if trial.state == FAILED:
            return f"trial {trial}: failed: {trial.problem}"
        text = f"trial {trial}: {self.options.objective} {trial.value:.4g}"
        text += "".join(f", {name} {value:.4g}" for name, value in trial.bounded.items())
        if trial.state == PRUNED:
            return f"{text}; pruned at report {len(trial.early)}"
        return text + ("; outside the constraints" if trial.violation else "")


class _StaleError(LogError):
    """There are runs of other code or other data; the user decides."""


def _violations(trial: optuna.trial.FrozenTrial) -> list[float]:
    found: list[float] = trial.user_attrs["violations"]
    return found


def early_value(measure: MeasureSelector, reports: list[Report]) -> float | None:
    """Return the value of a measure by the last of some reports, or None if reports do not have it.

    Of several attacks the largest value counts. `max_aac` is the largest accuracy so far.
    """
    considered = reports if measure.name == "max_aac" else reports[-1:]
    values: list[float] = []
    for report in considered:
        if measure.name in report.metrics:
            values.append(report.metrics[measure.name])
        column = EARLY.get(measure.name, measure.name)
        if measure.name in OF_ATTACKS:
            values += [row[column] for row in report.attacks if column in row and measure.accepts(row)]
        for row in report.findings:
            if row["measure"] == measure.name and measure.accepts(row["labels"]):
                values.append(row["value"])
    return max((float(value) for value in values if math.isfinite(value)), default=None)


def describe_result(result: SearchResult) -> list[str]:
    """Return the result of a search as lines of text."""
    states = [trial.state for trial in result.trials]
    lines = [
        f"{len(states)} trials: " + ", ".join(f"{states.count(s)} {s}" for s in (COMPLETE, PRUNED, FAILED))
    ]
    best, nearest = result.best, result.nearest

    def words(trial: Trial) -> str:
        bounds = (
            f"; {name} {value:.4g} ({result.constraints[name]})" for name, value in trial.bounded.items()
        )
        return f"trial {trial}: {result.objective} {trial.value:.4g}{''.join(bounds)}"

    if best is not None:
        lines.append(f"best: {words(best)}")
    elif nearest is not None:
        lines.append(f"no trial meets the constraints; nearest: {words(nearest)}")
    else:
        lines.append("no trial is complete")
    if result.importances:
        parts = sorted(result.importances.items(), key=lambda part: -part[1])
        lines.append("importance: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in parts))
    return lines
