"""Passing a run's figures to trackers, without the run depending on them."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gossiprec.base.errors import ResourceError
from gossiprec.emulation.progress import Progress, Status
from gossiprec.runs import open_run
from gossiprec.trackers import TRACKERS, Tracker

Chosen = Mapping[str, Callable[..., Tracker]]
"""The function that begins each tracker, by name: ``begin(run directory, resumed=False)``."""


def report_figures(
    metrics: Iterable[tuple[str, float]], attacks: Iterable[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the finite figures of a report by name, from its rows of ``metrics.csv`` and ``attacks.csv``."""
    figures = {f"metrics/{name}": value for name, value in metrics}
    for row in attacks:
        attack = f"{row['observer']} {row['relevance']} {row['momentum']:g} {row['community_size']}"
        figures |= {f"{measure}/{attack}": row[measure] for measure in ("aac", "upper_bound", "random_bound")}
    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}


def tracker_factories(names: Iterable[str], called: str | None = None) -> Chosen:
    """Return the trackers of these names, each once; `called` names the run, or else its directory.

    Raises
    ------
    ScenarioError
        If there is no such tracker.
    ResourceError
        If a package that a tracker needs is not installed.
    """
    trackers = {name: TRACKERS[name] for name in names}
    for name, tracker in trackers.items():
        missing = [module for module in tracker.modules if importlib.util.find_spec(module) is None]
        if missing:
            raise ResourceError(
                f"tracker {name} requires {' and '.join(missing)}, which is not installed; install it with: "
                f"pip install 'gossiprec[{name}]'"
            )
    return {name: functools.partial(_begin, tracker, called) for name, tracker in trackers.items()}


def prepare_trackers(names: Iterable[str]) -> None:
    """Let trackers prepare before several runs begin at the same time.

    Raises
    ------
    ResourceError
        If one cannot.
    """
    for name in names:
        with _beginning(name):
            TRACKERS[name].prepare()


def _begin(tracker: type[Tracker], called: str | None, run: Path, *, resumed: bool) -> Tracker:
    return tracker(run, open_run(run).scenario, name=called or run.name, resumed=resumed)


@contextmanager
def _beginning(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ResourceError(
            f"tracker {name} cannot start ({_reason(error)}); fix the cause, or remove the tracker"
        ) from error


@contextmanager
def run_trackers(
    trackers: Chosen, progress: Progress, run: Path, *, resumed: bool
) -> Iterator[TrackedProgress]:
    """Begin some trackers, and end them when the body ends.

    Parameters
    ----------
    trackers : Chosen
    progress : Progress
        Also receives every message.
    run : Path
        The run directory.
    resumed : bool
        Whether the run is resumed.

    Raises
    ------
    ResourceError
        If one cannot begin.
    """
    begun: dict[str, Tracker] = {}
    tracked = TrackedProgress(begun, progress)
    try:
        for name, begin in trackers.items():
            progress.phase(f"starting {name}")
            with _beginning(name):
                begun[name] = begin(run, resumed=resumed)
        yield tracked
    finally:
        tracked.end()


class TrackedProgress:
    """A progress that passes figures to trackers; a tracker that fails is noted and left out from then on."""

    status = "failed"

    def __init__(self, trackers: dict[str, Tracker], progress: Progress) -> None:
        self._trackers, self._progress = trackers, progress

    def phase(self, text: str) -> None:
        """Pass the phase on."""
        self._progress.phase(text)

    def note(self, text: str) -> None:
        """Pass the note on."""
        self._progress.note(text)

    def tick(self, status: Status) -> None:
        """Pass the status on, and report its figures to the trackers."""
        for name, tracker in [*self._trackers.items()]:
            try:
                tracker.report(status.figures, round=status.round, time=status.time)
            except Exception as error:  # the run is worth more than any failing tracker
                del self._trackers[name]
                self.note(f"tracker {name} failed ({_reason(error)}); continuing without it")
        self._progress.tick(status)

    def end(self) -> None:
        """End all trackers with the status of the run."""
        for name, tracker in self._trackers.items():
            try:
                tracker.end(self.status)
            except Exception as error:
                self.note(f"tracker {name} could not be closed ({_reason(error)})")


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
