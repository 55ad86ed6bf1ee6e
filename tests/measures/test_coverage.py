"""Catalogue coverage: how many different items anybody is shown."""

import numpy as np

from gossiprec.measures import MEASURES, TopItems

LISTS = TopItems(np.array([[4, 1, 0], [4, 2, -1], [1, 4, -1]], np.int32), 10)


def test_an_item_counts_once_however_many_see_it():
    assert np.flatnonzero(MEASURES["coverage"].compute_values(LISTS, 2)).tolist() == [1, 2, 4]
    assert MEASURES["coverage"].compute_values(LISTS, 1).mean() == 0.2


def test_a_list_that_has_ended_shows_nothing():
    assert np.flatnonzero(MEASURES["coverage"].compute_values(LISTS, 3)).tolist() == [0, 1, 2, 4]
