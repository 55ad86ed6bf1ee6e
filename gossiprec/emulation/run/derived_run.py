"""A finished run with a change: the one function by which every look back at a run repeats it.

Decision: ``counterfactual``, ``influence``, ``unlearn``, ``observe``, ``epsilon`` and ``audit`` call :func:`derive`
with a run, a change and a source. It refuses a run that this code cannot repeat, with one message for all commands. It
changes the scenario, in which the run's changes from Python are written. The source makes the result:

- from scratch (:func:`temporary_runs`): the scenario runs again;
- from versions (:func:`from_versions`): models are read from those that the run has stored, in place of training;
- from contacts (:func:`from_contacts`): only the schedule is made again, which says who sends what to whom and when.

A source is a function of the changed scenario, so ``counterfactual`` passes :func:`gossiprec.simulate` itself.
``replay`` repeats runs that the others refuse, because it finds out why results differ: it takes :func:`own_scenario`.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import TypeAlias, TypeVar

from gossiprec.base.errors import LogError
from gossiprec.base.registry import check_plugins_installed
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.data_loading import changed_since, load_data
from gossiprec.emulation.assembly.schedule import Schedule, build_and_schedule
from gossiprec.emulation.carriers.versions import stored_versions
from gossiprec.emulation.progress import NullProgress, Progress, Stopwatch
from gossiprec.emulation.run.execution import with_resources
from gossiprec.emulation.run.live_run import LiveRun
from gossiprec.emulation.run.run_options import RunOptions
from gossiprec.runs import Run, run_files
from gossiprec.runs.manifest import file_faults
from gossiprec.scenario import Scenario, load_scenario
from gossiprec.scenario.registries import scenario_code_version
from gossiprec.scenario.sections import CheckpointOptions

T = TypeVar("T")
Change: TypeAlias = Callable[[Scenario], Scenario]


def derive(run: Run, change: Change | None, source: Callable[[Scenario], T], *, any_code: bool = False) -> T:
    """Return the same run with a change, made by a source.

    Parameters
    ----------
    run : Run
        A complete run.
    change : callable or None
        Returns the changed scenario, given that of the run; None changes nothing.
    source : callable
        Returns the result, given the changed scenario.
    any_code : bool
        Whether other code may have made the run. The caller must then compare all results with those of the run.

    Raises
    ------
    LogError
        As in :func:`repeatable_scenario`.
    """
    scenario = repeatable_scenario(run, any_code=any_code)
    return source(change(scenario) if change else scenario)


def repeatable_scenario(run: Run, *, any_code: bool = False) -> Scenario:
    """Return the scenario of a run that this code would repeat with the same bytes.

    Raises
    ------
    LogError
        If the run is not complete, its files or data have changed, a plug-in is missing, it holds results of later
        observers, or, without `any_code`, other code has made it.
    """
    if run.manifest.get("observes"):
        raise LogError(
            f"{run.path}: found results of observers of another run; expected that run; name {run.path.parent.parent}"
        )
    if run.status != "complete":
        raise LogError(
            f"{run.path}: found a run with status {run.status}; expected a complete run; finish it first: "
            f"gossiprec resume {quote(str(run.path))}"
        )
    if faults := file_faults(run.path, run.manifest):
        raise LogError(f"{faults[0]}; expected the files of the run; restore it from a copy")
    scenario, again = own_scenario(run), f"run it again: gossiprec rerun {quote(str(run.path))}"
    code, present = run.code_version, scenario_code_version(scenario)
    if code != present and not any_code:
        raise LogError(
            f"{run.path}: found a run of other code ({code}); expected this code ({present}), or the results would "
            f"differ by more than the change; {again}"
        )
    if changed := changed_since(scenario, run.manifest):
        raise LogError(f"{run.path}: its data differ from now: {changed}; restore them, or {again}")
    return scenario


def own_scenario(run: Run) -> Scenario:
    """Return the scenario of a run, with the changes that were made from Python.

    Raises
    ------
    LogError
        If the run uses a plug-in that is missing.
    """
    check_plugins_installed(run.manifest["plugins"], f"the run {run.path} uses", LogError)
    scenario = load_scenario(run.path / run_files.SCENARIO)
    return scenario.with_(changes=(*scenario.changes, *run.manifest.get("changes", [])))


def without_observers(scenario: Scenario) -> Scenario:
    """Return a scenario without observers, which change nothing, and on one process."""
    return with_resources(scenario, shards=1).with_(observers=())


def from_versions(
    run: Run, folder: Path, options: RunOptions, *, stored: bool | None
) -> Callable[[Scenario], LiveRun]:
    """Return the source of a run in a new folder that reads stored versions of a run, or trains if they do not suffice.

    `stored` is as in :func:`gossiprec.observe`.
    """

    def start(scenario: Scenario) -> LiveRun:
        versions = stored_versions(run, scenario, stored=stored)
        return LiveRun.begin(_without_checkpoints(scenario), folder, options, carrier=versions)

    return start


def from_contacts(progress: Progress | None) -> Callable[[Scenario], tuple[RunComponents, Schedule]]:
    """Return the source of the parts and the schedule of a run, in which nothing is trained."""

    def schedule(scenario: Scenario) -> tuple[RunComponents, Schedule]:
        return build_and_schedule(scenario, load_data(scenario), progress or NullProgress(), Stopwatch())

    return schedule


@contextmanager
def temporary_runs(progress: Progress | None) -> Iterator[Callable[[Scenario], LiveRun]]:
    """Yield a source of runs from scratch, which are closed and deleted after the body."""
    options, numbers = RunOptions(progress or NullProgress()), itertools.count()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gossiprec-")))

        def start(scenario: Scenario) -> LiveRun:
            path = folder / str(next(numbers))
            return stack.enter_context(LiveRun.begin(_without_checkpoints(scenario), path, options))

        yield start


def _without_checkpoints(scenario: Scenario) -> Scenario:
    return scenario.with_(checkpoint=CheckpointOptions(minutes=None))
