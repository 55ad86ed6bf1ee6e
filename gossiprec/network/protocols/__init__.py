"""Protocols: the actions of a node on wake and on receive. One file per protocol."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import Options
from gossiprec.base.registry import Registry, registry_name
from gossiprec.compute.plan.tape import Behaviour
from gossiprec.network.overlay import PoisonerPlaces, UserProfiles
from gossiprec.network.protocols.messages import Message, Reaction, Send
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.clock import WakeClock
from gossiprec.rules.aggregators import InboxConfig
from gossiprec.rules.servers import Server


class Protocol(ABC):
    """The receivers of messages, and the treatment of models on the way.

    A protocol has two parts. The engine queries the receivers event by event: :meth:`on_wake`, :meth:`on_receive`.
    The treatment of models is declared once, for each role and kind of message: :attr:`role_behaviours`.

    Parameters
    ----------
    options : Options
        Options of the class's own type.
    n_users : int
        Nodes 0 .. n_users - 1 hold one user each.
    seed : int
    availability : Availability, optional
        Times at which nodes are online; they always are if omitted.
    profiles : UserProfiles, optional
        Profiles of the users; required if links are made by taste or place.
    """

    Options: ClassVar[type[Options]]
    has_coordinator: ClassVar[bool] = False
    """Whether node number n_users coordinates the others."""
    peers_meet: ClassVar[bool] = True
    """Whether users' nodes receive one another's models; if not, only a coordinator can observe them."""
    replies: ClassVar[bool] = False
    """Whether a delivery can make a node send; set by itself if the class defines :meth:`on_receive`."""
    sees_messages: ClassVar[bool] = False
    """Whether the class defines :meth:`on_receive`; set by itself."""
    max_answers: ClassVar[int] = 1000
    """Limit of the messages that follow from one wake: a guard against endless answers."""
    seconds_per_wake: float | None = None
    """Seconds of one unit of virtual time, from the scenario; None if it does not state them."""

    poisoners: tuple[PoisonerPlaces, ...] = ()
    """All poisoners among the users, if the scenario places some of them in a fixed graph."""

    def __init__(
        self,
        options: Any,
        *,
        n_users: int,
        seed: int,
        availability: Availability | None = None,
        profiles: UserProfiles | None = None,
    ) -> None:
        self.options = options
        self.n_users = n_users
        self.seed = seed
        self.availability = availability or Availability.always_online(self.n_nodes)
        self.profiles = profiles

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "on_receive" in vars(cls):
            cls.sees_messages = cls.replies = True

    @classmethod
    def mode_of(cls, options: Any) -> str:
        """Return the name of the run mode under some options (:mod:`gossiprec.modes`)."""
        return "whole-models"

    @classmethod
    def users_meet(cls, options: Any) -> bool:
        """Return whether users' nodes receive one another's models under some options."""
        return cls.peers_meet

    @property
    def choices_follow_data(self) -> bool:
        """Whether receivers or merge weights depend on a node's items directly: no noise covers this."""
        return False

    @property
    def n_servers(self) -> int:
        """Number of nodes without a user, which come after the users' nodes."""
        return int(self.has_coordinator)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, including those without a user."""
        return self.n_users + self.n_servers

    @property
    def roles(self) -> I64:
        """Index into :attr:`role_behaviours` of every node."""
        return np.zeros(self.n_nodes, np.int64)

    @property
    @abstractmethod
    def role_behaviours(self) -> Sequence[Behaviour]:
        """The treatment of models by the nodes of each role."""

    @property
    @abstractmethod
    def clock(self) -> WakeClock:
        """The clock of the waking nodes."""

    @property
    @abstractmethod
    def wakes(self) -> int:
        """Wakes of each waking node in the whole run."""

    @property
    def wakes_per_round(self) -> int:
        """Wakes of each waking node that count as one round."""
        return 1

    @property
    def ends_epoch_with_extra_wake(self) -> bool:
        """Whether the last wake of a round asks no client: the coordinator only merges the answers."""
        return False

    @property
    def messages_per_wake(self) -> int | None:
        """Number of messages that every wake sends, if it is constant."""
        return None

    @property
    def max_messages_per_wake(self) -> int | None:
        """Maximum number of messages that one wake causes, including answers; None if it is unknown."""
        return self.messages_per_wake

    @property
    def depends_on_values(self) -> bool:
        """Whether peers are chosen by the performance of models, which :meth:`receive_values` gets."""
        return False

    def receive_values(self, receiver: I64, sender: I64, found: F32) -> None:
        """Receive the performance of scored versions at their receivers, in order of delivery.

        With a coordinator: the groups (`sender`) to which its server has assigned clients (`receiver`).
        """
        raise NotImplementedError(
            f"{type(self).__name__} scores versions but does not implement how it uses the scores"
        )

    @property
    def whole_user_table(self) -> bool:
        """Whether every node holds, sends and merges the rows of all users."""
        return False

    @property
    def common_start(self) -> bool:
        """Whether all nodes begin with the same item tables and shared weights."""
        return True

    @property
    def uploads_gradients(self) -> bool:
        """Whether such an update is a step along the raw gradient, whatever the optimizer."""
        return False

    @property
    def view_size(self) -> int | None:
        """Number of peers in a view, if every wake sends to all of it: the log then holds views."""
        return None

    @abstractmethod
    def merge_weights(self, n_positives: I64) -> F64:
        """Return the weight of every node's models in a merge, shape (n_nodes,)."""

    def inbox(self) -> InboxConfig | None:
        """Return the rule by which the coordinator aggregates models; None if they are blended on arrival."""
        return None

    def sums_inbox(self) -> InboxConfig | None:
        """Return the rule by which the coordinator reduces the sum of a round; None if it cannot.

        Raises
        ------
        ScenarioError
            If an option needs single answers.
        """
        return None

    def coordinator_inbox(self, sees: str) -> InboxConfig | None:
        """Return the rule of the coordinator's inbox, given ``coordinator.sees``; sums wait for all answers of a round.

        Raises
        ------
        ScenarioError
            If the coordinator is to see sums, and the protocol cannot compute them.
        """
        found = self.sums_inbox() if sees == "sums" else self.inbox()
        if sees == "sums" and found is None:
            raise ScenarioError(
                f"coordinator.sees: found 'sums', but {registry_name(self)} has no rounds of which the answers are "
                "summed; use fedavg, or set coordinator.sees to updates or final"
            )
        return found

    def fixed_neighbors(self) -> Sequence[Sequence[int]] | None:
        """Return the nodes that each node can send to, if they are neighbours in a graph that never changes."""
        return None

    def receivers_in_step(self, reader: str) -> Sequence[Sequence[int]]:
        """Return the receivers of each node, if nodes wake in step and have the same receivers at every wake.

        Raises
        ------
        ScenarioError
            If they do not; it begins with `reader`, the part of the scenario that needs them.
        """
        raise ScenarioError(
            f"{reader} nodes must wake in step and have the same receivers at every wake, so that those that send to a "
            "node know of one another; use rand-gossip with view.graph, fanout of at least its degree, and wake.law "
            "constant"
        )

    def server(self) -> Server | None:
        """Return the server computation of the coordinator before a push, or None."""
        return None

    @abstractmethod
    def on_wake(self, node: int, now: float) -> Any:
        """Return the receivers of the node's model on this wake.

        A protocol that sees messages may return :class:`Send` objects instead.
        """

    @property
    def control_messages(self) -> Mapping[str, int]:
        """Size in bytes of each kind of message that carries no model; the class must define :meth:`on_receive`."""
        return {}

    def on_receive(self, message: Message) -> Sequence[Send] | Reaction:
        """Return the messages that the receiver of a message sends in answer.

        The node's operations are those in :attr:`Behaviour.on` of the message's kind, or `on_receive` if it is not
        there; a :class:`Reaction` selects others. The choice cannot depend on the values of models, which are computed
        later.
        """
        return ()

    def on_delivery(self, node: int, message: int, now: float) -> Sequence[int]:
        """Return the receivers of the messages that the node sends on the delivery of a message, by its number.

        This is the form for protocols with many answers: an object for each message would cost too much.
        """
        return ()

    @property
    def sets_own_wakes(self) -> bool:
        """Whether the only waking node sets its next wake by what arrives, and weighs it.

        Such a protocol defines :meth:`on_sent`, :attr:`delivery_weight` and :meth:`next_wake`.
        """
        return False

    def on_sent(self, first: int, receivers: Sequence[int]) -> None:
        """Note that the latest receivers are sent messages first, first + 1, ..."""
        raise NotImplementedError(f"{type(self).__name__} steers peers but does not follow its messages")

    @property
    def delivery_weight(self) -> float:
        """Factor of the sender's weight in the merge of the latest delivery, from 0 to 1."""
        return 1.0

    def next_wake(self, now: float) -> float | None:
        """Return the time of the waking node's next wake as currently planned; None if its clock decides."""
        return None

    def report(self) -> dict[str, Any]:
        """Return sections for the summary that only the protocol can fill."""
        return {}

    def on_missed_wake(self, node: int, now: float) -> None:  # noqa: B027 (most protocols draw nothing)
        """Note that the node misses this wake; the draws of the wake are skipped."""

    @property
    def horizon(self) -> float:
        """Virtual time at which the last clock has rung, or later."""
        return float(self.clock.intervals(0, self.wakes).sum(axis=1).max())

    def predicted_fraction_met(self, rounds: float) -> float | None:
        """Return the expected fraction of others that a user's node has met after `rounds`, or None."""
        return None

    def predicted_fraction_heard(self, rounds: float) -> float | None:
        """Return the expected fraction of users' nodes that a coordinator has heard from after `rounds`, or None."""
        return None


class CoordinatedProtocol(Protocol):
    """A protocol in which only a coordinator wakes, once per unit of time; users' nodes do not meet."""

    has_coordinator = True
    peers_meet = False

    @property
    def roles(self) -> I64:
        """Users, then the coordinator."""
        return np.append(np.zeros(self.n_users, np.int64), 1)

    @functools.cached_property
    def clock(self) -> WakeClock:
        """The coordinator's clock."""
        return WakeClock([self.n_users], mean=1.0, distribution="constant", seed=self.seed)


PROTOCOLS: Registry[type[Protocol]] = Registry("protocol", __name__, group="protocols")

__all__ = ["PROTOCOLS", "Message", "Protocol", "Reaction", "Send"]
