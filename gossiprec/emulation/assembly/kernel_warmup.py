"""Having kernels compiled before a run starts: once on a machine, and by several processes at a time."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gossiprec.emulation.progress import Progress
from gossiprec.gc_pause import gc_paused
from gossiprec.machine import usable_cores
from gossiprec.native.kernel_cache import (
    KernelNotCachedError,
    MissingKernelPolicy,
    missing_kernel_policy,
    unreported_problems,
)
from gossiprec.native.numba_support import is_plain

Part = Callable[[], None]
"""What compiles the kernels of a part of the run, or loads what an earlier run has compiled."""

MOST_PROCESSES = 4
"""A run has some eight kernels, of which one takes a third of the time."""


def compile_kernels(parts: Sequence[Part], say: Progress) -> None:
    """Compile what the parts of a run will call, and say so if that takes more than loading what is there.

    Compilers hold the interpreter's lock; so forked processes compile, each from another part on, what no other has
    begun, and leave it on disk. A note names a cache folder that cannot be used.
    """
    for problem in unreported_problems():
        say.note(problem)
    try:
        with missing_kernel_policy(MissingKernelPolicy.REFUSE):
            warm_up(parts)
    except KernelNotCachedError:
        say.phase(
            "compiling kernels (in every process)" if is_plain() else "compiling kernels (once per machine)"
        )
        n_helpers = 0 if is_plain() else min(usable_cores(), len(parts), MOST_PROCESSES) - 1
        # the compiler makes many objects: looking for garbage is 7 % of the time
        with gc_paused(), _helpers(parts, n_helpers):
            _compile_unclaimed(parts)
            warm_up(parts)


def warm_up(parts: Sequence[Part]) -> None:
    """Compile or load what the parts will call, one after the other."""
    for part in parts:
        part()


def _compile_unclaimed(parts: Sequence[Part]) -> None:
    """Compile what no other process compiles; a part is left where one of its kernels is being compiled."""
    with missing_kernel_policy(MissingKernelPolicy.CLAIM):
        for part in parts:
            with suppress(KernelNotCachedError):
                part()


@contextmanager
def _helpers(parts: Sequence[Part], count: int) -> Iterator[None]:
    """Keep as many forked processes compiling until the body ends; it does without them where they fail."""
    children = []
    try:
        for number in range(1, count + 1):
            start = number * len(parts) // (count + 1)
            child = _fork()
            if child == 0:
                _compile_and_leave([*parts[start:], *parts[:start]])
            children.append(child)
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _fork() -> int:
    with warnings.catch_warnings():
        # of forks beside threads; ours are idle now
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _compile_and_leave(parts: Sequence[Part]) -> None:
    """Compile in a forked process; nothing may return to the code of the run."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which ends its helpers
        _compile_unclaimed(parts)
    finally:
        os._exit(0)
