"""The leader of a divided run: at reports it gathers the state of the other shards' nodes, and writes it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.base.errors import ResourceError
from gossiprec.compute.inbox_reducer import COUNTS
from gossiprec.emulation.assembly.tape_runner import TapeRunner
from gossiprec.emulation.scoring.metric_inputs import MetricInputs
from gossiprec.emulation.scoring.utility import UtilityEvaluator
from gossiprec.emulation.shards import shard_state

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


class NoFollowers:
    """The leader of a run that is not divided, which has no other shards to gather from."""

    def begin(self, after: int) -> None:
        """Start the other shards after `after` reports, in the present state of the run."""

    def gather_sizes(self) -> None:
        """Gather the sizes of messages that only other shards know."""

    def looks(self, utility: UtilityEvaluator) -> Sequence[MetricInputs]:
        """Return the metric inputs of all shards; empty if this process has all models."""
        return ()

    def gather_learnt(self) -> None:
        """Gather the results of single observers that a report needs."""

    def gather_all(self) -> None:
        """Gather the state that a checkpoint needs."""

    def let_go(self) -> None:
        """Free the rows and moments of nodes that other shards own."""

    def go_on(self, *, end: bool) -> None:
        """Let the other shards continue to the next report, or end."""

    def summary(self) -> dict[str, Any]:
        """Return the summary of the shards."""
        return {}


class ShardLeader(NoFollowers):
    """The leader that gathers from the other shards.

    Parameters
    ----------
    prepared : Prepared
    tape_runner : TapeRunner
    """

    def __init__(self, prepared: PreparedRun, tape_runner: TapeRunner) -> None:
        assert prepared.seat is not None
        assert tape_runner.shard is not None
        self._prepared, self._tape_runner, self._seat = prepared, tape_runner, prepared.seat
        self._service = shard_state.ShardStateService(prepared, tape_runner.shard)
        self._payloads, self._others = tape_runner.shard.payloads, self._seat.parts.others
        self._number = 0
        self._told: list[dict[str, Any]] = []
        self._seat.bring = self._bring

    def begin(self, after: int) -> None:
        """Start the other shards, and send them a checkpoint's state of their nodes."""
        prepared, exchange = self._prepared, self._seat.exchange
        if after == 0:
            for shard in self._others:
                exchange.send(shard, (shard_state.BEGIN,), {"after": 0, "state": None})
            return
        rows, nodes = prepared.planner.writers
        self._seat.routes.restore(rows, nodes)
        for shard in self._others:
            state = {
                "planner": prepared.planner.state(),
                "carrier": self._tape_runner.state(),
                "push_rounds": prepared.push_rounds and prepared.push_rounds.state(),
                "versions": self._payloads.versions(rows),
            }
            state = copy.deepcopy(state) | {"own": self._service.all(shard)}
            exchange.send(shard, (shard_state.BEGIN,), {"after": after, "state": state})
        self._service.runner.use(rows)
        self.let_go()

    def gather_sizes(self) -> None:
        """Gather the sizes of the updates of other shards' clients."""
        if not self._prepared.mode.sizes_follow_training:
            return
        self._ask(shard_state.SIZES)
        for sizes in self._answers():
            self._service.take_sizes(sizes)

    def looks(self, utility: UtilityEvaluator) -> list[MetricInputs]:
        """Return the metric inputs of every shard's own users."""
        self._ask(shard_state.LOOK)
        own = self._service.look(utility)
        return [own, *self._answers()]

    def gather_learnt(self) -> None:
        """Gather the results of single observers, and check that all shards have made the same plan.

        Raises
        ------
        ResourceError
            If a shard has made another plan.
        """
        self._ask(shard_state.LEARNT)
        self._told = self._answers()
        for shard, told in zip(self._others, self._told, strict=True):
            if told["plan"] != self._service.fingerprint:
                raise ResourceError(
                    f"shard {shard} planned different events than shard 0, so its machine computes different "
                    "results; use machines of the same kind, or set executor.name to auto"
                )
            self._service.take_learnt(shard, told["attacks"])
        counts = [told["inboxes"] for told in self._told]
        self._prepared.reducing.elsewhere = {n: sum(each[n] for each in counts) for n in COUNTS}
        if self._prepared.reports_on_users:
            self._bring(np.arange(self._prepared.split.n_users))

    def gather_all(self) -> None:
        """Gather all rows in use, all optimizer state and the state of all observers."""
        self._ask(shard_state.ALL)
        for shard, found in zip(self._others, self._answers(), strict=True):
            self._service.take_all(shard, found)
            self._service.runner.use(found["rows"][0])

    def let_go(self) -> None:
        """Free the rows and moments of nodes that other shards own."""
        self._service.runner.release()
        self._prepared.executor.store.discard_moments(np.flatnonzero(self._seat.parts.of != 0))

    def go_on(self, *, end: bool) -> None:
        """Let the other shards continue, or end."""
        self._ask(shard_state.END if end else shard_state.ON)

    def summary(self) -> dict[str, Any]:
        """Return the bytes that every shard has sent, and its memory."""
        told = [self._service.learnt(), *self._told]
        return {
            "shards": [
                {"nodes": int((self._seat.parts.of == s).sum()), **t["sent"]} for s, t in enumerate(told)
            ]
        }

    def _bring(self, nodes: I64) -> None:
        """Gather the own rows of some nodes of other shards; a row stays until memory is freed next."""
        nodes, current = np.unique(nodes), self._prepared.planner.current
        if self._payloads.in_rows:
            nodes = nodes[~self._seat.routes.holds(current[nodes])]
            self._service.runner.use(current[nodes])
        of = self._seat.parts.of[nodes]
        if not of.any():  # also after the last report, when the other shards have ended
            return
        self._ask(shard_state.OWN, [nodes[of == shard] for shard in self._others])
        for shard, values in zip(self._others, self._answers(), strict=True):
            self._payloads.take_own(current, nodes[of == shard], values)

    def _ask(self, question: str, about: Sequence[Any] | None = None) -> None:
        for place, shard in enumerate(self._others):
            told = () if about is None else (about[place],)
            self._seat.exchange.send(shard, (shard_state.ASK, self._number), (question, *told))
        self._number += 1

    def _answers(self) -> list[Any]:
        return [
            self._seat.exchange.receive(shard, (shard_state.ANSWER, self._number - 1))
            for shard in self._others
        ]
