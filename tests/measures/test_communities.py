"""Ground truth communities by Jaccard similarity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossiprec.base.errors import ScenarioError
from gossiprec.base.ragged import Ragged
from gossiprec.measures import communities
from gossiprec.measures.communities import jaccard_communities
from tests.chances import chances

N_ITEMS = 6
item_lists = st.lists(st.lists(st.integers(0, N_ITEMS - 1), max_size=8), min_size=2, max_size=7)


def packed(item_lists):
    return Ragged.from_parts([np.array(items, np.int64) for items in item_lists])


def by_definition(item_lists, k):
    """Return each one's membership in every community, by exact similarities with set arithmetic."""
    sets = [frozenset(items) for items in item_lists]

    def similarity(a, b):
        return len(a & b) / len(a | b) if a | b else 0.0

    rows = []
    for user, own in enumerate(sets):
        others = {other: similarity(own, sets[other]) for other in range(len(sets)) if other != user}
        members = chances(others, k)
        rows.append([float(members.get(other, 0)) for other in range(len(sets))])
    return np.array(rows)


def test_a_hand_worked_network():
    lists = [[0, 1, 2], [0, 1], [2, 3], [0, 1, 2, 3]]
    # user 0: 2/3 with 1, 1/4 with 2, 3/4 with 3; user 2: 1/4 with 0, 0 with 1, 2/4 with 3; user 3: 2/4 with 1 and 2
    found = jaccard_communities(packed(lists), n_items=4, k=2)
    assert found.membership_matrix().tolist() == [[0, 1, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 0.5, 0.5, 0]]
    assert found.tied_fractions.tolist() == [0, 0, 0, 0.5]


def test_users_tied_at_the_border_are_members_by_equal_fractions():
    found = jaccard_communities(packed([[0], [1], [1], [1]]), n_items=2, k=1)
    half, third = 1 / 2, 1 / 3
    assert found.membership_matrix().tolist() == [
        [0, third, third, third],
        [0, 0, half, half],
        [0, half, 0, half],
        [0, half, half, 0],
    ]
    assert found.tied_fractions.tolist() == [1, 1, 1, 1]


def test_what_has_no_tie_at_the_border_is_whole():
    found = jaccard_communities(packed([[0], [1], [1], [1]]), n_items=2, k=2)
    assert found.membership_matrix()[1].tolist() == [0, 0, 1, 1]
    assert found.tied_fractions.tolist() == [1, 0, 0, 0]


def test_ties_are_not_stored_for_every_user():
    """Of a thousand users without a common item each community is one entry, the user itself, and a fraction."""
    n = 1000
    found = jaccard_communities(packed([[item] for item in range(n)]), n_items=n, k=50)
    assert found.values.tolist() == list(range(n))
    assert (found.rest == 50 / (n - 1)).all()


@pytest.mark.slow
@given(item_lists, st.integers(1, 6), st.permutations(range(7)))
def test_names_of_users_are_no_matter(lists, k, order):
    k, order = min(k, len(lists) - 1), [user for user in order if user < len(lists)]
    found = jaccard_communities(packed(lists), n_items=N_ITEMS, k=k).membership_matrix()
    renamed = jaccard_communities(
        packed([lists[user] for user in order]), n_items=N_ITEMS, k=k
    ).membership_matrix()
    assert (renamed == found[np.ix_(order, order)]).all()


def test_nobody_is_in_their_own_community():
    found = jaccard_communities(packed([[0]] * 5), n_items=1, k=4)
    assert found.membership_matrix().tolist() == (1 - np.eye(5)).tolist()


@pytest.mark.slow
@given(item_lists, st.integers(1, 6), st.sampled_from([1, 13, 2_000_000]))
def test_agrees_with_set_arithmetic_whatever_the_block(lists, k, cells):
    k = min(k, len(lists) - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(communities, "BLOCK_CELLS", cells)
        found = jaccard_communities(packed(lists), n_items=N_ITEMS, k=k)
    assert found.membership_matrix() == pytest.approx(by_definition(lists, k))
    certain = found.membership_matrix() == 1
    assert found.tied_fractions == pytest.approx(1 - certain.sum(axis=1) / k)


@pytest.mark.parametrize("k", [0, 3])
def test_a_community_larger_than_the_others_is_refused(k):
    with pytest.raises(ScenarioError, match=f"community_size is {k}.*between 1 and 2"):
        jaccard_communities(packed([[0], [0], [0]]), n_items=1, k=k)
