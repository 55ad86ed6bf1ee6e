"""Which process writes a run or a study: noted where it works, so that readers can say what became of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")

UNKNOWN = "unknown"
"""How a run stands of which only another machine could tell whether its process is alive."""


def this_process() -> dict[str, Any]:
    """Return what this process is known by: name of the machine, its last start (None: not told), number."""
    return {"host": platform.node(), "boot": _boot(), "process": os.getpid()}


def what_became(writer: Mapping[str, Any] | None) -> str:
    """Return how a run stands that should be going on, but whose lock nobody holds: ``killed`` or :data:`UNKNOWN`.

    Parameters
    ----------
    writer : mapping or None
        What :func:`this_process` gave to the process that wrote it; None: it was not noted.

    Notes
    -----
    On the machine that wrote it, a lock that nobody holds means that the process has gone, since locks go with it. From
    another machine a lock may not be seen, as where the folder is shared by other means than NFS, or is a copy.
    """
    if not writer:
        return "killed"
    here = writer.get("host") == platform.node() or (_boot() is not None and writer.get("boot") == _boot())
    return "killed" if here else UNKNOWN


def in_words(status: str, writer: Mapping[str, Any] | None) -> str:
    """Return how a run stands, and which process wrote it where that is of interest."""
    if not writer or status not in ("running", "killed", UNKNOWN):
        return status
    process = f"process {writer.get('process')} on {writer.get('host')}"
    if status == UNKNOWN:
        return f"unknown whether still running: it is written by {process}, but this is {platform.node()}"
    return f"running ({process})" if status == "running" else f"killed ({process} has ended)"


def _boot() -> str | None:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return None
