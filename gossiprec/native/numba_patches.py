"""All that replaces or subclasses parts of numba: the cache of machine code, and private linking.

It is imported only if the check of numba at start succeeds (:mod:`gossiprec.native.numba_support`).

**Cache.** Machine code is read by unpickling, so code of another user in the folder would run: no other user can write
to the folder. Files are named by module, and their key has a hash of all code that a kernel reaches. Then another
checkout or virtual environment with the same sources compiles nothing again.

**Private linking.** Each kernel has its own copies of the functions that it calls, compiled for it only. Numba links
the functions that a kernel calls into its machine code, optimises them again there, and leaves them under their global
names. Which of several functions of one name was called depended on what a process had compiled or loaded before. In
the process that compiled a kernel it was the function as first compiled; in those that load the kernel from disk it
was its second form, which adds sums in another order. Numba also makes separate machine code of every function, which
is never called if all callers are kernels.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from filelock import FileLock, Timeout
from llvmlite import binding
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.codegen import CPUCodeLibrary
from numba.core.cpu import CPUContext
from numba.core.itanium_mangler import mangle

from gossiprec.base.machine import why_writable_by_others
from gossiprec.native.kernel_cache import (
    KernelNotCachedError,
    MissingKernelPolicy,
    current_policy,
    make_folder,
    problems,
    usable_folder,
)
from gossiprec.native.numba_support import is_plain

_FIXED = sys.stdlib_module_names | {"numba", "numpy", "llvmlite"}
"""Packages that do not change: the first two are part of numba's own key, the others of an installation."""


def hash_function(function: FunctionType) -> str:
    """Return a hash of a function's code and of what it reaches by name: functions, constants, classes, closures.

    Functions count with the files that they are in, because decorators decide how they are compiled. An unknown object
    makes the hash unique, so that the function is compiled again.
    """
    total = hashlib.sha256()
    for part in _describe(function, set()):
        total.update(part.encode())
        total.update(b"\n")
    return total.hexdigest()


def _describe(value: Any, seen: set[int]) -> Iterator[str]:
    value = next((found for name in ("py_func", "_defn") if (found := getattr(value, name, None))), value)
    about = value if isinstance(value, FunctionType | type) else type(value)
    if isinstance(value, ModuleType):
        yield value.__name__
    elif isinstance(value, tuple | list):
        for part in (type(value).__name__, *value):
            yield from _describe(part, seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    elif _is_fixed(about.__module__):
        yield f"{about.__module__}.{about.__qualname__}" if about is value else _constant(value)
    elif id(value) not in seen:
        seen.add(id(value))
        yield f"{about.__module__}.{about.__qualname__}"
        yield _file(getattr(sys.modules.get(about.__module__), "__file__", None))
        if isinstance(value, FunctionType):
            yield from _code(value.__code__)
            for part in (value.__defaults__, *_reached(value)):
                yield from _describe(part, seen)
        elif about is not value:
            yield repr(value) if isinstance(value, Enum) else _unknown()


def _reached(function: FunctionType) -> Iterator[Any]:
    """Yield the objects that a function's code names, including the attributes it reads of modules that change."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    names = list(_names(function.__code__))
    for name in names:
        if name in known:
            yield (name, known[name])
    modules = [known[name] for name in names if isinstance(known.get(name), ModuleType)]
    while modules:
        module = modules.pop()
        if not _is_fixed(module.__name__):
            for name in names:
                found = vars(module).get(name)
                yield (name, found)
                if isinstance(found, ModuleType):
                    modules.append(found)


def _names(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


def _code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    for part in code.co_consts:
        yield from _code(part) if isinstance(part, CodeType) else [_constant(part)]


def _constant(value: Any) -> str:
    text = repr(sorted(map(repr, value)) if isinstance(value, set | frozenset) else value)
    return _unknown() if " at 0x" in text else text


def _unknown() -> str:
    return os.urandom(16).hex()


def _is_fixed(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _FIXED


@functools.cache
def _file(path: str | None) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path and Path(path).is_file() else ""


TIMEOUT_S = 300.0
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
        try:
            return super()._load_index()
        except (
            AttributeError,
            ImportError,
        ):  # of another version of the code, with an argument type that is gone
            return {}

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
            reason = why_writable_by_others(os.lstat(path), Path(path))
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
            for caller in [*_claims]:  # kernels that call this one: they are not compiled now, either
                caller._release()
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
        if self._lock is not None:  # of a compilation that was interrupted
            return True
        self._impl.locator.ensure_cache_path()
        lock = FileLock(self.lock_path)
        try:
            lock.acquire(timeout=TIMEOUT_S if wait else 0)
        except Timeout:
            return wait
        except (OSError, NotImplementedError):  # a file system without locks
            return True
        self._lock = lock
        _claims.append(self)
        return True

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
            _claims.remove(self)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        key = super()._index_key(sig, codegen)
        return (*key, hash_function(self._py_func), _field_names(sig))


_claims: list[KernelCache] = []
"""The kernels that this process compiles: one, and those that it calls."""


def _field_names(kinds: Iterable[Any]) -> tuple[Any, ...]:
    """Return the field names of the NamedTuples among argument types: numba knows the class by its name only."""
    named: list[Any] = [kind for kind in kinds if isinstance(kind, types.BaseNamedTuple)]
    return tuple((kind.fields, _field_names(kind)) for kind in named)


_kernels: dict[str, set[str]] = {}
"""Qualified names of kernels, each with the beginnings of its symbols, which contain the module."""
_linked_only: set[tuple[str, str]] = set()
_optimize = CPUCodeLibrary._optimize_final_module
_finish = CPUCodeLibrary._finalize_final_module
_make_callable = CPUContext.get_executable


def link_privately(kernel: Any) -> None:
    """Keep the compiled functions that a kernel calls private to it."""
    symbol = mangle(f"{kernel.__module__}.{kernel.__qualname__}", ())
    _kernels.setdefault(kernel.__qualname__, set()).add(symbol.removesuffix("E"))


def link_only(function: Any) -> None:
    """Make machine code of a function only as part of a kernel, or if it has a wrapper for Python."""
    _linked_only.add((function.__module__, function.__qualname__))


@functools.wraps(_optimize)
def _renamed_and_optimized(library: Any) -> None:
    """Give the functions linked into a kernel private names, then optimise as before."""
    symbols = tuple(_kernels.get(library.name, ()))
    if symbols:
        present = [function for function in library._final_module.functions if not function.is_declaration]
        own = sorted(each.name for each in present if each.linkage == binding.Linkage.external)
        if any(name.startswith(symbols) for name in own):
            mark = hashlib.sha256(" ".join(own).encode()).hexdigest()[:16]
            for copy in [each for each in present if each.linkage == binding.Linkage.linkonce_odr]:
                copy.name = f"{copy.name}.of.{mark}"
    _optimize(library)


@functools.wraps(_make_callable)
def _callable(context: Any, library: Any, described: Any, env: Any) -> Any:
    """Return the Python object of a compiled function, or a placeholder for one that is only linked."""
    if (described.modname, described.qualname) not in _linked_only or _has_way_in(library, described):
        return _make_callable(context, library, described, env)
    library.linked_only = True
    no_code = 0
    return _dynfunc.make_function(
        described.lookup_module(), described.qualname, described.qualname, no_code, env, (library,)
    )


def _has_way_in(library: Any, described: Any) -> bool:
    """Return whether a function can be called from Python; functions loaded from disk can."""
    if library._finalized:
        return True
    try:
        library.get_function(described.llvm_cpython_wrapper_name)
    except NameError:
        return False
    return True


@functools.wraps(_finish)
def _finished(library: Any) -> None:
    """Pass the code of a function to the processor, or leave it unfinished for the kernels that link it."""
    if not getattr(library, "linked_only", False):
        _finish(library)
        return
    library._finalize_dynamic_globals()
    library._verify_declare_only_symbols()
    library._finalized = True


if not is_plain():
    CPUCodeLibrary._optimize_final_module = _renamed_and_optimized  # type: ignore[method-assign]
    CPUCodeLibrary._finalize_final_module = _finished  # type: ignore[method-assign]
    CPUContext.get_executable = _callable  # type: ignore[method-assign]
