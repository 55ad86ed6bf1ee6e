"""Runner of a study: finished runs stay, the others are run, and the table grows as runs end."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Literal, Protocol

from gossiprec.base import portable
from gossiprec.base.errors import LogError
from gossiprec.emulation.run.tracker_dispatch import prepare_trackers, tracker_factories
from gossiprec.runs import Run
from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.registries import scenario_code_version, scenario_plugins
from gossiprec.study.folder import (
    StudyFolder,
    StudyOutcome,
    StudyRecord,
    run_code_version,
    runs_with_other_data,
)
from gossiprec.study.plan import StudyPlan
from gossiprec.study.run_hash import SharedSimulation, hash_plain_data
from gossiprec.study.task import StudyTask, TaskResult
from gossiprec.version import code_version

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
        self._track = tuple(tracker_factories(track))
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
        found = {hash_: run_code_version(run) for hash_, run in runs.items() if run is not None}
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
                self.record.note_finished(hash_, code)
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
            if run is not None and run_code_version(run) == code:
                self.record.note_finished(part.hash, code)
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
