"""The shard that leads: it asks the others at reports for what they know of their nodes, and writes it down."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.arrays import I64
from gossiprec.compute.inbox_reducer import COUNTS
from gossiprec.emulation.assembly.tape_runner import TapeRunner
from gossiprec.emulation.scoring.metric_inputs import MetricInputs
from gossiprec.emulation.scoring.utility import UtilityEvaluator
from gossiprec.emulation.shards import shard_state
from gossiprec.errors import ResourceError

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


class NoFollowers:
    """What a run that is not divided asks of other shards: nothing."""

    def begin(self, after: int) -> None:
        """Let the others begin after so many reports, in the state that the run is in."""

    def gather_sizes(self) -> None:
        """Have here the sizes of messages as far as others know them alone."""

    def looks(self, utility: UtilityEvaluator) -> Sequence[MetricInputs]:
        """Return what all shards' users are recommended; nothing where this process has all models."""
        return ()

    def gather_learnt(self) -> None:
        """Have here what single observers have found, as far as a report needs it."""

    def gather_all(self) -> None:
        """Have here all that a checkpoint needs."""

    def let_go(self) -> None:
        """Give back the memory of what belongs to others."""

    def go_on(self, *, end: bool) -> None:
        """Let the others go on to the next report, or end."""

    def summary(self) -> dict[str, Any]:
        """Return what is to be told of the shards."""
        return {}


class ShardLeader(NoFollowers):
    """Asks the other shards.

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
        """Let the others begin; hand them what a checkpoint held of their nodes."""
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
        """Have here how large the updates of others' clients are."""
        if not self._prepared.mode.sizes_follow_training:
            return
        self._ask(shard_state.SIZES)
        for sizes in self._answers():
            self._service.take_sizes(sizes)

    def looks(self, utility: UtilityEvaluator) -> list[MetricInputs]:
        """Let every shard look at its own users' models."""
        self._ask(shard_state.LOOK)
        own = self._service.look(utility)
        return [own, *self._answers()]

    def gather_learnt(self) -> None:
        """Have here what single observers have found, and check that all shards have planned the same.

        Raises
        ------
        ResourceError
            If one has not.
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
        """Have here all rows that are needed, all optimizer state and all that observers have learnt."""
        self._ask(shard_state.ALL)
        for shard, found in zip(self._others, self._answers(), strict=True):
            self._service.take_all(shard, found)
            self._service.runner.use(found["rows"][0])

    def let_go(self) -> None:
        """Give back the memory of others' rows and moments."""
        self._service.runner.release()
        self._prepared.executor.store.discard_moments(np.flatnonzero(self._seat.parts.of != 0))

    def go_on(self, *, end: bool) -> None:
        """Let the others go on, or end."""
        self._ask(shard_state.END if end else shard_state.ON)

    def summary(self) -> dict[str, Any]:
        """Return what every shard has sent, and its memory."""
        told = [self._service.learnt(), *self._told]
        return {
            "shards": [
                {"nodes": int((self._seat.parts.of == s).sum()), **t["sent"]} for s, t in enumerate(told)
            ]
        }

    def _bring(self, nodes: I64) -> None:
        """Have here what some nodes of others have for themselves: of rows until memory is given back next."""
        nodes, current = np.unique(nodes), self._prepared.planner.current
        if self._payloads.in_rows:
            nodes = nodes[~self._seat.routes.holds(current[nodes])]
            self._service.runner.use(current[nodes])
        of = self._seat.parts.of[nodes]
        if not of.any():  # also after the last report, when the others have ended
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
