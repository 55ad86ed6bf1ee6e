"""Processes that tests begin."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def forks():
    """Return the processes that are forks of this one, also those that have ended: other tests may have left others."""
    own, found = Path("/proc/self/cmdline").read_bytes(), set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may be gone by now
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and (process / "cmdline").read_bytes() in (own, b""):
                found.add(int(process.name))
    return found
