"""What a run needs to know of a tracker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from gossiprec.options import NoOptions, Options


class Tracker(ABC):
    """Is handed what each report of one run found, and shows it elsewhere; nothing of the run depends on it.

    What it raises ends no run: when it begins the message is told and the run does not start, later it is noted
    and the run goes on without it.

    Attributes
    ----------
    modules : tuple of str
        That must be installed, by the extra of gossiprec that is called as the tracker is.

    Parameters
    ----------
    run : Path
        The run directory, which is there.
    scenario : mapping
        Resolved, plain data.
    name : str
        What the run is called: as its directory, or in a study by what varies (``fanout=3, seed 1``).
    resumed : bool
        Whether an earlier process told of the rounds before, and perhaps of later ones that are now done again.
    """

    Options: ClassVar[type[Options]] = NoOptions
    modules: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def __init__(self, run: Path, scenario: Mapping[str, Any], *, name: str, resumed: bool) -> None: ...

    @classmethod  # noqa: B027 (most have nothing to do)
    def prepare(cls) -> None:
        """Do what several runs that begin at the same time must not all do: a study calls it once, before its first."""

    @abstractmethod
    def report(self, figures: Mapping[str, float], *, round: int, time: float) -> None:
        """Show what a report found.

        Parameters
        ----------
        figures : mapping of str to float
            By name: ``metrics/hr@20``, ``aac/single standardized 0.99 50``; finite.
        round : int
        time : float
            Virtual time.
        """

    @abstractmethod
    def end(self, status: str) -> None:
        """Close what is open; the run is ``complete``, ``interrupted`` or ``failed``."""
