"""Going on with a run that ended early, to the same bytes as if it had not."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossiprec.compute.shards.shard_context import ShardContext
from gossiprec.data.fingerprint import data_identity
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.prepare import PreparedRun, prepare
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.execution import execute_run
from gossiprec.emulation.run.progress import ClockReadings, NullProgress, Progress, read_clocks
from gossiprec.emulation.run.simulate import simulate_attempt
from gossiprec.emulation.run.tracker_dispatch import Chosen, tracker_factories
from gossiprec.emulation.shards.shard_group import Gather, make_shard_group, retry_after_shard_loss
from gossiprec.errors import LogError
from gossiprec.eventlog import Run, RunDirectory, open_run, run_files
from gossiprec.eventlog.checkpoint_folder import CheckpointFolder
from gossiprec.eventlog.checkpoints import CheckpointStamp, read_checkpoint, read_stamp
from gossiprec.eventlog.lock import RunLock
from gossiprec.eventlog.manifest import manifest_fault
from gossiprec.eventlog.run_directory import scenario_hash
from gossiprec.inputs import changed_inputs
from gossiprec.machine import available_bytes
from gossiprec.plugins import check_plugins_installed
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.plugins import scenario_code_version


def resume(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    force: bool = False,
    from_start: bool = False,
    progress: Progress | None = None,
    track: Iterable[str] = (),
    tracked_as: str | None = None,
    gracefully: bool = False,
    load: Callable[[Scenario], Split] | None = None,
    shards: int | None = None,
    gather: Gather | None = None,
) -> Run:
    """Go on with a run that was interrupted, failed or was killed, from its latest checkpoint.

    Parameters
    ----------
    path : path
        The run directory.
    threads : int, optional
        In place of the scenario's ``executor.threads``; results do not depend on it.
    force : bool
        Take a checkpoint of another version of the code; the result may then be neither version's.
    from_start : bool
        Run the scenario again in this directory if there is no checkpoint that can be read.
    progress : Progress, optional
        Is told what happens.
    track : iterable of str
        As in :func:`gossiprec.simulate`.
    tracked_as : str, optional
        As in :func:`gossiprec.simulate`.
    gracefully : bool
        As in :func:`gossiprec.simulate`.
    load : callable, optional
        As in :func:`gossiprec.simulate`.
    shards : int, optional
        Divide the nodes among so many, on Ray, in place of what the scenario says; 1: among none. Results do not
        depend on it.
    gather : callable, optional
        As in :func:`gossiprec.simulate`.

    Returns
    -------
    Run
        A run that is complete already is returned as it is.

    Raises
    ------
    LogError
        If there is no checkpoint to go on from, it is of another version of the code or a plug-in, or of another
        scenario, a plug-in is missing, or the run is being written by a living process.
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    say, trackers = progress or NullProgress(), tracker_factories(track, tracked_as)

    def go_on(*, from_start: bool = from_start) -> Run:
        return resume_attempt(
            path, threads=threads, shards=shards, force=force, from_start=from_start, say=say,
            trackers=trackers, gracefully=gracefully, load=load, gather=gather,
        )  # fmt: skip

    return retry_after_shard_loss(go_on, functools.partial(go_on, from_start=True), say, path)


def resume_attempt(
    path: str | os.PathLike[str],
    *,
    say: Progress,
    from_start: bool,
    trackers: Chosen,
    gracefully: bool,
    load: Callable[[Scenario], Split] | None,
    gather: Gather | None,
    threads: int | None = None,
    shards: int | None = None,
    force: bool = False,
) -> Run:
    """Go on with a run as :func:`resume` does, until it ends or a shard dies."""
    begin = read_clocks()
    run = open_run(path)
    if run.manifest["status"] == "complete":
        return run
    check_plugins_installed(run.manifest.get("plugins", {}), f"the run {run.path} uses", LogError)
    folder = CheckpointFolder(run.path)
    with ExitStack() as stack:
        lock = RunLock(run.path / run_files.EVENTS)
        stack.callback(lock.close)
        run = open_run(path)  # once more: until the lock was taken another process may have changed it
        if run.manifest["status"] == "complete":
            return run
        _check_manifest(run, say, excused=force or from_start)
        scenario = _computed_otherwise(load_scenario(run.path / run_files.SCENARIO), threads, shards)
        others = stack.enter_context(make_shard_group(scenario, say, gather))
        try:
            found = (
                _reopened(folder, scenario, say, force=force, lock=lock, load=load, seat=others.seat)
                if folder.newest_first()
                else None
            )
        except NoCheckpointError:
            if not from_start:
                raise
            found = None
        if found is not None:
            others.start(found.prepared)
            try:
                return found.carried_out(begin, say, gracefully=gracefully, trackers=trackers)
            except NoCheckpointError as error:
                if not from_start:
                    raise
                say.note(str(error))
    if not from_start:
        raise NoCheckpointError(
            f"{run.path} has no checkpoint: the run ended before the first one was written (scenario "
            "section `checkpoint`); " + _again(run.path)
        )
    return simulate_attempt(
        scenario, run.path, begin=begin, overwrite=True, say=say, trackers=trackers, gracefully=gracefully,
        load=load, gather=gather,
    )  # fmt: skip


def _computed_otherwise(scenario: Scenario, threads: int | None, shards: int | None) -> Scenario:
    """Return the scenario with other threads or shards, on which no result depends."""
    executor = scenario.executor
    if threads is not None:
        executor = executor.model_copy(update={"threads": threads})
    if shards == 1:
        executor = executor.model_copy(
            update={"name": executor.computes, "inner": "auto", "shards": 1, "address": "auto"}
        )
    elif shards is not None:
        executor = executor.model_copy(update={"name": "ray", "inner": executor.computes, "shards": shards})
    return scenario.with_(executor=executor)


class NoCheckpointError(LogError):
    """There is nothing to go on from."""


@dataclass(frozen=True)
class _Reopened:
    """A run directory as it stood when a checkpoint was taken, and all that is needed to go on from there."""

    prepared: PreparedRun
    directory: RunDirectory
    checkpoint: Path
    stamp: CheckpointStamp
    code: str
    state: dict[str, Any]

    def running(self, say: Progress, begin: ClockReadings) -> ActiveRun:
        """Return the run in the state of the checkpoint.

        Raises
        ------
        OtherRunError
            If it does not fit this run.
        """
        run = ActiveRun(self.prepared, self.directory, say, begin)
        try:
            run.restore(self.state)
        except _UNFIT as error:
            if self.stamp.code == self.code:
                raise OtherRunError(
                    f"{self.checkpoint} holds a state that this run cannot reach: {type(error).__name__}: "
                    f"{error}; it is damaged or was modified, so {_again(self.directory.path)}"
                ) from error
            raise OtherRunError(
                f"{self.checkpoint} was written by code version {self.stamp.code} and cannot be loaded by "
                f"{self.code}: {type(error).__name__}: {error}; reinstall the version that started the run, "
                f"or {_again(self.directory.path)}"
            ) from error
        self.state.clear()  # its arrays are in the run now, or copied
        return run

    def carried_out(self, begin: ClockReadings, say: Progress, *, gracefully: bool, trackers: Chosen) -> Run:
        """Carry out the rest of the run.

        Raises
        ------
        OtherRunError
            If the checkpoint does not fit this run, also if that shows only later.
        """
        try:
            return execute_run(
                lambda telling: self.running(telling, begin),
                self.directory,
                say,
                gracefully=gracefully,
                trackers=trackers,
                after=self.stamp.tick,
            )
        except _UNFIT as error:
            raise OtherRunError(
                f"the run failed after it was resumed from {self.checkpoint}: {type(error).__name__}: "
                f"{error}; the checkpoint is damaged or was modified, or the code has a bug, so "
                f"{_again(self.directory.path)}"
            ) from error


def _reopened(
    folder: CheckpointFolder,
    scenario: Scenario,
    say: Progress,
    *,
    force: bool,
    lock: RunLock,
    load: Callable[[Scenario], Split] | None,
    seat: ShardContext | None,
) -> _Reopened:
    """Go back to the latest checkpoint that is whole and whose log is, and say which were passed over.

    Raises
    ------
    NoCheckpointError
        If there is none.
    """
    run, code, damage = folder.path.parent, scenario_code_version(scenario), []
    prepared: PreparedRun | None = None
    for checkpoint in folder.newest_first():
        try:
            _check_stamp(read_stamp(checkpoint), run, code, force=force)
            prepared = prepared or prepare(scenario, say, load=load, seat=seat)
            _check_data(run, prepared)
            say.phase(f"reading checkpoint {checkpoint.name}")
            stamp, state = read_checkpoint(checkpoint, limit_bytes=available_bytes())
            directory = RunDirectory.reopened(run, stamp, lock, code)
        except OtherRunError:
            raise
        except LogError as error:
            damage.append(str(error))
            say.note(f"{error}; trying the previous checkpoint")
            continue
        directory.notes += damage
        return _Reopened(prepared, directory, checkpoint, stamp, code, state)
    raise NoCheckpointError(
        "no checkpoint of this run can be used:\n" + "".join(f"{line}\n" for line in damage) + _again(run)
    )


_UNFIT = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What the code raises if it is given a state that does not fit."""


class OtherRunError(NoCheckpointError):
    """A checkpoint is not of this scenario, or not of this code."""


def _again(run: Path) -> str:
    return f"start over with: gossiprec resume {run} --from-start"


def _shown(data: Mapping[str, Any]) -> str:
    known = (data.get(key) for key in ("fingerprint", "users", "items"))
    return "fingerprint {} ({} users, {} items)".format(*known)


def _check_manifest(run: Run, say: Progress, *, excused: bool) -> None:
    """Refuse a manifest that is not as it was written: it cannot say what the run began with."""
    fault = manifest_fault(run.manifest)
    if fault is None:
        return
    told = f"{run.path / run_files.MANIFEST} {fault}"
    if not excused:
        raise OtherRunError(f"{told}; pass --force to resume anyway, or {_again(run.path)}")
    say.note(told)


def _check_data(run: Path, prepared: PreparedRun) -> None:
    then, now = open_run(run).manifest.get("data"), data_identity(prepared.split)
    if then and then != now:
        raise OtherRunError(
            f"the data have changed since the run began: {_shown(then)} then, {_shown(now)} now; restore the "
            f"original data, or, to use the current data, {_again(run)}"
        )
    read = open_run(run).manifest.get("inputs")
    changes = [] if read is None else changed_inputs(read, prepared.inputs)
    if changes:
        raise OtherRunError(
            f"files that the run reads have changed since it began: {', '.join(changes)}; restore the "
            f"original files, or, to use the current ones, {_again(run)}"
        )


def _check_stamp(stamp: CheckpointStamp, run: Path, code: str, *, force: bool) -> None:
    if stamp.scenario != scenario_hash(run):
        raise OtherRunError(
            f"{run / run_files.SCENARIO} was changed after the run began, so its checkpoints no longer match "
            f"it; undo the change, or, to use the current scenario, {_again(run)}"
        )
    if stamp.code != code and not force:
        raise OtherRunError(
            f"the checkpoint was written by code version {stamp.code}, this is {code}: the resumed run may "
            "match neither version; reinstall the version that started the run, pass --force to resume "
            f"anyway, or {_again(run)}"
        )
