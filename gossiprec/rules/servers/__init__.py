"""Server optimizers: computation of a coordinator between aggregation and the next push. One file per server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from gossiprec.base.arrays import F32, I64
from gossiprec.base.machine import CALLING_THREAD as CALLING_THREAD
from gossiprec.base.machine import ThreadPoolLike as ThreadPoolLike
from gossiprec.base.options import NoOptions, Options, RegisteredName, build_registered
from gossiprec.base.registry import Registry
from gossiprec.base.rng import generator
from gossiprec.models.base import Layout
from gossiprec.rules.aggregators import Inbox
from gossiprec.runs.checkpoint_state import Stateful

Extras: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Arrays that a coordinator sends in addition to versions, by name: float32 or int32."""

USER_ROWS = "user_rows"
"""Name of the extra with each user's row, shape (n_clients, user_width), if the coordinator keeps these rows.

A client begins a local update with the row that it is sent, and recommends by the row that was published last.
"""


@dataclass(frozen=True)
class ClientAnswers:
    """The answers of clients since the last round.

    Attributes
    ----------
    clients : ndarray of int64, shape (n_answers,)
        Client of each answer, in order of arrival.
    inbox : Inbox
        Their models.
    users : ndarray of float32, shape (n_answers, user_width), or None
        Each client's upload about its user's row, NaN if it sent none; None if no client uploads.
    """

    clients: I64
    inbox: Inbox
    users: F32 | None = None


@dataclass(frozen=True)
class RoundContext:
    """The inputs of a server other than the models.

    Attributes
    ----------
    number : int
        Number of the round; 0 is before the first push and has no answers.
    n_clients : int
    layout : Layout
        Positions of items and shared weights in a model row; a server holds the columns ``layout.merged``.
    threads : ThreadPoolLike
        Executor for parallel computation; results must not depend on the number of threads.
    """

    seed: int
    number: int
    n_clients: int
    layout: Layout
    threads: ThreadPoolLike = CALLING_THREAD

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a generator that depends only on seed, purpose and round."""
        return generator(self.seed, purpose, 0, self.number)


@dataclass(frozen=True)
class Downlink:
    """The output of a coordinator for a push.

    Attributes
    ----------
    versions : ndarray of float32, shape (n_versions, n_columns)
        Versions to send; the first is also the coordinator's own model.
    version_of : ndarray of int, shape (n_clients,), or None
        Version that each client is sent when it takes part; None for the first.
    extras : mapping of str to ndarray
        Arrays that every client is sent in addition.
    own : mapping of str to ndarray, shape (n_clients, ...)
        Arrays of which each client is sent its own row in addition.
    one_of : mapping of str to ndarray, shape (n, ...)
        Arrays of which each client is sent one row, the one that `own` names.
    stands_for : mapping of str to ndarray
        Arrays that are not sent: a client computes with them the coordinator's answer to its user upload. This
        exchange before training is emulated at the client: it takes no time and nothing is lost.
    answer_bytes : int
        Size in bytes of such an answer; with everything else that is sent to each client :attr:`Server.extra_bytes`.
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
        """Bytes that are sent to a client in addition to its version."""
        single = sum(rows.nbytes // len(rows) for rows in (*self.own.values(), *self.one_of.values()))
        return single + self.answer_bytes + sum(extra.nbytes for extra in self.extras.values())


class Server(Stateful, ABC):
    """The computation of a coordinator at each wake before it pushes; its state is named in :attr:`checkpointed`.

    Attributes
    ----------
    n_versions : int
        Number of versions in a :class:`Downlink`.
    extra_bytes : int
        Bytes that it sends a client in addition; they must be known before the run, because they affect message
        times.
    needs_answers : bool
        Whether :meth:`round` reads more of the answers than their number; if not, the coordinator may see sums only.
    """

    Options: ClassVar[type[Options]] = NoOptions
    n_versions: int = 1
    extra_bytes: int = 0
    needs_answers: bool = True

    @property
    def parts(self) -> tuple[object, ...]:
        """The objects that receive the inputs of :meth:`round`: the server, and servers inside it."""
        return (self,)

    @property
    def groups(self) -> I64 | None:
        """Group of similar clients of each client, -1 if unknown, shape (n_clients,); None if there are no groups."""
        return None

    def __init__(self, options: Any) -> None:
        self.options = options

    @abstractmethod
    def round(self, published: F32, aggregated: F32, answers: ClientAnswers, round: RoundContext) -> Downlink:
        """Return the next push.

        Parameters
        ----------
        published : ndarray of float32, shape (n_columns,)
            The first version of the round before, or the common start; read-only.
        aggregated : ndarray of float32, shape (n_columns,)
            The result of the aggregation rule; without answers, `published`.
        answers : ClientAnswers
        round : RoundContext
        """


SERVERS: Registry[type[Server]] = Registry("server", __name__, group="servers")


def make_server(spec: Any) -> Server:
    """Return the server that an option of type :data:`ServerChoice` specifies."""
    return build_registered(SERVERS, spec)


ServerChoice: TypeAlias = Annotated[str | dict[str, Any], RegisteredName(SERVERS)]
"""The name of a registered server, or ``{name: ..., options}``."""
