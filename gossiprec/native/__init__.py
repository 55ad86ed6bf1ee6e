"""The layer that uses numba, LLVM and the cache of compiled kernels.

:func:`jit_cached` compiles a loop of plain Python on plain arrays, for layers below the compiled executors.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from gossiprec.base.machine import cache_dir


@functools.cache
def jit_cached(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as cached machine code, with results bit-identical to the interpreter's.

    The functions that it calls must be in the same file. The folder is named after the contents of that file, because
    numba itself checks only dates. Compiling takes seconds, loading from disk a fraction of one.
    """
    import numba

    from gossiprec.native.numba_support import is_plain

    if is_plain():
        return cast(Callable[..., Any], numba.njit(nogil=True, error_model="numpy")(function))

    from gossiprec.native.numba_patches import ModuleCodeCache

    source = Path(function.__code__.co_filename).read_bytes()
    folder = cache_dir() / f"{function.__name__}-{hashlib.sha256(source).hexdigest()[:16]}"
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if not os.environ.get("NUMBA_CACHE_DIR"):
        numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        made: Any = numba.njit(nogil=True, error_model="numpy")(function)
        made._cache = ModuleCodeCache(function)
        return cast(Callable[..., Any], made)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
