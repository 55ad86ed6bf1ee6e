"""What is known of the users when links are made by taste or place."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F64
from gossiprec.data.split import CheckIns, Split
from gossiprec.ragged import Ragged


@dataclass(frozen=True)
class Profiles:
    """The users' training items, and where they live.

    Attributes
    ----------
    dataset : str
        Name of the data set, for messages.
    items : Ragged
        Training items, shape (n_users,) of sets.
    check_ins : CheckIns or None
        None where items have no places.
    """

    dataset: str
    items: Ragged
    check_ins: CheckIns | None = None

    @classmethod
    def of(cls, split: Split) -> Profiles:
        """Return what training data tell of the users."""
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
