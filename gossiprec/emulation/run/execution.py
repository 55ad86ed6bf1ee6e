"""Carrying out a run: its options, and the end of its directory however it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from gossiprec.data.split import Split
from gossiprec.emulation.progress import NullProgress, Progress
from gossiprec.emulation.run.graceful_stop import StopRequest, stop_on_signals
from gossiprec.emulation.run.tracker_dispatch import Chosen, run_trackers, tracker_factories
from gossiprec.emulation.shards.shard_group import MakeShardGroup
from gossiprec.runs import Run, RunDirectory, open_run
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.run.active_run import ActiveRun


@dataclass(frozen=True)
class RunOptions:
    """The options of a run that change no result.

    Attributes
    ----------
    progress : Progress
        The receiver of messages about the run.
    trackers : mapping of str to callable
        The trackers that show curves during the run.
    graceful_stop : bool
        Whether the run ends at its next report after Ctrl-C or SIGTERM.
    load_data : callable, optional
        Loads the data in place of :func:`~gossiprec.emulation.assembly.data_loading.load_data`.
    make_shard_group : callable, optional
        Connects the shards of a divided run; None means Ray.
    use_cached_kernels : bool
        Whether a short run may use compiled kernels of earlier runs.
    """

    progress: Progress = field(default_factory=NullProgress)
    trackers: Chosen = field(default_factory=dict)
    graceful_stop: bool = False
    load_data: Callable[[Scenario], Split] | None = None
    make_shard_group: MakeShardGroup | None = None
    use_cached_kernels: bool = False


class RunKeywords(TypedDict, total=False):
    """The keywords of :func:`gossiprec.simulate` and :func:`gossiprec.resume` that change no result.

    Attributes
    ----------
    progress : Progress
        Receives progress messages.
    track : iterable of str
        Trackers that show curves during the run, such as ``tensorboard``.
    tracker_run_name : str
        The run's name in trackers; the name of its directory by default.
    graceful_stop : bool
        End the run at its next report after Ctrl-C or SIGTERM, with a checkpoint; a second signal ends it at once.
    load_data : callable
        Loads the data in place of :func:`gossiprec.emulation.assembly.data_loading.load_data`.
    make_shard_group : callable
        Connects the shards of a divided run; on Ray by default.
    tracked_as, gracefully, load, gather
        Former names of the last four, which work until version 0.2.
    """

    progress: Progress | None
    track: Iterable[str]
    tracker_run_name: str | None
    graceful_stop: bool
    load_data: Callable[[Scenario], Split] | None
    make_shard_group: MakeShardGroup | None
    tracked_as: str | None
    gracefully: bool
    load: Callable[[Scenario], Split] | None
    gather: MakeShardGroup | None


class SimulateKeywords(RunKeywords, total=False):
    """The keywords of :func:`gossiprec.simulate` that change no result.

    Attributes
    ----------
    use_cached_kernels : bool
        As `kept_kernels` of :func:`gossiprec.emulation.prepare`.
    kept_kernels : bool
        Its former name, which works until version 0.2.
    """

    use_cached_kernels: bool
    kept_kernels: bool


FORMER_KEYWORDS = {
    "tracked_as": "tracker_run_name",
    "gracefully": "graceful_stop",
    "load": "load_data",
    "gather": "make_shard_group",
    "kept_kernels": "use_cached_kernels",
}
"""The present name of each former keyword of ``simulate`` and ``resume``."""


def make_run_options(
    *,
    progress: Progress | None = None,
    track: Iterable[str] = (),
    tracker_run_name: str | None = None,
    **options: Any,
) -> RunOptions:
    """Return the options that keywords stand for (:class:`RunKeywords`).

    Raises
    ------
    ScenarioError, ResourceError
        If there is no such tracker, or a package that it needs is not installed.
    """
    trackers = tracker_factories(track, tracker_run_name)
    return RunOptions(progress or NullProgress(), trackers, **options)


@dataclass(frozen=True)
class ResumeOptions:
    """The options of resuming a run.

    Attributes
    ----------
    threads, shards : int, optional
        The numbers that replace the scenario's.
    force : bool
        Whether a checkpoint of another version of the code is used.
    from_start : bool
        Whether the scenario is run again if no checkpoint can be used.
    """

    threads: int | None = None
    shards: int | None = None
    force: bool = False
    from_start: bool = False


def execute_run(
    make: Callable[[Progress], ActiveRun],
    directory: RunDirectory,
    options: RunOptions,
    *,
    after: int = 0,
) -> Run:
    """Carry out a run, or the rest of it after `after` reports, and close its directory however it ends.

    Parameters
    ----------
    make : callable
        Returns the run, given its progress.
    directory : RunDirectory
    options : RunOptions
    after : int
        The number of reports before it.

    Returns
    -------
    Run
        Complete, or interrupted by Ctrl-C.
    """
    try:
        with (
            run_trackers(options.trackers, options.progress, directory.path, resumed=after > 0) as telling,
            stop_on_signals(telling) if options.graceful_stop else nullcontext(StopRequest()) as stop,
        ):
            run = make(telling)
            try:
                run.execute(stop, after)
                status = "complete"
            except KeyboardInterrupt:
                status = "interrupted"
            run.close(status)
            telling.status = status
    except BaseException:
        directory.finish("failed")
        raise
    return directory.ended or open_run(directory.path)
