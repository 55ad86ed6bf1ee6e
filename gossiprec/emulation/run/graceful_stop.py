"""Stopping a run on request at the next report, at which its state can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gossiprec.emulation.progress import Progress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""The signals of Ctrl-C, and of schedulers and containers that reclaim their machine."""


class StopRequest:
    """Whether a stop was requested."""

    def __init__(self) -> None:
        self.wanted = False


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C until the body ends, in the main thread and if it is not ignored."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stop_on_signals(say: Progress) -> Iterator[StopRequest]:
    """Treat a first signal as a request to stop at the next report, and a second one as Ctrl-C, until the body ends.

    Outside the main thread, or if a signal is ignored, nothing changes.
    """
    stop = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.wanted:
            raise KeyboardInterrupt
        stop.wanted = True
        say.note(
            "stopping at the next report and writing a checkpoint; press Ctrl-C again to stop "
            "immediately without one"
        )

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        heard = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        before = {each: signal.signal(each, ask) for each in heard}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
