"""Machine code of kernels, kept on disk: by all that is in it, and compiled by one process at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import Any

import numba
from filelock import FileLock, Timeout

from gossiprec.cache_dir import cache_dir
from gossiprec.native.code_hash import hash_function
from gossiprec.native.numba_cache import ModuleCodeCache

PATIENCE_S = 300.0
"""How long one process waits for another that compiles the same kernel before it compiles it as well."""


_HOW = ("code_hash.py", "jit.py", "kernel_cache.py", "kernel_linking.py")
"""What says how kernels are compiled, and what is in them: no kernel need reach it."""


def _cache_folder() -> str:
    """Name the folder of the machine code after how it is made."""
    how = hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in _HOW))
    return str(cache_dir() / f"kernels-{how.hexdigest()[:16]}")


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = _cache_folder()  # type: ignore[attr-defined]


class KernelNotCachedError(Exception):
    """A kernel would have to be compiled."""


class MissingKernelPolicy(Enum):
    """What to do about a kernel that nobody has compiled."""

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


class KernelCache(ModuleCodeCache):
    """Machine code of a function: numba itself looks at the function's own file alone, and has no lock."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.lock_path = Path(self._cache_path) / f"{self._impl.filename_base}.lock"
        self._lock: FileLock | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what is kept, or None: the caller then compiles, and calls :meth:`save_overload`."""
        found = super().load_overload(sig, target_context)
        if found is not None:
            return found
        what = _missing.get()
        if what is MissingKernelPolicy.REFUSE or not self._claimed(wait=what is MissingKernelPolicy.COMPILE):
            raise KernelNotCachedError(self._name)
        found = super().load_overload(sig, target_context)  # another process may just have compiled it
        if found is not None:
            self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, and let others have it."""
        try:
            super().save_overload(sig, data)
        finally:
            self._release()

    def _claimed(self, *, wait: bool) -> bool:
        self._impl.locator.ensure_cache_path()
        lock = FileLock(self.lock_path)
        try:
            lock.acquire(timeout=PATIENCE_S if wait else 0)
        except Timeout:
            return wait
        except (OSError, NotImplementedError):  # a file system without locks
            return True
        self._lock = lock
        return True

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), hash_function(self._py_func))
