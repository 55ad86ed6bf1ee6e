"""The base class of overlays, which choose the receivers of a node's messages; their draws, and their contacts.

Draws of single wakes serve views that are known only at the wake. Times of first contact are computed without models.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import F64, I64, U32
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import NodeStreams, philox_words
from gossiprec.data.split import CheckIns, Split
from gossiprec.network.sim.availability import Availability
from gossiprec.network.sim.clock import WakeClock
from gossiprec.old_names import old_members


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
    """

    n_nodes: int
    fanout: int
    seed: int
    availability: Availability
    profiles: UserProfiles | None = None


@old_members(missed="on_missed_wake")
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
