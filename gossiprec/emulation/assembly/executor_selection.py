"""The resources of the machine that a run uses: threads and Ray."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from gossiprec.base.errors import ResourceError
from gossiprec.base.machine import usable_cores
from gossiprec.scenario import Scenario


def thread_count(scenario: Scenario) -> int:
    """Return the number of threads that compute."""
    asked, shards = scenario.executor.threads, scenario.executor.shards
    return max(1, usable_cores() // shards) if asked == "auto" else asked


def require_ray(instead: str) -> Any:
    """Return the library Ray.

    Parameters
    ----------
    instead : str
        The step that makes Ray unnecessary.

    Raises
    ------
    ResourceError
        If it is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise ResourceError(
            f"Ray is not installed; install it with: pip install 'gossiprec[ray]', or {instead}"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # otherwise Ray hides the GPUs from its workers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    return ray
