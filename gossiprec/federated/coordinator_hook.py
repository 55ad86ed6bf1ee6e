"""The coordinator's part of a recommender, between aggregating and sending, and the server that runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gossiprec.base.arrays import F32, I64
from gossiprec.models.base import Layout, Model
from gossiprec.old_names import forward
from gossiprec.rules.servers.base import ClientAnswers, Downlink, Extras, RoundContext, Server
from gossiprec.runs.checkpoint_state import Stateful


def _no_server() -> None:
    return None


@dataclass(frozen=True)
class CoordinatorContext:
    """The coordinator's knowledge before the first round.

    Attributes
    ----------
    model : Model
    layout : Layout
    popularity : ndarray of int64, shape (n_items,)
        Training interactions of each item, over all users: the papers count it as public.
    wakes_per_epoch : int
        Wakes of the coordinator per global epoch: one per slice, and the closing wake, if there is one.
    seed : int
    n_clients : int
    contribution : object or None
        The value that :meth:`Recommender.initial_contribution` returned.
    make_server : callable
        Function that returns another server like the protocol's, or None if it has none.
    closes_epochs : bool
        Whether an epoch ends with an extra wake (``protocol.close_epochs``), at which no client is sent a version.
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
    """The coordinator's work between aggregating and sending; :attr:`checkpointed` names its state."""

    extra_bytes: int = 0
    """Bytes that a client is sent in addition to the version."""
    own_extras: frozenset[str] = frozenset()
    """Names of extras, shape (n_clients, ...), of which each client is sent its row; other extras are sent whole."""
    one_of: frozenset[str] = frozenset()
    """Names of extras of which each client is sent one row, selected by its own extras."""
    stands_for: frozenset[str] = frozenset()
    """Names of extras that are not sent: with them a client computes the coordinator's answer itself."""
    answer_bytes: int = 0
    """Size of such an answer, a part of :attr:`extra_bytes`."""

    @property
    def groups(self) -> I64 | None:
        """The group of similar clients of each, -1 if unknown, shape (n_clients,); None if there are no groups."""
        return None

    @property
    def knowledge(self) -> Any:
        """Further knowledge for an attack on uploads, such as contributed data, or None.

        It must not contain the ground truth: the attack can reach all of it.
        """
        return None

    def start(self, version: F32, users: F32) -> tuple[F32, F32]:
        """Return the version, and the rows of their users, with which all clients begin.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
        users : ndarray of float32, shape (n_clients, user_width)
            As the model draws them.
        """
        return version, users

    @abstractmethod
    def step(self, version: F32, answers: ClientAnswers, round: RoundContext) -> tuple[F32, Extras]:
        """Return the version to send, and its extras.

        Parameters
        ----------
        version : ndarray of float32, shape (n_columns,)
            As aggregated, ``[items | shared]``. It must not be changed.
        answers : ClientAnswers
            The answers that it was aggregated from.
        round : RoundContext
        """


class RecommenderServer(Server):
    """A recommender's coordinator, after the server that the protocol names, if any.

    Parameters
    ----------
    server : Server or None
    hook : CoordinatorHook
    """

    def __init__(self, server: Server | None, hook: CoordinatorHook) -> None:
        super().__init__(None)
        self._server, self._hook = server, hook
        self.n_versions = 1
        self.extra_bytes = hook.extra_bytes + (0 if server is None else server.extra_bytes)

    @property
    def parts(self) -> tuple[object, ...]:
        """The server and the recommender's part."""
        return (self._server, self._hook)

    @property
    def groups(self) -> I64 | None:
        """The groups of the recommender's part."""
        return self._hook.groups

    def round(self, published: F32, aggregated: F32, answers: ClientAnswers, round: RoundContext) -> Downlink:
        """Run the server's part, and then the recommender's."""
        downlink, hook = Downlink(aggregated[None]), self._hook
        if self._server is not None:
            downlink = self._server.round(published, aggregated, answers, round)
        version, extras = hook.step(downlink.versions[0], answers, round)
        separate = hook.own_extras | hook.one_of | hook.stands_for
        return Downlink(
            version[None],
            extras={**downlink.extras, **{name: extras[name] for name in extras if name not in separate}},
            own={**downlink.own, **{name: extras[name] for name in hook.own_extras}},
            one_of={**downlink.one_of, **{name: extras[name] for name in hook.one_of}},
            stands_for={name: extras[name] for name in hook.stands_for},
            answer_bytes=hook.answer_bytes,
        )

    def state(self) -> dict[str, Any]:
        """Return the state of both parts."""
        server = {} if self._server is None else self._server.state()
        return {"server": server, "between": self._hook.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the state that :meth:`state` returned."""
        if self._server is not None:
            self._server.restore(state["server"])
        self._hook.restore(state["between"])


forward(__name__)
