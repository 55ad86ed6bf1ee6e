"""The entry point of the command line: signals and standard streams, before anything slow is imported."""

from __future__ import annotations

import io
import os
import signal
import sys

TYPE_CHECKING = False  # see gossiprec/__init__.py
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

INTERRUPTED = 130
"""Exit status after Ctrl-C or SIGTERM: 128 + SIGINT, as shells report it."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run() -> NoReturn:
    """Run the command line on the arguments of the process and exit: the console script."""
    interrupts = Interrupts()
    open_missing_streams()
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _outlives_its_reader(sys.stderr)
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
        self._signals = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        self.exit_from_now(INTERRUPTED)

    def raise_from_now(self) -> None:
        """Answer signals with :class:`KeyboardInterrupt`: the command cleans up."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            self.heard = True
            raise KeyboardInterrupt

        for each in self._signals:
            signal.signal(each, interrupt)

    def exit_from_now(self, code: int) -> None:
        """Answer signals by exiting with `code` at once, without a traceback."""
        for each in self._signals:
            signal.signal(each, lambda number, frame: os._exit(code))


def open_missing_streams() -> None:
    """Connect standard streams that the caller closed (``>&-``) to the null device.

    Otherwise the next file that is opened would get the descriptor of standard output, and texts for the user would
    be written into it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


class _UnreadPipe(io.FileIO):
    """A file that drops what is written after the reader of the pipe has gone."""

    def write(self, content: object) -> int:
        """Write bytes, or drop them if nothing reads them any more."""
        try:
            return int(super().write(content))  # type: ignore[arg-type]
        except BrokenPipeError:
            silence(self.fileno())
            return len(memoryview(content))  # type: ignore[arg-type]


def is_unread(error: BaseException) -> bool:
    """Return whether an error means that the reader of standard output has gone; click and rich exit for it."""
    cause = error.__context__ if isinstance(error, SystemExit) else error
    return isinstance(cause, BrokenPipeError)


def silence(descriptor: int) -> None:
    """Connect a descriptor to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def _outlives_its_reader(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """Return a text stream to the same descriptor; a run must not end because nothing reads its progress."""
    raw = _UnreadPipe(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True
    )
