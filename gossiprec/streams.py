"""The standard streams of the process: closed by the caller, or without a reader; and the status after an interrupt."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

INTERRUPTED = 130
"""Exit status after Ctrl-C or SIGTERM: 128 + SIGINT, as shells report it."""


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
    """Return whether an error means that the reader of standard output has gone; click and rich exit for it.

    click 8.5 exits without a context; it exits for nothing else when it does not run as a program of its own.
    """
    if not isinstance(error, SystemExit):
        return isinstance(error, BrokenPipeError)
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    module = "" if at is None else str(at.tb_frame.f_globals.get("__name__"))
    return isinstance(error.__context__, BrokenPipeError) or module.startswith("click.")


def silence(descriptor: int) -> None:
    """Connect a descriptor to the null device."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def outlive_reader(stream: TextIO) -> TextIO:
    """Return a text stream to the same descriptor; a run must not end because nothing reads its progress."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = _UnreadPipe(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True
    )
