"""The entry point of the command line: the answer to signals, before anything slow is imported."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from gossiprec.streams import INTERRUPTED, open_missing_streams, outlive_reader

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run() -> NoReturn:
    """Run the command line on the arguments of the process and exit: the console script."""
    interrupts = Interrupts()
    open_missing_streams()
    sys.stderr = outlive_reader(sys.stderr)
    from gossiprec.cli.main import exit_code

    try:
        interrupts.raise_from_now()
        code = exit_code(sys.argv[1:], may_restart=True)
    except BaseException:
        if not interrupts.heard:
            raise
        code = INTERRUPTED
    if interrupts.heard:  # library code may have swallowed the exception
        code = INTERRUPTED
    interrupts.exit_from_now(code)
    exec("")  # Python ends itself by SIGINT if its last `exec`, for example in a dataclass, was interrupted
    sys.exit(code)


class Interrupts:
    """The answer of the process to SIGINT and SIGTERM; a signal that is ignored stays ignored.

    A process begins by exiting at once, because nothing has been written and an exception in a half-done import
    would be printed as a traceback.

    Attributes
    ----------
    heard : bool
        Whether a signal was answered with :class:`KeyboardInterrupt`.
    """

    def __init__(self) -> None:
        self.heard = False
        self._signals = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self.exit_from_now(INTERRUPTED)

    def raise_from_now(self) -> None:
        """Answer signals with :class:`KeyboardInterrupt`: the command cleans up."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            self.heard = True
            raise KeyboardInterrupt

        for number in self._signals:
            signal.signal(number, interrupt)

    def exit_from_now(self, code: int) -> None:
        """Answer signals by exiting with `code` at once, without a traceback."""
        for number in self._signals:
            signal.signal(number, lambda _, frame: os._exit(code))
