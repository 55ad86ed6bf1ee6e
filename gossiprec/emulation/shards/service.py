"""What a shard knows of its own nodes, and tells the shard that leads when it asks."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.arrays import F32, I64
from gossiprec.attacks import Attack
from gossiprec.compute.shards.runner import ShardRunner
from gossiprec.compute.shards.seat import Seat
from gossiprec.emulation.assembly.memory import peak_rss_mib

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import Prepared

BEGIN, ASK, ANSWER = "begin", "ask", "answer"
"""What letters between the leading shard and another are about."""
LOOK, LEARNT, ROWS, ALL, ON, END = "look", "learnt", "rows", "all", "on", "end"
"""What the leading shard asks for at a report, and with what it ends its questions."""


class Service:
    """Gathers and takes over what belongs to some nodes of a run.

    Parameters
    ----------
    prepared : Prepared
    runner : ShardRunner
    """

    def __init__(self, prepared: Prepared, runner: ShardRunner) -> None:
        assert prepared.seat is not None
        self._prepared, self.runner, self._seat = prepared, runner, prepared.seat
        self._arena, self._planner = prepared.executor.work.arena, prepared.planner
        own = self._seat.parts.own
        runner.use(own)

    @property
    def seat(self) -> Seat:
        """Which shard this is."""
        return self._seat

    @property
    def users(self) -> I64:
        """Its own users, ascending."""
        own, n_users = self._seat.parts.own, self._prepared.split.n_users
        return own[: np.searchsorted(own, n_users)]

    def rows(self, rows: I64) -> F32:
        """Return copies of rows."""
        found: F32 = self._arena.rows[rows]
        return found

    def learnt(self) -> dict[str, Any]:
        """Return what a report needs: what single observers have found, and how the run has gone so far."""
        return {
            "attacks": self._attacks(self._seat.number, whole=False),
            "n_discarded": self._prepared.reducing.n_discarded,
            "plan": self.fingerprint,
            "sent": vars(self.runner.sent) | {"peak_rss_mib": peak_rss_mib()},
        }

    @property
    def fingerprint(self) -> list[int]:
        """What must be the same in every shard: where each node's version lies, and how often each has trained."""
        return [zlib.crc32(part.tobytes()) for part in (self._planner.current, self._planner.updates)]

    def all(self, number: int | None = None) -> dict[str, Any]:
        """Return copies of all that a checkpoint holds of the nodes of this shard, or of another that is known here."""
        number = self._seat.number if number is None else number
        needed = self._planner.needed_rows
        rows, nodes = needed[self._seat.routes.owner(needed) == number], self._seat.parts.of_shard(number)
        trained = nodes if len(self._arena.first) else nodes[:0]
        rules = self._prepared.reducing.state()
        return {
            "rows": (rows, self._arena.rows[rows]),
            "moments": (self._arena.first[trained], self._arena.second[trained]),
            "steps": self._arena.steps[nodes],
            "attacks": self._attacks(number, whole=True),
            "rules": copy.deepcopy({str(n): rules[str(n)] for n in nodes.tolist() if str(n) in rules}),
        }

    def take_learnt(self, number: int, attacks: list[Mapping[str, Any] | None]) -> None:
        """Take over what single observers of a shard have found."""
        for attack, learnt in zip(self._prepared.attacks, attacks, strict=True):
            if learnt is not None:
                attack.learn(self._observers(attack.nodes, number), learnt)

    def take_all(self, number: int, found: Mapping[str, Any]) -> None:
        """Take over what :meth:`all` gave of the nodes of a shard."""
        nodes, (rows, values) = self._seat.parts.of_shard(number), found["rows"]
        self._arena.rows[rows] = values
        if len(self._arena.first):
            self._arena.first[nodes], self._arena.second[nodes] = found["moments"]
        self._arena.steps[nodes] = found["steps"]
        self.take_learnt(number, found["attacks"])
        self._prepared.reducing.take(found["rules"])

    def _attacks(self, number: int, *, whole: bool) -> list[Mapping[str, Any] | None]:
        found: list[Mapping[str, Any] | None] = []
        for attack in self._prepared.attacks:
            nodes = self._observers(attack.nodes, number)
            tells = (
                len(nodes) and type(attack).learnt is not Attack.learnt
            )  # at the coordinator nobody has to
            found.append(attack.learnt(nodes, whole=whole) if tells else None)
        return found

    def _observers(self, nodes: I64, number: int) -> I64:
        return np.asarray(nodes[self._seat.parts.of[nodes] == number])
