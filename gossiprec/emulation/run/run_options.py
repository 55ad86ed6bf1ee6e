"""Options of a run that change no result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from gossiprec.data.split import Split
from gossiprec.emulation.progress import NullProgress, Progress
from gossiprec.emulation.run.run_part import RUN_PARTS
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.carriers.shards.group import MakeShardGroup


@dataclass(frozen=True)
class RunOptions:
    """The options of a run that change no result.

    Attributes
    ----------
    progress : Progress
        The receiver of messages about the run.
    track : tuple of str
        The trackers that show curves during the run.
    tracker_run_name : str, optional
        The run's name in trackers; the name of its directory by default.
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
    track: tuple[str, ...] = ()
    tracker_run_name: str | None = None
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
        End the run at its next report after Ctrl-C or SIGTERM, with a checkpoint; another signal ends it at once.
    load_data : callable
        Loads the data in place of :func:`gossiprec.emulation.assembly.data_loading.load_data`.
    make_shard_group : callable
        Connects the shards of a divided run; on Ray by default.
    """

    progress: Progress | None
    track: Iterable[str]
    tracker_run_name: str | None
    graceful_stop: bool
    load_data: Callable[[Scenario], Split] | None
    make_shard_group: MakeShardGroup | None


class SimulateKeywords(RunKeywords, total=False):
    """The keywords of :func:`gossiprec.simulate` that change no result.

    Attributes
    ----------
    use_cached_kernels : bool
        As `kept_kernels` of :func:`gossiprec.emulation.prepare`.
    """

    use_cached_kernels: bool


def make_run_options(
    *, progress: Progress | None = None, track: Iterable[str] = (), **options: Any
) -> RunOptions:
    """Return the options that keywords stand for (:class:`RunKeywords`).

    Raises
    ------
    ScenarioError, ResourceError
        If there is no such tracker, or a package that it needs is not installed.
    """
    found = RunOptions(progress or NullProgress(), tuple(dict.fromkeys(track)), **options)
    for _, part in RUN_PARTS.members():
        part.check_options(found)
    return found
