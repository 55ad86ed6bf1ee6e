"""A crew of threads for kernels that release the GIL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context


class ThreadPool:
    """Runs parts of a job at once; the calling thread takes the first part, or all of them while others are at work.

    Parameters
    ----------
    size : int
        Threads, the calling one included.
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
        # what the caller has set holds for all: that nothing may be compiled, above all
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
        """Return which of n things a part takes: a contiguous stretch."""
        return range(n * part // self.size, n * (part + 1) // self.size)
