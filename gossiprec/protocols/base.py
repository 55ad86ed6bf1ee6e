"""What the emulator needs to know of a protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from gossiprec.aggregators import InboxConfig
from gossiprec.arrays import F32, F64, I64
from gossiprec.compute.plan.tape import Behaviour
from gossiprec.options import Options
from gossiprec.overlay.base import UserProfiles
from gossiprec.servers import Server
from gossiprec.sim.availability import Availability
from gossiprec.sim.clock import WakeClock


class Protocol(ABC):
    """Who sends to whom, and what models go through on the way.

    A protocol splits in two. *Who* is asked by the engine, event by event: :meth:`on_wake`, :meth:`on_receive`. *What*
    is the same for all events of a role and is said once: :attr:`behaviours`.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    n_users : int
        Nodes 0 .. n_users - 1 hold one user each.
    seed : int
    availability : Availability, optional
        When nodes are online; they always are if it is left out.
    profiles : Profiles, optional
        What is known of the users; needed where links are made by taste or place.
    """

    Options: ClassVar[type[Options]]
    has_coordinator: ClassVar[bool] = False
    """Whether node number n_users coordinates the others."""
    peers_meet: ClassVar[bool] = True
    """Whether users' nodes receive one another's models; if not, only a coordinator has something to observe."""
    holds_all_data: ClassVar[bool] = False
    """Whether the coordinator holds everybody's interactions and trains alone: nobody sends anything."""

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
        self.availability = availability or Availability.forever(n_users + self.has_coordinator)
        self.profiles = profiles

    @property
    def n_nodes(self) -> int:
        """Number of nodes, the coordinator included."""
        return self.n_users + self.has_coordinator

    @property
    def replies(self) -> bool:
        """Whether a delivery can make a node send."""
        return False

    @property
    def roles(self) -> I64:
        """Index into :attr:`behaviours` of every node."""
        return np.zeros(self.n_nodes, np.int64)

    @property
    @abstractmethod
    def behaviours(self) -> Sequence[Behaviour]:
        """What the nodes of each role do with models."""

    @property
    @abstractmethod
    def clock(self) -> WakeClock:
        """When nodes wake."""

    @property
    @abstractmethod
    def wakes(self) -> int:
        """Wakes of each waking node in the whole run."""

    @property
    def wakes_per_round(self) -> int:
        """Wakes of each waking node that count as one round."""
        return 1

    @property
    def closes_epochs(self) -> bool:
        """Whether the last wake of a round asks no node: the coordinator merges what has come, and that is all."""
        return False

    @property
    def messages_per_wake(self) -> int | None:
        """Messages that every wake sends, where that is always the same."""
        return None

    @property
    def most_messages(self) -> int | None:
        """Messages that a wake leads to at most, answers to them included; None: nobody knows."""
        return self.messages_per_wake

    @property
    def chooses_by_value(self) -> bool:
        """Whether peers are chosen by what models tell: the protocol must then be told (:meth:`learn`)."""
        return False

    @property
    def choices_follow_data(self) -> bool:
        """Whether receivers or merge weights follow a node's items other than by its model: no noise covers these."""
        return False

    def learn(self, receiver: I64, sender: I64, found: F32) -> None:
        """Be told what appraised versions were worth to their receivers, in order of delivery.

        With a coordinator: which group (`sender`) its server has put some clients (`receiver`) into.
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
    def sends_updates(self) -> bool:
        """Whether users' nodes hold no model but their own part, and answer a version with an update."""
        return False

    @property
    def uploads_gradients(self) -> bool:
        """Whether such an update is a step along the raw gradient, whatever the optimizer."""
        return False

    @property
    def view_size(self) -> int | None:
        """Peers of a view, where a wake sends to the whole of it: the log then holds views."""
        return None

    @abstractmethod
    def merge_weights(self, n_positives: I64) -> F64:
        """Return the weight of every node's models in a merge, shape (n_nodes,)."""

    def inbox(self) -> InboxConfig | None:
        """Return the rule by which the coordinator aggregates what it receives; None: they are blended as they come."""
        return None

    def server(self) -> Server | None:
        """Return what the coordinator computes before it pushes; None: nothing."""
        return None

    @abstractmethod
    def on_wake(self, node: int, now: float) -> Sequence[int]:
        """Return the receivers of what the node sends on this wake."""

    def on_receive(self, node: int, message: int, now: float) -> Sequence[int]:
        """Return the receivers of what the node sends on the delivery of a message."""
        return ()

    @property
    def steers(self) -> bool:
        """Whether the one waking node sets its next wake by what arrives, and weighs it.

        Such a protocol defines :meth:`on_sent`, :attr:`factor` and :meth:`next_wake`.
        """
        return False

    def on_sent(self, first: int, receivers: Sequence[int]) -> None:
        """Be told that what the call before this one returned goes out, as messages first, first + 1, ..."""
        raise NotImplementedError(f"{type(self).__name__} steers peers but does not follow its messages")

    @property
    def factor(self) -> float:
        """By what to multiply the sender's weight in the merge of the delivery just received, from 0 to 1."""
        return 1.0

    def next_wake(self, now: float) -> float | None:
        """Return when the waking node's next wake is due, as things stand; None: when its clock rings."""
        return None

    def report(self) -> dict[str, Any]:
        """Return sections for the summary: what the protocol alone knows of its run."""
        return {}

    def on_missed_wake(self, node: int, now: float) -> None:  # noqa: B027 (most protocols draw nothing)
        """Take note that the node's clock rang in vain; what this wake would have drawn is passed over."""

    @property
    def horizon(self) -> float:
        """Virtual time at which the last clock has rung, or later."""
        return float(self.clock.intervals(0, self.wakes).sum(axis=1).max())

    def predicted_fraction_met(self, rounds: float) -> float | None:
        """Return the fraction of the others that a user's node has met after so many rounds, if foreseeable."""
        return None

    def predicted_fraction_heard(self, rounds: float) -> float | None:
        """Return the fraction of the users' nodes that a coordinator has heard from after so many rounds, likewise."""
        return None
