"""Scores of single items: how sure an attack is that a victim has trained on an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gossiprec.adversaries.attacks.findings import Label
from gossiprec.base.arrays import F32, F64, I32, I64

ITEM_MEASURES = (
    "item_auc",
    "item_average_precision",
    "item_precision",
    "item_tpr_at_1",
    "item_tpr_at_0.1",
    "item_members",
)
"""Measures of :class:`ItemScores`, computed by joining them with the ground truth."""


@dataclass(frozen=True)
class ItemScores:
    """Scores of pairs of a victim and an item, which no threshold has made guesses of.

    Attributes
    ----------
    victims : ndarray of int64, shape (n_pairs,)
        Users, none of which is a node of the attack.
    items : ndarray of int32, shape (n_pairs,)
    scores : ndarray of float32 or float64, shape (n_pairs,)
        The higher, the likelier the victim has trained on the item. Equal scores are ties, which give no advantage.
    labels : mapping of str to str, int, float or bool
        Labels of the results, such as observer and momentum.
    k : int
        Length of each victim's list of likeliest items, of which the precision is measured.
    adversaries : ndarray of int64, shape (n_pairs,), optional
        The node that scores each pair, if nodes of the attack score on their own. A pair may then occur once for each,
        and a node of the attack may be the victim of another.
    """

    victims: I64
    items: I32
    scores: F32 | F64
    labels: Mapping[str, Label] = field(default_factory=dict)
    k: int = 10
    adversaries: I64 | None = None

    def of_victims(self, users: I64) -> ItemScores:
        """Return the scores of some victims."""
        own = np.isin(self.victims, users)
        adversaries = None if self.adversaries is None else self.adversaries[own]
        return ItemScores(
            self.victims[own], self.items[own], self.scores[own], self.labels, self.k, adversaries
        )
