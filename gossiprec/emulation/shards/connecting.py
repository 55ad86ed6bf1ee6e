"""Ray: whether it is installed, and whether a cluster answers."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gossiprec.errors import ResourceError

LOCAL = "local"
REACH_S = 60.0
"""How long to wait for an answer of a cluster."""
ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable for whether other machines may join; with 0 all its processes listen on the loopback interface."""
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


def require_ray(instead: str) -> Any:
    """Return Ray.

    Parameters
    ----------
    instead : str
        What else to do.

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
    # or Ray would hide the GPUs from its workers
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    return ray


def start_here(ray: Any, *, cpus: int, store_bytes: int) -> None:
    """Start Ray on this machine for the given number of processors; other machines cannot reach it.

    Raises
    ------
    ResourceError
        If it does not start, as on a machine that is busy with other work, or if other machines could reach it.
    """
    here = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": store_bytes}
    try:
        with _loopback_only():
            ray.init(address=LOCAL, **here, **QUIET)
    except Exception as error:  # Ray raises what it has at hand
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ResourceError(
            f"Ray does not start on this machine ({reason}); try again when the machine is less busy, or "
            "start Ray with `ray start --head` and connect to it"
        ) from error

    found = ray.util.get_node_ip_address()
    if found not in ("127.0.0.1", "::1"):
        ray.shutdown()
        raise ResourceError(
            f"Ray listens on {found}, where other machines can reach it and run code; expected 127.0.0.1; "
            f"set {ONE_MACHINE}=0 in the environment, or start Ray with `ray start --head` and connect to it"
        )


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Let Ray start with the loopback address: the variable for its processes, the constant for this one."""
    constants: Any = importlib.import_module("ray._private.ray_constants")
    variable, constant = os.environ.get(ONE_MACHINE), constants.ENABLE_RAY_CLUSTER
    os.environ[ONE_MACHINE], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = constant
        os.environ.pop(ONE_MACHINE)
        if variable is not None:
            os.environ[ONE_MACHINE] = variable


def join(ray: Any, address: str, *, instead: str) -> None:
    """Connect to a cluster.

    Raises
    ------
    ResourceError
        If it does not answer.
    """
    reason = unreachable(address)
    if reason:
        raise ResourceError(
            f"cannot reach a Ray cluster at {address} ({reason}); start one with `ray start --head` (and "
            f"`ray start --address=HEAD:6379` on the other machines), or {instead}; a cluster that requires "
            "a token also needs RAY_AUTH_MODE=token and the token on this machine"
        )
    ray.init(address=address, **QUIET)


def unreachable(address: str) -> str:
    """Return why a cluster does not answer, or an empty string.

    It is asked by a process that can be given up: Ray itself may wait for ever.
    """
    program = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False)"
    try:
        tried = subprocess.run(
            [sys.executable, "-c", program, address],
            capture_output=True,
            text=True,
            timeout=REACH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {REACH_S:.0f} s"
    if not tried.returncode:
        return ""
    return (tried.stderr.strip().splitlines() or [f"status {tried.returncode}"])[-1]
