"""The rounds of a coordinator, read from the tape: requests, answers that are summed, and clients that drop out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import I32, I64
from gossiprec.compute.plan.tape import TapeEvent, TapeSegment
from gossiprec.compute.secure_masks import EXCHANGES, Quorum, exchange_bytes

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


class AnswerRounds:
    """The rounds of a coordinator so far.

    A round begins with a push, and ends when the coordinator wakes next. An answer counts in the round of its request
    only, once per client. All clients of a round take part in its exchange of keys and shares; those without an answer
    drop out afterwards.

    Parameters
    ----------
    coordinator : int
    quorum : Quorum

    Attributes
    ----------
    completed : dict of int to Completed
        The rounds that gave a sum in the latest segment of tape.
    latest : dict of int to int
        The latest answer that arrived from each client.
    counts : Counter
        Rounds, rounds without a sum (`skipped`), requests, and requests without an answer in time (`dropped`); and
        the masks of pairs of clients that were recovered from shares (`recovered`).
    """

    def __init__(self, coordinator: int, quorum: Quorum) -> None:
        self._coordinator, self._quorum = coordinator, quorum
        self._round, self._cohort = -1, np.zeros(0, np.int64)
        self._requests: dict[int, int] = {}  # round of each request on its way
        self._answers: dict[int, tuple[int, int]] = {}  # round and client of each answer on its way
        self._arrived: dict[int, int] = {}  # the answer of each client of the present round
        # the round of each answer that a sum of the latest segment includes
        self._rounds: dict[int, int] = {}
        self._rows: list[dict[str, npt.NDArray[Any]]] = []
        self.completed: dict[int, Completed] = {}
        self.latest: dict[int, int] = {}
        self.counts: Counter[str] = Counter(rounds=0, skipped=0, requested=0, dropped=0, recovered=0)

    def read_segment(self, segment: TapeSegment) -> None:
        """Read a segment of tape."""
        self._rounds, self.completed = {}, {}
        sent = segment.first_message + np.concatenate([[0], np.cumsum(segment.count)])
        of_coordinator = segment.node == self._coordinator
        for event in np.flatnonzero(of_coordinator | (segment.kind != TapeEvent.WAKE)).tolist():
            kind, message = int(segment.kind[event]), int(segment.message[event])
            messages = range(int(sent[event]), int(sent[event + 1]))
            if kind == TapeEvent.WAKE:
                some = slice(messages.start - segment.first_message, messages.stop - segment.first_message)
                self._end_round(float(segment.time[event]))
                self._begin_round(float(segment.time[event]), messages, segment.receiver[some])
            elif kind == TapeEvent.DELIVER and of_coordinator[event]:
                self._receive(message)
            elif kind == TapeEvent.DELIVER:
                round_ = self._requests.pop(message, -1)
                self._answers.update((answer, (round_, int(segment.node[event]))) for answer in messages)
            elif kind == TapeEvent.DROP:
                self._requests.pop(message, None)
                self._answers.pop(message, None)

    def replay_segment(self, segment: TapeSegment) -> None:
        """Read a segment of tape that was logged before."""
        self.read_segment(segment)
        self._rows.clear()

    def rounds_of(self, messages: I32) -> I64:
        """Return the round in the sum of which each answer is, -1 if it is in none."""
        return np.array([self._rounds.get(message, -1) for message in messages.tolist()], np.int64)

    def take_rows(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the exchanges of keys and shares since the last call, as columns of the log's kind ``control``."""
        none = _exchange_rows(0.0, 0, np.zeros(0, np.int64), 1, [])
        rows, self._rows = [none, *self._rows], []
        return {name: np.concatenate([part[name] for part in rows]) for name in none}

    def _begin_round(self, time: float, messages: range, receivers: I32) -> None:
        if not messages:
            return
        self._round, self._cohort = self._round + 1, np.unique(receivers).astype(np.int64)
        self._requests.update(dict.fromkeys(messages, self._round))
        self.counts["rounds"] += 1
        self.counts["requested"] += len(self._cohort)
        before = [number for number in range(len(EXCHANGES)) if number != UNMASKING]
        self._rows.append(_exchange_rows(time, self._coordinator, self._cohort, len(self._cohort), before))

    def _receive(self, message: int) -> None:
        round_, client = self._answers.pop(message, (-1, -1))
        if client >= 0:
            self.latest[client] = message
        if round_ == self._round and len(self._cohort):
            self._arrived.setdefault(client, message)

    def _end_round(self, time: float) -> None:
        if not len(self._cohort):
            return
        n, answered = len(self._cohort), len(self._arrived)
        self.counts["dropped"] += n - answered
        if answered >= self._quorum.answers(n):
            self._rounds.update(dict.fromkeys(self._arrived.values(), self._round))
            clients, messages = np.array([*self._arrived.items()]).T
            self.completed[self._round] = Completed(self._cohort, clients, messages.astype(np.int32))
            self.counts["recovered"] += answered * (n - answered)
            self._rows.append(_exchange_rows(time, self._coordinator, np.sort(clients), n, [UNMASKING]))
        else:
            self.counts["skipped"] += 1
        self._cohort, self._arrived = self._cohort[:0], {}


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
