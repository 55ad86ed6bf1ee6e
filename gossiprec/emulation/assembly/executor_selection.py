"""How many threads a run takes."""

from __future__ import annotations

from gossiprec.machine import usable_cores
from gossiprec.scenario import Scenario


def thread_count(scenario: Scenario) -> int:
    """Return how many threads compute."""
    asked, shards = scenario.executor.threads, scenario.executor.shards
    return max(1, usable_cores() // shards) if asked == "auto" else asked
