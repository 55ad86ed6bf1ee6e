"""What a run's manifest says about where the run comes from."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossiprec.eventlog.writer_process import this_process
from gossiprec.machine import processor
from gossiprec.plugins import Plugins
from gossiprec.portable import target
from gossiprec.version import __version__, code_version

LAYOUT = 1
"""Version of the run directory's contract."""

_PACKAGES = (
    "click",
    "msgpack",
    "networkx",
    "numba",
    "numpy",
    "pydantic",
    "PyYAML",
    "scipy",
    "simpy",
    "torch",
)


def utc_now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def new_manifest(
    seed: int,
    plugins: Plugins | None = None,
    data: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the manifest of a run that starts now and uses these plug-ins, these data and these files."""
    return {
        "gossiprec": __version__,
        "layout": LAYOUT,
        "code": code_version(),
        "git_commit": _own_commit(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        **computed_by(),
        "python": platform.python_version(),
        "packages": package_versions(),
        "plugins": plugins or {},
        "data": dict(data or {}),
        "inputs": dict(inputs or {}),
        "files": {},
        "seed": seed,
        "status": "running",
        "writer": this_process(),
        "log_digest": None,
        "started": utc_now(),
        "finished": None,
    }


def computed_by() -> dict[str, str]:
    """Return what the processor is called, and for which one the machine code is."""
    return {"processor": processor(), "target": target()}


def package_versions() -> dict[str, str]:
    """Return the installed version of each package that can decide a run's numbers."""
    versions = {name: _version(name) for name in _PACKAGES}
    return {name: version for name, version in versions.items() if version is not None}


@functools.cache
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def _own_commit() -> str | None:
    """Return that of this code, which a process loads once."""
    return git_commit(Path(__file__).resolve().parents[2])


def git_commit(source: Path) -> str | None:
    """Return the commit of the checkout at `source`, with ``-dirty`` where files differ; None elsewhere."""
    if not (source / ".git").exists():  # an installed package may lie inside somebody else's checkout
        return None
    command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None
