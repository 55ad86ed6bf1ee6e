"""Split `last`: the last part of each user's items, by time or in the order of the file."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from gossiprec.base.arrays import F64, I64
from gossiprec.base.options import Options as OptionSet
from gossiprec.data import SPLITS
from gossiprec.data.base import Dataset, SplitRule
from gossiprec.data.split import (
    Interactions,
    Split,
    count_items_per_user,
    first_interactions,
    last_positions,
    order_pairs,
    random_positions,
    split_by_position,
)


@SPLITS.register("last")
class LastFractionSplit(SplitRule):
    """The last fraction of each user's items.

    Notes
    -----
    Counts are rounded down, so users with few items may have none in test. Times count with all their digits; equal
    times are ordered as in the file; unknown times (-1) come first; data without times get an order drawn from the
    seed.

    With ``by: file`` the order of the lines decides, whatever its origin. The public code of A-ra and A-hum (and work
    that uses its files) divides MovieLens-1M like this, although ``ratings.dat`` is not in order of time. Its test
    items are harder to guess than random ones: the most popular items find 1.8 % of them instead of 11 %.
    """

    class Options(OptionSet):
        """Fractions of each user's items to hold out, and the order that defines the last ones."""

        test: float = Field(0.2, ge=0, lt=1)
        validation: float = Field(0.0, ge=0, lt=1)
        """number of validation items, taken from the items that are not test items"""
        by: Literal["time", "file"] = "time"
        """file: the order of the lines"""
        validation_by: Literal["last", "random"] = "last"
        """last: the items before the test items; random: drawn from the seed"""

        @model_validator(mode="after")
        def _hold_something_out(self) -> LastFractionSplit.Options:
            if self.test + self.validation == 0:
                raise ValueError("test and validation are both 0; set one of them above 0")
            return self

    options: Options

    def __call__(self, interactions: Interactions, dataset: Dataset, seed: int) -> Split:
        """Hold out the last part of each user's items."""
        options = self.options
        if options.by == "file":
            interactions = replace(interactions, times=np.arange(len(interactions.users)), fractions=None)
        pairs = first_interactions(interactions)
        position = last_positions(pairs, seed)
        counts = count_items_per_user(pairs)
        n_test = _part(options.test, counts)
        n_validation = _part(options.validation, counts - n_test)
        if options.validation_by == "random":
            position = _random_before(pairs, position, counts - n_test, seed)
        return split_by_position(pairs, position, n_test=n_test, n_validation=n_validation)


def _part(fraction: float, counts: I64) -> I64:
    exact = 1e-9  # 0.3 of ten items is three, despite rounding of the product
    return np.asarray(np.floor(fraction * counts + exact).astype(np.int64))


def _random_before(pairs: Interactions, position: npt.NDArray[np.generic], n_kept: I64, seed: int) -> F64:
    """Return positions that shuffle each user's first `n_kept` pairs."""
    order = order_pairs(pairs, position)
    starts = np.cumsum(count_items_per_user(pairs)) - count_items_per_user(pairs)
    users = pairs.users[order]
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order)) - starts[users]
    return np.asarray(np.where(rank < n_kept[pairs.users], random_positions(pairs, seed), 1 + rank))
