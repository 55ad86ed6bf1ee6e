"""In which round each forged push leaves: poisoners may begin late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossiprec.arrays import I64, Bools
from gossiprec.compute.plan.tape import Behaviour, Event, Op, Segment
from gossiprec.eventlog.live import Stateful


class PushRounds(Stateful):
    """Counts rounds along the tape, by the wakes of the coordinator, or where there is none of each node itself.

    Parameters
    ----------
    nodes : ndarray of bool, shape (n_nodes,)
        Whose pushes are asked for.
    roles : ndarray of int64, shape (n_nodes,)
    behaviours : sequence of Behaviour
    coordinator : int or None
    wakes_per_round : int
    """

    changing = ("wakes", "pushes")

    def __init__(
        self,
        nodes: Bools,
        roles: I64,
        behaviours: Sequence[Behaviour],
        coordinator: int | None,
        wakes_per_round: int = 1,
    ) -> None:
        self._each = wakes_per_round
        self._nodes, self._roles, self._coordinator = nodes, roles, coordinator
        self._pushing = [(Op.PUSH in b.on_wake, Op.PUSH in b.on_receive) for b in behaviours]
        self._wakes = np.zeros(len(nodes), np.int64)
        self._pushes = np.zeros(len(nodes), np.int64)
        self._rounds: dict[tuple[int, int], int] = {}

    def note(self, segment: Segment) -> None:
        """Read a stretch of tape, of which pushes may be asked for until the next."""
        self._rounds.clear()
        wakes = segment.kind == Event.WAKE
        mine = self._nodes[segment.node] & (wakes | (segment.count > 0))
        if self._coordinator is not None:
            mine |= wakes & (segment.node == self._coordinator)
        for event in np.flatnonzero(mine).tolist():
            node, woke = int(segment.node[event]), bool(wakes[event])
            self._wakes[node] += woke
            pushes = self._pushing[int(self._roles[node])][0 if woke else 1]
            if self._nodes[node] and pushes and segment.count[event] > 0:
                clock = node if self._coordinator is None else self._coordinator
                self._rounds[node, int(self._pushes[node])] = -(-int(self._wakes[clock]) // self._each)
                self._pushes[node] += 1

    def round_of(self, node: int, number: int) -> int:
        """Return the round of a node's push, from 1."""
        return self._rounds[node, number]
