"""A pool of buffers for short-lived results: memory is reused once no reference to it is left."""

from __future__ import annotations

import threading
import weakref
from math import prod

import numpy as np

from gossiprec.base.arrays import F32


class BufferPool:
    """An allocator of arrays like ``np.empty`` that reuses the memory of earlier arrays.

    Fresh memory is mapped page by page at the first write, which took a third of the time of clients that take one
    step, and more in threads other than the first, for the allocator frees their memory sooner. There are never more
    pieces than were in use at some time. Any thread may call it.
    """

    def __init__(self) -> None:
        self._free: list[F32] = []
        self._choosing = threading.Lock()

    def empty(self, *shapes: tuple[int, ...]) -> list[F32]:
        """Return uninitialised arrays; their memory is reused once they and all their views are gone."""
        sizes = [prod(shape) for shape in shapes]
        memory = self._piece(sum(sizes))
        whole: F32 = np.frombuffer(memory.data, np.float32)  # to this, and not to the memory, views refer
        weakref.finalize(whole, self._free.append, memory).atexit = False
        ends = np.cumsum(sizes).tolist()
        return [
            whole[end - size : end].reshape(shape)
            for shape, size, end in zip(shapes, sizes, ends, strict=True)
        ]

    def copy(self, numbers: F32) -> F32:
        """Return a copy of an array, in memory of the pool."""
        (found,) = self.empty(numbers.shape)
        found[...] = numbers
        return found

    def _piece(self, size: int) -> F32:
        """Return the smallest free piece that is large enough, or a new one that replaces the largest."""
        with self._choosing:
            by_size = sorted(range(len(self._free)), key=lambda at: len(self._free[at]))
            fits = [at for at in by_size if len(self._free[at]) >= size]
            if fits or by_size:
                piece = self._free.pop((fits or by_size[::-1])[0])
                if fits:
                    return piece
        return np.empty(size + size // 4 + 1, np.float32)
