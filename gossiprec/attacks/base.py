"""What the emulator needs to know of an attack."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gossiprec.arrays import F32, F64, I32, I64, Bools
from gossiprec.attacks.findings import Finding
from gossiprec.attacks.naming import TableKey
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.plan.planner import Sightings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.compute.train.local_update import Moves
from gossiprec.compute.waves import Watcher
from gossiprec.data.split import ItemSets
from gossiprec.options import Options


@dataclass(frozen=True)
class Meetings:
    """Deliveries in order of arrival.

    Attributes
    ----------
    message, sender, receiver : ndarray of int32, shape (n_deliveries,)
    time : ndarray of float64, shape (n_deliveries,)
        When it arrived, in mean wake periods.
    n_messages : int
        Message ids are below this.
    complete : bool
        These are all deliveries of the run; else more are announced as they come to be known.
    """

    message: I32
    sender: I32
    receiver: I32
    time: F64
    n_messages: int
    complete: bool = True


@dataclass(frozen=True)
class World:
    """What an attack may know when it is set up.

    Attributes
    ----------
    executor : Executor
        Scores items with a model version.
    n_users : int
        Nodes 0 .. n_users - 1 hold a user; they are the possible victims.
    coordinator : int or None
    targets : ItemSets
        Training items of every user; an adversary uses its own.
    seed : int
    crew : Crew
        Threads for compiled kernels.
    compiled : bool
        Use compiled kernels: there are some for GMF and some for models of moves (PRME-G).
    hides_user : ndarray of bool, shape (n_nodes,)
        Nodes whose messages carry no user row: every receiver can tell.
    meetings : Meetings
        Deliveries as far as they are known before the run: where colluders are placed by them, and nothing else.
    own_rows : callable
        Returns the arena row of every node's present model, shape (n_nodes,). An observer reads those of its own
        nodes, and only in :meth:`Attack.rankings`.
    """

    executor: Executor
    n_users: int
    coordinator: int | None
    targets: ItemSets
    seed: int
    threads: ThreadPool
    compiled: bool
    hides_user: Bools
    meetings: Meetings
    own_rows: Callable[[], I64]

    def contacts(self, until: float = math.inf) -> Any:
        """Return how often each user sends to each other one, as far as known before the run.

        Parameters
        ----------
        until : float
            Deliveries later than this virtual time are left out.

        Returns
        -------
        scipy.sparse.csr_array of int64, shape (n_users, n_users)
            Entry (u, v): deliveries from u to v.
        """
        from scipy import sparse  # here, because most runs need none

        met, n = self.meetings, self.n_users
        known = (met.time <= until) & (met.sender < n) & (met.receiver < n)
        ends = (met.sender[known], met.receiver[known])
        return sparse.csr_array((np.ones(len(ends[0]), np.int64), ends), shape=(n, n))

    @property
    def moves(self) -> Moves | None:
        """Every user's training moves, for models that train on moves; an adversary uses its own."""
        work = self.executor.work
        return work.data.moves if work.model.trains_on_moves else None


@dataclass(frozen=True)
class Ranking:
    """How adversaries rank the victims at one moment.

    Attributes
    ----------
    observer, relevance : str
    momentum : float
    community_sizes : tuple of int
    adversaries : ndarray of int64, shape (n_adversaries,)
        Node ids.
    scores : ndarray of float32, shape (n_adversaries, n_users)
        Relevance of each victim for each adversary's target items; NaN: not met.
    """

    observer: str
    relevance: str
    momentum: float
    community_sizes: tuple[int, ...]
    adversaries: I64
    scores: F32


@dataclass(frozen=True)
class Guesses:
    """Which items a pool takes for training items of the victims it has met, at one moment.

    Attributes
    ----------
    observer : str
    momentum : float
    thresholds : tuple of float
        An item whose entropy is below a threshold is a member by that threshold.
    adversaries : ndarray of int64, shape (n_adversaries,)
    offsets, items : ndarray
        Adversary a asks about ``items[offsets[a]:offsets[a + 1]]``.
    victims : ndarray of int64, shape (n_victims,)
        Victims with a user row: every adversary guesses alike.
    surprise : ndarray of float32, shape (n_victims, n_items)
        Their entropies of all items.
    hidden : ndarray of int64, shape (n_hidden,)
        Victims without one.
    surprise_apart : callable
        Adversary's place -> entropies of its items by the hidden victims' models, shape (n_hidden, n_asked).
    """

    observer: str
    momentum: float
    thresholds: tuple[float, ...]
    adversaries: I64
    offsets: I64
    items: I32
    victims: I64
    surprise: F32
    hidden: I64
    surprise_apart: Callable[[int], F32]


class Attack(Watcher, ABC):
    """An attack on one run; one object serves all combinations of its listed options.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    world : World
    """

    Options: ClassVar[type[Options]]
    measures: ClassVar[tuple[str, ...]] = ()
    """What its guesses and findings are called, so that a study can be asked for them before it runs."""

    def __init__(self, options: Any, world: World) -> None:
        self.options = options
        self.world = world

    @classmethod
    def table_keys(cls, options: Any) -> frozenset[TableKey] | None:
        """Return under which names its rows will stand in a run's tables; None: that is known only in the run."""
        return None

    @property
    def label(self) -> str:
        """Under which name its time is counted: the attack and who observes, as in ``cda-coordinator``."""
        return type(self).__name__

    @property
    @abstractmethod
    def pools(self) -> Sequence[I64]:
        """Groups of nodes that share what they receive; sightings for them are planned in the order of delivery."""

    @property
    def coalitions(self) -> Mapping[str, I64]:
        """Members of the groups of users that share what they receive, by observer."""
        return {}

    @abstractmethod
    def foresee(self, meetings: Meetings, first_pool: int) -> None:
        """Take the memory needed; called before the first observation.

        `first_pool` is the number under which the first of :attr:`pools` appears in sightings.
        """

    def announce(self, meetings: Meetings) -> None:
        """Learn of deliveries that will be observed next, where :meth:`foresee` was not told all of them."""

    def warm_up(self) -> None:
        """Do with nothing what will be done with much: compiled attacks compile. Called before :meth:`foresee`."""
        rows, none = self.world.executor.work.arena.rows, np.zeros(0, np.int32)
        self.foresee(Meetings(none, none, none, np.zeros(0), 0), 0)
        self.observe(rows, Program.empty(), np.zeros(0, np.int64))
        self.sight(rows, Sightings(none, none, none, none), 0, 0)

    def state(self, now: float) -> Mapping[str, Any]:
        """Return what the attack has learnt by the report at time `now`, for a checkpoint.

        Names and plain values, lists, arrays (references will do: they are written before the run goes on) and
        :class:`~gossiprec.eventlog.checkpoints.Live` arrays. What :meth:`foresee` computes need not be in it.

        Raises
        ------
        NotImplementedError
            If the attack does not say. A run with such an attack takes no checkpoints, and says so.
        """
        raise NotImplementedError(f"the attack {type(self).__name__} has no state() and restore()")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave in an earlier process, after :meth:`foresee`."""
        raise NotImplementedError(f"the attack {type(self).__name__} has no state() and restore()")

    @property
    @abstractmethod
    def state_bytes(self) -> int:
        """Memory of the kept rows."""

    @abstractmethod
    def rankings(self) -> list[Ranking]:
        """Return one ranking per observer, relevance and momentum."""

    def guesses(self) -> Iterable[Guesses]:
        """Return guesses at single training items, one for each observer and momentum, if the attack makes any."""
        return ()

    def findings(self, now: float) -> Iterable[Finding]:
        """Return what else the attack has found by the report at time `now`, if anything: numbers with labels."""
        return ()
