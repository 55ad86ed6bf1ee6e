"""Shared bandwidth, against queueing worked out by hand and against the slow way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.network.sim.fair_share import FairShare
from tests.sim.worlds_of_messages import fair_sharing


def ends(starts, *, up, down, sizes, cuts=None):
    """Return when each transfer (time, sender, receiver) ends, and whether it is whole."""
    sharing = FairShare(np.array(up, float), np.array(down, float), np.array(sizes, float), compiled=False)
    time, sender, receiver = (np.array(column) for column in zip(*starts, strict=True))
    cut = np.full(len(starts), math.inf) if cuts is None else np.array(cuts)
    ticket, when, whole = sharing.add_and_advance(
        time.astype(float), np.arange(len(starts)), sender, receiver, cut, 1e9
    )
    order = np.argsort(ticket)
    return when[order].tolist(), whole[order].tolist()


FAST = 1e9


def test_a_transfer_alone_takes_its_size_over_the_slower_end():
    assert ends([(1.0, 0, 1)], up=[10, 10], down=[4, 4], sizes=[20, 0])[0] == [6.0]


def test_two_uploads_share_and_the_second_speeds_up_when_the_first_ends():
    """10 bytes each at 10 a unit. A alone for 0.5 (5 left); both at 5 until 1.5, when A ends; B has 5 left: 2.0."""
    assert ends([(0.0, 0, 1), (0.5, 0, 2)], up=[10] * 3, down=[FAST] * 3, sizes=[10] * 3)[0] == [1.5, 2.0]


def test_two_downloads_share_alike():
    assert ends([(0.0, 1, 0), (0.5, 2, 0)], up=[FAST] * 3, down=[10] * 3, sizes=[10] * 3)[0] == [1.5, 2.0]


def test_each_end_limits_by_its_own_number_of_transfers():
    """0 sends to 1 and 2 (up 12, so 6 each); 3 sends to 2 (down 8, so 4 each for both of them).

    0 to 1: 12 bytes at 6, ends at 2. 0 to 2: 12 at 4; 3 to 2: 8 at 4, ends at 2. At 2 the transfer 0 to 2 has 4 left
    and both ends to itself: min(12, 8) = 8, ends at 2.5.
    """
    starts = [(0.0, 0, 1), (0.0, 0, 2), (0.0, 3, 2)]
    sizes = [12, 0, 0, 8]

    assert ends(starts, up=[12, 1, 1, 10], down=[FAST, FAST, 8, 1], sizes=sizes)[0] == [2.0, 2.5, 2.0]


def test_all_of_a_star_end_together():
    n = 200
    starts = [(0.0, n, k) for k in range(n)]

    assert set(ends(starts, up=[1.0] * n + [50.0], down=[FAST] * (n + 1), sizes=[1.0] * (n + 1))[0]) == {4.0}


def test_unlimited_ends_send_at_once_without_a_product_of_infinity_and_zero():
    with np.errstate(all="raise"):
        found = ends([(1.0, 0, 1), (1.0, 0, 2)], up=[math.inf] * 3, down=[math.inf] * 3, sizes=[10] * 3)

    assert found == ([1.0, 1.0], [True, True])


def test_a_sender_that_goes_breaks_off_and_frees_the_other_end():
    """Both download at 5 from 0. Node 1 goes at 1, with 5 bytes through. Node 2 has 5 left, alone: ends at 1.5."""
    starts = [(0.0, 1, 0), (0.0, 2, 0)]

    when, whole = ends(starts, up=[FAST] * 3, down=[10] * 3, sizes=[10] * 3, cuts=[1.0, math.inf])

    assert (when, whole) == ([1.0, 1.5], [False, True])


def test_what_ends_makes_room_before_what_starts_at_the_same_time():
    assert ends([(0.0, 0, 1), (1.0, 0, 2)], up=[10] * 3, down=[FAST] * 3, sizes=[10] * 3)[0] == [1.0, 2.0]


rates = st.sampled_from([1.0, 3.0, 7.5, 20.0])
transfers = st.lists(
    st.tuples(st.floats(0.0, 5.0), st.integers(0, 3), st.integers(0, 3)).filter(lambda t: t[1] != t[2]),
    min_size=1,
    max_size=14,
)


@settings(max_examples=200, deadline=None)
@given(starts=transfers, up=st.tuples(*[rates] * 4), down=st.tuples(*[rates] * 4))
@pytest.mark.full
def test_transfers_end_when_the_slow_way_says(starts, up, down):
    sizes = [2.0, 3.0, 5.0, 7.0]
    slow = fair_sharing([(*start, sizes[start[1]]) for start in starts], up, down)

    assert ends(starts, up=up, down=down, sizes=sizes)[0] == pytest.approx(slow, abs=1e-6)


@pytest.mark.slow
def test_more_transfers_than_places_make_room():
    n = 300
    starts = [(0.001 * k, k, n) for k in range(n)]
    when, whole = ends(starts, up=[FAST] * (n + 1), down=[FAST] * n + [float(n)], sizes=[1.0] * (n + 1))

    assert all(whole)
    assert max(when) == pytest.approx(1.0)  # n bytes through n a unit, never idle
