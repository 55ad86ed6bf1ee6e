"""The transport: messages from leaving their senders to arriving or being lost.

A message leaves its sender, passes through the shared bandwidth (if that is limited), takes its latency, and finds
its receiver online or not. There are two ways to use the transport, with equal results: message by message
(:meth:`Transport.send`, :meth:`Transport.pop_next_before`), or a segment of time per call
(:meth:`Transport.send_segment`), which is possible if deliveries cause no sends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

import numpy as np

from gossiprec.base.arrays import F64, I64, Bools
from gossiprec.base.registry import Registry
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.network import ARRIVED, RECEIVER_OFFLINE, RUN_ENDED, SENDER_OFFLINE, WAITS, Network


class MessageOutcome(NamedTuple):
    """The result of a message; results are ordered by (time, rank).

    Attributes
    ----------
    time : float
    rank : int
        Position among scheduled events: events of the same time happen in this order.
    message, sender, receiver : int
    cause : int
        Cause of its loss, ``ARRIVED``, or ``WAITS``, which is not final.
    queued : float
        Delay caused by other transfers on the shared bandwidth.
    settled : float
        Time at which it stopped moving: earlier than `time` if it waited for its receiver to come back.
    """

    time: float
    rank: int
    message: int
    sender: int
    receiver: int
    cause: int
    queued: float
    settled: float


@dataclass(frozen=True)
class MessageOutcomes:
    """Outcomes of many messages, as columns; see :class:`MessageOutcome`."""

    time: F64
    rank: I64
    message: I64
    sender: I64
    receiver: I64
    cause: I64
    queued: F64
    settled: F64

    @classmethod
    def none(cls) -> MessageOutcomes:
        """Return an empty batch."""
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        return cls(nothing, none, none, none, none, none, nothing, nothing)

    def __len__(self) -> int:
        return len(self.time)

    def select(self, chosen: Any) -> MessageOutcomes:
        """Return some of the outcomes."""
        return MessageOutcomes(*[getattr(self, field.name)[chosen] for field in fields(self)])

    @staticmethod
    def joined(parts: Sequence[MessageOutcomes]) -> MessageOutcomes:
        """Return several batches as one."""
        return MessageOutcomes(
            *[
                np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(MessageOutcomes)
            ]
        )


class BandwidthSharing(Protocol):
    """Transfers that share limited bandwidth; see :class:`gossiprec.network.sim.fair_share.FairShare`."""

    def __init__(self, up: F64, down: F64, size: F64, *, compiled: bool) -> None:
        """Take the rates of every node, the size of its messages, and whether to compile the loop."""

    @property
    def next_time(self) -> float:
        """Time at which a transfer next starts or ends; infinite if there is none."""

    def unshared_duration(self, sender: Any, receiver: Any, size: int | None = None) -> Any:
        """Return the time of a transfer that shares neither end; its size is the sender's if it is not given."""

    def schedule_start(
        self, time: float, ticket: int, sender: int, receiver: int, cut: float, size: int | None = None
    ) -> None:
        """Schedule the start of a transfer; it breaks off at time `cut`, when its sender goes offline."""

    def step(self) -> list[tuple[int, bool]]:
        """Advance transfers to :attr:`next_time`; return the tickets that end then, and whether they completed."""

    def add_and_advance(
        self, time: F64, ticket: I64, sender: I64, receiver: I64, cut: F64, limit: float
    ) -> tuple[I64, F64, Bools]:
        """Add transfers and advance all up to `limit`; return tickets, times and completion of those that end."""


SHARINGS: Registry[type[BandwidthSharing]] = Registry("sharing of bandwidth", __package__)


class Transport:
    """Messages in transit.

    Parameters
    ----------
    network : Network
    availability : Availability
    held : bool
        Whether a message that arrives while its receiver is offline waits for it; otherwise it is lost.
    in_order : bool
        Whether messages from one node to another never overtake.
    sharing : BandwidthSharing, optional
        Bandwidth that messages share before they take their latency; unlimited if omitted.

    Attributes
    ----------
    moving : int
        Number of moving messages: neither settled nor waiting for an offline receiver.
    """

    def __init__(
        self,
        network: Network,
        availability: Availability,
        *,
        held: bool = False,
        in_order: bool = False,
        sharing: BandwidthSharing | None = None,
    ) -> None:
        self.network = network
        self.moving = 0
        self._availability = availability
        self._always = availability.always
        self._held = held
        self._in_order = in_order
        self._queue: list[MessageOutcome] = []
        self._last: dict[tuple[int, int], float] = {}
        self._pending = MessageOutcomes.none()
        self._sharing = sharing
        self._direct = availability.always and sharing is None and not in_order  # only the latency matters
        # in transfer, with their latencies and sizes
        self._sending: dict[int, tuple[MessageOutcome, float, int | None]] = {}
        self._transfers = MessageOutcomes.none()  # the same for segments
        self._delays = np.zeros(0)

    @property
    def is_instant(self) -> bool:
        """Whether every message arrives at the time at which it is sent."""
        return self.network.instant and self._always and self._sharing is None

    @property
    def is_idle(self) -> bool:
        """Whether no message is in transit."""
        return not (self._queue or self._sending or len(self._pending) or len(self._transfers))

    def send(
        self, message: int, rank: int, sender: int, receiver: int, leave: float, size: int | None = None
    ) -> int:
        """Send the sender's next message, which leaves no earlier than now; return its cause if it is lost.

        Its size is the size of the sender's models if it is not given. A message that is lost at once is lost when it
        leaves; the caller records the loss.
        """
        delay = self.network.message_delay(sender, receiver, leave)
        if not self._always and not self._availability.is_online(sender, leave):
            return SENDER_OFFLINE
        if delay < 0.0:
            return int(-delay) - 1
        if self._direct:
            at = leave + delay
            self.moving += 1
            heappush(self._queue, MessageOutcome(at, rank, message, sender, receiver, ARRIVED, 0.0, at))
            return ARRIVED
        outcome = MessageOutcome(leave, rank, message, sender, receiver, ARRIVED, 0.0, leave)
        if self._sharing is None:
            self._arrive(outcome, delay)
            return ARRIVED
        self._sending[message] = outcome, delay, size
        self.moving += 1
        cut = math.inf if self._always else self._availability.next_change(sender, leave)
        self._sharing.schedule_start(leave, message, sender, receiver, cut, size)
        return ARRIVED

    def schedule_loss(self, outcome: MessageOutcome) -> None:
        """Schedule the loss of a message."""
        self.moving += 1
        heappush(self._queue, outcome._replace(settled=outcome.time))

    def _step_transfers(self, sharing: BandwidthSharing) -> None:
        """Process the next start or end of a transfer."""
        time = sharing.next_time
        for message, whole in sharing.step():
            outcome, delay, size = self._sending.pop(message)
            self.moving -= 1
            if not whole:
                self.schedule_loss(outcome._replace(time=time, cause=SENDER_OFFLINE))
                continue
            unshared = float(sharing.unshared_duration(outcome.sender, outcome.receiver, size))
            queued = max(0.0, time - (outcome.time + unshared))
            self._arrive(outcome._replace(time=time, queued=queued), delay)

    def _arrive(self, outcome: MessageOutcome, delay: float) -> None:
        """Schedule the arrival of a message after its latency; its receiver may be offline then."""
        outcome = outcome._replace(time=outcome.time + delay)
        if self._in_order:
            outcome = self._after_the_last(outcome)
        if not self._always and not self._availability.is_online(outcome.receiver, outcome.time):
            outcome = outcome._replace(cause=WAITS if self._held else RECEIVER_OFFLINE)
        self.moving += 1
        heappush(self._queue, outcome._replace(settled=outcome.time))

    def _after_the_last(self, outcome: MessageOutcome) -> MessageOutcome:
        link = outcome.sender, outcome.receiver
        time = self._last[link] = max(outcome.time, self._last.get(link, 0.0))
        return outcome._replace(time=time)

    def pop_next_before(self, time: float, rank: int) -> MessageOutcome | None:
        """Return the next outcome before (time, rank), or None."""
        queue, sharing = self._queue, self._sharing
        while self._sending and sharing is not None:
            if sharing.next_time > min(time, queue[0].time if queue else math.inf):
                break
            self._step_transfers(sharing)
        if queue and queue[0] < (time, rank):
            outcome = heappop(queue)
            if outcome.settled < outcome.time:
                return outcome
            self.moving -= 1
            if outcome.cause == WAITS:
                back = self._availability.next_change(outcome.receiver, outcome.time)
                heappush(queue, outcome._replace(time=back, cause=ARRIVED))
            return outcome
        return None

    def give_up(self, now: float) -> list[MessageOutcome]:
        """Return the messages that still wait, lost because the run ends, in the order of sending."""
        waiting, self._queue = sorted(self._queue, key=lambda outcome: outcome.rank), []
        return [outcome._replace(time=now, cause=RUN_ENDED) for outcome in waiting]

    def send_segment(
        self, batch: MessageOutcomes, wake_rank: I64, until: float, ended_at: tuple[float, int] | None
    ) -> MessageOutcomes:
        """Send the messages of a segment of time; return all outcomes before its end, in any order.

        Parameters
        ----------
        batch : MessageOutcomes
            The messages in the order in which they are sent, with the times at which they leave.
        wake_rank : ndarray of int64, shape (n_messages,)
            Rank of the event at which a message leaves, if it leaves at once; otherwise -1.
        until : float
            End of the segment.
        ended_at : (float, int), optional
            Time and rank of the last event other than messages, if no other follows: waiting messages are then given
            up.
        """
        delay = self.network.message_delays(batch.sender, batch.receiver, batch.time)
        cause = np.where(delay < 0.0, -delay - 1.0, ARRIVED).astype(np.int64)
        if not self._always:
            cause[~self._availability.status_and_next_change(batch.sender, batch.time)[0]] = SENDER_OFFLINE
        going = cause == ARRIVED
        gone = replace(batch, cause=cause, rank=np.where(wake_rank >= 0, wake_rank, batch.rank)).select(
            ~going
        )
        sent, delay = replace(batch, cause=cause).select(going), delay[going]
        if self._sharing is None:
            arrived = self._arrivals(sent, delay)
        else:
            arrived = self._through_bandwidth(self._sharing, sent, delay, until)
        everything = MessageOutcomes.joined([self._pending, gone, arrived])
        if ended_at is not None and not len(self._transfers):
            everything = _ended(everything, until, *ended_at)
        due = everything.time < until
        self._pending = everything.select(~due)
        return everything.select(due)

    def _through_bandwidth(
        self, sharing: BandwidthSharing, sent: MessageOutcomes, delay: F64, until: float
    ) -> MessageOutcomes:
        """Start transfers; return the outcomes of those that end before `until`."""
        self._transfers = MessageOutcomes.joined([self._transfers, sent])
        self._delays = np.concatenate([self._delays, delay])
        cut = np.full(len(sent), math.inf)
        if not self._always:
            cut = self._availability.status_and_next_change(sent.sender, sent.time)[1]
        message, time, whole = sharing.add_and_advance(
            sent.time, sent.message, sent.sender, sent.receiver, cut, math.nextafter(until, -math.inf)
        )
        ended = np.zeros(len(self._transfers), np.bool_)
        place = np.searchsorted(self._transfers.message, message)
        ended[place] = True
        done, delay = self._transfers.select(place), self._delays[place]
        self._transfers, self._delays = self._transfers.select(~ended), self._delays[~ended]
        queued = np.maximum(0.0, time - (done.time + sharing.unshared_duration(done.sender, done.receiver)))
        broken = replace(done, time=time, settled=time, cause=np.full(len(time), SENDER_OFFLINE)).select(
            ~whole
        )
        there = replace(done, time=time, queued=queued).select(whole)
        return MessageOutcomes.joined([broken, self._arrivals(there, delay[whole])])

    def _arrivals(self, sent: MessageOutcomes, delay: F64) -> MessageOutcomes:
        """Return the outcomes of messages that leave, or leave the shared bandwidth."""
        time = sent.time + delay
        if self._in_order:
            time = self._in_turn(sent, time)
        if self._always:
            return replace(sent, time=time, settled=time)
        online, back = self._availability.status_and_next_change(sent.receiver, time)
        if self._held:
            return replace(sent, time=np.where(online, time, back), settled=time)
        return replace(sent, time=time, settled=time, cause=np.where(online, ARRIVED, RECEIVER_OFFLINE))

    def _in_turn(self, sent: MessageOutcomes, time: F64) -> F64:
        """Return times at which no message overtakes an earlier one of its link."""
        out = np.empty(len(time))
        order = np.lexsort((sent.rank, sent.time))
        links = zip(sent.sender[order].tolist(), sent.receiver[order].tolist(), strict=True)
        for place, link, at in zip(order.tolist(), links, time[order].tolist(), strict=True):
            out[place] = self._last[link] = max(at, self._last.get(link, 0.0))
        return out


def _ended(outcomes: MessageOutcomes, until: float, time: float, rank: int) -> MessageOutcomes:
    """Mark waiting messages as lost if nothing else moves, from the time at which the last moving one settles."""
    if len(outcomes):
        last = np.lexsort((outcomes.rank, outcomes.settled))[-1]
        time, rank = max((time, rank), (float(outcomes.settled[last]), int(outcomes.rank[last])))
    if time >= until:
        return outcomes
    later = (outcomes.time > time) | ((outcomes.time == time) & (outcomes.rank > rank))
    return replace(
        outcomes,
        time=np.where(later, time, outcomes.time),
        rank=np.where(later, rank + 1 + outcomes.rank, outcomes.rank),
        cause=np.where(later, RUN_ENDED, outcomes.cause),
    )
