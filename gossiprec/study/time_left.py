"""Estimates of the time left of a study, from the planned work and the duration of similar runs."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gossiprec.base.errors import GossipRecError
from gossiprec.data.data_sizes import DataSizes
from gossiprec.emulation import RunEstimate, estimate_run
from gossiprec.emulation.assembly.data_loading import data_sizes
from gossiprec.emulation.estimate.timing import model_and_executor
from gossiprec.scenario.definition import Scenario
from gossiprec.study.run_hash import SharedSimulation, canonical_json

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
