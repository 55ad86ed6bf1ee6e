"""Units of times and rates in files, and their link with virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gossiprec.base.errors import ScenarioError

TimeUnit = Literal["wakes", "ms", "s", "min", "h", "day"]
RateUnit = Literal["B/wake", "B/s", "kB/s", "MB/s", "bit/s", "kbit/s", "Mbit/s"]

SECONDS: Mapping[str, float] = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0}
"""Seconds in each unit of time that is not virtual."""
BYTES_PER_SECOND: Mapping[str, float] = {
    "B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "bit/s": 1 / 8, "kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8,
}  # fmt: skip
"""Bytes per second in each unit of rate that is not virtual; prefixes are powers of ten."""


def needs_seconds(unit: object) -> bool:
    """Return whether a unit is one of seconds, which `seconds_per_wake` links with virtual time."""
    return unit in SECONDS or unit in BYTES_PER_SECOND


def units_per_wake(unit: str, seconds_per_wake: float | None, key: str) -> float:
    """Return the number of units of time in one unit of virtual time; times of a file are divided by it.

    Parameters
    ----------
    unit : TimeUnit
    seconds_per_wake : float or None
        Seconds of one unit of virtual time; None if the scenario does not state it.
    key : str
        Key of the unit in the scenario, for messages.

    Raises
    ------
    ScenarioError
        If the unit is one of seconds and `seconds_per_wake` is None.
    """
    return 1.0 if unit == "wakes" else _required(seconds_per_wake, unit, key) / SECONDS[unit]


def bytes_per_wake(unit: str, seconds_per_wake: float | None, key: str) -> float:
    """Return the bytes per unit of virtual time in one unit of rate; see :func:`units_per_wake`."""
    return 1.0 if unit == "B/wake" else BYTES_PER_SECOND[unit] * _required(seconds_per_wake, unit, key)


def _required(seconds_per_wake: float | None, unit: str, key: str) -> float:
    if seconds_per_wake is None:
        raise ScenarioError(f"{key}: found unit {unit}, but {NO_SECONDS}")
    return seconds_per_wake


NO_SECONDS = (
    "the scenario has no seconds_per_wake; expected the seconds of one mean wake period; write for example "
    "seconds_per_wake: 600 at the top of the scenario"
)
