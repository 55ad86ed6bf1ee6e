"""Kernels keep copies of their own of the functions that they call.

Numba links what a kernel calls into its machine code, optimises it once more there, and leaves it under the name that
it has everywhere. Which of several functions of one name was called depended on what a process had compiled or loaded
before: in the process that compiled a kernel it was the function as first compiled, in those that load the kernel from
disk its second form, whose sums are added in another order.
"""

from __future__ import annotations

import hashlib
from typing import Any

from llvmlite import binding
from numba.core.codegen import CPUCodeLibrary

_kernels: set[str] = set()
_optimize = CPUCodeLibrary._optimize_final_module


def keep_copies(kernel: Any) -> None:
    """Let what a function calls, once it is compiled, be called by nobody else."""
    _kernels.add(kernel.__qualname__)


def _renamed_and_optimized(library: Any) -> None:
    """Give what is linked into a kernel names of its own; then optimise, as before."""
    if library.name in _kernels:
        present = [function for function in library._final_module.functions if not function.is_declaration]
        copies = [each for each in present if each.linkage == binding.Linkage.linkonce_odr]
        own = sorted(each.name for each in present if each.linkage == binding.Linkage.external)
        mark = hashlib.sha256(" ".join(own).encode()).hexdigest()[:16]
        for copy in copies:
            copy.name = f"{copy.name}.of.{mark}"
    _optimize(library)


CPUCodeLibrary._optimize_final_module = _renamed_and_optimized  # type: ignore[method-assign]
