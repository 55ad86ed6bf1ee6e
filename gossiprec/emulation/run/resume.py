"""Resuming a run that ended early, with byte-identical results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from gossiprec.data.split import Split
from gossiprec.emulation.progress import NullProgress, Progress
from gossiprec.emulation.run.attempt import continue_run, run_with_recovery
from gossiprec.emulation.run.run_options import ResumeOptions, RunOptions
from gossiprec.emulation.run.tracker_dispatch import tracker_factories
from gossiprec.emulation.shards.shard_group import Gather
from gossiprec.runs import Run
from gossiprec.scenario import Scenario


def resume(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    force: bool = False,
    from_start: bool = False,
    progress: Progress | None = None,
    track: Iterable[str] = (),
    tracked_as: str | None = None,
    gracefully: bool = False,
    load: Callable[[Scenario], Split] | None = None,
    shards: int | None = None,
    gather: Gather | None = None,
) -> Run:
    """Resume a run that was interrupted, failed or was killed, from its latest checkpoint.

    Parameters
    ----------
    path : path
        The run directory.
    threads : int, optional
        In place of the scenario's ``executor.threads``; results do not depend on it.
    force : bool
        Use a checkpoint of another version of the code; the results may then match neither version.
    from_start : bool
        Run the scenario again in this directory if no checkpoint can be read.
    progress : Progress, optional
        Receives progress messages.
    track : iterable of str
        As in :func:`gossiprec.simulate`.
    tracked_as : str, optional
        As in :func:`gossiprec.simulate`.
    gracefully : bool
        As in :func:`gossiprec.simulate`.
    load : callable, optional
        As in :func:`gossiprec.simulate`.
    shards : int, optional
        Number of shards on Ray, in place of the scenario's; 1 does not divide the run. Results do not depend on it.
    gather : callable, optional
        As in :func:`gossiprec.simulate`.

    Returns
    -------
    Run
        A run that is complete already is returned as it is.

    Raises
    ------
    LogError
        If there is no usable checkpoint, it belongs to another version of the code or a plug-in, or to another
        scenario, a plug-in is missing, or the run is being written by a living process.
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    options = RunOptions(
        say=progress or NullProgress(),
        trackers=tracker_factories(track, tracked_as),
        gracefully=gracefully,
        load=load,
        gather=gather,
    )
    resuming = ResumeOptions(threads=threads, shards=shards, force=force, from_start=from_start)
    return run_with_recovery(lambda: continue_run(path, options, resuming), path, options, resuming)
