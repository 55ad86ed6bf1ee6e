"""The layer that uses numba, LLVM and the cache of compiled kernels."""
