"""The leader of a divided run, its followers, and the state of nodes that they exchange.

A follower plays the same events, trains its own nodes, and answers at reports. The leader gathers the answers and
writes them.
"""

from __future__ import annotations

import copy
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ResourceError
from gossiprec.base.machine import peak_rss_mib
from gossiprec.compute.local_update import TrainingSettings
from gossiprec.compute.shards import ShardContext
from gossiprec.compute.shards.runner import ShardRunner
from gossiprec.compute.waves import WaveOptions
from gossiprec.emulation.assembly.carrier import Carrier
from gossiprec.emulation.assembly.components import RunComponents
from gossiprec.emulation.assembly.schedule import Schedule
from gossiprec.emulation.assembly.shard_partition import check_divisible, divide_nodes
from gossiprec.federated import overrides_method

if TYPE_CHECKING:
    from gossiprec.adversaries.attacks.observations import KnownDeliveries
    from gossiprec.emulation.assembly.prepare import PreparedRun
    from gossiprec.emulation.assembly.tape_runner import TapeRunner
    from gossiprec.emulation.carriers.shards.group import ShardGroup
    from gossiprec.emulation.scoring.metric_inputs import MetricInputs
    from gossiprec.emulation.scoring.utility import UtilityEvaluator


BEGIN, ASK, ANSWER = "begin", "ask", "answer"
"""The topics of letters between the leading shard and another."""
SIZES, INPUTS, OBSERVERS, NODES, STATE = "sizes", "inputs", "observers", "nodes", "state"
ON, END = "on", "end"
"""The requests of the leading shard at a report, and the letters that end them."""


class ShardStateService:
    """The service that gathers and restores the state of some nodes of a run.

    Parameters
    ----------
    prepared : PreparedRun
    runner : ShardRunner
    shard : ShardContext
    """

    def __init__(self, prepared: PreparedRun, runner: ShardRunner, shard: ShardContext) -> None:
        self._prepared, self.runner, self.shard = prepared, runner, shard
        self.payloads, self._planner = runner.payloads, prepared.planner
        runner.note_used_rows(self.shard.parts.own_nodes)

    @property
    def users(self) -> I64:
        """The users of this shard, ascending."""
        own, n_users = self.shard.parts.own_nodes, self._prepared.components.split.n_users
        return own[: np.searchsorted(own, n_users)]

    def metric_inputs(self, utility: UtilityEvaluator) -> MetricInputs:
        """Return the metric inputs from the models of the shard's own users."""
        current = self._planner.current_rows
        self.runner.broadcast_rows(self.payloads.common_handles(current))
        return utility.metric_inputs(current, self.users)

    def own_rows_of_nodes(self, nodes: I64) -> F32:
        """Return copies of the own rows of some of its nodes."""
        return self.payloads.copy_own_parts(self._planner.current_rows, nodes)

    def observer_state(self) -> dict[str, Any]:
        """Return the state that a report needs: results of single observers, and counts of the run so far."""
        used = {"processor_s": time.process_time(), "peak_rss_mib": peak_rss_mib()}
        return {
            "attacks": self._attacks(self.shard.number, whole=False),
            "inboxes": self._prepared.seams.reducer.counters(),
            "plan": self.fingerprint,
            "sent": {**vars(self.runner.sent), **used},
        }

    @property
    def fingerprint(self) -> list[int]:
        """The values that must be equal in every shard: each node's row, and its number of updates."""
        planner = self._planner
        return [zlib.crc32(part.tobytes()) for part in (planner.current_rows, planner.update_counts)]

    def full_state(self, number: int | None = None) -> dict[str, Any]:
        """Return copies of the checkpoint state of this shard's nodes, or of another shard's that is known here."""
        number = self.shard.number if number is None else number
        needed = self._planner.needed_rows
        rows = self.payloads.result_handles(needed[self.shard.routes.last_writing_shard(needed) == number])
        nodes = self.shard.parts.nodes_of_shard(number)
        reducer, encoders = self._prepared.seams.reducer, self._prepared.seams.encoders
        return {
            "encoders": [encoder.state(nodes) for encoder in encoders],
            "rows": (rows, self.payloads.pack(rows, nodes)),
            "nodes": self.payloads.state_outside_handles(nodes),
            "attacks": self._attacks(number, whole=True),
            "rules": copy.deepcopy(reducer.state(nodes)),
        }

    def restore_observer_state(self, number: int, attacks: list[Mapping[str, Any] | None]) -> None:
        """Restore the results of single observers of a shard."""
        for attack, state in zip(self._prepared.attacks, attacks, strict=True):
            if state is not None:
                attack.import_node_state(self._observers(attack.nodes, number), state)

    def restore_full_state(self, number: int, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`full_state` returned for the nodes of a shard."""
        nodes, (rows, values) = self.shard.parts.nodes_of_shard(number), state["rows"]
        self.payloads.unpack(rows, values, nodes)
        self.payloads.restore_outside_handles(nodes, state["nodes"])
        self.restore_observer_state(number, state["attacks"])
        self._prepared.seams.reducer.restore(state["rules"], nodes)
        for encoder, memory in zip(self._prepared.seams.encoders, state["encoders"], strict=True):
            encoder.restore(memory, nodes)

    def restore_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Restore the part of a checkpoint that belongs to this shard."""
        prepared, planner = self._prepared, self._planner
        planner.restore(state["planner"])
        for encoder, pushes in zip(prepared.seams.encoders, state["pushes"], strict=True):
            encoder.pushes.restore(pushes)
        prepared.executor.store.grow(planner.capacity)
        self.shard.routes.restore(*planner.last_writers)
        self.payloads.refer_to_versions(planner.needed_rows, state["versions"])
        self.restore_full_state(self.shard.number, state["own"])
        self.runner.note_used_rows(state["own"]["rows"][0])

    def _attacks(self, number: int, *, whole: bool) -> list[Mapping[str, Any] | None]:
        states: list[Mapping[str, Any] | None] = []
        for attack in self._prepared.attacks:
            nodes = self._observers(attack.nodes, number)
            # an attack by a coordinator has no state
            has_state = len(nodes) and type(attack).export_node_state is not Attack.export_node_state
            states.append(attack.export_node_state(nodes, whole=whole) if has_state else None)
        return states

    def _observers(self, nodes: I64, number: int) -> I64:
        return np.asarray(nodes[self.shard.parts.of[nodes] == number])


class Shard(Carrier):
    """The carrier of a process that computes the versions of some nodes; others come from the shards that own them.

    Parameters
    ----------
    place : ShardContext

    Attributes
    ----------
    place : ShardContext
    service : ShardStateService
        Set by :meth:`make_runner`.
    """

    is_divided = True
    service: ShardStateService
    _prepared: PreparedRun

    def __init__(self, place: ShardContext) -> None:
        self.place = place

    def check(self, components: RunComponents, schedule: Schedule) -> None:
        """Refuse to divide a run of which the nodes must stay together."""
        check_divisible(components)

    def divide(
        self, components: RunComponents, attacks: Sequence[Attack], deliveries: KnownDeliveries
    ) -> I64:
        """Divide the nodes among the shards; return those of this shard."""
        shard_of = divide_nodes(components, attacks, deliveries, self.place.n)
        self.place.set_owners(shard_of, keeps_first=components.scenario.churn.model == "reset")
        return self.place.parts.own_nodes

    def make_runner(self, prepared: PreparedRun, options: WaveOptions) -> ShardRunner:
        """Return the runner of this shard's part of plans."""
        runner = ShardRunner(
            prepared.executor,
            prepared.meters,
            options,
            place=self.place,
            needed=prepared.planner.are_needed,
            shares_found=prepared.schedule.depends_on_values and prepared.seams.serving is None,
        )
        self._prepared, self.service = prepared, ShardStateService(prepared, runner, self.place)
        return runner

    def share_values(self, found: I64) -> I64:
        """Return the values that shard 0 found."""
        return self.service.runner.broadcast_found(found)


class ShardLeader(Shard):
    """The shard that leads: it gathers from the other shards.

    Parameters
    ----------
    group : ShardGroup
        The other shards.
    """

    def __init__(self, group: ShardGroup) -> None:
        super().__init__(group.shard)
        self._group, self._number = group, 0
        self._reports: list[dict[str, Any]] = []

    def __enter__(self) -> ShardLeader:
        """Connect the other shards."""
        self._group.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End the other shards."""
        self._group.__exit__(*error)

    def start(self, prepared: PreparedRun) -> None:
        """Let the other shards prepare the run; it is already prepared here."""
        self._group.start(prepared)

    @property
    def _others(self) -> list[int]:
        return self.place.parts.other_shards

    def begin(self, after: int, tape_runner: TapeRunner) -> None:
        """Start the other shards, and send them a checkpoint's state of their nodes."""
        prepared, exchange = self._prepared, self.place.exchange
        training = astuple(prepared.executor.work.training)
        if after == 0:
            for shard in self._others:
                exchange.send(shard, (BEGIN,), {"after": 0, "state": None, "training": training})
            return
        rows, nodes = prepared.planner.last_writers
        self.place.routes.restore(rows, nodes)
        for shard in self._others:
            state = {
                "planner": prepared.planner.state(),
                "carrier": tape_runner.state(),
                "pushes": [encoder.pushes.state() for encoder in prepared.seams.encoders],
                "versions": self.service.payloads.version_numbers(rows),
            }
            state = copy.deepcopy(state) | {"own": self.service.full_state(shard)}
            exchange.send(shard, (BEGIN,), {"after": after, "state": state, "training": training})
        self.service.runner.note_used_rows(rows)
        self.release_remote_rows()

    def gather_update_sizes(self) -> None:
        """Gather the sizes of the updates of other shards' clients."""
        resizes = self._prepared.components.outgoing.nodes_with("resizes").any()
        if not (self._prepared.components.mode.sizes_follow_training or resizes):
            return
        self._ask(SIZES)
        for sizes in self._answers():
            self._prepared.seams.sizes.add(sizes)

    def gather_metric_inputs(self, utility: UtilityEvaluator) -> list[MetricInputs]:
        """Return the metric inputs of every shard's own users."""
        self._ask(INPUTS)
        own = self.service.metric_inputs(utility)
        return [own, *self._answers()]

    def gather_observer_state(self) -> None:
        """Gather the results of single observers, and check that all shards have made the same plan.

        Raises
        ------
        ResourceError
            If a shard has made another plan.
        """
        self._ask(OBSERVERS)
        self._reports = self._answers()
        for shard, report in zip(self._others, self._reports, strict=True):
            if report["plan"] != self.service.fingerprint:
                raise ResourceError(
                    f"shard {shard} planned different events than shard 0, so its machine computes different "
                    "results; use machines of the same kind, or set executor.name to auto"
                )
            self.service.restore_observer_state(shard, report["attacks"])
        reducer, counts = self._prepared.seams.reducer, [report["inboxes"] for report in self._reports]
        reducer.elsewhere = {name: sum(each[name] for each in counts) for name in reducer.counters()}
        recommender = self._prepared.components.coordination.recommender
        if recommender is not None and overrides_method(recommender, "report"):
            self.bring(np.arange(self._prepared.components.split.n_users))

    def gather_full_state(self) -> None:
        """Gather all rows in use, all optimizer state and the state of all observers."""
        self._ask(STATE)
        for shard, state in zip(self._others, self._answers(), strict=True):
            self.service.restore_full_state(shard, state)
            self.service.runner.note_used_rows(state["rows"][0])

    def release_remote_rows(self) -> None:
        """Free the rows and moments of nodes that other shards own."""
        self.service.runner.release_rows()
        self._prepared.executor.store.discard_moments(np.flatnonzero(self.place.parts.of != 0))

    def continue_or_end(self, after: int, *, end: bool, changed: bool) -> None:
        """Let the other shards end, or continue, after a change with the new settings of training."""
        training = [astuple(self._prepared.executor.work.training)] * len(self._others) if changed else None
        self._ask(END if end else ON, training)

    def summary(self) -> dict[str, Any]:
        """Return the bytes that every shard has sent, and its memory."""
        if not self._reports:  # no report was made
            return {}
        reports, shard_of = [self.service.observer_state(), *self._reports], self.place.parts.of
        n_nodes = np.bincount(shard_of, minlength=len(reports)).tolist()
        return {"shards": [{"nodes": n, **r["sent"]} for n, r in zip(n_nodes, reports, strict=True)]}

    def bring(self, nodes: I64) -> None:
        """Gather the own rows of some nodes of other shards; a row stays until memory is freed next."""
        nodes, current = np.unique(nodes), self._prepared.planner.current_rows
        if self.service.payloads.in_rows:
            nodes = nodes[~self.place.routes.holds(current[nodes])]
            self.service.runner.note_used_rows(current[nodes])
        shard_of = self.place.parts.of[nodes]
        if not shard_of.any():  # also after the last report, when the other shards have ended
            return
        parts = [nodes[shard_of == shard] for shard in self._others]
        self._ask(NODES, parts)
        for part, values in zip(parts, self._answers(), strict=True):
            self.service.payloads.store_own_parts(current, part, values)

    def _ask(self, question: str, about: Sequence[Any] | None = None) -> None:
        for index, shard in enumerate(self._others):
            arguments = () if about is None else (about[index],)
            self.place.exchange.send(shard, (ASK, self._number), (question, *arguments))
        self._number += 1

    def _answers(self) -> list[Any]:
        return [self.place.exchange.receive(shard, (ANSWER, self._number - 1)) for shard in self._others]


def run_follower(shard: Shard, prepared: PreparedRun, utility: UtilityEvaluator) -> None:
    """Carry out a shard's part of a run, from the report that shard 0 names until shard 0 ends it."""
    tape_runner, exchange = prepared.tape_runner(), shard.place.exchange
    service, begin = shard.service, exchange.receive(0, (BEGIN,))
    prepared.executor.use_training(TrainingSettings(*begin["training"]))
    if begin["state"] is not None:
        state = copy.deepcopy(begin["state"])  # data from other processes may be read-only
        service.restore_checkpoint(state)
        tape_runner.restore(state["carrier"])
    answers: dict[str, Callable[..., Any]] = {
        SIZES: prepared.seams.sizes.take_new,
        INPUTS: lambda: service.metric_inputs(utility),
        OBSERVERS: service.observer_state,
        NODES: service.own_rows_of_nodes,
        STATE: service.full_state,
    }
    number, replay = 0, tape_runner.replay_segment
    for _ in prepared.schedule.play(tape_runner.run_segment, after=begin["after"], replay_segment=replay):
        tape_runner.take_segments()
        while True:
            question, *about = exchange.receive(0, (ASK, number))
            number += 1
            if question in (ON, END):
                break
            exchange.send(0, (ANSWER, number - 1), answers[question](*about))
        if question == END:
            return
        if about:
            prepared.executor.use_training(TrainingSettings(*about[0]))
