"""Execution of one simulation of a study, in any process."""

from __future__ import annotations

import platform
import time
import traceback
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.base.errors import GossipRecError, ResourceError, describe_os_error
from gossiprec.base.inputs import Inputs, note_inputs, record_inputs
from gossiprec.base.machine import usable_cores
from gossiprec.base.registry import Plugins, check_plugins_installed, plugin_versions
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.scenario.definition import Scenario
from gossiprec.study.run_hash import canonical_json
from gossiprec.version import code_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from gossiprec.emulation.progress import Progress
    from gossiprec.runs import Run

    Load = Callable[[Scenario], Split]


@dataclass(frozen=True)
class StudyTask:
    """One simulation to carry out, as plain data that can be sent to another process.

    Attributes
    ----------
    hash : str
    scenario : dict
        The resolved scenario.
    path : str
        The run directory.
    signature : str
        Tasks with the same signature compile the same kernels.
    code : str
        The version of the code that must carry it out.
    plugins : dict
        The plug-ins that must carry it out.
    track : tuple of str
        Trackers of the run.
    called : str
        Name of the run for the trackers.
    machine : str
        The name of the machine on which the study runs.
    """

    hash: str
    scenario: dict[str, Any]
    path: str
    signature: str
    code: str
    plugins: Plugins = field(default_factory=dict)
    track: tuple[str, ...] = ()
    called: str = ""
    machine: str = field(default_factory=platform.node)

    def with_threads(self, threads: int) -> dict[str, Any]:
        """Return the scenario with this number of threads, and without figures, which the study draws."""
        executor = {**self.scenario["executor"], "threads": threads}
        return {**self.scenario, "executor": executor, "plots": False}


@dataclass(frozen=True)
class TaskResult:
    """The result of a simulation: its wall time, or its problem, with a traceback if gossiprec is at fault.

    Attributes
    ----------
    compiling : float
        Seconds of it spent on compiling kernels, once per machine.
    notes : tuple of str
        Notes of the run, for example that a tracker failed.
    """

    hash: str
    seconds: float
    problem: str = ""
    trace: str = ""
    compiling: float = 0.0
    notes: tuple[str, ...] = ()


def run_task(
    task: StudyTask, *, threads: int, progress: Progress | None = None, load: Load | None = None
) -> TaskResult:
    """Carry out a simulation; its problems are returned in the result, not raised.

    Ctrl-C is handled by the study, which ends its workers, and must be ignored here.
    """
    from gossiprec.emulation.progress import NullProgress

    begin = time.monotonic()
    problem, trace, compiling = "", "", 0.0
    heard = _Heard(progress or NullProgress())
    with suppress(OSError):  # if the system can (Linux): the reported memory peak is then the run's own
        Path("/proc/self/clear_refs").write_text("5")
    try:
        _check_code(task)
        compiling = _simulate(task, threads, heard, load)
    except GossipRecError as error:
        problem = str(error)
    except OSError as error:
        problem, _ = describe_os_error(error)
    except Exception as error:  # one run must not stop the other runs of the study
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            problem = "out of memory; lower --jobs, or the size of the runs"
        else:
            problem, trace = f"{type(error).__name__}: {error}", traceback.format_exc()
    return TaskResult(task.hash, time.monotonic() - begin, problem, trace, compiling, tuple(heard.notes))


class _Heard:
    """A progress that keeps the notes."""

    def __init__(self, say: Progress) -> None:
        self.phase, self.tick = say.phase, say.tick
        self._say = say
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a note, and forward it."""
        self.notes.append(text)
        self._say.note(text)


def _check_code(task: StudyTask) -> None:
    if task.code != code_version():
        raise _other_code(task, "gossiprec", code_version(), task.code)
    check_plugins_installed(task.plugins, "the study uses", ResourceError)


def _check_plugins(task: StudyTask, here: Plugins) -> None:
    if here == task.plugins:
        return
    found, wanted = plugin_versions(here), plugin_versions(task.plugins)
    different = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    raise _other_code(
        task,
        f"the plug-in {' and '.join(different)}",
        *(", ".join(each.get(name, "none") for name in different) for each in (found, wanted)),
    )


def _other_code(task: StudyTask, what: str, found: str, wanted: str) -> ResourceError:
    """Return the error of a worker with other code than the study: edited meanwhile, or on another machine."""
    if task.machine == platform.node():
        return ResourceError(
            f"{what} changed while the study was running: found {found}, the study began with {wanted}; finish the "
            "edit, then start the study with --again (run all again) or --keep (keep the finished runs)"
        )
    return ResourceError(
        f"{what} on the worker {platform.node()}: found {found}, expected {wanted} as on {task.machine}; install the "
        "same version on all machines and restart their workers"
    )


def _simulate(task: StudyTask, threads: int, progress: Progress, load: Load | None) -> float:
    """Run the task; return the seconds spent on compiling."""
    from gossiprec.emulation import simulate
    from gossiprec.runs.run_directory import remove_run
    from gossiprec.scenario import load_scenario
    from gossiprec.scenario.registries import scenario_plugins

    scenario = load_scenario(task.with_threads(threads))
    _check_plugins(task, scenario_plugins(scenario))
    options: dict[str, Any] = {"progress": progress, "load_data": load}
    options |= {"track": task.track, "tracker_run_name": task.called}
    run = _resumed(task, threads, options)
    if run is None:
        remove_run(Path(task.path))
        run = simulate(scenario, out=Path(task.path), **options)
    if run.manifest["status"] != "complete":
        raise ResourceError(f"the run ended as {run.manifest['status']}")
    return float((run.summary or {})["seconds"].get("compile", 0.0))


def _resumed(task: StudyTask, threads: int, options: dict[str, Any]) -> Run | None:
    """Return the run of an earlier attempt, resumed from its checkpoint, or None if it must start again."""
    from gossiprec.emulation import resume
    from gossiprec.emulation.run.execution import NoCheckpointError
    from gossiprec.runs import open_run
    from gossiprec.scenario import load_scenario

    try:
        attempt = open_run(task.path)
        executor = {**attempt.scenario["executor"], "threads": threads}
        scenarios = (task.with_threads(threads), {**attempt.scenario, "executor": executor})
        wanted, begun = (load_scenario(scenario).resolved() for scenario in scenarios)
    except GossipRecError:
        return None
    if attempt.manifest.get("status") == "complete" or wanted != begun:
        return None  # complete, but of other code, data or plan
    try:
        return resume(task.path, threads=threads, **options)
    except NoCheckpointError:
        return None


def threads_per_job(jobs: int) -> int:
    """Return the number of threads of each of `jobs` processes."""
    return max(1, usable_cores() // jobs)


MOST_BYTES = 512 * 2**20
"""Bytes of data that each worker keeps for reuse."""


class DataCache:
    """A cache of the data of the last runs, up to a size limit.

    Parameters
    ----------
    most_bytes : int
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[str, tuple[Split, Inputs]] = OrderedDict()

    def __call__(self, scenario: Scenario) -> Split:
        """Return the scenario's data, split; see :func:`gossiprec.emulation.assembly.prepare.load_data`."""
        key = canonical_json([scenario.dataset.to_plain_data(), scenario.seed])
        found = self._held.pop(key, None)
        if found is None:
            with record_inputs() as inputs:
                found = load_data(scenario), inputs
        self._held[key] = found
        while sum(array_bytes(split) for split, _ in self._held.values()) > self._most_bytes:
            self._held.popitem(last=False)
        split, inputs = found
        note_inputs(inputs)
        return split


def array_bytes(value: Any) -> int:
    """Return the bytes of all arrays in a dataclass and in the dataclasses that it holds."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_dataclass(value):
        return sum(array_bytes(getattr(value, field.name)) for field in fields(value))
    return 0
