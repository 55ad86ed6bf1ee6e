"""A crew of threads for kernels that release the GIL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class ThreadPool:
    """Runs parts of a job at once; the calling thread takes the first part.

    Parameters
    ----------
    size : int
        Threads, the calling one included.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._others = ThreadPoolExecutor(size - 1) if size > 1 else None

    def run(self, job: Callable[[int], None], parts: int | None = None) -> None:
        """Call ``job(0) .. job(size - 1)``, or the first `parts` of them, and return when all have returned."""
        last = self.size if parts is None else min(parts, self.size)
        waiting = [self._others.submit(job, part) for part in range(1, last)] if self._others else []
        try:
            job(0)
        finally:
            for other in waiting:
                other.result()

    def share(self, n: int, part: int) -> range:
        """Return which of n things a part takes: a contiguous stretch."""
        return range(n * part // self.size, n * (part + 1) // self.size)
