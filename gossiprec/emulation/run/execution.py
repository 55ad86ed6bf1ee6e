"""Carrying out a run, or the rest of it from a checkpoint: options, checks, and the end of its directory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias

from gossiprec.base.errors import LogError
from gossiprec.base.inputs import changed_inputs
from gossiprec.base.machine import available_bytes
from gossiprec.data.split import Split, data_identity
from gossiprec.emulation.assembly.carrier import Carrier
from gossiprec.emulation.assembly.prepare import PreparedRun, prepare
from gossiprec.emulation.progress import ClockReadings, Progress, StopRequest, stop_on_signals
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.run_options import RunOptions
from gossiprec.emulation.scoring.utility import UtilityEvaluator, make_utility_evaluator
from gossiprec.runs import Run, RunDirectory, open_run, run_files
from gossiprec.runs.checkpoint_format import CheckpointStamp
from gossiprec.runs.checkpoints import CheckpointFolder, read_checkpoint, read_stamp
from gossiprec.runs.lock import RunLock
from gossiprec.runs.manifest import manifest_fault
from gossiprec.runs.run_directory import scenario_hash
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import scenario_code_version


def with_resources(scenario: Scenario, *, threads: int | None = None, shards: int | None = None) -> Scenario:
    """Return the scenario with other threads or shards, on which no result depends."""
    executor = scenario.executor
    if threads is not None:
        executor = executor.model_copy(update={"threads": threads})
    if shards == 1:
        executor = executor.model_copy(
            update={"name": executor.computing_executor, "inner": "auto", "shards": 1, "address": "auto"}
        )
    elif shards is not None:
        executor = executor.model_copy(
            update={"name": "ray", "inner": executor.computing_executor, "shards": shards}
        )
    return scenario.with_(executor=executor)


def prepare_follower(
    scenario: Scenario, split: Split, carrier: Carrier
) -> tuple[PreparedRun, UtilityEvaluator]:
    """Return the run and the evaluator of a process that follows the one that leads the run."""
    prepared = prepare(scenario, load=lambda _: split, carrier=carrier)
    return prepared, make_utility_evaluator(prepared, baselines=False)


RunSteps: TypeAlias = Generator[ActiveRun, None, Run]
"""A run in steps, one per request for the next item, and then its result; see :meth:`ActiveRun.execute`."""


def finish_steps(steps: RunSteps) -> Run:
    """Carry out the rest of a run, and return it."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def execute_run(
    make: Callable[[], ActiveRun],
    directory: RunDirectory,
    options: RunOptions,
    *,
    stop: StopRequest | None = None,
    after: int = 0,
) -> RunSteps:
    """Carry out a run, or the rest of it after `after` reports, and close its directory however it ends.

    Parameters
    ----------
    make : callable
        Returns the run.
    directory : RunDirectory
    options : RunOptions
    stop : StopRequest, optional
        A request that the caller can make at any time.
    after : int
        The number of reports before it.

    Yields
    ------
    ActiveRun
        Before its first event and at each report.

    Returns
    -------
    Run
        Complete, or interrupted by Ctrl-C or on request.
    """
    stop, run = stop or StopRequest(), None
    try:
        with stop_on_signals(options.progress, stop) if options.graceful_stop else nullcontext():
            run = make()
            try:
                for _ in run.execute(stop, after):
                    yield run
                status = "complete"
            except KeyboardInterrupt:
                status = "interrupted"
            run.close(status)
    except BaseException:
        if run is not None:
            run.end_parts("failed")
        directory.finish("failed")
        raise
    return directory.ended or open_run(directory.path)


class NoCheckpointError(LogError):
    """No checkpoint of a run can be used."""


class OtherRunError(NoCheckpointError):
    """A checkpoint of another scenario or another version of the code."""


_UNFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""The exceptions that the code raises if a state does not fit."""


@dataclass(frozen=True)
class ReopenedRun:
    """A run directory as it was when a checkpoint was taken, and the state that continues it."""

    prepared: PreparedRun
    directory: RunDirectory
    checkpoint: Path
    stamp: CheckpointStamp
    code: str
    state: dict[str, Any]

    def _restore(self, options: RunOptions, begin: ClockReadings) -> ActiveRun:
        """Return the run in the state of the checkpoint.

        Raises
        ------
        OtherRunError
            If it does not fit this run.
        """
        run = ActiveRun(self.prepared, self.directory, options, begin)
        try:
            run.restore(self.state)
        except _UNFIT as error:
            reason, hint = f"{type(error).__name__}: {error}", restart_hint(self.directory.path)
            if self.stamp.code == self.code:
                raise OtherRunError(
                    f"{self.checkpoint} holds a state that this run cannot reach: {reason}; it is damaged or was "
                    f"modified, so {hint}"
                ) from error
            raise OtherRunError(
                f"{self.checkpoint} was written by code version {self.stamp.code} and cannot be loaded by "
                f"{self.code}: {reason}; reinstall the version that started the run, or {hint}"
            ) from error
        self.state.clear()  # its arrays are in the run now, or copied
        return run

    def execute(self, begin: ClockReadings, options: RunOptions) -> Run:
        """Carry out the rest of the run.

        Raises
        ------
        OtherRunError
            If the checkpoint does not fit this run.
        """
        return finish_steps(
            execute_run(
                lambda: self._restore(options, begin),
                self.directory,
                options,
                after=self.stamp.tick,
            )
        )


def reopen_run(
    run: Path,
    scenario: Scenario,
    options: RunOptions,
    *,
    force: bool,
    lock: RunLock,
    carrier: Carrier,
) -> ReopenedRun:
    """Reopen a run at the latest checkpoint that is intact with its log, and report those passed over.

    Raises
    ------
    NoCheckpointError
        If there is no such checkpoint.
    """
    progress, code, damage = options.progress, scenario_code_version(scenario), []
    prepared: PreparedRun | None = None
    for checkpoint in CheckpointFolder(run).newest_first():
        try:
            _check_stamp(read_stamp(checkpoint), run, code, force=force)
            prepared = prepared or prepare(scenario, progress, load=options.load_data, carrier=carrier)
            _check_data(run, prepared)
            progress.phase(f"reading checkpoint {checkpoint.name}")
            stamp, state = read_checkpoint(checkpoint, limit_bytes=available_bytes())
            directory = RunDirectory.reopened(run, stamp, lock, code)
        except OtherRunError:
            raise
        except LogError as error:
            damage.append(str(error))
            progress.note(f"{error}; trying the previous checkpoint")
            continue
        directory.notes += damage
        return ReopenedRun(prepared, directory, checkpoint, stamp, code, state)
    if not damage:
        raise NoCheckpointError(
            f"{run} has no checkpoint: the run ended before the first one was written (scenario section "
            f"`checkpoint`); {restart_hint(run)}"
        )
    lines = "\n".join(damage)
    raise NoCheckpointError(f"no checkpoint of this run can be used:\n{lines}\n{restart_hint(run)}")


def restart_hint(run: Path) -> str:
    """Return the command that starts a run over, as part of a message."""
    return f"start over with: gossiprec resume {quote(str(run))} --from-start"


def check_manifest(run: Run, progress: Progress, *, excused: bool) -> None:
    """Refuse a manifest that was changed, because it cannot prove what the run started with."""
    fault = manifest_fault(run.manifest)
    if fault is None:
        return
    found = f"{run.path / run_files.MANIFEST} {fault}"
    if not excused:
        raise OtherRunError(f"{found}; pass --force to resume anyway, or {restart_hint(run.path)}")
    progress.note(found)


def _check_data(run: Path, prepared: PreparedRun) -> None:
    manifest, new = open_run(run).manifest, data_identity(prepared.components.split)
    old = manifest["data"]
    if old != new:
        before, now = (
            f"fingerprint {data.get('fingerprint')} ({data.get('users')} users, {data.get('items')} items)"
            for data in (old, new)
        )
        raise OtherRunError(
            f"the data have changed since the run began: {before} then, {now} now; restore the "
            f"original data, or, to use the current data, {restart_hint(run)}"
        )
    if changes := changed_inputs(manifest["inputs"], prepared.inputs):
        raise OtherRunError(
            f"files that the run reads have changed since it began: {', '.join(changes)}; restore the "
            f"original files, or, to use the current ones, {restart_hint(run)}"
        )


def _check_stamp(stamp: CheckpointStamp, run: Path, code: str, *, force: bool) -> None:
    if stamp.scenario != scenario_hash(run):
        raise OtherRunError(
            f"{run / run_files.SCENARIO} was changed after the run began, so its checkpoints no longer match "
            f"it; undo the change, or, to use the current scenario, {restart_hint(run)}"
        )
    if stamp.code != code and not force:
        raise OtherRunError(
            f"the checkpoint was written by code version {stamp.code}, this is {code}: the resumed run may "
            "match neither version; reinstall the version that started the run, pass --force to resume "
            f"anyway, or {restart_hint(run)}"
        )
