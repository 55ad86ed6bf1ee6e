"""Rounds of a coordinator: its record of the tasks of clients, and the policy that ends a round.

A policy publishes a version by the clock, by deadlines, or by a buffer. Nothing here knows messages or models: the
inputs are times and clients, the output is the time of the coordinator's next wake.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import F64, I64
from gossiprec.network.protocols.fedavg_options import BufferedOptions, RoundOptions


@dataclass(frozen=True)
class ClientAnswer:
    """An answer that has arrived.

    Attributes
    ----------
    version : int
        The version that the client trained.
    client : int
    staleness : int
        Number of versions published since.
    is_copy : bool
        Whether the same task has been answered before, because the network duplicated a message.
    """

    version: int
    client: int
    staleness: int
    is_copy: bool


class ClientTasks:
    """The tasks that a coordinator has given to clients: train this version, and answer.

    A task is a version and a client. Messages carry it to the client and back, so that each answer is matched with
    its task, however late it is and whatever other tasks the client has got meanwhile.

    Attributes
    ----------
    version : int
        Number of the latest version, from 0; -1 before the first.
    """

    def __init__(self) -> None:
        self.version = -1
        self._open: set[tuple[int, int]] = set()
        self._carried: dict[int, tuple[int, int]] = {}  # by message

    def record_version(self, clients: Sequence[int]) -> None:
        """Record a new version, and the clients that train it."""
        self.version += 1
        self._open.update((self.version, client) for client in clients)

    def record_tasks_sent(self, first: int, clients: Sequence[int]) -> None:
        """Record that messages first, first + 1, ... carry the latest version to clients."""
        for message, client in enumerate(clients, first):
            self._carried[message] = (self.version, client)

    def record_answers_sent(self, message: int, first: int, count: int) -> None:
        """Record that messages first .. first + count - 1 answer the task that `message` carried."""
        job = self._carried.pop(message)
        for answer in range(first, first + count):
            self._carried[answer] = job

    def record_answer_arrived(self, message: int) -> ClientAnswer:
        """Record an arrived answer; tasks lost to churn or message loss stay open forever."""
        job = self._carried.pop(message)
        is_copy = job not in self._open
        self._open.discard(job)
        return ClientAnswer(*job, staleness=self.version - job[0], is_copy=is_copy)


def group_quotas(groups: I64, count: int) -> I64:
    """Return the places, of `count`, reserved for each group: its share of all clients, rounded down.

    Parameters
    ----------
    groups : ndarray of int64, shape (n_clients,)
        Group of each client, from 0; -1 for clients without a group.
    count : int

    Returns
    -------
    ndarray of int64, shape (n_groups,)
        The sum does not exceed `count`.
    """
    sizes = np.bincount(groups[groups >= 0])
    return sizes * count // max(len(groups), 1)


def sample_proportionally(candidates: I64, lots: F64, groups: I64, count: int) -> I64:
    """Return the chosen clients: of each group its quota, and the next clients for the remaining places.

    A group with too few candidates leaves its places to the others.

    Parameters
    ----------
    candidates : ndarray of int64, shape (n_candidates,)
        Clients that can be chosen.
    lots : ndarray of float64, shape (n_candidates,)
        Clients with lower lots are chosen first.
    groups : ndarray of int64, shape (n_clients,)
    count : int

    Returns
    -------
    ndarray of int64, shape (min(count, n_candidates),)
        Ascending.
    """
    in_order = candidates[np.argsort(lots, kind="stable")]
    chosen = [
        in_order[groups[in_order] == group][:quota] for group, quota in enumerate(group_quotas(groups, count))
    ]
    reserved = np.concatenate([candidates[:0], *chosen])
    others = in_order[~np.isin(in_order, reserved)]
    return np.sort(np.concatenate([reserved, others[: count - len(reserved)]]))


@dataclass
class AnswerCounts:
    """Numbers of answers that count, of late ones among them, and of tasks given up."""

    answers: int = 0
    late: int = 0
    given_up: int = 0


class RoundPolicy(ABC):
    """The time of the coordinator's next wake, and the answers that count.

    Parameters
    ----------
    n_asked : int
        Number of clients at work after a version has been published.

    Attributes
    ----------
    tally : AnswerCounts
    """

    def __init__(self, n_asked: int) -> None:
        self.tally = AnswerCounts()
        self._n_asked = n_asked

    def count_clients_to_ask(self, now: float) -> int:
        """Return the number of clients to ask now: the same in every round, unless a policy counts those at work."""
        return self._n_asked

    @property
    def busy_clients(self) -> Collection[int]:
        """Clients that must not be asked now, because they are working."""
        return ()

    @property
    def max_duration(self) -> float | None:
        """Longest time between two wakes; None if the clock decides."""
        return None

    @abstractmethod
    def begin_round(self, version: int, clients: Iterable[int], now: float) -> None:
        """Record that a version has been published and some clients asked to train it."""

    @abstractmethod
    def record_answer(self, answer: ClientAnswer, now: float) -> bool:
        """Record an answer that is not a copy, and return whether it counts."""

    @abstractmethod
    def next_wake(self, now: float) -> float | None:
        """Return the time of the coordinator's next wake as currently planned; None if its clock decides."""

    def _count(self, answer: ClientAnswer, *, late: bool, counts: bool) -> bool:
        self.tally.answers += counts
        self.tally.late += late
        return counts


class ClockedRounds(RoundPolicy):
    """A round lasts one interval of the coordinator's clock; all answers that arrive in it count."""

    def begin_round(self, version: int, clients: Iterable[int], now: float) -> None:
        """Do nothing."""

    def record_answer(self, answer: ClientAnswer, now: float) -> bool:
        """Return True: every answer counts."""
        return self._count(answer, late=answer.staleness > 0, counts=True)

    def next_wake(self, now: float) -> float | None:
        """Return None: the clock decides."""
        return None


class DeadlineRounds(RoundPolicy):
    """A round ends when all have answered, at its deadline if enough have, or when the coordinator gives up.

    Parameters
    ----------
    options : RoundOptions
    n_asked : int
        Number of clients to ask in each round.
    """

    def __init__(self, options: RoundOptions, n_asked: int) -> None:
        super().__init__(n_asked)
        self._options = options
        self._began = 0.0
        self._asked = 0
        self._waiting: set[int] = set()

    @property
    def max_duration(self) -> float:
        """Time until the coordinator gives up."""
        return self._options.max_duration

    def begin_round(self, version: int, clients: Iterable[int], now: float) -> None:
        """Give up clients that have not answered, and begin a round."""
        self.tally.given_up += len(self._waiting)
        self._began, self._waiting = now, set(clients)
        self._asked = len(self._waiting)

    def record_answer(self, answer: ClientAnswer, now: float) -> bool:
        """Return whether an answer counts: it belongs to this round, or late answers count."""
        late = answer.staleness > 0
        if not late:
            self._waiting.discard(answer.client)
        return self._count(answer, late=late, counts=not late or self._options.late == "count")

    def next_wake(self, now: float) -> float:
        """Return the time at which the round ends if no further answers arrive.

        A round in which no client could be asked lasts until its deadline: some may be online then.
        """
        options = self._options
        end = options.max_duration
        if self._asked and not self._waiting:
            end = options.min_duration
        elif options.deadline is not None and self._has_enough:
            end = options.deadline
        return max(self._began + end, now)

    @property
    def _has_enough(self) -> bool:
        return self._asked - len(self._waiting) >= self._options.minimum * self._asked - 1e-9


class BufferedRounds(RoundPolicy):
    """A version is published when the buffer is full, or when it cannot be filled any more.

    Clients that have held a task for too long are counted as lost; the next publication asks others in their place.

    Parameters
    ----------
    options : BufferedOptions
    """

    def __init__(self, options: BufferedOptions) -> None:
        super().__init__(options.concurrency)
        self._options = options
        self._gives_up: dict[tuple[int, int], float] = {}  # expiry by task; the earliest comes first
        self._in_buffer = 0
        self._wanted = 0
        self._began = 0.0

    def count_clients_to_ask(self, now: float) -> int:
        """Return the number of missing clients."""
        self._expire(now)
        return self._n_asked - len(self._gives_up)

    @property
    def busy_clients(self) -> Collection[int]:
        """Clients at work, at the last call of :meth:`count_clients_to_ask`."""
        return {client for _, client in self._gives_up}

    @property
    def max_duration(self) -> float:
        """Time until all working clients are given up."""
        return self._options.give_up

    def begin_round(self, version: int, clients: Iterable[int], now: float) -> None:
        """Empty the buffer; if fewer clients work than it holds, it is full when all have answered."""
        self._expire(now)
        self._began, self._in_buffer = now, 0
        self._gives_up.update(((version, client), now + self._options.give_up) for client in clients)
        self._wanted = min(self._options.buffer, len(self._gives_up))

    def record_answer(self, answer: ClientAnswer, now: float) -> bool:
        """Return whether an answer counts: its client is working, or answers of replaced clients count."""
        self._expire(now)
        replaced = self._gives_up.pop((answer.version, answer.client), None) is None
        counts = not replaced or self._options.late == "count"
        self._in_buffer += counts
        return self._count(answer, late=replaced, counts=counts)

    def next_wake(self, now: float) -> float:
        """Return the time of the next version if no further answers arrive: when the buffer cannot be filled."""
        missing = self._wanted - self._in_buffer
        if self._wanted == 0:
            return max(self._began + self._options.give_up, now)
        spare = len(self._gives_up) - missing
        if missing <= 0 or spare < 0:
            return now
        return next(itertools.islice(self._gives_up.values(), spare, None))

    def _expire(self, now: float) -> None:
        """Give up clients that were asked too long ago."""
        while self._gives_up and next(iter(self._gives_up.values())) <= now:
            del self._gives_up[next(iter(self._gives_up))]
            self.tally.given_up += 1
