"""Split `random`: a fraction of each user's items, drawn at random."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import I64
from gossiprec.base.options import Options as OptionSet
from gossiprec.data import SPLITS
from gossiprec.data.base import Dataset, SplitRule
from gossiprec.data.split import (
    Interactions,
    Split,
    count_items_per_user,
    first_interactions,
    random_positions,
    split_by_position,
)


@SPLITS.register("random")
class RandomFractionSplit(SplitRule):
    """A fraction of each user's items, drawn at random from the seed.

    Notes
    -----
    A fraction above zero gives each user at least one item. Validation items are drawn from the items that are not test
    items. The draw of an item depends only on (seed, user, item).
    """

    class Options(OptionSet):
        """Fractions of each user's items to hold out."""

        test: float = Field(0.2, ge=0, lt=1)
        validation: float = Field(0.1, ge=0, lt=1)
        validation_of: Literal["all", "train"] = "all"
        """whether validation is a fraction of all items, or of the items that are not test items"""
        rounding: Literal["nearest", "down", "up"] = "nearest"
        """how numbers of test and validation items are rounded: halves up, down (RecBole), or up (``int(0.8 * n)`` for
        training)"""
        seed: int | None = Field(None, ge=0, lt=2**63)
        """seed of the split; null: the seed of the run, so that each seed has its own split"""

        @model_validator(mode="after")
        def _leave_something(self) -> RandomFractionSplit.Options:
            if self.validation_of == "all" and self.test + self.validation >= 1:
                raise ValueError(
                    f"test + validation is {self.test + self.validation:g}; expected less than 1"
                )
            return self

    options: Options

    def __call__(self, interactions: Interactions, dataset: Dataset, seed: int) -> Split:
        """Hold out random items of each user."""
        options, pairs = self.options, first_interactions(interactions)
        counts = count_items_per_user(pairs)
        n_test = _share(options.test, counts, options.rounding)
        whole = counts if options.validation_of == "all" else counts - n_test
        return split_by_position(
            pairs,
            random_positions(pairs, seed if options.seed is None else options.seed),
            n_test=n_test,
            n_validation=_share(options.validation, whole, options.rounding),
        )


def _share(fraction: float, counts: I64, rounding: str) -> I64:
    exact = fraction * counts
    whole = np.round(exact, 9)  # 0.2 of 15 is 3, not above it
    rounded = {"nearest": np.floor(exact + 0.5), "down": np.floor(whole), "up": np.ceil(whole)}[rounding]
    return np.maximum(rounded, 1 if fraction > 0 else 0).astype(np.int64)
