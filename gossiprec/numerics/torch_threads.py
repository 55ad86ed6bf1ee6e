"""One torch thread for a while, because bytes are not to depend on how many there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Let torch use one thread: how it divides a sum or a scatter among threads may show in the last bits.

    Several of our threads may be in such a stretch at once: the last to leave gives back what the first has found.
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
    """Stretches with one torch thread that are going on, and torch's threads before them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    n: int = 0
    before: int = 1


_STRETCHES = _Stretches()
