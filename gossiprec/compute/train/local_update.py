"""Settings, batches, sample orders and DP noise of local updates; and the settings of single nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np

from gossiprec.base.arrays import F32, I8, I64
from gossiprec.base.rng import SHUFFLE, generator, philox_words
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.feeds.base import Columns, Feed
from gossiprec.numerics.dp_noise import gaussian_noise


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of a local update: `local_epochs` passes over the positives and their negatives.

    Parameters
    ----------
    batch_size : int or None
        Samples per batch, or None for all local data in one batch.
    negatives : int
        Negatives per positive.
    negatives_drawn : str
        ``each_update`` redraws negatives for each local update; ``once`` uses the negatives of update 0 for all.
    uploads_gradients : bool
        For clients that answer with updates: items and shared weights take one step of plain gradient descent.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.01
    batch_size: int | None = 64
    local_epochs: int = 1
    negatives: int = 4
    negatives_drawn: Literal["each_update", "once"] = "each_update"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    uploads_gradients: bool = False

    def draw_of(self, update: int) -> int:
        """Return the number of the local update that determines the negatives of update `update`."""
        return 0 if self.negatives_drawn == "once" else update


def local_batches(
    feed: Feed, training: TrainingSettings, node: int, update: int, seed: int
) -> Iterator[Columns]:
    """Yield the columns of each optimizer step of one local update.

    Negatives are drawn once per update, or once in all, and the order once per epoch; a full batch is not shuffled. A
    node without positives takes no step.
    """
    drawn = training.draw_of(update)
    samples = feed.samples(node, update=drawn, negatives=training.negatives, seed=seed)
    n_samples = len(next(iter(samples.values())))
    size = training.batch_size or max(n_samples, 1)
    for epoch in range(update * training.local_epochs, (update + 1) * training.local_epochs):
        order = np.arange(n_samples)
        if training.batch_size is not None:
            order = draw_order(n_samples, node, epoch=epoch, seed=seed)
        for start in range(0, n_samples, size):
            yield {name: column[order[start : start + size]] for name, column in samples.items()}


def draw_order(n_samples: int, node: int, *, epoch: int, seed: int) -> I64:
    """Return a uniform permutation (Fisher-Yates) of the samples for the node's epoch number `epoch`."""
    words = philox_words(seed, np.arange(-(-n_samples // 4)), epoch, node, SHUFFLE).ravel()[:n_samples]
    bounds = np.arange(1, n_samples + 1).astype(np.uint64)
    others = ((words.astype(np.uint64) * bounds) >> np.uint64(32)).tolist()
    order = list(range(n_samples))
    for last in range(n_samples - 1, 0, -1):
        other = others[last]
        order[last], order[other] = order[other], order[last]
    return np.array(order, np.int64)


def central_epochs(
    feed: Feed, training: TrainingSettings, node: int, update: int, seed: int
) -> Iterator[tuple[int, Iterator[Columns]]]:
    """Yield the number and the batches of each epoch of one update of a node that holds all users' data.

    Samples are the users' own samples for their local update of this number, including negatives, with a
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


def dp_noise_row(layout: Layout, seed: int, node: int, step: int) -> F32:
    """Return N(0, 1) noise for a node's own user row, the items and the shared weights; zero elsewhere.

    The rows of other users, if nodes hold them, never have a gradient, so noise would hide nothing.

    Returns
    -------
    ndarray of float32, shape (layout.size,)
    """
    own = int(layout.user_index(np.array([node]))[0]) * layout.user_width
    noise = gaussian_noise(seed, node, step, layout.user_width + layout.size - layout.items.start)
    row = np.zeros(layout.size, np.float32)
    row[own : own + layout.user_width] = noise[: layout.user_width]
    row[layout.items.start :] = noise[layout.user_width :]
    return row


NO_LIMIT = 2**31 - 1
"""A number of local updates that no run reaches."""


class TrainingMode(IntEnum):
    """Modes of training, from the cheapest to the most expensive."""

    PLAIN = 0
    ANCHORED = 1
    """With a drift penalty."""
    PRIVATE = 2
    """With clipped samples and noise, and possibly a drift penalty."""

    @property
    def way(self) -> str:
        """The name of the mode in kernels."""
        return self.name.lower()


@dataclass(frozen=True)
class NodeSettings:
    """One number per node for each setting that a policy can change; policies write the arrays before a run.

    Compiled loops read them with the models, so a defence costs nothing if it is not used, and a node without one
    takes exactly the steps of a run without policies.

    Attributes
    ----------
    drift_penalty : ndarray of float32, shape (n_nodes,)
        tau: adds ``tau * sum_j ||v_j - v_j(start)||^2`` over the items j of a batch to its loss; the start is
        the item table at the start of the local update; 0 disables it. Under DP-SGD it covers all items and follows
        the noise.
    clip_norm : ndarray of float32, shape (n_nodes,)
        C: each sample's gradient is scaled down to Euclidean norm C; 0 disables clipping.
    noise_multiplier : ndarray of float32, shape (n_nodes,)
        sigma: N(0, (sigma C)^2) is added to each number of the summed gradient of a batch; 0 disables it.
    most_updates : ndarray of int64, shape (n_nodes,)
        Number of local updates after which the node stops training.
    """

    drift_penalty: F32
    clip_norm: F32
    noise_multiplier: F32
    most_updates: I64

    @classmethod
    def none(cls, n_nodes: int) -> NodeSettings:
        """Return the settings of nodes without policies."""
        return cls(
            drift_penalty=np.zeros(n_nodes, np.float32),
            clip_norm=np.zeros(n_nodes, np.float32),
            noise_multiplier=np.zeros(n_nodes, np.float32),
            most_updates=np.full(n_nodes, NO_LIMIT, np.int64),
        )

    @property
    def kinds(self) -> I8:
        """The training mode of each node (:class:`TrainingMode`), shape (n_nodes,)."""
        anchored = np.where(self.drift_penalty > 0, TrainingMode.ANCHORED, TrainingMode.PLAIN)
        return np.where(self.clip_norm > 0, TrainingMode.PRIVATE, anchored).astype(np.int8)

    @property
    def ways(self) -> frozenset[str]:
        """The kernel names of all modes in use."""
        return frozenset(TrainingMode(kind).way for kind in np.unique(self.kinds).tolist())
