"""Data that users contribute to the coordinator: their training items, each perturbed on the device, once.

References
----------
The PDC-FRS paper (specification, section 4). Epsilon is the budget of one item; of a user's whole set it is as many
times as much (sequential composition), which the paper does not say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F64, I32, I64
from gossiprec.ragged import Ragged
from gossiprec.recommenders.exponential_mechanism import ExponentialMechanism
from gossiprec.rng import purpose_id, uniforms
from gossiprec.similarities import Similarity

DRAW = purpose_id("contribution")
BARE = 0.99
"""Share of items kept from which on a contribution is said to be the training data."""


@dataclass(frozen=True, eq=False)
class Contribution:
    """What all users contribute, and how far it is from what they have.

    Attributes
    ----------
    mechanism : ExponentialMechanism
    sets : Ragged of int32, one row a user
        What the coordinator gets: ascending, each item once.
    drawn : ndarray of int32, shape (n_training_items,)
        What each training item became, in the order of ``train.values``. Nobody but the user knows.
    kept : float
        Share of training items that stayed themselves.
    similarity : float
        Mean similarity of what was drawn to what it stands for.
    expected_keep : float
        What `kept` is expected to be: the mean probability of a training item to stay itself.
    epsilon_set : ndarray of float64, shape (n_users,)
        Budget of each user's whole set.
    """

    mechanism: ExponentialMechanism
    sets: Ragged
    drawn: I32
    kept: float
    similarity: float
    expected_keep: float
    epsilon_set: F64

    @property
    def epsilon_item(self) -> float:
        """Budget of each item."""
        return self.mechanism.epsilon

    def report(self) -> dict[str, float | str]:
        """Return what a run's summary tells, with a note where nearly nothing is perturbed."""
        told: dict[str, float | str] = {
            "epsilon_item": self.epsilon_item,
            "sensitivity": self.mechanism.sensitivity,
            "epsilon_set_mean": float(self.epsilon_set.mean()),
            "epsilon_set_max": float(self.epsilon_set.max()),
            "kept": self.kept,
            "expected_keep": self.expected_keep,
            "similarity": self.similarity,
            "items_mean": float(self.sets.sizes.mean()),
        }
        if self.expected_keep >= BARE:
            told["note"] = (
                f"{self.expected_keep:.1%} of the contributed items are unchanged: they reveal most "
                "of the training data"
            )
        return told


def contribute(
    train: Ragged, similarity: Similarity, *, epsilon: float, sensitivity: float | None = None, seed: int
) -> Contribution:
    """Replace each training item by the exponential mechanism, independently of all others.

    Parameters
    ----------
    train : Ragged of int32, one row a user
    similarity : Similarity
        Fitted.
    epsilon : float
        Budget of each item, above 0.
    sensitivity : float, optional
        By default the similarity's own.
    seed : int
        A draw depends on (seed, user, item) alone.

    Raises
    ------
    ScenarioError
        As :class:`ExponentialMechanism`.
    """
    mechanism = ExponentialMechanism(similarity, epsilon=epsilon, sensitivity=sensitivity)
    at = uniforms(seed, train.values, train.owners, DRAW)
    items, counts = np.unique(train.values, return_counts=True)
    owners_of = Ragged.from_sizes(counts, np.argsort(train.values, kind="stable"))
    drawn = np.empty(len(train.values), np.int32)
    near, keeps = 0.0, 0.0
    for part, rows, probabilities in mechanism.blocks(items.astype(np.int64)):
        for k, row, chances in zip(range(part.start, part.stop), rows, probabilities, strict=True):
            those = owners_of[k]
            drawn[those] = _inverse(np.cumsum(chances), at[those])
            near += float(row[drawn[those]].sum(dtype=np.float64))
            keeps += float(chances[items[k]] * counts[k])
    return Contribution(
        mechanism=mechanism,
        sets=Ragged.sets(train.owners, drawn, len(train)),
        drawn=drawn,
        kept=float(np.mean(drawn == train.values)),
        similarity=near / len(drawn),
        expected_keep=keeps / len(drawn),
        epsilon_set=np.asarray(epsilon * train.sizes, np.float64),
    )


def _inverse(bounds: F64, at: F64) -> I64:
    """Return where draws from 0 to 1 fall among cumulative probabilities; never where the probability is 0."""
    below = np.minimum(at * bounds[-1], np.nextafter(bounds[-1], 0))
    return np.asarray(np.searchsorted(bounds, below, side="right"), np.int64)
