"""The schedule of a run: its events in tape segments, with reports between, played before or between local updates.

:func:`build_and_schedule` checks a scenario against its data, builds the components and schedules the events.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossiprec.adversaries.attacks.observations import KnownDeliveries
from gossiprec.base.arrays import F64, I32, I64
from gossiprec.compute.local_update import NodeSettings
from gossiprec.compute.plan.tape import Op, Tape, TapeEvent, TapeSegment, insert_resets, split_after
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.components import NodeLoad, RunComponents, build_components
from gossiprec.emulation.assembly.memory import (
    MIB,
    PYTHON,
    check_event_memory,
    check_memory,
    estimate_memory,
    memory_inputs,
)
from gossiprec.emulation.assembly.network_setup import (
    EngineConditions,
    check_trace_lengths,
    make_availability,
    make_engine_conditions,
    trains_on_event,
)
from gossiprec.emulation.assembly.run_size import Accuracy, EstimateInputs, EventCounts
from gossiprec.emulation.assembly.user_groups import check_evaluation
from gossiprec.emulation.progress import Progress, Stopwatch
from gossiprec.models import BlockRole
from gossiprec.modes import TrainingOutline, choose_mode
from gossiprec.network.overlay import UserProfiles
from gossiprec.network.protocols import PROTOCOLS, Protocol
from gossiprec.network.protocols.messages import MessageBook
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.engine import ControlProtocol, Engine, WakePlan
from gossiprec.scenario import Scenario
from gossiprec.scenario.section_checks import (
    check_activity_groups,
    check_rounds,
    check_sizes,
    check_train_loss,
    check_validation,
)


@dataclass(frozen=True)
class ReportTick:
    """A tape segment that ends in a report.

    Attributes
    ----------
    time : float
        Virtual time of the report.
    round : int
        Number of rounds so far: the mean number of wakes of the nodes that wake, or of completed slices.
    last : bool
        Whether this is the last report.
    is_pause : bool
        Whether it ends in a pause before the report, of which `round` is not known.
    """

    segment: TapeSegment
    time: float
    round: int
    last: bool
    is_pause: bool = False


def make_engine(
    conditions: EngineConditions,
    protocol: Protocol,
    *,
    control: ControlProtocol,
    tape: Tape,
    depends_on_values: bool,
    book: MessageBook | None = None,
) -> tuple[Engine, bool]:
    """Return an engine at time 0, and whether all deliveries are implied by their wakes.

    If the schedule depends on values, the engine plays events one by one.
    """
    inline = conditions.transport.is_instant and conditions.work is None and not protocol.replies
    hindered = conditions.work is not None and conditions.work.hindered_by_deliveries
    one_by_one = protocol.replies or depends_on_values or hindered
    engine = Engine(
        control=control,
        plan=WakePlan(protocol.clock, protocol.wakes, protocol.availability),
        transport=conditions.transport,
        recorder=tape,
        work=conditions.work,
        mode="inline" if inline else "step" if one_by_one else "stretch",
        steering=protocol if protocol.sets_own_wakes else None,
        book=book,
    )
    return engine, inline


class ModelResets:
    """The times at which nodes come back without their model.

    Parameters
    ----------
    availability : Availability
    lost : bool
        Whether nodes lose their model while they are offline.
    """

    def __init__(self, availability: Availability, *, lost: bool) -> None:
        time, node, online = availability.all_changes()
        came = online & lost
        self._time, self._node = time[came], node[came].astype(np.int32)
        self._done = 0

    def insert_into(self, segment: TapeSegment, until: float) -> TapeSegment:
        """Return a tape segment with the resets up to and including its end."""
        end = int(np.searchsorted(self._time, until, side="right"))
        due = slice(self._done, end)
        self._done = end
        return insert_resets(segment, self._time[due], self._node[due])


class _SilentControl:
    """A control under which nodes wake and send no message."""

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        return ()

    def on_delivery(self, node: int, message: int, now: float) -> Sequence[int]:
        return ()

    def on_missed_wake(self, node: int, now: float) -> None:
        pass


def count_wakes(protocol: Protocol, conditions: EngineConditions) -> I64:
    """Return the number of wakes of every node if messages do not change it, shape (n_nodes,)."""
    tape = Tape()
    engine, _ = make_engine(conditions, protocol, control=_SilentControl(), tape=tape, depends_on_values=True)
    engine.run_until(math.inf)
    segment = tape.cut()
    return np.bincount(segment.node[segment.kind == TapeEvent.WAKE], minlength=protocol.n_nodes)


def known_deliveries(segments: list[TapeSegment], inline: bool) -> KnownDeliveries:
    """Return all deliveries of a run, given its whole tape."""
    sender = np.concatenate([segment.sender for segment in segments])
    found = [segment_deliveries(segment, inline) for segment in segments]
    message, receiver, time = (np.concatenate(column) for column in zip(*found, strict=True))
    return KnownDeliveries(message, sender[message], receiver, time, len(sender))


def segment_deliveries(segment: TapeSegment, inline: bool) -> tuple[I32, I32, F64]:
    """Return message, receiver and time of the deliveries in a tape segment."""
    if inline:
        first, count = segment.first_message, len(segment.sender)
        return np.arange(first, first + count, dtype=np.int32), segment.receiver, segment.sent_at
    arrived = segment.kind == TapeEvent.DELIVER
    return segment.message[arrived], segment.node[arrived], segment.time[arrived]


def count_updates(segment: TapeSegment, protocol: Protocol, inline: bool) -> I64:
    """Return the number of local updates of every node in a tape segment, shape (n_nodes,)."""
    trains, slots = trains_on_event(protocol.role_behaviours), segment.slots
    trained = segment.node[trains[protocol.roles[segment.node], slots] & (slots >= 0)]
    implied = segment.receiver if inline else segment.receiver[:0]
    implied = implied[trains[protocol.roles[implied], 1]]
    return np.bincount(np.concatenate([trained, implied]), minlength=protocol.n_nodes)


RunSegment = Callable[[TapeSegment], None]


class Schedule(ABC):
    """The events of a run, and the counts of them that are known before it.

    Attributes
    ----------
    deliveries_implied : bool
        Whether deliveries are implied by the wakes.
    n_wakes, n_messages : int
    virtual_time : float
    updates : ndarray of int64, shape (n_nodes,), or None
        Local updates of every node, or None if they depend on the models' values.
    n_updates : int
        An upper bound of the local updates of all nodes together.
    deliveries : KnownDeliveries
        Deliveries that are known before the run.
    """

    pause_at: float = math.inf
    """Virtual time at which :meth:`play` pauses once; infinite for no time."""
    depends_on_values: ClassVar[bool]
    """Whether peers are chosen by the values of models, which the protocol must then receive."""

    deliveries_implied: bool
    n_wakes: int
    n_messages: int
    virtual_time: float
    updates: I64 | None
    n_updates: int
    deliveries: KnownDeliveries

    def __init__(
        self,
        scenario: Scenario,
        protocol: Protocol,
        conditions: EngineConditions,
        control: ControlProtocol | None = None,
    ) -> None:
        self._scenario, self._protocol, self._tape = scenario, protocol, Tape()
        book = MessageBook.of(protocol)
        self._plays: ControlProtocol = book or protocol
        self._resets = ModelResets(protocol.availability, lost=scenario.churn.model == "reset")
        self._engine, self.deliveries_implied = make_engine(
            conditions, protocol, control=control or self._plays, tape=self._tape,
            depends_on_values=self.depends_on_values, book=book,
        )  # fmt: skip

    @abstractmethod
    def play(
        self, run_segment: RunSegment, *, after: int = 0, replay_segment: RunSegment | None = None
    ) -> Iterator[ReportTick]:
        """Pass every tape segment to `run_segment` in turn, and yield at each report, and at a pause.

        Parameters
        ----------
        run_segment : callable
        after : int
            Number of reports that an earlier process has written; play continues after them.
        replay_segment : callable, if `after` is not 0
            Takes the place of `run_segment` for the segments before that.
        """

    def _ticks(self) -> Iterator[ReportTick]:
        """Run the engine up to each report in turn, and yield the tape since the report before.

        Once all clocks have stopped and a report interval has no event, the remaining events go into one last report.
        """
        engine, clock = self._engine, self._protocol.clock
        wakes_per_round = self._protocol.wakes_per_round
        quiet = False
        for number in self._scenario.evaluate.rounds():
            time = number * wakes_per_round * clock.mean
            engine.run_until(math.inf if quiet else math.nextafter(time, math.inf))
            segment, over = self._tape.cut(), engine.finished
            quiet = not engine.wakes_due and not len(segment.time)
            if quiet and not over:
                continue
            if over:
                time = max([*segment.time[-1:].tolist(), *segment.misses.time[-1:].tolist()], default=time)
            rounds = round(engine.n_wakes / len(clock.node_ids) / wakes_per_round)
            yield ReportTick(self._resets.insert_into(segment, time), time, rounds, over)
            if over:
                return


class PrecomputedSchedule(Schedule):
    """A schedule in which no choice depends on a model's values, so that it is known before the first update."""

    depends_on_values = False

    def __init__(
        self, scenario: Scenario, protocol: Protocol, load: NodeLoad, conditions: EngineConditions
    ) -> None:
        super().__init__(scenario, protocol, conditions)
        self.ticks = list(self._ticks())
        del self._engine, self._tape  # their memory is free for training
        segments = [tick.segment for tick in self.ticks]
        self.updates = np.sum([count_updates(s, protocol, self.deliveries_implied) for s in segments], axis=0)
        self.n_updates = int(self.updates.sum())
        self.n_wakes = sum(int((s.kind == TapeEvent.WAKE).sum()) + len(s.misses.time) for s in segments)
        self.n_messages = sum(len(s.receiver) for s in segments)
        self.virtual_time = self.ticks[-1].time
        sent = np.sum([np.bincount(s.sender, minlength=protocol.n_nodes) for s in segments], axis=0)
        check_trace_lengths(scenario, messages=int(sent.max()), updates=int(self.updates.max()))
        self.deliveries = known_deliveries(segments, self.deliveries_implied)

    def next_event(self, time: float) -> float:
        """Return the time of the first event after a time; infinite if there is none."""
        times = (tick.segment.time for tick in self.ticks)
        later = (each[np.searchsorted(each, time, side="right") :] for each in times)
        return next((float(each[0]) for each in later if len(each)), math.inf)

    def play(
        self, run_segment: RunSegment, *, after: int = 0, replay_segment: RunSegment | None = None
    ) -> Iterator[ReportTick]:
        """Replay the tape."""
        if replay_segment is not None:
            for tick in self.ticks[:after]:
                replay_segment(tick.segment)
        for tick in self.ticks[after:]:
            segment = tick.segment
            while self.pause_at < tick.time:
                now, self.pause_at = self.pause_at, math.inf
                before, segment = split_after(segment, now)
                run_segment(before)
                yield ReportTick(before, now, 0, last=False, is_pause=True)
            run_segment(segment)
            yield tick


class InterleavedSchedule(Schedule):
    """A schedule in which wakes choose peers by received values, so that events are played during computing.

    A node that wakes only needs the values of its own latest deliveries. The tape is therefore carried out (a
    *barrier*) when a node wakes that has received a message since the last barrier. With 943 nodes, that is after about
    twenty wakes, which is wide enough to compute them in parallel.
    """

    depends_on_values = True

    def __init__(
        self, scenario: Scenario, protocol: Protocol, load: NodeLoad, conditions: EngineConditions
    ) -> None:
        super().__init__(scenario, protocol, conditions, control=self)
        self._waiting: set[int] = set()
        self._run_segment: RunSegment | None = None
        wakers = len(protocol.clock.node_ids)
        self.n_wakes = wakers * protocol.wakes
        assert protocol.max_messages_per_wake is not None
        copies = 2 if scenario.network.duplication > 0.0 else 1
        per_node = protocol.wakes * protocol.max_messages_per_wake * copies
        self.n_messages = wakers * per_node
        self.virtual_time = protocol.horizon
        trains_on_wake = any(Op.TRAIN in behaviour.on_wake for behaviour in protocol.role_behaviours)
        self.updates = self._wakes(scenario, load) if trains_on_wake else None
        answers = 2 if protocol.replies else 1  # on which no node trains
        self.n_updates = self.n_messages // answers if self.updates is None else int(self.updates.sum())
        most_updates = self.n_messages if self.updates is None else int(self.updates.max())
        check_trace_lengths(scenario, messages=per_node, updates=most_updates)
        none = np.zeros(0, np.int32)
        self.deliveries = KnownDeliveries(none, none, none, np.zeros(0), self.n_messages, complete=False)

    def _wakes(self, scenario: Scenario, load: NodeLoad) -> I64:
        """Return the number of wakes of each node."""
        protocol = self._protocol
        if protocol.availability.always and scenario.network.compute is None:
            return np.full(protocol.n_nodes, protocol.wakes)
        return count_wakes(protocol, make_engine_conditions(scenario, protocol, load))

    def play(
        self, run_segment: RunSegment, *, after: int = 0, replay_segment: RunSegment | None = None
    ) -> Iterator[ReportTick]:
        """Play the events; wakes at which no node waits for a value are computed together."""
        self._run_segment = replay_segment if after else run_segment
        for number, tick in enumerate(self._ticks(), 1):
            self._barrier(tick.segment)
            if number == after:
                self._run_segment = run_segment
            elif number > after:
                yield tick

    def _barrier(self, segment: TapeSegment) -> None:
        """Carry out the tape so far, after which no node waits for a value."""
        assert self._run_segment is not None
        self._run_segment(segment)
        self._waiting.clear()

    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Call the protocol, after a barrier if the node has received messages that are not computed yet."""
        if node in self._waiting:
            self._barrier(self._resets.insert_into(self._tape.cut(), now))
        receivers = self._plays.on_wake(node, now)
        if self.deliveries_implied:
            self._waiting.update(receivers)
        return receivers

    def on_delivery(self, node: int, message: int, now: float) -> Sequence[int]:
        """Note that the node has a message to score."""
        self._waiting.add(node)
        return self._plays.on_delivery(node, message, now)

    def on_missed_wake(self, node: int, now: float) -> None:
        """Pass the missed wake to the protocol."""
        self._plays.on_missed_wake(node, now)


def build_and_schedule(
    scenario: Scenario, split: Split, progress: Progress, stopwatch: Stopwatch
) -> tuple[RunComponents, Schedule]:
    """Check a scenario against its data, build its components, and play the events that do not depend on models.

    Raises
    ------
    ScenarioError
        If the scenario does not fit its data.
    ResourceError
        If versions or events cannot fit into memory; this is checked before events are played.
    """
    with stopwatch("load"):
        check_sizes(scenario, split.n_users, split.n_items)
        check_validation(scenario, len(split.validation.values))
        check_activity_groups(scenario, int((split.test.sizes > 0).sum()))
        check_evaluation(scenario, split)
        protocol = make_protocol(scenario, split)
        check_train_loss(scenario, choose_mode(protocol))
    n_wakes, per_wake = len(protocol.clock.node_ids) * protocol.wakes, protocol.messages_per_wake or 1
    check_event_memory(n_wakes, per_wake)
    if scenario.stop is not None or scenario.changes:
        check_rounds(scenario, protocol.horizon / protocol.clock.mean / protocol.wakes_per_round)
    with stopwatch("control"):
        availability = make_availability(scenario, protocol, progress.phase, split.n_users)
        protocol = make_protocol(scenario, split, availability)
    with stopwatch("setup"):
        components = build_components(scenario, split, protocol)
    minimum = memory_inputs(components, n_wakes=n_wakes, n_messages=n_wakes * per_wake)
    check_memory({"python": PYTHON * MIB} | estimate_memory(minimum).bytes)
    load = components.node_load
    with stopwatch("compile"):
        conditions = make_engine_conditions(scenario, protocol, load)
    progress.phase("simulating events (control plane)")
    with stopwatch("control"):
        interleaved = components.mode.depends_on_values(protocol)
        cls = InterleavedSchedule if interleaved else PrecomputedSchedule
        return components, cls(scenario, protocol, load, conditions)


def make_protocol(scenario: Scenario, split: Split, availability: Availability | None = None) -> Protocol:
    """Return the scenario's protocol over users and poisoners; without availability all nodes stay online."""
    choice, seed = scenario.protocol, scenario.seed
    everyone = split.with_empty_users(scenario.count_poisoners(split.n_users))
    profiles = UserProfiles.of(everyone)
    protocol = PROTOCOLS[choice.name](
        choice.options, n_users=everyone.n_users, seed=seed, availability=availability, profiles=profiles
    )
    protocol.seconds_per_wake = scenario.seconds_per_wake
    if scenario.attackers:
        from gossiprec.emulation.assembly.poisoners import poisoner_places

        protocol.poisoners = poisoner_places(scenario, split.n_users)
    return protocol


def planned_settings(components: RunComponents, schedule: Schedule) -> NodeSettings:
    """Return the settings of nodes that policies make of the scheduled numbers of local updates."""
    settings, updates = NodeSettings.of_model(components.model, components.protocol.n_nodes), schedule.updates
    for entry in components.attackers:  # they have no training samples
        settings.most_updates[entry.nodes] = 0
    for policy in components.policies:
        copied = None if updates is None else updates.copy()
        policy.configure(settings, training=components.training, updates=copied)
    return settings


def scheduled_inputs(components: RunComponents, schedule: Schedule) -> EstimateInputs:
    """Return the estimate inputs of a run of which the events are scheduled."""
    settings, updates = planned_settings(components, schedule), schedule.updates
    total = schedule.n_updates if updates is None else int(np.minimum(updates, settings.most_updates).sum())
    n_wakes, n_messages = schedule.n_wakes, schedule.n_messages
    epochs, is_bound = components.training.local_epochs * total, schedule.depends_on_values
    accuracy: Accuracy = "at most" if is_bound or components.scenario.stop else "exact"
    counts = EventCounts(n_wakes, n_messages, epochs, schedule.virtual_time, accuracy)
    return EstimateInputs(
        memory_inputs(components, n_wakes=n_wakes, n_messages=n_messages),
        counts,
        TrainingOutline(
            components.scenario, components.model, components.training, components.coordination.recommender, settings,
            counts.epochs, components.layout,
        ),
        hides_user=bool(components.outgoing.withholds_role(BlockRole.USER).any()),
    )  # fmt: skip
