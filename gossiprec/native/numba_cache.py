"""The place where numba keeps machine code: by a function's module, in a folder that no other user can write to.

Machine code is read by unpickling, so code of another user in the folder would run. The caller names in folder or key
what is in the code. Then another checkout, or a new virtual environment, with the same sources compiles nothing again.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator

from gossiprec.cache_dir import PRIVATE, distrust, loose

_problems: list[str] = []
_reported: set[str] = set()


def unreported_problems() -> list[str]:
    """Return why machine code is not kept or not read, each reason once per process."""
    usable_folder(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
    new = [problem for problem in dict.fromkeys(_problems) if problem not in _reported]
    _reported.update(new)
    return new


@functools.cache
def usable_folder(wanted: str) -> str:
    """Return a folder for machine code: the wanted one, or one for this process if that is unsafe or unwritable."""
    folder = os.path.realpath(wanted)
    reason = distrust(Path(folder))
    remedy = "remove it or run `chmod go-w` on it"
    if reason is None:
        try:
            _make(folder)
        except OSError as error:
            reason, remedy = f"cannot write to {folder} ({error.strerror or error})", "fix its permissions"
    if reason is None:
        return folder
    _problems.append(
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


def _make(folder: str) -> None:
    """Make a folder that this user alone can write to, and see that it can be written to.

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


class _ByModule(_CacheLocator):
    """Puts machine code into a folder of :data:`numba.config.CACHE_DIR` named after its function's module."""

    def __init__(self, function: Any) -> None:
        root = usable_folder(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
        self._path = usable_folder(os.path.join(root, function.__module__))

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _ByModule:
        """Return the locator of a function."""
        return cls(py_func)

    def ensure_cache_path(self) -> None:
        """Make the folder again if it was removed."""
        _make(self._path)

    def get_cache_path(self) -> str:
        """Return the folder."""
        return self._path

    def get_source_stamp(self) -> str:
        """Return nothing: numba takes the date of the function's file."""
        return ""

    def get_disambiguator(self) -> str:
        """Return nothing: numba takes the function's line."""
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
            if hasattr(os, "fchmod"):  # whatever the umask says
                os.fchmod(file.fileno(), 0o600)
            yield file

    def _refuses(self, path: str) -> bool:
        try:
            reason = loose(os.lstat(path), Path(path))
        except FileNotFoundError:
            return False
        if reason is not None:
            folder = os.path.dirname(self._cache_path)
            _problems.append(
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
