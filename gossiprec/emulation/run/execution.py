"""Carrying out a run, and closing its directory however it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from gossiprec.emulation.progress import Progress
from gossiprec.emulation.run.graceful_stop import StopRequest, stop_on_signals
from gossiprec.emulation.run.run_options import RunOptions
from gossiprec.emulation.run.tracker_dispatch import run_trackers
from gossiprec.runs import Run, RunDirectory, open_run

if TYPE_CHECKING:
    from gossiprec.emulation.run.active_run import ActiveRun


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
            run_trackers(options.trackers, options.say, directory.path, resumed=after > 0) as telling,
            stop_on_signals(telling) if options.gracefully else nullcontext(StopRequest()) as stop,
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
