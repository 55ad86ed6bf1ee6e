"""The batches of a coordinator that holds everybody's interactions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.feeds.base import Columns, Feed
from gossiprec.rng import generator


def epochs_of_all(
    feed: Feed, training: TrainingSettings, node: int, update: int, seed: int
) -> Iterator[tuple[int, Iterator[Columns]]]:
    """Yield the number and the batches of each epoch of one update of a node that holds everybody's data.

    Samples are those that the users would learn from in their local update of this number, negatives included, with a
    column ``user``; their order is drawn once per epoch, and a full batch is not shuffled.
    """
    samples = feed.samples_of_all(update=training.draw_of(update), negatives=training.negatives, seed=seed)
    n_samples = len(samples["user"])
    for epoch in range(update * training.local_epochs, (update + 1) * training.local_epochs):
        order = np.arange(n_samples)
        if training.batch_size is not None:
            order = generator(seed, "order-of-all", node, epoch).permutation(n_samples)
        yield epoch, _batches(samples, order, training.batch_size or max(n_samples, 1))


def _batches(samples: Columns, order: np.ndarray, size: int) -> Iterator[Columns]:
    for start in range(0, len(order), size):
        yield {name: column[order[start : start + size]] for name, column in samples.items()}
