"""Trackers: programs that show the curves of a run in progress, one file each; and their base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from gossiprec.base.options import NoOptions, Options
from gossiprec.base.registry import Registry


class Tracker(ABC):
    """A tracker receives the figures of each report of a run and shows them elsewhere; no result depends on it.

    An error at its creation is reported and the run does not start. A later error is noted, and the run continues
    without the tracker.

    Attributes
    ----------
    modules : tuple of str
        Modules that must be installed, by the extra of gossiprec with the tracker's name.

    Parameters
    ----------
    run : Path
        The existing run directory.
    scenario : mapping
        The resolved scenario, as plain data.
    name : str
        Name of the run: its directory's, or in a study the varying values (``fanout=3, seed 1``).
    resumed : bool
        Whether an earlier process reported the previous rounds, and perhaps later ones that are now repeated.
    """

    Options: ClassVar[type[Options]] = NoOptions
    modules: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def __init__(self, run: Path, scenario: Mapping[str, Any], *, name: str, resumed: bool) -> None: ...

    @classmethod  # noqa: B027 (most have nothing to do)
    def prepare(cls) -> None:
        """Do the preparation that must not happen in parallel: a study calls this once, before its first run."""

    @abstractmethod
    def report(self, figures: Mapping[str, float], *, round: int, time: float) -> None:
        """Show the figures of a report.

        Parameters
        ----------
        figures : mapping of str to float
            Finite values by name: ``metrics/hr@20``, ``aac/single standardized 0.99 50``.
        round : int
        time : float
            Virtual time.
        """

    @abstractmethod
    def end(self, status: str) -> None:
        """Close open files and connections; the run is ``complete``, ``interrupted`` or ``failed``."""


TRACKERS: Registry[type[Tracker]] = Registry("tracker", __name__, group="trackers")
