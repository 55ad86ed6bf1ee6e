"""A thread pool for kernels that release the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context


class ThreadPool:
    """A pool that runs the parts of a job in parallel; the calling thread runs the first, or all if the pool is busy.

    Parameters
    ----------
    size : int
        Number of threads, including the calling one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._others = ThreadPoolExecutor(size - 1) if size > 1 else None
        self._at_work = threading.Lock()

    def run(self, job: Callable[[int], None], parts: int | None = None) -> None:
        """Call ``job(0) .. job(size - 1)``, or the first `parts` of them, and return when all have returned."""
        last = self.size if parts is None else min(parts, self.size)
        if self._others is None or last < 2 or not self._at_work.acquire(blocking=False):
            for part in range(last):
                job(part)
            return
        # the caller's context holds in all threads, above all the setting that forbids compiling
        waiting = [self._others.submit(copy_context().run, job, part) for part in range(1, last)]
        try:
            job(0)
        finally:
            try:
                for other in waiting:
                    other.result()
            finally:
                self._at_work.release()

    def share(self, n: int, part: int) -> range:
        """Return the contiguous range of `n` elements that a part takes."""
        return range(n * part // self.size, n * (part + 1) // self.size)
