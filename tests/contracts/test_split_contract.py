"""What every registered split rule keeps to; and that the contract catches those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.data import SPLITS
from gossiprec.data.split import count_items_per_user, split_by_position
from gossiprec.testing import check_split
from tests.contracts.broken import told

OPTIONS = {
    "leave_last_k": [{}, {"test": 2, "validation": 1}, {"test": 1, "validation": 0}],
    "last": [
        {},
        {"test": 0.3, "validation": 0.4},
        {"test": 0.3, "validation": 0.4, "validation_by": "random"},
    ],
    "random": [{}, {"test": 0.3, "validation": 0.2}, {"test": 0.2, "validation": 0.0}],
}
"""Options with which a split is checked; one that is not here is checked with its defaults.

Not `last` by: file, which goes by the order of the rows (tests/data/test_last_split.py), nor `files`, which divides the
data that its files are about and no others (tests/data/test_split_files.py).
"""


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name in SPLITS if name != "files" for options in OPTIONS.get(name, [{}])],
)
def test_a_split_keeps_its_contract(name, options):
    check_split(SPLITS[name], options)


Random = SPLITS["random"]


class HoldsOutTwice(Random):
    def __call__(self, *about):
        split = super().__call__(*about)
        return replace(split, test=split.train)


class DropsItems(Random):
    def __call__(self, *about):
        split = super().__call__(*about)
        return replace(split, validation=split.validation.first(0).from_parts([np.zeros(0, np.int32)] * 5))


class TakesTheLastRows(Random):
    def __call__(self, data, dataset, seed):
        keys, first = np.unique(data.users * 99 + data.items, return_index=True)
        pairs = replace(data, users=keys // 99, items=keys % 99, times=None)
        one = np.ones(data.n_users, np.int64)
        return split_by_position(pairs, first, n_test=one, n_validation=one)


class DrawsAnew(Random):
    def __call__(self, data, dataset, seed):
        return super().__call__(data, dataset, int(np.random.default_rng().integers(2**31)))


class FailsWithoutItems(Random):
    def __call__(self, data, dataset, seed):
        if count_items_per_user(data).min() < 8:
            raise ZeroDivisionError("no item")
        return super().__call__(data, dataset, seed)


class LeavesUsersOut(Random):
    def __call__(self, *about):
        split = super().__call__(*about)
        first = {part: getattr(split, part).first(4) for part in ("train", "validation", "test")}
        return replace(split, n_users=4, **first)


BROKEN = {
    HoldsOutTwice: "Put each item of a user into exactly one part.* An item of user 0 is in two parts",
    DropsItems: "Put each item of a user into exactly one part.* items are in no part",
    LeavesUsersOut: r"Put each item.* Found \(4, 30\) users and items, the data have \(5, 30\)",
    TakesTheLastRows: "in the same way for any order of the rows",
    DrawsAnew: "in the same way for the same seed",
    FailsWithoutItems: "Refuse users with too few items by a DataError.* ZeroDivisionError: no item",
}


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_a_split_that_breaks_the_contract_is_told_which_claim(rule):
    with told(rule, BROKEN[rule], kind="split"):
        check_split(rule)


def test_a_split_that_tests_nobody_is_told():
    with told(Random, "some of any user into test. No user has a test item", kind="split"):
        check_split(Random, {"test": 0})
