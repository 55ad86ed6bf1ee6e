"""The tape runner: it plans and computes tape segments, and passes the results to the protocol.

The results that the protocol received are recorded barrier by barrier, so that events can be replayed from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.arrays import F32, I32, I64, check_array, check_range
from gossiprec.compute.inbox_reducer import ServerRunner
from gossiprec.compute.plan.planner_state import PastEvents
from gossiprec.compute.plan.program import ExecutionPlan, Program
from gossiprec.compute.plan.tape import TapeEvent, TapeSegment, concat_segments, split_at_wakes
from gossiprec.compute.shards.runner import ShardRunner
from gossiprec.compute.waves import FiniteCheck, NotFiniteError, WaveOptions, WaveRunner, update_times
from gossiprec.emulation.progress import Stopwatch

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


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


class TapeRunner:
    """The runner that turns tape into trained models.

    Parameters
    ----------
    prepared : Prepared
    watch : Stopwatch
        Measures the time of planning, computing and learning.

    Attributes
    ----------
    n_refused : int
        Number of messages so far after which a node did not train, because no model was fit to merge.
    shard : ShardRunner or None
        The runner of a shard's plans, or None if the run is not divided.
    """

    def __init__(self, prepared: PreparedRun, watch: Stopwatch) -> None:
        self._serving, self._schedule = prepared.serving, prepared.schedule
        self._push_rounds = prepared.push_rounds
        self._protocol, self._mode, self._planner = prepared.protocol, prepared.mode, prepared.planner
        self._executor = prepared.executor
        self._deliveries, self._meters = prepared.deliveries, prepared.meters
        self._watch = watch
        wave_size = prepared.scenario.executor.wave_size
        steps = (prepared.reducing if prepared.reducing.any else None, prepared.encoding)
        options = WaveOptions(
            threads=prepared.threads,
            wave_size=None if wave_size == "unlimited" else wave_size,
            steps=[step for step in steps if step],
            check=None if prepared.invalid_left_out else FiniteCheck(self._executor),
        )
        self.shard: ShardRunner | None = None
        if prepared.seat is not None:
            self.shard = ShardRunner(
                self._executor,
                self._meters,
                options,
                place=prepared.seat,
                needed=self._planner.are_needed,
                shares_found=self._schedule.depends_on_values and self._serving is None,
            )
        self._runner = self.shard or WaveRunner(self._executor, self._meters, options)
        complete = self._schedule.meetings.complete
        self._sender = np.zeros(0 if complete else self._schedule.n_messages, np.int32)
        self._stretches: list[TapeSegment] = []
        self._refused: list[I64] = []
        self._groups = np.full(self._protocol.n_users, -1, np.int32)
        self._told = BarrierRecord()
        self._known: Iterator[Told] = iter(())
        self._past = PastEvents(self._protocol.n_nodes, inline=self._schedule.inline)
        self.n_refused = 0

    def state(self) -> dict[str, Any]:
        """Return the deliveries and all values that the protocol received, for a checkpoint at a report."""
        return {"sender": self._sender, "n_refused": self.n_refused, "lessons": self._told.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        check_array("carrier.sender", state["sender"], self._sender)
        check_range("carrier.sender", state["sender"], 0, self._protocol.n_nodes - 1)
        self._sender, self.n_refused = state["sender"], state["n_refused"]
        self._told.restore(state["lessons"], self._protocol.n_nodes)
        self._known = iter(self._told)

    def recall(self, segment: TapeSegment) -> None:
        """Replay a segment that an earlier process carried out, with the values that the protocol received."""
        self._past.note(segment)
        if self._schedule.depends_on_values:
            self._teach(next(self._known))

    @property
    def bookkeeping_seconds(self) -> float:
        """Time in which the calling thread neither computed nor waited for computations."""
        return self._runner.bookkeeping_seconds

    def carry_out(self, segment: TapeSegment) -> None:
        """Plan and compute a tape segment; afterwards every node's row is its current model.

        Raises
        ------
        ValueError
            If the planner's state came from a checkpoint that does not fit the tape before it.
        """
        if self._past.any:
            self._planner.check_past(self._past)
            self._past = PastEvents(self._protocol.n_nodes, inline=self._schedule.inline)
        self._stretches.append(segment)
        if self._push_rounds is not None:
            self._push_rounds.note(segment)
        if not self._schedule.meetings.complete:
            with self._watch("plan"):
                self._announce(segment)
        if self._serving is not None:
            self._carry_by_rounds(segment, self._serving)
            if self._schedule.depends_on_values:
                self._learn_groups(self._serving)
            return
        for piece in self._pieces(segment):
            plan = self._carry(piece)
            self._forget()
        if self._schedule.depends_on_values:
            with self._watch("learn"):
                self._learn(plan)

    def _carry(self, segment: TapeSegment) -> ExecutionPlan:
        """Plan a tape segment and compute it."""
        with self._watch("plan"):
            plan = self._planner.plan(segment)
            self._executor.store.grow(self._planner.capacity)
        with self._watch("compute"):
            try:
                self._runner.run(plan)
            except NotFiniteError as error:
                if error.time is not None:  # another shard raised it
                    raise
                raise error.at(self._time_of(error, segment, plan.program)) from None
        return plan

    def _time_of(self, error: NotFiniteError, segment: TapeSegment, program: Program) -> float:
        """Return the virtual time of the local update in which an error occurred."""
        behaviour = self._protocol.behaviours[self._protocol.roles[error.node]]
        times = update_times(segment, error.node, behaviour, inline=self._schedule.inline)
        first = program.update[(program.node == error.node) & (program.update >= 0)].min()
        return float(times[error.update - first])

    def _forget(self) -> None:
        """Free the versions that are no longer referenced, once after each arrival of answers."""
        with self._watch("compute"):
            self._executor.store.drop_unneeded(self._planner)

    def _pieces(self, segment: TapeSegment) -> list[TapeSegment]:
        """Return the parts of a tape segment that are planned and computed together before unused versions are freed.

        With updates, a part is a round, because updates take memory until the coordinator wakes.
        """
        if not self._mode.plans_by_round:
            return [segment]
        return split_at_wakes(segment, self._protocol.n_users, apart=False)

    def _carry_by_rounds(self, segment: TapeSegment, serving: ServerRunner) -> None:
        """Carry out a tape segment round by round, because the versions that are sent may depend on values."""
        coordinator = self._protocol.n_users
        pieces = split_at_wakes(segment, coordinator, apart=True)
        waking = [_is_wake_of(coordinator, piece) for piece in pieces]
        for piece, wakes, wakes_next in zip(pieces, waking, [*waking, True][1:], strict=True):
            if wakes:
                plan, rows = self._planner.serve(coordinator, serving.n_versions)
                self._executor.store.grow(self._planner.capacity)
                serving.write_to(rows)
                with self._watch("compute"):
                    self._runner.run(plan)
            self._carry(piece)
            if wakes:
                self._planner.send(piece, rows[serving.version_of[piece.receiver]])
            if wakes_next or not wakes:
                self._forget()

    def _announce(self, segment: TapeSegment) -> None:
        """Pass deliveries that were not known ahead to the observers."""
        first = segment.first_message
        self._sender[first : first + len(segment.sender)] = segment.sender
        if self._schedule.inline:
            message = np.arange(first, first + len(segment.sender), dtype=np.int32)
            receiver, time = segment.receiver, segment.sent_at
        else:
            arrived = segment.kind == TapeEvent.DELIVER
            message, receiver, time = segment.message[arrived], segment.node[arrived], segment.time[arrived]
        meetings = KnownDeliveries(
            message, self._sender[message], receiver, time, len(self._sender), complete=False
        )
        self._deliveries.learn(meetings)
        for meter in self._meters:
            meter.attack.extend_deliveries(meter.known(meetings))

    def _learn(self, plan: ExecutionPlan) -> None:
        program = plan.program
        appraised = np.flatnonzero(~np.isnan(program.found))
        receiver = np.repeat(program.node, np.diff(program.merge_offsets))[appraised]
        sender = self._sender[program.merge_message[appraised]]
        lesson = (receiver, sender, program.found[appraised])
        self._told.add(lesson)
        self._teach(lesson)
        last = program.merge_offsets[1:][program.refused & (program.update >= 0)] - 1
        self._refused.append(_wide(program.merge_message[last]))
        self.n_refused += len(last)

    def _learn_groups(self, serving: ServerRunner) -> None:
        """Send the protocol the group of each client, if any has changed."""
        assert serving.groups is not None, "see assembly.participants"
        found = serving.groups if self.shard is None else self.shard.broadcast_found(serving.groups)
        groups = found.astype(np.int32)
        told = np.arange(0 if np.array_equal(groups, self._groups) else len(groups), dtype=np.int32)
        self._groups = groups
        lesson = (told, groups[told], np.zeros(len(told), np.float32))
        self._told.add(lesson)
        self._teach(lesson)

    def _teach(self, lesson: Told) -> None:
        receiver, sender, found = lesson
        self._protocol.receive_values(_wide(receiver), _wide(sender), found)

    def taken(self) -> tuple[TapeSegment, I64]:
        """Return the tape carried out since the last call, and the messages in it after which no node trained."""
        segment, refused = concat_segments(self._stretches), np.concatenate([NONE, *self._refused])
        self._stretches, self._refused = [], []
        return segment, refused


NONE = np.zeros(0, np.int64)


def _is_wake_of(node: int, piece: TapeSegment) -> bool:
    return len(piece.kind) == 1 and bool(piece.kind[0] == TapeEvent.WAKE) and int(piece.node[0]) == node


def _wide(ids: I32) -> I64:
    return ids.astype(np.int64)
