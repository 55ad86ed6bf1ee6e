"""Private linking: each kernel has its own copies of the functions that it calls, compiled for it only.

Numba links the functions that a kernel calls into its machine code, optimises them again there, and leaves them
under their global names. Which of several functions of one name was called depended on what a process had compiled
or loaded before. In the process that compiled a kernel it was the function as first compiled; in those that load the
kernel from disk it was its second form, which adds sums in another order.

Numba also makes separate machine code of every function, which is never called if all callers are kernels.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from llvmlite import binding
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import CPUCodeLibrary
from numba.core.cpu import CPUContext
from numba.core.itanium_mangler import mangle

from gossiprec.native.numba_support import is_plain

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
