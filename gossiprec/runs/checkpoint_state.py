"""State that a run gives to a checkpoint: stateful parts and partially used arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from gossiprec.base.arrays import I64

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
