"""The location of numba's machine code: by module, in a folder that no other user can write to.

Machine code is read by unpickling, so code of another user in the folder would run. The caller names in folder or key
which code is in it. Then another checkout or virtual environment with the same sources compiles nothing again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from filelock import FileLock, Timeout
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from gossiprec.base.cache_dir import loose
from gossiprec.native.code_hash import hash_function
from gossiprec.native.kernel_cache import (
    KernelNotCachedError,
    MissingKernelPolicy,
    current_policy,
    make_folder,
    problems,
    usable_folder,
)

PATIENCE_S = 300.0
"""Seconds that a process waits for another one to compile a kernel before it compiles the kernel itself."""


class _ByModule(_CacheLocator):
    """A locator of machine code in a folder of :data:`numba.config.CACHE_DIR` named after the function's module."""

    def __init__(self, function: Any) -> None:
        root = usable_folder(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
        self._path = usable_folder(os.path.join(root, function.__module__))

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _ByModule:
        """Return the locator of a function."""
        return cls(py_func)

    def ensure_cache_path(self) -> None:
        """Make the folder again if it was removed."""
        make_folder(self._path)

    def get_cache_path(self) -> str:
        """Return the folder."""
        return self._path

    def get_source_stamp(self) -> str:
        """Return an empty stamp: numba would take the date of the function's file."""
        return ""

    def get_disambiguator(self) -> str:
        """Return an empty name: numba would take the function's line."""
        return ""


class _Implementation(CompileResultCacheImpl):
    _locator_classes: Any = (_ByModule,)


class _OwnFiles(IndexDataCacheFile):
    """The index and data files of a function, read only if no other user can have written them."""

    def _load_index(self) -> Any:
        if self._refuses(self._index_path):
            return {}
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        if self._refuses(self._data_path(name)):
            return None
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with super()._open_for_write(filepath) as file:
            if hasattr(os, "fchmod"):  # whatever the umask is
                os.fchmod(file.fileno(), 0o600)
            yield file

    def _refuses(self, path: str) -> bool:
        try:
            reason = loose(os.lstat(path), Path(path))
        except FileNotFoundError:
            return False
        if reason is not None:
            folder = os.path.dirname(self._cache_path)
            problems.append(
                f"some compiled kernels in {folder} are compiled again instead of read, because other users "
                "could have written them"
            )
        return reason is not None


class ModuleCodeCache(FunctionCache):
    """Machine code of a function, by its module."""

    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        of = self._cache_file
        self._cache_file = _OwnFiles(self._cache_path, self._impl.filename_base, of._source_stamp)


class KernelCache(ModuleCodeCache):
    """The locked cache of a kernel, by all its code: numba itself checks only the function's file, and has no lock."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.lock_path = Path(self._cache_path) / f"{self._impl.filename_base}.lock"
        self._lock: FileLock | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached code, or None; the caller then compiles and calls :meth:`save_overload`."""
        found = super().load_overload(sig, target_context)
        if found is not None:
            return found
        what = current_policy()
        if what is MissingKernelPolicy.REFUSE or not self._claimed(wait=what is MissingKernelPolicy.COMPILE):
            raise KernelNotCachedError(self._name)
        found = super().load_overload(sig, target_context)  # another process may just have compiled it
        if found is not None:
            self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code, and release it to other processes."""
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
