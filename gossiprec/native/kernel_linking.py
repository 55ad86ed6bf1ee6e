"""Kernels keep copies of their own of the functions that they call, which are compiled for them alone.

Numba links what a kernel calls into its machine code, optimises it once more there, and leaves it under the name that
it has everywhere. Which of several functions of one name was called depended on what a process had compiled or loaded
before: in the process that compiled a kernel it was the function as first compiled, in those that load the kernel from
disk its second form, whose sums are added in another order.

Numba also makes machine code of every function by itself, which nobody calls where all callers are kernels.
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
    """Let what a function calls, once it is compiled, be called by nobody else."""
    symbol = mangle(f"{kernel.__module__}.{kernel.__qualname__}", ())
    _kernels.setdefault(kernel.__qualname__, set()).add(symbol.removesuffix("E"))


def link_only(function: Any) -> None:
    """Make no machine code of a function but where it is part of a kernel, or has a way in from Python."""
    _linked_only.add((function.__module__, function.__qualname__))


@functools.wraps(_optimize)
def _renamed_and_optimized(library: Any) -> None:
    """Give what is linked into a kernel names of its own; then optimise, as before."""
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
    """Return what stands for a compiled function in Python; for one that is linked only, what nobody can call."""
    if (described.modname, described.qualname) not in _linked_only or _has_way_in(library, described):
        return _make_callable(context, library, described, env)
    library.linked_only = True
    no_code = 0
    return _dynfunc.make_function(
        described.lookup_module(), described.qualname, described.qualname, no_code, env, (library,)
    )


def _has_way_in(library: Any, described: Any) -> bool:
    """Return whether a function can be called from Python; what comes from disk can."""
    if library._finalized:
        return True
    try:
        library.get_function(described.llvm_cpython_wrapper_name)
    except NameError:
        return False
    return True


@functools.wraps(_finish)
def _finished(library: Any) -> None:
    """Hand the code of a function to the processor, or leave it as it is for those who link it."""
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
