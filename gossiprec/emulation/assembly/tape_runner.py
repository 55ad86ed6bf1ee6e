"""The tape runner: it plans and computes tape segments, and passes the results to the protocol.

The results that the protocol received are recorded barrier by barrier, so that events can be replayed from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.arrays import F32, I32, I64
from gossiprec.compute.inbox_reducer import ServerRunner
from gossiprec.compute.plan.program import ExecutionPlan, Program
from gossiprec.compute.plan.tape import TapeEvent, TapeSegment, concat_segments, split_at_wakes
from gossiprec.compute.waves import FiniteCheck, NotFiniteError, WaveOptions, update_times
from gossiprec.emulation.assembly.schedule import segment_deliveries
from gossiprec.emulation.progress import Stopwatch

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


class ReceivedValues(NamedTuple):
    """Receivers, senders, and the performance of the senders' models."""

    receiver: I32
    sender: I32
    value: F32


EMPTY = ReceivedValues(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))


class BarrierRecord:
    """The performance values that the protocol received, in order; 12 bytes per scored model."""

    def __init__(self) -> None:
        self._parts: list[ReceivedValues] = []

    def add(self, values: ReceivedValues) -> None:
        """Add the values of the next barrier."""
        self._parts.append(values)

    def __iter__(self) -> Iterator[ReceivedValues]:
        return iter(self._parts)

    def state(self) -> dict[str, Any]:
        """Return all values, for a checkpoint."""
        columns = [np.concatenate(parts) for parts in zip(EMPTY, *self._parts, strict=True)]
        ends = np.cumsum([len(part.value) for part in self._parts], dtype=np.int64)
        return {"values": columns, "ends": ends}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the values from :meth:`state`."""
        self._parts = [
            ReceivedValues(*(column[low:high] for column in state["values"]))
            for low, high in itertools.pairwise([0, *state["ends"].tolist()])
        ]


class TapeRunner:
    """The runner that turns tape into trained models.

    Parameters
    ----------
    prepared : PreparedRun
    stopwatch : Stopwatch
        Measures the time of planning, computing and learning.

    Attributes
    ----------
    n_refused : int
        Number of messages so far after which a node did not train, because no model was fit to merge.
    """

    def __init__(self, prepared: PreparedRun, stopwatch: Stopwatch) -> None:
        self._serving, self._schedule = prepared.seams.serving, prepared.schedule
        self._encoders, self._schemes = prepared.seams.encoders, prepared.seams.schemes
        components = prepared.components
        self._protocol, self._mode, self._planner = components.protocol, components.mode, prepared.planner
        self._executor = prepared.executor
        self._deliveries, self._meters = prepared.deliveries, prepared.meters
        self._stopwatch, self._carrier = stopwatch, prepared.carrier
        wave_size = components.scenario.executor.wave_size
        reducer = prepared.seams.reducer if prepared.seams.reducer.has_inboxes else None
        merging = [step for scheme in self._schemes for step in scheme.steps]
        steps = (reducer, *merging, *self._encoders)
        options = WaveOptions(
            threads=prepared.threads,
            wave_size=None if wave_size == "unlimited" else wave_size,
            steps=[step for step in steps if step],
            check=None if prepared.discards_invalid_models else FiniteCheck(self._executor),
        )
        self._runner = self._carrier.make_runner(prepared, options)
        self._announces = not self._schedule.deliveries.complete
        self._sender = np.zeros(self._schedule.n_messages if self._announces else 0, np.int32)
        self._segments: list[TapeSegment] = []
        self._refused: list[I64] = []
        self._groups = np.full(self._protocol.n_users, -1, np.int32)
        self._barriers = BarrierRecord()
        self._replayed: Iterator[ReceivedValues] = iter(())
        self.n_refused = 0

    def state(self) -> dict[str, Any]:
        """Return the deliveries and all values that the protocol received, for a checkpoint at a report."""
        return {"sender": self._sender, "n_refused": self.n_refused, "values": self._barriers.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        self._sender, self.n_refused = state["sender"], state["n_refused"]
        self._barriers.restore(state["values"])
        self._replayed = iter(list(self._barriers))

    def replay_segment(self, segment: TapeSegment) -> None:
        """Replay a segment that an earlier process carried out, with the values that the protocol received."""
        for scheme in self._schemes:
            scheme.replay_segment(segment)
        if self._schedule.depends_on_values:
            self._send_values(next(self._replayed))

    @property
    def bookkeeping_seconds(self) -> float:
        """Time in which the calling thread neither computed, compiled nor waited for computations."""
        return self._runner.bookkeeping_seconds

    @property
    def compiling_seconds(self) -> float:
        """Time in which kernels were compiled while segments were computed."""
        return self._runner.compiling_seconds

    def run_segment(self, segment: TapeSegment) -> None:
        """Plan and compute a tape segment; afterwards every node's row is its current model."""
        self._segments.append(segment)
        for encoder in self._encoders:
            encoder.pushes.read_segment(segment)
        for scheme in self._schemes:
            scheme.read_segment(segment)
        if self._announces:
            with self._stopwatch("plan"):
                self._announce(segment)
        if self._serving is not None:
            self._compute_by_rounds(segment, self._serving)
            if self._schedule.depends_on_values:
                self._send_groups(self._serving)
            return
        # a plan of updates ends with the round, because updates take memory until the coordinator wakes
        by_round = self._mode.plans_by_round
        for part in split_at_wakes(segment, self._protocol.n_users, apart=False) if by_round else [segment]:
            plan = self._compute(part)
            self._drop_unneeded()
        if self._schedule.depends_on_values:
            with self._stopwatch("learn"):
                self._send_performance(plan)

    def _compute(self, segment: TapeSegment) -> ExecutionPlan:
        """Plan a tape segment and compute it."""
        with self._stopwatch("plan"):
            plan = self._planner.plan(segment)
            self._executor.store.grow(self._planner.capacity)
        if not self._carrier.computes:
            return plan
        with self._stopwatch("compute"):
            try:
                self._runner.run(plan)
            except NotFiniteError as error:
                if error.time is not None:  # another shard raised it
                    raise
                raise error.with_time(self._time_of(error, segment, plan.program)) from None
        return plan

    def _time_of(self, error: NotFiniteError, segment: TapeSegment, program: Program) -> float:
        """Return the virtual time of the local update in which an error occurred."""
        behaviour = self._protocol.role_behaviours[self._protocol.roles[error.node]]
        times = update_times(segment, error.node, behaviour, inline=self._schedule.deliveries_implied)
        first = program.update[(program.node == error.node) & (program.update >= 0)].min()
        return float(times[error.update - first])

    def _drop_unneeded(self) -> None:
        """Free the versions that are no longer referenced, once after each arrival of answers."""
        with self._stopwatch("compute"):
            self._executor.store.drop_unneeded(self._planner)

    def _compute_by_rounds(self, segment: TapeSegment, serving: ServerRunner) -> None:
        """Carry out a tape segment round by round, because the versions that are sent may depend on values."""
        coordinator = self._protocol.n_users
        parts = split_at_wakes(segment, coordinator, apart=True)
        waking = [_is_wake_of(coordinator, part) for part in parts]
        for part, wakes, wakes_next in zip(parts, waking, [*waking, True][1:], strict=True):
            if wakes:
                plan, rows = self._planner.plan_server_task(coordinator, serving.n_versions)
                self._executor.store.grow(self._planner.capacity)
                serving.set_version_rows(rows)
                with self._stopwatch("compute"):
                    self._runner.run(plan)
            self._compute(part)
            if wakes:
                self._planner.replace_sent_versions(part, rows[serving.version_of[part.receiver]])
            if wakes_next or not wakes:
                self._drop_unneeded()

    def _announce(self, segment: TapeSegment) -> None:
        """Pass deliveries that were not known ahead to the observers."""
        first = segment.first_message
        self._sender[first : first + len(segment.sender)] = segment.sender
        message, receiver, time = segment_deliveries(segment, self._schedule.deliveries_implied)
        sender = self._sender[message]
        deliveries = KnownDeliveries(message, sender, receiver, time, len(self._sender), complete=False)
        self._deliveries.note_deliveries(deliveries)
        for meter in self._meters:
            meter.attack.extend_deliveries(meter.deliveries_to_own_nodes(deliveries))

    def _send_performance(self, plan: ExecutionPlan) -> None:
        """Send the protocol the performance of the models that a plan scored, and note the messages it refused."""
        program = plan.program
        scored = np.flatnonzero(~np.isnan(program.found))
        receiver = np.repeat(program.node, np.diff(program.merge_offsets))[scored]
        sender = self._sender[program.merge_message[scored]]
        self._send_values(ReceivedValues(receiver, sender, program.found[scored]), new=True)
        last = program.merge_offsets[1:][program.refused & (program.update >= 0)] - 1
        self._refused.append(_wide(program.merge_message[last]))
        self.n_refused += len(last)

    def _send_groups(self, serving: ServerRunner) -> None:
        """Send the protocol the group of each client, if any has changed."""
        assert serving.groups is not None, "see assembly.components"
        groups = self._carrier.share_values(serving.groups).astype(np.int32)
        clients = np.arange(0 if np.array_equal(groups, self._groups) else len(groups), dtype=np.int32)
        self._groups = groups
        values = ReceivedValues(clients, groups[clients], np.zeros(len(clients), np.float32))
        self._send_values(values, new=True)

    def _send_values(self, values: ReceivedValues, *, new: bool = False) -> None:
        """Send values to the protocol, and record new ones."""
        if new:
            self._barriers.add(values)
        self._protocol.receive_values(_wide(values.receiver), _wide(values.sender), values.value)

    def take_segments(self) -> tuple[TapeSegment, I64]:
        """Return the tape carried out since the last call, and the messages in it after which no node trained."""
        segment = concat_segments(self._segments)
        refused = np.concatenate([_wide(EMPTY.sender), *self._refused])
        self._segments, self._refused = [], []
        return segment, refused


def _is_wake_of(node: int, part: TapeSegment) -> bool:
    return len(part.kind) == 1 and bool(part.kind[0] == TapeEvent.WAKE) and int(part.node[0]) == node


def _wide(ids: I32) -> I64:
    return ids.astype(np.int64)
