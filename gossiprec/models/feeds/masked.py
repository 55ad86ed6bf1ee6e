"""Feed of masked sequences: some items are masked, to be predicted from the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gossiprec.base.arrays import I32
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.data.split import TrainingData
from gossiprec.models.feeds.sequences import SequenceFeed


class MaskedFeed(SequenceFeed):
    """Sequences with gaps: known items are in ``previous``, masked items in ``items``.

    Parameters
    ----------
    positives : Ragged
    n_items : int
    sequences : Ragged of int32
        Training items of each node, in the order of time.
    max_length : int
        Number of latest items to use.
    mask : float
        Share of the places that are masked; at least one place always is.
    last_alone : float
        Share of the local updates in which only the last place is masked.
    """

    fewest = 1

    def __init__(
        self,
        positives: Ragged,
        n_items: int,
        sequences: Ragged,
        max_length: int,
        mask: float = 0.2,
        last_alone: float = 0.0,
    ) -> None:
        super().__init__(positives, n_items, sequences, max_length)
        self.mask = mask
        self.last_alone = last_alone

    @classmethod
    def within(
        cls, split: TrainingData, max_length: int, mask: float = 0.2, last_alone: float = 0.0
    ) -> MaskedFeed:
        """Return the feed of a split's training items.

        Raises
        ------
        DataError
            If the data have no times.
        """
        whole = SequenceFeed.within(split, max_length)
        return cls(whole.positives, whole.n_items, whole.sequences, max_length, mask, last_alone)

    def alike(self, positives: Ragged, sequences: Ragged) -> MaskedFeed:
        """Return the feed of other sequences with the same options."""
        return MaskedFeed(positives, self.n_items, sequences, self.max_length, self.mask, self.last_alone)

    @property
    def longest_history(self) -> int:
        """Number of items of a history that are used; a gap follows them."""
        return self.max_length - 1

    def places(self, node: int, update: int, seed: int) -> Mapping[str, I32]:
        """Return the known items and the masked items at each place of a sequence."""
        latest = self.sequences[node][-self.max_length :]
        draw = generator(seed, "masked-items", node, update)
        is_last_alone, chances = draw.random() < self.last_alone, draw.random(len(latest))
        if is_last_alone:
            chances = np.arange(len(latest), 0.0, -1.0)
        gaps = (chances < self.mask) | (chances == chances.min(initial=np.inf))
        return {
            "previous": np.where(gaps, -1, latest).astype(np.int32),
            "items": np.where(gaps, latest, -1).astype(np.int32),
        }
