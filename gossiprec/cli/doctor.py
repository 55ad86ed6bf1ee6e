"""``gossiprec doctor``: what this machine and this installation offer a run, and what would make runs faster."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from gossiprec.cli.options import JSON
from gossiprec.cli.terminal import echo

MAIN_JOB_BYTES = 2_400 * 2**20
"""Memory of ``scenarios/rand_gossip.yaml``."""
_EXTRA = re.compile(r"([\w.-]+)[^;]*;.*\bextra == ['\"]([\w-]+)['\"]")
"""A requirement of an extra: the package and the extra's name."""

BUSY = 1.5
"""Processes per core above which the machine is busy."""


@click.command()
@JSON
def doctor(as_json: bool) -> None:
    """Report cores, memory, cache, torch, CUDA and extras, and what would make runs faster."""
    from gossiprec.cli.options import hang, terminal_width

    facts = examine()
    if as_json:
        echo(json.dumps(facts, indent=2), whole=True)
        return
    for name, value in facts.items():
        if name != "advice":
            echo(hang(f"{name:12} ", str(value), terminal_width()))
    for advice in facts["advice"] or ["nothing to improve was found"]:
        echo(hang(f"{'advice':12} ", advice, terminal_width()))


def examine() -> dict[str, Any]:
    """Return the findings as text by name, and under ``advice`` a list of changes."""
    from gossiprec.base.machine import available_bytes, processor_name, usable_cores
    from gossiprec.version import __version__

    advice: list[str] = []
    cores, present, memory = usable_cores(), os.cpu_count() or 1, available_bytes()
    if cores < present:
        advice.append(
            f"this process may use {cores} of {present} cores (a container's quota, or taskset); a higher limit makes "
            "runs faster"
        )
    if memory < MAIN_JOB_BYTES:
        advice.append(
            f"the main scenario needs {_gib(MAIN_JOB_BYTES)}; raise the limit of the container, or take fewer observers"
        )
    return {
        "gossiprec": f"{__version__}, in {Path(__file__).parents[1]}",
        "python": f"{sys.version.split()[0]}, {sys.executable}",
        "processor": processor_name(),
        "cores": f"{cores} usable, {present} present{_examine_load(present, advice)}",
        "memory": f"{_gib(memory)} available within the limits of groups and ulimit",
        "disk": f"{_gib(shutil.disk_usage(Path()).free)} free in {Path().resolve()}",
        "kernels": _examine_kernels(advice),
        "torch": _examine_torch(advice),
        **_examine_extras(),
        "advice": advice,
    }


def _examine_load(present: int, advice: list[str]) -> str:
    """Return the number of processes that used the machine's cores or waited for them, if the system has it."""
    try:
        load = os.getloadavg()[0]
    except (OSError, AttributeError):
        return ""
    if load > BUSY * present:
        advice.append(
            f"{load:.1f} processes shared {present} cores in the last minute; runs are faster without the others"
        )
    return f", load {load:.1f} in the last minute"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _examine_kernels(advice: list[str]) -> str:
    """Return the state of the compiled kernels: their folder, their number, and whether new ones are stored."""
    from gossiprec.base.machine import cache_dir, why_untrusted
    from gossiprec.native.numba_support import RANGE, is_plain

    if is_plain():
        advice.append(f"kernels are compiled again in every process on the plain path; install {RANGE}")
        return f"numba {metadata.version('numba')}, plain path, nothing is stored"
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or cache_dir())
    above = next(each for each in (folder, *folder.parents) if each.exists())
    problem = f"{above} is not writable" if not os.access(above, os.W_OK) else why_untrusted(folder)
    if problem:
        advice.append(
            f"{problem}, so kernels are compiled again in every process; set XDG_CACHE_HOME to a folder of your own"
        )
    number = sum(1 for _ in folder.rglob("*.nbi"))
    if not number and not problem:
        advice.append(
            "no kernels are compiled yet: the first run of each kind takes up to half a minute longer"
        )
    return f"numba {metadata.version('numba')}, {number} compiled in {folder}"


def _examine_torch(advice: list[str]) -> str:
    """Return version and build of torch, and the CUDA devices that it sees."""
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    if not torch.version.cuda and any(Path("/dev").glob("nvidia[0-9]*")):
        advice.append(
            "this machine has an NVIDIA device, but torch is the CPU build; install a CUDA build for executor batched "
            "with device cuda (see pytorch.org)"
        )
    return f"{torch.__version__}, {build}, " + (
        f"devices: {', '.join(devices)}" if devices else "no CUDA device"
    )


def _examine_extras() -> dict[str, str]:
    """Return which extras are installed, and the packages that the others lack."""
    wanted: dict[str, list[str]] = {}
    for requirement in _requirements():
        match = _EXTRA.match(requirement)
        if match and match[1] != "gossiprec":
            wanted.setdefault(match[2], []).append(match[1])
    if not wanted:
        return {"extras": "unknown: gossiprec is not installed as a package"}
    lacking = {extra: [name for name in names if not _is_installed(name)] for extra, names in wanted.items()}
    absent = "; ".join(f"{extra} (needs {', '.join(names)})" for extra, names in lacking.items() if names)
    return {
        "extras": ", ".join(extra for extra, names in lacking.items() if not names) or "none",
        "not there": f"{absent}: pip install 'gossiprec[NAME]'" if absent else "none",
    }


def _requirements() -> list[str]:
    try:
        return metadata.requires("gossiprec") or []
    except metadata.PackageNotFoundError:  # a checkout on the path
        return []


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
