"""Running a scenario, resuming a run that ended early, and replaying a run to compare the results."""

from __future__ import annotations

import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
import yaml

from gossiprec.base.errors import LogError, ResourceError
from gossiprec.base.inputs import changed_inputs
from gossiprec.base.registry import Plugins, check_plugins_installed, combined_code_version, plugin_versions
from gossiprec.compute.shards import ShardLostError
from gossiprec.compute.store.stored_versions import StoredVersions
from gossiprec.data.split import data_identity
from gossiprec.emulation.assembly.data_loading import changed_since
from gossiprec.emulation.assembly.prepare import prepare
from gossiprec.emulation.progress import (
    ClockReadings,
    ForwardedProgress,
    NullProgress,
    Progress,
    Status,
    StopRequest,
    read_clocks,
)
from gossiprec.emulation.run.active_run import ActiveRun
from gossiprec.emulation.run.execution import (
    NoCheckpointError,
    ResumeOptions,
    RunKeywords,
    RunOptions,
    RunSteps,
    SimulateKeywords,
    check_manifest,
    execute_run,
    finish_steps,
    make_run_options,
    reopen_run,
    restart_hint,
)
from gossiprec.emulation.run.kept_versions import check_versions
from gossiprec.emulation.shards import ShardGroup, SingleProcess
from gossiprec.runs import Run, RunDirectory, open_run, run_files
from gossiprec.runs.checkpoints import CheckpointFolder
from gossiprec.runs.lock import RunLock
from gossiprec.runs.manifest import manifest_fault
from gossiprec.runs.reader import Columns
from gossiprec.runs.run_directory import check_path_free, finish_cleaning
from gossiprec.runs.run_files import read_regular
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.registries import scenario_code_version, scenario_plugins
from gossiprec.scenario.sections import CheckpointOptions

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
    scenario, path = scenario_and_path(scenario, overrides, out)
    if on_exists == "new":
        path = free_path(path)
    elif on_exists == "reuse" and (earlier := _same_run(path, scenario)):
        return earlier
    overwrite = overwrite if on_exists is None else on_exists in ("overwrite", "reuse")
    check_path_free(path, overwrite=overwrite)

    def first() -> Run:
        return finish_steps(start_run(scenario, path, run_options, begin=begin, overwrite=overwrite))

    return run_with_recovery(first, path, run_options, ResumeOptions())


def scenario_and_path(
    scenario: ScenarioSource, overrides: Iterable[str], out: str | os.PathLike[str] | None
) -> tuple[Scenario, Path]:
    """Return a typed scenario and the directory of its run."""
    if not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario, list(overrides))
    return scenario, Path(out) if out is not None else Path("runs") / f"{scenario.name}-s{scenario.seed}"


def free_path(path: Path) -> Path:
    """Return the path or, if it exists, the first free path with a number after it."""
    names = itertools.chain([path], (path.with_name(f"{path.name}-{n}") for n in itertools.count(2)))
    return next(path for path in names if not path.exists())


def _same_run(path: Path, scenario: Scenario) -> Run | None:
    """Return the complete run of a scenario in a folder by this version of the code, or None."""
    if not (path / run_files.MANIFEST).is_file():
        return None
    run = open_run(path)
    requested = yaml.safe_load(yaml.safe_dump(scenario.resolved()))
    if requested["executor"]["name"] == "auto":  # the run names the executor that it stood for (kept_kernels)
        requested["executor"]["name"] = run.scenario["executor"]["name"]
    code = combined_code_version(run.manifest.get("plugins", {}), run.manifest.get("code"))
    is_same = (
        run.scenario == requested
        and code == scenario_code_version(scenario)
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
    resuming = ResumeOptions(threads=threads, shards=shards, force=force, from_start=from_start)
    return run_with_recovery(lambda: continue_run(path, run_options, resuming), path, run_options, resuming)


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

    Raises
    ------
    ResourceError
        If the same shard dies twice.
    """
    attempt, resuming = first, replace(resuming, from_start=True)
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
            options.progress.note(f"{lost}; restarting that shard and resuming from the last checkpoint")
            attempt = functools.partial(continue_run, path, options, resuming)


def start_run(
    scenario: Scenario,
    path: Path,
    options: RunOptions,
    *,
    begin: ClockReadings,
    overwrite: bool,
    stop: StopRequest | None = None,
    changes: Iterable[Mapping[str, Any]] = (),
    stored: StoredVersions | None = None,
) -> RunSteps:
    """Run a scenario, with changes, in a new directory until it ends or a shard dies; see :func:`execute_run`.

    Models are read from `stored` versions of another run, if given, in place of training.
    """
    with _make_shard_group(scenario, options) as shards:
        prepared = prepare(
            scenario,
            options.progress,
            load=options.load_data,
            kept_kernels=options.use_cached_kernels,
            shard=shards.shard,
        )
        check_versions(prepared, path)
        shards.start(prepared)
        view_size = prepared.protocol.view_size
        directory = RunDirectory.create(
            path,
            scenario=prepared.scenario.resolved(),
            seed=scenario.seed,
            sizes={} if view_size is None else {"view_size": view_size},
            control_kinds=prepared.control_kinds,
            plugins=scenario_plugins(scenario),
            data=data_identity(prepared.split),
            inputs=prepared.inputs,
            changes=changes,
            overwrite=overwrite,
        )
        directory.write_names(prepared.split.user_names, prepared.split.item_names)
        return (
            yield from execute_run(
                lambda progress: ActiveRun(prepared, directory, progress, begin, stored),
                directory,
                options,
                stop=stop,
            )
        )


def continue_run(path: str | os.PathLike[str], options: RunOptions, resuming: ResumeOptions) -> Run:
    """Continue a run from its last usable checkpoint until it ends or a shard dies."""
    begin = read_clocks()
    run = open_run(path)
    if run.manifest["status"] == "complete":
        finish_cleaning(run.path)
        return run
    check_plugins_installed(run.manifest.get("plugins", {}), f"the run {run.path} uses", LogError)
    folder = CheckpointFolder(run.path)
    with ExitStack() as stack:
        lock = RunLock(run.path / run_files.EVENTS)
        stack.callback(lock.close)
        run = open_run(path)  # read again: another process may have changed it before the lock was taken
        if run.manifest["status"] == "complete":
            return run
        check_manifest(run, options.progress, excused=resuming.force or resuming.from_start)
        scenario = _with_resources(load_scenario(run.path / run_files.SCENARIO), resuming)
        others = stack.enter_context(_make_shard_group(scenario, options))
        try:
            found = (
                reopen_run(folder, scenario, options, force=resuming.force, lock=lock, shard=others.shard)
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
                options.progress.note(str(error))
    if not resuming.from_start:
        raise NoCheckpointError(
            f"{run.path} has no checkpoint: the run ended before the first one was written (scenario "
            "section `checkpoint`); " + restart_hint(run.path)
        )
    options = replace(options, use_cached_kernels=False)
    changes = run.manifest.get("changes", [])
    return finish_steps(start_run(scenario, run.path, options, begin=begin, overwrite=True, changes=changes))


def _make_shard_group(scenario: Scenario, options: RunOptions) -> ShardGroup:
    """Return the group of a run's shards, on Ray by default, or of one process if the run is not divided.

    Raises
    ------
    ResourceError
        If Ray is not installed.
    """
    if scenario.executor.shards == 1:
        return SingleProcess()
    if options.make_shard_group is not None:
        return options.make_shard_group(scenario, options.progress)
    from gossiprec.emulation.shards.ray_backend import RayShardGroup

    return RayShardGroup(scenario, options.progress)


def _with_resources(scenario: Scenario, resuming: ResumeOptions) -> Scenario:
    """Return the scenario with other threads or shards, on which no result depends."""
    executor, threads, shards = scenario.executor, resuming.threads, resuming.shards
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


TABLES = (run_files.METRICS, run_files.ATTACKS, run_files.FINDINGS)


@dataclass(frozen=True)
class Replay:
    """The result of replaying a run.

    Attributes
    ----------
    path : Path
        The run.
    digest : str
        The digest of the log of the second run.
    difference : str or None
        The first difference, or None if the run is confirmed.
    elsewhere : tuple of str
        The differences in code, data, packages, processor and compiler target that may explain a difference in results.
    upto : float
        Virtual time up to which the two were compared; the end for a complete run.
    """

    path: Path
    digest: str
    difference: str | None
    elsewhere: tuple[str, ...]
    upto: float

    @property
    def confirmed(self) -> bool:
        """Whether the second run gave the same results."""
        return self.difference is None


def replay(
    path: str | os.PathLike[str], *, threads: int | None = None, progress: Progress | None = None
) -> Replay:
    """Run a run's scenario again, in a temporary directory, and compare log and tables.

    An incomplete run is compared up to the last report in its log.

    Parameters
    ----------
    path : path
        The run directory; nothing in it is changed.
    threads : int, optional
        In place of the scenario's ``executor.threads``; results do not depend on it.
    progress : Progress, optional
        Receives progress messages.

    Raises
    ------
    LogError
        If the run is still in progress, has nothing to compare, or uses a plug-in that is missing.
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    run = open_run(path)
    reports = run.events("evaluate")["time"]
    if run.status == "running" or not len(reports):
        reason = "is still running" if len(reports) else "has no report in its log"
        raise LogError(f"{run.path} {reason}, so it cannot be compared yet; replay it when it has finished")
    check_plugins_installed(run.manifest.get("plugins", {}), f"the run {run.path} uses", LogError)
    scenario = load_scenario(run.path / run_files.SCENARIO).with_(checkpoint=CheckpointOptions(minutes=None))
    scenario = scenario.with_(changes=(*scenario.changes, *run.manifest.get("changes", [])))
    if threads is not None:
        scenario = scenario.with_(executor=scenario.executor.model_copy(update={"threads": threads}))
    upto, whole = float(reports.max()), run.status == "complete"
    stop = _StopAt(progress or NullProgress(), np.inf if whole else upto)
    with tempfile.TemporaryDirectory(prefix="gossiprec-replay-") as folder:
        again = simulate(scenario, out=Path(folder) / "run", progress=stop)
        difference = log_difference(run, again, whole) or _table_difference(run, again, whole)
        return Replay(
            run.path,
            again.log.digest,
            difference,
            changed_surroundings(run, again, scenario_plugins(scenario)),
            upto,
        )


class _StopAt(ForwardedProgress):
    """A progress that stops the run, as Ctrl-C would, at its report at a virtual time."""

    def __init__(self, progress: Progress, end: float) -> None:
        super().__init__(progress)
        self._end = end

    def tick(self, status: Status) -> None:
        """Pass the status on, or stop the run."""
        super().tick(status)
        if status.time >= self._end:
            raise KeyboardInterrupt


def log_difference(run: Run, again: Run, whole: bool) -> str | None:
    """Return the earliest event that differs between the logs; an incomplete run may hold more events."""
    if run.log.damage:
        return (
            f"the run's log is damaged ({run.log.damage}): `gossiprec log verify` reports what is "
            "still readable"
        )
    recorded = run.manifest.get("log_digest")
    if recorded is not None and recorded != run.log.digest:
        return f"the run's log has digest {run.log.digest}, its manifest records {recorded}"
    if run.log.digest == again.log.digest:
        return None
    differences = []
    for kind in again.log.kinds:
        old, new = run.events(kind) if kind in run.log.kinds else {}, again.events(kind)
        if not len(new["time"]) and not len(old.get("time", ())):
            continue
        row = _first_difference(old, new, whole)
        if row is not None:
            time = min(float(c["time"][row]) for c in (old, new) if "time" in c and row < len(c["time"]))
            events = f"{_format_event(old, row)}, in the second run {_format_event(new, row)}"
            differences.append((time, f"{kind} row {row} (time {time:g}): {events}"))
    if differences:
        return f"the first different event is {min(differences)[1]}"
    return f"the run's log has digest {run.log.digest}, the second run {again.log.digest}" if whole else None


def _first_difference(old: Columns, new: Columns, whole: bool) -> int | None:
    """Return the first row in which columns differ, also by being absent from one side."""
    if list(old) != list(new):
        return 0
    n_old, n_new = len(old["time"]), len(new["time"])
    both = min(n_old, n_new)
    differs = np.zeros(both, np.bool_)
    for name in old:
        left, right = old[name][:both], new[name][:both]
        if left.dtype != right.dtype or left.shape != right.shape:
            return 0
        if both:
            left, right = (values.reshape(both, -1).view(np.uint8) for values in (left, right))
            differs |= (left != right).any(axis=1)
    if differs.any():
        return int(np.argmax(differs))
    return both if n_old < n_new or (whole and n_old > n_new) else None


def _format_event(columns: Columns, row: int) -> str:
    if not columns or row >= len(columns["time"]):
        return "nothing"
    return ", ".join(f"{name} {values[row].tolist()!r}" for name, values in columns.items())


def _table_difference(run: Run, again: Run, whole: bool) -> str | None:
    """Return the first line of a table that is not the same in both runs."""
    for name in TABLES:
        if name == run_files.FINDINGS and not (run.path / name).exists():
            continue  # a run from before this table existed
        old, new = _lines(run.path / name), _lines(again.path / name)
        for number, (line, other) in enumerate(zip(old, new, strict=False), 1):
            if line != other:
                return f"{name}, line {number}: {line}, in the second run {other}"
        if whole and len(old) != len(new):
            return f"{name} has {len(old)} lines, in the second run {len(new)}"
    return None


def _lines(path: Path) -> list[str]:
    """Return the complete lines of a table; a kill may have cut the last line."""
    text = read_regular(path).decode()
    return text[: text.rfind("\n") + 1].splitlines()


def changed_surroundings(run: Run, again: Run, plugins: Plugins) -> tuple[str, ...]:
    """Return the inputs of a run's numbers that changed since the run began."""
    old, new = run.manifest, again.manifest
    pairs = [(name, old.get(name), new[name]) for name in ("code", "platform", "python")]
    pairs += [(name, old[name], new[name]) for name in ("processor", "target") if name in old]
    if old.get("data"):
        pairs.append(("data", old["data"]["fingerprint"], new["data"]["fingerprint"]))
    read = old.get("inputs")
    if read is not None and changed_inputs(read, new["inputs"]):
        digests = [
            {path: file["sha256"][:16] for path, file in part.items()} for part in (read, new["inputs"])
        ]
        pairs += [
            (path, *(part.get(path, "not read") for part in digests))
            for path in sorted({*read, *new["inputs"]})
        ]
    versions = plugin_versions(old.get("plugins", {})), plugin_versions(plugins)
    for before, after in ((old.get("packages", {}), new["packages"]), versions):
        pairs += [(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    return tuple(f"{name} was {before}, is {after}" for name, before, after in pairs if before != after)
