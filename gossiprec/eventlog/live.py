"""What a run hands over for a checkpoint: parts with state, arrays of which only some stretches matter, and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gossiprec.arrays import I64

State = Mapping[str, Any]
"""A tree of mappings with names, lists, plain values and arrays."""

Extents = Callable[[], I64]
Changed = Callable[[float], I64]


@dataclass(frozen=True)
class Live:
    """An array of which only some stretches matter; the others come back as zeros.

    Attributes
    ----------
    array : ndarray
        Contiguous.
    extents : callable
        Returns the first element of each stretch and the one after its last, in the flat array: shape (n, 2), sorted.
        It is called when the array is written.
    changed : callable, optional
        Given the virtual time of an earlier checkpoint of this process, returns likewise those of the stretches that
        may hold something else now, or did not matter then; without it the array is written whole each time.
    """

    array: npt.NDArray[Any]
    extents: Extents
    changed: Changed | None = None


class Stateful:
    """Has attributes that change in the course of a run: a checkpoint holds them, without their leading ``_``."""

    changing: ClassVar[tuple[str, ...]] = ()
    """Their names."""

    def state(self) -> dict[str, Any]:
        """Return what changes, for a checkpoint; references will do."""
        return {name: getattr(self, f"_{name}") for name in self.changing}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave in an earlier process."""
        for name in self.changing:
            setattr(self, f"_{name}", state[name])


class Written:
    """Which rows of an array have been written since which report.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows: int) -> None:
        self._at = np.full(n_rows, -np.inf)  # inf: since the last report whose state was asked for

    def note(self, rows: npt.NDArray[np.integer]) -> None:
        """Note that rows have been written, or are about to be."""
        self._at[rows] = np.inf

    def grow(self, n_rows: int) -> None:
        """Make room for more rows, which nobody has written."""
        self._at = np.concatenate([self._at, np.full(n_rows - len(self._at), -np.inf)])

    def report(self, now: float) -> None:
        """Take all that was noted so far for written at `now`, the time of a report whose state is asked for."""
        self._at[self._at == np.inf] = now

    def ever(self) -> I64:
        """Return the rows that have been written, ascending."""
        return np.flatnonzero(self._at > -np.inf)

    def since(self, time: float) -> I64:
        """Return the rows that have been written after a report, ascending."""
        return np.flatnonzero(self._at > time)


def rows_as_extents(rows: I64, width: int) -> I64:
    """Return the stretches of some rows of an array, each `width` elements long."""
    return np.stack([rows * width, (rows + 1) * width], axis=1)
