"""The performance values that a protocol received, barrier by barrier, from which events can be replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from gossiprec.base.arrays import F32, I32, check_array, check_range

Told: TypeAlias = tuple[I32, I32, F32]
"""Receivers, senders, and the performance of the senders' models."""

_NOTHING: Told = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))


class BarrierRecord:
    """The performance values that the protocol received, in order; 12 bytes per scored model."""

    def __init__(self) -> None:
        self._parts: list[Told] = []
        self._ends: list[int] = []

    def add(self, lesson: Told) -> None:
        """Add the values of the next barrier."""
        self._parts.append(lesson)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(lesson[0]))

    def __iter__(self) -> Iterator[Told]:
        receiver, sender, found = self._joined()
        for low, high in zip([0, *self._ends[:-1]], self._ends, strict=True):
            yield receiver[low:high], sender[low:high], found[low:high]

    def state(self) -> dict[str, Any]:
        """Return all values, for a checkpoint."""
        return {"told": list(self._joined()), "ends": np.array(self._ends, np.int64)}

    def restore(self, state: Mapping[str, Any], n_nodes: int) -> None:
        """Restore the values from :meth:`state`.

        Raises
        ------
        ValueError
            If a node does not exist, or the ends of barriers are not in order.
        """
        receiver, sender, found = state["told"]
        for ids in (receiver, sender):
            check_array("carrier.lessons", ids, _NOTHING[0], grows=True)
            check_range("carrier.lessons", ids, 0, n_nodes - 1)
        check_array("carrier.lessons", found, _NOTHING[2], grows=True)
        ends = np.concatenate([[0], state["ends"], [len(found)]])
        if (np.diff(ends) < 0).any() or not len(receiver) == len(sender) == len(found):
            raise ValueError("carrier.lessons: found entries that are not consecutive")
        self._parts, self._ends = [tuple(state["told"])], state["ends"].tolist()

    def _joined(self) -> Told:
        receiver, sender, found = (np.concatenate(some) for some in zip(_NOTHING, *self._parts, strict=True))
        self._parts = [(receiver, sender, found)]
        return self._parts[0]
