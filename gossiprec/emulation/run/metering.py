"""What attacks cost: every call of one is timed, in the thread that makes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, TypeVar

from gossiprec.arrays import F32, I64
from gossiprec.attacks import Attack
from gossiprec.compute.plan.planner import Sightings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.waves import Watcher

T = TypeVar("T")


class Metered(Watcher):
    """An attack with a meter: two looks at the clock a call.

    Parameters
    ----------
    attack : Attack

    Notes
    -----
    Seeing is done by several threads at once, and their times are added up; a ranking counts as long as it lasts.
    """

    def __init__(self, attack: Attack) -> None:
        self.attack = attack
        self._spent: dict[int, float] = {}  # by thread, so that no two threads write one entry

    def call(self, job: Callable[..., T], *args: Any) -> T:
        """Call `job` and count its time."""
        begin = time.perf_counter()
        try:
            return job(*args)
        finally:
            thread = get_ident()
            self._spent[thread] = self._spent.get(thread, 0.0) + time.perf_counter() - begin

    @property
    def seconds(self) -> float:
        """Time spent so far."""
        return sum(self._spent.values())

    def observe(self, rows: F32, program: Program, tasks: I64) -> None:
        """Let the attack see what is about to be merged."""
        self.call(self.attack.observe, rows, program, tasks)

    def sight(self, rows: F32, sightings: Sightings, first: int, last: int) -> None:
        """Let the attack see what its pools receive."""
        self.call(self.attack.sight, rows, sightings, first, last)


def seconds_by_label(meters: Sequence[Metered]) -> dict[str, float]:
    """Return the time spent by the attacks of each label."""
    seconds: dict[str, float] = {}
    for meter in meters:
        label = meter.attack.label
        seconds[label] = seconds.get(label, 0.0) + meter.seconds
    return seconds
