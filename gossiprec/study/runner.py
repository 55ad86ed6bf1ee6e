"""Runner of a study: finished runs stay, the others are run, the table grows; and estimates of the time left."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from gossiprec.base import portable
from gossiprec.base.errors import GossipRecError, LogError
from gossiprec.emulation import estimate_run
from gossiprec.emulation.assembly.data_loading import DataSizes, data_sizes
from gossiprec.emulation.estimate.estimate import RunEstimate
from gossiprec.emulation.estimate.timing import model_and_executor
from gossiprec.emulation.run_parts.trackers import check_trackers, prepare_trackers
from gossiprec.runs import Run
from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.registries import scenario_code_version, scenario_plugins
from gossiprec.study.folder import (
    StudyFolder,
    StudyOutcome,
    StudyRecord,
    runs_with_other_data,
)
from gossiprec.study.plan import StudyPlan
from gossiprec.study.run_hash import SharedSimulation, canonical_json, hash_plain_data
from gossiprec.study.task import StudyTask, TaskResult
from gossiprec.version import code_version

LAGGING = 0.1
"""Least fraction of a run assumed to be left, whatever time it has taken."""


@dataclass(frozen=True)
class PlannedRun:
    """The estimate of a run before it starts.

    Attributes
    ----------
    kind : str
        Runs of a kind take time in proportion to their work.
    work : float
    seconds : float or None
        Estimate from earlier runs on this machine, or None if there are none.
    """

    kind: str
    work: float
    seconds: float | None = None


def plan_run(estimate: RunEstimate | GossipRecError) -> PlannedRun:
    """Return the plan of a run from its estimate; a run that must fail takes no time."""
    if isinstance(estimate, GossipRecError):
        return PlannedRun("", 0.0, 0.0)
    known = estimate.duration
    return PlannedRun(estimate.kind, estimate.work, None if known is None else known.seconds)


class TimeLeft:
    """The estimator of the time left of a study.

    Parameters
    ----------
    planned : mapping of str to PlannedRun
        The runs to make, by hash.
    jobs : int or None
        Number of parallel runs; None if it is determined from the runs.
    clock : callable
        Returns seconds since some moment.
    """

    def __init__(
        self,
        planned: Mapping[str, PlannedRun],
        jobs: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waiting = dict(planned)
        self._jobs = jobs
        self._clock = clock
        self._begin = clock()
        self._running: dict[str, tuple[PlannedRun, float]] = {}
        self._instead: list[PlannedRun] = []
        self._took: dict[str, list[tuple[PlannedRun, float]]] = defaultdict(list)

    def note_start(self, hash_: str) -> None:
        """Note that a run has started; repeated calls for a running one have no effect."""
        if hash_ not in self._running:
            self._running[hash_] = (self._plan(hash_), self._clock())

    def note_end(self, hash_: str, seconds: float, *, failed: bool = False) -> None:
        """Note the end of a run and its seconds without compiling; the time of a failed run is ignored."""
        plan = self._over(hash_)
        if not failed:
            self._took[plan.kind].append((plan, seconds))

    def note_split(self, hash_: str, number: int) -> None:
        """Note that `number` similar runs replace this one."""
        self._instead += [self._over(hash_)] * number

    def estimate_seconds(self) -> float | None:
        """Return the seconds left, or None while nothing is known."""
        now = self._clock()
        whole = {hash_: self._expected(plan) for hash_, (plan, _) in self._running.items()}
        rest = [self._expected(plan) for plan in [*self._waiting.values(), *self._instead]]
        if None in whole.values() or None in rest:
            return None
        running = [
            max(expected - (now - self._running[hash_][1]), LAGGING * expected)
            for hash_, expected in whole.items()
            if expected is not None
        ]
        each = [*running, *(expected for expected in rest if expected is not None)]
        return max(sum(each) / self._at_a_time(now), max(each, default=0.0))

    def _over(self, hash_: str) -> PlannedRun:
        """Remove a run from the waiting or running ones and return its plan."""
        if hash_ in self._running:
            return self._running.pop(hash_)[0]
        return self._plan(hash_)

    def _plan(self, hash_: str) -> PlannedRun:
        """Return the plan of a waiting run; an unknown run takes the plan of a shared one that it replaces."""
        if hash_ in self._waiting:
            return self._waiting.pop(hash_)
        return self._instead.pop() if self._instead else PlannedRun("", 0.0, 0.0)

    def _at_a_time(self, now: float) -> float:
        if self._jobs is not None:
            return self._jobs
        busy = sum(seconds for ends in self._took.values() for _, seconds in ends)
        return max(1.0, busy / max(now - self._begin, 1e-9))

    def _expected(self, plan: PlannedRun) -> float | None:
        """Return the expected duration of a run.

        It is taken from finished runs of the same kind here; otherwise from earlier runs on this machine; otherwise
        from runs here that train the same model in the same way; otherwise from the mean duration of the runs here,
        since work of different kinds cannot be compared.
        """
        if not plan.work:
            return 0.0
        paces = self._took[plan.kind]
        if paces:
            return plan.work * _pace(paces)
        ended = [end for ends in self._took.values() for end in ends]
        if plan.seconds is not None:
            known = [seconds / then.seconds for then, seconds in ended if then.seconds]
            return plan.seconds * (statistics.median(known) if known else 1.0)
        by_kind = {kind: ends for kind, ends in self._took.items() if ends}
        same_training = [
            end
            for kind in by_kind
            if model_and_executor(kind) == model_and_executor(plan.kind)
            for end in by_kind[kind]
        ]
        if same_training:
            return plan.work * _pace(same_training)
        means = [statistics.fmean(seconds for _, seconds in ends) for ends in by_kind.values()]
        return statistics.fmean(means) if means else None


def _pace(ends: Iterable[tuple[PlannedRun, float]]) -> float:
    """Return the seconds per unit of work."""
    pairs = list(ends)
    return sum(seconds for _, seconds in pairs) / sum(plan.work for plan, _ in pairs)


def estimate_runs(simulations: Iterable[SharedSimulation]) -> dict[str, RunEstimate | GossipRecError]:
    """Return the estimate of each simulation, or its error, by hash; simulations that differ in the seed share one."""
    known: dict[str, RunEstimate | GossipRecError] = {}
    found = {}
    outlines: dict[str, DataSizes] = {}

    def outline(scenario: Scenario) -> DataSizes:
        data = canonical_json(scenario.dataset.to_plain_data())
        if data not in outlines:
            outlines[data] = data_sizes(scenario)
        return outlines[data]

    for simulation in simulations:
        key = canonical_json({**simulation.scenario.resolved(), "seed": None})
        if key not in known:
            try:
                known[key] = estimate_run(simulation.scenario, outline=outline, played=False)
            except GossipRecError as problem:
                known[key] = problem
        found[simulation.hash] = known[key]
    return found


StaleRuns = Literal["refuse", "again", "keep"]
"""Treatment of finished runs of another code version or of other data: stop, run again, or keep them."""
Start = Callable[[list[StudyTask]], Generator[TaskResult, None, None]]
"""A function that carries out tasks in any order; closing the generator ends the running tasks."""


class StudyProgress(Protocol):
    """The receiver of a study's progress."""

    def begin(self, *, total: int, kept: int) -> None:
        """The study begins; some of its simulations were finished before."""

    def split(self, hash_: str, number: int, kept: int) -> None:
        """A simulation is to be replaced by several, some of them finished before."""

    def ended(self, done: TaskResult, label: str, headline: str) -> None:
        """A simulation has ended: what it was, and its first measure."""


class StudyRunner:
    """The runner of a study in its folder.

    Parameters
    ----------
    plan : StudyPlan
    folder : StudyFolder
        The locked folder.
    track : iterable of str
        Trackers of each run, as in :func:`gossiprec.simulate`.

    Attributes
    ----------
    record : StudyRecord

    Raises
    ------
    GossipRecError
        If there is no such tracker, or a package that it needs is not installed.
    """

    def __init__(self, plan: StudyPlan, folder: StudyFolder, track: Iterable[str] = ()) -> None:
        self.plan = plan
        self.folder = folder
        self.record = StudyRecord(plan, folder)
        self._track = tuple(dict.fromkeys(track))
        check_trackers(self._track)
        self._by_hash = {simulation.hash: simulation for simulation in plan.simulations}

    @property
    def outcome(self) -> StudyOutcome:
        """The outcome of the study so far."""
        return self.record.outcome

    def check_target(self) -> None:
        """Refuse to begin if runs must be portable and this process or processor is not; workers are the same.

        Raises
        ------
        ResourceError
        """
        if any(simulation.scenario.executor.portable for simulation in self.plan.simulations):
            portable.require_portable()

    def find_unfinished(self, *, stale_runs: StaleRuns) -> list[SharedSimulation]:
        """Find the finished simulations; return the others by seed, so that all combinations get early results.

        Raises
        ------
        LogError
            If there are runs of another code version or of other data, and `stale_runs` is "refuse".
        """
        runs = {s.hash: self.folder.finished_run(s) for s in self.plan.simulations}
        found = {hash_: run.code_version for hash_, run in runs.items() if run is not None}
        ours = {s.hash: scenario_code_version(s.scenario) for s in self.plan.simulations}
        others = {hash_: code for hash_, code in found.items() if code != ours[hash_]}
        if others and stale_runs == "refuse":
            versions = ", ".join(sorted(set(others.values())))
            here = ", ".join(sorted({ours[hash_] for hash_ in others}))
            raise LogError(
                f"{self.folder.path} contains {len(others)} of {len(runs)} runs made by code version "
                f"{versions}, but this is {here}; pass --again to rerun them, --keep to use them as they are "
                "(the table column `code` identifies them), or another --out"
            )
        others |= self._of_other_data(runs, refused=stale_runs == "refuse")
        for hash_, code in found.items():
            if not (hash_ in others and stale_runs == "again"):
                self.record.note_finished(hash_, code, runs[hash_])
        self.outcome.kept = len(self.record.codes)
        seeds = list(dict.fromkeys(variant.seed for variant in self.plan.variants))
        todo = [s for s in self.plan.simulations if s.hash not in self.record.codes]
        return sorted(todo, key=lambda simulation: seeds.index(simulation.scenario.seed))

    def _of_other_data(self, runs: Mapping[str, Run | None], *, refused: bool) -> dict[str, str]:
        """Return the runs with changed input files, by hash, and the changes."""
        moved = runs_with_other_data(
            (s, run) for s in self.plan.simulations if (run := runs[s.hash]) is not None
        )
        if moved and refused:
            raise LogError(
                f"{self.folder.path} contains {len(moved)} of {len(runs)} runs made with other data: "
                f"{next(iter(moved.values()))}; restore the original data, pass --again to rerun them, --keep to use "
                "them as they are, or another --out"
            )
        return moved

    def carry_out(self, todo: list[SharedSimulation], start: Start, progress: StudyProgress) -> StudyOutcome:
        """Run simulations; the table is written from time to time, and always at the end.

        A simulation that several variants share and that fails is run once more for each of them: one variant's
        bad observer must not cost the others their results.

        Raises
        ------
        ResourceError
            If a tracker cannot begin.
        KeyboardInterrupt
            After Ctrl-C, once the running tasks have ended and the table is written.
        """
        begin = time.monotonic()
        if todo:
            prepare_trackers(self._track)
        self.outcome.left = len(todo)
        self.folder.write_spec(self.plan.study.to_plain_data())
        if todo:
            self.record.write("running")
        progress.begin(total=self.record.n_simulations, kept=self.outcome.kept)
        status = "interrupted"
        try:
            while todo:
                todo = self._round(todo, start, progress)
            status = "failed" if self.outcome.failed else "complete"
        finally:
            self.outcome.seconds = time.monotonic() - begin
            self.record.write(status)
        return self.outcome

    def _round(
        self, todo: list[SharedSimulation], start: Start, progress: StudyProgress
    ) -> list[SharedSimulation]:
        """Run simulations; return those that replace shared ones that failed."""
        instead: list[SharedSimulation] = []
        ends = start([self.make_task(simulation) for simulation in todo])
        try:
            for done in ends:
                instead += self._note(done, progress)
                self.record.write("running", if_due=True)
        finally:
            ends.close()
        return instead

    def make_task(self, simulation: SharedSimulation) -> StudyTask:
        """Return the task of a simulation, as sent to a worker."""
        return StudyTask(
            hash=simulation.hash,
            scenario=simulation.scenario.resolved(),
            path=str(self.folder.run_directory(simulation).absolute()),
            signature=kernel_signature(simulation.scenario),
            code=code_version(),
            plugins=scenario_plugins(simulation.scenario),
            track=self._track,
            called=self._called(simulation.hash),
        )

    def _called(self, hash_: str) -> str:
        """Return one label for a simulation that may serve several variants."""
        first, *more = self.record.variant_labels(hash_)
        return f"{first} (and {len(more)} more)" if more else first

    def _note(self, done: TaskResult, progress: StudyProgress) -> list[SharedSimulation]:
        """Record the end of a simulation; return the simulations to run instead, if it failed."""
        simulation = self._by_hash[done.hash]
        for note in done.notes:
            self.outcome.notes.setdefault(note, []).append(done.hash)
        if done.problem and len(simulation.serves) > 1:
            return self._apart(simulation, progress)
        self.outcome.left -= 1
        if done.problem:
            self.outcome.failed[done.hash] = done
        else:
            self.outcome.made += 1
            self.record.note_finished(done.hash, scenario_code_version(simulation.scenario))
        progress.ended(
            done, self.record.variant_labels(done.hash)[0], self.record.first_measure_text(done.hash)
        )
        return []

    def _apart(self, shared: SharedSimulation, progress: StudyProgress) -> list[SharedSimulation]:
        """Return a simulation for each variant of a shared one, without the finished ones."""
        parts = shared.split_by_variant({variant.hash: variant.scenario for variant in self.plan.variants})
        self._by_hash |= {part.hash: part for part in parts}
        self.record.serve_separately(parts)
        todo = []
        for part in parts:
            run, code = self.folder.finished_run(part), scenario_code_version(part.scenario)
            if run is not None and run.code_version == code:
                self.record.note_finished(part.hash, code, run)
                self.outcome.kept += 1
            else:
                todo.append(part)
        progress.split(shared.hash, len(parts), len(parts) - len(todo))
        self.outcome.left += len(todo) - 1
        return todo


def kernel_signature(scenario: Scenario) -> str:
    """Return a signature of the options that determine a scenario's kernels, computed without compiling."""
    plain: dict[str, Any] = scenario.resolved()
    training = {key: plain["training"][key] for key in ("optimizer", "batch_size")}
    observers = [
        {key: entry.get(key) for key in ("name", "who", "relevance")} for entry in plain["observers"]
    ]
    policies = [entry["name"] for entry in plain["policies"]]
    executor = {key: plain["executor"][key] for key in ("name", "storage")}
    return hash_plain_data(
        [plain["model"], training, plain["protocol"]["name"], observers, policies, executor]
    )
