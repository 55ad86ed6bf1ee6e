"""The options of running a scenario and of resuming a run, as they are passed from function to function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gossiprec.data.split import Split
from gossiprec.emulation.progress import NullProgress, Progress
from gossiprec.emulation.run.tracker_dispatch import Chosen
from gossiprec.emulation.shards.shard_group import Gather
from gossiprec.scenario import Scenario


@dataclass(frozen=True)
class RunOptions:
    """The options of a run that change no result.

    Attributes
    ----------
    say : Progress
        The receiver of messages about the run.
    trackers : mapping of str to callable
        The trackers that show curves during the run.
    gracefully : bool
        Whether the run ends at its next report after Ctrl-C or SIGTERM.
    load : callable, optional
        Loads the data in place of :func:`~gossiprec.emulation.assembly.data_loading.load_data`.
    gather : callable, optional
        Connects the shards of a divided run; None means Ray.
    kept_kernels : bool
        Whether a short run may use compiled kernels of earlier runs.
    """

    say: Progress = field(default_factory=NullProgress)
    trackers: Chosen = field(default_factory=dict)
    gracefully: bool = False
    load: Callable[[Scenario], Split] | None = None
    gather: Gather | None = None
    kept_kernels: bool = False


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
