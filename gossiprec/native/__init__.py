"""Everything that touches numba, LLVM and the cache of compiled kernels."""
