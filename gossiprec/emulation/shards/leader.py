"""The leader of a divided run, its followers, and the state of nodes that they exchange.

A follower plays the same events, trains its own nodes, and answers at reports. The leader gathers the answers and
writes them.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ResourceError
from gossiprec.compute.inbox_reducer import COUNTS
from gossiprec.compute.shards.row_routing import ShardContext
from gossiprec.compute.shards.runner import ShardRunner
from gossiprec.emulation.assembly.tape_runner import TapeRunner
from gossiprec.emulation.estimate.memory import peak_rss_mib
from gossiprec.emulation.scoring.metric_inputs import MetricInputs
from gossiprec.emulation.scoring.utility import UtilityEvaluator, make_utility_evaluator

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
                attack.import_node_state(self._observers(attack.nodes, number), learnt)

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
                len(nodes) and type(attack).export_node_state is not Attack.export_node_state
            )  # the coordinator does not need it
            found.append(attack.export_node_state(nodes, whole=whole) if tells else None)
        return found

    def _observers(self, nodes: I64, number: int) -> I64:
        return np.asarray(nodes[self._seat.parts.of[nodes] == number])


def _taken_out(found: dict[tuple[int, int], int]) -> I64:
    """Return the entries, one per row, and empty the dictionary."""
    rows = [(*which, size) for which, size in found.items()]
    found.clear()
    return np.array(rows, np.int64).reshape(-1, 3)


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
        self._service = ShardStateService(prepared, tape_runner.shard)
        self._payloads, self._others = tape_runner.shard.payloads, self._seat.parts.others
        self._number = 0
        self._told: list[dict[str, Any]] = []
        self._seat.bring = self._bring

    def begin(self, after: int) -> None:
        """Start the other shards, and send them a checkpoint's state of their nodes."""
        prepared, exchange = self._prepared, self._seat.exchange
        if after == 0:
            for shard in self._others:
                exchange.send(shard, (BEGIN,), {"after": 0, "state": None})
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
            exchange.send(shard, (BEGIN,), {"after": after, "state": state})
        self._service.runner.use(rows)
        self.let_go()

    def gather_sizes(self) -> None:
        """Gather the sizes of the updates of other shards' clients."""
        if not self._prepared.mode.sizes_follow_training:
            return
        self._ask(SIZES)
        for sizes in self._answers():
            self._service.take_sizes(sizes)

    def looks(self, utility: UtilityEvaluator) -> list[MetricInputs]:
        """Return the metric inputs of every shard's own users."""
        self._ask(LOOK)
        own = self._service.look(utility)
        return [own, *self._answers()]

    def gather_learnt(self) -> None:
        """Gather the results of single observers, and check that all shards have made the same plan.

        Raises
        ------
        ResourceError
            If a shard has made another plan.
        """
        self._ask(LEARNT)
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
        self._ask(ALL)
        for shard, found in zip(self._others, self._answers(), strict=True):
            self._service.take_all(shard, found)
            self._service.runner.use(found["rows"][0])

    def let_go(self) -> None:
        """Free the rows and moments of nodes that other shards own."""
        self._service.runner.release()
        self._prepared.executor.store.discard_moments(np.flatnonzero(self._seat.parts.of != 0))

    def go_on(self, *, end: bool) -> None:
        """Let the other shards continue, or end."""
        self._ask(END if end else ON)

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
        self._ask(OWN, [nodes[of == shard] for shard in self._others])
        for shard, values in zip(self._others, self._answers(), strict=True):
            self._payloads.take_own(current, nodes[of == shard], values)

    def _ask(self, question: str, about: Sequence[Any] | None = None) -> None:
        for place, shard in enumerate(self._others):
            told = () if about is None else (about[place],)
            self._seat.exchange.send(shard, (ASK, self._number), (question, *told))
        self._number += 1

    def _answers(self) -> list[Any]:
        return [self._seat.exchange.receive(shard, (ANSWER, self._number - 1)) for shard in self._others]


def run_follower(prepared: PreparedRun) -> None:
    """Carry out a shard's part of a run, from the report that shard 0 names until shard 0 ends it."""
    seat, tape_runner = prepared.seat, prepared.tape_runner()
    assert seat is not None
    assert tape_runner.shard is not None
    own = ShardStateService(prepared, tape_runner.shard)
    utility = make_utility_evaluator(prepared, beside=False)
    begin = seat.exchange.receive(0, (BEGIN,))
    if begin["state"] is not None:
        state = copy.deepcopy(begin["state"])  # data from other processes may be read-only
        _restore(prepared, own, state)
        tape_runner.restore(state["carrier"])
    answers: dict[str, Callable[..., Any]] = {
        SIZES: own.sizes,
        LOOK: lambda: own.look(utility),
        LEARNT: own.learnt,
        OWN: own.own,
        ALL: own.all,
    }
    number = 0
    for _ in prepared.schedule.play(tape_runner.carry_out, after=begin["after"], recall=tape_runner.recall):
        tape_runner.taken()
        while True:
            question, *about = seat.exchange.receive(0, (ASK, number))
            number += 1
            if question in (ON, END):
                break
            seat.exchange.send(0, (ANSWER, number - 1), answers[question](*about))
        if question == END:
            return


def _restore(prepared: PreparedRun, own: ShardStateService, state: Mapping[str, Any]) -> None:
    """Restore the part of a checkpoint that belongs to this shard."""
    prepared.planner.restore(state["planner"])
    if prepared.push_rounds is not None:
        prepared.push_rounds.restore(state["push_rounds"])
    prepared.executor.store.grow(prepared.planner.capacity)
    own.seat.routes.restore(*prepared.planner.writers)
    own.runner.payloads.refer(prepared.planner.needed_rows, state["versions"])
    own.take_all(own.seat.number, state["own"])
    own.runner.use(state["own"]["rows"][0])
