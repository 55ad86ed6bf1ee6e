"""What the emulator needs to know of a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.aggregators.base import Inbox
from gossiprec.arrays import F32, I64
from gossiprec.eventlog.checkpoint_state import Stateful
from gossiprec.models.base import Layout
from gossiprec.old_names import forward
from gossiprec.options import NoOptions, Options
from gossiprec.rng import generator

Extras: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""What a coordinator sends beside versions, by name: float32 or int32."""

USER_ROWS = "user_rows"
"""Name of the extra with each user's row, shape (n_clients, user_width), of a coordinator that keeps these: a client
begins a local update with the row that it is sent, and recommends by the row that was published last."""


@dataclass(frozen=True)
class ClientAnswers:
    """What clients have sent since the last round.

    Attributes
    ----------
    clients : ndarray of int64, shape (n_answers,)
        Who sent each, in order of arrival.
    inbox : Inbox
        Their models.
    users : ndarray of float32, shape (n_answers, user_width), or None
        What each has told of its user's row, NaN where it told nothing; None: nobody tells.
    """

    clients: I64
    inbox: Inbox
    users: F32 | None = None


class ThreadPoolLike(Protocol):
    """What computes parts of a job at once."""

    @property
    def size(self) -> int:
        """Parts of a job."""

    def run(self, job: Callable[[int], None]) -> None:
        """Call ``job(0) .. job(size - 1)``, each by whatever thread, and return when all have returned."""


class CallingThread:
    """The calling thread alone."""

    size = 1

    def run(self, job: Callable[[int], None]) -> None:
        """Call ``job(0)``."""
        job(0)


ALONE: ThreadPoolLike = CallingThread()


@dataclass(frozen=True)
class RoundContext:
    """What a server may know besides what it was sent.

    Attributes
    ----------
    number : int
        Of the round, from 0: before the first push, with no answers.
    n_clients : int
    layout : Layout
        Where items and shared weights lie in a model row, of which a server holds the columns ``layout.merged``.
    threads : Threads
        For what may be computed at once: the same numbers must come out by however many.
    """

    seed: int
    number: int
    n_clients: int
    layout: Layout
    threads: ThreadPoolLike = ALONE

    def generator(self, purpose: str) -> np.random.Generator:
        """Return draws that depend on seed, purpose and round alone."""
        return generator(self.seed, purpose, 0, self.number)


@dataclass(frozen=True)
class Downlink:
    """What a coordinator pushes.

    Attributes
    ----------
    versions : ndarray of float32, shape (n_versions, n_columns)
        The first is the coordinator's own model, too.
    version_of : ndarray of int, shape (n_clients,), or None
        Which version each client is sent, if it is asked; None: the first.
    extras : mapping of str to ndarray
        What every client is sent besides.
    own : mapping of str to ndarray, shape (n_clients, ...)
        What each client is sent besides: its row.
    one_of : mapping of str to ndarray, shape (n, ...)
        Of which each client is sent one row, whichever `own` names.
    stands_for : mapping of str to ndarray
        What nobody is sent: a client works out with it what the coordinator would answer to what the client tells of
        its user. That exchange, before the client trains, is played on its side: it takes no time and nothing is lost.
    answer_bytes : int
        Size of such an answer; with all that is sent :attr:`Server.extra_bytes` to each.
    """

    versions: F32
    version_of: npt.NDArray[np.integer] | None = None
    extras: Extras = field(default_factory=dict)
    own: Extras = field(default_factory=dict)
    one_of: Extras = field(default_factory=dict)
    stands_for: Extras = field(default_factory=dict)
    answer_bytes: int = 0

    @property
    def bytes_to_each(self) -> int:
        """Size of what is sent to a client beside its version."""
        single = sum(rows.nbytes // len(rows) for rows in (*self.own.values(), *self.one_of.values()))
        return single + self.answer_bytes + sum(extra.nbytes for extra in self.extras.values())


class Server(Stateful, ABC):
    """What a coordinator computes at each wake, before it pushes; what it remembers is named in :attr:`changing`.

    Attributes
    ----------
    n_versions : int
        Versions of a :class:`Downlink`.
    extra_bytes : int
        Of what it sends a client besides: known before the run, because messages take time by their size.
    """

    Options: ClassVar[type[Options]] = NoOptions
    n_versions: int = 1
    extra_bytes: int = 0

    @property
    def parts(self) -> tuple[object, ...]:
        """The objects that see what :meth:`round` is given: the server, and those that it passes it to."""
        return (self,)

    @property
    def groups(self) -> I64 | None:
        """Which group of alike clients each is in, -1: not known; shape (n_clients,). None: none are made."""
        return None

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def round(self, published: F32, aggregated: F32, answers: ClientAnswers, round: RoundContext) -> Downlink:
        """Return what is pushed next.

        Parameters
        ----------
        published : ndarray of float32, shape (n_columns,)
            The first version of the round before, or the common start; read-only.
        aggregated : ndarray of float32, shape (n_columns,)
            What the aggregation rule made of the answers; without any, `published`.
        answers : Answers
        round : Round
        """


forward(__name__)
