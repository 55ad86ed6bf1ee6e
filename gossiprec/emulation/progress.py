"""What a run says while it works."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class Status:
    """Where a run stands at a report tick.

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
        The figures of most interest, by name.
    figures : dict of str to float
        All that the report found, by name, as trackers are told.
    """

    time: float
    round: int
    updates: int
    total_updates: int
    seconds: float
    headline: dict[str, float]
    figures: dict[str, float] = field(default_factory=dict)


class Progress(Protocol):
    """Receives what a run says."""

    def phase(self, text: str) -> None:
        """A part of the work begins."""

    def tick(self, status: Status) -> None:
        """Some of the work is done."""

    def note(self, text: str) -> None:
        """Something went wrong that does not end the run."""


class NullProgress:
    """Says nothing."""

    def phase(self, text: str) -> None:
        """Say nothing."""

    def tick(self, status: Status) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""


class ClockReadings(NamedTuple):
    """What two clocks show at a moment, in seconds: of the wall, and of all processors that this process has used."""

    wall: float
    processor: float


def read_clocks() -> ClockReadings:
    """Return what they show now."""
    return ClockReadings(time.perf_counter(), time.process_time())


class Stopwatch:
    """Adds up wall time by part: ``with watch("load"): ...``."""

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
