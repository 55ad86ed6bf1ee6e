"""One writer in a folder at a time; the lock goes when the last process that holds it has ended, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gossiprec.errors import ResourceError
from gossiprec.eventlog.atomic_write import writing

LOCK = ".lock"


@contextmanager
def only_writer(folder: Path, *, what: str, patience_s: float) -> Iterator[int]:
    """Keep others out of a folder while the body runs; gives the file descriptor that holds the lock.

    Parameters
    ----------
    folder : Path
    what : str
        What is at work in it, for the message.
    patience_s : float
        How long to wait for another writer: one that was killed keeps the lock until its children are gone.

    Raises
    ------
    ResourceError
        If another one is at work here.
    """
    with writing(folder):
        descriptor = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        deadline = time.monotonic() + patience_s
        while not _locks(descriptor):
            if time.monotonic() > deadline:
                raise ResourceError(
                    f"another {what} is at work in {folder}; wait for it, end it, or choose another --out"
                )
            time.sleep(0.1)
        yield descriptor
    finally:
        os.close(descriptor)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
