"""What a local update is, and the samples it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gossiprec.data.split import Transitions
from gossiprec.ragged import Ragged
from gossiprec.rng import philox_words, purpose_id

NEGATIVES = purpose_id("negatives")
SHUFFLE = purpose_id("shuffle")


@dataclass(frozen=True)
class TrainingSettings:
    """One local update: `local_epochs` passes over the positives and their negatives.

    Parameters
    ----------
    batch_size : int or None
        None: the whole local data in one batch.
    negatives : int
        Negatives per positive, redrawn for every local update.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.01
    batch_size: int | None = 64
    local_epochs: int = 1
    negatives: int = 4
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class Moves:
    """Every node's moves between places (CSR).

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_nodes + 1,)
    items, previous : ndarray of int32, shape (offsets[-1],)
        Where to, and from where; -1: not known, or too long ago.
    """

    offsets: npt.NDArray[np.int64]
    items: npt.NDArray[np.int32]
    previous: npt.NDArray[np.int32]

    @classmethod
    def within(cls, transitions: Transitions, minutes: float) -> Moves:
        """Return the moves of `transitions`; one that took longer than `minutes` has no previous place."""
        recent = (transitions.previous >= 0) & (transitions.gap_minutes <= minutes)
        previous = np.where(recent, transitions.previous, -1).astype(np.int32)
        return cls(transitions.items.offsets, transitions.items.values, previous)


class LocalData:
    """Every node's training positives, with a bitset for fast membership.

    Parameters
    ----------
    positives : Ragged
        One set per node; node n holds user n.
    n_items : int
    moves : Moves, optional
        For models that train on moves: what each node moved to, and from where.

    Attributes
    ----------
    member : ndarray of uint8, shape (n_nodes, ceil(n_items / 8))
        Bit ``item % 8`` of byte ``item // 8`` says that the item is a positive.
    """

    def __init__(self, positives: Ragged, n_items: int, moves: Moves | None = None) -> None:
        self.positives = positives
        self.moves = moves
        self.n_items = n_items
        self.member = np.zeros((len(positives), -(-n_items // 8)), np.uint8)
        owner = np.repeat(np.arange(len(positives)), positives.sizes)
        bits = np.left_shift(1, positives.values % 8).astype(np.uint8)
        np.bitwise_or.at(self.member, (owner, positives.values // 8), bits)

    def n_samples(self, negatives: int) -> npt.NDArray[np.int64]:
        """Return the samples of one pass over each node's data, shape (n_nodes,)."""
        if self.moves is not None:
            return np.diff(self.moves.offsets) * negatives
        return self.positives.sizes * (1 + negatives)


def draw_samples(
    data: LocalData, node: int, *, update: int, negatives: int, seed: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Return the samples of one local update: each positive followed by its negatives.

    Negatives are uniform over the items that are not training positives of the node.

    Returns
    -------
    items : ndarray of int32, shape (n_positives * (1 + negatives),)
        For data with moves, shape (n_moves * negatives, 3): (positive, negative, previous), a move's one after the
        other.
    labels : ndarray of float32, one for each sample
    """
    if data.moves is not None:
        return _draw_moves(data, data.moves, node, update=update, negatives=negatives, seed=seed)
    positives = data.positives[node]
    drawn = _draw_negatives(data, node, len(positives), update=update, negatives=negatives, seed=seed)
    samples = np.concatenate([positives[:, None], drawn], axis=1).astype(np.int32)
    labels = np.zeros(samples.shape, np.float32)
    labels[:, 0] = 1.0
    return samples.ravel(), labels.ravel()


def _draw_moves(
    data: LocalData, moves: Moves, node: int, *, update: int, negatives: int, seed: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    own = slice(moves.offsets[node], moves.offsets[node + 1])
    items, previous = (part[own].repeat(negatives) for part in (moves.items, moves.previous))
    n_moves = len(moves.items[own])
    drawn = _draw_negatives(data, node, n_moves, update=update, negatives=negatives, seed=seed)
    samples = np.stack([items, drawn.ravel(), previous], axis=1).astype(np.int32)
    return samples, np.ones(len(samples), np.float32)


def _draw_negatives(
    data: LocalData, node: int, n_positives: int, *, update: int, negatives: int, seed: int
) -> npt.NDArray[np.int64]:
    """Return items that are not training positives of the node, shape (n_positives, negatives)."""
    blocks = -(-negatives // 4)
    drawn = np.zeros((n_positives, blocks * 4), np.int64)
    wanted = np.zeros(drawn.shape, bool)
    wanted[:, :negatives] = True
    attempt = 0
    index = np.arange(n_positives * blocks)
    while wanted.any():
        words = philox_words(seed, index + attempt * len(index), update, node, NEGATIVES).reshape(drawn.shape)
        items = ((words.astype(np.uint64) * np.uint64(data.n_items)) >> np.uint64(32)).astype(np.int64)
        drawn[wanted] = items[wanted]
        taken = data.member[node, drawn // 8] >> (drawn % 8).astype(np.uint8) & 1
        wanted &= taken.astype(bool)
        attempt += 1
    return drawn[:, :negatives]


def draw_order(n_samples: int, node: int, *, epoch: int, seed: int) -> npt.NDArray[np.int64]:
    """Return a uniform permutation (Fisher-Yates) of the samples for the node's epoch number `epoch`."""
    words = philox_words(seed, np.arange(-(-n_samples // 4)), epoch, node, SHUFFLE).ravel()[:n_samples]
    bounds = np.arange(1, n_samples + 1).astype(np.uint64)
    others = ((words.astype(np.uint64) * bounds) >> np.uint64(32)).tolist()
    order = list(range(n_samples))
    for last in range(n_samples - 1, 0, -1):
        other = others[last]
        order[last], order[other] = order[other], order[last]
    return np.array(order, np.int64)
