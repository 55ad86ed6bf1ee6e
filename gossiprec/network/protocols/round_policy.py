"""Round policies: when a coordinator publishes a version, by the clock, by deadlines, or by a buffer.

Nothing here knows messages or models: the inputs are times and clients, the output is the time of the coordinator's
next wake.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gossiprec.network.protocols.client_tasks import ClientAnswer
from gossiprec.network.protocols.fedavg_options import BufferedOptions, RoundOptions


@dataclass
class AnswerCounts:
    """Numbers of answers that count, of late ones among them, and of tasks given up."""

    answers: int = 0
    late: int = 0
    given_up: int = 0


class RoundPolicy(ABC):
    """The time of the coordinator's next wake, and the answers that count.

    Attributes
    ----------
    tally : AnswerCounts
    """

    def __init__(self) -> None:
        self.tally = AnswerCounts()

    @abstractmethod
    def vacancies(self, now: float) -> int:
        """Return the number of clients to ask now."""

    @property
    def busy(self) -> Collection[int]:
        """Clients that must not be asked now, because they are working."""
        return ()

    @property
    def longest(self) -> float | None:
        """Longest time between two wakes; None if the clock decides."""
        return None

    @abstractmethod
    def begin(self, version: int, clients: Iterable[int], now: float) -> None:
        """Record that a version has been published and some clients asked to train it."""

    @abstractmethod
    def counts(self, answer: ClientAnswer, now: float) -> bool:
        """Record an answer that is not a copy, and return whether it counts."""

    @abstractmethod
    def due(self, now: float) -> float | None:
        """Return the time of the coordinator's next wake as currently planned; None if its clock decides."""

    def _count(self, answer: ClientAnswer, *, late: bool, counts: bool) -> bool:
        self.tally.answers += counts
        self.tally.late += late
        return counts


class ClockedRounds(RoundPolicy):
    """A round lasts one interval of the coordinator's clock; all answers that arrive in it count."""

    def __init__(self, n_asked: int) -> None:
        super().__init__()
        self._n_asked = n_asked

    def vacancies(self, now: float) -> int:
        """Return the number of clients of every round."""
        return self._n_asked

    def begin(self, version: int, clients: Iterable[int], now: float) -> None:
        """Do nothing."""

    def counts(self, answer: ClientAnswer, now: float) -> bool:
        """Return True: every answer counts."""
        return self._count(answer, late=answer.staleness > 0, counts=True)

    def due(self, now: float) -> float | None:
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
        super().__init__()
        self._options = options
        self._n_asked = n_asked
        self._began = 0.0
        self._asked = 0
        self._waiting: set[int] = set()

    def vacancies(self, now: float) -> int:
        """Return the number of clients of every round."""
        return self._n_asked

    @property
    def longest(self) -> float:
        """Time until the coordinator gives up."""
        return self._options.longest

    def begin(self, version: int, clients: Iterable[int], now: float) -> None:
        """Give up clients that have not answered, and begin a round."""
        self.tally.given_up += len(self._waiting)
        self._began, self._waiting = now, set(clients)
        self._asked = len(self._waiting)

    def counts(self, answer: ClientAnswer, now: float) -> bool:
        """Return whether an answer counts: it belongs to this round, or late answers count."""
        late = answer.staleness > 0
        if not late:
            self._waiting.discard(answer.client)
        return self._count(answer, late=late, counts=not late or self._options.late == "count")

    def due(self, now: float) -> float:
        """Return the time at which the round ends if no further answers arrive.

        A round in which no client could be asked lasts until its deadline: some may be online then.
        """
        options = self._options
        end = options.longest
        if self._asked and not self._waiting:
            end = options.shortest
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
        super().__init__()
        self._options = options
        self._gives_up: dict[tuple[int, int], float] = {}  # expiry by task; the earliest comes first
        self._in_buffer = 0
        self._wanted = 0
        self._began = 0.0

    def vacancies(self, now: float) -> int:
        """Return the number of missing clients."""
        self._expire(now)
        return self._options.concurrency - len(self._gives_up)

    @property
    def busy(self) -> Collection[int]:
        """Clients at work, at the last call of :meth:`vacancies`."""
        return {client for _, client in self._gives_up}

    @property
    def longest(self) -> float:
        """Time until all working clients are given up."""
        return self._options.give_up

    def begin(self, version: int, clients: Iterable[int], now: float) -> None:
        """Empty the buffer; if fewer clients work than it holds, it is full when all have answered."""
        self._expire(now)
        self._began, self._in_buffer = now, 0
        self._gives_up.update(((version, client), now + self._options.give_up) for client in clients)
        self._wanted = min(self._options.buffer, len(self._gives_up))

    def counts(self, answer: ClientAnswer, now: float) -> bool:
        """Return whether an answer counts: its client is working, or answers of replaced clients count."""
        self._expire(now)
        replaced = self._gives_up.pop((answer.version, answer.client), None) is None
        counts = not replaced or self._options.late == "count"
        self._in_buffer += counts
        return self._count(answer, late=replaced, counts=counts)

    def due(self, now: float) -> float:
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
