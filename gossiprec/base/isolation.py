"""Copies and call-only functions for plug-ins, from which no data of a run can be reached.

Code of gossiprec itself shares arrays with the run, because copies cost time. Any other class gets arrays that own
their data, and functions that hold no reference to the run.
"""

from __future__ import annotations

import copy
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

_functions: dict[int, Callable[..., Any]] = {}
_numbers = itertools.count()


def is_foreign(*things: object) -> bool:
    """Return whether the class of any of some objects is defined outside gossiprec; None counts as gossiprec's."""
    return any(thing is not None and not _is_ours(type(thing)) for thing in things)


def is_foreign_class(kind: type) -> bool:
    """Return whether a class is defined outside gossiprec."""
    return not _is_ours(kind)


def _is_ours(kind: type) -> bool:
    return kind.__module__ == "builtins" or kind.__module__.partition(".")[0] == "gossiprec"


class CallOnly:
    """A function of the run that a plug-in may call. The object holds only a number, and returns copies.

    Parameters
    ----------
    function : callable
    """

    __slots__ = ("__weakref__", "_number")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._number = next(_numbers)
        _functions[self._number] = function
        weakref.finalize(self, _functions.pop, self._number).atexit = False

    def __call__(self, *given: Any) -> Any:
        """Return a copy of the function's value."""
        return copy_data(_functions[self._number](*copy_data(given)))


def copy_data(value: Any) -> Any:
    """Return a copy of arrays, of containers of arrays and of gossiprec's data objects; every array owns its data."""
    found = value
    if isinstance(value, np.ndarray):
        found = np.array(value, order="C", subok=False)
    elif isinstance(value, dict):
        found = {key: copy_data(each) for key, each in value.items()}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        found = type(value)(*(copy_data(each) for each in value))
    elif isinstance(value, list | tuple):
        found = type(value)(copy_data(each) for each in value)
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        found = copy.copy(value)
        for name, each in vars(value).items():
            object.__setattr__(found, name, copy_data(each))
    return found
