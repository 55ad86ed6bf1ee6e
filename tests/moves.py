"""Every user's moves as three arrays, for tests that write them down."""

from typing import NamedTuple

import numpy as np


class Moves(NamedTuple):
    """User u moved to ``items[offsets[u]:offsets[u + 1]]``, from `previous`."""

    offsets: np.ndarray
    items: np.ndarray
    previous: np.ndarray

    def of(self, user):
        return slice(self.offsets[user], self.offsets[user + 1])
