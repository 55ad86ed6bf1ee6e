"""The state of a shard's own nodes, and its exchange with the shard that leads."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import F32, I64
from gossiprec.compute.shards.runner import ShardRunner
from gossiprec.compute.shards.shard_context import ShardContext
from gossiprec.emulation.estimate.memory import peak_rss_mib
from gossiprec.emulation.scoring.metric_inputs import MetricInputs
from gossiprec.emulation.scoring.utility import UtilityEvaluator

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun

BEGIN, ASK, ANSWER = "begin", "ask", "answer"
"""The topics of letters between the leading shard and another."""
SIZES, LOOK, LEARNT, OWN, ALL, ON, END = "sizes", "look", "learnt", "own", "all", "on", "end"
"""The requests of the leading shard at a report, and the letters that end them."""


class ShardStateService:
    """The service that gathers and restores the state of some nodes of a run.

    Parameters
    ----------
    prepared : Prepared
    runner : ShardRunner
    """

    def __init__(self, prepared: PreparedRun, runner: ShardRunner) -> None:
        assert prepared.seat is not None
        self._prepared, self.runner, self._seat = prepared, runner, prepared.seat
        self._payloads, self._planner = runner.payloads, prepared.planner
        own = self._seat.parts.own
        runner.use(own)

    @property
    def seat(self) -> ShardContext:
        """The place of this shard in the run."""
        return self._seat

    @property
    def users(self) -> I64:
        """The users of this shard, ascending."""
        own, n_users = self._seat.parts.own, self._prepared.split.n_users
        return own[: np.searchsorted(own, n_users)]

    def sizes(self) -> dict[str, I64]:
        """Return the sizes of updates trained since the last call, and the number of rewritten values of each."""
        return {name: _taken_out(found) for name, found in self._sizes.items()}

    def take_sizes(self, sizes: Mapping[str, I64]) -> None:
        """Add the sizes that :meth:`sizes` returned."""
        for name, found in self._sizes.items():
            found |= {(node, number): size for node, number, size in sizes[name].tolist()}

    def look(self, utility: UtilityEvaluator) -> MetricInputs:
        """Return the metric inputs from the models of the shard's own users."""
        current = self._planner.current
        self.runner.share(self._payloads.common(current))
        return utility.look(current, self.users)

    def own(self, nodes: I64) -> F32:
        """Return copies of the own rows of some of its nodes."""
        return self._payloads.own(self._planner.current, nodes)

    def learnt(self) -> dict[str, Any]:
        """Return the state that a report needs: results of single observers, and counts of the run so far."""
        return {
            "attacks": self._attacks(self._seat.number, whole=False),
            "inboxes": self._prepared.reducing.counts(),
            "plan": self.fingerprint,
            "sent": vars(self.runner.sent) | {"peak_rss_mib": peak_rss_mib()},
        }

    @property
    def fingerprint(self) -> list[int]:
        """The values that must be equal in every shard: each node's row, and its number of updates."""
        return [zlib.crc32(part.tobytes()) for part in (self._planner.current, self._planner.updates)]

    def all(self, number: int | None = None) -> dict[str, Any]:
        """Return copies of the checkpoint state of this shard's nodes, or of another shard's that is known here."""
        number = self._seat.number if number is None else number
        needed = self._planner.needed_rows
        rows = self._payloads.made(needed[self._seat.routes.owner(needed) == number])
        nodes = self._seat.parts.of_shard(number)
        rules = self._prepared.reducing.state()
        return {
            "rows": (rows, self._payloads.pack(rows, nodes)),
            "nodes": self._payloads.state(nodes),
            "attacks": self._attacks(number, whole=True),
            "rules": copy.deepcopy({str(n): rules[str(n)] for n in nodes.tolist() if str(n) in rules}),
        }

    def take_learnt(self, number: int, attacks: list[Mapping[str, Any] | None]) -> None:
        """Restore the results of single observers of a shard."""
        for attack, learnt in zip(self._prepared.attacks, attacks, strict=True):
            if learnt is not None:
                attack.learn(self._observers(attack.nodes, number), learnt)

    def take_all(self, number: int, found: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`all` returned for the nodes of a shard."""
        nodes, (rows, values) = self._seat.parts.of_shard(number), found["rows"]
        self._payloads.unpack(rows, values, nodes)
        self._payloads.restore(nodes, found["nodes"])
        self.take_learnt(number, found["attacks"])
        self._prepared.reducing.take(found["rules"])

    @property
    def _sizes(self) -> dict[str, dict[tuple[int, int], int]]:
        """The sizes and rewritten values of updates that are not logged yet, by node and number of its update."""
        trained, encoding = self._prepared.executor.update_bytes, self._prepared.encoding
        return {
            "updates": {} if trained is None else trained,
            "rewritten": {} if encoding is None else encoding.numbers,
        }

    def _attacks(self, number: int, *, whole: bool) -> list[Mapping[str, Any] | None]:
        found: list[Mapping[str, Any] | None] = []
        for attack in self._prepared.attacks:
            nodes = self._observers(attack.nodes, number)
            tells = (
                len(nodes) and type(attack).learnt is not Attack.learnt
            )  # the coordinator does not need it
            found.append(attack.learnt(nodes, whole=whole) if tells else None)
        return found

    def _observers(self, nodes: I64, number: int) -> I64:
        return np.asarray(nodes[self._seat.parts.of[nodes] == number])


def _taken_out(found: dict[tuple[int, int], int]) -> I64:
    """Return the entries, one per row, and empty the dictionary."""
    rows = [(*which, size) for which, size in found.items()]
    found.clear()
    return np.array(rows, np.int64).reshape(-1, 3)
