"""Mean reciprocal rank: how far down the first hit stands."""

import numpy as np
import pytest

from gossiprec.measures import MEASURES
from gossiprec.measures.selectors import read_metric
from tests.measures.lists import side_by_side


def test_the_first_hit_alone_counts_and_only_above_the_cut():
    lists = side_by_side([np.array(ranks) for ranks in ([0, 1, 9], [4, 5], [5, 6])])
    assert MEASURES["mrr"].compute_values(lists, 5) == pytest.approx([1.0, 1 / 5, 0.0])


def test_it_is_of_sampled_items_unless_all_are_asked_for():
    assert not read_metric("mrr@10").full
    assert read_metric("full_mrr@10").full
