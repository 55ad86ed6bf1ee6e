"""Where numba keeps machine code: by a function's module, wherever that lies and whenever it was written.

Whoever uses it says in folder or key what is in the code. Then another checkout, or a new virtual environment, with the
same sources compiles nothing again.
"""

from __future__ import annotations

import os
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator


class _ByModule(_CacheLocator):
    """Puts machine code into a folder of :data:`numba.config.CACHE_DIR` named after its function's module."""

    def __init__(self, function: Any) -> None:
        self._path = os.path.join(numba.config.CACHE_DIR, function.__module__)  # type: ignore[attr-defined]

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _ByModule | None:
        """Return it, or None where nothing can be written: numba then looks for another place."""
        found = cls(py_func)
        try:
            found.ensure_cache_path()  # type: ignore[no-untyped-call]
        except OSError:
            return None
        return found

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
    _locator_classes: Any = (_ByModule, *CompileResultCacheImpl._locator_classes)


class ModuleCache(FunctionCache):
    """Machine code of a function, by its module."""

    _impl_class = _Implementation
