"""The event log of a run, written from the tape, with the size of every message."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.base.arrays import F64, I32, I64, U8, Bools
from gossiprec.compute.local_update import TrainingSettings
from gossiprec.compute.plan.tape import RECEIVING, WAKING, TapeEvent, TapeSegment
from gossiprec.emulation.assembly.network_setup import trains_on_event
from gossiprec.emulation.assembly.schedule import segment_deliveries
from gossiprec.network.sim.availability import Availability
from gossiprec.runs import EventWriter
from gossiprec.runs.checkpoint_state import Stateful
from gossiprec.runs.reader import Columns
from gossiprec.runs.schema import DROP_CAUSES, MISS_CAUSES, NO_PEER

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


@dataclass
class TrafficCounters:
    """Counts of messages and wakes by outcome so far."""

    delivered: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DROP_CAUSES, 0))
    missed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MISS_CAUSES, 0))
    delay: float = 0.0
    queued: float = 0.0
    sent: int = 0
    bytes_up: int = 0
    bytes_down: int = 0

    def add_segment(
        self, segment: TapeSegment, size: I32, from_coordinator: Bools, delays: F64, queued: F64
    ) -> None:
        """Add a tape segment: the sizes and senders of its messages, and its deliveries."""
        self.add_bytes(size, from_coordinator)
        self.sent += len(segment.receiver)
        self.delivered += len(delays)
        self.delay += float(delays.sum())
        self.queued += float(queued.sum())
        for cause, name in enumerate(DROP_CAUSES):
            self.dropped[name] += int((segment.cause == cause).sum())
        for cause, name in enumerate(MISS_CAUSES):
            self.missed[name] += int((segment.misses.cause == cause).sum())

    def add_bytes(self, size: I32, from_coordinator: Bools) -> None:
        """Add the bytes of messages, or of exchanges of keys and shares, which the transport does not carry."""
        self.bytes_down += int(size[from_coordinator].sum(dtype=np.int64))
        self.bytes_up += int(size[~from_coordinator].sum(dtype=np.int64))

    @property
    def bytes(self) -> dict[str, int]:
        """The bytes sent: in total and, with a coordinator, to it and by it."""
        parts = {"up": self.bytes_up, "down": self.bytes_down} if self.bytes_down else {}
        return {"sent": self.bytes_up + self.bytes_down, **parts}

    def summary(self, online_mean: float) -> dict[str, Any]:
        """Return the counts for the summary: numbers, causes, means over deliveries, and the mean share online."""
        delivered = max(1, self.delivered)
        return {
            "delivered": self.delivered,
            "dropped": {name: count for name, count in self.dropped.items() if count},
            "missed": {name: count for name, count in self.missed.items() if count},
            "mean_delay": self.delay / delivered,
            "mean_queued": self.queued / delivered,
            "online_mean": online_mean,
        }


def _sessions(availability: Availability) -> tuple[F64, I32, U8]:
    """Return the session rows of the log: the nodes offline at the start, and all changes."""
    time, node, online = availability.all_changes()
    away = np.flatnonzero(~availability.starts_online)
    return (
        np.concatenate([np.zeros(len(away)), time]),
        np.concatenate([away, node]).astype(np.int32),
        np.concatenate([np.zeros(len(away), np.bool_), online]).astype(np.uint8),
    )


class EventRecorder(Stateful):
    """The recorder that turns tape segments into events of the log.

    Parameters
    ----------
    log : EventWriter
    prepared : PreparedRun
        Views are logged, when they change, if nodes send to the whole view when they wake.

    Attributes
    ----------
    messages : mapping of str to ndarray
        The columns of the messages that were delivered between the last two reports.
    """

    checkpointed = ("updates_left", "view", "sender", "sent_at", "sent_bytes", "unfinished", "sessions")

    def __init__(self, log: EventWriter, prepared: PreparedRun) -> None:
        components, work = prepared.components, prepared.executor.work
        protocol, load = components.protocol, components.node_load
        self._log = log
        self._roles = protocol.roles
        self._samples, self._mode, self._feed = load.samples, components.mode, components.feed
        self.sizes = prepared.seams.sizes
        self._epochs = work.training.local_epochs
        self._updates_left = work.node_settings.most_updates.copy()
        self._n_users = protocol.n_users
        self._inline = prepared.schedule.deliveries_implied
        self._trains = trains_on_event(protocol.role_behaviours)
        size = protocol.view_size
        self._view = None if size is None else np.full((len(self._roles), size), -1, np.int32)
        self._sender = np.zeros(0, np.int32)
        self._sent_at = np.zeros(0, np.float64)
        self._sent_bytes = np.zeros(0, np.int32)
        self._unfinished = np.zeros(0), np.zeros(0, np.int32)  # updates that end after the last segment
        self._sessions = _sessions(protocol.availability)
        self._control = np.zeros(0, np.int32) if protocol.control_messages else None
        self._schemes = prepared.seams.schemes
        self.traffic = TrafficCounters()
        self.messages: Columns = {}

    def state(self) -> dict[str, Any]:
        """Return the state that links the next tape segment to earlier ones, for a checkpoint."""
        control = {} if self._control is None else {"control": self._control}
        return {
            **super().state(), **control, "traffic": asdict(self.traffic), "sizes": self.sizes.state()
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        super().restore(state)
        self._control = state.get("control")
        self.traffic = TrafficCounters(**state["traffic"])
        self.sizes.restore(state["sizes"])

    def append_segment(self, segment: TapeSegment, refused: I64, *, until: float, last: bool) -> None:
        """Append a tape segment, perhaps the last; receivers did not train after the messages `refused`."""
        wakes = segment.kind == TapeEvent.WAKE
        self._log.append("wake", {"time": segment.time[wakes], "node": segment.node[wakes]})
        self._write_sessions(until)
        missed, cause = segment.misses, segment.misses.cause.astype(np.uint8)
        self._log.append("miss", {"time": missed.time, "node": missed.node, "cause": cause})
        if self._view is not None:
            self._write_views(segment)
        sent_at, size = segment.sent_at, self.sizes.sizes_of_messages(segment)
        from_coordinator = segment.sender >= self._n_users
        sizes = size
        message, receiver, time = segment_deliveries(segment, self._inline)
        if self._inline:
            sender, queued = segment.sender, np.zeros(len(segment.sender))
        else:
            self._sender = np.concatenate([self._sender, segment.sender])
            self._sent_at = np.concatenate([self._sent_at, sent_at])
            self._sent_bytes = np.concatenate([self._sent_bytes, size])
            sender, sent_at, size = self._sender[message], self._sent_at[message], self._sent_bytes[message]
            queued = segment.queued[segment.kind == TapeEvent.DELIVER]
            self._write_drops(segment, "drop", TapeEvent.DROP)
        messages: Columns = {
            "time": time, "sender": sender, "receiver": receiver, "sent_at": sent_at, "size_bytes": size,
            "queued": queued,
        }  # fmt: skip
        self._log.append("message", messages)
        self.messages = messages
        delays = time - sent_at
        if self._control is not None:
            control_delays, control_queued = self._write_control(segment, self._control)
            delays, queued = np.append(delays, control_delays), np.append(queued, control_queued)
        self.traffic.add_segment(segment, sizes, from_coordinator, delays, queued)
        for exchanges in (rows for scheme in self._schemes for rows in scheme.control_rows()):
            self._log.append("control", exchanges)
            self.traffic.add_bytes(exchanges["size_bytes"], exchanges["sender"] >= self._n_users)
        self._write_updates(segment, refused, math.inf if last else until)

    def append_round_event(self, kind: str, *, time: float, round: int) -> None:
        """Append a round or an evaluation event."""
        self._log.append(kind, {"time": [time], "round": np.array([round], np.int32)})

    def use_training(self, training: TrainingSettings) -> None:
        """Log the following updates with the epochs and samples of other settings."""
        self._epochs = training.local_epochs
        samples = self._feed.n_samples(training.negatives) * self._epochs
        self._samples = self._mode.samples_per_node(samples, len(self._roles))

    def _write_updates(self, segment: TapeSegment, refused: I64, until: float) -> None:
        """Append the updates that end before `until`; keep the others for the next segment."""
        slots = segment.slots
        trains = self._trains[self._roles[segment.node], slots]
        woke, heard = trains & (slots == WAKING), trains & (slots >= RECEIVING)
        message, receiver, ready = segment.message[heard], segment.node[heard], segment.ready[heard]
        if self._inline:
            message, receiver, _ = segment_deliveries(segment, inline=True)
            trained = self._trains[self._roles[receiver], RECEIVING]
            message, receiver, ready = message[trained], receiver[trained], segment.sent_at[trained]
        accepted = ~np.isin(message, refused)
        times = np.concatenate([self._unfinished[0], segment.ready[woke], ready[accepted]])
        nodes = np.concatenate([self._unfinished[1], segment.node[woke], receiver[accepted]])
        later = times > until
        self._unfinished = times[later], nodes[later]
        times, nodes = times[~later], nodes[~later]
        order = np.argsort(times, kind="stable")
        order = order[self._within_budget(nodes[order])]
        nodes = nodes[order]
        epochs, samples = np.full(len(nodes), self._epochs, np.int32), self._samples[nodes].astype(np.int32)
        columns = {"time": times[order], "node": nodes, "epochs": epochs, "samples": samples}
        self._log.append("update", columns)

    def _within_budget(self, nodes: I32) -> Bools:
        """Return whether each update, in order of time, is within its node's budget; counts the updates."""
        grouped = np.argsort(nodes, kind="stable")
        counts = np.bincount(nodes, minlength=len(self._updates_left))
        number = np.empty(len(nodes), np.int64)  # of the update among the updates of its node
        number[grouped] = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
        within = number < self._updates_left[nodes]
        self._updates_left -= np.minimum(counts, self._updates_left)
        return within

    def _write_views(self, segment: TapeSegment) -> None:
        """Append the views that differ from the node's view before."""
        assert self._view is not None
        wakes = np.flatnonzero(segment.kind == TapeEvent.WAKE)
        if not len(wakes):
            return
        peers = self._peers(segment, wakes)
        order = np.argsort(segment.node[wakes], kind="stable")
        nodes, views = segment.node[wakes][order], np.sort(peers[order], axis=1)
        before = np.roll(views, 1, axis=0)
        first = np.append(True, nodes[1:] != nodes[:-1])
        before[first] = self._view[nodes[first]]
        changed = np.sort(order[(views != before).any(axis=1)])
        last = np.append(first[1:], True)
        self._view[nodes[last]] = views[last]
        woke = wakes[changed]
        columns = {"time": segment.time[woke], "node": segment.node[woke], "peers": peers[changed]}
        self._log.append("view", columns)

    def _peers(self, segment: TapeSegment, wakes: I64) -> I32:
        """Return the receivers of each wake, padded; second copies of a message, which come last, are left out."""
        assert self._view is not None
        size = self._view.shape[1]
        starts, counts = np.cumsum(segment.count) - segment.count, segment.count[wakes]
        places = starts[wakes][:, None] + np.arange(size)
        peers = np.append(segment.receiver, NO_PEER)[np.minimum(places, len(segment.receiver))]
        within = np.arange(size) < counts[:, None]
        again = (peers[:, :, None] == peers[:, None, :]) & np.tri(size, k=-1, dtype=np.bool_)
        return np.where(within & ~again.any(axis=2), peers, NO_PEER).astype(np.int32)

    def _write_sessions(self, until: float) -> None:
        time, node, online = self._sessions
        now = int(np.searchsorted(time, until, side="right"))
        self._log.append("session", {"time": time[:now], "node": node[:now], "online": online[:now]})
        self._sessions = time[now:], node[now:], online[now:]

    def _write_drops(self, segment: TapeSegment, kind: str, event: TapeEvent) -> None:
        lost = segment.kind == event
        message = segment.message[lost]
        self._log.append(
            kind,
            {
                "time": segment.time[lost],
                "sender": self._sender[message],
                "receiver": segment.node[lost],
                "sent_at": self._sent_at[message],
                "cause": segment.cause[lost].astype(np.uint8),
            },
        )

    def _write_control(self, segment: TapeSegment, before: I32) -> tuple[F64, F64]:
        """Append control messages, delivered and lost; return the delays and queueing times of the delivered ones."""
        sent = segment.control if len(segment.control) else np.zeros(len(segment.receiver), np.int32)
        control = self._control = np.concatenate([before, sent])
        self._write_drops(segment, "control_drop", TapeEvent.LOST_SIGNAL)
        arrived = segment.kind == TapeEvent.SIGNAL
        message, time, queued = segment.message[arrived], segment.time[arrived], segment.queued[arrived]
        sent_at = self._sent_at[message]
        self._log.append(
            "control",
            {
                "time": time, "sender": self._sender[message], "receiver": segment.node[arrived], "sent_at": sent_at,
                "size_bytes": self._sent_bytes[message], "queued": queued,
                "kind": (control[message] - 1).astype(np.uint8),
            },
        )  # fmt: skip
        return time - sent_at, queued
