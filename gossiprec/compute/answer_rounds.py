"""The rounds of secure sums, read from the tape: clients, answers that are summed, and clients that drop out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I32, I64, Bools
from gossiprec.compute.plan.tape import TapeEvent, TapeSegment
from gossiprec.compute.secure_sums import EXCHANGES, Quorum, exchange_bytes

UNMASKING = EXCHANGES.index("unmasking")
"""The exchange that ends a round; the others begin it."""
TO_CLIENTS = np.array([name.endswith("_list") for name in EXCHANGES])
"""Whether the coordinator sends an exchange to each client; if not, each client sends it to the coordinator."""


class Completed(NamedTuple):
    """A round that gave a sum: its clients, and those that answered with their answers, in order of arrival.

    A client without data answers zeros; its answer has no weight.
    """

    cohort: I64
    clients: I64
    messages: I32


class SumRounds(ABC):
    """The rounds of receivers that learn sums, so far.

    All clients of a round take part in its exchange of keys and shares; those without an answer drop out afterwards.

    Parameters
    ----------
    quorum : Quorum

    Attributes
    ----------
    completed : dict of int to Completed
        The rounds that gave a sum in the latest segment of tape.
    counts : Counter
        Rounds, rounds without a sum (`skipped`), requests, and requests without an answer in time (`dropped`); and
        the masks of pairs of clients that were recovered from shares (`recovered`).
    """

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        # the round of each answer that a sum of the latest segment includes
        self._rounds: dict[int, int] = {}
        self._rows: list[dict[str, npt.NDArray[Any]]] = []
        self.completed: dict[int, Completed] = {}
        self.counts: Counter[str] = Counter(rounds=0, skipped=0, requested=0, dropped=0, recovered=0)

    def read_segment(self, segment: TapeSegment) -> None:
        """Read a segment of tape."""
        self._rounds, self.completed = {}, {}
        sent = segment.first_message + np.concatenate([[0], np.cumsum(segment.count)])
        for event in np.flatnonzero(self._concerns(segment)).tolist():
            self._read(segment, event, range(int(sent[event]), int(sent[event + 1])))

    @abstractmethod
    def _concerns(self, segment: TapeSegment) -> Bools:
        """Return which events of a segment are read."""

    @abstractmethod
    def _read(self, segment: TapeSegment, event: int, messages: range) -> None:
        """Read an event, in which some messages were sent."""

    def replay_segment(self, segment: TapeSegment) -> None:
        """Read a segment of tape that was logged before."""
        self.read_segment(segment)
        self._rows.clear()

    def rounds_of(self, messages: I32) -> I64:
        """Return the round in the sum of which each answer is, -1 if it is in none."""
        return np.array([self._rounds.get(message, -1) for message in messages.tolist()], np.int64)

    def take_rows(self) -> dict[str, npt.NDArray[Any]]:
        """Return the exchanges of keys and shares since the last call, as columns of the log's kind ``control``."""
        none = _exchange_rows(0.0, 0, np.zeros(0, np.int64), 1, [])
        rows, self._rows = [none, *self._rows], []
        return {name: np.concatenate([part[name] for part in rows]) for name in none}

    def _begin(self, time: float, receiver: int, cohort: I64) -> None:
        """Count a round, and the exchanges that begin it."""
        self.counts["rounds"] += 1
        self.counts["requested"] += len(cohort)
        before = [number for number in range(len(EXCHANGES)) if number != UNMASKING]
        self._rows.append(_exchange_rows(time, receiver, cohort, len(cohort), before))

    def _end(self, time: float, receiver: int, number: int, cohort: I64, arrived: Mapping[int, int]) -> None:
        """Complete a round by the answer of each client that has arrived, or skip it."""
        n, answered = len(cohort), len(arrived)
        self.counts["dropped"] += n - answered
        if answered < self._quorum.answers(n):
            self.counts["skipped"] += 1
            return
        self._rounds.update(dict.fromkeys(arrived.values(), number))
        clients, messages = np.array([*arrived.items()]).T
        self.completed[number] = Completed(cohort, clients, messages.astype(np.int32))
        self.counts["recovered"] += answered * (n - answered)
        self._rows.append(_exchange_rows(time, receiver, np.sort(clients), n, [UNMASKING]))


class AnswerRounds(SumRounds):
    """The rounds of a coordinator so far.

    A round begins with a push, and ends when the coordinator wakes next. An answer counts in the round of its request
    only, once per client.

    Parameters
    ----------
    coordinator : int
    quorum : Quorum

    Attributes
    ----------
    latest : dict of int to int
        The latest answer that arrived from each client.
    """

    def __init__(self, coordinator: int, quorum: Quorum) -> None:
        super().__init__(quorum)
        self._coordinator = coordinator
        self._round, self._cohort = -1, np.zeros(0, np.int64)
        self._requests: dict[int, int] = {}  # round of each request on its way
        self._answers: dict[int, tuple[int, int]] = {}  # round and client of each answer on its way
        self._arrived: dict[int, int] = {}  # the answer of each client of the present round
        self.latest: dict[int, int] = {}

    def _concerns(self, segment: TapeSegment) -> Bools:
        return np.asarray((segment.node == self._coordinator) | (segment.kind != TapeEvent.WAKE))

    def _read(self, segment: TapeSegment, event: int, messages: range) -> None:
        kind, node, message = (int(column[event]) for column in (segment.kind, segment.node, segment.message))
        if kind == TapeEvent.WAKE:
            time, some = float(segment.time[event]), _places(segment, messages)
            self._end_round(time)
            if messages:
                self._round += 1
                self._cohort = np.unique(segment.receiver[some]).astype(np.int64)
                self._requests.update(dict.fromkeys(messages, self._round))
                self._begin(time, self._coordinator, self._cohort)
        elif kind == TapeEvent.DELIVER and node == self._coordinator:
            self._receive(message)
        elif kind == TapeEvent.DELIVER:
            round_ = self._requests.pop(message, -1)
            self._answers.update((answer, (round_, node)) for answer in messages)
        elif kind == TapeEvent.DROP:
            self._requests.pop(message, None)
            self._answers.pop(message, None)

    def _receive(self, message: int) -> None:
        round_, client = self._answers.pop(message, (-1, -1))
        if client >= 0:
            self.latest[client] = message
        if round_ == self._round and len(self._cohort):
            self._arrived.setdefault(client, message)

    def _end_round(self, time: float) -> None:
        if len(self._cohort):
            self._end(time, self._coordinator, self._round, self._cohort, self._arrived)
        self._cohort, self._arrived = self._cohort[:0], {}


class NeighbourRounds(SumRounds):
    """The rounds of nodes of gossip that learn the sum of what their neighbours send between two of their wakes.

    All nodes wake at the multiples of one interval. Without delays a node hears between two wakes from each neighbour
    once. With delays it hears what was sent one interval before; a message that takes longer counts no more. In its
    first round it has heard from the neighbours that woke before it, or with delays from none.

    Parameters
    ----------
    senders : sequence of ndarray of int64
        The nodes that send to each node.
    interval : float
    inline : bool
        Whether messages arrive when they are sent, without an event of their own.
    quorum : Quorum
    """

    def __init__(self, senders: Sequence[I64], interval: float, quorum: Quorum, *, inline: bool) -> None:
        super().__init__(quorum)
        self._senders, self._interval, self._inline = senders, interval, inline
        self._sent: dict[
            int, tuple[int, int]
        ] = {}  # sender and number of its wake of each message on its way
        self._arrived: dict[int, list[tuple[int, int, int]]] = {}  # the same with the message, by receiver

    def _concerns(self, segment: TapeSegment) -> Bools:
        return np.ones(len(segment.kind), np.bool_)

    def _read(self, segment: TapeSegment, event: int, messages: range) -> None:
        kind, node, message = (int(column[event]) for column in (segment.kind, segment.node, segment.message))
        if kind == TapeEvent.WAKE:
            time = float(segment.time[event])
            number = round(time / self._interval)
            self._end_round(time, node, number)
            for sent, receiver in zip(
                messages, segment.receiver[_places(segment, messages)].tolist(), strict=True
            ):
                if self._inline:
                    self._arrived.setdefault(receiver, []).append((node, number, sent))
                else:
                    self._sent[sent] = node, number
        elif kind == TapeEvent.DELIVER:
            self._arrived.setdefault(node, []).append((*self._sent.pop(message), message))
        elif kind == TapeEvent.DROP:
            self._sent.pop(message)

    def _end_round(self, time: float, node: int, number: int) -> None:
        arrived: dict[int, int] = {}
        for sender, sent, message in self._arrived.pop(node, []):
            if self._inline or sent == number - 1:
                arrived.setdefault(sender, message)
        first = np.array(sorted(arrived), np.int64)
        cohort = first if number == 1 else self._senders[node]
        if len(cohort):
            self._begin(time, node, cohort)
            self._end(time, node, number * len(self._senders) + node, cohort, arrived)


def _places(segment: TapeSegment, messages: range) -> slice:
    """Return the places of some messages among those of a segment."""
    return slice(messages.start - segment.first_message, messages.stop - segment.first_message)


def _exchange_rows(
    time: float, coordinator: int, clients: I64, n: int, exchanges: list[int]
) -> dict[str, npt.NDArray[Any]]:
    """Return the rows of some exchanges, each with all given clients, in a round of `n` clients."""
    kind = np.repeat(np.array(exchanges, np.uint8), len(clients))
    each = np.tile(clients, len(exchanges)).astype(np.int32)
    down = TO_CLIENTS[kind]
    sizes = np.array([*exchange_bytes(n).values()], np.int32)
    times = np.full(len(kind), time)
    return {
        "time": times,
        "sender": np.where(down, np.int32(coordinator), each),
        "receiver": np.where(down, each, np.int32(coordinator)),
        "sent_at": times,
        "size_bytes": sizes[kind],
        "queued": np.zeros(len(kind)),
        "kind": kind,
    }
