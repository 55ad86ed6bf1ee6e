"""The state of a run directory at its last usable checkpoint, and the checks that it belongs to the scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossiprec.base.errors import LogError
from gossiprec.base.inputs import changed_inputs
from gossiprec.base.machine import available_bytes
from gossiprec.compute.shards.row_routing import ShardContext
from gossiprec.data.split import data_identity
from gossiprec.emulation.assembly.prepare import PreparedRun, prepare
from gossiprec.emulation.progress import ClockReadings, Progress
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.execution import RunOptions, execute_run
from gossiprec.runs import Run, RunDirectory, open_run, run_files
from gossiprec.runs.checkpoints import CheckpointFolder, CheckpointStamp, read_checkpoint, read_stamp
from gossiprec.runs.lock import RunLock
from gossiprec.runs.manifest import manifest_fault
from gossiprec.runs.run_directory import scenario_hash
from gossiprec.scenario import Scenario
from gossiprec.scenario.registries import scenario_code_version


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

    def _restored(self, say: Progress, begin: ClockReadings) -> ActiveRun:
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
                    f"{error}; it is damaged or was modified, so {restart_hint(self.directory.path)}"
                ) from error
            raise OtherRunError(
                f"{self.checkpoint} was written by code version {self.stamp.code} and cannot be loaded by "
                f"{self.code}: {type(error).__name__}: {error}; reinstall the version that started the run, "
                f"or {restart_hint(self.directory.path)}"
            ) from error
        self.state.clear()  # its arrays are in the run now, or copied
        return run

    def execute(self, begin: ClockReadings, options: RunOptions) -> Run:
        """Carry out the rest of the run.

        Raises
        ------
        OtherRunError
            If the checkpoint does not fit this run, even if that is found later.
        """
        try:
            return execute_run(
                lambda telling: self._restored(telling, begin),
                self.directory,
                options,
                after=self.stamp.tick,
            )
        except _UNFIT as error:
            raise OtherRunError(
                f"the run failed after it was resumed from {self.checkpoint}: {type(error).__name__}: "
                f"{error}; the checkpoint is damaged or was modified, or the code has a bug, so "
                f"{restart_hint(self.directory.path)}"
            ) from error


def reopen_run(
    folder: CheckpointFolder,
    scenario: Scenario,
    options: RunOptions,
    *,
    force: bool,
    lock: RunLock,
    seat: ShardContext | None,
) -> ReopenedRun:
    """Reopen a run at the latest checkpoint that is intact with its log, and report those passed over.

    Raises
    ------
    NoCheckpointError
        If there is no such checkpoint.
    """
    run, say, code, damage = folder.path.parent, options.progress, scenario_code_version(scenario), []
    prepared: PreparedRun | None = None
    for checkpoint in folder.newest_first():
        try:
            _check_stamp(read_stamp(checkpoint), run, code, force=force)
            prepared = prepared or prepare(scenario, say, load=options.load_data, seat=seat)
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
        return ReopenedRun(prepared, directory, checkpoint, stamp, code, state)
    raise NoCheckpointError(
        "no checkpoint of this run can be used:\n"
        + "".join(f"{line}\n" for line in damage)
        + restart_hint(run)
    )


def restart_hint(run: Path) -> str:
    """Return the command that starts a run over, as part of a message."""
    return f"start over with: gossiprec resume {run} --from-start"


def _shown(data: Mapping[str, Any]) -> str:
    known = (data.get(key) for key in ("fingerprint", "users", "items"))
    return "fingerprint {} ({} users, {} items)".format(*known)


def check_manifest(run: Run, say: Progress, *, excused: bool) -> None:
    """Refuse a manifest that was changed, because it cannot prove what the run started with."""
    fault = manifest_fault(run.manifest)
    if fault is None:
        return
    told = f"{run.path / run_files.MANIFEST} {fault}"
    if not excused:
        raise OtherRunError(f"{told}; pass --force to resume anyway, or {restart_hint(run.path)}")
    say.note(told)


def _check_data(run: Path, prepared: PreparedRun) -> None:
    then, now = open_run(run).manifest.get("data"), data_identity(prepared.split)
    if then and then != now:
        raise OtherRunError(
            f"the data have changed since the run began: {_shown(then)} then, {_shown(now)} now; restore the "
            f"original data, or, to use the current data, {restart_hint(run)}"
        )
    read = open_run(run).manifest.get("inputs")
    changes = [] if read is None else changed_inputs(read, prepared.inputs)
    if changes:
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
