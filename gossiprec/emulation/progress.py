"""Progress reports, and the clocks and stopwatch of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class Status:
    """The progress of a run at a report tick.

    Attributes
    ----------
    time : float
        Virtual time.
    round : int
    updates, total_updates : int
        Local epochs done, and in the whole run.
    seconds : float
        Wall time since the first update.
    headline : dict of str to float
        The main metrics, by name.
    figures : dict of str to float
        All figures of the report, by name, as trackers receive them.
    """

    time: float
    round: int
    updates: int
    total_updates: int
    seconds: float
    headline: dict[str, float]
    figures: dict[str, float] = field(default_factory=dict)


class Progress(Protocol):
    """The receiver of a run's progress messages."""

    def phase(self, text: str) -> None:
        """Begin a part of the work."""

    def tick(self, status: Status) -> None:
        """Report that some of the work is done."""

    def note(self, text: str) -> None:
        """Report a problem that does not end the run."""


class NullProgress:
    """A progress that prints nothing."""

    def phase(self, text: str) -> None:
        """Ignore the message."""

    def tick(self, status: Status) -> None:
        """Ignore the message."""

    def note(self, text: str) -> None:
        """Ignore the message."""


class ClockReadings(NamedTuple):
    """The readings of two clocks, in seconds: wall time, and the processor time of this process."""

    wall: float
    processor: float


def read_clocks() -> ClockReadings:
    """Return the present readings of both clocks."""
    return ClockReadings(time.perf_counter(), time.process_time())


class Stopwatch:
    """A stopwatch that adds up wall time by part: ``with watch("load"): ...``."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Count the time of a block towards `part`."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - begin
