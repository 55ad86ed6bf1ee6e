"""Carrying out a run, and ending it in its directory, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from gossiprec.emulation.run.graceful_stop import StopRequest, stop_on_signals
from gossiprec.emulation.run.progress import Progress
from gossiprec.emulation.run.tracker_dispatch import Chosen, run_trackers
from gossiprec.eventlog import Run, RunDirectory, open_run

if TYPE_CHECKING:
    from gossiprec.emulation.run.active_run import ActiveRun


def execute_run(
    make: Callable[[Progress], ActiveRun],
    directory: RunDirectory,
    say: Progress,
    *,
    gracefully: bool,
    trackers: Chosen,
    after: int = 0,
) -> Run:
    """Carry out a run, or the rest of it after so many reports, and end it in its directory, however it ends.

    Parameters
    ----------
    make : callable
        Returns the run, given what it tells its progress.
    directory : RunDirectory
    say : Progress
    gracefully : bool
        Whether the run ends at its next report after a signal; else signals do as ever.
    trackers : Chosen
        Are told what the run finds, too.
    after : int

    Returns
    -------
    Run
        Complete, or interrupted by Ctrl-C.
    """
    try:
        with (
            run_trackers(trackers, say, directory.path, resumed=after > 0) as telling,
            stop_on_signals(telling) if gracefully else nullcontext(StopRequest()) as stop,
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
