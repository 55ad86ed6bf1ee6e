"""What every registered measure of recommendations keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.measures import MEASURES, Measure, TopItems
from gossiprec.testing import check_measure, temporarily_registered
from tests.contracts.broken import told


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_measure_keeps_its_contract(name):
    check_measure(MEASURES[name])


class ShareOfHits(Measure):
    """Which share of the first k is relevant."""

    @staticmethod
    def compute_values(seen, k):
        return seen.hits(k) / k


class ShareOfTestItems(Measure):
    """Hits over the test items of a user, by the data for which it is made."""

    wants = TopItems

    def compute_values(self, seen, k):
        shares = [
            np.isin(self.data.test[u], row[:k]).mean() for u, row in zip(seen.users, seen.items, strict=True)
        ]
        return np.array(shares)


class ForgetsWhoseListsTheyAre(ShareOfTestItems):
    def compute_values(self, seen, k):
        return super().compute_values(TopItems(seen.items, seen.n_items, np.arange(len(seen.items))), k)


class ChangesTheData(ShareOfTestItems):
    def __init__(self, data):
        super().__init__(data)
        data.train.values[0] = 0


class CountsHits(ShareOfHits):
    @staticmethod
    def compute_values(seen, k):
        return seen.hits(k).astype(float)


class GivesAColumn(ShareOfHits):
    @staticmethod
    def compute_values(seen, k):
        return ShareOfHits.compute_values(seen, k)[:, None]


class GivesHalves(ShareOfHits):
    @staticmethod
    def compute_values(seen, k):
        return ShareOfHits.compute_values(seen, k).astype(np.float16)


class KnowsNothing(ShareOfHits):
    @staticmethod
    def compute_values(seen, k):
        return np.full(3, np.nan)


class TakesTheFirstUser(ShareOfHits):
    @staticmethod
    def compute_values(seen, k):
        return ShareOfHits.compute_values(seen, k)[:1]


class LooksBehindTheFirst(ShareOfHits):
    @staticmethod
    def compute_values(seen, k):
        return 1 / (1.0 + seen.ranks[:, 0])


class Sorts(ShareOfHits):
    wants = TopItems

    @staticmethod
    def compute_values(seen, k):
        seen.items.sort(axis=1)
        return np.zeros(len(seen.items))


class WantsTheMoon(ShareOfHits):
    wants = str


BROKEN = {
    ForgetsWhoseListsTheyAre: "the same mean whatever the order of the users",
    ChangesTheData: "read-only",
    CountsHits: "values from 0 to 1.* Found 1 to 5 at k = 20",
    GivesAColumn: r"one-dimensional float64.* Found shape \(9, 1\)",
    GivesHalves: "Return one-dimensional float64.* Found float16",
    KnowsNothing: "not only NaN. All are NaN at k = 1",
    TakesTheFirstUser: "the same mean whatever the order of the users",
    LooksBehindTheFirst: "Use only the first k items. Items behind them",
    Sorts: "read-only",
    WantsTheMoon: "Name RelevantRanks, TargetRanks or TopItems.* Found <class 'str'>",
}


def test_a_measure_need_not_be_registered():
    check_measure(ShareOfHits)
    check_measure(ShareOfTestItems)
    assert "checked" not in MEASURES


@pytest.mark.parametrize("measure", BROKEN, ids=lambda measure: measure.__name__)
def test_a_measure_that_breaks_the_contract_is_told_which_claim(measure):
    with told(measure, BROKEN[measure], kind="measure"):
        check_measure(measure)


def test_a_name_that_no_scenario_can_write_is_told():
    with (
        temporarily_registered(MEASURES, {"share of hits": ShareOfHits}),
        told(ShareOfHits, "Have a name that a scenario can contain. .*'share of hits@5'", kind="measure"),
    ):
        check_measure(ShareOfHits)
