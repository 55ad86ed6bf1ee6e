"""The folder of compiled kernels, and the policy for kernels that are not in it."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import Any

import numba

from gossiprec.base.machine import PRIVATE, cache_dir, why_untrusted
from gossiprec.native.numba_support import is_plain

_SOURCES = ("jit.py", "kernel_cache.py", "numba_patches.py")
"""The modules that decide how kernels are compiled and what they contain, which no kernel needs to reach."""


def _cache_folder() -> str:
    """Return the folder of the machine code, named after how it is made."""
    how = hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in _SOURCES))
    return str(cache_dir() / f"kernels-{how.hexdigest()[:16]}")


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = _cache_folder()  # type: ignore[attr-defined]


class KernelNotCachedError(Exception):
    """A kernel would have to be compiled."""


class MissingKernelPolicy(Enum):
    """The policy for a kernel that is not compiled yet."""

    COMPILE = "compile it, or wait for the process that does"
    CLAIM = "compile it, unless another process does"
    REFUSE = "compile nothing"


_missing = ContextVar("missing", default=MissingKernelPolicy.COMPILE)


@contextmanager
def missing_kernel_policy(what: MissingKernelPolicy) -> Iterator[None]:
    """Raise :class:`KernelNotCachedError` in the body for a kernel that is neither cached nor, by `what`, compiled."""
    before = _missing.set(what)
    try:
        yield
    finally:
        _missing.reset(before)


class UncachedKernel:
    """The cache of a kernel on the plain path: numba's own for a function without one, which obeys the policy."""

    def __init__(self, cache: Any, name: str) -> None:
        self._cache, self._name = cache, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Return None, so that numba compiles the kernel.

        Raises
        ------
        KernelNotCachedError
            If the policy does not allow that. Other processes could not use the machine code.
        """
        if _missing.get() is not MissingKernelPolicy.COMPILE:
            raise KernelNotCachedError(self._name)


def current_policy() -> MissingKernelPolicy:
    """Return the policy for kernels that are not cached."""
    return _missing.get()


def has_compiled_kernels() -> bool:
    """Return whether earlier runs left any compiled kernels; never on the plain path."""
    if is_plain():
        return False
    try:
        return any(entry.is_dir() for entry in Path(numba.config.CACHE_DIR).iterdir())  # type: ignore[attr-defined]
    except OSError:
        return False


problems: list[str] = []
"""Reasons why machine code is not stored or not read, in sentences for users."""
_reported: set[str] = set()


def unreported_problems() -> list[str]:
    """Return the reasons why machine code is not stored or not read, each once per process."""
    if is_plain():
        return []
    usable_folder(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
    new = [problem for problem in dict.fromkeys(problems) if problem not in _reported]
    _reported.update(new)
    return new


@functools.cache
def usable_folder(wanted: str) -> str:
    """Return a folder for machine code: the wanted one, or one for this process if that is unsafe or unwritable."""
    folder = os.path.realpath(wanted)
    reason = why_untrusted(Path(folder))
    remedy = "remove it or run `chmod go-w` on it"
    if reason is None:
        try:
            make_folder(folder)
        except OSError as error:
            reason, remedy = f"cannot write to {folder} ({error.strerror or error})", "fix its permissions"
    if reason is None:
        return folder
    problems.append(
        f"compiled kernels are neither read from nor stored in {folder}: {reason}; this process compiles its "
        f"own kernels; {remedy}, or set XDG_CACHE_HOME or NUMBA_CACHE_DIR to a folder that you own"
    )
    own = tempfile.mkdtemp(prefix="gossiprec-kernels-")
    atexit.register(_remove, own, os.getpid())
    return own


def _remove(folder: str, process: int) -> None:
    """Remove the folder of a process when it ends; a fork of the process leaves the folder."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(folder: str) -> None:
    """Make a folder that only this user can write to, and check that it is writable.

    Raises
    ------
    OSError
        If it cannot.
    """
    missing = [part for part in (Path(folder), *Path(folder).parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(mode=PRIVATE, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
