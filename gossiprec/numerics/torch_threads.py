"""A context in which torch uses one thread, so that bytes do not depend on the number of threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Let torch use one thread: its division of a sum or a scatter among threads may change the last bits.

    Several of our threads may be inside at once: the last to leave restores the number that the first one found.
    """
    import torch

    with _STRETCHES.lock:
        if _STRETCHES.n == 0:
            _STRETCHES.before = torch.get_num_threads()
        _STRETCHES.n += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _STRETCHES.lock:
            _STRETCHES.n -= 1
            if _STRETCHES.n == 0:
                torch.set_num_threads(_STRETCHES.before)


@dataclass
class _Stretches:
    """The number of open single-thread contexts, and torch's number of threads before them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    n: int = 0
    before: int = 1


_STRETCHES = _Stretches()
