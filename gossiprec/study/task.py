"""Carrying out one simulation of a study, in whichever process it lands."""

from __future__ import annotations

import shutil
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossiprec.errors import GossipRecError, ResourceError
from gossiprec.machine import usable_cores
from gossiprec.plugins import Plugins, check_installed, code_with
from gossiprec.version import code_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from gossiprec.data.split import Split
    from gossiprec.emulation import Progress
    from gossiprec.eventlog import Run
    from gossiprec.scenario import Scenario

    Load = Callable[[Scenario], Split]


@dataclass(frozen=True)
class Task:
    """One simulation to carry out; plain data, because it travels.

    Attributes
    ----------
    hash : str
    scenario : dict
        Resolved.
    path : str
        The run directory.
    signature : str
        Tasks with the same one compile the same kernels.
    code : str
        The version of the code that is to carry it out, and
    plugins : dict
        the plug-ins.
    track : tuple of str
        Trackers that are told of it, which call it
    called : str
        so.
    """

    hash: str
    scenario: dict[str, Any]
    path: str
    signature: str
    code: str
    plugins: Plugins = field(default_factory=dict)
    track: tuple[str, ...] = ()
    called: str = ""

    def with_threads(self, threads: int) -> dict[str, Any]:
        """Return the scenario on this many threads; without pictures, which the study draws."""
        executor = {**self.scenario["executor"], "threads": threads}
        return {**self.scenario, "executor": executor, "plots": False}


@dataclass(frozen=True)
class Done:
    """How a simulation ended: with its wall time, or with a problem, and the traceback of one that is ours.

    Attributes
    ----------
    compiling : float
        Seconds of that which went into compiling kernels, once on a machine.
    notes : tuple of str
        What the run said in passing, such as that a tracker failed.
    """

    hash: str
    seconds: float
    problem: str = ""
    trace: str = ""
    compiling: float = 0.0
    notes: tuple[str, ...] = ()


def perform(task: Task, *, threads: int, progress: Progress | None = None, load: Load | None = None) -> Done:
    """Carry out a simulation; what goes wrong with it is told in the result, not raised.

    Ctrl-C is for the study, which ends its workers: here it must be ignored.
    """
    from gossiprec.emulation.run.progress import Silent

    begin = time.monotonic()
    problem, trace, compiling = "", "", 0.0
    heard = _Heard(progress or Silent())
    with suppress(OSError):  # where the system can (Linux): the peak of memory that the run tells is its own
        Path("/proc/self/clear_refs").write_text("5")
    try:
        _check_code(task)
        compiling = _simulate(task, threads, heard, load)
    except GossipRecError as error:
        problem = str(error)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        problem = f"{where}{error.strerror or error}"
    except Exception as error:  # one run must not take the other runs of the study with it
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            problem = "the memory is exhausted; lower --jobs, or the size of the runs"
        else:
            problem, trace = f"{type(error).__name__}: {error}", traceback.format_exc()
    return Done(task.hash, time.monotonic() - begin, problem, trace, compiling, tuple(heard.notes))


class _Heard:
    """A progress that keeps what is noted."""

    def __init__(self, say: Progress) -> None:
        self.phase, self.tick = say.phase, say.tick
        self._say = say
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep it, and pass it on."""
        self.notes.append(text)
        self._say.note(text)


def _check_code(task: Task) -> None:
    if task.code != code_version():
        raise ResourceError(
            f"this worker has the code version {code_version()}, the study {task.code}; install the same gossiprec on "
            "all machines and restart their workers"
        )
    check_installed(task.plugins, "the study uses", ResourceError)


def _simulate(task: Task, threads: int, progress: Progress, load: Load | None) -> float:
    """Run it; return the seconds that compiling took."""
    from gossiprec.scenario import load_scenario
    from gossiprec.scenario.plugins import plugins_of

    scenario = load_scenario(task.with_threads(threads))
    here = plugins_of(scenario)
    if here != task.plugins:
        raise ResourceError(
            f"this worker has the code version {code_with(here)}, the study {code_with(task.plugins)}; install the "
            "same plug-ins on all machines and restart their workers"
        )
    run = _resumed(task, threads, progress, load) or _anew(task, scenario, progress, load)
    if run.manifest["status"] != "complete":
        raise ResourceError(f"the run ended as {run.manifest['status']}")
    return float((run.summary or {})["seconds"].get("compile", 0.0))


def _resumed(task: Task, threads: int, progress: Progress, load: Load | None) -> Run | None:
    """Return the run of an attempt that did not end, gone on with from its checkpoint; None: it has to begin anew."""
    from gossiprec.emulation import resume
    from gossiprec.emulation.run.resume import NoCheckpointError
    from gossiprec.eventlog import open_run
    from gossiprec.scenario import load_scenario

    try:
        attempt = open_run(task.path)
        executor = {**attempt.scenario["executor"], "threads": threads}
        scenarios = (task.with_threads(threads), {**attempt.scenario, "executor": executor})
        wanted, begun = (load_scenario(scenario).resolved() for scenario in scenarios)
    except GossipRecError:
        return None
    if attempt.manifest.get("status") == "complete" or wanted != begun:
        return None  # complete, but of other code or data; or of another plan
    try:
        return resume(
            task.path, threads=threads, progress=progress, track=task.track, tracked_as=task.called, load=load
        )
    except NoCheckpointError:
        return None


def _anew(task: Task, scenario: Scenario, progress: Progress, load: Load | None) -> Run:
    """Carry out a simulation from its start, in place of what an earlier attempt has left."""
    from gossiprec.emulation import simulate

    path = Path(task.path)
    if path.exists():
        shutil.rmtree(path)
    return simulate(
        scenario, out=path, progress=progress, track=task.track, tracked_as=task.called, load=load
    )


def share_of_cores(jobs: int) -> int:
    """Return how many threads each of `jobs` processes gets."""
    return max(1, usable_cores() // jobs)
