"""Overlays: the peers of nodes. Random views, neighbourhoods in graphs, and views that nodes exchange.

Overlays choose the receivers of a node's messages. Draws of single wakes serve views that are known only at the wake.
Times of first contact are computed without models.

Nodes may maintain views by exchanging entries. An exchange happens when a node wakes, before it sends its model, and
takes no time, because views are small. A node talks only to online peers, and removes peers that it finds offline. The
draws of each wake are functions of (seed, node, wake number); their effect depends on the views, and so on the order of
wakes.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F64, I64, U32
from gossiprec.base.options import Options, Problem, RegisteredOptions
from gossiprec.base.ragged import Ragged
from gossiprec.base.registry import Registry
from gossiprec.base.rng import NodeStreams, distinct_below, philox_words, purpose_id
from gossiprec.data.split import CheckIns, Split
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.clock import WakeClock


@dataclass(frozen=True)
class UserProfiles:
    """The users' training items, and their homes.

    Attributes
    ----------
    dataset : str
        Name of the data set, for messages.
    items : Ragged
        Training items, shape (n_users,) of sets.
    check_ins : CheckIns or None
        None if items have no places.
    """

    dataset: str
    items: Ragged
    check_ins: CheckIns | None = None

    @classmethod
    def of(cls, split: Split) -> UserProfiles:
        """Return the profiles of the users in training data."""
        return cls(split.name, split.train, split.check_ins)

    @functools.cached_property
    def places(self) -> F64 | None:
        """Latitude and longitude in degrees of each user's home, shape (n_users, 2), or None.

        Home is the place visited most often in training; ties go to the lower id.
        """
        return None if self.check_ins is None else _homes(self.check_ins)


def _homes(check_ins: CheckIns) -> F64:
    moves = check_ins.train
    homes = np.empty((len(moves.items), 2))
    for user in range(len(moves.items)):
        visited, times = np.unique(moves.items[user], return_counts=True)
        homes[user] = check_ins.coordinates[visited[np.argmax(times)]]
    return homes


@dataclass(frozen=True)
class PoisonerPlaces:
    """The places of some poisoners in a fixed graph.

    Attributes
    ----------
    nodes : ndarray of int64
        Their ids, above those of all users.
    placement : str or None
        The measure by which they take the first places: ``random``, ``degree`` or ``betweenness``; None leaves the
        places of their ids.
    edges : int or None
        Number of links to users, if they are Sybils outside the graph of the others; None if they are nodes of it.
    linked : bool
        Whether these Sybils are linked with one another.
    """

    nodes: I64
    placement: str | None = None
    edges: int | None = None
    linked: bool = False


@dataclass(frozen=True)
class OverlayContext:
    """The inputs of an overlay.

    Attributes
    ----------
    n_nodes : int
    fanout : int
        Maximum number of peers that a node sends to per wake.
    seed : int
    availability : Availability
        Times at which nodes are online.
    profiles : UserProfiles or None
        Profiles of the nodes' users; None if they are unknown.
    poisoners : tuple of PoisonerPlaces
        All poisoners, in the order of their ids, if the scenario places some of them.
    """

    n_nodes: int
    fanout: int
    seed: int
    availability: Availability
    profiles: UserProfiles | None = None
    poisoners: tuple[PoisonerPlaces, ...] = ()


class Views(ABC):
    """The peers of nodes. The wakes of a node must be queried in order of time."""

    _streams: NodeStreams
    """Draws of each node, one per wake."""

    @abstractmethod
    def next_receivers(self, node: int, now: float) -> Sequence[int]:
        """Return the receivers of the node's next wake, which is now: distinct other nodes, possibly none."""

    def on_missed_wake(self, node: int, now: float) -> None:
        """Skip the draws of one missed wake."""
        self._streams.next_draw(node)


def wake_words(n_words: int, wakes: I64, nodes: I64, *, seed: int, purpose: int) -> U32:
    """Return `n_words` random words for each (node, wake), shape (n_nodes, n_wakes, n_words)."""
    blocks = [philox_words(seed, b, wakes, nodes[:, None], purpose) for b in range(-(-n_words // 4))]
    return np.concatenate(blocks, axis=-1)[..., :n_words]


class WordStreams(NodeStreams):
    """`n_words` random 32-bit words per wake of each node: functions of (seed, purpose, node, wake number).

    Parameters
    ----------
    n_nodes : int
    n_words : int
        Number of words per wake, at least 1.
    seed : int
    purpose : int
    """

    def __init__(self, n_nodes: int, n_words: int, *, seed: int, purpose: int) -> None:
        nodes = np.arange(n_nodes)

        def words(first: int, count: int) -> U32:
            return wake_words(n_words, np.arange(first, first + count), nodes, seed=seed, purpose=purpose)

        super().__init__(n_nodes, words)


def pick_distinct(pool: Sequence[int], n_picks: int, words: Sequence[int]) -> list[int]:
    """Return distinct members of the pool, uniform over ordered choices; the whole pool if it is no larger.

    It equals :func:`gossiprec.base.rng.distinct_below` on the same words, for a single choice.

    Parameters
    ----------
    pool : sequence of int
    n_picks : int
    words : sequence of int
        Random 32-bit words, at least `n_picks`.
    """
    if len(pool) <= n_picks:
        return list(pool)
    places: list[int] = []  # ascending
    chosen = []
    for k in range(n_picks):
        place = words[k] * (len(pool) - k) >> 32
        at = 0
        for at, earlier in enumerate(places):  # noqa: B007
            if place < earlier:
                break
            place += 1
        else:
            at = len(places)
        places.insert(at, place)
        chosen.append(pool[place])
    return chosen


def first_contact_matrix(views: Views, clock: WakeClock, wakes: int) -> F64:
    """Return the time at which each node first hears from each other, shape (n_nodes, n_nodes); infinite if never.

    All nodes are awake when their clocks ring, and every message arrives at once.

    Parameters
    ----------
    views : Views
        Unused views: no wake has been queried.
    clock : WakeClock
        Clock of nodes 0 .. n_nodes - 1.
    wakes : int
        Number of wakes of each node.
    """
    n_nodes = len(clock.node_ids)
    times = np.cumsum(clock.intervals(0, wakes), axis=1)
    order = np.argsort(times, axis=None, kind="stable")
    first = np.full((n_nodes, n_nodes), np.inf)
    for at, node in zip(times.ravel()[order].tolist(), (order // wakes).tolist(), strict=True):
        for peer in views.next_receivers(node, at):
            if at < first[peer, node]:
                first[peer, node] = at
    return first


def time_to_meet(first: F64, fraction: float) -> float | None:
    """Return the time until nodes have, on average, heard from this share of the others; None if never.

    Parameters
    ----------
    first : ndarray of float64, shape (n_nodes, n_nodes)
        From :func:`first_contact_matrix`.
    fraction : float
        From 0 to 1.
    """
    n_pairs = len(first) * (len(first) - 1)
    pairs = math.ceil(fraction * n_pairs - 1e-9)
    if pairs == 0:
        return 0.0
    time = float(np.partition(first, pairs - 1, axis=None)[pairs - 1])
    return time if math.isfinite(time) else None


def fraction_contacted(first: F64) -> float:
    """Return the share of the others that nodes have heard from in the end, on average."""
    return float(np.isfinite(first).sum() / (len(first) * (len(first) - 1)))


SAMPLINGS: Registry[type[ExchangedViews]] = Registry("sampling", __name__, group="samplings")
"""Ways in which nodes maintain a view by exchanging entries."""


FIRST = purpose_id("first-view")
EXCHANGE = purpose_id("view-exchange")

View = dict[int, float]
"""Peers in the order of their arrival, each with its age or its time."""


def too_many_peers(key: str, size: int, n_users: int) -> Iterator[Problem]:
    """Yield a number of peers of a node that is larger than the number of other nodes."""
    if size >= n_users:
        yield (key,), f"found {size}, but a node has only {n_users - 1} possible peers"


class ExchangeOptions(Options):
    """Options of every way to exchange views; each has a subclass with its name."""

    sampling: str
    size: int = Field(
        default=8, ge=2, le=2**31 - 1, description="view size c: maximum number of distinct other nodes"
    )

    @property
    def follows_data(self) -> bool:
        """Whether peers depend on the users' items."""
        return False

    def check_sizes(self, n_users: int, n_items: int) -> Iterator[Problem]:
        """Yield a view of more peers than there are."""
        return too_many_peers("size", self.size, n_users)

    @model_validator(mode="before")
    @classmethod
    def _nothing_else(cls, raw: Any) -> Any:
        """Remove options of other kinds of views if they are null."""
        if not isinstance(raw, dict):
            return raw
        others = ("graph", "refresh")
        return {key: value for key, value in raw.items() if key not in others or value is not None}


ExchangeView: TypeAlias = Annotated[ExchangeOptions, RegisteredOptions(SAMPLINGS, "sampling")]
"""Options of exchanged views in a scenario."""


class ExchangedViews(Views):
    """Views that nodes maintain by exchanging entries with a peer at each wake.

    Parameters
    ----------
    options : ExchangeOptions
        Options of the class's own type.
    setting : OverlayContext

    Notes
    -----
    Views begin as uniform draws. A node with an empty view is introduced to an online node, as if it joined: to the
    first one from a uniformly drawn id on.
    """

    Options: ClassVar[type[ExchangeOptions]]

    def __init__(self, options: Any, setting: OverlayContext) -> None:
        self.size: int = options.size
        self.n_nodes = setting.n_nodes
        self.fanout = setting.fanout
        self.availability = setting.availability
        self.views: list[View] = self._first_views(setting)
        self._everyone_online = setting.availability.always
        self._found_offline: list[dict[int, float]] = [{} for _ in range(setting.n_nodes)]
        n_words = self.n_words + 1 + setting.fanout
        self._streams = WordStreams(setting.n_nodes, n_words, seed=setting.seed, purpose=EXCHANGE)

    @property
    @abstractmethod
    def n_words(self) -> int:
        """Number of random words that an exchange uses."""

    @abstractmethod
    def exchange(self, node: int, now: float, words: Sequence[int]) -> None:
        """Exchange entries with a peer, changing the views of both."""

    def next_receivers(self, node: int, now: float) -> Sequence[int]:
        """Return the receivers of the node's next wake, after its exchange."""
        words: list[int] = self._streams.next_draw(node)
        if not self.views[node]:
            self.views[node].update(
                (peer, now) for peer in self.iter_introduced(node, now, words[self.n_words])
            )
        if self.views[node]:
            self.exchange(node, now, words)
        return pick_distinct(list(self.views[node]), self.fanout, words[self.n_words + 1 :])

    def is_online(self, node: int, now: float) -> bool:
        """Return whether a node answers."""
        return self._everyone_online or self.availability.is_online(node, now)

    def remove_offline_peer(self, node: int, peer: int, now: float) -> None:
        """Remove a peer that the node finds offline, and remember the time."""
        del self.views[node][peer]
        self._found_offline[node][peer] = now

    def accept_entries(self, node: int, entries: View) -> View:
        """Return the entries that the node accepts from others, by their times.

        It rejects itself, and peers that it found offline after the entry was made: copies of such entries still
        circulate.
        """
        offline = self._found_offline[node].get
        return {peer: time for peer, time in entries.items() if peer != node and time >= offline(peer, 0.0)}

    @staticmethod
    def merge_newest(entries: View, others: View) -> View:
        """Return the entries of two views, each with the later of its times."""
        newest = dict(entries)
        newest.update((peer, time) for peer, time in others.items() if time > entries.get(peer, -1.0))
        return newest

    def oldest_online(self, node: int, now: float) -> int | None:
        """Return the peer of the oldest entry, after removing peers that are found offline; None without one."""
        view = self.views[node]
        while view:
            peer = min(view, key=view.__getitem__)
            if self.is_online(peer, now):
                return peer
            self.remove_offline_peer(node, peer, now)
        return None

    def iter_introduced(self, node: int, now: float, word: int) -> Iterator[int]:
        """Yield another online node, if there is one."""
        first = word * self.n_nodes >> 32
        for step in range(self.n_nodes):
            peer = (first + step) % self.n_nodes
            if peer != node and self.is_online(peer, now):
                yield peer
                return

    def _first_views(self, setting: OverlayContext) -> list[View]:
        nodes = np.arange(setting.n_nodes)
        words = wake_words(self.size, np.zeros(1, np.int64), nodes, seed=setting.seed, purpose=FIRST)[:, 0]
        peers = distinct_below(words, setting.n_nodes - 1)
        peers += peers >= nodes[:, None]
        return [dict.fromkeys(own, 0.0) for own in peers.tolist()]
