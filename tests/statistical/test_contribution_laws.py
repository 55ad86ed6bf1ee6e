"""The law of contributed items: how often they stay themselves, and what they become otherwise.

Seeds are fixed, so a test passes always or never. Levels are 0.001.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gossiprec.base.ragged import Ragged
from gossiprec.federated.pdc_frs.contribution import perturb_items
from gossiprec.rules.similarities import Similarity

LEVEL = 0.001
N_ITEMS, MEAN = 3706, 0.2


class Alike(Similarity):
    """All items are as similar to each other as MovieLens-1M's are on average."""

    sensitivity = 1.0

    def __init__(self, n_items=N_ITEMS):
        super().__init__(None)
        self.n_items = n_items

    def fit(self, split, *, seed):
        return self

    def rows(self, items):
        found = np.full((len(items), self.n_items), MEAN, np.float32)
        found[np.arange(len(items)), items] = 1
        return found


class Uneven(Alike):
    """Item 0 is as similar to item j as j / n_items, and all others likewise."""

    def rows(self, items):
        near = (np.arange(self.n_items) / self.n_items).astype(np.float32)
        return np.tile(near, (len(items), 1))


def same_items(n_users, items):
    return Ragged.from_parts([np.asarray(items, np.int32)] * n_users)


@pytest.mark.parametrize(("epsilon", "share"), [(5, 0.002), (10, 0.015), (20, 0.45), (30, 0.98)])
def test_items_stay_themselves_as_often_as_the_closed_form_says(epsilon, share):
    """The specification's table for 3,706 items of mean similarity 0.2; 60,000 draws, one degree of freedom."""
    keep = math.exp(epsilon / 2) / (math.exp(epsilon / 2) + (N_ITEMS - 1) * math.exp(epsilon * MEAN / 2))
    assert keep == pytest.approx(share, rel=0.1)

    train = same_items(300, np.arange(0, 3600, 18))
    found = perturb_items(train, Alike(), epsilon=epsilon, seed=7)
    assert found.expected_keep == pytest.approx(keep, rel=1e-5)
    n, kept = len(train.values), found.kept * len(train.values)
    assert stats.chisquare([kept, n - kept], [n * keep, n * (1 - keep)]).pvalue > LEVEL


def test_replacements_come_as_often_as_their_similarity_says():
    train = same_items(20_000, [0])
    found = perturb_items(train, Uneven(30), epsilon=6.0, seed=5)
    weights = np.exp(3 * np.arange(30) / 30)
    counts = np.bincount(found.drawn, minlength=30)
    assert stats.chisquare(counts, 20_000 * weights / weights.sum()).pvalue > LEVEL


def test_draws_of_one_user_and_of_one_item_are_independent():
    """Chi-squared on the table of pairs of neighbouring draws, among 30 items in three classes."""
    found = (
        perturb_items(same_items(4000, [3, 4]), Uneven(30), epsilon=1e-6, seed=6).drawn.reshape(-1, 2) // 10
    )
    for one, other in ((found[:, 0], found[:, 1]), (found[:-1, 0], found[1:, 0])):
        table = np.zeros((3, 3))
        np.add.at(table, (one, other), 1)
        assert stats.chi2_contingency(table).pvalue > LEVEL
