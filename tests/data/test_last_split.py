"""The last fraction of each user's items, by time or in the order of the lines."""

import numpy as np
import pytest
from pydantic import ValidationError
from small_data import dataset, interactions, real, sets_of

from gossiprec.data import SPLITS, load_split

LINES = [(0, 4), (1, 2), (0, 1), (0, 3), (1, 0), (0, 2), (0, 0)]
TIMES = [50, 7, 40, 10, 8, 20, 30]


def divide(data, seed=1, **options):
    rule = SPLITS["last"]
    split = rule(rule.Options.model_validate(options))(data, dataset("synthetic"), seed)
    return [sets_of(part) for part in (split.train, split.validation, split.test)]


def test_by_time_the_latest_are_for_test_and_those_before_for_validation():
    found = divide(interactions(LINES, times=TIMES), test=0.4, validation=0.34)
    assert found == [[[2, 3], [0, 2]], [[0], []], [[1, 4], []]]


def test_by_file_the_last_lines_are_for_test_and_times_do_not_matter():
    expected = [[[1, 4], [0, 2]], [[3], []], [[0, 2], []]]
    for times in (TIMES, None):
        assert divide(interactions(LINES, times=times), test=0.4, validation=0.34, by="file") == expected


def test_a_repeated_line_counts_where_it_first_stands():
    data = interactions([(0, 1), (0, 2), (0, 3), (0, 1)])
    assert divide(data, test=0.34, by="file") == [[[1, 2]], [[]], [[3]]]


def test_fractions_are_rounded_down_but_not_by_the_last_bit_of_a_product():
    for n_items, fraction, expected in ((10, 0.3, 3), (5, 0.2, 1), (4, 0.2, 0), (100, 0.29, 29)):
        data = interactions([(0, item) for item in range(n_items)])
        _, _, test = divide(data, test=fraction, validation=0.1, by="file")
        assert len(test[0]) == expected


def test_random_validation_leaves_the_test_items_alone_and_follows_the_seed():
    data = interactions([(user, item) for user in range(3) for item in range(40)])
    options = {"test": 0.25, "validation": 0.2, "by": "file", "validation_by": "random"}
    first, again, other = (divide(data, seed, **options) for seed in (1, 1, 2))
    assert first == again
    assert first[1] != other[1]
    for found in (first, other):
        assert found[2] == [list(range(30, 40))] * 3
        assert [len(items) for items in found[1]] == [6] * 3
        assert found[1] != [list(range(24, 30))] * 3
        assert [sorted(a + b) for a, b in zip(*found[:2], strict=True)] == [list(range(30))] * 3


def test_nothing_held_out_is_refused():
    with pytest.raises(ValidationError, match="test and validation are both 0"):
        divide(interactions(LINES), test=0)


@pytest.mark.realdata
@pytest.mark.full
def test_movielens_1m_by_file_is_the_split_of_the_public_code():
    split = load_split("movielens-1m", {"path": str(real("ml-1m"))}, "last", {"test": 0.2, "by": "file"}, 1)
    assert (
        len(split.test.values) == 197_656
    )  # and 802,552 to train: that code takes the first line for a header
    assert len(split.train.values) == 802_553
    popular = np.bincount(split.train.values, minlength=split.n_items)
    found = []
    for user in range(split.n_users):
        scores = popular.copy()
        scores[split.train[user]] = -1
        best = np.argpartition(-scores, 20)[:20]
        found.append(np.isin(best, split.test[user]).sum() / len(split.test[user]))
    assert np.mean(found) == pytest.approx(0.0175, abs=2e-4)  # 0.112 of a random fifth
