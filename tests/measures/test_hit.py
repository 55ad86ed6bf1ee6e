"""Hit rate: users with something they want in their list."""

import numpy as np

from gossiprec.measures import MEASURES
from tests.measures.lists import side_by_side

LISTS = side_by_side([np.array(ranks) for ranks in ([0, 1, 9], [4], [5, 6])])


def test_one_hit_is_as_good_as_many():
    assert MEASURES["hit"].compute_values(LISTS, 5).tolist() == [1.0, 1.0, 0.0]
    assert MEASURES["hit"].compute_values(LISTS, 4).tolist() == [1.0, 0.0, 0.0]


def test_with_one_test_item_for_each_user_it_is_recall():
    ones = side_by_side([np.array([rank]) for rank in (0, 3, 4, 5, 17)])
    assert (
        MEASURES["hit"].compute_values(ones, 5).tolist()
        == MEASURES["recall"].compute_values(ones, 5).tolist()
    )
    assert (
        MEASURES["hit"].compute_values(LISTS, 5).tolist()
        != MEASURES["recall"].compute_values(LISTS, 5).tolist()
    )
