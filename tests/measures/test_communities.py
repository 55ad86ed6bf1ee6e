"""Ground truth communities by Jaccard similarity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.errors import ScenarioError
from gossiprec.measures import communities
from gossiprec.measures.communities import jaccard_communities
from gossiprec.ragged import Ragged

N_ITEMS = 6
item_lists = st.lists(st.lists(st.integers(0, N_ITEMS - 1), max_size=8), min_size=2, max_size=7)


def packed(item_lists):
    return Ragged.from_parts([np.array(items, np.int64) for items in item_lists])


def by_definition(item_lists, k):
    """Sort the others by exact similarity with set arithmetic; Python's sort is stable."""
    sets = [frozenset(items) for items in item_lists]

    def similarity(a, b):
        return len(a & b) / len(a | b) if a | b else 0.0

    rows = []
    for user, own in enumerate(sets):
        others = [other for other in range(len(sets)) if other != user]
        rows.append(sorted(others, key=lambda other: -similarity(own, sets[other]))[:k])
    return rows


def test_a_hand_worked_network():
    lists = [[0, 1, 2], [0, 1], [2, 3], [0, 1, 2, 3]]
    # user 0: 2/3 with 1, 1/4 with 2, 3/4 with 3; user 2: 1/4 with 0, 0 with 1, 2/4 with 3
    found = jaccard_communities(packed(lists), n_items=4, k=2)
    assert found.tolist() == [[3, 1], [0, 3], [3, 0], [0, 1]]


def test_ties_go_to_the_lower_id():
    assert jaccard_communities(packed([[0], [1], [1], [1]]), n_items=2, k=2).tolist() == [
        [1, 2],
        [2, 3],
        [1, 3],
        [1, 2],
    ]


def test_nobody_is_in_their_own_community():
    found = jaccard_communities(packed([[0]] * 5), n_items=1, k=4)
    assert not (found == np.arange(5)[:, None]).any()


@given(item_lists, st.integers(1, 6), st.sampled_from([1, 13, 2_000_000]))
def test_agrees_with_set_arithmetic_whatever_the_block(lists, k, cells):
    k = min(k, len(lists) - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(communities, "BLOCK_CELLS", cells)
        found = jaccard_communities(packed(lists), n_items=N_ITEMS, k=k)
    assert found.tolist() == by_definition(lists, k)


@pytest.mark.parametrize("k", [0, 3])
def test_a_community_larger_than_the_others_is_refused(k):
    with pytest.raises(ScenarioError, match=f"community_size is {k}.*between 1 and 2"):
        jaccard_communities(packed([[0], [0], [0]]), n_items=1, k=k)
