"""What a run needs, and whether the machine has it."""

from __future__ import annotations

import resource
import sys

from gossiprec.emulation.assembly.libraries import MIB, PARTS
from gossiprec.errors import ResourceError
from gossiprec.machine import available_bytes, resident_bytes

OF_A_WAKE, OF_A_MESSAGE = 40, 60
"""Bytes of the events known ahead, with what the log, the planner and observers look up by message."""


def peak_rss_mib() -> float:
    """Return the largest resident size of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MIB if sys.platform == "darwin" else peak / 1024


def check_memory(needed: dict[str, int]) -> None:
    """Refuse a run that the memory cannot hold.

    Raises
    ------
    ResourceError
        Naming the parts, what there is, and what to lower.
    """
    total, available = sum(needed.values()), available_for(needed)
    if total > available:
        parts = ", ".join(f"{name} {size / MIB:,.0f} MiB" for name, size in needed.items())
        raise ResourceError(
            f"the run needs {total / MIB:,.0f} MiB ({parts}), but only {available / MIB:,.0f} MiB are "
            "available; reduce dataset.limit_users or dataset.users, model.dim, protocol.wakes or "
            "protocol.rounds, the number of observers or of their momenta, or observers.reference_items, or "
            "set executor.storage to float16"
        )


def available_for(needed: dict[str, int]) -> int:
    """Return the bytes that a run can have: the free ones, and what this process has of Python and libraries.

    Parameters
    ----------
    needed : dict of str to int
        Bytes by part. What the process has counts as far as these parts name it.
    """
    of_process = sum(size for part, size in needed.items() if part in PARTS)
    return available_bytes() + min(resident_bytes(), of_process)


def event_bytes(n_wakes: int, n_messages: int) -> int:
    """Return what events that are known ahead take."""
    return OF_A_WAKE * n_wakes + OF_A_MESSAGE * n_messages


def check_event_memory(n_wakes: int, messages: int) -> None:
    """Refuse a run whose events, which are known ahead, the memory cannot hold.

    Parameters
    ----------
    n_wakes : int
        Wakes of all nodes together.
    messages : int
        Messages that a wake sends, at the least.

    Raises
    ------
    ResourceError
    """
    needed, available = event_bytes(n_wakes, n_wakes * messages), available_bytes()
    if needed > available:
        raise ResourceError(
            f"the events of {n_wakes:,} wakes need {needed / MIB:,.0f} MiB, but {available / MIB:,.0f} MiB are "
            "available; lower protocol.wakes or protocol.rounds, or dataset.limit_users"
        )
