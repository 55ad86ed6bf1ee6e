"""The check of numba at start: its version, and the parts of it that are replaced or subclassed.

If the check fails, or if the environment says ``GOSSIPREC_PLAIN_NUMBA=1``, the plain path is used: nothing of numba is
replaced, and no compiled kernel is stored on disk.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from importlib import import_module
from typing import Any

LOWEST, BELOW = (0, 60), (0, 69)
RANGE = "numba>=0.60,<0.69"
"""The range as pip writes it; the same as in ``setup.cfg``."""
PLAIN = "GOSSIPREC_PLAIN_NUMBA"
"""The environment variable that selects the plain path, for this process and those that it starts."""

SYMBOLS: dict[str, tuple[str, ...] | None] = {
    "numba._dynfunc:make_function": None,
    "numba.core.caching:CompileResultCacheImpl": None,
    "numba.core.caching:FunctionCache._index_key": ("self", "sig", "codegen"),
    "numba.core.caching:FunctionCache.load_overload": ("self", "sig", "target_context"),
    "numba.core.caching:FunctionCache.save_overload": ("self", "sig", "data"),
    "numba.core.caching:IndexDataCacheFile": ("cache_path", "filename_base", "source_stamp"),
    "numba.core.caching:IndexDataCacheFile._data_path": ("self", "name"),
    "numba.core.caching:IndexDataCacheFile._load_data": ("self", "name"),
    "numba.core.caching:IndexDataCacheFile._load_index": ("self",),
    "numba.core.caching:IndexDataCacheFile._open_for_write": ("self", "filepath"),
    "numba.core.caching:_CacheLocator.ensure_cache_path": ("self",),
    "numba.core.caching:_CacheLocator.from_function": ("py_func", "py_file"),
    "numba.core.caching:_CacheLocator.get_cache_path": ("self",),
    "numba.core.caching:_CacheLocator.get_disambiguator": ("self",),
    "numba.core.caching:_CacheLocator.get_source_stamp": ("self",),
    "numba.core.codegen:CPUCodeLibrary._finalize_dynamic_globals": ("self",),
    "numba.core.codegen:CPUCodeLibrary._finalize_final_module": ("self",),
    "numba.core.codegen:CPUCodeLibrary._optimize_final_module": ("self",),
    "numba.core.codegen:CPUCodeLibrary._verify_declare_only_symbols": ("self",),
    "numba.core.codegen:CPUCodeLibrary.get_function": ("self", "name"),
    "numba.core.cpu:CPUContext.get_executable": ("self", "library", "fndesc", "env"),
    "numba.core.dispatcher:Dispatcher._compile_for_args": ("self", "args", "kws"),
    "numba.core.dispatcher:Dispatcher._insert": None,
    "numba.core.itanium_mangler:mangle": ("ident", "argtys", "abi_tags", "uid"),
}
"""The objects that are replaced, subclassed or called, with their parameters if Python knows them."""


@functools.cache
def is_plain() -> bool:
    """Return whether the plain path is used; a failed check prints one line, in the first process only."""
    if os.environ.get(PLAIN, "0") not in ("", "0"):
        return True
    found = find_problem()
    if found is None:
        return False
    print(
        f"note: {found}; expected {RANGE}; kernels are compiled by plain numba and not stored on disk, which is "
        f"slower; install a supported version with `pip install '{RANGE}'`",
        file=sys.stderr,
    )
    os.environ[PLAIN] = "1"  # processes started from here take the same path, and print nothing
    return True


def find_problem() -> str | None:
    """Return the reason why numba cannot be patched, or None."""
    import numba

    numbers = re.match(r"(\d+)\.(\d+)", numba.__version__)
    if numbers is None or not LOWEST <= (int(numbers[1]), int(numbers[2])) < BELOW:
        return f"numba: found version {numba.__version__}"
    for name, parameters in SYMBOLS.items():
        problem = _problem_of(name, parameters)
        if problem is not None:
            return f"numba: found version {numba.__version__} {problem}"
    return None


def _problem_of(name: str, parameters: tuple[str, ...] | None) -> str | None:
    written = name.replace(":", ".")
    try:
        symbol = _find(name)
        if parameters is None or tuple(inspect.signature(symbol).parameters) == parameters:
            return None
    except (ImportError, AttributeError):
        return f"without {written}"
    except (TypeError, ValueError):  # no function, or one without a signature
        pass
    return f"with other parameters of {written}"


def _find(name: str) -> Any:
    """Return the object of a name ``module:attribute.attribute``."""
    module, _, attributes = name.partition(":")
    return functools.reduce(getattr, attributes.split("."), import_module(module))
