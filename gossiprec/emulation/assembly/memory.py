"""What a run needs, and whether the machine has it."""

from __future__ import annotations

import resource
import sys

from gossiprec.errors import ResourceError
from gossiprec.machine import available_bytes

MIB = 2**20
WAKE_BYTES = 50
"""What a wake takes in the events known ahead, at the least; as much again for each message."""


def peak_rss_mib() -> float:
    """Return the largest resident size of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MIB if sys.platform == "darwin" else peak / 1024


def check_fits(needed: dict[str, int]) -> None:
    """Refuse a run that the memory cannot hold.

    Raises
    ------
    ResourceError
        Naming the parts, what there is, and what to lower.
    """
    total, available = sum(needed.values()), available_bytes()
    if total > available:
        parts = ", ".join(f"{name} {size / MIB:,.0f} MiB" for name, size in needed.items())
        raise ResourceError(
            f"the run needs {total / MIB:,.0f} MiB ({parts}), but {available / MIB:,.0f} MiB are available; "
            "lower dataset.limit_users or dataset.users, model.dim, the number of observers or their momenta, "
            "or observers.reference_items, or set executor.storage to float16"
        )


def check_events_fit(n_wakes: int, messages: int) -> None:
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
    needed, available = n_wakes * (1 + messages) * WAKE_BYTES, available_bytes()
    if needed > available:
        raise ResourceError(
            f"the events of {n_wakes:,} wakes need {needed / MIB:,.0f} MiB, but {available / MIB:,.0f} MiB are "
            "available; lower protocol.wakes or protocol.rounds, or dataset.limit_users"
        )
