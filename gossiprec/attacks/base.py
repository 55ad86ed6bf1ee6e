"""What the emulator needs to know of an attack."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gossiprec.arrays import F32, I32, I64, Bools
from gossiprec.attacks.findings import Finding
from gossiprec.attacks.observations import KnownDeliveries, Observations
from gossiprec.attacks.observer_names import TableKey
from gossiprec.compute.scorer import Scorer
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.errors import ScenarioError
from gossiprec.feeds.base import Feed
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.old_names import forward
from gossiprec.options import Options


@dataclass(frozen=True)
class AttackContext:
    """What an attack may know when it is set up: how models work, and what its own nodes know.

    Attributes
    ----------
    scorer : Scorer
        Scores rows, and trains models of one's own; holds nobody's data.
    n_users : int
        Nodes 0 .. n_users - 1 hold a user; they are the possible victims.
    coordinator : int or None
    seed : int
    threads : ThreadPool
        For compiled kernels.
    hides_user : ndarray of bool, shape (n_nodes,)
        Nodes whose messages carry no user row: every receiver can tell.
    meetings : Meetings
        Deliveries as far as they are known before the run, to anybody: colluders may be placed by them. Nothing else
        may follow from them; what its own nodes receive an attack is told by :meth:`Attack.foresee`.
    data_of : callable
        Node ids -> the feed with the data of these nodes only. They must be the attack's own nodes, or users if the
        coordinator observes: its accomplices, each of which uses its own data. The run refuses all others.
    own_models : callable
        Node ids -> present models of these nodes, shape (n, row_size): copies. The same nodes are refused as by
        `data_of`. For :meth:`Attack.rankings` only.
    has_inbox : ndarray of bool, shape (n_nodes,), or None
        Nodes that look at deliveries when they next wake, not as they arrive; None: nobody.
    knowledge : object or None
        For attacks on uploads: what the coordinator holds besides versions and updates
        (:attr:`gossiprec.recommenders.CoordinatorHook.knowledge`). None for all other attacks.
    """

    scorer: Scorer
    n_users: int
    coordinator: int | None
    seed: int
    threads: ThreadPool
    hides_user: Bools
    meetings: KnownDeliveries
    data_of: Callable[[I64], Feed]
    own_models: Callable[[I64], F32]
    has_inbox: Bools | None = None
    knowledge: Any = None

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

    def need_probabilities(self, name: str) -> None:
        """Refuse an attack that asks how likely a model finds an item, where the model says no probabilities.

        Raises
        ------
        ScenarioError
        """
        if not self.scorer.model.predicts_probabilities:
            raise ScenarioError(
                f"observers: {name} requires predicted probabilities, but {type(self.scorer.model).__name__} "
                "predicts none; use name: cda, or a model that predicts them, such as gmf"
            )

    def need_items_alone(self, name: str) -> None:
        """Refuse an attack that trains models on sets of items, where models learn from more than these.

        Raises
        ------
        ScenarioError
        """
        if self.scorer.model.feed.context_columns:
            raise ScenarioError(
                f"observers: {name} trains models on sets of items, but {type(self.scorer.model).__name__} learns from "
                f"{', '.join(self.scorer.model.feed.context_columns)} too; use name: cda, or another model"
            )


@dataclass(frozen=True)
class AttackMemoryInputs:
    """What of a run decides how much memory an attack takes, where the run is not set up.

    Attributes
    ----------
    n_users : int
    layout : Layout
    storage : str
        In which the run keeps rows.
    own_items : float
        Training items of a user, on average.
    keeps : float
        Share of the users of whom a single adversary has rows to keep at a time, at most: those whom it has heard and
        will hear again.
    ranked_on_sight : bool
        Whether pools score models as they see them, and keep none that needs no momentum.
    """

    n_users: int
    layout: Layout
    storage: str
    own_items: float
    keeps: float
    ranked_on_sight: bool

    def count(self, nodes: Any) -> int:
        """Return how many users are meant by "all", by ids, or by something with a `fraction`."""
        if nodes == "all":
            return self.n_users
        if hasattr(nodes, "fraction"):
            return fraction_to_count(self.n_users, nodes.fraction)
        return len(set(nodes))


def fraction_to_count(n_users: int, fraction: float) -> int:
    """Return how many users make up a part: at least one."""
    return max(1, round(fraction * n_users))


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
class MembershipGuesses:
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


class Attack(ABC):
    """An attack on one run; one object serves all combinations of its listed options.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    world : World
    """

    Options: ClassVar[type[Options]]
    measures: tuple[str, ...] = ()
    """Names of its guesses and findings, so that a study can be asked for them before it runs.

    An object whose options leave some out may have fewer than its class."""
    by_torch: ClassVar[bool] = False
    """Whether it computes with torch, whose last digits are each processor's own (``executor.portable`` refuses it)."""

    def __init__(self, options: Any, world: AttackContext) -> None:
        self.options = options
        self.world = world

    @classmethod
    def table_keys(cls, options: Any) -> frozenset[TableKey] | None:
        """Return under which names its rows will stand in a run's tables; None: that is known only in the run."""
        return None

    @classmethod
    def expected_bytes(cls, options: Any, prospect: AttackMemoryInputs) -> float:
        """Return about what :attr:`state_bytes` will be in a run that is not set up."""
        return 0.0

    @property
    def label(self) -> str:
        """Under which name its time is counted: the attack and who observes, as in ``cda-coordinator``."""
        return type(self).__name__

    @property
    def nodes(self) -> I64:
        """Nodes that observe on their own: they see what they are about to merge."""
        return np.zeros(0, np.int64)

    @property
    def weighs(self) -> bool:
        """Whether :attr:`Observations.keeps` must also be there for merges by performance, which takes time."""
        return False

    @property
    def pools(self) -> Sequence[I64]:
        """Groups of nodes that share what they receive: they see it in the order of delivery, a copy once."""
        return ()

    @property
    def coalitions(self) -> Mapping[str, I64]:
        """Members of the groups of users that share what they receive, by observer."""
        return {}

    def foresee(self, meetings: KnownDeliveries) -> None:  # noqa: B027 (many keep nothing)
        """Take the memory needed, for the deliveries to the attack's own nodes; called before the first observation."""

    def announce(self, meetings: KnownDeliveries) -> None:  # noqa: B027
        """Learn of deliveries that will be observed next, where :meth:`foresee` was not told all of them."""

    def warm_up(self) -> None:  # noqa: B027
        """Do with nothing what will be done with much: compiled attacks compile. Called before :meth:`foresee`."""

    @abstractmethod
    def observe(self, seen: Observations) -> None:
        """See what nodes of :attr:`nodes`, or groups of :attr:`pools`, have received. Called from several threads."""

    def state(self, now: float) -> Mapping[str, Any]:
        """Return what the attack has learnt by the report at time `now`, for a checkpoint.

        Names and plain values, lists, arrays (references will do: they are written before the run goes on) and
        :class:`~gossiprec.eventlog.checkpoints.PartialArray` arrays. What :meth:`foresee` computes need not be in it.

        Raises
        ------
        NotImplementedError
            If the attack does not say. A run with such an attack takes no checkpoints, and says so.
        """
        raise NotImplementedError(f"the attack {type(self).__name__} has no state() and restore()")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` gave in an earlier process, after :meth:`foresee`."""
        raise NotImplementedError(f"the attack {type(self).__name__} has no state() and restore()")

    def learnt(self, nodes: I64, *, whole: bool) -> Mapping[str, Any]:
        """Return copies of what some of its single nodes have learnt, where a run is divided among shards.

        Parameters
        ----------
        nodes : ndarray of int64
            Some of :attr:`nodes`, ascending.
        whole : bool
            All that a checkpoint needs; else what a report asks for.

        Raises
        ------
        NotImplementedError
            If the attack does not say. A run with such an attack is not divided.
        """
        raise NotImplementedError(f"the attack {type(self).__name__} has no learnt() and learn()")

    def learn(self, nodes: I64, learnt: Mapping[str, Any]) -> None:
        """Take over what :meth:`learnt` gave of these nodes in another process."""
        raise NotImplementedError(f"the attack {type(self).__name__} has no learnt() and learn()")

    @property
    def state_bytes(self) -> int:
        """Memory of what it keeps."""
        return 0

    def rankings(self) -> Sequence[Ranking]:
        """Return how its adversaries rank the victims now, one ranking per observer, relevance and momentum."""
        return ()

    def guesses(self) -> Iterable[MembershipGuesses]:
        """Return guesses at single training items, one for each observer and momentum, if the attack makes any."""
        return ()

    def findings(self, now: float) -> Iterable[Finding]:
        """Return what else the attack has found by the report at time `now`, if anything: numbers with labels."""
        return ()


forward(__name__)
