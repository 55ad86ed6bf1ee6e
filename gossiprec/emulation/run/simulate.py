"""Running a scenario, and resuming a run that ended early."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal, TypeAlias, Unpack

import yaml

from gossiprec.base.errors import LogError, ResourceError, ShardLostError
from gossiprec.base.registry import check_plugins_installed
from gossiprec.data.split import data_identity
from gossiprec.emulation.assembly.carrier import Carrier, make_carrier
from gossiprec.emulation.assembly.data_loading import changed_since
from gossiprec.emulation.assembly.prepare import prepare
from gossiprec.emulation.progress import ClockReadings, Progress, StopRequest, read_clocks
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.execution import (
    NoCheckpointError,
    RunSteps,
    check_manifest,
    execute_run,
    finish_steps,
    reopen_run,
    with_resources,
)
from gossiprec.emulation.run.run_options import RunKeywords, RunOptions, SimulateKeywords, make_run_options
from gossiprec.runs import Run, RunDirectory, open_run, run_files
from gossiprec.runs.checkpoints import CheckpointFolder
from gossiprec.runs.lock import RunLock
from gossiprec.runs.manifest import manifest_fault
from gossiprec.runs.run_directory import check_path_free, finish_cleaning
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.registries import scenario_code_version, scenario_plugins

ScenarioSource: TypeAlias = Scenario | str | os.PathLike[str] | Mapping[str, Any]
OnExists = Literal["refuse", "overwrite", "new", "reuse"]


def simulate(
    scenario: ScenarioSource,
    *,
    overrides: Iterable[str] = (),
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    on_exists: OnExists | None = None,
    **options: Unpack[SimulateKeywords],
) -> Run:
    """Run a scenario and return the run it wrote.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        A scenario, a YAML file, or a mapping of the same keys.
    overrides : iterable of str
        ``key.path=value``, as with ``--set``.
    out : path, optional
        Run directory; ``runs/<name>-s<seed>`` if not given.
    overwrite : bool
        Replace an earlier run there.
    on_exists : {"refuse", "overwrite", "new", "reuse"}, optional
        The handling of an earlier run there; follows `overwrite` by default. ``new`` writes next to it, with a number
        after its name; ``reuse`` returns it if it is complete, of this scenario, of this version of the code
        and, if data are read from files, of the present data, and otherwise replaces it.
    **options
        Keywords that change no result: ``progress``, ``track``, ``tracker_run_name``, ``graceful_stop``, ``load_data``,
        ``make_shard_group``, ``use_cached_kernels`` (:class:`SimulateKeywords`).

    Returns
    -------
    Run
        Complete, or marked ``interrupted`` if Ctrl-C stopped it; everything up to the last report is then there.

    Raises
    ------
    GossipRecError
        See :mod:`gossiprec.base.errors`. The run directory is then marked ``failed`` if it had been begun.
    """
    begin = read_clocks()
    run_options = make_run_options(**options)
    on_exists = on_exists or ("overwrite" if overwrite else "refuse")
    scenario, path, overwrite = new_run(scenario, overrides, out, on_exists)
    if on_exists == "reuse" and (earlier := _same_run(path, scenario)):
        return earlier

    def first() -> Run:
        return finish_steps(start_run(scenario, path, run_options, begin=begin, overwrite=overwrite))

    again = functools.partial(continue_run, path, run_options, from_start=True)
    return run_with_recovery(first, again, path, run_options.progress)


def new_run(
    scenario: ScenarioSource,
    overrides: Iterable[str],
    out: str | os.PathLike[str] | None,
    on_exists: OnExists,
) -> tuple[Scenario, Path, bool]:
    """Return a typed scenario, the directory of its run, and whether the run replaces an earlier one there.

    Raises
    ------
    LogError
        If the directory cannot be used.
    """
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario, list(overrides))
    path = Path(out) if out is not None else Path("runs") / f"{scenario.name}-s{scenario.seed}"
    if on_exists == "new":
        names = itertools.chain([path], (path.with_name(f"{path.name}-{n}") for n in itertools.count(2)))
        path = next(path for path in names if not path.exists())
    overwrite = on_exists in ("overwrite", "reuse")
    check_path_free(path, overwrite=overwrite)
    return scenario, path, overwrite


def _same_run(path: Path, scenario: Scenario) -> Run | None:
    """Return the complete run of a scenario in a folder by this version of the code, or None."""
    if not (path / run_files.MANIFEST).is_file():
        return None
    run = open_run(path)
    requested = yaml.safe_load(yaml.safe_dump(scenario.resolved()))
    if requested["executor"]["name"] == "auto":  # the run names the executor that it stood for (kept_kernels)
        requested["executor"]["name"] = run.scenario["executor"]["name"]
    is_same = (
        run.scenario == requested
        and run.code_version == scenario_code_version(scenario)
        and not manifest_fault(run.manifest)
        and run.status == "complete"
        and not run.manifest.get("changes")
        and not changed_since(scenario, run.manifest)
    )
    return run if is_same else None


def resume(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    shards: int | None = None,
    force: bool = False,
    from_start: bool = False,
    **options: Unpack[RunKeywords],
) -> Run:
    """Resume a run that was interrupted, failed or was killed, from its latest checkpoint; the bytes are the same.

    Parameters
    ----------
    path : path
        The run directory.
    threads : int, optional
        In place of the scenario's ``executor.threads``; results do not depend on it.
    shards : int, optional
        Number of shards on Ray, in place of the scenario's; 1 does not divide the run. Results do not depend on it.
    force : bool
        Use a checkpoint of another version of the code; the results may then match neither version.
    from_start : bool
        Run the scenario again in this directory if no checkpoint can be read.
    **options
        As in :func:`gossiprec.simulate`, except ``use_cached_kernels``.

    Returns
    -------
    Run
        A complete run is returned as it is.

    Raises
    ------
    LogError
        If there is no usable checkpoint, it belongs to another version of the code or a plug-in, or to another
        scenario, a plug-in is missing, or the run is being written by a living process.
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    run_options = make_run_options(**options)
    again = functools.partial(continue_run, path, run_options, threads=threads, shards=shards, force=force)
    first, later = (functools.partial(again, from_start=over) for over in (from_start, True))
    return run_with_recovery(first, later, path, run_options.progress)


def run_with_recovery(
    attempt: Callable[[], Run], again: Callable[[], Run], path: str | os.PathLike[str], progress: Progress
) -> Run:
    """Carry out an attempt at the run in a directory, and `again` if a shard dies.

    Raises
    ------
    ResourceError
        If the same shard dies twice.
    """
    reasons: dict[int, str] = {}
    while True:
        try:
            return attempt()
        except ShardLostError as lost:
            if lost.number in reasons:
                raise ResourceError(
                    f"shard {lost.number} died twice ({reasons[lost.number]}; then {lost.reason}): its machine "
                    "may be out of memory (check dmesg), or its process is being killed; use more or "
                    f"smaller shards, and resume with: gossiprec resume {quote(str(path))}"
                ) from lost
            reasons[lost.number] = lost.reason
            progress.note(f"{lost}; restarting that shard and resuming from the last checkpoint")
            attempt = again


def start_run(
    scenario: Scenario,
    path: Path,
    options: RunOptions,
    *,
    begin: ClockReadings,
    overwrite: bool,
    stop: StopRequest | None = None,
    changes: Iterable[Mapping[str, Any]] = (),
    carrier: Carrier | None = None,
) -> RunSteps:
    """Run a scenario, with changes, in a new directory until it ends or a shard dies; see :func:`execute_run`.

    The scenario names the carrier of versions if none is given.
    """
    with carrier or make_carrier(scenario, options, path) as carrier:
        prepared = prepare(
            scenario,
            options.progress,
            load=options.load_data,
            kept_kernels=options.use_cached_kernels,
            carrier=carrier,
        )
        carrier.check_room(prepared)
        carrier.start(prepared)
        components, split = prepared.components, prepared.components.split
        view_size = components.protocol.view_size
        directory = RunDirectory.create(
            path,
            scenario=components.scenario.resolved(),
            seed=scenario.seed,
            sizes={} if view_size is None else {"view_size": view_size},
            control_kinds=prepared.control_kinds,
            plugins=scenario_plugins(scenario),
            data=data_identity(split),
            inputs=prepared.inputs,
            changes=changes,
            overwrite=overwrite,
        )
        directory.write_names(split.user_names, split.item_names)
        make = functools.partial(ActiveRun, prepared, directory, options, begin)
        return (yield from execute_run(make, directory, options, stop=stop))


def continue_run(
    path: str | os.PathLike[str],
    options: RunOptions,
    *,
    threads: int | None = None,
    shards: int | None = None,
    force: bool = False,
    from_start: bool = False,
) -> Run:
    """Continue a run as :func:`resume` does, until it ends or a shard dies."""
    begin = read_clocks()
    run = open_run(path)
    if run.manifest["status"] == "complete":
        finish_cleaning(run.path)
        return run
    check_plugins_installed(run.manifest["plugins"], f"the run {run.path} uses", LogError)
    with ExitStack() as stack:
        lock = RunLock(run.path / run_files.EVENTS)
        stack.callback(lock.close)
        run = open_run(path)  # read again: another process may have changed it before the lock was taken
        if run.manifest["status"] == "complete":
            return run
        check_manifest(run, options.progress, excused=force or from_start)
        scenario = load_scenario(run.path / run_files.SCENARIO)
        scenario = with_resources(scenario, threads=threads, shards=shards)
        carrier = stack.enter_context(make_carrier(scenario, options, run.path))
        try:
            found = reopen_run(run.path, scenario, options, force=force, lock=lock, carrier=carrier)
            carrier.start(found.prepared)
            return found.execute(begin, options)
        except NoCheckpointError as error:
            if not from_start:
                raise
            if CheckpointFolder(run.path).newest_first():
                options.progress.note(str(error))
    options = replace(options, use_cached_kernels=False)
    changes = run.manifest.get("changes", [])
    return finish_steps(start_run(scenario, run.path, options, begin=begin, overwrite=True, changes=changes))
