"""What a recommender does at the coordinator, between aggregating and pushing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gossiprec.arrays import F32, I64
from gossiprec.eventlog.checkpoint_state import Stateful
from gossiprec.models.base import Layout, Model
from gossiprec.old_names import forward
from gossiprec.servers.base import ClientAnswers, Downlink, Extras, RoundContext, Server


def _no_server() -> None:
    return None


@dataclass(frozen=True)
class CoordinatorContext:
    """What the coordinator knows before the first round.

    Attributes
    ----------
    model : Model
    layout : Layout
    popularity : ndarray of int64, shape (n_items,)
        Training interactions of each item, over all users: the papers count it as public.
    wakes_per_epoch : int
        Wakes of the coordinator in a global epoch: one per slice, and the closing one, if there is one.
    seed : int
    n_clients : int
    contribution : object or None
        What :meth:`Recommender.contributed` gave.
    make_server : callable
        Returns another server like the one that the protocol names, or None if it names none.
    closes_epochs : bool
        Whether an epoch ends with a wake of its own (``protocol.close_epochs``), at which no client is asked.
    """

    model: Model
    layout: Layout
    popularity: I64
    wakes_per_epoch: int
    seed: int
    n_clients: int
    contribution: Any
    make_server: Callable[[], Server | None] = _no_server
    closes_epochs: bool = False

    def begun(self, round: RoundContext) -> int | None:
        """Return the epoch, from 0, that begins with a round, or None."""
        epoch, place = divmod(round.number, self.wakes_per_epoch)
        return epoch if place == 0 else None

    def over(self, round: RoundContext) -> int:
        """Return the number of epochs that are over at a round, if one has ended since the round before; else 0."""
        epochs, wakes = divmod(round.number + self.closes_epochs, self.wakes_per_epoch)
        return epochs if wakes == 0 else 0


class CoordinatorHook(Stateful, ABC):
    """What the coordinator does between aggregating and pushing; what it remembers is named in :attr:`changing`."""

    extra_bytes: int = 0
    """Size of what a client is sent beside the version."""
    own_extras: frozenset[str] = frozenset()
    """Names of extras, shape (n_clients, ...), of which each client is sent its row; all of the others."""
    one_of: frozenset[str] = frozenset()
    """Names of extras of which each client is sent one row, whichever its own say."""
    stands_for: frozenset[str] = frozenset()
    """Names of extras that nobody is sent: with them a client works out what the coordinator would answer it."""
    answer_bytes: int = 0
    """Size of such an answer, a part of :attr:`extra_bytes`."""

    @property
    def groups(self) -> I64 | None:
        """Which group of alike clients each is in, -1: not known; shape (n_clients,). None: none are made."""
        return None

    @property
    def knowledge(self) -> Any:
        """What an attack on uploads may use that is no delivery, such as contributed data; None if there is none.

        It must not lead to the truth: the attack can reach all of it.
        """
        return None

    def start(self, version: F32, users: F32) -> tuple[F32, F32]:
        """Return with which version, and with which rows of their users, everybody begins.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
        users : ndarray of float32, shape (n_clients, user_width)
            As the model draws them.
        """
        return version, users

    @abstractmethod
    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version that is pushed, and the extras beside it.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
            As aggregated, ``[items | shared]``. Not to be changed.
        answers : Answers
            What it was aggregated from.
        round : Round
        """


class RecommenderServer(Server):
    """A recommender's coordinator, after the server that the protocol names, if any.

    Parameters
    ----------
    server : Server or None
    between : Between
    """

    def __init__(self, server: Server | None, between: CoordinatorHook) -> None:
        super().__init__(None)
        self._server, self._between = server, between
        self.n_versions = 1
        self.extra_bytes = between.extra_bytes + (0 if server is None else server.extra_bytes)

    @property
    def parts(self) -> tuple[object, ...]:
        """The server and the recommender's part."""
        return (self._server, self._between)

    @property
    def groups(self) -> I64 | None:
        """Those of the recommender."""
        return self._between.groups

    def round(self, published: F32, aggregated: F32, answers: ClientAnswers, round: RoundContext) -> Downlink:
        """Let the server do its part, and then the recommender."""
        downlink, between = Downlink(aggregated[None]), self._between
        if self._server is not None:
            downlink = self._server.round(published, aggregated, answers, round)
        version, extras = between.step(downlink.versions[0], answers, round)
        apart = between.own_extras | between.one_of | between.stands_for
        return Downlink(
            version[None],
            extras={**downlink.extras, **{name: extras[name] for name in extras if name not in apart}},
            own={**downlink.own, **{name: extras[name] for name in between.own_extras}},
            one_of={**downlink.one_of, **{name: extras[name] for name in between.one_of}},
            stands_for={name: extras[name] for name in between.stands_for},
            answer_bytes=between.answer_bytes,
        )

    def state(self) -> dict[str, Any]:
        """Return what both remember."""
        server = {} if self._server is None else self._server.state()
        return {"server": server, "between": self._between.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        if self._server is not None:
            self._server.restore(state["server"])
        self._between.restore(state["between"])


forward(__name__)
