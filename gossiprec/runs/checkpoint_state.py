"""State that a run gives to a checkpoint: stateful parts and partially used arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I64, MOST_COUNT

State = Mapping[str, Any]
"""A tree of mappings with names, lists, plain values and arrays."""

Extents = Callable[[], I64]


@dataclass(frozen=True)
class PartialArray:
    """An array of which only some ranges matter; the rest is restored as zeros.

    Attributes
    ----------
    array : ndarray
        Contiguous.
    extents : callable
        Returns the first element of each range and the one after its last, in the flat array: shape (n, 2), sorted.
        It is called when the array is written.
    """

    array: npt.NDArray[Any]
    extents: Extents


class Stateful:
    """An object with attributes that change during a run: checkpoints hold them, without their leading ``_``."""

    checkpointed: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that change."""

    def state(self) -> dict[str, Any]:
        """Return the changing attributes for a checkpoint; references are enough."""
        return {name: getattr(self, f"_{name}") for name in self.checkpointed}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the attributes that :meth:`state` returned in an earlier process."""
        for name in self.checkpointed:
            setattr(self, f"_{name}", state[name])


def check_state(path: str, found: Any, fresh: Any) -> None:
    """Refuse entries of another kind than the run itself makes, and integers that are out of range for a count.

    Parameters
    ----------
    path : str
        Name of the entry, for the message.
    found : any
        From a checkpoint: mappings, lists, plain values and arrays.
    fresh : any
        State of the same part before the run began; an empty one sets no expectation.

    Raises
    ------
    ValueError
        If an entry does not fit; the message names it.
    """
    if isinstance(fresh, PartialArray):
        fresh = fresh.array
    if isinstance(fresh, np.generic):
        fresh = fresh.item()
    if isinstance(fresh, Mapping | list | tuple) or isinstance(found, Mapping | list | tuple):
        _check_several(path, found, fresh)
    elif isinstance(found, np.ndarray):
        _check_array(path, found, fresh)
    elif fresh is not None and _kind(found) != _kind(fresh):
        raise ValueError(f"{path}: found {_kind(found)}; expected {_kind(fresh)}")
    elif isinstance(found, int) and not -1 <= found <= MOST_COUNT:
        raise ValueError(f"{path}: found {found}; expected -1 to {MOST_COUNT}")


def _check_several(path: str, found: Any, fresh: Any) -> None:
    if isinstance(found, Mapping) and (fresh is None or isinstance(fresh, Mapping)):
        for name, value in found.items():
            check_state(f"{path}.{name}", value, (fresh or {}).get(name))
    elif isinstance(found, list | tuple) and (fresh is None or isinstance(fresh, list | tuple)):
        same = [*fresh] if fresh is not None and len(fresh) == len(found) else [None] * len(found)
        for place, (value, like) in enumerate(zip(found, same, strict=True)):
            check_state(f"{path}[{place}]", value, like)
    elif fresh is None or found is not None:
        raise ValueError(f"{path}: found {_kind(found)}; expected {_kind(fresh)}")


def _check_array(path: str, found: np.ndarray[Any, Any], fresh: Any) -> None:
    if fresh is not None and not isinstance(fresh, np.ndarray):
        raise ValueError(f"{path}: found an array; expected {_kind(fresh)}")
    if fresh is not None and fresh.size and (found.dtype.kind, found.ndim) != (fresh.dtype.kind, fresh.ndim):
        raise ValueError(
            f"{path}: found {found.ndim}-dimensional {found.dtype}; expected {fresh.ndim}-dimensional {fresh.dtype}"
        )
    if found.dtype.kind in "iu" and found.size and not (found.min() >= -1 and found.max() <= MOST_COUNT):
        raise ValueError(
            f"{path}: found {found.min()} to {found.max()}; expected numbers from -1 to {MOST_COUNT}"
        )


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return "nothing" if value is None else type(value).__name__
