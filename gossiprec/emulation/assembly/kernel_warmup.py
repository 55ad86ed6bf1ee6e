"""The compilation of kernels before a run starts: once per machine, in several processes."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gossiprec.base.machine import gc_paused, usable_cores
from gossiprec.emulation.progress import Progress
from gossiprec.native.kernel_cache import (
    KernelNotCachedError,
    MissingKernelPolicy,
    missing_kernel_policy,
    unreported_problems,
)
from gossiprec.native.numba_support import is_plain

Part = Callable[[], None]
"""A function that compiles the kernels of a part of the run, or loads them from the cache."""

MAX_PROCESSES = 4
"""Upper bound of compiling processes; a run has about eight kernels, and one takes a third of the time."""


def compile_kernels(parts: Sequence[Part], progress: Progress) -> None:
    """Compile the kernels of a run's parts, and report it if they are not all in the cache.

    The compiler holds the interpreter's lock, so forked processes compile. Each starts at another part, skips the
    kernels that others have begun, and leaves its kernels on disk. A note names a cache folder that cannot be used.
    """
    for problem in unreported_problems():
        progress.note(problem)
    try:
        with missing_kernel_policy(MissingKernelPolicy.REFUSE):
            warm_up(parts)
    except KernelNotCachedError:
        how = "in every process" if is_plain() else "once per machine"
        progress.phase(f"compiling kernels ({how})")
        n_helpers = 0 if is_plain() else min(usable_cores(), len(parts), MAX_PROCESSES) - 1
        # the compiler makes many objects: garbage collection takes 7 % of the time
        with gc_paused(), _helpers(parts, n_helpers):
            _compile_unclaimed(parts)
            warm_up(parts)


def warm_up(parts: Sequence[Part]) -> None:
    """Compile or load the kernels of the parts, one part after the other."""
    for part in parts:
        part()


def _compile_unclaimed(parts: Sequence[Part]) -> None:
    """Compile the kernels that no other process compiles; skip a part if one of its kernels is being compiled."""
    with missing_kernel_policy(MissingKernelPolicy.CLAIM):
        for part in parts:
            with suppress(KernelNotCachedError):
                part()


@contextmanager
def _helpers(parts: Sequence[Part], count: int) -> Iterator[None]:
    """Keep up to `count` forked processes compiling until the body ends; continue without them if forking fails."""
    children = []
    try:
        for number in range(1, count + 1):
            start = number * len(parts) // (count + 1)
            child = fork()
            if child == 0:
                _compile_and_leave([*parts[start:], *parts[:start]])
            children.append(child)
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def fork() -> int:
    """Fork this process, of which the other threads are idle; 0 is returned in the child."""
    with warnings.catch_warnings():
        # this warning is about forks while threads run; ours are idle now
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _compile_and_leave(parts: Sequence[Part]) -> None:
    """Compile in a forked process and exit; control must not return to the code of the run."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the run, which ends its helpers
        _compile_unclaimed(parts)
    finally:
        os._exit(0)
