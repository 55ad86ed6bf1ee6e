"""The base class of overlays, which choose the receivers of a node's messages."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossiprec.base.arrays import F64
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import CheckIns, Split
from gossiprec.network.sim.availability import Availability


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


class Views(ABC):
    """The peers of nodes. The wakes of a node must be queried in order of time."""

    @abstractmethod
    def next_receivers(self, node: int, now: float) -> Sequence[int]:
        """Return the receivers of the node's next wake, which is now: distinct other nodes, possibly none."""

    @abstractmethod
    def missed(self, node: int, now: float) -> None:
        """Skip the draws of one missed wake."""
