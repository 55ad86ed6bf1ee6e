"""The machine and the process: memory and cores within the limits of containers, threads, and the cache folder.

References
----------
Linux, "Control Group v2" (``memory.max``, ``memory.current``, ``cpu.max``) and the files of its version 1.
"""

from __future__ import annotations

import gc
import math
import os
import platform
import resource
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Protocol

ROOT = Path("/")


def available_bytes(root: Path = ROOT) -> int:
    """Return the memory that a process can take without swapping or being killed, if the system reports limits."""
    return min([_available_on_machine(root), *_left_in_groups(root), *_left_under_limits(root)])


def resident_bytes(root: Path = ROOT) -> int:
    """Return the resident memory of this process in bytes, or 0 if the system does not report it."""
    fields = "".join(_lines(root / "proc/self/statm")).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def peak_rss_mib() -> float:
    """Return the largest resident size of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


def usable_cores(root: Path = ROOT) -> int:
    """Return the number of threads that can run in parallel: cores in the affinity mask, within the group's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([cores, *_quotas(root)])


def processor_name(root: Path = ROOT) -> str:
    """Return the name of the processor, if the system reports it."""
    named = (
        line.partition(":")[2].strip()
        for line in _lines(root / "proc/cpuinfo")
        if line.startswith("model name")
    )
    return next(named, "") or platform.processor() or platform.machine()


def _available_on_machine(root: Path) -> int:
    meminfo = root / "proc/meminfo"
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _left_in_groups(root: Path) -> Iterator[int]:
    """Yield the memory left in each limited group; memory that the system can reclaim at once counts as left."""
    for folder in _groups(root, "memory"):
        limit = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
        taken = _number(folder / "memory.current", folder / "memory.usage_in_bytes")
        if limit is not None and taken is not None:
            yield max(0, limit - max(0, taken - _reclaimable(folder / "memory.stat")))


def _left_under_limits(root: Path) -> Iterator[int]:
    """Yield the bytes that each limit of the process (``ulimit -v``, ``ulimit -d``) leaves."""
    status = dict(line.split(":", 1) for line in _lines(root / "proc/self/status") if ":" in line)
    for limit, entry in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most, taken = resource.getrlimit(limit)[0], status.get(entry, "").split()
        if most != resource.RLIM_INFINITY and taken:
            yield max(0, most - int(taken[0]) * 1024)


def _reclaimable(stat: Path) -> int:
    """Return the bytes of cached files that have not been used for a while."""
    entries = dict(line.split()[:2] for line in _lines(stat) if len(line.split()) > 1)
    return int(entries.get("total_inactive_file", entries.get("inactive_file", 0)))


def _quotas(root: Path) -> Iterator[int]:
    """Yield the processor time that each limited group may use, in cores, rounded up."""
    for folder in _groups(root, "cpu"):
        quota, period = [*" ".join(_lines(folder / "cpu.max")).split(), "", ""][:2]
        if not quota:
            quota, period = (" ".join(_lines(folder / f"cpu.cfs_{part}_us")) for part in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):
            yield max(1, math.ceil(int(quota) / int(period)))


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's group and of the groups around it."""
    mount = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        top = mount / controller if controllers else mount
        group = top / path.lstrip("/")
        while True:
            yield group
            if group == top:
                break
            group = group.parent


def _number(*files: Path) -> int | None:
    """Return the number in the first existing file, or None for no limit."""
    text = next(("".join(_lines(file)) for file in files if file.exists()), "")
    return int(text) if text.isdigit() else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector of cyclic garbage until the body ends: for work that makes many objects and no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class ThreadPool:
    """A pool that runs the parts of a job in parallel; the calling thread runs the first, or all if the pool is busy.

    Parameters
    ----------
    size : int
        Number of threads, including the calling one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._others = ThreadPoolExecutor(size - 1) if size > 1 else None
        self._at_work = threading.Lock()

    def run(self, job: Callable[[int], None], parts: int | None = None) -> None:
        """Call ``job(0) .. job(size - 1)``, or the first `parts` of them, and return when all have returned."""
        last = self.size if parts is None else min(parts, self.size)
        if not self.run_together(job, last):
            for part in range(last):
                job(part)

    def run_together(self, job: Callable[[int], None], parts: int) -> bool:
        """Call ``job(0) .. job(parts - 1)``, each in a thread of its own; return False if the pool is busy."""
        if self._others is None or parts < 2:
            for part in range(parts):
                job(part)
            return True
        if not self._at_work.acquire(blocking=False):
            return False
        waiting = []
        try:
            for part in range(1, parts):
                # the caller's context holds in all threads, above all the setting that forbids compiling
                waiting.append(self._others.submit(copy_context().run, job, part))
            job(0)
        finally:
            try:
                for other in waiting:
                    other.result()
            finally:
                self._at_work.release()
        return True

    def part_range(self, n: int, part: int) -> range:
        """Return the contiguous range of `n` elements that a part takes."""
        return range(n * part // self.size, n * (part + 1) // self.size)


class ThreadPoolLike(Protocol):
    """An executor that runs the parts of a job in parallel."""

    @property
    def size(self) -> int:
        """Number of parts of a job."""

    def run(self, job: Callable[[int], None]) -> None:
        """Call ``job(0) .. job(size - 1)``, each on any thread, and return when all have returned."""


class CallingThread:
    """The calling thread, as an executor of one part."""

    size = 1

    def run(self, job: Callable[[int], None]) -> None:
        """Call ``job(0)``."""
        job(0)


CALLING_THREAD: ThreadPoolLike = CallingThread()


PRIVATE = 0o700
"""Permissions of folders that gossiprec creates here."""


def cache_dir() -> Path:
    """Return the user's cache folder: ``gossiprec`` in ``XDG_CACHE_HOME``, which is ``~/.cache`` by default."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gossiprec"


def why_untrusted(path: Path) -> str | None:
    """Return why other users could have put their own code into a folder, or None.

    The folder must belong to this user (or to root), and no other user may write to it. The folders above it must be
    safe, see :func:`why_replaceable`. A folder that does not exist yet can be trusted if the folders above it are safe.

    Parameters
    ----------
    path : Path
    """
    path = Path(os.path.realpath(path))
    return (why_writable_by_others(os.stat(path), path) if path.exists() else None) or why_replaceable(path)


def why_replaceable(path: Path) -> str | None:
    """Return why other users could exchange a file or folder for their own through a folder above it, or None.

    Every folder above it must belong to this user or to root, and no other user may write to it. A sticky folder such
    as ``/tmp`` is safe, and a group of which this user is the only member. Systems without user ids are trusted.

    Parameters
    ----------
    path : Path
    """
    if not hasattr(os, "geteuid"):
        return None
    for folder in Path(os.path.realpath(path)).parents:
        if not folder.exists():
            continue
        about = os.stat(folder)
        if not _is_trusted(about.st_uid):
            return f"{folder} belongs to {_user(about.st_uid)}"
        shared = about.st_mode & stat.S_IWOTH or (
            about.st_mode & stat.S_IWGRP and not _is_private(about.st_gid)
        )
        if shared and not about.st_mode & stat.S_ISVTX:
            return f"other users can write to {folder}"
    return None


def why_writable_by_others(status: os.stat_result, path: Path) -> str | None:
    """Return why other users can change a folder or file itself, given its status, or None."""
    if not hasattr(os, "geteuid"):
        return None
    if not _is_trusted(status.st_uid):
        return f"{path} belongs to {_user(status.st_uid)}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users can write to {path}"
    return None


def _is_trusted(owner: int) -> bool:
    """Return whether a user id is this user's, root's, or the owner's of ``/``: root, as a container may show it."""
    return owner in (os.geteuid(), 0, os.stat("/").st_uid)


def _user(owner: int) -> str:
    import pwd

    try:
        return f"the user {pwd.getpwuid(owner).pw_name}"
    except KeyError:
        return f"the user {owner}"


def _is_private(group: int) -> bool:
    """Return whether a group has only this user as a member, as some systems create for every user."""
    import grp
    import pwd

    try:
        me, entry = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return group == me.pw_gid and entry.gr_name == me.pw_name and set(entry.gr_mem) <= {me.pw_name}
