"""Precision: how much of the list is wanted."""

import numpy as np
import pytest

from gossiprec.measures import MEASURES
from tests.measures.lists import side_by_side


def test_hits_are_divided_by_the_length_of_the_list_not_by_what_was_wanted():
    lists = side_by_side([np.array(ranks) for ranks in ([0, 1, 9], [4], [5, 6])])
    assert MEASURES["precision"].compute_values(lists, 5) == pytest.approx([0.4, 0.2, 0.0])


def test_f1_is_its_harmonic_mean_with_recall():
    lists = side_by_side([np.array(ranks) for ranks in ([0, 1, 9], [4], [2, 3, 5, 6])])
    precision, recall, f1 = (
        MEASURES[name].compute_values(lists, 5) for name in ("precision", "recall", "f1")
    )
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall))
