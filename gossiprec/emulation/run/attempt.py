"""One attempt at a run, from its start or from a checkpoint, and the recovery from the loss of a shard."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from gossiprec.base.errors import LogError
from gossiprec.base.registry import check_plugins_installed
from gossiprec.data.split import data_identity
from gossiprec.emulation.assembly.prepare import prepare
from gossiprec.emulation.progress import ClockReadings, read_clocks
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.execution import execute_run
from gossiprec.emulation.run.reopened_run import NoCheckpointError, check_manifest, reopen_run, restart_hint
from gossiprec.emulation.run.run_options import ResumeOptions, RunOptions
from gossiprec.emulation.shards.shard_group import make_shard_group, retry_after_shard_loss
from gossiprec.runs import Run, RunDirectory, open_run, run_files
from gossiprec.runs.checkpoints import CheckpointFolder
from gossiprec.runs.lock import RunLock
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.plugins import scenario_plugins


def run_with_recovery(
    first: Callable[[], Run], path: str | os.PathLike[str], options: RunOptions, resuming: ResumeOptions
) -> Run:
    """Carry out the first attempt at a run, and continue it from its last checkpoint if a shard dies.

    Parameters
    ----------
    first : callable
        Carries out the first attempt.
    path : path
        The run directory.
    options : RunOptions
    resuming : ResumeOptions
        The options of every further attempt, which may also start over.
    """
    resuming = replace(resuming, from_start=True)
    return retry_after_shard_loss(first, lambda: continue_run(path, options, resuming), options.say, path)


def start_run(
    scenario: Scenario, path: Path, options: RunOptions, *, begin: ClockReadings, overwrite: bool
) -> Run:
    """Run a scenario in a new run directory until it ends or a shard dies."""
    with make_shard_group(scenario, options.say, options.gather) as shards:
        prepared = prepare(
            scenario, options.say, load=options.load, kept_kernels=options.kept_kernels, seat=shards.seat
        )
        shards.start(prepared)
        view_size = prepared.protocol.view_size
        directory = RunDirectory.create(
            path,
            scenario=prepared.scenario.resolved(),
            seed=scenario.seed,
            sizes={} if view_size is None else {"view_size": view_size},
            plugins=scenario_plugins(scenario),
            data=data_identity(prepared.split),
            inputs=prepared.inputs,
            overwrite=overwrite,
        )
        directory.write_names(prepared.split.user_names, prepared.split.item_names)
        return execute_run(lambda telling: ActiveRun(prepared, directory, telling, begin), directory, options)


def continue_run(path: str | os.PathLike[str], options: RunOptions, resuming: ResumeOptions) -> Run:
    """Continue a run from its last usable checkpoint until it ends or a shard dies."""
    begin = read_clocks()
    run = open_run(path)
    if run.manifest["status"] == "complete":
        return run
    check_plugins_installed(run.manifest.get("plugins", {}), f"the run {run.path} uses", LogError)
    folder = CheckpointFolder(run.path)
    with ExitStack() as stack:
        lock = RunLock(run.path / run_files.EVENTS)
        stack.callback(lock.close)
        run = open_run(path)  # read again: another process may have changed it before the lock was taken
        if run.manifest["status"] == "complete":
            return run
        check_manifest(run, options.say, excused=resuming.force or resuming.from_start)
        scenario = _with_resources(load_scenario(run.path / run_files.SCENARIO), resuming)
        others = stack.enter_context(make_shard_group(scenario, options.say, options.gather))
        try:
            found = (
                reopen_run(folder, scenario, options, force=resuming.force, lock=lock, seat=others.seat)
                if folder.newest_first()
                else None
            )
        except NoCheckpointError:
            if not resuming.from_start:
                raise
            found = None
        if found is not None:
            others.start(found.prepared)
            try:
                return found.execute(begin, options)
            except NoCheckpointError as error:
                if not resuming.from_start:
                    raise
                options.say.note(str(error))
    if not resuming.from_start:
        raise NoCheckpointError(
            f"{run.path} has no checkpoint: the run ended before the first one was written (scenario "
            "section `checkpoint`); " + restart_hint(run.path)
        )
    return start_run(scenario, run.path, replace(options, kept_kernels=False), begin=begin, overwrite=True)


def _with_resources(scenario: Scenario, resuming: ResumeOptions) -> Scenario:
    """Return the scenario with other threads or shards, on which no result depends."""
    executor, threads, shards = scenario.executor, resuming.threads, resuming.shards
    if threads is not None:
        executor = executor.model_copy(update={"threads": threads})
    if shards == 1:
        executor = executor.model_copy(
            update={"name": executor.computes, "inner": "auto", "shards": 1, "address": "auto"}
        )
    elif shards is not None:
        executor = executor.model_copy(update={"name": "ray", "inner": executor.computes, "shards": shards})
    return scenario.with_(executor=executor)
