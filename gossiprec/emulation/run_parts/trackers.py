"""Trackers show the figures of a run's reports elsewhere; no result depends on them."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gossiprec.base.errors import ResourceError
from gossiprec.emulation.run.run_options import RunOptions
from gossiprec.emulation.run.run_part import RUN_PARTS, Report, RunContext, RunPart
from gossiprec.runs import open_run
from gossiprec.trackers import TRACKERS, Tracker


def report_figures(
    metrics: Iterable[tuple[str, float]], attacks: Iterable[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the finite figures of a report by name, from its rows of ``metrics.csv`` and ``attacks.csv``."""
    figures = {f"metrics/{name}": value for name, value in metrics}
    for row in attacks:
        attack = f"{row['observer']} {row['relevance']} {row['momentum']:g} {row['community_size']}"
        figures |= {f"{measure}/{attack}": row[measure] for measure in ("aac", "upper_bound", "random_bound")}
    return {name: float(value) for name, value in figures.items() if math.isfinite(value)}


def check_trackers(names: Iterable[str]) -> None:
    """Refuse trackers that do not exist, or need a package that is not installed.

    Raises
    ------
    ScenarioError
        If there is no such tracker.
    ResourceError
        If a package is not installed.
    """
    for name in names:
        missing = [module for module in TRACKERS[name].modules if importlib.util.find_spec(module) is None]
        if missing:
            raise ResourceError(
                f"tracker {name} requires {' and '.join(missing)}, which is not installed; install it with: "
                f"pip install 'gossiprec[{name}]'"
            )


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


@contextmanager
def _beginning(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ResourceError(
            f"tracker {name} cannot start ({_reason(error)}); fix the cause, or remove the tracker"
        ) from error


@RUN_PARTS.register("trackers")
class Trackers(RunPart):
    """The trackers of a run; one that fails is noted and left out from then on."""

    def __init__(self, run: RunContext) -> None:
        super().__init__(run)
        self._first = True
        self._begun: dict[str, Tracker] = {}

    @classmethod
    def check_options(cls, options: RunOptions) -> None:
        """Refuse trackers that cannot begin (:func:`check_trackers`)."""
        check_trackers(options.track)

    @classmethod
    def make(cls, run: RunContext) -> Trackers | None:
        """Return the trackers, if there are any."""
        return cls(run) if run.options.track else None

    def before_events(self, after: int, *, time: float, round: int) -> None:
        """Begin the trackers before the first event.

        Raises
        ------
        ResourceError
            If one cannot begin.
        """
        options, path = self._run.options, self._run.directory.path
        for name in options.track if self._first else ():
            options.progress.phase(f"starting {name}")
            with _beginning(name):
                self._begun[name] = TRACKERS[name](
                    path,
                    open_run(path).scenario,
                    name=options.tracker_run_name or path.name,
                    resumed=after > 0,
                )
        self._first = False

    def after_report(self, report: Report) -> None:
        """Pass the figures of a report to the trackers."""
        figures = report_figures(report.metrics.items(), report.attacks)
        for name, tracker in [*self._begun.items()]:
            try:
                tracker.report(figures, round=report.round, time=report.time)
            except Exception as error:  # the run is worth more than any failing tracker
                del self._begun[name]
                self._note(f"tracker {name} failed ({_reason(error)}); continuing without it")

    def end(self, status: str, summary: Mapping[str, Any]) -> None:
        """End all trackers with the status of the run."""
        for name, tracker in self._begun.items():
            try:
                tracker.end(status)
            except Exception as error:
                self._note(f"tracker {name} could not be closed ({_reason(error)})")

    def _note(self, text: str) -> None:
        self._run.options.progress.note(text)


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
