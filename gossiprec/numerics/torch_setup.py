"""Torch as runs use it: one thread, and optimizers without torch's compiler. Torch is imported when it is used."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import unwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.optim import SGD, Adam


def make_adam(parameters: Any, **options: Any) -> Adam:
    """Return a ``torch.optim.Adam`` of which the methods do not import torch's compiler, which takes long."""
    return _without_wrappers("Adam")(parameters, **options)


def make_sgd(parameters: Any, **options: Any) -> SGD:
    """Return a ``torch.optim.SGD``, in the same way as :func:`make_adam`."""
    return _without_wrappers("SGD")(parameters, **options)


@functools.cache
def _without_wrappers(name: str) -> Any:
    """Return a class of optimizers without the wrappers of its methods, which import torch's compiler."""
    import torch

    base = getattr(torch.optim, name)
    methods = {method: unwrap(getattr(base, method)) for method in ("add_param_group", "zero_grad")}
    return type(name, (base,), {**methods, "step": torch.no_grad()(unwrap(base.step))})


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Let torch use one thread: its division of a sum or a scatter among threads may change the last bits.

    Several of our threads may be inside at once: the last to leave restores the number that the first one found.
    """
    import torch

    with _CONTEXTS.lock:
        if _CONTEXTS.n == 0:
            _CONTEXTS.before = torch.get_num_threads()
        _CONTEXTS.n += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _CONTEXTS.lock:
            _CONTEXTS.n -= 1
            if _CONTEXTS.n == 0:
                torch.set_num_threads(_CONTEXTS.before)


@dataclass
class _OpenContexts:
    """The number of open single-thread contexts, and torch's number of threads before them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    n: int = 0
    before: int = 1


_CONTEXTS = _OpenContexts()
