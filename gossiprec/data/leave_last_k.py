"""Split `leave_last_k`: the same number of last items for every user."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from gossiprec.base.options import LARGEST
from gossiprec.base.options import Options as OptionSet
from gossiprec.data import SPLITS
from gossiprec.data.base import Dataset, SplitRule
from gossiprec.data.split import Interactions, Split, first_interactions, last_positions, split_by_position


@SPLITS.register("leave_last_k")
class LeaveLastK(SplitRule):
    """Each user's last items by time, or by a seeded random order if the data have no times.

    Notes
    -----
    Times count with all their digits; equal times are ordered as in the file. Unknown times (-1) come first, hence in
    training.
    """

    class Options(OptionSet):
        """Number of items to hold out per user."""

        test: int = Field(10, ge=0, le=LARGEST)
        validation: int = Field(0, ge=0, le=LARGEST)

    options: Options

    def __call__(self, interactions: Interactions, dataset: Dataset, seed: int) -> Split:
        """Hold out the last `test` items, and the `validation` items before them."""
        pairs = first_interactions(interactions)
        everyone = np.ones(pairs.n_users, np.int64)
        return split_by_position(
            pairs,
            last_positions(pairs, seed),
            n_test=self.options.test * everyone,
            n_validation=self.options.validation * everyone,
        )
