"""Progress of a run: messages to the user, clocks, and requests to stop at the next report."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, Protocol


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
    """

    time: float
    round: int
    updates: int
    total_updates: int
    seconds: float
    headline: dict[str, float]


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
    """A stopwatch that adds up wall time by part: ``with stopwatch("load"): ...``."""

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


SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""The signals of Ctrl-C, and of schedulers and containers that reclaim their machine."""


class StopRequest:
    """Whether a stop was requested."""

    def __init__(self) -> None:
        self.wanted = False


@contextmanager
def handle_signals(numbers: Iterable[int], handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle some signals until the body ends, in the main thread and if they are not ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    handled = [n for n in numbers if is_main and signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def sigterm_as_interrupt() -> AbstractContextManager[None]:
    """Treat SIGTERM as Ctrl-C until the body ends, in the main thread and if it is not ignored."""
    return handle_signals([signal.SIGTERM], signal.default_int_handler)


@contextmanager
def stop_on_signals(progress: Progress, stop: StopRequest | None = None) -> Iterator[StopRequest]:
    """Treat the first signal as a request to stop at the next report, and the next one as Ctrl-C, until the body ends.

    Outside the main thread, or if a signal is ignored, nothing changes.
    """
    stop = stop or StopRequest()

    def request(number: int, frame: FrameType | None) -> None:
        if stop.wanted:
            raise KeyboardInterrupt
        stop.wanted = True
        progress.note(
            "stopping at the next report and writing a checkpoint; press Ctrl-C again to stop "
            "immediately without one"
        )

    with handle_signals(SIGNALS, request):
        yield stop
