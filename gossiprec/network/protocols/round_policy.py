"""Rounds of a coordinator: their options, its record of the tasks of clients, and the policy that ends a round.

A policy publishes a version by the clock, by deadlines, or by a buffer. Nothing here knows messages or models: the
inputs are times and clients, the output is the time of the coordinator's next wake.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from gossiprec.base.arrays import F64, I64
from gossiprec.base.options import LARGEST, Count, Fraction, Options, Problem
from gossiprec.rules.aggregators import Invalid, Rule, reject_delta_rules
from gossiprec.rules.servers import ServerChoice

Late: TypeAlias = Literal["count", "discard"]
LONGEST = 1e6
"""Upper limit of time options, in units of virtual time."""
Duration = Annotated[float, Field(gt=0, le=LONGEST)]
"""An option in units of virtual time."""
PATIENCE = 10.0
"""Default of `give_up`, in units of virtual time or in deadlines."""


class RoundOptions(Options):
    """The end of a round. Without this section it lasts one unit of virtual time, however many have answered."""

    deadline: Duration | None = None
    """time after which a round ends if `minimum` clients have answered; null waits for all clients"""
    minimum: Fraction = 0.0
    """fraction of the asked clients that a round waits for after its deadline"""
    give_up: Duration | None = None
    """time after which a round always ends; null: ten times the deadline, or 10 without a deadline"""
    at_least: float | None = Field(default=None, ge=0, le=LONGEST)
    """minimum duration of a round, even if all clients have answered; null: 1, or the deadline if shorter"""
    late: Late = "count"
    """how to treat answers to an earlier round: count them in the round in which they arrive, or discard them"""

    @model_validator(mode="after")
    def _in_order(self) -> RoundOptions:
        if self.deadline is None and self.minimum:
            raise ValueError(f"found minimum {self.minimum} but no deadline; set deadline, or remove minimum")
        if self.deadline is not None and self.max_duration < self.deadline:
            raise ValueError(
                f"found give_up {self.give_up}, which comes before the deadline {self.deadline}; raise give_up"
            )
        end, name = (self.max_duration, "give_up") if self.deadline is None else (self.deadline, "deadline")
        if self.min_duration > end:
            raise ValueError(
                f"found at_least {self.at_least}, which is longer than {name} {end}; lower at_least"
            )
        return self

    @property
    def max_duration(self) -> float:
        """Time after which a round always ends."""
        return PATIENCE * (self.deadline or 1.0) if self.give_up is None else self.give_up

    @property
    def min_duration(self) -> float:
        """Minimum duration of a round."""
        return min(1.0, self.deadline or self.max_duration) if self.at_least is None else self.at_least


class StalenessOptions(Options):
    """Weight of an answer that is based on a model tau versions old.

    References
    ----------
    Xie, Koyejo, Gupta, "Asynchronous federated optimization" (FedAsync), OPT 2020, section 5.2; Nguyen et al. 2022
    use the polynomial weight with exponent 0.5.
    """

    law: Literal["constant", "polynomial"] = "constant"
    """constant: 1; polynomial: (1 + tau)^-exponent"""
    exponent: PositiveFloat = 0.5
    """exponent of the polynomial weight"""

    def weight(self, tau: int) -> float:
        """Return s(tau), in (0, 1]."""
        return 1.0 if self.law == "constant" else float((1.0 + tau) ** -self.exponent)


class _Aggregation(Options):
    staleness: StalenessOptions = StalenessOptions()
    """weight of an answer by the versions published since its client was asked"""
    mixing: float | None = Field(default=None, gt=0, le=1)
    """alpha: fraction of a new version that comes from full-weight answers, the rest from the old version; null: all
"""

    invalid: Invalid = "fatal"
    """answers with NaN or infinite values, if answers wait in an inbox: fatal ends the run, discard drops them"""

    @property
    def plain(self) -> bool:
        """Whether all answers weigh the same, and nothing of the old version is kept."""
        return self.staleness.law == "constant" and self.mixing is None


class SynchronousOptions(_Aggregation):
    """Clients are asked in rounds, all at the same time."""

    name: Literal["synchronous"] = "synchronous"


class BufferedOptions(_Aggregation):
    """Clients are asked one after the other; a version is published per `buffer` answers (FedBuff).

    References
    ----------
    Nguyen et al., "Federated learning with buffered asynchronous aggregation", AISTATS 2022.
    """

    name: Literal["buffered"]
    buffer: Count = 10
    """K: number of answers per version"""
    concurrency: Count
    """M: number of working clients after each version"""
    give_up: Duration = PATIENCE
    """time after which a client that has not answered is replaced"""
    late: Late = "count"
    """how to treat answers of replaced clients: count or discard"""

    @model_validator(mode="after")
    def _fills(self) -> BufferedOptions:
        if self.buffer > self.concurrency:
            raise ValueError(
                f"found buffer {self.buffer}, but concurrency {self.concurrency}: the working clients cannot "
                "fill the buffer; lower buffer or raise concurrency"
            )
        return self

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield more working clients than there are."""
        if self.concurrency > n_users:
            yield ("concurrency",), f"found {self.concurrency}, but there are only {n_users} clients"


Aggregation: TypeAlias = Annotated[SynchronousOptions | BufferedOptions, Field(discriminator="name")]


class FedAvgOptions(Options):
    """Options of FedAvg."""

    rounds: Count = 100
    """wakes of the coordinator; with slice, passes over all clients"""
    participation: float = Field(default=1.0, gt=0, le=1)
    """fraction of the clients asked in each round"""
    slice: Count | None = None
    """clients per slice; a round is then a global epoch that asks all clients once, in shuffled order, with one wake
    of the coordinator per slice"""
    close_epochs: bool = False
    """end an epoch of slices with one more wake of the coordinator, which asks no client, merges the answers of the
    last slice and takes the recommender's step at the end of an epoch, so that the report of the epoch includes
    both; false: the first wake of the next epoch does this, after the report"""
    user_table: Literal["own", "averaged"] = "own"
    """own: a client keeps its user row; averaged: all rows are sent and averaged (published code)"""
    client_model: Literal["own", "none"] = "own"
    """own: a client keeps a whole model; none: a client keeps only its user row and private weights, and answers
    with an update, the rows that it touched"""
    upload: Literal["changes", "gradients"] = "changes"
    """content of an update: the deltas made by training.optimizer, or the raw gradient of one step times
    -training.learning_rate; the user row is always trained by training.optimizer"""
    merge: Rule = "samples"
    """how answers are aggregated: samples or mean (a client's weight is its number of positives, or 1), or another
    aggregator such as median, or {name: krum, byzantine: 2}"""
    server: ServerChoice | None = None
    """server optimizer of the coordinator, applied between aggregating and pushing, such as momentum; null: none"""
    ask: Literal["all", "online"] = "all"
    """clients eligible for a round: all, or only those online at its start"""
    choose: Literal["uniform", "proportional"] = "uniform"
    """how clients are chosen: uniform; proportional: in proportion to the groups of similar clients that the
    recommender finds (uniform before it has found any)"""
    pause: int = Field(default=0, ge=0, le=LARGEST)
    """number of rounds in which an asked client is not asked again, unless too few others are left"""
    round: RoundOptions | None = None
    """when a round ends; null: after one unit of time"""
    aggregation: Aggregation = SynchronousOptions()
    """aggregation of answers"""
    merge_last: bool = False
    """true: after the last round the coordinator wakes once more, asks no client and merges the answers to its last
    push, and the last report covers that version; false: these answers stay unmerged if answers wait for the next wake
    (updates, a server, or a rule other than a weighted mean)"""

    @model_validator(mode="after")
    def _of_one_kind(self) -> FedAvgOptions:
        if self.slice is not None and (
            self.participation != 1.0 or isinstance(self.aggregation, BufferedOptions)
        ):
            found = "participation" if self.participation != 1.0 else "buffered aggregation"
            raise ValueError(
                f"found slice and {found}, but slices ask all clients in turn; remove one of them"
            )
        if self.close_epochs and self.slice is None:
            raise ValueError(
                "found close_epochs but no slice, although an epoch is a pass over slices of the clients; "
                "set slice, or remove close_epochs"
            )
        if self.close_epochs and self.merge_last:
            raise ValueError(
                "found close_epochs and merge_last, but the wake that closes the last epoch merges the last "
                "answers; remove merge_last"
            )
        if self.server is not None and self.aggregation.mixing is not None:
            raise ValueError(
                "found server and aggregation.mixing, but the server determines how the old version is "
                "kept; remove mixing"
            )
        if self.slice is not None and (self.choose != "uniform" or self.pause):
            found = "pause" if self.pause else "choose proportional"
            raise ValueError(
                f"found slice and {found}, but slices ask all clients in turn; remove one of them"
            )
        self._check_updates()
        if isinstance(self.aggregation, BufferedOptions):
            if self.round is not None:
                raise ValueError(
                    "found round, but buffered aggregation has no rounds; remove round (give_up and late "
                    "are options of aggregation)"
                )
            if self.participation != 1.0:
                raise ValueError(
                    f"found participation {self.participation}, but with buffered aggregation concurrency "
                    "sets the number of working clients; remove participation"
                )
        return self

    def _check_updates(self) -> None:
        if self.client_model == "own":
            reject_delta_rules(self.merge, "merge", "clients", "set client_model to none, or ")
            if self.upload == "gradients":
                raise ValueError(
                    "found upload gradients, but clients send whole models; set client_model to none, or "
                    "remove upload"
                )
            return
        if self.user_table == "averaged":
            raise ValueError(
                "found client_model none and user_table averaged, but a client without a model has only its "
                "own user row; set user_table to own"
            )
        if self.aggregation.mixing is not None:
            raise ValueError(
                "found client_model none and aggregation.mixing, but updates are added to the version "
                "without mixing; remove mixing"
            )

    def check_scenario(self, scenario: Any) -> Iterator[Problem]:
        """Yield gradients of several steps, and a buffer for answers that all arrive at once."""
        training = scenario.training
        if self.upload == "gradients" and (training.local_epochs > 1 or training.batch_size != "full"):
            yield (
                ("upload",),
                "found 'gradients', of one step, but a client takes several steps (training.local_epochs "
                f"{training.local_epochs}, batch_size {training.batch_size}); set them to 1 and full, or remove "
                "upload",
            )
        if isinstance(self.aggregation, BufferedOptions) and scenario.network.takes_no_time:
            yield (
                ("aggregation",),
                "buffered aggregation requires that answers take time, but network latency is 0 and computing "
                "takes no time, so all answers would arrive at once; set network.latency or network.compute",
            )

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield a participation of no client."""
        if round(self.participation * n_users) < 1:
            yield ("participation",), f"found {self.participation}, which selects no node of {n_users}"


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
        options, answered = self._options, self._asked - len(self._waiting)
        end = options.max_duration
        if self._asked and not self._waiting:
            end = options.min_duration
        elif options.deadline is not None and answered >= options.minimum * self._asked - 1e-9:
            end = options.deadline
        return max(self._began + end, now)


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
