"""Split `published`: the split that published work on the data set used."""

from __future__ import annotations

from gossiprec.base.errors import DataError
from gossiprec.data import SPLITS
from gossiprec.data.base import Dataset, SplitRule
from gossiprec.data.split import Interactions, Split


@SPLITS.register("published")
class PublishedSplit(SplitRule):
    """The data set's own split, as published work used it."""

    def __call__(self, interactions: Interactions, dataset: Dataset, seed: int) -> Split:
        """Return the data set's published split; refuse a data set without one."""
        split = dataset.published_split(interactions)
        if split is None:
            raise DataError(
                f"{interactions.name} has no published split; use split leave_last_k "
                "(test: 10, validation: 0) or random (test: 0.2, validation: 0.1)"
            )
        return split
