"""Checks of the state in a checkpoint against that of the same run before it began: types, and counts of any size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gossiprec.arrays import MOST_COUNT
from gossiprec.eventlog.live import Live


def check_state(where: str, found: Any, fresh: Any) -> None:
    """Refuse entries of another kind than the run makes itself, and integers that can count or number nothing.

    Parameters
    ----------
    where : str
        What the entry is called, for the message.
    found : any
        From a checkpoint: mappings, lists, plain values and arrays.
    fresh : any
        What the same part of the run gave before the run began; an empty one says nothing of what it may hold later.

    Raises
    ------
    ValueError
        Naming the entry.
    """
    if isinstance(fresh, Live):
        fresh = fresh.array
    if isinstance(fresh, np.generic):
        fresh = fresh.item()
    if isinstance(fresh, Mapping | list | tuple) or isinstance(found, Mapping | list | tuple):
        _check_several(where, found, fresh)
    elif isinstance(found, np.ndarray):
        _check_array(where, found, fresh)
    elif fresh is not None and _kind(found) != _kind(fresh):
        raise ValueError(f"{where}: found {_kind(found)}; expected {_kind(fresh)}")
    elif isinstance(found, int) and not -1 <= found <= MOST_COUNT:
        raise ValueError(f"{where}: found {found}; expected -1 to {MOST_COUNT}")


def _check_several(where: str, found: Any, fresh: Any) -> None:
    if isinstance(found, Mapping) and (fresh is None or isinstance(fresh, Mapping)):
        for name, value in found.items():
            check_state(f"{where}.{name}", value, (fresh or {}).get(name))
    elif isinstance(found, list | tuple) and (fresh is None or isinstance(fresh, list | tuple)):
        same = [*fresh] if fresh is not None and len(fresh) == len(found) else [None] * len(found)
        for place, (value, like) in enumerate(zip(found, same, strict=True)):
            check_state(f"{where}[{place}]", value, like)
    elif fresh is None or found is not None:
        raise ValueError(f"{where}: found {_kind(found)}; expected {_kind(fresh)}")


def _check_array(where: str, found: np.ndarray[Any, Any], fresh: Any) -> None:
    if fresh is not None and not isinstance(fresh, np.ndarray):
        raise ValueError(f"{where}: found an array; expected {_kind(fresh)}")
    if fresh is not None and fresh.size and (found.dtype.kind, found.ndim) != (fresh.dtype.kind, fresh.ndim):
        raise ValueError(
            f"{where}: found {found.ndim}-dimensional {found.dtype}; expected {fresh.ndim}-dimensional {fresh.dtype}"
        )
    if found.dtype.kind in "iu" and found.size and not (found.min() >= -1 and found.max() <= MOST_COUNT):
        raise ValueError(
            f"{where}: found {found.min()} to {found.max()}; expected numbers from -1 to {MOST_COUNT}"
        )


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return "nothing" if value is None else type(value).__name__
