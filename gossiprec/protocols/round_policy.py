"""When a coordinator publishes its next version: by the clock, by rounds with deadlines, or by a buffer of answers.

Nothing here knows of messages or models: times and clients come in, and the time of the coordinator's next wake goes
out.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gossiprec.protocols.client_tasks import ClientAnswer
from gossiprec.protocols.fedavg_options import BufferedOptions, RoundOptions


@dataclass
class AnswerCounts:
    """What has become of jobs so far: answers that count, those of them that were late, and jobs given up."""

    answers: int = 0
    late: int = 0
    given_up: int = 0


class RoundPolicy(ABC):
    """When the coordinator wakes next, and which answers count.

    Attributes
    ----------
    tally : Tally
    """

    def __init__(self) -> None:
        self.tally = AnswerCounts()

    @abstractmethod
    def vacancies(self, now: float) -> int:
        """Return how many clients are to be asked now."""

    @property
    def busy(self) -> Collection[int]:
        """Clients that are not to be asked now, because they are at work."""
        return ()

    @property
    def longest(self) -> float | None:
        """Longest time between two wakes; None: as the clock says."""
        return None

    @abstractmethod
    def begin(self, version: int, clients: Iterable[int], now: float) -> None:
        """Note that a version has been published, and who has been asked to train it."""

    @abstractmethod
    def counts(self, answer: ClientAnswer, now: float) -> bool:
        """Note an answer, no copy of an earlier one, and say whether it counts."""

    @abstractmethod
    def due(self, now: float) -> float | None:
        """Return when the coordinator is to wake next, as things stand; None: when its clock rings."""

    def _count(self, answer: ClientAnswer, *, late: bool, counts: bool) -> bool:
        self.tally.answers += counts
        self.tally.late += late
        return counts


class ClockedRounds(RoundPolicy):
    """A round lasts one interval of the coordinator's clock, and whatever comes in it counts."""

    def __init__(self, n_asked: int) -> None:
        super().__init__()
        self._n_asked = n_asked

    def vacancies(self, now: float) -> int:
        """As many in every round."""
        return self._n_asked

    def begin(self, version: int, clients: Iterable[int], now: float) -> None:
        """Nothing to note."""

    def counts(self, answer: ClientAnswer, now: float) -> bool:
        """Every answer counts."""
        return self._count(answer, late=answer.staleness > 0, counts=True)

    def due(self, now: float) -> float | None:
        """By the clock."""
        return None


class DeadlineRounds(RoundPolicy):
    """A round ends when all have answered, or at its deadline if enough have, or when the coordinator gives up.

    Parameters
    ----------
    options : RoundOptions
    n_asked : int
        Clients to ask in each round.
    """

    def __init__(self, options: RoundOptions, n_asked: int) -> None:
        super().__init__()
        self._options = options
        self._n_asked = n_asked
        self._began = 0.0
        self._asked = 0
        self._waiting: set[int] = set()

    def vacancies(self, now: float) -> int:
        """As many in every round."""
        return self._n_asked

    @property
    def longest(self) -> float:
        """Until the coordinator gives up."""
        return self._options.longest

    def begin(self, version: int, clients: Iterable[int], now: float) -> None:
        """Give up who has not answered, and begin a round."""
        self.tally.given_up += len(self._waiting)
        self._began, self._waiting = now, set(clients)
        self._asked = len(self._waiting)

    def counts(self, answer: ClientAnswer, now: float) -> bool:
        """Answers of this round count, late ones if they are to."""
        late = answer.staleness > 0
        if not late:
            self._waiting.discard(answer.client)
        return self._count(answer, late=late, counts=not late or self._options.late == "count")

    def due(self, now: float) -> float:
        """Return when the round ends if nobody answers from now on.

        A round in which nobody could be asked lasts until its deadline: somebody may be there then.
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
    """A version is published when so many answers have come, or when no more of them can.

    Clients that have held a job for too long are counted as lost; the next publication asks others in their place.

    Parameters
    ----------
    options : Buffered
    """

    def __init__(self, options: BufferedOptions) -> None:
        super().__init__()
        self._options = options
        self._gives_up: dict[tuple[int, int], float] = {}  # when, by job; the earliest comes first
        self._in_buffer = 0
        self._wanted = 0
        self._began = 0.0

    def vacancies(self, now: float) -> int:
        """Return how many clients are missing."""
        self._expire(now)
        return self._options.concurrency - len(self._gives_up)

    @property
    def busy(self) -> Collection[int]:
        """Clients at work, as of the last call of :meth:`vacancies`."""
        return {client for _, client in self._gives_up}

    @property
    def longest(self) -> float:
        """Until all clients at work are given up."""
        return self._options.give_up

    def begin(self, version: int, clients: Iterable[int], now: float) -> None:
        """Empty the buffer; where fewer clients work than fill it, it is full when they have all answered."""
        self._expire(now)
        self._began, self._in_buffer = now, 0
        self._gives_up.update(((version, client), now + self._options.give_up) for client in clients)
        self._wanted = min(self._options.buffer, len(self._gives_up))

    def counts(self, answer: ClientAnswer, now: float) -> bool:
        """Answers of clients at work count, those of replaced ones if they are to."""
        self._expire(now)
        replaced = self._gives_up.pop((answer.version, answer.client), None) is None
        counts = not replaced or self._options.late == "count"
        self._in_buffer += counts
        return self._count(answer, late=replaced, counts=counts)

    def due(self, now: float) -> float:
        """Return when the next version is due if nobody answers from now on: when the buffer cannot be filled."""
        missing = self._wanted - self._in_buffer
        if self._wanted == 0:
            return max(self._began + self._options.give_up, now)
        spare = len(self._gives_up) - missing
        if missing <= 0 or spare < 0:
            return now
        return next(itertools.islice(self._gives_up.values(), spare, None))

    def _expire(self, now: float) -> None:
        """Count as lost who was asked too long ago."""
        while self._gives_up and next(iter(self._gives_up.values())) <= now:
            del self._gives_up[next(iter(self._gives_up))]
            self.tally.given_up += 1
